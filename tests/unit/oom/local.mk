oom_tests = \
  tests/unit/oom/oom_agent_test \
  tests/unit/oom/oom_agentlink_test \
  tests/unit/oom/oom_base_test \
  tests/unit/oom/oom_cluster_test \
  tests/unit/oom/oom_clusterdata_test \
  tests/unit/oom/oom_clusternodes_test \
  tests/unit/oom/oom_ctl_test \
  tests/unit/oom/oom_data_test \
  tests/unit/oom/oom_devicehealth_test \
  tests/unit/oom/oom_devices_test \
  tests/unit/oom/oom_exec_test \
  tests/unit/oom/oom_keepers_test \
  tests/unit/oom/oom_layout_test \
  tests/unit/oom/oom_planner_test \
  tests/unit/oom/oom_program_test \
  tests/unit/oom/oom_segment_test \
  tests/unit/oom/oom_slow_test \
  tests/unit/oom/oom_spmd_test \
  tests/unit/oom/oom_state_test \
  tests/unit/oom/oom_text_test \
  tests/unit/oom/oom_wire_test
check_PROGRAMS += $(oom_tests)
TESTS += $(oom_tests)
CLEANFILES += $(oom_tests:=.stacks)
tests_unit_oom_oom_base_test_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_base_test_LDADD = $(HSP_OOM_LIBS) $(BASE_LIBS)
tests_unit_oom_oom_text_test_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_text_test_LDADD = $(HSP_OOM_LIBS) $(TEXT_LIBS)
tests_unit_oom_oom_program_test_SOURCES = tests/unit/oom/oom_program_test.c $(TINY_PROG)
tests_unit_oom_oom_program_test_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_program_test_LDADD = $(HSP_OOM_LIBS) $(PROGRAM_LIBS) $(TEXT_LIBS)
tests_unit_oom_oom_ctl_test_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_ctl_test_LDADD = $(HSP_OOM_LIBS) $(CTL_LIBS)
tests_unit_oom_oom_data_test_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_data_test_LDADD = $(HSP_OOM_LIBS) $(DATA_LIBS)
tests_unit_oom_oom_exec_test_SOURCES = tests/unit/oom/oom_exec_test.c $(TINY_PROG)
tests_unit_oom_oom_exec_test_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_exec_test_LDADD = $(HSP_OOM_LIBS) $(EXEC_LIBS)
tests_unit_oom_oom_segment_test_SOURCES = tests/unit/oom/oom_segment_test.c $(shard_fill) $(state_test_lib)
tests_unit_oom_oom_segment_test_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_segment_test_LDADD = $(HSP_OOM_LIBS) $(STATE_LIBS)
tests_unit_oom_oom_state_test_SOURCES = tests/unit/oom/oom_state_test.c $(state_test_lib)
tests_unit_oom_oom_state_test_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_state_test_LDADD = $(HSP_OOM_LIBS) worker/run/librun.a $(STATE_LIBS)
tests_unit_oom_oom_wire_test_SOURCES = tests/unit/oom/oom_wire_test.c $(MSG_DUMP) $(PKG_SAMPLE) $(PART_SAMPLE)
tests_unit_oom_oom_wire_test_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_wire_test_LDADD = $(HSP_OOM_LIBS) $(WIRE_LIBS)
tests_unit_oom_oom_spmd_test_SOURCES = tests/unit/oom/oom_spmd_test.c $(PLAN_CASES) $(PLAN_MODEL)
tests_unit_oom_oom_spmd_test_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_spmd_test_LDADD = $(HSP_OOM_LIBS) $(SPMD_LIBS)
tests_unit_oom_oom_layout_test_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_layout_test_LDADD = $(HSP_OOM_LIBS) $(SPMD_LIBS)
tests_unit_oom_oom_planner_test_LDFLAGS = $(HSP_OOM_LINK)
tests_unit_oom_oom_planner_test_LDADD = $(HSP_OOM_LIBS) $(PLANNER_LIBS)

# The stories of tests/unit/daemon/cluster and tests/unit/worker/agent, told once more without memory.
oom_cluster_wraps = -Wl,--wrap=hsp_cluster_new,--wrap=hsp_cluster_load \
  -Wl,--wrap=hsp_cluster_step,--wrap=hsp_cluster_spread
