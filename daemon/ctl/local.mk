# hspmdctl without its main, so that tests can run commands.
noinst_LIBRARIES += daemon/ctl/libctl.a
daemon_ctl_libctl_a_SOURCES = \
  daemon/ctl/away.c daemon/ctl/away.h \
  daemon/ctl/cmd_adopt.c daemon/ctl/cmd_adopt.h \
  daemon/ctl/cmd_backup.c daemon/ctl/cmd_backup.h \
  daemon/ctl/cmd_bundle.c daemon/ctl/cmd_bundle.h \
  daemon/ctl/cmd_check.c daemon/ctl/cmd_check.h \
  daemon/ctl/cmd_ckpt.c daemon/ctl/cmd_ckpt.h \
  daemon/ctl/cmd_compile.c daemon/ctl/cmd_compile.h \
  daemon/ctl/cmd_feed.c daemon/ctl/cmd_feed.h \
  daemon/ctl/cmd_help.c daemon/ctl/cmd_help.h \
  daemon/ctl/cmd_job.c daemon/ctl/cmd_job.h \
  daemon/ctl/cmd_node.c daemon/ctl/cmd_node.h \
  daemon/ctl/cmd_plan.c daemon/ctl/cmd_plan.h \
  daemon/ctl/cmd_show.c daemon/ctl/cmd_show.h \
  daemon/ctl/cmd_status.c daemon/ctl/cmd_status.h \
  daemon/ctl/cmd_submit.c daemon/ctl/cmd_submit.h \
  daemon/ctl/cmd_trace.c daemon/ctl/cmd_trace.h \
  daemon/ctl/cmd_verify.c daemon/ctl/cmd_verify.h \
  daemon/ctl/command.c daemon/ctl/command.h \
  daemon/ctl/commands.c daemon/ctl/commands.h \
  daemon/ctl/ctl.c daemon/ctl/ctl.h \
  daemon/ctl/ctl_run.c daemon/ctl/ctl_run.h \
  daemon/ctl/job_load.c daemon/ctl/job_load.h \
  daemon/ctl/options.c daemon/ctl/options.h \
  daemon/ctl/plan_change.c daemon/ctl/plan_change.h \
  daemon/ctl/plan_local.c daemon/ctl/plan_local.h \
  daemon/ctl/plan_pick.c daemon/ctl/plan_pick.h \
  daemon/ctl/plan_schedule.c daemon/ctl/plan_schedule.h \
  daemon/ctl/program_output.c daemon/ctl/program_output.h \
  daemon/ctl/remote.c daemon/ctl/remote.h \
  daemon/ctl/table.c daemon/ctl/table.h \
  daemon/ctl/transition.c daemon/ctl/transition.h \
  daemon/ctl/worker_call.c daemon/ctl/worker_call.h

CTL_LIBS = daemon/ctl/libctl.a $(NET_LIBS) $(PLANNER_LIBS) $(CJSON_LIBS) $(SMARTCOLS_LIBS)

bin_PROGRAMS += hspmdctl
hspmdctl_SOURCES = daemon/ctl/main.c
hspmdctl_LDADD = $(CTL_LIBS)
dist_man_MANS += daemon/ctl/hspmdctl.1 daemon/ctl/hspmd-job.5
bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = daemon/ctl/completion/hspmdctl
