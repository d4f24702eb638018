check_PROGRAMS += tests/unit/agent/agent_test tests/unit/agent/agentlink_test \
  tests/unit/agent/agentpairs_test tests/unit/agent/devices_test tests/unit/agent/gpuhealth_test \
  tests/unit/agent/peerclock_test
TESTS += tests/unit/agent/agent_test tests/unit/agent/agentlink_test \
  tests/unit/agent/agentpairs_test tests/unit/agent/devices_test tests/unit/agent/gpuhealth_test \
  tests/unit/agent/peerclock_test
tests_unit_agent_agent_test_SOURCES = tests/unit/agent/agent_test.c \
  tests/unit/agent/agentworld.c tests/unit/agent/agentworld.h
tests_unit_agent_agent_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
tests_unit_agent_agentlink_test_SOURCES = tests/unit/agent/agentlink_test.c \
  tests/unit/agent/agentworld.c tests/unit/agent/agentworld.h
tests_unit_agent_agentlink_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
tests_unit_agent_agentpairs_test_SOURCES = tests/unit/agent/agentpairs_test.c \
  tests/unit/agent/agentworld.c tests/unit/agent/agentworld.h
tests_unit_agent_agentpairs_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
tests_unit_agent_devices_test_SOURCES = tests/unit/agent/devices_test.c \
  tests/unit/agent/agentworld.c tests/unit/agent/agentworld.h
tests_unit_agent_devices_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
tests_unit_agent_gpuhealth_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
tests_unit_agent_peerclock_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
