op_tests = \
  tests/unit/op/bf16_test \
  tests/unit/op/cut_test \
  tests/unit/op/gemmclass_test \
  tests/unit/op/op_test
check_PROGRAMS += $(op_tests)
TESTS += $(op_tests)
op_libs = $(TEST_LIBS) proto/op/libop.a $(BASE_LIBS)
tests_unit_op_bf16_test_LDADD = $(op_libs)
tests_unit_op_cut_test_LDADD = $(op_libs)
tests_unit_op_gemmclass_test_LDADD = $(op_libs)
tests_unit_op_op_test_LDADD = $(op_libs)
