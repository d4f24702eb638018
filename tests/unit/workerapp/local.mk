workerapp_tests = tests/unit/workerapp/worker_config_test tests/unit/workerapp/runfile_test \
  tests/unit/workerapp/documents_test tests/unit/workerapp/rundevice_test tests/unit/workerapp/steptrace_test \
  tests/unit/workerapp/verify_test
check_PROGRAMS += $(workerapp_tests)
TESTS += $(workerapp_tests)
tests_unit_workerapp_worker_config_test_LDADD = $(TEST_LIBS) $(WORKERCONFIG_LIBS)
tests_unit_workerapp_rundevice_test_LDADD = $(TEST_LIBS) $(RUN_LIBS)
tests_unit_workerapp_steptrace_test_SOURCES = tests/unit/workerapp/steptrace_test.c $(TINY_PROG)
tests_unit_workerapp_steptrace_test_LDADD = $(TEST_LIBS) worker/executor/libexecutor.a $(EXEC_LIBS) \
  $(WIRE_LIBS)
device_run = tests/unit/workerapp/devicerun.c tests/unit/workerapp/devicerun.h
tests_unit_workerapp_runfile_test_SOURCES = tests/unit/workerapp/runfile_test.c $(device_run)
tests_unit_workerapp_documents_test_SOURCES = tests/unit/workerapp/documents_test.c $(device_run)
tests_unit_workerapp_runfile_test_CPPFLAGS = $(AM_CPPFLAGS) $(CJSON_CFLAGS)
tests_unit_workerapp_runfile_test_LDADD = tests/lib/libghost.a $(TEST_LIBS) $(COMPILER_LIBS) \
  daemon/graph/libgraph.a proto/program/libprogram.a proto/layout/liblayout.a $(RUN_LIBS) \
  $(TEXT_LIBS)
tests_unit_workerapp_documents_test_CPPFLAGS = $(AM_CPPFLAGS) $(CJSON_CFLAGS)
tests_unit_workerapp_documents_test_LDADD = $(tests_unit_workerapp_runfile_test_LDADD)
tests_unit_workerapp_verify_test_CPPFLAGS = $(AM_CPPFLAGS) $(CJSON_CFLAGS)
tests_unit_workerapp_verify_test_LDADD = $(tests_unit_workerapp_runfile_test_LDADD)

# Ranks on devices that do their work late, over the fake NCCL.
check_PROGRAMS += tests/unit/workerapp/localdirect_test
TESTS += tests/unit/workerapp/localdirect_test
tests_unit_workerapp_localdirect_test_SOURCES = tests/unit/workerapp/localdirect_test.c \
  tests/unit/comm/nccl_world.c tests/unit/comm/nccl_world.h $(device_run)
tests_unit_workerapp_localdirect_test_LDADD = $(tests_unit_workerapp_runfile_test_LDADD)
EXTRA_tests_unit_workerapp_localdirect_test_DEPENDENCIES = tests/lib/fakenccl/libnccl.so.2

workerapp_epoch = tests/unit/workerapp/restore_test tests/unit/workerapp/ckptoffer_test \
  tests/unit/workerapp/disktrouble_test tests/unit/workerapp/epochstate_test \
  tests/unit/workerapp/epochkeep_test tests/unit/workerapp/epochsteps_test tests/unit/workerapp/metricslog_test \
  tests/unit/workerapp/ckptcheck_test tests/unit/workerapp/epochdevice_test
check_PROGRAMS += $(workerapp_epoch)
TESTS += $(workerapp_epoch)
tests_unit_workerapp_restore_test_SOURCES = tests/unit/workerapp/restore_test.c $(state_test_lib)
tests_unit_workerapp_restore_test_LDADD = $(TEST_LIBS) $(EXECUTOR_LIBS) $(EXEC_LIBS) \
  $(WIRE_LIBS) $(HOST_LIBS)
