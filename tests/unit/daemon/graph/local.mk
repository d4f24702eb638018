graph_tests = \
  tests/unit/daemon/graph/autodiff_test \
  tests/unit/daemon/graph/graph_test
check_PROGRAMS += $(graph_tests)
TESTS += $(graph_tests)
graph_libs = $(TEST_LIBS) daemon/graph/libgraph.a proto/op/libop.a $(BASE_LIBS)
tests_unit_daemon_graph_autodiff_test_LDADD = $(graph_libs)
tests_unit_daemon_graph_graph_test_LDADD = $(graph_libs)
