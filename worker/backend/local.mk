noinst_LIBRARIES += worker/backend/libbackend.a
worker_backend_libbackend_a_SOURCES = \
  worker/backend/backend.h \
  worker/backend/call_check.c worker/backend/call_check.h \
  worker/backend/cells.c worker/backend/cells.h \
  worker/backend/hash_runs.c worker/backend/hash_runs.h \
  worker/backend/cpu/cpu.c worker/backend/cpu/cpu.h \
  worker/backend/cpu/cpu_hash.c worker/backend/cpu/cpu_hash.h \
  worker/backend/cpu/cpu_memory.c worker/backend/cpu/cpu_memory.h \
  worker/backend/cpu/cpu_scratch.c worker/backend/cpu/cpu_scratch.h \
  worker/backend/cpu/kernels_f32.c \
  worker/backend/cpu/kernels_f64.c \
  worker/backend/cpu/narrow.c worker/backend/cpu/narrow.h \
  worker/backend/cpu/work_pool.c worker/backend/cpu/work_pool.h \
  worker/backend/plugin.c worker/backend/plugin.h
worker_backend_libbackend_a_CPPFLAGS = $(AM_CPPFLAGS) -DHSP_PKGLIBDIR='"$(pkglibdir)"'
# -O3 makes vector code of loops. Without contraction of a*b+c results do not depend on the
# instruction set.
worker_backend_libbackend_a_CFLAGS = $(AM_CFLAGS) -O3 -fno-math-errno -fno-trapping-math \
  -ffp-contract=off
# These kernels call fused multiply-adds themselves, on every machine that runs them.
noinst_LIBRARIES += worker/backend/libgemm.a
worker_backend_libgemm_a_SOURCES = \
  worker/backend/cpu/gemm.c worker/backend/cpu/gemm.h worker/backend/cpu/gemm_tile.inc
worker_backend_libgemm_a_CFLAGS = $(AM_CFLAGS) -O3 -fno-math-errno -fno-trapping-math \
  -ffp-contract=off
EXTRA_DIST += \
  worker/backend/README.md \
  worker/backend/cpu/attention.inc \
  worker/backend/cpu/dropout.inc \
  worker/backend/cpu/embed.inc \
  worker/backend/cpu/gemm.inc \
  worker/backend/cpu/kmath.inc \
  worker/backend/cpu/linear.inc \
  worker/backend/cpu/llama.inc \
  worker/backend/cpu/map.inc \
  worker/backend/cpu/norm.inc \
  worker/backend/cpu/real_f32.h \
  worker/backend/cpu/real_f64.h \
  worker/backend/cpu/reduce.inc \
  worker/backend/cpu/table.inc \
  worker/backend/cpu/update.inc \
  worker/backend/cpu/xent.inc \
  worker/backend/cpu/xent_part.inc
# A program that computes links these libraries before $(BASE_LIBS).
BACKEND_LIBS = worker/backend/libbackend.a worker/backend/libgemm.a proto/layout/liblayout.a \
  proto/op/libop.a $(OPENBLAS_LIBS)
