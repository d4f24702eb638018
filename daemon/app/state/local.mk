noinst_LIBRARIES += daemon/app/state/libappstate.a
daemon_app_state_libappstate_a_SOURCES = \
  daemon/app/state/app_state.c daemon/app/state/app_state.h \
  daemon/app/state/daemon_config.c daemon/app/state/daemon_config.h \
  daemon/app/state/event_queue.c daemon/app/state/event_queue.h \
  daemon/app/state/job_table.c daemon/app/state/job_table.h \
  daemon/app/state/refusals.c daemon/app/state/refusals.h \
  daemon/app/state/sessions.c daemon/app/state/sessions.h \
  daemon/app/state/tasks.c daemon/app/state/tasks.h
