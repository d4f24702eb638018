workerapp_tests = tests/unit/workerapp/worker_config_test tests/unit/workerapp/runfile_test
check_PROGRAMS += $(workerapp_tests)
TESTS += $(workerapp_tests)
tests_unit_workerapp_worker_config_test_LDADD = $(TEST_LIBS) $(WORKERCONFIG_LIBS)
tests_unit_workerapp_runfile_test_CPPFLAGS = $(AM_CPPFLAGS) $(CJSON_CFLAGS)
tests_unit_workerapp_runfile_test_LDADD = $(TEST_LIBS) daemon/spmd/libspmd.a \
  daemon/graph/libgraph.a proto/program/libprogram.a proto/layout/liblayout.a $(WORKERAPP_LIBS) \
  $(TEXT_LIBS)
