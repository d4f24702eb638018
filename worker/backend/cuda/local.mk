# The kernels. nvcc compiles each for the plugin, and the C++ compiler of the host compiles it for
# the tests (tests/lib/local.mk).
cuda_kernels = \
  worker/backend/cuda/attention_call.cu \
  worker/backend/cuda/attention_plain.cu \
  worker/backend/cuda/cells.cu \
  worker/backend/cuda/column_sum.cu \
  worker/backend/cuda/dropout.cu \
  worker/backend/cuda/embed.cu \
  worker/backend/cuda/flash_backward.cu \
  worker/backend/cuda/flash_forward.cu \
  worker/backend/cuda/gemm_plain.cu \
  worker/backend/cuda/hash.cu \
  worker/backend/cuda/map.cu \
  worker/backend/cuda/norm.cu \
  worker/backend/cuda/norm_chain.cu \
  worker/backend/cuda/rope.cu \
  worker/backend/cuda/total.cu \
  worker/backend/cuda/update.cu \
  worker/backend/cuda/xent.cu
cuda_headers = \
  worker/backend/cuda/attention.cuh \
  worker/backend/cuda/block_sum.cuh \
  worker/backend/cuda/cuda.h \
  worker/backend/cuda/element.cuh \
  worker/backend/cuda/flash.cuh \
  worker/backend/cuda/gemm_plain.h \
  worker/backend/cuda/kernels.h \
  worker/backend/cuda/launch.h \
  worker/backend/cuda/products.h \
  worker/backend/cuda/range_sum.cuh \
  worker/backend/cuda/tensor_core.cuh
# The files of the host side.
cuda_device = \
  worker/backend/cuda/cuda_context.c worker/backend/cuda/cuda_context.h \
  worker/backend/cuda/cuda_device.c worker/backend/cuda/cuda_device.h \
  worker/backend/cuda/cuda_fault.c worker/backend/cuda/cuda_fault.h \
  worker/backend/cuda/cuda_graphs.c worker/backend/cuda/cuda_graphs.h \
  worker/backend/cuda/cuda_host.h \
  worker/backend/cuda/cuda_memory.c worker/backend/cuda/cuda_memory.h \
  worker/backend/cuda/cuda_plugin.c \
  worker/backend/cuda/cuda_progress.c worker/backend/cuda/cuda_progress.h \
  worker/backend/cuda/cuda_queue.c worker/backend/cuda/cuda_queue.h \
  worker/backend/cuda/cuda_replay.c worker/backend/cuda/cuda_replay.h
# Further C files that include headers of CUDA.
cuda_host = \
  worker/backend/cuda/cuda_gemm.c worker/backend/cuda/cuda_gemm.h \
  worker/backend/cuda/op_table.c
EXTRA_DIST += $(cuda_kernels) $(cuda_headers) $(cuda_device) $(cuda_host) \
  worker/backend/cuda/README.md worker/backend/cuda/HOST.md worker/backend/cuda/DECISIONS.md \
  worker/backend/cuda/FIGURES.md worker/backend/cuda/REVIEW.md

AM_V_FAKE = $(am__v_FAKE_@AM_V@)
am__v_FAKE_ = $(am__v_FAKE_@AM_DEFAULT_V@)
am__v_FAKE_0 = @echo "  FAKECU  " $@;
am__v_FAKE_1 =
AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
am__v_NVCC_1 =

# The plugin is a shared library that is installed beside the programs of hspmd. The sources of
# other rooms that it uses are compiled into it, and it exports one symbol.
if HAVE_CUDA
hspmdlibdir = $(pkglibdir)
hspmdlib_PROGRAMS = hspmd-cuda.so
hspmd_cuda_so_SOURCES = $(cuda_device) $(cuda_host) \
  proto/base/check.c proto/base/err.c proto/base/hash.c proto/base/str.c \
  proto/layout/box.c \
  proto/op/dtype.c proto/op/op.c \
  worker/backend/call_check.c worker/backend/hash_runs.c
hspmd_cuda_so_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_HOME)/include \
  -DHSP_CUDA_ARCHS='"$(CUDA_ARCHS)"' -DHSP_CUDA_PTX='"$(CUDA_PTX)"'
hspmd_cuda_so_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
hspmd_cuda_so_LDFLAGS = $(AM_LDFLAGS) -shared -Wl,-z,defs -L$(CUDA_HOME)/lib64 \
  -Wl,-rpath,$(CUDA_HOME)/lib64
hspmd_cuda_so_LDADD = $(cuda_kernels:.cu=.nv.o) -lcublasLt -lcudart_static -lstdc++ -ldl -lrt \
  $(MATH_LIBS)
NV_OBJECTS = $(cuda_kernels:.cu=.nv.o)
# Without contraction of a*b+c, ranks that have the same parts of the state compute the same
# updates, on GPUs of any kind and on a CPU.
worker/backend/cuda/update.nv.o: NV_EXACT = -fmad=false
$(NV_OBJECTS): %.nv.o: $(top_srcdir)/%.cu
	$(AM_V_NVCC)$(MKDIR_P) $(@D) && $(NVCC) $(CUDA_GENCODE) -std=c++17 $(NVCCFLAGS) $(NV_EXACT) $(NVCC_WARN) \
	  -Xfatbin=-compress-all -Xcompiler=-fPIC,-fvisibility=hidden -D_GNU_SOURCE -I$(top_srcdir) \
	  $(DEBUG_CPPFLAGS) -MD -MP -MF $(@:.o=.d) -c -o $@ $<
-include $(NV_OBJECTS:.o=.d)
endif
CLEANFILES += worker/backend/cuda/*.nv.[od]
