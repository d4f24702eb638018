# All ranks of a program in one process: --run and --verify.
noinst_LIBRARIES += worker/run/librun.a
worker_run_librun_a_SOURCES = \
  worker/run/local_nccl.c worker/run/local_nccl.h \
  worker/run/local_run.c worker/run/local_run.h \
  worker/run/model_export.c worker/run/model_export.h \
  worker/run/run_device.c worker/run/run_device.h \
  worker/run/run_program.c worker/run/run_program.h \
  worker/run/verify.c worker/run/verify.h \
  worker/run/verify_bf16.c worker/run/verify_bf16.h \
  worker/run/verify_compare.c worker/run/verify_compare.h \
  worker/run/verify_impl.h \
  worker/run/verify_match.c worker/run/verify_match.h
RUN_LIBS = worker/run/librun.a worker/comm/libncclcomm.a $(EXEC_LIBS) proto/host/libhost.a $(BASE_LIBS)
EXTRA_DIST += worker/run/README.md
