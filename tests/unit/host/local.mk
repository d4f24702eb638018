host_tests = \
  tests/unit/host/fileio_test \
  tests/unit/host/log_test \
  tests/unit/host/nofile_test \
  tests/unit/host/sdnotify_test \
  tests/unit/host/uvsignal_test
check_PROGRAMS += $(host_tests)
TESTS += $(host_tests)
tests_unit_host_fileio_test_LDADD = $(TEST_LIBS) $(HOST_LIBS)
tests_unit_host_log_test_LDADD = $(TEST_LIBS) $(HOST_LIBS)
tests_unit_host_nofile_test_LDADD = $(TEST_LIBS) $(HOST_LIBS)
tests_unit_host_sdnotify_test_LDADD = $(TEST_LIBS) $(HOST_LIBS)
tests_unit_host_uvsignal_test_LDADD = $(TEST_LIBS) $(HOST_LIBS)
