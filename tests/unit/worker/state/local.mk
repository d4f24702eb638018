state_tests = \
  tests/unit/worker/state/ckpt_test \
  tests/unit/worker/state/region_test \
  tests/unit/worker/state/safetensors_test \
  tests/unit/worker/state/segment_test
check_PROGRAMS += $(state_tests)
TESTS += $(state_tests)
shard_fill = tests/unit/worker/state/shard_fill.c tests/unit/worker/state/shard_fill.h
state_test_lib = tests/unit/worker/state/state_lib.c tests/unit/worker/state/state_lib.h
tests_unit_worker_state_ckpt_test_SOURCES = tests/unit/worker/state/ckpt_test.c $(state_test_lib)
tests_unit_worker_state_ckpt_test_LDADD = $(TEST_LIBS) $(STATE_LIBS)
tests_unit_worker_state_region_test_SOURCES = tests/unit/worker/state/region_test.c $(state_test_lib)
tests_unit_worker_state_region_test_LDADD = $(TEST_LIBS) $(STATE_LIBS) $(COMM_LIBS) $(BASE_LIBS)
tests_unit_worker_state_safetensors_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fallocate
tests_unit_worker_state_safetensors_test_LDADD = $(TEST_LIBS) $(STATE_LIBS)
tests_unit_worker_state_segment_test_SOURCES = tests/unit/worker/state/segment_test.c $(shard_fill) $(state_test_lib)
tests_unit_worker_state_segment_test_LDADD = $(TEST_LIBS) $(STATE_LIBS)
