noinst_LIBRARIES += worker/app/libworkerconfig.a
worker_app_libworkerconfig_a_SOURCES = \
  worker/app/worker_config.c worker/app/worker_config.h
WORKERCONFIG_LIBS = worker/app/libworkerconfig.a $(TEXT_LIBS)

# --config: the agent of a node. Its parts stand in the archive, the loop that needs them too.
noinst_LIBRARIES += worker/app/libagentshell.a
worker_app_libagentshell_a_SOURCES = \
  worker/app/agent_check.c worker/app/agent_check.h \
  worker/app/agent_ckpts.c worker/app/agent_ckpts.h \
  worker/app/agent_disk.c worker/app/agent_disk.h \
  worker/app/agent_executors.c worker/app/agent_executors.h \
  worker/app/agent_links.c worker/app/agent_links.h \
  worker/app/agent_reach.c worker/app/agent_reach.h \
  worker/app/agent_receive.c worker/app/agent_receive.h \
  worker/app/agent_loop.c worker/app/agent_loop.h \
  worker/app/agent_main.c worker/app/agent_main.h \
  worker/app/agent_setup.c worker/app/agent_setup.h \
  worker/app/agent_shell.c worker/app/agent_shell.h \
  worker/app/incarnation_file.c worker/app/incarnation_file.h \
  worker/app/spawn.c worker/app/spawn.h
AGENTSHELL_LIBS = worker/app/libagentshell.a worker/run/librun.a $(EXECUTOR_LIBS) \
  worker/agent/libagent.a $(EXEC_LIBS) worker/app/libworkerconfig.a proto/text/libtext.a \
  $(YAML_LIBS) $(NET_LIBS)

sbin_PROGRAMS += hspmd-worker
hspmd_worker_SOURCES = worker/app/worker_main.c
hspmd_worker_LDADD = $(AGENTSHELL_LIBS)
EXTRA_DIST += worker/app/README.md
dist_man_MANS += worker/app/hspmd-worker.8 worker/app/hspmd-worker.yaml.5
