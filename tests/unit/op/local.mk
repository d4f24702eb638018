op_tests = tests/unit/op/op_test
check_PROGRAMS += $(op_tests)
TESTS += $(op_tests)
tests_unit_op_op_test_LDADD = $(TEST_LIBS) proto/op/libop.a $(BASE_LIBS)
