noinst_LIBRARIES += daemon/planner/libplanner.a
daemon_planner_libplanner_a_SOURCES = \
  daemon/planner/clusterfile.c daemon/planner/clusterfile.h \
  daemon/planner/jobfile.c daemon/planner/jobfile.h \
  daemon/planner/pipeline.c daemon/planner/pipeline.h \
  daemon/planner/shares.c daemon/planner/shares.h
