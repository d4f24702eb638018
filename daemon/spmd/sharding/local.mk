noinst_LIBRARIES += daemon/spmd/sharding/libsharding.a
daemon_spmd_sharding_libsharding_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)
daemon_spmd_sharding_libsharding_a_SOURCES = \
  daemon/spmd/sharding/activation_rest.c daemon/spmd/sharding/activation_rest.h \
  daemon/spmd/sharding/cover_to_annot.c daemon/spmd/sharding/cover_to_annot.h \
  daemon/spmd/sharding/deduce.c daemon/spmd/sharding/deduce.h \
  daemon/spmd/sharding/home_slots.c daemon/spmd/sharding/home_slots.h \
  daemon/spmd/sharding/infer_groups.c daemon/spmd/sharding/infer_groups.h \
  daemon/spmd/sharding/infer_pipelines.c daemon/spmd/sharding/infer_pipelines.h \
  daemon/spmd/sharding/param_home.c daemon/spmd/sharding/param_home.h \
  daemon/spmd/sharding/param_owners.c daemon/spmd/sharding/param_owners.h \
  daemon/spmd/sharding/param_use.c daemon/spmd/sharding/param_use.h \
  daemon/spmd/sharding/pipeline_units.c daemon/spmd/sharding/pipeline_units.h \
  daemon/spmd/sharding/sequence_balance.c daemon/spmd/sharding/sequence_balance.h \
  daemon/spmd/sharding/stage_layout.c daemon/spmd/sharding/stage_layout.h \
  daemon/spmd/sharding/zero_interleaved.c daemon/spmd/sharding/zero_interleaved.h
