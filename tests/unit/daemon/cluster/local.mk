cluster_tests = \
  tests/unit/daemon/cluster/answers_test \
  tests/unit/daemon/cluster/cluster_test \
  tests/unit/daemon/cluster/cluster_data_test \
  tests/unit/daemon/cluster/cluster_nodes_test \
  tests/unit/daemon/cluster/cluster_pairs_test \
  tests/unit/daemon/cluster/device_health_test \
  tests/unit/daemon/cluster/finishing_test \
  tests/unit/daemon/cluster/keepers_test \
  tests/unit/daemon/cluster/node_check_test \
  tests/unit/daemon/cluster/restart_test \
  tests/unit/daemon/cluster/slow_test \
  tests/unit/daemon/cluster/suspend_test \
  tests/unit/daemon/cluster/unwritten_test \
  tests/unit/daemon/cluster/which_ckpt_test
check_PROGRAMS += $(cluster_tests)
TESTS += $(cluster_tests)
CLUSTER_WORLD = tests/unit/daemon/cluster/cluster_world.c tests/unit/daemon/cluster/cluster_world.h
CLUSTER_TEST_LIBS = $(TEST_LIBS) $(CLUSTER_LIBS)
tests_unit_daemon_cluster_answers_test_SOURCES = tests/unit/daemon/cluster/answers_test.c $(CLUSTER_WORLD)
tests_unit_daemon_cluster_answers_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_cluster_test_SOURCES = tests/unit/daemon/cluster/cluster_test.c $(CLUSTER_WORLD)
tests_unit_daemon_cluster_cluster_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_cluster_data_test_SOURCES = tests/unit/daemon/cluster/cluster_data_test.c $(CLUSTER_WORLD)
tests_unit_daemon_cluster_cluster_data_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_cluster_nodes_test_SOURCES = tests/unit/daemon/cluster/cluster_nodes_test.c \
  $(CLUSTER_WORLD)
tests_unit_daemon_cluster_cluster_nodes_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_cluster_pairs_test_SOURCES = tests/unit/daemon/cluster/cluster_pairs_test.c \
  tests/unit/daemon/cluster/cluster_stories.c tests/unit/daemon/cluster/cluster_stories.h $(CLUSTER_WORLD)
tests_unit_daemon_cluster_cluster_pairs_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_device_health_test_SOURCES = tests/unit/daemon/cluster/device_health_test.c \
  $(CLUSTER_WORLD)
tests_unit_daemon_cluster_device_health_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_finishing_test_SOURCES = tests/unit/daemon/cluster/finishing_test.c $(CLUSTER_WORLD)
tests_unit_daemon_cluster_finishing_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_keepers_test_SOURCES = tests/unit/daemon/cluster/keepers_test.c $(CLUSTER_WORLD)
tests_unit_daemon_cluster_keepers_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_node_check_test_SOURCES = tests/unit/daemon/cluster/node_check_test.c $(CLUSTER_WORLD)
tests_unit_daemon_cluster_node_check_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_restart_test_SOURCES = tests/unit/daemon/cluster/restart_test.c $(CLUSTER_WORLD)
tests_unit_daemon_cluster_restart_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_slow_test_SOURCES = tests/unit/daemon/cluster/slow_test.c $(CLUSTER_WORLD)
tests_unit_daemon_cluster_slow_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_suspend_test_SOURCES = tests/unit/daemon/cluster/suspend_test.c $(CLUSTER_WORLD)
tests_unit_daemon_cluster_suspend_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_unwritten_test_SOURCES = tests/unit/daemon/cluster/unwritten_test.c $(CLUSTER_WORLD)
tests_unit_daemon_cluster_unwritten_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_daemon_cluster_which_ckpt_test_SOURCES = tests/unit/daemon/cluster/which_ckpt_test.c $(CLUSTER_WORLD)
tests_unit_daemon_cluster_which_ckpt_test_LDADD = $(CLUSTER_TEST_LIBS)
