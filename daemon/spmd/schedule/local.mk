noinst_LIBRARIES += daemon/spmd/schedule/libschedule.a
daemon_spmd_schedule_libschedule_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)
daemon_spmd_schedule_libschedule_a_SOURCES = \
  daemon/spmd/schedule/activation_slots.c daemon/spmd/schedule/activation_slots.h \
  daemon/spmd/schedule/buckets.c daemon/spmd/schedule/buckets.h \
  daemon/spmd/schedule/deadlock.c daemon/spmd/schedule/deadlock.h \
  daemon/spmd/schedule/early_sums.c daemon/spmd/schedule/early_sums.h \
  daemon/spmd/schedule/kept_messages.c daemon/spmd/schedule/kept_messages.h \
  daemon/spmd/schedule/memory_plan.c daemon/spmd/schedule/memory_plan.h \
  daemon/spmd/schedule/pipeline_order.c daemon/spmd/schedule/pipeline_order.h \
  daemon/spmd/schedule/queue_hazards.c daemon/spmd/schedule/queue_hazards.h \
  daemon/spmd/schedule/timeline.c daemon/spmd/schedule/timeline.h \
  daemon/spmd/schedule/timeline_draw.c daemon/spmd/schedule/timeline_draw.h
