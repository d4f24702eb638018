noinst_LIBRARIES += worker/probe/libprobe.a
worker_probe_libprobe_a_SOURCES = \
  worker/probe/gpu_locality.c worker/probe/gpu_locality.h \
  worker/probe/gpu_monitor.c worker/probe/gpu_monitor.h \
  worker/probe/gpu_probe.c worker/probe/gpu_probe.h \
  worker/probe/gpu_probe_reply.c worker/probe/gpu_probe_reply.h \
  worker/probe/nccl_env.c worker/probe/nccl_env.h \
  worker/probe/nccl_place.c worker/probe/nccl_place.h \
  worker/probe/nccl_trust.c worker/probe/nccl_trust.h \
  worker/probe/nic.c worker/probe/nic.h \
  worker/probe/nvml.c worker/probe/nvml.h \
  worker/probe/nvml_abi.h \
  worker/probe/probe.c worker/probe/probe.h \
  worker/probe/probe_device.c worker/probe/probe_device.h \
  worker/probe/probe_fill.c worker/probe/probe_fill.h \
  worker/probe/probe_gemm.c worker/probe/probe_gemm.h \
  worker/probe/probe_gpu_path.c worker/probe/probe_gpu_path.h \
  worker/probe/probe_link.c worker/probe/probe_link.h \
  worker/probe/reach.c worker/probe/reach.h
PROBE_LIBS = worker/probe/libprobe.a
EXTRA_DIST += worker/probe/README.md
