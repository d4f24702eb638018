graph_tests = \
  tests/unit/graph/autodiff_test \
  tests/unit/graph/graph_test
check_PROGRAMS += $(graph_tests)
TESTS += $(graph_tests)
graph_libs = $(TEST_LIBS) daemon/graph/libgraph.a proto/op/libop.a $(BASE_LIBS)
tests_unit_graph_autodiff_test_LDADD = $(graph_libs)
tests_unit_graph_graph_test_LDADD = $(graph_libs)
