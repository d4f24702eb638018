noinst_LIBRARIES += worker/executor/libexecutor.a
worker_executor_libexecutor_a_SOURCES = \
  worker/executor/agent_channel.c worker/executor/agent_channel.h \
  worker/executor/audit.c worker/executor/audit.h \
  worker/executor/ckpt_choice.c worker/executor/ckpt_choice.h \
  worker/executor/disk_retry.c worker/executor/disk_retry.h \
  worker/executor/epoch.c worker/executor/epoch.h \
  worker/executor/epoch_control.c worker/executor/epoch_control.h \
  worker/executor/epoch_checkpoint.c worker/executor/epoch_checkpoint.h \
  worker/executor/epoch_copies.c worker/executor/epoch_copies.h \
  worker/executor/epoch_device.c worker/executor/epoch_device.h \
  worker/executor/epoch_export.c worker/executor/epoch_export.h \
  worker/executor/epoch_nccl.c worker/executor/epoch_nccl.h \
  worker/executor/epoch_replicate.c worker/executor/epoch_replicate.h \
  worker/executor/epoch_report.c worker/executor/epoch_report.h \
  worker/executor/epoch_restore.c worker/executor/epoch_restore.h \
  worker/executor/epoch_segments.c worker/executor/epoch_segments.h \
  worker/executor/epoch_trace.c worker/executor/epoch_trace.h \
  worker/executor/epoch_train.c worker/executor/epoch_train.h \
  worker/executor/epoch_transfer.c worker/executor/epoch_transfer.h \
  worker/executor/epoch_transfer_impl.h \
  worker/executor/executor.c worker/executor/executor.h \
  worker/executor/executor_args.c worker/executor/executor_args.h \
  worker/executor/nccl_log.c worker/executor/nccl_log.h \
  worker/executor/step_log.c worker/executor/step_log.h
EXECUTOR_LIBS = worker/executor/libexecutor.a $(PROBE_LIBS) worker/comm/libncclcomm.a
EXTRA_DIST += worker/executor/README.md
