executor_world = tests/unit/worker/executor/executor_world.c \
  tests/unit/worker/executor/executor_world.h
# Executors run compiled plans of the daemon, so their tests link both.
EXECUTOR_TEST_LIBS = tests/lib/libmockdev.a $(TEST_LIBS) $(EXECUTOR_LIBS) daemon/app/plans/libplans.a \
  $(PLANNER_LIBS) $(EXEC_LIBS) $(WIRE_LIBS) $(HOST_LIBS)
# epoch_nccl_test runs epochs over the fake NCCL. device_executor_test is executor_test on
# devices other than CPUs.
executor_tests = \
  tests/unit/worker/executor/ckpt_choice_test \
  tests/unit/worker/executor/ckpt_writer_test \
  tests/unit/worker/executor/disk_retry_test \
  tests/unit/worker/executor/due_test \
  tests/unit/worker/executor/due_distance_test \
  tests/unit/worker/executor/epoch_checkpoint_test \
  tests/unit/worker/executor/epoch_device_test \
  tests/unit/worker/executor/epoch_hand_over_test \
  tests/unit/worker/executor/epoch_live_test \
  tests/unit/worker/executor/epoch_nccl_test \
  tests/unit/worker/executor/epoch_replicate_test \
  tests/unit/worker/executor/epoch_report_test \
  tests/unit/worker/executor/epoch_segments_test \
  tests/unit/worker/executor/executor_test \
  tests/unit/worker/executor/executor_device_test \
  tests/unit/worker/executor/executor_end_test \
  tests/unit/worker/executor/executor_files_test \
  tests/unit/worker/executor/executor_mount_test \
  tests/unit/worker/executor/executor_stand_test \
  tests/unit/worker/executor/executor_trace_test \
  tests/unit/worker/executor/folder_fault_test \
  tests/unit/worker/executor/heartbeat_test \
  tests/unit/worker/executor/kill_point_test \
  tests/unit/worker/executor/nccl_log_test \
  tests/unit/worker/executor/reaper_test \
  tests/unit/worker/executor/restore_test \
  tests/unit/worker/executor/step_log_test \
  tests/unit/worker/executor/replica_verdict_test \
  tests/unit/worker/executor/segment_pool_test \
  tests/unit/worker/executor/version_slots_test \
  tests/unit/worker/executor/device_executor_test
test_links += $(executor_tests)
check_PROGRAMS += tests/unit/worker/executor/executor_tests
$(executor_tests): tests/unit/worker/executor/executor_tests
	$(LINK_TEST)
tests_unit_worker_executor_executor_tests_SOURCES = \
  tests/unit/worker/executor/ckpt_choice_test.c \
  tests/unit/worker/executor/ckpt_writer_test.c \
  tests/unit/worker/executor/device_world.c tests/unit/worker/executor/device_world.h \
  tests/unit/worker/executor/disk_retry_test.c \
  tests/unit/worker/executor/due_test.c \
  tests/unit/worker/executor/due_distance_test.c \
  tests/unit/worker/executor/epoch_checkpoint_test.c \
  tests/unit/worker/executor/epoch_device_test.c \
  tests/unit/worker/executor/epoch_hand_over_test.c \
  tests/unit/worker/executor/epoch_live_test.c \
  tests/unit/worker/executor/epoch_members.c tests/unit/worker/executor/epoch_members.h \
  tests/unit/worker/executor/epoch_nccl_test.c \
  tests/unit/worker/executor/epoch_replicate_test.c \
  tests/unit/worker/executor/epoch_report_test.c \
  tests/unit/worker/executor/epoch_segments_test.c \
  tests/unit/worker/executor/executor_test.c \
  tests/unit/worker/executor/executor_device_test.c \
  tests/unit/worker/executor/executor_end_test.c \
  tests/unit/worker/executor/executor_files_test.c \
  tests/unit/worker/executor/executor_mount_test.c \
  tests/unit/worker/executor/executor_stand_test.c \
  tests/unit/worker/executor/executor_trace_test.c \
  tests/unit/worker/executor/folder_fault_test.c \
  tests/unit/worker/executor/heartbeat_test.c \
  tests/unit/worker/executor/kill_point_test.c \
  tests/unit/worker/executor/nccl_log_test.c \
  tests/unit/worker/executor/reaper_test.c \
  tests/unit/worker/executor/restore_test.c \
  tests/unit/worker/executor/step_log_test.c \
  tests/unit/worker/executor/replica_verdict_test.c \
  tests/unit/worker/executor/segment_pool_test.c \
  tests/unit/worker/executor/version_slots_test.c \
  $(executor_world) $(NCCL_WORLD) $(TINY_PROG) $(state_test_lib)
