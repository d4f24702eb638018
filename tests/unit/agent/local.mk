check_PROGRAMS += tests/unit/agent/agent_test
TESTS += tests/unit/agent/agent_test
tests_unit_agent_agent_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
