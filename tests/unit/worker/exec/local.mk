TINY_PROG = tests/unit/worker/exec/tiny_program.c tests/unit/worker/exec/tiny_program.h
exec_tests = tests/unit/worker/exec/cells_test tests/unit/worker/exec/vote_test tests/unit/worker/exec/pace_test \
  tests/unit/worker/exec/engine_test tests/unit/worker/exec/device_engine_test \
  tests/unit/worker/exec/moves_test tests/unit/worker/exec/fuse_epilogue_test \
  tests/unit/worker/exec/output_route_test tests/unit/worker/exec/fuse_launch_test
check_PROGRAMS += $(exec_tests)
TESTS += $(exec_tests)
tests_unit_worker_exec_cells_test_LDADD = $(TEST_LIBS) $(EXEC_LIBS)
tests_unit_worker_exec_vote_test_LDADD = $(TEST_LIBS) $(EXEC_LIBS)
tests_unit_worker_exec_pace_test_LDADD = $(TEST_LIBS) $(EXEC_LIBS)
tests_unit_worker_exec_fuse_epilogue_test_LDADD = $(TEST_LIBS) $(EXEC_LIBS)
tests_unit_worker_exec_output_route_test_LDADD = $(TEST_LIBS) $(EXEC_LIBS)
tests_unit_worker_exec_fuse_launch_test_LDADD = $(TEST_LIBS) $(EXEC_LIBS)
tests_unit_worker_exec_engine_test_SOURCES = tests/unit/worker/exec/engine_test.c $(TINY_PROG)
tests_unit_worker_exec_engine_test_LDADD = tests/lib/libghost.a $(TEST_LIBS) $(EXEC_LIBS)
# The same on a device that is no CPU.
tests_unit_worker_exec_device_engine_test_SOURCES = $(tests_unit_worker_exec_engine_test_SOURCES)
tests_unit_worker_exec_device_engine_test_CPPFLAGS = $(AM_CPPFLAGS) -DENGINE_ON_DEVICE
tests_unit_worker_exec_device_engine_test_LDADD = $(tests_unit_worker_exec_engine_test_LDADD)
tests_unit_worker_exec_moves_test_SOURCES = \
  tests/unit/worker/exec/moves_test.c tests/unit/worker/exec/device_comm.c tests/unit/worker/exec/device_comm.h
tests_unit_worker_exec_moves_test_LDADD = tests/lib/libghost.a $(TEST_LIBS) $(COMPILER_LIBS) $(EXEC_LIBS)
