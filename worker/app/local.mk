noinst_LIBRARIES += worker/app/libworkerconfig.a worker/app/libexecutor.a
worker_app_libworkerconfig_a_SOURCES = \
  worker/app/worker_config.c worker/app/worker_config.h
WORKERCONFIG_LIBS = worker/app/libworkerconfig.a $(TEXT_LIBS)

# --run and --verify: everything of hspmd-worker but its main.
noinst_LIBRARIES += worker/app/libworkerapp.a
worker_app_libworkerapp_a_SOURCES = \
  worker/app/ckptcheck.c worker/app/ckptcheck.h \
  worker/app/localdirect.c worker/app/localdirect.h \
  worker/app/localrun.c worker/app/localrun.h \
  worker/app/modelfile.c worker/app/modelfile.h \
  worker/app/rundevice.c worker/app/rundevice.h \
  worker/app/runfile.c worker/app/runfile.h \
  worker/app/verify.c worker/app/verifyint.h worker/app/verifylow.c worker/app/verifymatch.c worker/app/verifyvalue.c
worker_app_libworkerapp_a_CPPFLAGS = $(AM_CPPFLAGS) $(CJSON_CFLAGS)
WORKERAPP_LIBS = worker/app/libworkerapp.a worker/comm/libncclcomm.a $(EXEC_LIBS) proto/host/libhost.a $(BASE_LIBS)

# --config: the agent of a node. Its parts stand in the archive, the loop that needs them too.
noinst_LIBRARIES += worker/app/libagentshell.a
worker_app_libagentshell_a_SOURCES = \
  worker/app/agentcheck.c \
  worker/app/agentdisk.c \
  worker/app/agentexec.c \
  worker/app/agentloop.c \
  worker/app/agentmain.c worker/app/agentmain.h \
  worker/app/agentshell.h \
  worker/app/agentwire.c \
  worker/app/execargs.c worker/app/execargs.h \
  worker/app/gpuanswer.c worker/app/gpuanswer.h \
  worker/app/gpuask.c worker/app/gpuask.h \
  worker/app/gpuplace.c worker/app/gpuplace.h \
  worker/app/gpuwatch.c worker/app/gpuwatch.h \
  \
  worker/app/linktest.c worker/app/linktest.h \
  worker/app/netcard.c worker/app/netcard.h \
  worker/app/ncclenv.c worker/app/ncclenv.h \
  worker/app/nvml.c worker/app/nvml.h worker/app/nvmlabi.h \
  worker/app/probe.c worker/app/probe.h \
  worker/app/probedevice.c worker/app/probedevice.h \
  worker/app/probenumbers.c worker/app/probenumbers.h \
  worker/app/probepath.c worker/app/probepath.h \
  worker/app/probeshape.c worker/app/probeshape.h \
  worker/app/spawn.c worker/app/spawn.h
EXECUTOR_LIBS = worker/app/libexecutor.a worker/comm/libncclcomm.a
AGENTSHELL_LIBS = worker/app/libagentshell.a worker/app/libexecutor.a worker/app/libworkerapp.a \
  worker/agent/libagent.a worker/comm/libncclcomm.a $(EXEC_LIBS) worker/app/libworkerconfig.a proto/text/libtext.a \
  $(YAML_LIBS) $(NET_LIBS)

sbin_PROGRAMS += hspmd-worker
hspmd_worker_SOURCES = worker/app/worker_main.c
hspmd_worker_LDADD = $(AGENTSHELL_LIBS)
EXTRA_DIST += worker/app/README.md

worker_app_libexecutor_a_SOURCES = \
  worker/app/audit.c worker/app/audit.h \
  worker/app/chan.c worker/app/chan.h \
  worker/app/ckptoffer.c worker/app/ckptoffer.h \
  worker/app/disktrouble.c worker/app/disktrouble.h \
  worker/app/epoch.c worker/app/epoch.h \
  worker/app/epochkeep.c \
  worker/app/epochfetch.c worker/app/epochmove.c worker/app/epochmoveint.h \
  worker/app/epochckpt.c \
  worker/app/epochdirect.c worker/app/epochdirect.h \
  worker/app/epochdevice.c worker/app/epochdevice.h \
  worker/app/epochout.c \
  worker/app/epochstate.c \
  worker/app/epochsteps.c \
  worker/app/epochtrace.c \
  worker/app/epochtrain.c \
  worker/app/executor.c worker/app/executor.h \
  worker/app/metricslog.c worker/app/metricslog.h \
  worker/app/nccllog.c worker/app/nccllog.h \
  worker/app/ncclplace.c worker/app/ncclplace.h worker/app/nccltrust.c \
  worker/app/segname.c worker/app/segname.h \
  worker/app/steptrace.c worker/app/steptrace.h
dist_man_MANS += worker/app/hspmd-worker.8 worker/app/hspmd-worker.yaml.5
