# hspmdctl without its main, so that tests can run commands.
noinst_LIBRARIES += daemon/ctl/libctl.a
daemon_ctl_libctl_a_SOURCES = \
  daemon/ctl/cmd_bundle.c \
  daemon/ctl/cmd_check.c \
  daemon/ctl/cmd_ckpt.c \
  daemon/ctl/cmd_compile.c \
  daemon/ctl/cmd_feed.c \
  daemon/ctl/cmd_job.c \
  daemon/ctl/cmd_plan.c \
  daemon/ctl/cmd_show.c \
  daemon/ctl/cmd_status.c \
  daemon/ctl/cmd_submit.c \
  daemon/ctl/cmd_trace.c \
  daemon/ctl/cmd_verify.c daemon/ctl/verifyplan.h \
  daemon/ctl/command.h \
  daemon/ctl/commands.c \
  daemon/ctl/ctl.c \
  daemon/ctl/jobload.c daemon/ctl/jobload.h \
  daemon/ctl/options.c \
  daemon/ctl/planalone.c daemon/ctl/planalone.h \
  daemon/ctl/planchange.c daemon/ctl/planchange.h \
  daemon/ctl/planpick.c daemon/ctl/planpick.h \
  daemon/ctl/planschedule.c daemon/ctl/planschedule.h \
  daemon/ctl/programfile.c daemon/ctl/programfile.h \
  daemon/ctl/remote.c daemon/ctl/remote.h \
  daemon/ctl/table.c daemon/ctl/table.h \
  daemon/ctl/transition.c daemon/ctl/transition.h \
  daemon/ctl/workercall.c daemon/ctl/workercall.h

CTL_LIBS = daemon/ctl/libctl.a $(NET_LIBS) $(PLANNER_LIBS) $(CJSON_LIBS) $(SMARTCOLS_LIBS)

bin_PROGRAMS += hspmdctl
hspmdctl_SOURCES = daemon/ctl/main.c
hspmdctl_LDADD = $(CTL_LIBS)
dist_man_MANS += daemon/ctl/hspmdctl.1 daemon/ctl/hspmd-job.5
bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = daemon/ctl/completion/hspmdctl
