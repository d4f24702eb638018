noinst_LIBRARIES += worker/agent/libagent.a
worker_agent_libagent_a_SOURCES = \
  worker/agent/agent.c worker/agent/agent.h \
  worker/agent/agentint.h \
  worker/agent/devices.c \
  worker/agent/gpuhealth.c worker/agent/gpuhealth.h \
  worker/agent/leave.c \
  worker/agent/peerclock.c worker/agent/peerclock.h worker/agent/relay.c \
  worker/agent/uplink.c

# What links libagent needs these behind it.
AGENT_LIBS = worker/agent/libagent.a $(WIRE_LIBS)
