noinst_LIBRARIES += daemon/spmd/verify/libverify.a
daemon_spmd_verify_libverify_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)
daemon_spmd_verify_libverify_a_SOURCES = \
  daemon/spmd/verify/shrink_homes.c daemon/spmd/verify/shrink_homes.h \
  daemon/spmd/verify/shrink_model.c daemon/spmd/verify/shrink_model.h
