daemonapp_tests = \
  tests/unit/daemonapp/checkdoc_test \
  tests/unit/daemonapp/daemon_config_test \
  tests/unit/daemonapp/epochplan_test \
  tests/unit/daemonapp/feed_test \
  tests/unit/daemonapp/hspmddies_test \
  tests/unit/daemonapp/jobrec_test \
  tests/unit/daemonapp/metrics_test \
  tests/unit/daemonapp/planwork_test \
  tests/unit/daemonapp/statusdoc_test \
  tests/unit/daemonapp/store_test \
  tests/unit/daemonapp/tbevent_test \
  tests/unit/daemonapp/tracedoc_test \
  tests/unit/daemonapp/writing_test
check_PROGRAMS += $(daemonapp_tests)
TESTS += $(daemonapp_tests)
APPLIB = tests/unit/daemonapp/applib.c tests/unit/daemonapp/applib.h
DAEMONAPP_TEST_LIBS = $(TEST_LIBS) $(DAEMONAPP_LIBS)
tests_unit_daemonapp_checkdoc_test_SOURCES = tests/unit/daemonapp/checkdoc_test.c $(APPLIB)
tests_unit_daemonapp_checkdoc_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemonapp_daemon_config_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemonapp_epochplan_test_SOURCES = tests/unit/daemonapp/epochplan_test.c $(APPLIB)
tests_unit_daemonapp_epochplan_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemonapp_feed_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemonapp_hspmddies_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemonapp_jobrec_test_SOURCES = tests/unit/daemonapp/jobrec_test.c $(APPLIB)
tests_unit_daemonapp_jobrec_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemonapp_planwork_test_SOURCES = tests/unit/daemonapp/planwork_test.c $(APPLIB)
tests_unit_daemonapp_planwork_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hsp_plan_rec_make
tests_unit_daemonapp_planwork_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemonapp_statusdoc_test_SOURCES = tests/unit/daemonapp/statusdoc_test.c $(APPLIB)
tests_unit_daemonapp_statusdoc_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemonapp_store_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemonapp_metrics_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemonapp_tbevent_test_LDADD = $(DAEMONAPP_TEST_LIBS)
# Of the room only writing.c: what it calls is played by the test.
tests_unit_daemonapp_writing_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=uv_hrtime
tests_unit_daemonapp_writing_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemonapp_tracedoc_test_SOURCES = tests/unit/daemonapp/tracedoc_test.c $(PART_SAMPLE)
tests_unit_daemonapp_tracedoc_test_LDADD = $(DAEMONAPP_TEST_LIBS)
