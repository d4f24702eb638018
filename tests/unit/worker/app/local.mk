workerapp_tests = tests/unit/worker/app/worker_config_test tests/unit/worker/run/run_program_test \
  tests/unit/worker/run/documents_test tests/unit/worker/run/run_device_test tests/unit/worker/exec/step_trace_test \
  tests/unit/worker/run/verify_test
check_PROGRAMS += $(workerapp_tests)
TESTS += $(workerapp_tests)
tests_unit_worker_app_worker_config_test_LDADD = $(TEST_LIBS) $(WORKERCONFIG_LIBS)
tests_unit_worker_run_run_device_test_LDADD = $(TEST_LIBS) $(RUN_LIBS)
tests_unit_worker_exec_step_trace_test_SOURCES = tests/unit/worker/exec/step_trace_test.c $(TINY_PROG)
tests_unit_worker_exec_step_trace_test_LDADD = $(TEST_LIBS) worker/executor/libexecutor.a $(EXEC_LIBS) \
  $(WIRE_LIBS)
device_run = tests/unit/worker/run/device_run.c tests/unit/worker/run/device_run.h
tests_unit_worker_run_run_program_test_SOURCES = tests/unit/worker/run/run_program_test.c $(device_run)
tests_unit_worker_run_documents_test_SOURCES = tests/unit/worker/run/documents_test.c $(device_run)
tests_unit_worker_run_run_program_test_CPPFLAGS = $(AM_CPPFLAGS) $(CJSON_CFLAGS)
tests_unit_worker_run_run_program_test_LDADD = tests/lib/libghost.a $(TEST_LIBS) $(COMPILER_LIBS) \
  daemon/graph/libgraph.a proto/program/libprogram.a proto/layout/liblayout.a $(RUN_LIBS) \
  $(TEXT_LIBS)
tests_unit_worker_run_documents_test_CPPFLAGS = $(AM_CPPFLAGS) $(CJSON_CFLAGS)
tests_unit_worker_run_documents_test_LDADD = $(tests_unit_worker_run_run_program_test_LDADD)
tests_unit_worker_run_verify_test_CPPFLAGS = $(AM_CPPFLAGS) $(CJSON_CFLAGS)
tests_unit_worker_run_verify_test_LDADD = $(tests_unit_worker_run_run_program_test_LDADD)

# Ranks on devices that do their work late, over the fake NCCL.
check_PROGRAMS += tests/unit/worker/run/local_nccl_test
TESTS += tests/unit/worker/run/local_nccl_test
tests_unit_worker_run_local_nccl_test_SOURCES = tests/unit/worker/run/local_nccl_test.c \
  tests/unit/worker/comm/nccl_world.c tests/unit/worker/comm/nccl_world.h $(device_run)
tests_unit_worker_run_local_nccl_test_LDADD = $(tests_unit_worker_run_run_program_test_LDADD)
EXTRA_tests_unit_worker_run_local_nccl_test_DEPENDENCIES = tests/lib/fakenccl/libnccl.so.2

workerapp_epoch = tests/unit/worker/executor/restore_test tests/unit/worker/executor/ckpt_choice_test \
  tests/unit/worker/executor/disk_retry_test tests/unit/worker/executor/epoch_segments_test \
  tests/unit/worker/executor/epoch_replicate_test tests/unit/worker/executor/epoch_report_test tests/unit/worker/executor/step_log_test \
  tests/unit/worker/state/ckpt_verify_test tests/unit/worker/executor/epoch_device_test
check_PROGRAMS += $(workerapp_epoch)
TESTS += $(workerapp_epoch)
tests_unit_worker_executor_restore_test_SOURCES = tests/unit/worker/executor/restore_test.c $(state_test_lib)
tests_unit_worker_executor_restore_test_LDADD = $(TEST_LIBS) $(EXECUTOR_LIBS) $(EXEC_LIBS) \
  $(WIRE_LIBS) $(HOST_LIBS)
