TINY_PROG = tests/unit/exec/tinyprog.c tests/unit/exec/tinyprog.h
exec_tests = tests/unit/exec/cells_test tests/unit/exec/vote_test tests/unit/exec/pace_test \
  tests/unit/exec/engine_test tests/unit/exec/deviceengine_test \
  tests/unit/exec/moves_test tests/unit/exec/tail_test \
  tests/unit/exec/route_test tests/unit/exec/bunch_test
check_PROGRAMS += $(exec_tests)
TESTS += $(exec_tests)
tests_unit_exec_cells_test_LDADD = $(TEST_LIBS) $(EXEC_LIBS)
tests_unit_exec_vote_test_LDADD = $(TEST_LIBS) $(EXEC_LIBS)
tests_unit_exec_pace_test_LDADD = $(TEST_LIBS) $(EXEC_LIBS)
tests_unit_exec_tail_test_LDADD = $(TEST_LIBS) $(EXEC_LIBS)
tests_unit_exec_route_test_LDADD = $(TEST_LIBS) $(EXEC_LIBS)
tests_unit_exec_bunch_test_LDADD = $(TEST_LIBS) $(EXEC_LIBS)
tests_unit_exec_engine_test_SOURCES = tests/unit/exec/engine_test.c $(TINY_PROG)
tests_unit_exec_engine_test_LDADD = tests/lib/libghost.a $(TEST_LIBS) $(EXEC_LIBS)
# The same on a device that is no CPU.
tests_unit_exec_deviceengine_test_SOURCES = $(tests_unit_exec_engine_test_SOURCES)
tests_unit_exec_deviceengine_test_CPPFLAGS = $(AM_CPPFLAGS) -DENGINE_ON_DEVICE
tests_unit_exec_deviceengine_test_LDADD = $(tests_unit_exec_engine_test_LDADD)
tests_unit_exec_moves_test_SOURCES = \
  tests/unit/exec/moves_test.c tests/unit/exec/devcomm.c tests/unit/exec/devcomm.h
tests_unit_exec_moves_test_LDADD = tests/lib/libghost.a $(TEST_LIBS) $(COMPILER_LIBS) $(EXEC_LIBS)