oom_cluster_world = tests/unit/oom/oom_cluster.c $(MSG_DUMP) $(CLUSTER_WORLD)
tests_unit_oom_oom_cluster_test_SOURCES = tests/unit/daemon/cluster/cluster_test.c $(oom_cluster_world)
tests_unit_oom_oom_cluster_test_LDFLAGS = $(HSP_OOM_LINK) $(oom_cluster_wraps)
tests_unit_oom_oom_cluster_test_LDADD = $(HSP_OOM_LIBS) $(CLUSTER_LIBS)
tests_unit_oom_oom_clusterdata_test_SOURCES = tests/unit/daemon/cluster/cluster_data_test.c \
  $(oom_cluster_world)
tests_unit_oom_oom_clusterdata_test_LDFLAGS = $(HSP_OOM_LINK) $(oom_cluster_wraps)
tests_unit_oom_oom_clusterdata_test_LDADD = $(HSP_OOM_LIBS) $(CLUSTER_LIBS)
tests_unit_oom_oom_clusternodes_test_SOURCES = tests/unit/daemon/cluster/cluster_nodes_test.c \
  $(oom_cluster_world)
tests_unit_oom_oom_clusternodes_test_LDFLAGS = $(HSP_OOM_LINK) $(oom_cluster_wraps)
tests_unit_oom_oom_clusternodes_test_LDADD = $(HSP_OOM_LIBS) $(CLUSTER_LIBS)
tests_unit_oom_oom_devicehealth_test_SOURCES = tests/unit/daemon/cluster/device_health_test.c \
  $(oom_cluster_world)
tests_unit_oom_oom_devicehealth_test_LDFLAGS = $(HSP_OOM_LINK) $(oom_cluster_wraps)
tests_unit_oom_oom_devicehealth_test_LDADD = $(HSP_OOM_LIBS) $(CLUSTER_LIBS)
oom_agent_wraps = -Wl,--wrap=hsp_agent_new,--wrap=hsp_agent_step
oom_agent_world = tests/unit/oom/oom_agent.c $(MSG_DUMP) tests/unit/worker/agent/agent_world.c \
  tests/unit/worker/agent/agent_world.h
tests_unit_oom_oom_agent_test_SOURCES = tests/unit/worker/agent/agent_test.c $(oom_agent_world)
tests_unit_oom_oom_agent_test_LDFLAGS = $(HSP_OOM_LINK) $(oom_agent_wraps)
tests_unit_oom_oom_agent_test_LDADD = $(HSP_OOM_LIBS) $(AGENT_LIBS)
tests_unit_oom_oom_agentlink_test_SOURCES = tests/unit/worker/agent/agent_link_test.c $(oom_agent_world)
tests_unit_oom_oom_agentlink_test_LDFLAGS = $(HSP_OOM_LINK) $(oom_agent_wraps)
tests_unit_oom_oom_agentlink_test_LDADD = $(HSP_OOM_LIBS) $(AGENT_LIBS)
tests_unit_oom_oom_devices_test_SOURCES = tests/unit/worker/agent/devices_test.c $(oom_agent_world)
tests_unit_oom_oom_devices_test_LDFLAGS = $(HSP_OOM_LINK) $(oom_agent_wraps)
tests_unit_oom_oom_devices_test_LDADD = $(HSP_OOM_LIBS) $(AGENT_LIBS)
tests_unit_oom_oom_slow_test_SOURCES = tests/unit/daemon/cluster/slow_test.c $(oom_cluster_world)
tests_unit_oom_oom_slow_test_LDFLAGS = $(HSP_OOM_LINK) $(oom_cluster_wraps)
tests_unit_oom_oom_slow_test_LDADD = $(HSP_OOM_LIBS) $(CLUSTER_LIBS)
tests_unit_oom_oom_keepers_test_SOURCES = tests/unit/daemon/cluster/keepers_test.c \
  $(oom_cluster_world)
tests_unit_oom_oom_keepers_test_LDFLAGS = $(HSP_OOM_LINK) $(oom_cluster_wraps)
tests_unit_oom_oom_keepers_test_LDADD = $(HSP_OOM_LIBS) $(CLUSTER_LIBS)