tests_unit_worker_executor_epoch_segments_test_SOURCES = tests/unit/worker/executor/epoch_segments_test.c $(state_test_lib)
tests_unit_worker_executor_epoch_segments_test_LDADD = $(tests_unit_worker_executor_restore_test_LDADD)
tests_unit_worker_executor_epoch_device_test_SOURCES = tests/unit/worker/executor/epoch_device_test.c $(state_test_lib)
tests_unit_worker_executor_epoch_device_test_LDADD = tests/lib/libghost.a $(tests_unit_worker_executor_restore_test_LDADD)
tests_unit_worker_executor_epoch_replicate_test_SOURCES = tests/unit/worker/executor/epoch_replicate_test.c $(state_test_lib)
tests_unit_worker_executor_epoch_replicate_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
tests_unit_worker_executor_epoch_replicate_test_LDADD = $(tests_unit_worker_executor_restore_test_LDADD)
tests_unit_worker_state_ckpt_verify_test_SOURCES = tests/unit/worker/state/ckpt_verify_test.c $(state_test_lib)
tests_unit_worker_state_ckpt_verify_test_LDADD = $(TEST_LIBS) $(RUN_LIBS) $(STATE_LIBS) $(HOST_LIBS)
tests_unit_worker_executor_step_log_test_LDADD = $(tests_unit_worker_executor_restore_test_LDADD)
tests_unit_worker_executor_epoch_report_test_LDADD = $(tests_unit_worker_executor_restore_test_LDADD)
tests_unit_worker_executor_ckpt_choice_test_LDADD = $(TEST_LIBS) $(EXECUTOR_LIBS) $(BASE_LIBS)
tests_unit_worker_executor_disk_retry_test_LDADD = $(TEST_LIBS) $(EXECUTOR_LIBS) $(BASE_LIBS)

# Epochs of executors over the fake NCCL.
check_PROGRAMS += tests/unit/worker/executor/epoch_nccl_test
TESTS += tests/unit/worker/executor/epoch_nccl_test
tests_unit_worker_executor_epoch_nccl_test_SOURCES = tests/unit/worker/executor/epoch_nccl_test.c \
  tests/unit/worker/comm/nccl_world.c tests/unit/worker/comm/nccl_world.h $(TINY_PROG)
tests_unit_worker_executor_epoch_nccl_test_LDADD = $(tests_unit_worker_executor_restore_test_LDADD)
EXTRA_tests_unit_worker_executor_epoch_nccl_test_DEPENDENCIES = tests/lib/fakenccl/libnccl.so.2

# Both sides of the wall, joined: the daemon's compiled plans run by real executors.
workerapp_both = tests/unit/worker/executor/executor_test tests/unit/worker/executor/executor_files_test \
  tests/unit/worker/executor/executor_early_test tests/unit/worker/executor/executor_device_test \
  tests/unit/worker/executor/device_executor_test tests/unit/worker/executor/device_early_test \
  tests/unit/worker/executor/executor_trace_test
check_PROGRAMS += $(workerapp_both)
TESTS += $(workerapp_both)
executor_world = tests/unit/worker/executor/executor_world.c tests/unit/worker/executor/executor_world.h
tests_unit_worker_executor_executor_test_SOURCES = tests/unit/worker/executor/executor_test.c $(executor_world)
tests_unit_worker_executor_executor_files_test_SOURCES = tests/unit/worker/executor/executor_files_test.c \
  $(executor_world)
tests_unit_worker_executor_executor_files_test_LDADD = $(tests_unit_worker_executor_executor_test_LDADD)
tests_unit_worker_executor_executor_trace_test_SOURCES = tests/unit/worker/executor/executor_trace_test.c \
  $(executor_world)
tests_unit_worker_executor_executor_trace_test_LDADD = $(tests_unit_worker_executor_executor_test_LDADD)
tests_unit_worker_executor_executor_early_test_SOURCES = tests/unit/worker/executor/executor_early_test.c \
  $(executor_world)
tests_unit_worker_executor_executor_early_test_LDFLAGS = $(AM_LDFLAGS) \
  -Wl,--wrap=hsp_epoch_fetch_rest,--wrap=hsp_epoch_await_confirmed,--wrap=hsp_epoch_train,--wrap=hsp_epoch_fetch_beside
