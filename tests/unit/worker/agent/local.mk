AGENT_WORLD = tests/unit/worker/agent/agent_world.c tests/unit/worker/agent/agent_world.h
agent_tests = \
  tests/unit/worker/agent/agent_test \
  tests/unit/worker/agent/agent_link_test \
  tests/unit/worker/agent/agent_pairs_test \
  tests/unit/worker/agent/devices_test \
  tests/unit/worker/agent/gpu_health_test \
  tests/unit/worker/agent/keeping_test \
  tests/unit/worker/agent/peer_clock_test \
  tests/unit/worker/agent/relay_test
test_links += $(agent_tests)
check_PROGRAMS += tests/unit/worker/agent/agent_tests
$(agent_tests): tests/unit/worker/agent/agent_tests
	$(LINK_TEST)
tests_unit_worker_agent_agent_tests_SOURCES = \
  tests/unit/worker/agent/agent_test.c \
  tests/unit/worker/agent/agent_link_test.c \
  tests/unit/worker/agent/agent_pairs_test.c \
  tests/unit/worker/agent/devices_test.c \
  tests/unit/worker/agent/gpu_health_test.c \
  tests/unit/worker/agent/keeping_test.c \
  tests/unit/worker/agent/peer_clock_test.c \
  tests/unit/worker/agent/relay_test.c \
  $(AGENT_WORLD)
tests_unit_worker_agent_agent_tests_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