tests_unit_workerapp_epochstate_test_SOURCES = tests/unit/workerapp/epochstate_test.c $(state_test_lib)
tests_unit_workerapp_epochstate_test_LDADD = $(tests_unit_workerapp_restore_test_LDADD)
tests_unit_workerapp_epochdevice_test_SOURCES = tests/unit/workerapp/epochdevice_test.c $(state_test_lib)
tests_unit_workerapp_epochdevice_test_LDADD = tests/lib/libghost.a $(tests_unit_workerapp_restore_test_LDADD)
tests_unit_workerapp_epochkeep_test_SOURCES = tests/unit/workerapp/epochkeep_test.c $(state_test_lib)
tests_unit_workerapp_epochkeep_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
tests_unit_workerapp_epochkeep_test_LDADD = $(tests_unit_workerapp_restore_test_LDADD)
tests_unit_workerapp_ckptcheck_test_SOURCES = tests/unit/workerapp/ckptcheck_test.c $(state_test_lib)
tests_unit_workerapp_ckptcheck_test_LDADD = $(TEST_LIBS) $(RUN_LIBS) $(STATE_LIBS) $(HOST_LIBS)
tests_unit_workerapp_metricslog_test_LDADD = $(tests_unit_workerapp_restore_test_LDADD)
tests_unit_workerapp_epochsteps_test_LDADD = $(tests_unit_workerapp_restore_test_LDADD)
tests_unit_workerapp_ckptoffer_test_LDADD = $(TEST_LIBS) $(EXECUTOR_LIBS) $(BASE_LIBS)
tests_unit_workerapp_disktrouble_test_LDADD = $(TEST_LIBS) $(EXECUTOR_LIBS) $(BASE_LIBS)

# Epochs of executors over the fake NCCL.
check_PROGRAMS += tests/unit/workerapp/epochdirect_test
TESTS += tests/unit/workerapp/epochdirect_test
tests_unit_workerapp_epochdirect_test_SOURCES = tests/unit/workerapp/epochdirect_test.c \
  tests/unit/comm/nccl_world.c tests/unit/comm/nccl_world.h $(TINY_PROG)
tests_unit_workerapp_epochdirect_test_LDADD = $(tests_unit_workerapp_restore_test_LDADD)
EXTRA_tests_unit_workerapp_epochdirect_test_DEPENDENCIES = tests/lib/fakenccl/libnccl.so.2

# Both sides of the wall, joined: the daemon's compiled plans run by real executors.
workerapp_both = tests/unit/workerapp/executor_test tests/unit/workerapp/executorfiles_test \
  tests/unit/workerapp/executorearly_test tests/unit/workerapp/executordevice_test \
  tests/unit/workerapp/deviceexecutor_test tests/unit/workerapp/deviceearly_test \
  tests/unit/workerapp/executortrace_test
check_PROGRAMS += $(workerapp_both)
TESTS += $(workerapp_both)
executor_world = tests/unit/workerapp/executorworld.c tests/unit/workerapp/executorworld.h
tests_unit_workerapp_executor_test_SOURCES = tests/unit/workerapp/executor_test.c $(executor_world)
tests_unit_workerapp_executorfiles_test_SOURCES = tests/unit/workerapp/executorfiles_test.c \
  $(executor_world)
tests_unit_workerapp_executorfiles_test_LDADD = $(tests_unit_workerapp_executor_test_LDADD)
tests_unit_workerapp_executortrace_test_SOURCES = tests/unit/workerapp/executortrace_test.c \
  $(executor_world)
tests_unit_workerapp_executortrace_test_LDADD = $(tests_unit_workerapp_executor_test_LDADD)
tests_unit_workerapp_executorearly_test_SOURCES = tests/unit/workerapp/executorearly_test.c \
  $(executor_world)
tests_unit_workerapp_executorearly_test_LDFLAGS = $(AM_LDFLAGS) \
  -Wl,--wrap=hsp_epoch_fetch_rest,--wrap=hsp_epoch_await_confirmed,--wrap=hsp_epoch_train,--wrap=hsp_epoch_fetch_beside
