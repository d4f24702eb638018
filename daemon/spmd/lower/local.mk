noinst_LIBRARIES += daemon/spmd/lower/liblower.a
daemon_spmd_lower_liblower_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)
daemon_spmd_lower_liblower_a_SOURCES = \
  daemon/spmd/lower/layer_runs.c daemon/spmd/lower/layer_runs.h \
  daemon/spmd/lower/lower_epilogue.c daemon/spmd/lower/lower_epilogue.h \
  daemon/spmd/lower/lower_plan.c daemon/spmd/lower/lower_plan.h \
  daemon/spmd/lower/lower_prologue.c daemon/spmd/lower/lower_prologue.h \
  daemon/spmd/lower/lower_pipeline.c daemon/spmd/lower/lower_pipeline.h \
  daemon/spmd/lower/node_deduce.c daemon/spmd/lower/node_deduce.h \
  daemon/spmd/lower/node_place.c daemon/spmd/lower/node_place.h \
  daemon/spmd/lower/offload.c daemon/spmd/lower/offload.h \
  daemon/spmd/lower/param_slots.c daemon/spmd/lower/param_slots.h \
  daemon/spmd/lower/place_reductions.c daemon/spmd/lower/place_reductions.h \
  daemon/spmd/lower/recompute.c daemon/spmd/lower/recompute.h \
  daemon/spmd/lower/reduction_mincut.c daemon/spmd/lower/reduction_mincut.h \
  daemon/spmd/lower/ring_attention.c daemon/spmd/lower/ring_attention.h \
  daemon/spmd/lower/split_backward.c daemon/spmd/lower/split_backward.h \
  daemon/spmd/lower/stage_ir.c daemon/spmd/lower/stage_ir.h \
  daemon/spmd/lower/tensor_versions.c daemon/spmd/lower/tensor_versions.h \
  daemon/spmd/lower/zero3.c daemon/spmd/lower/zero3.h \
  daemon/spmd/lower/zero3_rendezvous.c daemon/spmd/lower/zero3_rendezvous.h
