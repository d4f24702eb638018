noinst_LIBRARIES += daemon/plan/libplan.a
daemon_plan_libplan_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)
daemon_plan_libplan_a_SOURCES = \
  daemon/plan/name_range.c daemon/plan/name_range.h \
  daemon/plan/plan.h \
  daemon/plan/plan_check.c daemon/plan/plan_check.h \
  daemon/plan/plan_yaml.c daemon/plan/plan_yaml.h \
  daemon/plan/plan_yaml_annot.c daemon/plan/plan_yaml_annot.h \
  daemon/plan/plan_yaml_one.c daemon/plan/plan_yaml_one.h \
  daemon/plan/plan_yaml_total.c daemon/plan/plan_yaml_total.h \
  daemon/plan/pool_view.c daemon/plan/pool_view.h \
  daemon/plan/pool_yaml.c daemon/plan/pool_yaml.h \
  daemon/plan/stage_groups.c daemon/plan/stage_groups.h
