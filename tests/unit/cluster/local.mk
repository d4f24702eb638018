check_PROGRAMS += tests/unit/cluster/cluster_test
TESTS += tests/unit/cluster/cluster_test
tests_unit_cluster_cluster_test_LDADD = $(TEST_LIBS) $(CLUSTER_LIBS)
