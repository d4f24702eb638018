check_LIBRARIES += tests/lib/libtest.a
tests_lib_libtest_a_SOURCES = \
  tests/lib/configtests.c tests/lib/configtests.h \
  tests/lib/covers.c tests/lib/covers.h \
  tests/lib/dying.c tests/lib/dying.h \
  tests/lib/figures.h \
  tests/lib/golden.c tests/lib/golden.h \
  tests/lib/naive_graph.c tests/lib/naive_graph.h \
  tests/lib/naive_ops.c tests/lib/naive_ops.h \
  tests/lib/pairs.c tests/lib/pairs.h \
  tests/lib/testlib.c tests/lib/testlib.h \
  tests/lib/testmain.c \
  tests/lib/trees.c tests/lib/trees.h

# Its malloc replaces the C library's: only for programs of tests/unit/oom.
check_LIBRARIES += tests/lib/liboom.a
tests_lib_liboom_a_SOURCES = tests/lib/oom.c tests/lib/oom.h
HSP_OOM_LINK = $(AM_LDFLAGS) \
  -Wl,--wrap=hsp_arena_alloc,--wrap=hsp_arena_array,--wrap=hsp_arena_strdup \
  -Wl,--wrap=hsp_arena_strndup,--wrap=hsp_arena_memdup,--wrap=hsp_arena_printf
HSP_OOM_LIBS = tests/lib/liboom.a $(TEST_LIBS)

# The libraries that dlopen takes for NVML and for NCCL.
check_PROGRAMS += tests/lib/fakenvml/libnvidia-ml.so.1
tests_lib_fakenvml_libnvidia_ml_so_1_SOURCES = \
  tests/lib/fakenvml/fakenvml.c tests/lib/fakenvml/fakenvml.h
tests_lib_fakenvml_libnvidia_ml_so_1_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
tests_lib_fakenvml_libnvidia_ml_so_1_LDFLAGS = $(AM_LDFLAGS) -shared
tests_lib_fakenvml_libnvidia_ml_so_1_LDADD =
check_PROGRAMS += tests/lib/fakenccl/libnccl.so.2
tests_lib_fakenccl_libnccl_so_2_SOURCES = \
  tests/lib/fakenccl/fakenccl.c \
  tests/lib/fakenccl/fakenccl.h \
  tests/lib/fakenccl/fakencclask.c \
  tests/lib/fakenccl/fakencclint.h \
  tests/lib/fakenccl/fakencclsplit.c \
  tests/lib/fakenccl/fakencclwork.c
tests_lib_fakenccl_libnccl_so_2_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
tests_lib_fakenccl_libnccl_so_2_LDFLAGS = $(AM_LDFLAGS) -shared
tests_lib_fakenccl_libnccl_so_2_LDADD =

# Needs SPMD_LIBS behind it.
check_LIBRARIES += tests/lib/libgreedybsr.a
tests_lib_libgreedybsr_a_SOURCES = tests/lib/greedybsr.c tests/lib/greedybsr.h

# A CUDA device of host memory: its runtime, and the emulator of kernels.
check_LIBRARIES += tests/lib/libfakecuda.a
tests_lib_libfakecuda_a_SOURCES = \
  tests/lib/fakecuda/emulate.c tests/lib/fakecuda/emulate.h \
  tests/lib/fakecuda/fakecuda.h \
  tests/lib/fakecuda/fakedevice.c \
  tests/lib/fakecuda/fakegraphs.c \
  tests/lib/fakecuda/fakeint.h \
  tests/lib/fakecuda/fakekernel.h \
  tests/lib/fakecuda/fakelaunch.c \
  tests/lib/fakecuda/fakelt.c \
  tests/lib/fakecuda/fakemem.c \
  tests/lib/fakecuda/fakerace.c \
  tests/lib/fakecuda/fakestreams.c \
  tests/lib/fakecuda/memshadow.c tests/lib/fakecuda/memshadow.h \
  tests/lib/fakecuda/tensortwin.c \
  tests/lib/fakecuda/include/cublasLt.h \
  tests/lib/fakecuda/include/cuda_bf16.h \
  tests/lib/fakecuda/include/cuda_runtime.h \
  tests/lib/fakecuda/include/tensortwin.h
if FAKE_TSAN
tests_lib_libfakecuda_a_SOURCES += tests/lib/fakecuda/tsanhooks.c
endif

