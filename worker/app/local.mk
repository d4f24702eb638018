noinst_LIBRARIES += worker/app/libworkerconfig.a
worker_app_libworkerconfig_a_SOURCES = \
  worker/app/worker_config.c worker/app/worker_config.h
WORKERCONFIG_LIBS = worker/app/libworkerconfig.a $(TEXT_LIBS)
