daemonapp_tests = \
  tests/unit/daemonapp/daemon_config_test \
  tests/unit/daemonapp/store_test
check_PROGRAMS += $(daemonapp_tests)
TESTS += $(daemonapp_tests)
tests_unit_daemonapp_daemon_config_test_LDADD = $(TEST_LIBS) $(DAEMONAPP_LIBS)
tests_unit_daemonapp_store_test_LDADD = $(TEST_LIBS) $(DAEMONAPP_LIBS)
