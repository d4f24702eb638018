check_PROGRAMS += tests/unit/ctl/ctl_test
TESTS += tests/unit/ctl/ctl_test
tests_unit_ctl_ctl_test_LDADD = $(TEST_LIBS) $(CTL_LIBS)
