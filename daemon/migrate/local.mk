noinst_LIBRARIES += daemon/migrate/libmigrate.a
daemon_migrate_libmigrate_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)
daemon_migrate_libmigrate_a_SOURCES = \
  daemon/migrate/bsr.c daemon/migrate/bsr.h \
  daemon/migrate/bsr_cells.c daemon/migrate/bsr_cells.h \
  daemon/migrate/bsr_chunks.c daemon/migrate/bsr_chunks.h \
  daemon/migrate/bsr_impl.h \
  daemon/migrate/bsr_order.c daemon/migrate/bsr_order.h \
  daemon/migrate/bsr_routes.c daemon/migrate/bsr_routes.h \
  daemon/migrate/bsr_sources.c daemon/migrate/bsr_sources.h \
  daemon/migrate/state_placement.c daemon/migrate/state_placement.h
