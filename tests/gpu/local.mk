# Builds first light: programs that scripts/gpu-check takes to a machine with a GPU. Programs that
# need no nvcc are built by make check everywhere.
check_PROGRAMS += tests/gpu/netlink_refused tests/gpu/op_speed
tests_gpu_netlink_refused_SOURCES = tests/gpu/netlink_refused.c
tests_gpu_netlink_refused_LDADD = $(NCCL_LIBS) $(BASE_LIBS)
tests_gpu_op_speed_SOURCES = tests/gpu/op_speed.c
tests_gpu_op_speed_LDADD = $(BACKEND_LIBS) $(BASE_LIBS)
if HAVE_CUDA
check_DATA += tests/gpu/blocking_calls
tests/integ/gpubundle.log: tests/gpu/blocking_calls
endif
tests/integ/gpubundle.log tests/unit/claims/firstlight.log: tests/gpu/netlink_refused tests/gpu/op_speed \
  tests/unit/worker/backend/device_test
tests/gpu/blocking_calls: tests/gpu/blocking_calls.cu
	$(AM_V_NVCC)$(MKDIR_P) $(@D) && $(NVCC) $(CUDA_GENCODE) -std=c++17 $(NVCCFLAGS) $(NVCC_WARN) -I$(top_srcdir) -o $@ \
	  $(srcdir)/tests/gpu/blocking_calls.cu -L$(CUDA_HOME)/lib64 -Xlinker=-rpath,$(CUDA_HOME)/lib64 -lcublasLt
CLEANFILES += tests/gpu/blocking_calls
EXTRA_DIST += tests/gpu/README.md tests/gpu/blocking_calls.cu tests/gpu/first_light.py tests/gpu/page.py \
  tests/gpu/shapes.txt tests/gpu/torch_speed.py
