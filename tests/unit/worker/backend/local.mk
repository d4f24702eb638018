# Every op against the reference, on the backend of the test that includes it.
OP_SUITE = tests/unit/worker/backend/op_suite.c tests/unit/worker/backend/op_suite.h \
  tests/unit/worker/backend/reference_ops.c tests/unit/worker/backend/reference_ops.h
HASH_SUITE = tests/unit/worker/backend/hash_suite.c tests/unit/worker/backend/hash_suite.h
BLOCK_SUITE = tests/unit/worker/backend/block_suite.c tests/unit/worker/backend/block_suite.h
# device_test is skipped without a GPU; scripts/gpu-check brings it to one.
backend_tests = \
  tests/unit/worker/backend/blocks_test \
  tests/unit/worker/backend/conformance_test \
  tests/unit/worker/backend/device_test \
  tests/unit/worker/backend/gemm_test \
  tests/unit/worker/backend/mockdev_test \
  tests/unit/worker/backend/gradient_test \
  tests/unit/worker/backend/work_pool_test
test_links += $(backend_tests)
check_PROGRAMS += tests/unit/worker/backend/backend_tests
$(backend_tests): tests/unit/worker/backend/backend_tests
	$(LINK_TEST)
tests_unit_worker_backend_backend_tests_SOURCES = \
  tests/unit/worker/backend/blocks_test.c \
  tests/unit/worker/backend/conformance_test.c \
  tests/unit/worker/backend/device_test.c \
  tests/unit/worker/backend/gemm_test.c \
  tests/unit/worker/backend/mockdev_test.c \
  tests/unit/worker/backend/gradient_test.c \
  tests/unit/worker/backend/work_pool_test.c \
  $(OP_SUITE) $(BLOCK_SUITE) $(HASH_SUITE)
tests_unit_worker_backend_backend_tests_LDADD = tests/lib/libmockdev.a $(BACKEND_LIBS) $(LDADD)
