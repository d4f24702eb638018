noinst_LIBRARIES += daemon/app/plans/libplans.a
daemon_app_plans_libplans_a_SOURCES = \
  daemon/app/plans/epoch_package.c daemon/app/plans/epoch_package.h \
  daemon/app/plans/epoch_shards.c daemon/app/plans/epoch_shards.h \
  daemon/app/plans/job_record.c daemon/app/plans/job_record.h \
  daemon/app/plans/plan_choice.c daemon/app/plans/plan_choice.h \
  daemon/app/plans/plan_request.c daemon/app/plans/plan_request.h
