ctl_tests = \
  tests/unit/daemon/ctl/ctl_test \
  tests/unit/daemon/ctl/ctl_verify_test \
  tests/unit/daemon/ctl/node_adopt_test \
  tests/unit/daemon/ctl/node_view_test \
  tests/unit/daemon/ctl/status_view_test
test_links += $(ctl_tests)
check_PROGRAMS += tests/unit/daemon/ctl/ctl_tests
$(ctl_tests): tests/unit/daemon/ctl/ctl_tests
	$(LINK_TEST)
tests_unit_daemon_ctl_ctl_tests_SOURCES = \
  tests/unit/daemon/ctl/ctl_room.c tests/unit/daemon/ctl/ctl_room.h \
  tests/unit/daemon/ctl/ctl_test.c \
  tests/unit/daemon/ctl/ctl_verify_test.c \
  tests/unit/daemon/ctl/node_adopt_test.c \
  tests/unit/daemon/ctl/node_view_test.c \
  tests/unit/daemon/ctl/status_view_test.c
tests_unit_daemon_ctl_ctl_tests_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hsp_remote_ask \
  -Wl,--wrap=hsp_remote_ask_json
tests_unit_daemon_ctl_ctl_tests_LDADD = $(TEST_LIBS) $(CTL_LIBS)
