noinst_LIBRARIES += daemon/cluster/libcluster.a
daemon_cluster_libcluster_a_SOURCES = \
  daemon/cluster/admin.c \
  daemon/cluster/allocate.c \
  daemon/cluster/cluster.c daemon/cluster/cluster.h \
  daemon/cluster/cluster_check.c \
  daemon/cluster/cluster_impl.h \
  daemon/cluster/cluster_state.h \
  daemon/cluster/epoch_messages.c \
  daemon/cluster/keepers.c \
  daemon/cluster/epochs.c \
  daemon/cluster/finishing.c \
  daemon/cluster/health.c \
  daemon/cluster/index.c \
  daemon/cluster/job_data.c daemon/cluster/jobs.c \
  daemon/cluster/marks.c \
  daemon/cluster/measure.c \
  daemon/cluster/membership.c \
  daemon/cluster/node_check.c \
  daemon/cluster/plans.c \
  daemon/cluster/recover.c \
  daemon/cluster/rows.c \
  daemon/cluster/slow.c \
  daemon/cluster/spread.c \
  daemon/cluster/suspend.c
daemon_cluster_libcluster_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)

# What links libcluster needs these behind it.
CLUSTER_LIBS = daemon/cluster/libcluster.a $(WIRE_LIBS)
