noinst_LIBRARIES += daemon/spmd/reshard/libreshard.a
daemon_spmd_reshard_libreshard_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)
daemon_spmd_reshard_libreshard_a_SOURCES = \
  daemon/spmd/reshard/cell_holders.c daemon/spmd/reshard/cell_holders.h \
  daemon/spmd/reshard/copy_send.c daemon/spmd/reshard/copy_send.h \
  daemon/spmd/reshard/move_list.c daemon/spmd/reshard/move_list.h \
  daemon/spmd/reshard/reshard_cost.c daemon/spmd/reshard/reshard_cost.h \
  daemon/spmd/reshard/reshard_kind.c daemon/spmd/reshard/reshard_kind.h \
  daemon/spmd/reshard/reshard_kind_text.c daemon/spmd/reshard/reshard_kind_text.h \
  daemon/spmd/reshard/resolve.c daemon/spmd/reshard/resolve.h \
  daemon/spmd/reshard/resolve_impl.h \
  daemon/spmd/reshard/resolve_reduction.c daemon/spmd/reshard/resolve_reduction.h
