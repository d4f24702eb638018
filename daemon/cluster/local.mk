noinst_LIBRARIES += daemon/cluster/libcluster.a
daemon_cluster_libcluster_a_SOURCES = \
  daemon/cluster/admin.c \
  daemon/cluster/allocate.c \
  daemon/cluster/cluster.c daemon/cluster/cluster.h \
  daemon/cluster/clustercheck.c \
  daemon/cluster/clusterint.h \
  daemon/cluster/clusterstate.h \
  daemon/cluster/epochmsg.c \
  daemon/cluster/keepers.c \
  daemon/cluster/epochs.c \
  daemon/cluster/finishing.c \
  daemon/cluster/health.c \
  daemon/cluster/index.c \
  daemon/cluster/jobdata.c daemon/cluster/jobs.c \
  daemon/cluster/marks.c \
  daemon/cluster/measure.c \
  daemon/cluster/membership.c \
  daemon/cluster/nodecheck.c \
  daemon/cluster/plans.c \
  daemon/cluster/recover.c \
  daemon/cluster/rows.c \
  daemon/cluster/slow.c \
  daemon/cluster/spread.c \
  daemon/cluster/suspend.c
daemon_cluster_libcluster_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)

# What links libcluster needs these behind it.
CLUSTER_LIBS = daemon/cluster/libcluster.a $(WIRE_LIBS)
