check_PROGRAMS += tests/unit/ctl/ctl_test tests/unit/ctl/nodeview_test
TESTS += tests/unit/ctl/ctl_test tests/unit/ctl/nodeview_test
tests_unit_ctl_ctl_test_LDADD = $(TEST_LIBS) $(CTL_LIBS)
tests_unit_ctl_nodeview_test_LDADD = $(TEST_LIBS) $(CTL_LIBS)
