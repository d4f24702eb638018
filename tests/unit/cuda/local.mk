cuda_tests = \
  tests/unit/cuda/cudahost_test \
  tests/unit/cuda/cudareplay_test \
  tests/unit/cuda/fakecuda_test
CUDA_TEST_LIBS = tests/lib/libfakecuda.a $(LDADD)
tests_unit_cuda_fakecuda_test_LDADD = $(CUDA_TEST_LIBS)
# The host side of the backend, over kernels that stand in for the real ones.
HOST_TEST_LIBS = tests/lib/libfakehost.a tests/lib/libfakecuda.a $(BACKEND_LIBS) $(LDADD)
tests_unit_cuda_cudahost_test_SOURCES = \
  tests/unit/cuda/cudahost_test.c tests/unit/cuda/standin.c tests/unit/cuda/standin.h
tests_unit_cuda_cudahost_test_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS)
tests_unit_cuda_cudahost_test_LDADD = $(HOST_TEST_LIBS)
tests_unit_cuda_cudareplay_test_SOURCES = \
  tests/unit/cuda/cudareplay_test.c tests/unit/cuda/standin.c tests/unit/cuda/standin.h
tests_unit_cuda_cudareplay_test_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS)
tests_unit_cuda_cudareplay_test_LDADD = $(HOST_TEST_LIBS)
if HAVE_CXX
cuda_tests += \
  tests/unit/cuda/emulate_test \
  tests/unit/cuda/kernels_test \
  tests/unit/cuda/many_test \
  tests/unit/cuda/products_test \
  tests/unit/cuda/programs_test
tests_unit_cuda_emulate_test_SOURCES = \
  tests/unit/cuda/emulate_test.c tests/unit/cuda/wrongkernels.h
tests_unit_cuda_emulate_test_LDADD = tests/unit/cuda/wrongkernels.fake.o $(CUDA_TEST_LIBS)
# The backend as it is, its kernels included.
WHOLE_TEST_LIBS = tests/lib/libfakehost.a tests/lib/libfakekernels.a tests/lib/libfakehost.a \
  tests/lib/libfakecuda.a $(BACKEND_LIBS) $(LDADD)
tests_unit_cuda_kernels_test_SOURCES = tests/unit/cuda/kernels_test.c $(OP_SUITE)
tests_unit_cuda_kernels_test_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS)
tests_unit_cuda_kernels_test_LDADD = $(WHOLE_TEST_LIBS)
tests_unit_cuda_many_test_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS)
tests_unit_cuda_many_test_LDADD = $(WHOLE_TEST_LIBS)
tests_unit_cuda_products_test_SOURCES = tests/unit/cuda/products_test.c $(OP_SUITE) $(BLOCK_SUITE)
tests_unit_cuda_products_test_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS)
tests_unit_cuda_products_test_LDADD = $(WHOLE_TEST_LIBS)
tests_unit_cuda_programs_test_CPPFLAGS = $(FAKE_INCLUDES) $(AM_CPPFLAGS)
tests_unit_cuda_programs_test_LDADD = tests/lib/libfakehost.a tests/lib/libfakekernels.a \
  tests/lib/libfakehost.a tests/lib/libfakecuda.a $(COMPILER_LIBS) daemon/graph/libgraph.a \
  proto/program/libprogram.a proto/layout/liblayout.a $(RUN_LIBS) $(TEXT_LIBS) $(LDADD)
endif
check_PROGRAMS += $(cuda_tests)
TESTS += $(cuda_tests)
EXTRA_DIST += tests/unit/cuda/wrongkernels.cu

# Loading a plugin: three that are none, too old, and good.
cuda_plugins = \
  tests/unit/cuda/goodplugin.so \
  tests/unit/cuda/noplugin.so \
  tests/unit/cuda/oldplugin.so
check_PROGRAMS += $(cuda_plugins) tests/unit/cuda/plugin_test
TESTS += tests/unit/cuda/plugin_test
tests_unit_cuda_plugin_test_LDADD = $(BACKEND_LIBS) $(LDADD)
tests_unit_cuda_goodplugin_so_SOURCES = tests/unit/cuda/someplugin.c
tests_unit_cuda_goodplugin_so_CPPFLAGS = $(AM_CPPFLAGS) -DSOME_SYMBOL -DSOME_ABI=HSP_BACKEND_ABI
tests_unit_cuda_goodplugin_so_CFLAGS = $(AM_CFLAGS) -fPIC
tests_unit_cuda_goodplugin_so_LDFLAGS = $(AM_LDFLAGS) -shared
tests_unit_cuda_goodplugin_so_LDADD =
tests_unit_cuda_oldplugin_so_SOURCES = tests/unit/cuda/someplugin.c
tests_unit_cuda_oldplugin_so_CPPFLAGS = $(AM_CPPFLAGS) -DSOME_SYMBOL -DSOME_ABI=1
tests_unit_cuda_oldplugin_so_CFLAGS = $(AM_CFLAGS) -fPIC
tests_unit_cuda_oldplugin_so_LDFLAGS = $(AM_LDFLAGS) -shared
tests_unit_cuda_oldplugin_so_LDADD =
tests_unit_cuda_noplugin_so_SOURCES = tests/unit/cuda/someplugin.c
tests_unit_cuda_noplugin_so_CFLAGS = $(AM_CFLAGS) -fPIC
tests_unit_cuda_noplugin_so_LDFLAGS = $(AM_LDFLAGS) -shared
tests_unit_cuda_noplugin_so_LDADD =
