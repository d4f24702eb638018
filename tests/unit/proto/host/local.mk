host_tests = \
  tests/unit/proto/host/file_io_test \
  tests/unit/proto/host/log_test \
  tests/unit/proto/host/open_files_limit_test \
  tests/unit/proto/host/sd_notify_test \
  tests/unit/proto/host/uv_signal_test
check_PROGRAMS += $(host_tests)
TESTS += $(host_tests)
tests_unit_proto_host_file_io_test_LDADD = $(TEST_LIBS) $(HOST_LIBS)
tests_unit_proto_host_log_test_LDADD = $(TEST_LIBS) $(HOST_LIBS)
tests_unit_proto_host_open_files_limit_test_LDADD = $(TEST_LIBS) $(HOST_LIBS)
tests_unit_proto_host_sd_notify_test_LDADD = $(TEST_LIBS) $(HOST_LIBS)
tests_unit_proto_host_uv_signal_test_LDADD = $(TEST_LIBS) $(HOST_LIBS)