tests_unit_workerapp_executorearly_test_LDADD = $(tests_unit_workerapp_executor_test_LDADD)
tests_unit_workerapp_executordevice_test_SOURCES = tests/unit/workerapp/executordevice_test.c \
  $(executor_world)
tests_unit_workerapp_executordevice_test_LDADD = $(tests_unit_workerapp_executor_test_LDADD)
# The same stories on devices that are no CPUs.
tests_unit_workerapp_deviceexecutor_test_SOURCES = tests/unit/workerapp/executor_test.c $(executor_world)
tests_unit_workerapp_deviceexecutor_test_CPPFLAGS = $(AM_CPPFLAGS) -DXW_DEVICE
tests_unit_workerapp_deviceexecutor_test_LDADD = $(tests_unit_workerapp_executor_test_LDADD)
tests_unit_workerapp_deviceearly_test_SOURCES = tests/unit/workerapp/executorearly_test.c \
  $(executor_world)
tests_unit_workerapp_deviceearly_test_CPPFLAGS = $(AM_CPPFLAGS) -DXW_DEVICE
tests_unit_workerapp_deviceearly_test_LDFLAGS = $(tests_unit_workerapp_executorearly_test_LDFLAGS)
tests_unit_workerapp_deviceearly_test_LDADD = $(tests_unit_workerapp_executor_test_LDADD)
tests_unit_workerapp_executor_test_LDADD = tests/lib/libghost.a $(TEST_LIBS) $(EXECUTOR_LIBS) daemon/app/libdaemonapp.a \
  $(PLANNER_LIBS) $(EXEC_LIBS) $(WIRE_LIBS) $(HOST_LIBS)

# The agent of a node.
agentshell_tests = tests/unit/workerapp/agentdisk_test tests/unit/workerapp/gpuask_test tests/unit/workerapp/gpuwatch_test \
  tests/unit/workerapp/linktest_test tests/unit/workerapp/ncclenv_test tests/unit/workerapp/nccllog_test \
  tests/unit/workerapp/ncclplace_test tests/unit/workerapp/netcard_test tests/unit/workerapp/nvml_test \
  tests/unit/workerapp/nvmlabi_test tests/unit/workerapp/probe_test tests/unit/workerapp/probedevice_test \
  tests/unit/workerapp/probepath_test tests/unit/workerapp/spawn_test tests/unit/workerapp/workerdies_test
check_PROGRAMS += $(agentshell_tests)
TESTS += $(agentshell_tests)
tests_unit_workerapp_linktest_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime
tests_unit_workerapp_agentdisk_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hsp_segname_scan
tests_unit_workerapp_agentdisk_test_LDADD = $(TEST_LIBS) worker/app/libagentshell.a \
  $(EXECUTOR_LIBS) $(STATE_LIBS) $(HOST_LIBS)
tests_unit_workerapp_linktest_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_workerapp_ncclenv_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_workerapp_nccllog_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_workerapp_ncclplace_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_workerapp_netcard_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_workerapp_gpuwatch_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_workerapp_gpuask_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_workerapp_nvml_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_workerapp_nvmlabi_test_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_HOME)/include
tests_unit_workerapp_nvmlabi_test_LDADD = $(TEST_LIBS)
probe_operands = tests/unit/workerapp/operands.c tests/unit/workerapp/operands.h
tests_unit_workerapp_probe_test_SOURCES = tests/unit/workerapp/probe_test.c $(probe_operands)
tests_unit_workerapp_probe_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hsp_backend_cpu_open
tests_unit_workerapp_probedevice_test_SOURCES = tests/unit/workerapp/probedevice_test.c $(probe_operands)
tests_unit_workerapp_probe_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_workerapp_probepath_test_LDADD = tests/lib/libghost.a $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_workerapp_probedevice_test_LDADD = tests/lib/libghost.a $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_workerapp_spawn_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
tests_unit_workerapp_workerdies_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
