ctl_tests = tests/unit/ctl/ctl_test tests/unit/ctl/nodeview_test tests/unit/ctl/statusview_test
check_PROGRAMS += $(ctl_tests)
TESTS += $(ctl_tests)
tests_unit_ctl_ctl_test_LDADD = $(TEST_LIBS) $(CTL_LIBS)
tests_unit_ctl_nodeview_test_LDADD = $(TEST_LIBS) $(CTL_LIBS)
tests_unit_ctl_statusview_test_LDADD = $(TEST_LIBS) $(CTL_LIBS)
