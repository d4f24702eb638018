cuda_tests = \
  tests/unit/cuda/fakecuda_test
check_PROGRAMS += $(cuda_tests)
TESTS += $(cuda_tests)
CUDA_TEST_LIBS = tests/lib/libfakecuda.a $(LDADD)
tests_unit_cuda_fakecuda_test_LDADD = $(CUDA_TEST_LIBS)
