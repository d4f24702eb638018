noinst_LIBRARIES += daemon/cluster/libcluster.a
daemon_cluster_libcluster_a_SOURCES = \
  daemon/cluster/admin.c daemon/cluster/admin.h \
  daemon/cluster/admin_answers.c daemon/cluster/admin_answers.h \
  daemon/cluster/adopt.c daemon/cluster/adopt.h \
  daemon/cluster/allocate.c daemon/cluster/allocate.h \
  daemon/cluster/apart.c daemon/cluster/apart.h \
  daemon/cluster/attempt_advance.c daemon/cluster/attempt_advance.h \
  daemon/cluster/attempt_begin.c daemon/cluster/attempt_begin.h \
  daemon/cluster/attempt_end.c daemon/cluster/attempt_end.h \
  daemon/cluster/behind.c daemon/cluster/behind.h \
  daemon/cluster/broken_pairs.c daemon/cluster/broken_pairs.h \
  daemon/cluster/cluster.h \
  daemon/cluster/ckpt_cuts.c daemon/cluster/ckpt_cuts.h \
  daemon/cluster/ckpt_look.c daemon/cluster/ckpt_look.h \
  daemon/cluster/ckpt_marks.c daemon/cluster/ckpt_marks.h \
  daemon/cluster/ckpt_which.c daemon/cluster/ckpt_which.h \
  daemon/cluster/cluster_check.c daemon/cluster/cluster_check.h \
  daemon/cluster/cluster_state.h \
  daemon/cluster/cluster_step.c daemon/cluster/cluster_step.h \
  daemon/cluster/crowd.c daemon/cluster/crowd.h \
  daemon/cluster/device_requests.c daemon/cluster/device_requests.h \
  daemon/cluster/doubt.c daemon/cluster/doubt.h \
  daemon/cluster/epoch_messages.c daemon/cluster/epoch_messages.h \
  daemon/cluster/epoch_peers.c daemon/cluster/epoch_peers.h \
  daemon/cluster/finishing.c daemon/cluster/finishing.h \
  daemon/cluster/forget.c daemon/cluster/forget.h \
  daemon/cluster/health.c daemon/cluster/health.h \
  daemon/cluster/index.c daemon/cluster/index.h \
  daemon/cluster/job_data.c daemon/cluster/job_data.h \
  daemon/cluster/job_list.c daemon/cluster/job_list.h \
  daemon/cluster/job_state.c daemon/cluster/job_state.h \
  daemon/cluster/jobs.c daemon/cluster/jobs.h \
  daemon/cluster/replica_holders.c daemon/cluster/replica_holders.h \
  daemon/cluster/kept_state.c daemon/cluster/kept_state.h \
  daemon/cluster/learnt.c daemon/cluster/learnt.h \
  daemon/cluster/link_probe.c daemon/cluster/link_probe.h \
  daemon/cluster/live_state.c daemon/cluster/live_state.h \
  daemon/cluster/lookup.c daemon/cluster/lookup.h \
  daemon/cluster/marks.c daemon/cluster/marks.h \
  daemon/cluster/may_say.c daemon/cluster/may_say.h \
  daemon/cluster/measure.c daemon/cluster/measure.h \
  daemon/cluster/membership.c daemon/cluster/membership.h \
  daemon/cluster/namesake.c daemon/cluster/namesake.h \
  daemon/cluster/node_check.c daemon/cluster/node_check.h \
  daemon/cluster/node_fault.c daemon/cluster/node_fault.h \
  daemon/cluster/node_loss.c daemon/cluster/node_loss.h \
  daemon/cluster/outbox.c daemon/cluster/outbox.h \
  daemon/cluster/cluster_papers.c daemon/cluster/cluster_papers.h \
  daemon/cluster/parked.c daemon/cluster/parked.h \
  daemon/cluster/past_epochs.c daemon/cluster/past_epochs.h \
  daemon/cluster/paths.c daemon/cluster/paths.h \
  daemon/cluster/plan_info.c daemon/cluster/plan_info.h \
  daemon/cluster/plan_requests.c daemon/cluster/plan_requests.h \
  daemon/cluster/plan_results.c daemon/cluster/plan_results.h \
  daemon/cluster/progress.c daemon/cluster/progress.h \
  daemon/cluster/reach_rounds.c daemon/cluster/reach_rounds.h \
  daemon/cluster/reconcile.c daemon/cluster/reconcile.h \
  daemon/cluster/recover.c daemon/cluster/recover.h \
  daemon/cluster/row_forms.h \
  daemon/cluster/row_load.c daemon/cluster/row_load.h \
  daemon/cluster/row_read.c daemon/cluster/row_read.h \
  daemon/cluster/rows.c daemon/cluster/rows.h \
  daemon/cluster/same_node.c daemon/cluster/same_node.h \
  daemon/cluster/slow.c daemon/cluster/slow.h \
  daemon/cluster/spread.c daemon/cluster/spread.h \
  daemon/cluster/stall.c daemon/cluster/stall.h \
  daemon/cluster/standing.c daemon/cluster/standing.h \
  daemon/cluster/state_damage.c daemon/cluster/state_damage.h \
  daemon/cluster/suspend.c daemon/cluster/suspend.h \
  daemon/cluster/try_anew.c daemon/cluster/try_anew.h \
  daemon/cluster/waits.c daemon/cluster/waits.h
daemon_cluster_libcluster_a_CFLAGS = $(AM_CFLAGS) $(SWITCH_CFLAGS)

# Programs that link libcluster need these behind it.
CLUSTER_LIBS = daemon/cluster/libcluster.a $(WIRE_LIBS)
EXTRA_DIST += daemon/cluster/DECISIONS.md daemon/cluster/ckpt_choice.md
