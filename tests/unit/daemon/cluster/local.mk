CLUSTER_WORLD = tests/unit/daemon/cluster/cluster_world.c \
  tests/unit/daemon/cluster/cluster_world.h \
  tests/unit/daemon/cluster/ckpt_world.c tests/unit/daemon/cluster/ckpt_world.h
KEEPERS_WORLD = tests/unit/daemon/cluster/keepers_world.c tests/unit/daemon/cluster/keepers_world.h
cluster_tests = \
  tests/unit/daemon/cluster/adopt_job_test \
  tests/unit/daemon/cluster/answers_test \
  tests/unit/daemon/cluster/broken_pairs_test \
  tests/unit/daemon/cluster/ckpt_cuts_test \
  tests/unit/daemon/cluster/ckpt_disk_test \
  tests/unit/daemon/cluster/ckpt_line_test \
  tests/unit/daemon/cluster/ckpt_ran_test \
  tests/unit/daemon/cluster/ckpt_unseen_test \
  tests/unit/daemon/cluster/cluster_test \
  tests/unit/daemon/cluster/cluster_data_test \
  tests/unit/daemon/cluster/cluster_nodes_test \
  tests/unit/daemon/cluster/cluster_pairs_test \
  tests/unit/daemon/cluster/crowd_test \
  tests/unit/daemon/cluster/device_health_test \
  tests/unit/daemon/cluster/due_versions_test \
  tests/unit/daemon/cluster/ended_jobs_test \
  tests/unit/daemon/cluster/finishing_test \
  tests/unit/daemon/cluster/forget_test \
  tests/unit/daemon/cluster/given_up_test \
  tests/unit/daemon/cluster/identity_test \
  tests/unit/daemon/cluster/replica_holders_test \
  tests/unit/daemon/cluster/kept_state_test \
  tests/unit/daemon/cluster/key_holder_test \
  tests/unit/daemon/cluster/learnt_test \
  tests/unit/daemon/cluster/lookup_test \
  tests/unit/daemon/cluster/node_check_test \
  tests/unit/daemon/cluster/node_fault_test \
  tests/unit/daemon/cluster/older_store_test \
  tests/unit/daemon/cluster/progress_test \
  tests/unit/daemon/cluster/restart_test \
  tests/unit/daemon/cluster/slow_test \
  tests/unit/daemon/cluster/stall_test \
  tests/unit/daemon/cluster/stranger_test \
  tests/unit/daemon/cluster/state_damage_test \
  tests/unit/daemon/cluster/suspend_test \
  tests/unit/daemon/cluster/unwritten_test \
  tests/unit/daemon/cluster/waits_test \
  tests/unit/daemon/cluster/which_ckpt_test
test_links += $(cluster_tests)
check_PROGRAMS += tests/unit/daemon/cluster/cluster_tests
$(cluster_tests): tests/unit/daemon/cluster/cluster_tests
	$(LINK_TEST)
tests_unit_daemon_cluster_cluster_tests_SOURCES = \
  tests/unit/daemon/cluster/adopt_job_test.c \
  tests/unit/daemon/cluster/answers_test.c \
  tests/unit/daemon/cluster/broken_pairs_test.c \
  tests/unit/daemon/cluster/ckpt_cuts_test.c \
  tests/unit/daemon/cluster/ckpt_disk_test.c \
  tests/unit/daemon/cluster/ckpt_line_test.c \
  tests/unit/daemon/cluster/ckpt_ran_test.c \
  tests/unit/daemon/cluster/ckpt_unseen_test.c \
  tests/unit/daemon/cluster/cluster_test.c \
  tests/unit/daemon/cluster/cluster_data_test.c \
  tests/unit/daemon/cluster/cluster_nodes_test.c \
  tests/unit/daemon/cluster/cluster_pairs_test.c \
  tests/unit/daemon/cluster/crowd_test.c \
  tests/unit/daemon/cluster/device_health_test.c \
  tests/unit/daemon/cluster/due_versions_test.c \
  tests/unit/daemon/cluster/ended_jobs_test.c \
  tests/unit/daemon/cluster/finishing_test.c \
  tests/unit/daemon/cluster/forget_test.c \
  tests/unit/daemon/cluster/given_up_test.c \
  tests/unit/daemon/cluster/identity_test.c \
  tests/unit/daemon/cluster/replica_holders_test.c \
  tests/unit/daemon/cluster/kept_state_test.c \
  tests/unit/daemon/cluster/key_holder_test.c \
  tests/unit/daemon/cluster/learnt_test.c \
  tests/unit/daemon/cluster/lookup_test.c \
  tests/unit/daemon/cluster/node_check_test.c \
  tests/unit/daemon/cluster/node_fault_test.c \
  tests/unit/daemon/cluster/older_store_test.c \
  tests/unit/daemon/cluster/progress_test.c \
  tests/unit/daemon/cluster/restart_test.c \
  tests/unit/daemon/cluster/slow_test.c \
  tests/unit/daemon/cluster/stall_test.c \
  tests/unit/daemon/cluster/stranger_test.c \
  tests/unit/daemon/cluster/state_damage_test.c \
  tests/unit/daemon/cluster/suspend_test.c \
  tests/unit/daemon/cluster/unwritten_test.c \
  tests/unit/daemon/cluster/waits_test.c \
  tests/unit/daemon/cluster/which_ckpt_test.c \
  tests/unit/daemon/cluster/cluster_stories.c tests/unit/daemon/cluster/cluster_stories.h \
  $(CLUSTER_WORLD) $(KEEPERS_WORLD)
tests_unit_daemon_cluster_cluster_tests_LDADD = $(TEST_LIBS) $(CLUSTER_LIBS)
