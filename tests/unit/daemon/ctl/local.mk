ctl_tests = tests/unit/daemon/ctl/ctl_test tests/unit/daemon/ctl/node_view_test tests/unit/daemon/ctl/status_view_test
check_PROGRAMS += $(ctl_tests)
TESTS += $(ctl_tests)
tests_unit_daemon_ctl_ctl_test_LDADD = $(TEST_LIBS) $(CTL_LIBS)
tests_unit_daemon_ctl_node_view_test_LDADD = $(TEST_LIBS) $(CTL_LIBS)
tests_unit_daemon_ctl_status_view_test_LDADD = $(TEST_LIBS) $(CTL_LIBS)
