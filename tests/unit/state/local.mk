state_tests = \
  tests/unit/state/ckpt_test \
  tests/unit/state/region_test \
  tests/unit/state/safetensors_test \
  tests/unit/state/segment_test
check_PROGRAMS += $(state_tests)
TESTS += $(state_tests)
shard_fill = tests/unit/state/shardfill.c tests/unit/state/shardfill.h
state_test_lib = tests/unit/state/statelib.c tests/unit/state/statelib.h
tests_unit_state_ckpt_test_SOURCES = tests/unit/state/ckpt_test.c $(state_test_lib)
tests_unit_state_ckpt_test_LDADD = $(TEST_LIBS) $(STATE_LIBS)
tests_unit_state_region_test_SOURCES = tests/unit/state/region_test.c $(state_test_lib)
tests_unit_state_region_test_LDADD = $(TEST_LIBS) $(STATE_LIBS) $(COMM_LIBS) $(BASE_LIBS)
tests_unit_state_safetensors_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fallocate
tests_unit_state_safetensors_test_LDADD = $(TEST_LIBS) $(STATE_LIBS)
tests_unit_state_segment_test_SOURCES = tests/unit/state/segment_test.c $(shard_fill) $(state_test_lib)
tests_unit_state_segment_test_LDADD = $(TEST_LIBS) $(STATE_LIBS)
