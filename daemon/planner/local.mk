noinst_LIBRARIES += daemon/planner/libplanner.a
daemon_planner_libplanner_a_SOURCES = \
  daemon/planner/annotations.c daemon/planner/annotations.h \
  daemon/planner/bucket.c daemon/planner/bucket.h \
  daemon/planner/candidates.c daemon/planner/candidates.h \
  daemon/planner/cluster_file.c daemon/planner/cluster_file.h \
  daemon/planner/correct.c daemon/planner/correct.h \
  daemon/planner/cost.c daemon/planner/cost.h \
  daemon/planner/durability.c daemon/planner/durability.h \
  daemon/planner/figure.c daemon/planner/figure.h \
  daemon/planner/job_file.c daemon/planner/job_file.h \
  daemon/planner/lengths.c daemon/planner/lengths.h \
  daemon/planner/lines.c daemon/planner/lines.h \
  daemon/planner/links.c daemon/planner/links.h \
  daemon/planner/pipeline.c daemon/planner/pipeline.h \
  daemon/planner/planner.c daemon/planner/planner.h \
  daemon/planner/price.c daemon/planner/price.h \
  daemon/planner/rings.c daemon/planner/rings.h \
  daemon/planner/search.c daemon/planner/search.h \
  daemon/planner/shares.c daemon/planner/shares.h \
  daemon/planner/replicas.c daemon/planner/replicas.h \
  daemon/planner/tp_groups.c daemon/planner/tp_groups.h \
  daemon/planner/timing.c daemon/planner/timing.h \
  daemon/planner/work.c daemon/planner/work.h

# Programs that link libplanner need these behind it.
PLANNER_LIBS = daemon/planner/libplanner.a $(COMPILER_LIBS) daemon/graph/libgraph.a \
  proto/program/libprogram.a proto/layout/liblayout.a proto/op/libop.a $(LP_LIBS) $(TEXT_LIBS)
