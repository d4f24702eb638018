TINY_PROG = tests/unit/worker/exec/tiny_program.c tests/unit/worker/exec/tiny_program.h
# device_engine_test and device_record_test run engine_test and engine_record_test on mock devices.
exec_tests = \
  tests/unit/worker/exec/cells_test \
  tests/unit/worker/exec/vote_test \
  tests/unit/worker/exec/pace_test \
  tests/unit/worker/exec/engine_test \
  tests/unit/worker/exec/engine_record_test \
  tests/unit/worker/exec/state_init_test \
  tests/unit/worker/exec/moves_test \
  tests/unit/worker/exec/fuse_epilogue_test \
  tests/unit/worker/exec/output_route_test \
  tests/unit/worker/exec/fuse_launch_test \
  tests/unit/worker/exec/step_trace_test \
  tests/unit/worker/exec/device_engine_test \
  tests/unit/worker/exec/device_record_test
test_links += $(exec_tests)
check_PROGRAMS += tests/unit/worker/exec/exec_tests
$(exec_tests): tests/unit/worker/exec/exec_tests
	$(LINK_TEST)
tests_unit_worker_exec_exec_tests_SOURCES = \
  tests/unit/worker/exec/cells_test.c \
  tests/unit/worker/exec/vote_test.c \
  tests/unit/worker/exec/pace_test.c \
  tests/unit/worker/exec/engine_test.c \
  tests/unit/worker/exec/engine_record_test.c \
  tests/unit/worker/exec/state_init_test.c \
  tests/unit/worker/exec/engine_world.c tests/unit/worker/exec/engine_world.h \
  tests/unit/worker/exec/moves_test.c \
  tests/unit/worker/exec/fuse_epilogue_test.c \
  tests/unit/worker/exec/output_route_test.c \
  tests/unit/worker/exec/fuse_launch_test.c \
  tests/unit/worker/exec/step_trace_test.c \
  tests/unit/worker/exec/device_comm.c tests/unit/worker/exec/device_comm.h $(TINY_PROG)
tests_unit_worker_exec_exec_tests_LDADD = tests/lib/libmockdev.a $(TEST_LIBS) $(COMPILER_LIBS) \
  worker/executor/libexecutor.a $(EXEC_LIBS) $(WIRE_LIBS)
