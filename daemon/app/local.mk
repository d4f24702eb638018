noinst_LIBRARIES += daemon/app/libdaemonapp.a
daemon_app_libdaemonapp_a_SOURCES = \
  daemon/app/daemon_config.c daemon/app/daemon_config.h \
  daemon/app/epochplan.c daemon/app/epochplan.h \
  daemon/app/epochshards.c daemon/app/epochshards.h \
  daemon/app/store.c daemon/app/store.h
DAEMONAPP_LIBS = daemon/app/libdaemonapp.a $(SQLITE_LIBS) $(TEXT_LIBS)
