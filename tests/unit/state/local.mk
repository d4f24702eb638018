state_tests = tests/unit/state/safetensors_test
check_PROGRAMS += $(state_tests)
TESTS += $(state_tests)
tests_unit_state_safetensors_test_LDADD = $(TEST_LIBS) $(STATE_LIBS)
