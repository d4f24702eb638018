check_PROGRAMS += tests/unit/worker/agent/agent_test tests/unit/worker/agent/agent_link_test \
  tests/unit/worker/agent/agent_pairs_test tests/unit/worker/agent/devices_test tests/unit/worker/agent/gpu_health_test \
  tests/unit/worker/agent/peer_clock_test
TESTS += tests/unit/worker/agent/agent_test tests/unit/worker/agent/agent_link_test \
  tests/unit/worker/agent/agent_pairs_test tests/unit/worker/agent/devices_test tests/unit/worker/agent/gpu_health_test \
  tests/unit/worker/agent/peer_clock_test
tests_unit_worker_agent_agent_test_SOURCES = tests/unit/worker/agent/agent_test.c \
  tests/unit/worker/agent/agent_world.c tests/unit/worker/agent/agent_world.h
tests_unit_worker_agent_agent_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
tests_unit_worker_agent_agent_link_test_SOURCES = tests/unit/worker/agent/agent_link_test.c \
  tests/unit/worker/agent/agent_world.c tests/unit/worker/agent/agent_world.h
tests_unit_worker_agent_agent_link_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
tests_unit_worker_agent_agent_pairs_test_SOURCES = tests/unit/worker/agent/agent_pairs_test.c \
  tests/unit/worker/agent/agent_world.c tests/unit/worker/agent/agent_world.h
tests_unit_worker_agent_agent_pairs_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
tests_unit_worker_agent_devices_test_SOURCES = tests/unit/worker/agent/devices_test.c \
  tests/unit/worker/agent/agent_world.c tests/unit/worker/agent/agent_world.h
tests_unit_worker_agent_devices_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
tests_unit_worker_agent_gpu_health_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
tests_unit_worker_agent_peer_clock_test_LDADD = $(TEST_LIBS) $(AGENT_LIBS)
