workerapp_tests = \
  tests/unit/worker/app/incarnation_file_test \
  tests/unit/worker/app/spawn_test \
  tests/unit/worker/app/worker_config_test \
  tests/unit/worker/app/worker_dies_test
test_links += $(workerapp_tests)
check_PROGRAMS += tests/unit/worker/app/app_tests
$(workerapp_tests): tests/unit/worker/app/app_tests
	$(LINK_TEST)
tests_unit_worker_app_app_tests_SOURCES = \
  tests/unit/worker/app/incarnation_file_test.c \
  tests/unit/worker/app/spawn_test.c \
  tests/unit/worker/app/worker_config_test.c \
  tests/unit/worker/app/worker_dies_test.c
tests_unit_worker_app_app_tests_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
# Of the room only the disk: the test plays the functions that it calls.
check_PROGRAMS += tests/unit/worker/app/agent_disk_test
TESTS += tests/unit/worker/app/agent_disk_test
tests_unit_worker_app_agent_disk_test_SOURCES = tests/unit/worker/app/agent_disk_test.c $(PAPERS_SAMPLE)
tests_unit_worker_app_agent_disk_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hsp_segname_scan \
  -Wl,--wrap=hsp_spare_bytes
tests_unit_worker_app_agent_disk_test_LDADD = $(TEST_LIBS) worker/app/libagentshell.a \
  $(EXECUTOR_LIBS) $(STATE_LIBS) $(HOST_LIBS)
# The file system is played by the test, with threads: also run under the thread sanitizer.
check_PROGRAMS += tests/unit/worker/app/agent_ckpts_test
TESTS += tests/unit/worker/app/agent_ckpts_test
tests_unit_worker_app_agent_ckpts_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hsp_ckpt_find_all
tests_unit_worker_app_agent_ckpts_test_LDADD = $(TEST_LIBS) worker/app/libagentshell.a \
  $(EXECUTOR_LIBS) $(STATE_LIBS) $(HOST_LIBS)
# The machine and the start of executors are played by the test.
check_PROGRAMS += tests/unit/worker/app/agent_loop_test
TESTS += tests/unit/worker/app/agent_loop_test
tests_unit_worker_app_agent_loop_test_LDFLAGS = $(AM_LDFLAGS) \
  -Wl,--wrap=hsp_agent_step,--wrap=hsp_spawn_executor
tests_unit_worker_app_agent_loop_test_LDADD = $(TEST_LIBS) $(AGENTSHELL_LIBS)
