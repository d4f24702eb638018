probe_operands = tests/unit/worker/probe/operands.c tests/unit/worker/probe/operands.h
probe_tests = \
  tests/unit/worker/probe/gpu_monitor_test \
  tests/unit/worker/probe/gpu_probe_test \
  tests/unit/worker/probe/nccl_env_test \
  tests/unit/worker/probe/nccl_place_test \
  tests/unit/worker/probe/nic_test \
  tests/unit/worker/probe/nvml_test \
  tests/unit/worker/probe/probe_test \
  tests/unit/worker/probe/probe_device_test \
  tests/unit/worker/probe/probe_gpu_path_test \
  tests/unit/worker/probe/probe_link_test \
  tests/unit/worker/probe/reach_test
test_links += $(probe_tests)
check_PROGRAMS += tests/unit/worker/probe/probe_tests
$(probe_tests): tests/unit/worker/probe/probe_tests
	$(LINK_TEST)
tests_unit_worker_probe_probe_tests_SOURCES = \
  tests/unit/worker/probe/gpu_monitor_test.c \
  tests/unit/worker/probe/gpu_probe_test.c \
  tests/unit/worker/probe/nccl_env_test.c \
  tests/unit/worker/probe/nccl_place_test.c \
  tests/unit/worker/probe/nic_test.c \
  tests/unit/worker/probe/nvml_test.c \
  tests/unit/worker/probe/probe_test.c \
  tests/unit/worker/probe/probe_device_test.c \
  tests/unit/worker/probe/probe_gpu_path_test.c \
  tests/unit/worker/probe/probe_link_test.c \
  tests/unit/worker/probe/reach_test.c \
  $(probe_operands)
tests_unit_worker_probe_probe_tests_LDFLAGS = $(AM_LDFLAGS) \
  -Wl,--wrap=clock_gettime,--wrap=hsp_backend_cpu_open
EXTRA_tests_unit_worker_probe_probe_tests_DEPENDENCIES = tests/lib/fakenccl/libnccl.so.2 tests/lib/fakenvml/libnvidia-ml.so.1
tests_unit_worker_probe_probe_tests_LDADD = tests/lib/libmockdev.a $(TEST_LIBS) $(AGENTSHELL_LIBS)
# With the header of NVML, where there is one.
check_PROGRAMS += tests/unit/worker/probe/nvml_abi_test
TESTS += tests/unit/worker/probe/nvml_abi_test
tests_unit_worker_probe_nvml_abi_test_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_HOME)/include
tests_unit_worker_probe_nvml_abi_test_LDADD = $(TEST_LIBS)
