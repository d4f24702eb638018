# The coordinator's program, one room a part, lowest first. Rooms of one line do not use each other.
include daemon/app/http/local.mk
include daemon/app/store/local.mk
include daemon/app/plans/local.mk
include daemon/app/state/local.mk
include daemon/app/docs/local.mk
include daemon/app/feed/local.mk
include daemon/app/api/local.mk
include daemon/app/perform/local.mk

# The roof.
noinst_LIBRARIES += daemon/app/libdaemonapp.a
daemon_app_libdaemonapp_a_SOURCES = \
  daemon/app/app.c daemon/app/app.h \
  daemon/app/dispatch.c daemon/app/dispatch.h \
  daemon/app/places.c daemon/app/places.h

# A caller stands before the library that it calls: the linker keeps the order of the rooms.
DAEMONAPP_PARTS = daemon/app/perform/libperform.a daemon/app/api/libapi.a \
  daemon/app/feed/libfeed.a daemon/app/docs/libdocs.a daemon/app/state/libappstate.a \
  daemon/app/plans/libplans.a daemon/app/store/libstore.a daemon/app/http/libhttp.a

# Programs that link libdaemonapp need these behind it.
DAEMONAPP_LIBS = daemon/app/libdaemonapp.a $(DAEMONAPP_PARTS) $(NET_LIBS) \
  daemon/cluster/libcluster.a $(PLANNER_LIBS) $(WIRE_LIBS) $(SQLITE_LIBS) $(MICROHTTPD_LIBS)

sbin_PROGRAMS += hspmdd
hspmdd_SOURCES = daemon/app/hspmdd.c
hspmdd_LDADD = $(DAEMONAPP_LIBS)
dist_man_MANS += daemon/app/hspmdd.8 daemon/app/hspmdd.yaml.5
