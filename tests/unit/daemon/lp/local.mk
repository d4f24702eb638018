check_PROGRAMS += tests/unit/daemon/lp/lp_test
TESTS += tests/unit/daemon/lp/lp_test
tests_unit_daemon_lp_lp_test_LDADD = $(TEST_LIBS) $(LP_LIBS) $(BASE_LIBS)
