cluster_tests = \
  tests/unit/cluster/answers_test \
  tests/unit/cluster/cluster_test \
  tests/unit/cluster/clusterdata_test \
  tests/unit/cluster/clusternodes_test \
  tests/unit/cluster/clusterpairs_test \
  tests/unit/cluster/devicehealth_test \
  tests/unit/cluster/finishing_test \
  tests/unit/cluster/keepers_test \
  tests/unit/cluster/nodecheck_test \
  tests/unit/cluster/restart_test \
  tests/unit/cluster/slow_test \
  tests/unit/cluster/suspend_test \
  tests/unit/cluster/unwritten_test \
  tests/unit/cluster/whichckpt_test
check_PROGRAMS += $(cluster_tests)
TESTS += $(cluster_tests)
CLUSTER_WORLD = tests/unit/cluster/clusterworld.c tests/unit/cluster/clusterworld.h
CLUSTER_TEST_LIBS = $(TEST_LIBS) $(CLUSTER_LIBS)
tests_unit_cluster_answers_test_SOURCES = tests/unit/cluster/answers_test.c $(CLUSTER_WORLD)
tests_unit_cluster_answers_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_cluster_test_SOURCES = tests/unit/cluster/cluster_test.c $(CLUSTER_WORLD)
tests_unit_cluster_cluster_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_clusterdata_test_SOURCES = tests/unit/cluster/clusterdata_test.c $(CLUSTER_WORLD)
tests_unit_cluster_clusterdata_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_clusternodes_test_SOURCES = tests/unit/cluster/clusternodes_test.c \
  $(CLUSTER_WORLD)
tests_unit_cluster_clusternodes_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_clusterpairs_test_SOURCES = tests/unit/cluster/clusterpairs_test.c \
  tests/unit/cluster/clusterstories.c tests/unit/cluster/clusterstories.h $(CLUSTER_WORLD)
tests_unit_cluster_clusterpairs_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_devicehealth_test_SOURCES = tests/unit/cluster/devicehealth_test.c \
  $(CLUSTER_WORLD)
tests_unit_cluster_devicehealth_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_finishing_test_SOURCES = tests/unit/cluster/finishing_test.c $(CLUSTER_WORLD)
tests_unit_cluster_finishing_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_keepers_test_SOURCES = tests/unit/cluster/keepers_test.c $(CLUSTER_WORLD)
tests_unit_cluster_keepers_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_nodecheck_test_SOURCES = tests/unit/cluster/nodecheck_test.c $(CLUSTER_WORLD)
tests_unit_cluster_nodecheck_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_restart_test_SOURCES = tests/unit/cluster/restart_test.c $(CLUSTER_WORLD)
tests_unit_cluster_restart_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_slow_test_SOURCES = tests/unit/cluster/slow_test.c $(CLUSTER_WORLD)
tests_unit_cluster_slow_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_suspend_test_SOURCES = tests/unit/cluster/suspend_test.c $(CLUSTER_WORLD)
tests_unit_cluster_suspend_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_unwritten_test_SOURCES = tests/unit/cluster/unwritten_test.c $(CLUSTER_WORLD)
tests_unit_cluster_unwritten_test_LDADD = $(CLUSTER_TEST_LIBS)
tests_unit_cluster_whichckpt_test_SOURCES = tests/unit/cluster/whichckpt_test.c $(CLUSTER_WORLD)
tests_unit_cluster_whichckpt_test_LDADD = $(CLUSTER_TEST_LIBS)
