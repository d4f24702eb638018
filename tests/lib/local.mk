check_LIBRARIES += tests/lib/libtest.a
tests_lib_libtest_a_SOURCES = \
  tests/lib/golden.c tests/lib/golden.h \
  tests/lib/naive_graph.c tests/lib/naive_graph.h \
  tests/lib/naive_ops.c tests/lib/naive_ops.h \
  tests/lib/testlib.c tests/lib/testlib.h
