check_PROGRAMS += tests/unit/cluster/cluster_test tests/unit/cluster/clusterpairs_test
TESTS += tests/unit/cluster/cluster_test tests/unit/cluster/clusterpairs_test
tests_unit_cluster_cluster_test_SOURCES = tests/unit/cluster/cluster_test.c \
  tests/unit/cluster/clusterworld.c tests/unit/cluster/clusterworld.h
tests_unit_cluster_cluster_test_LDADD = $(TEST_LIBS) $(CLUSTER_LIBS)
tests_unit_cluster_clusterpairs_test_SOURCES = tests/unit/cluster/clusterpairs_test.c \
  tests/unit/cluster/clusterworld.c tests/unit/cluster/clusterworld.h
tests_unit_cluster_clusterpairs_test_LDADD = $(TEST_LIBS) $(CLUSTER_LIBS)
check_PROGRAMS += tests/unit/cluster/suspend_test
TESTS += tests/unit/cluster/suspend_test
tests_unit_cluster_suspend_test_SOURCES = tests/unit/cluster/suspend_test.c \
  tests/unit/cluster/clusterworld.c tests/unit/cluster/clusterworld.h
tests_unit_cluster_suspend_test_LDADD = $(TEST_LIBS) $(CLUSTER_LIBS)
check_PROGRAMS += tests/unit/cluster/nodecheck_test
TESTS += tests/unit/cluster/nodecheck_test
tests_unit_cluster_nodecheck_test_SOURCES = tests/unit/cluster/nodecheck_test.c \
  tests/unit/cluster/clusterworld.c tests/unit/cluster/clusterworld.h
tests_unit_cluster_nodecheck_test_LDADD = $(TEST_LIBS) $(CLUSTER_LIBS)
check_PROGRAMS += tests/unit/cluster/keepers_test
TESTS += tests/unit/cluster/keepers_test
tests_unit_cluster_keepers_test_LDADD = $(TEST_LIBS) $(CLUSTER_LIBS)
check_PROGRAMS += tests/unit/cluster/clusterdata_test
TESTS += tests/unit/cluster/clusterdata_test
tests_unit_cluster_clusterdata_test_SOURCES = tests/unit/cluster/clusterdata_test.c \
  tests/unit/cluster/clusterworld.c tests/unit/cluster/clusterworld.h
tests_unit_cluster_clusterdata_test_LDADD = $(TEST_LIBS) $(CLUSTER_LIBS)
check_PROGRAMS += tests/unit/cluster/slow_test
TESTS += tests/unit/cluster/slow_test
tests_unit_cluster_slow_test_SOURCES = tests/unit/cluster/slow_test.c \
  tests/unit/cluster/clusterworld.c tests/unit/cluster/clusterworld.h
tests_unit_cluster_slow_test_LDADD = $(TEST_LIBS) $(CLUSTER_LIBS)
