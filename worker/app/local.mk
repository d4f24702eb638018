noinst_LIBRARIES += worker/app/libworkerconfig.a
worker_app_libworkerconfig_a_SOURCES = \
  worker/app/worker_config.c worker/app/worker_config.h
WORKERCONFIG_LIBS = worker/app/libworkerconfig.a $(TEXT_LIBS)

# --run and --verify: everything of hspmd-worker but its main.
noinst_LIBRARIES += worker/app/libworkerapp.a
worker_app_libworkerapp_a_SOURCES = \
  worker/app/localrun.c worker/app/localrun.h \
  worker/app/modelfile.c worker/app/modelfile.h \
  worker/app/runfile.c worker/app/runfile.h \
  worker/app/verify.c
worker_app_libworkerapp_a_CPPFLAGS = $(AM_CPPFLAGS) $(CJSON_CFLAGS)
WORKERAPP_LIBS = worker/app/libworkerapp.a $(EXEC_LIBS) proto/host/libhost.a $(BASE_LIBS)

sbin_PROGRAMS += hspmd-worker
hspmd_worker_SOURCES = worker/app/worker_main.c
hspmd_worker_LDADD = $(WORKERAPP_LIBS)
EXTRA_DIST += worker/app/README.md