# The CUDA backend for that device: kernels compiled by a C++ compiler for the host.
FAKE_INCLUDES = -I$(top_srcdir)/tests/lib/fakecuda/include
if HAVE_CXX
check_LIBRARIES += tests/lib/libfakekernels.a
tests_lib_libfakekernels_a_SOURCES = $(cuda_host)
tests_lib_libfakekernels_a_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS)
tests_lib_libfakekernels_a_LIBADD = $(cuda_kernels:.cu=.fake.o)
endif
FAKE_OBJECTS = $(cuda_kernels:.cu=.fake.o) tests/unit/worker/cuda/wrong_kernels.fake.o
$(FAKE_OBJECTS): %.fake.o: $(top_srcdir)/%.cu
	$(AM_V_FAKE)$(MKDIR_P) $(@D) && $(FAKE_CXX) -x c++ $(FAKE_CXXFLAGS) $(FAKE_INCLUDES) \
	  $(AM_CPPFLAGS) -MD -MP -MF $(@:.o=.d) -c -o $@ $<
-include $(FAKE_OBJECTS:.o=.d)
CLEANFILES += worker/backend/cuda/*.fake.[od] tests/unit/worker/cuda/*.fake.[od]

# Its host side, which needs none.
check_LIBRARIES += tests/lib/libfakehost.a
tests_lib_libfakehost_a_SOURCES = $(cuda_device)
tests_lib_libfakehost_a_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS) -DHSP_CUDA_ARCHS='"80 90a"' \
  -DHSP_CUDA_PTX='"90"' -DHSP_TEST_SCRATCH_ALIGN=256

# A device for tests of code that drives one. Needs BACKEND_LIBS behind it.
check_LIBRARIES += tests/lib/libmockdev.a
tests_lib_libmockdev_a_SOURCES = tests/lib/mockdev.c tests/lib/mockdev.h tests/lib/mockdevcheck.c \
  tests/lib/mockdevint.h tests/lib/mockdevmany.c tests/lib/mockdevmemory.c tests/lib/mockdevmemory.h \
  tests/lib/mockdevqueue.c tests/lib/mockdevqueue.h tests/lib/mockdevwork.c

# The same as a GPU's library and driver, for whole programs: all a plugin needs is in it.
check_PROGRAMS += tests/lib/mockdevgpu/hspmd-cuda.so tests/lib/mockdevgpu/libcuda.so.1
tests_lib_mockdevgpu_hspmd_cuda_so_SOURCES = tests/lib/mockdevgpu/mockdevplugin.c $(tests_lib_libmockdev_a_SOURCES) \
  $(worker_backend_libbackend_a_SOURCES) $(worker_backend_libgemm_a_SOURCES) \
  proto/base/check.c proto/base/element_hash.c proto/base/err.c proto/base/hash.c proto/base/rng.c \
  proto/base/size.h proto/base/str.c proto/base/word_sums.c \
  proto/layout/box.c proto/op/dtype.c proto/op/op.c
tests_lib_mockdevgpu_hspmd_cuda_so_CPPFLAGS = $(worker_backend_libbackend_a_CPPFLAGS)
tests_lib_mockdevgpu_hspmd_cuda_so_CFLAGS = $(worker_backend_libbackend_a_CFLAGS) -fPIC -fvisibility=hidden
tests_lib_mockdevgpu_hspmd_cuda_so_LDFLAGS = $(AM_LDFLAGS) -shared
tests_lib_mockdevgpu_hspmd_cuda_so_LDADD = $(OPENBLAS_LIBS) -lpthread -lm
tests_lib_mockdevgpu_libcuda_so_1_SOURCES = tests/lib/mockdevgpu/mockdevdriver.c
tests_lib_mockdevgpu_libcuda_so_1_CFLAGS = $(AM_CFLAGS) -fPIC
tests_lib_mockdevgpu_libcuda_so_1_LDFLAGS = $(AM_LDFLAGS) -shared
tests_lib_mockdevgpu_libcuda_so_1_LDADD =

# A test that is run alone (make tests/integ/onegpu.log) runs against the present sources.
mockdev_logs = tests/integ/gpu.log tests/integ/gpuhealth.log tests/integ/nccltls.log tests/integ/onegpu.log \
  tests/unit/claims/firstlight.log
$(mockdev_logs): $(bin_PROGRAMS) $(sbin_PROGRAMS) tests/lib/mockdevgpu/hspmd-cuda.so tests/lib/mockdevgpu/libcuda.so.1
tests/integ/gpuhealth.log: tests/lib/fakenvml/libnvidia-ml.so.1
tests/integ/nccltls.log: tests/lib/fakenccl/libnccl.so.2
