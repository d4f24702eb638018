noinst_LIBRARIES += worker/agent/libagent.a
worker_agent_libagent_a_SOURCES = \
  worker/agent/agent.c worker/agent/agent.h \
  worker/agent/agent_link.c worker/agent/agent_link.h \
  worker/agent/agent_actions.c worker/agent/agent_actions.h \
  worker/agent/agent_impl.h \
  worker/agent/damage.c worker/agent/damage.h \
  worker/agent/devices.c worker/agent/devices.h \
  worker/agent/gpu_health.c worker/agent/gpu_health.h \
  worker/agent/keeping.c worker/agent/keeping.h \
  worker/agent/leave.c worker/agent/leave.h \
  worker/agent/obey.c worker/agent/obey.h \
  worker/agent/agent_papers.c worker/agent/agent_papers.h \
  worker/agent/peer_clock.c worker/agent/peer_clock.h \
  worker/agent/relay.c worker/agent/relay.h \
  worker/agent/agent_seal.c worker/agent/agent_seal.h \
  worker/agent/told_steps.c worker/agent/told_steps.h \
  worker/agent/uplink.c worker/agent/uplink.h

EXTRA_DIST += worker/agent/DECISIONS.md worker/agent/EXECUTOR.md

# Programs that link libagent need these behind it.
AGENT_LIBS = worker/agent/libagent.a $(WIRE_LIBS)
