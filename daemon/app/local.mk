noinst_LIBRARIES += daemon/app/libdaemonapp.a
daemon_app_libdaemonapp_a_SOURCES = \
  daemon/app/app.c daemon/app/app.h \
  daemon/app/batch.c daemon/app/batchint.h daemon/app/writing.c \
  daemon/app/stuck.c \
  daemon/app/checkdoc.c daemon/app/checkdoc.h \
  daemon/app/docput.h \
  daemon/app/client.c \
  daemon/app/daemon_config.c daemon/app/daemon_config.h \
  daemon/app/epochplan.c daemon/app/epochplan.h \
  daemon/app/epochshards.c daemon/app/epochshards.h \
  daemon/app/feed.c daemon/app/feed.h \
  daemon/app/feedlog.c \
  daemon/app/follow.c \
  daemon/app/gather.c \
  daemon/app/httpd.c daemon/app/httpd.h \
  daemon/app/jobrec.c daemon/app/jobrec.h \
  daemon/app/jobtable.c \
  daemon/app/metrics.c daemon/app/metrics.h \
  daemon/app/plandoc.c daemon/app/plandoc.h \
  daemon/app/planchoice.c \
  daemon/app/planning.c \
  daemon/app/planwork.c daemon/app/planwork.h \
  daemon/app/query.c \
  daemon/app/request.c \
  daemon/app/statusdoc.c \
  daemon/app/store.c daemon/app/store.h \
  daemon/app/tbevent.c daemon/app/tbevent.h \
  daemon/app/tbfile.c daemon/app/tbfile.h \
  daemon/app/tracedoc.c daemon/app/tracedoc.h \
  daemon/app/tracing.c

# What links libdaemonapp needs these behind it.
DAEMONAPP_LIBS = daemon/app/libdaemonapp.a $(NET_LIBS) daemon/cluster/libcluster.a \
  $(PLANNER_LIBS) $(WIRE_LIBS) $(SQLITE_LIBS) $(MICROHTTPD_LIBS)

sbin_PROGRAMS += hspmdd
hspmdd_SOURCES = daemon/app/hspmdd.c
hspmdd_LDADD = $(DAEMONAPP_LIBS)
dist_man_MANS += daemon/app/hspmdd.8 daemon/app/hspmdd.yaml.5
