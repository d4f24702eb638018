check_PROGRAMS += tests/unit/lp/lp_test
TESTS += tests/unit/lp/lp_test
tests_unit_lp_lp_test_LDADD = $(TEST_LIBS) $(LP_LIBS) $(BASE_LIBS)
