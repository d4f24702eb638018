# scripts/check-alloc.py reads the stacks that these tests leave behind.
oom_tests = $(oom_room_tests) $(oom_cluster_tests) $(oom_agent_tests)
CLEANFILES += $(oom_tests:=.stacks)
oom_room_tests = \
  tests/unit/oom/oom_base_test \
  tests/unit/oom/oom_ctl_test \
  tests/unit/oom/oom_data_test \
  tests/unit/oom/oom_exec_test \
  tests/unit/oom/oom_layout_test \
  tests/unit/oom/oom_planner_test \
  tests/unit/oom/oom_program_test \
  tests/unit/oom/oom_segment_test \
  tests/unit/oom/oom_spmd_test \
  tests/unit/oom/oom_state_test \
  tests/unit/oom/oom_text_test \
  tests/unit/oom/oom_wire_test
test_links += $(oom_room_tests)
check_PROGRAMS += tests/unit/oom/oom_room_tests
$(oom_room_tests): tests/unit/oom/oom_room_tests
	$(LINK_TEST)
tests_unit_oom_oom_room_tests_SOURCES = \
  tests/unit/oom/oom_base_test.c \
  tests/unit/oom/oom_ctl_test.c \
  tests/unit/oom/oom_data_test.c \
  tests/unit/oom/oom_exec_test.c \
  tests/unit/oom/oom_layout_test.c \
  tests/unit/oom/oom_planner_test.c \
  tests/unit/oom/oom_program_test.c \
  tests/unit/oom/oom_segment_test.c \
  tests/unit/oom/oom_spmd_test.c \
  tests/unit/oom/oom_state_test.c \
  tests/unit/oom/oom_text_test.c \
  tests/unit/oom/oom_wire_test.c \
  $(MSG_DUMP) $(PAPERS_SAMPLE) $(PART_SAMPLE) $(PKG_SAMPLE) $(PLAN_CASES) $(PLAN_MODEL) $(shard_fill) \
  $(state_test_lib) $(TINY_PROG)
tests_unit_oom_oom_room_tests_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_room_tests_LDADD = $(HSP_OOM_LIBS) $(CTL_LIBS) $(RUN_LIBS) $(STATE_LIBS) \
  $(DATA_LIBS)

# The stories of tests/unit/daemon/cluster and tests/unit/worker/agent, told once more without
# memory.
oom_cluster_tests = \
  tests/unit/oom/oom_adoptjob_test \
  tests/unit/oom/oom_brokenpairs_test \
  tests/unit/oom/oom_cluster_test \
  tests/unit/oom/oom_clusterdata_test \
  tests/unit/oom/oom_clusternodes_test \
  tests/unit/oom/oom_crowd_test \
  tests/unit/oom/oom_devicehealth_test \
  tests/unit/oom/oom_givenup_test \
  tests/unit/oom/oom_identity_test \
  tests/unit/oom/oom_replica_holders_test \
  tests/unit/oom/oom_keyholder_test \
  tests/unit/oom/oom_olderstore_test \
  tests/unit/oom/oom_slow_test
test_links += $(oom_cluster_tests)
check_PROGRAMS += tests/unit/oom/oom_cluster_tests
$(oom_cluster_tests): tests/unit/oom/oom_cluster_tests
	$(LINK_TEST)
tests_unit_oom_oom_cluster_tests_SOURCES = \
  tests/unit/daemon/cluster/adopt_job_test.c \
  tests/unit/daemon/cluster/broken_pairs_test.c \
  tests/unit/daemon/cluster/cluster_test.c \
  tests/unit/daemon/cluster/cluster_data_test.c \
  tests/unit/daemon/cluster/cluster_nodes_test.c \
  tests/unit/daemon/cluster/crowd_test.c \
  tests/unit/daemon/cluster/device_health_test.c \
  tests/unit/daemon/cluster/given_up_test.c \
  tests/unit/daemon/cluster/identity_test.c \
  tests/unit/daemon/cluster/replica_holders_test.c \
  tests/unit/daemon/cluster/key_holder_test.c \
  tests/unit/daemon/cluster/older_store_test.c \
  tests/unit/daemon/cluster/slow_test.c \
  tests/unit/daemon/cluster/cluster_stories.c tests/unit/daemon/cluster/cluster_stories.h \
  tests/unit/oom/oom_cluster.c $(MSG_DUMP) $(CLUSTER_WORLD) $(KEEPERS_WORLD)
tests_unit_oom_oom_cluster_tests_LDFLAGS = $(HSP_OOM_LINK) \
  -Wl,--wrap=hsp_cluster_new,--wrap=hsp_cluster_load,--wrap=hsp_cluster_found \
  -Wl,--wrap=hsp_cluster_step,--wrap=hsp_cluster_spread
tests_unit_oom_oom_cluster_tests_LDADD = $(HSP_OOM_LIBS) $(CLUSTER_LIBS)
oom_agent_tests = \
  tests/unit/oom/oom_agent_test \
  tests/unit/oom/oom_agentlink_test \
  tests/unit/oom/oom_keeping_test \
  tests/unit/oom/oom_devices_test
test_links += $(oom_agent_tests)
check_PROGRAMS += tests/unit/oom/oom_agent_tests
$(oom_agent_tests): tests/unit/oom/oom_agent_tests
	$(LINK_TEST)
tests_unit_oom_oom_agent_tests_SOURCES = \
  tests/unit/worker/agent/agent_test.c \
  tests/unit/worker/agent/agent_link_test.c \
  tests/unit/worker/agent/keeping_test.c \
  tests/unit/worker/agent/devices_test.c \
  tests/unit/oom/oom_agent.c $(MSG_DUMP) $(AGENT_WORLD)
tests_unit_oom_oom_agent_tests_LDFLAGS = $(HSP_OOM_LINK) -Wl,--wrap=hsp_agent_new,--wrap=hsp_agent_step
tests_unit_oom_oom_agent_tests_LDADD = $(HSP_OOM_LIBS) $(AGENT_LIBS)
