#include "worker/backend/cpu/cpu.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "worker/backend/call_check.h"
#include "worker/backend/cpu/cpu_hash.h"
#include "worker/backend/cpu/cpu_memory.h"
#include "worker/backend/cpu/cpu_scratch.h"
#include "worker/backend/cpu/narrow.h"

static void count_labels(const struct hsp_call *c)
{
    const int32_t *x = c->in[0].data;
    int64_t n = hsp_array_count(&c->in[0]), found = 0;
    for (int64_t i = 0; i < n; i++) {
        found += x[i] >= 0;
    }
    *(double *)c->out[0].data = (double)found;
}

/* The elements of [b, s, e] and [b, 1, s e] are the same bytes in the same order. */
static void copy_elements(const struct hsp_call *c)
{
    size_t bytes = (size_t)hsp_array_count(&c->out[0]) * hsp_dtype_size(c->out[0].dtype);
    if (bytes > 0) {
        memmove(c->out[0].data, c->in[0].data, bytes);
    }
}

enum hsp_status hsp_cpu_run_kernel(struct hsp_cpu *cpu, const struct hsp_call *c,
                                   enum hsp_dtype real, hsp_cpu_kernel k, struct hsp_err *err)
{
    if (k == NULL) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s on a CPU", hsp_op_name(c->op));
    }
    bool wide = real == HSP_BF16 && !hsp_op_moves(c->op);
    return wide ? hsp_cpu_run_wide(cpu, c, k, err) : k(cpu, c, err);
}

static enum hsp_status cpu_run(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                               struct hsp_err *err)
{
    struct hsp_cpu *cpu = (struct hsp_cpu *)b;
    (void)q;
    enum hsp_dtype real = HSP_F32;
    enum hsp_status st = hsp_call_check(c, &real, err);
    if (st == HSP_OK && c->adds != 0) {
        st = hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s added to its output", hsp_op_name(c->op));
    }
    if (st != HSP_OK) {
        return st;
    }
    if (c->op == HSP_OP_COUNT) {
        count_labels(c);
        return HSP_OK;
    }
    if (c->op == HSP_OP_FLATTEN || c->op == HSP_OP_UNFLATTEN) {
        copy_elements(c);
        return HSP_OK;
    }
    if (c->op == HSP_OP_NARROW || c->op == HSP_OP_WIDEN) {
        hsp_cpu_cast(cpu, c);
        return HSP_OK;
    }
    const hsp_cpu_kernel *kernels = real == HSP_F64 ? hsp_cpu_kernels_f64 : hsp_cpu_kernels_f32;
    return hsp_cpu_run_kernel(cpu, c, real, kernels[c->op], err);
}

static enum hsp_status cpu_accumulate(struct hsp_backend *b, enum hsp_devq q,
                                      enum hsp_dtype dst_type, void *dst, enum hsp_dtype src_type,
                                      const void *src, int64_t n, struct hsp_err *err)
{
    struct hsp_cpu *cpu = (struct hsp_cpu *)b;
    (void)q;
    bool wider = dst_type == HSP_F32 && src_type == HSP_BF16;
    if ((dst_type != src_type && !wider) || (dst_type != HSP_F32 && dst_type != HSP_F64)) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "a sum of %s and %s", hsp_dtype_name(dst_type),
                           hsp_dtype_name(src_type));
    }
    if (wider) {
        hsp_cpu_accumulate_wide(cpu, dst, src, n);
    } else if (dst_type == HSP_F32) {
        hsp_cpu_accumulate_f32(cpu, dst, src, n);
    } else {
        hsp_cpu_accumulate_f64(cpu, dst, src, n);
    }
    return HSP_OK;
}

static void cpu_close(struct hsp_backend *b)
{
    struct hsp_cpu *cpu = (struct hsp_cpu *)b;
    if (cpu != NULL) {
        hsp_workpool_free(cpu->pool);
        free(cpu->scratch);
        free(cpu->pack);
        free(cpu->wide);
        free(cpu);
    }
}

enum hsp_status hsp_backend_cpu_open(int threads, struct hsp_backend **ret, struct hsp_err *err)
{
    struct hsp_cpu *cpu = calloc(1, sizeof(*cpu));
    if (cpu == NULL) {
        return hsp_err_nomem(err, "a backend");
    }
    cpu->base = (struct hsp_backend){.name = "cpu",
                                     .run = cpu_run,
                                     .accumulate = cpu_accumulate,
                                     .hash = hsp_cpu_hash,
                                     .close = cpu_close};
    hsp_cpu_memory(&cpu->base);
    enum hsp_status st = hsp_workpool_new(threads, &cpu->pool, err);
    if (st == HSP_OK) {
        st = hsp_cpu_reserve(cpu, 0, err);
    }
/* under sanitizers our kernels are some 20 times slower than OpenBLAS, and tested apart */
#ifndef HSP_SANITIZE
    cpu->gemm = hsp_gemm_kernel_at(0);
#endif
    if (st == HSP_OK && cpu->gemm != NULL) {
        /* hsp_workpool_new has checked that threads is at most HSP_WORKPOOL_MAX */
        cpu->pack = aligned_alloc(64, (size_t)threads * HSP_GEMM_SCRATCH_BYTES);
        if (cpu->pack == NULL) {
            st = hsp_err_nomem(err, "a backend");
        }
    }
    if (st != HSP_OK) {
        cpu_close(&cpu->base);
        return st;
    }
    /* Our pool cuts the products, so the library must not cut them again. This holds
     * process-wide. */
    openblas_set_num_threads(1);
    *ret = &cpu->base;
    return HSP_OK;
}
