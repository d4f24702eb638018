# The kernels, one a line; each is compiled by nvcc for the plugin, and for the tests by the C++
# compiler of the host (tests/lib/local.mk).
cuda_kernels = \
  worker/backend/cuda/cells.cu \
  worker/backend/cuda/colsum.cu \
  worker/backend/cuda/dropout.cu \
  worker/backend/cuda/embed.cu \
  worker/backend/cuda/map.cu \
  worker/backend/cuda/norm.cu \
  worker/backend/cuda/rope.cu \
  worker/backend/cuda/total.cu \
  worker/backend/cuda/update.cu \
  worker/backend/cuda/xent.cu
cuda_headers = \
  worker/backend/cuda/blocksum.cuh \
  worker/backend/cuda/cuda.h \
  worker/backend/cuda/element.cuh \
  worker/backend/cuda/kernels.h \
  worker/backend/cuda/launch.h
# What is C and knows CUDA's headers.
cuda_host = \
  worker/backend/cuda/optable.c
EXTRA_DIST += $(cuda_kernels) $(cuda_headers) $(cuda_host)

AM_V_FAKE = $(am__v_FAKE_@AM_V@)
am__v_FAKE_ = $(am__v_FAKE_@AM_DEFAULT_V@)
am__v_FAKE_0 = @echo "  FAKECU  " $@;
am__v_FAKE_1 =
