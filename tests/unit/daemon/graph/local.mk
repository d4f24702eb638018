graph_tests = \
  tests/unit/daemon/graph/autodiff_test \
  tests/unit/daemon/graph/graph_test
test_links += $(graph_tests)
check_PROGRAMS += tests/unit/daemon/graph/graph_tests
$(graph_tests): tests/unit/daemon/graph/graph_tests
	$(LINK_TEST)
tests_unit_daemon_graph_graph_tests_SOURCES = \
  tests/unit/daemon/graph/autodiff_test.c \
  tests/unit/daemon/graph/graph_test.c
tests_unit_daemon_graph_graph_tests_LDADD = $(TEST_LIBS) daemon/graph/libgraph.a proto/op/libop.a \
  $(BASE_LIBS)
