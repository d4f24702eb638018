spmd_tests = \
  tests/unit/spmd/compile_test
check_PROGRAMS += $(spmd_tests)
TESTS += $(spmd_tests)
spmd_libs = $(TEST_LIBS) $(SPMD_LIBS)
tests_unit_spmd_compile_test_SOURCES = tests/unit/spmd/compile_test.c \
  tests/unit/spmd/machine.c tests/unit/spmd/machine.h
tests_unit_spmd_compile_test_LDADD = $(spmd_libs)
