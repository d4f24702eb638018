daemonapp_tests = \
  tests/unit/daemon/app/check_doc_test \
  tests/unit/daemon/app/daemon_config_test \
  tests/unit/daemon/app/epoch_package_test \
  tests/unit/daemon/app/event_line_test \
  tests/unit/daemon/app/event_order_test \
  tests/unit/daemon/app/hspmdd_dies_test \
  tests/unit/daemon/app/job_record_test \
  tests/unit/daemon/app/prometheus_test \
  tests/unit/daemon/app/plan_request_test \
  tests/unit/daemon/app/status_doc_test \
  tests/unit/daemon/app/store_test \
  tests/unit/daemon/app/tensorboard_event_test \
  tests/unit/daemon/app/trace_doc_test \
  tests/unit/daemon/app/commit_test
check_PROGRAMS += $(daemonapp_tests)
TESTS += $(daemonapp_tests)
APPLIB = tests/unit/daemon/app/app_lib.c tests/unit/daemon/app/app_lib.h
DAEMONAPP_TEST_LIBS = $(TEST_LIBS) $(DAEMONAPP_LIBS)
tests_unit_daemon_app_check_doc_test_SOURCES = tests/unit/daemon/app/check_doc_test.c $(APPLIB)
tests_unit_daemon_app_check_doc_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemon_app_daemon_config_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemon_app_epoch_package_test_SOURCES = tests/unit/daemon/app/epoch_package_test.c $(APPLIB)
tests_unit_daemon_app_epoch_package_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemon_app_event_line_test_LDADD = $(DAEMONAPP_TEST_LIBS)
# The core, the pool and the clock are played by the test.
tests_unit_daemon_app_event_order_test_SOURCES = tests/unit/daemon/app/event_order_test.c $(APPLIB)
tests_unit_daemon_app_event_order_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hsp_cluster_step \
  -Wl,--wrap=hsp_app_send -Wl,--wrap=hsp_app_queue -Wl,--wrap=uv_hrtime
tests_unit_daemon_app_event_order_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemon_app_hspmdd_dies_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemon_app_job_record_test_SOURCES = tests/unit/daemon/app/job_record_test.c $(APPLIB)
tests_unit_daemon_app_job_record_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemon_app_plan_request_test_SOURCES = tests/unit/daemon/app/plan_request_test.c $(APPLIB)
tests_unit_daemon_app_plan_request_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hsp_plan_rec_make
tests_unit_daemon_app_plan_request_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemon_app_status_doc_test_SOURCES = tests/unit/daemon/app/status_doc_test.c $(APPLIB)
tests_unit_daemon_app_status_doc_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemon_app_store_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemon_app_prometheus_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemon_app_tensorboard_event_test_LDADD = $(DAEMONAPP_TEST_LIBS)
# Of its room only commit.c: what it calls is played by the test.
tests_unit_daemon_app_commit_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=uv_hrtime
tests_unit_daemon_app_commit_test_LDADD = $(DAEMONAPP_TEST_LIBS)
tests_unit_daemon_app_trace_doc_test_SOURCES = tests/unit/daemon/app/trace_doc_test.c $(PART_SAMPLE)
tests_unit_daemon_app_trace_doc_test_LDADD = $(DAEMONAPP_TEST_LIBS)
