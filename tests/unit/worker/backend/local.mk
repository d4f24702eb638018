backend_tests = \
  tests/unit/worker/backend/blocks_test \
  tests/unit/worker/backend/conformance_test \
  tests/unit/worker/backend/device_test \
  tests/unit/worker/backend/gemm_test \
  tests/unit/worker/backend/ghost_test \
  tests/unit/worker/backend/gradient_test
# Every op against the reference, on the backend of the test that includes it.
OP_SUITE = \
  tests/unit/worker/backend/op_suite.c tests/unit/worker/backend/op_suite.h \
  tests/unit/worker/backend/reference_ops.c tests/unit/worker/backend/reference_ops.h
check_PROGRAMS += $(backend_tests)
TESTS += $(backend_tests)
tests_unit_worker_backend_conformance_test_SOURCES = \
  tests/unit/worker/backend/conformance_test.c $(OP_SUITE)
tests_unit_worker_backend_conformance_test_LDADD = $(BACKEND_LIBS) $(LDADD)
# Skipped without a GPU; scripts/gpu-check brings it to one.
tests_unit_worker_backend_device_test_SOURCES = \
  tests/unit/worker/backend/device_test.c $(OP_SUITE)
tests_unit_worker_backend_device_test_LDADD = $(BACKEND_LIBS) $(LDADD)
tests_unit_worker_backend_ghost_test_LDADD = tests/lib/libghost.a $(BACKEND_LIBS) $(LDADD)
tests_unit_worker_backend_gradient_test_LDADD = $(BACKEND_LIBS) $(LDADD)
tests_unit_worker_backend_gemm_test_LDADD = $(BACKEND_LIBS) $(LDADD)
BLOCK_SUITE = tests/unit/worker/backend/block_suite.c tests/unit/worker/backend/block_suite.h
tests_unit_worker_backend_blocks_test_SOURCES = tests/unit/worker/backend/blocks_test.c $(BLOCK_SUITE)
tests_unit_worker_backend_blocks_test_LDADD = $(BACKEND_LIBS) $(LDADD)