tests_unit_worker_executor_executor_tests_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc \
  -Wl,--wrap=hsp_ckpt_stream_open,--wrap=hsp_ckpt_stream_put,--wrap=hsp_ckpt_commit \
  -Wl,--wrap=hsp_ckpt_sweep,--wrap=hsp_ckpt_stream_close \
  -Wl,--wrap=hsp_ckpt_prune,--wrap=hsp_ckpt_abandon,--wrap=hsp_segment_create,--wrap=hsp_epoch_device_leave \
  -Wl,--wrap=hsp_pool_unpin,--wrap=hsp_epoch_device_close,--wrap=hsp_epoch_sources_free \
  -Wl,--wrap=hsp_reaper_hangs,--wrap=hsp_reaper_give,--wrap=hsp_reaper_keep,--wrap=hsp_mockdev_open \
  -Wl,--wrap=hsp_region_copy,--wrap=hsp_ckpt_sign \
  -Wl,--wrap=hsp_epoch_device_save,--wrap=hsp_epoch_device_trim \
  -Wl,--wrap=hsp_state_watch_before,--wrap=hsp_pace_done
EXTRA_tests_unit_worker_executor_executor_tests_DEPENDENCIES = tests/lib/fakenccl/libnccl.so.2
tests_unit_worker_executor_executor_tests_LDADD = $(EXECUTOR_TEST_LIBS)
# Every step of an epoch waits for the test; device_early_test: on devices other than CPUs.
early_tests = \
  tests/unit/worker/executor/executor_early_test \
  tests/unit/worker/executor/device_early_test
test_links += $(early_tests)
check_PROGRAMS += tests/unit/worker/executor/early_tests
$(early_tests): tests/unit/worker/executor/early_tests
	$(LINK_TEST)
tests_unit_worker_executor_early_tests_SOURCES = \
  tests/unit/worker/executor/executor_early_test.c \
  $(executor_world)
tests_unit_worker_executor_early_tests_LDFLAGS = $(AM_LDFLAGS) \
  -Wl,--wrap=hsp_epoch_fetch_rest,--wrap=hsp_epoch_await_confirmed \
  -Wl,--wrap=hsp_epoch_train,--wrap=hsp_epoch_fetch_beside,--wrap=hsp_epoch_abort
tests_unit_worker_executor_early_tests_LDADD = $(EXECUTOR_TEST_LIBS)
# Executors damage their own state at set moments.
damage_tests = \
  tests/unit/worker/executor/damage_draws_test \
  tests/unit/worker/executor/executor_damage_test \
  tests/unit/worker/executor/executor_live_test
test_links += $(damage_tests)
check_PROGRAMS += tests/unit/worker/executor/damage_tests
$(damage_tests): tests/unit/worker/executor/damage_tests
	$(LINK_TEST)
tests_unit_worker_executor_damage_tests_SOURCES = \
  tests/unit/worker/executor/damage_draws_test.c \
  tests/unit/worker/executor/executor_damage_test.c \
  tests/unit/worker/executor/executor_live_test.c \
  tests/unit/worker/executor/damage_world.c tests/unit/worker/executor/damage_world.h \
  tests/unit/worker/executor/damage_drive.c tests/unit/worker/executor/damage_drive.h \
  tests/unit/worker/executor/damage_way.c tests/unit/worker/executor/damage_way.h \
  $(executor_world)
tests_unit_worker_executor_damage_tests_LDFLAGS = $(AM_LDFLAGS) \
  -Wl,--wrap=hsp_epoch_copy_version,--wrap=hsp_epoch_fetch_weights \
  -Wl,--wrap=hsp_epoch_checkpoint,--wrap=hsp_epoch_write_final \
  -Wl,--wrap=hsp_epoch_await_confirmed,--wrap=hsp_replica_check_seal \
  -Wl,--wrap=hsp_epoch_report_step,--wrap=hsp_epoch_restore \
  -Wl,--wrap=hsp_epoch_device_load
tests_unit_worker_executor_damage_tests_LDADD = daemon/cluster/libcluster.a \
  $(EXECUTOR_TEST_LIBS)
