ADOPT_SAMPLE = tests/unit/daemon/app/adopt_sample.c tests/unit/daemon/app/adopt_sample.h
CKPT_MODEL = tests/unit/daemon/app/ckpt_model.h tests/unit/daemon/app/ckpt_truth.c tests/unit/daemon/app/ckpt_play.c \
  $(CLUSTER_WORLD)
daemonapp_tests = \
  tests/unit/daemon/app/adoption_test \
  tests/unit/daemon/app/check_doc_test \
  tests/unit/daemon/app/ckpt_answers_test \
  tests/unit/daemon/app/ckpt_model_test \
  tests/unit/daemon/app/daemon_config_test \
  tests/unit/daemon/app/dispatch_test \
  tests/unit/daemon/app/epoch_package_test \
  tests/unit/daemon/app/event_line_test \
  tests/unit/daemon/app/first_store_test \
  tests/unit/daemon/app/hspmdd_dies_test \
  tests/unit/daemon/app/httpd_test \
  tests/unit/daemon/app/job_record_test \
  tests/unit/daemon/app/places_test \
  tests/unit/daemon/app/plan_links_test \
  tests/unit/daemon/app/plan_request_test \
  tests/unit/daemon/app/prometheus_test \
  tests/unit/daemon/app/rebuild_test \
  tests/unit/daemon/app/refusals_test \
  tests/unit/daemon/app/state_folder_test \
  tests/unit/daemon/app/status_doc_test \
  tests/unit/daemon/app/status_state_test \
  tests/unit/daemon/app/status_steps_test \
  tests/unit/daemon/app/store_restore_test \
  tests/unit/daemon/app/store_schema_test \
  tests/unit/daemon/app/store_test \
  tests/unit/daemon/app/tensorboard_event_test \
  tests/unit/daemon/app/trace_doc_test
test_links += $(daemonapp_tests)
check_PROGRAMS += tests/unit/daemon/app/app_tests
$(daemonapp_tests): tests/unit/daemon/app/app_tests
	$(LINK_TEST)
tests_unit_daemon_app_app_tests_SOURCES = \
  tests/unit/daemon/app/adoption_test.c $(ADOPT_SAMPLE) \
  tests/unit/daemon/app/check_doc_test.c \
  tests/unit/daemon/app/ckpt_answers_test.c \
  tests/unit/daemon/app/ckpt_model_test.c $(CKPT_MODEL) \
  tests/unit/daemon/app/daemon_config_test.c \
  tests/unit/daemon/app/dispatch_test.c \
  tests/unit/daemon/app/epoch_package_test.c \
  tests/unit/daemon/app/event_line_test.c \
  tests/unit/daemon/app/first_store_test.c \
  tests/unit/daemon/app/hspmdd_dies_test.c \
  tests/unit/daemon/app/httpd_test.c \
  tests/unit/daemon/app/job_record_test.c \
  tests/unit/daemon/app/places_test.c \
  tests/unit/daemon/app/plan_links_test.c \
  tests/unit/daemon/app/plan_request_test.c \
  tests/unit/daemon/app/prometheus_test.c \
  tests/unit/daemon/app/rebuild_test.c \
  tests/unit/daemon/app/refusals_test.c \
  tests/unit/daemon/app/state_folder_test.c \
  tests/unit/daemon/app/status_doc_test.c \
  tests/unit/daemon/app/status_lib.c tests/unit/daemon/app/status_lib.h \
  tests/unit/daemon/app/status_state_test.c \
  tests/unit/daemon/app/status_steps_test.c \
  tests/unit/daemon/app/store_lib.c tests/unit/daemon/app/store_lib.h \
  tests/unit/daemon/app/store_restore_test.c \
  tests/unit/daemon/app/store_schema_test.c \
  tests/unit/daemon/app/store_test.c \
  tests/unit/daemon/app/tensorboard_event_test.c \
  tests/unit/daemon/app/trace_doc_test.c \
  tests/unit/daemon/app/app_lib.c tests/unit/daemon/app/app_lib.h $(PART_SAMPLE)
tests_unit_daemon_app_app_tests_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hsp_plan_rec_make -Wl,--wrap=rename
tests_unit_daemon_app_app_tests_LDADD = $(TEST_LIBS) $(DAEMONAPP_LIBS)
# Of the room only the commit: the test plays the functions that it calls.
check_PROGRAMS += tests/unit/daemon/app/commit_test
TESTS += tests/unit/daemon/app/commit_test
tests_unit_daemon_app_commit_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=uv_hrtime
tests_unit_daemon_app_commit_test_LDADD = $(TEST_LIBS) $(DAEMONAPP_LIBS)
# The core, the pool and the clock are played by the test.
check_PROGRAMS += tests/unit/daemon/app/event_order_test
TESTS += tests/unit/daemon/app/event_order_test
tests_unit_daemon_app_event_order_test_SOURCES = tests/unit/daemon/app/event_order_test.c \
  tests/unit/daemon/app/app_lib.c tests/unit/daemon/app/app_lib.h
tests_unit_daemon_app_event_order_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hsp_cluster_step \
  -Wl,--wrap=hsp_app_send -Wl,--wrap=hsp_app_reply -Wl,--wrap=hsp_app_queue -Wl,--wrap=uv_hrtime
tests_unit_daemon_app_event_order_test_LDADD = $(TEST_LIBS) $(DAEMONAPP_LIBS)
