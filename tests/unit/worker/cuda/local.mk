# The host side of the backend, over kernels that stand in for the real ones.
cuda_host_tests = \
  tests/unit/worker/cuda/cuda_host_test \
  tests/unit/worker/cuda/cuda_memory_test \
  tests/unit/worker/cuda/cuda_replay_test \
  tests/unit/worker/cuda/cuda_unpin_test \
  tests/unit/worker/cuda/fake_cuda_test
test_links += $(cuda_host_tests)
check_PROGRAMS += tests/unit/worker/cuda/cuda_host_tests
$(cuda_host_tests): tests/unit/worker/cuda/cuda_host_tests
	$(LINK_TEST)
tests_unit_worker_cuda_cuda_host_tests_SOURCES = \
  tests/unit/worker/cuda/cuda_host_test.c \
  tests/unit/worker/cuda/cuda_memory_test.c \
  tests/unit/worker/cuda/cuda_replay_test.c \
  tests/unit/worker/cuda/cuda_unpin_test.c \
  tests/unit/worker/cuda/fake_cuda_test.c \
  tests/unit/worker/cuda/stand_in.c tests/unit/worker/cuda/stand_in.h
tests_unit_worker_cuda_cuda_host_tests_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS)
tests_unit_worker_cuda_cuda_host_tests_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=cudaHostUnregister
tests_unit_worker_cuda_cuda_host_tests_LDADD = tests/lib/libfakehost.a tests/lib/libfakecuda.a \
  $(BACKEND_LIBS) $(LDADD)
# The backend as it is, its kernels included.
if HAVE_CXX
cuda_kernel_tests = \
  tests/unit/worker/cuda/emulate_test \
  tests/unit/worker/cuda/kernels_test \
  tests/unit/worker/cuda/many_test \
  tests/unit/worker/cuda/products_test \
  tests/unit/worker/cuda/programs_test
test_links += $(cuda_kernel_tests)
check_PROGRAMS += tests/unit/worker/cuda/cuda_kernel_tests
$(cuda_kernel_tests): tests/unit/worker/cuda/cuda_kernel_tests
	$(LINK_TEST)
tests_unit_worker_cuda_cuda_kernel_tests_SOURCES = \
  tests/unit/worker/cuda/emulate_test.c \
  tests/unit/worker/cuda/kernels_test.c \
  tests/unit/worker/cuda/many_test.c \
  tests/unit/worker/cuda/products_test.c \
  tests/unit/worker/cuda/programs_test.c \
  tests/unit/worker/cuda/wrong_kernels.h $(OP_SUITE) $(BLOCK_SUITE) $(HASH_SUITE) \
  $(NCCL_WORLD) $(NCCL_STREAMS)
EXTRA_tests_unit_worker_cuda_cuda_kernel_tests_DEPENDENCIES = tests/lib/fakenccl/libnccl.so.2
tests_unit_worker_cuda_cuda_kernel_tests_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS)
tests_unit_worker_cuda_cuda_kernel_tests_LDADD = tests/unit/worker/cuda/wrong_kernels.fake.o \
  tests/lib/libfakehost.a tests/lib/libfakekernels.a tests/lib/libfakehost.a \
  tests/lib/libfakecuda.a $(COMPILER_LIBS) daemon/graph/libgraph.a proto/program/libprogram.a \
  proto/layout/liblayout.a $(RUN_LIBS) $(TEXT_LIBS) $(LDADD)
endif
EXTRA_DIST += tests/unit/worker/cuda/wrong_kernels.cu

# Loading a plugin: three that are none, too old, and good.
cuda_plugins = \
  tests/unit/worker/cuda/goodplugin.so \
  tests/unit/worker/cuda/noplugin.so \
  tests/unit/worker/cuda/oldplugin.so
check_PROGRAMS += $(cuda_plugins)
check_PROGRAMS += tests/unit/worker/cuda/plugin_test
TESTS += tests/unit/worker/cuda/plugin_test
tests_unit_worker_cuda_plugin_test_LDADD = $(BACKEND_LIBS) $(LDADD)
EXTRA_tests_unit_worker_cuda_plugin_test_DEPENDENCIES = $(cuda_plugins)
tests_unit_worker_cuda_goodplugin_so_SOURCES = tests/unit/worker/cuda/some_plugin.c
tests_unit_worker_cuda_goodplugin_so_CPPFLAGS = $(AM_CPPFLAGS) -DSOME_SYMBOL -DSOME_ABI=HSP_BACKEND_ABI
tests_unit_worker_cuda_goodplugin_so_CFLAGS = $(AM_CFLAGS) -fPIC
tests_unit_worker_cuda_goodplugin_so_LDFLAGS = $(AM_LDFLAGS) -shared
tests_unit_worker_cuda_goodplugin_so_LDADD =
tests_unit_worker_cuda_oldplugin_so_SOURCES = tests/unit/worker/cuda/some_plugin.c
tests_unit_worker_cuda_oldplugin_so_CPPFLAGS = $(AM_CPPFLAGS) -DSOME_SYMBOL -DSOME_ABI=1
tests_unit_worker_cuda_oldplugin_so_CFLAGS = $(AM_CFLAGS) -fPIC
tests_unit_worker_cuda_oldplugin_so_LDFLAGS = $(AM_LDFLAGS) -shared
tests_unit_worker_cuda_oldplugin_so_LDADD =
tests_unit_worker_cuda_noplugin_so_SOURCES = tests/unit/worker/cuda/some_plugin.c
tests_unit_worker_cuda_noplugin_so_CFLAGS = $(AM_CFLAGS) -fPIC
tests_unit_worker_cuda_noplugin_so_LDFLAGS = $(AM_LDFLAGS) -shared
tests_unit_worker_cuda_noplugin_so_LDADD =
