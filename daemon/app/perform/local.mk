noinst_LIBRARIES += daemon/app/perform/libperform.a
daemon_app_perform_libperform_a_SOURCES = \
  daemon/app/perform/actions.c daemon/app/perform/actions.h \
  daemon/app/perform/actions_impl.h \
  daemon/app/perform/commit.c daemon/app/perform/commit.h \
  daemon/app/perform/job_papers.c daemon/app/perform/job_papers.h \
  daemon/app/perform/plan_queue.c daemon/app/perform/plan_queue.h \
  daemon/app/perform/store_stall.c daemon/app/perform/store_stall.h