tests_unit_worker_executor_executor_early_test_LDADD = $(tests_unit_worker_executor_executor_test_LDADD)
tests_unit_worker_executor_executor_device_test_SOURCES = tests/unit/worker/executor/executor_device_test.c \
  $(executor_world)
tests_unit_worker_executor_executor_device_test_LDADD = $(tests_unit_worker_executor_executor_test_LDADD)
# The same stories on devices that are no CPUs.
tests_unit_worker_executor_device_executor_test_SOURCES = tests/unit/worker/executor/executor_test.c $(executor_world)
tests_unit_worker_executor_device_executor_test_CPPFLAGS = $(AM_CPPFLAGS) -DXW_DEVICE
tests_unit_worker_executor_device_executor_test_LDADD = $(tests_unit_worker_executor_executor_test_LDADD)
tests_unit_worker_executor_device_early_test_SOURCES = tests/unit/worker/executor/executor_early_test.c \
  $(executor_world)
tests_unit_worker_executor_device_early_test_CPPFLAGS = $(AM_CPPFLAGS) -DXW_DEVICE
tests_unit_worker_executor_device_early_test_LDFLAGS = $(tests_unit_worker_executor_executor_early_test_LDFLAGS)
tests_unit_worker_executor_device_early_test_LDADD = $(tests_unit_worker_executor_executor_test_LDADD)
tests_unit_worker_executor_executor_test_LDADD = tests/lib/libghost.a $(TEST_LIBS) $(EXECUTOR_LIBS) daemon/app/plans/libplans.a \
  $(PLANNER_LIBS) $(EXEC_LIBS) $(WIRE_LIBS) $(HOST_LIBS)

# The agent of a node.
agentshell_tests = tests/unit/worker/app/agent_disk_test tests/unit/worker/app/agent_loop_test tests/unit/worker/probe/gpu_probe_test tests/unit/worker/probe/gpu_monitor_test \
  tests/unit/worker/probe/probe_link_test tests/unit/worker/probe/nccl_env_test tests/unit/worker/executor/nccl_log_test \
  tests/unit/worker/probe/nccl_place_test tests/unit/worker/probe/nic_test tests/unit/worker/probe/nvml_test \
  tests/unit/worker/probe/nvml_abi_test tests/unit/worker/probe/probe_test tests/unit/worker/probe/probe_device_test \
  tests/unit/worker/probe/probe_gpu_path_test tests/unit/worker/app/spawn_test tests/unit/worker/app/worker_dies_test
check_PROGRAMS += $(agentshell_tests)
TESTS += $(agentshell_tests)
tests_unit_worker_probe_probe_link_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime
tests_unit_worker_app_agent_disk_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hsp_segname_scan
tests_unit_worker_app_agent_disk_test_LDADD = $(TEST_LIBS) worker/app/libagentshell.a \
  $(EXECUTOR_LIBS) $(STATE_LIBS) $(HOST_LIBS)
tests_unit_worker_app_agent_loop_test_LDFLAGS = $(AM_LDFLAGS) \
  -Wl,--wrap=hsp_agent_step,--wrap=hsp_spawn_executor
tests_unit_worker_app_agent_loop_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_probe_probe_link_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_probe_nccl_env_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_executor_nccl_log_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_probe_nccl_place_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_probe_nic_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_probe_gpu_monitor_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_probe_gpu_probe_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_probe_nvml_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_probe_nvml_abi_test_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_HOME)/include
tests_unit_worker_probe_nvml_abi_test_LDADD = $(TEST_LIBS)
probe_operands = tests/unit/worker/probe/operands.c tests/unit/worker/probe/operands.h
tests_unit_worker_probe_probe_test_SOURCES = tests/unit/worker/probe/probe_test.c $(probe_operands)
tests_unit_worker_probe_probe_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hsp_backend_cpu_open
tests_unit_worker_probe_probe_device_test_SOURCES = tests/unit/worker/probe/probe_device_test.c $(probe_operands)
tests_unit_worker_probe_probe_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_probe_probe_gpu_path_test_LDADD = tests/lib/libghost.a $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_probe_probe_device_test_LDADD = tests/lib/libghost.a $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_app_spawn_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_worker_app_worker_dies_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
