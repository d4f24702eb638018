workerapp_tests = tests/unit/workerapp/worker_config_test
check_PROGRAMS += $(workerapp_tests)
TESTS += $(workerapp_tests)
tests_unit_workerapp_worker_config_test_LDADD = $(TEST_LIBS) $(WORKERCONFIG_LIBS)
