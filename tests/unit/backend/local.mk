backend_tests = \
  tests/unit/backend/blocks_test \
  tests/unit/backend/conformance_test \
  tests/unit/backend/device_test \
  tests/unit/backend/gemm_test \
  tests/unit/backend/ghost_test \
  tests/unit/backend/gradcheck_test
# Every op against the reference, on the backend of the test that includes it.
OP_SUITE = \
  tests/unit/backend/opsuite.c tests/unit/backend/opsuite.h \
  tests/unit/backend/refops.c tests/unit/backend/refops.h
check_PROGRAMS += $(backend_tests)
TESTS += $(backend_tests)
tests_unit_backend_conformance_test_SOURCES = \
  tests/unit/backend/conformance_test.c $(OP_SUITE)
tests_unit_backend_conformance_test_LDADD = $(BACKEND_LIBS) $(LDADD)
# Skipped without a GPU; scripts/gpu-check brings it to one.
tests_unit_backend_device_test_SOURCES = \
  tests/unit/backend/device_test.c $(OP_SUITE)
tests_unit_backend_device_test_LDADD = $(BACKEND_LIBS) $(LDADD)
tests_unit_backend_ghost_test_LDADD = tests/lib/libghost.a $(BACKEND_LIBS) $(LDADD)
tests_unit_backend_gradcheck_test_LDADD = $(BACKEND_LIBS) $(LDADD)
tests_unit_backend_gemm_test_LDADD = $(BACKEND_LIBS) $(LDADD)
BLOCK_SUITE = tests/unit/backend/blocksuite.c tests/unit/backend/blocksuite.h
tests_unit_backend_blocks_test_SOURCES = tests/unit/backend/blocks_test.c $(BLOCK_SUITE)
tests_unit_backend_blocks_test_LDADD = $(BACKEND_LIBS) $(LDADD)
