host_tests = \
  tests/unit/proto/host/file_io_test \
  tests/unit/proto/host/log_test \
  tests/unit/proto/host/open_files_limit_test \
  tests/unit/proto/host/sd_notify_test \
  tests/unit/proto/host/uv_signal_test
test_links += $(host_tests)
check_PROGRAMS += tests/unit/proto/host/host_tests
$(host_tests): tests/unit/proto/host/host_tests
	$(LINK_TEST)
tests_unit_proto_host_host_tests_SOURCES = \
  tests/unit/proto/host/file_io_test.c \
  tests/unit/proto/host/log_test.c \
  tests/unit/proto/host/open_files_limit_test.c \
  tests/unit/proto/host/sd_notify_test.c \
  tests/unit/proto/host/uv_signal_test.c
tests_unit_proto_host_host_tests_LDADD = $(TEST_LIBS) $(HOST_LIBS)
