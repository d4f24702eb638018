noinst_LIBRARIES += daemon/spmd/total/libtotal.a
daemon_spmd_total_libtotal_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)
daemon_spmd_total_libtotal_a_SOURCES = \
  daemon/spmd/total/pipeline_check.c daemon/spmd/total/pipeline_check.h \
  daemon/spmd/total/total_check.c daemon/spmd/total/total_check.h \
  daemon/spmd/total/total_plan.c daemon/spmd/total/total_plan.h \
  daemon/spmd/total/total_reshards.c daemon/spmd/total/total_reshards.h
