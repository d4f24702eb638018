noinst_LIBRARIES += worker/state/libstate.a
worker_state_libstate_a_SOURCES = \
  worker/state/safetensors.c worker/state/safetensors.h
worker_state_libstate_a_CPPFLAGS = $(AM_CPPFLAGS) $(CJSON_CFLAGS)

# What links libstate needs these behind it.
STATE_LIBS = worker/state/libstate.a proto/op/libop.a $(CJSON_LIBS) $(BASE_LIBS)
