#include "worker/backend/cuda/cuda_device.h"

#include <math.h>
#include <stdlib.h>

#include "proto/layout/box.h"
#include "worker/backend/call_check.h"
#include "worker/backend/cuda/cuda_context.h"
#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/cuda_gemm.h"
#include "worker/backend/cuda/cuda_host.h"
#include "worker/backend/cuda/cuda_memory.h"
#include "worker/backend/cuda/cuda_progress.h"
#include "worker/backend/cuda/cuda_queue.h"
#include "worker/backend/cuda/cuda_replay.h"
#include "worker/backend/cuda/kernels.h"

/* ---- giving work to a queue ---- */

/* Begins every call of a queue: binds the thread, and refuses calls after a failed one. */
static enum hsp_status enter(struct hsp_cuda *g, enum hsp_devq q, struct hsp_err *err)
{
    enum hsp_status st = hsp_cuda_bind(g, err);
    if (st == HSP_OK) {
        st = hsp_cuda_queue_need(g, q, err);
    }
    if (st == HSP_OK && g->queue[q].failed && g->queue[q].between) {
        st = hsp_err_set(err, HSP_ESTATE, 0, "a call after one that failed, before end");
    }
    if (st == HSP_OK && g->queue[q].capturing && g->queue[q].again) {
        st = HSP_AGAIN;
    }
    return st;
}

/* Ends every call of a queue. Reports the error of a launch, under the name of the op. Work that
 * cannot be captured is no failure: nothing has run, and end will ask for all calls once more. */
static enum hsp_status leave(struct hsp_cuda *g, enum hsp_devq q, const char *name,
                             enum hsp_status st, struct hsp_err *err)
{
    struct hsp_cuda_queue *u = &g->queue[q];
    if (st == HSP_OK) {
        hsp_cuda_note(g, q, name);
        st = hsp_cuda_check(g, cudaGetLastError(), name, err);
    }
    if (st == HSP_OK && g->sync && !u->capturing) {
        st = hsp_cuda_check(g, cudaStreamSynchronize(g->stream[q]), name, err);
    }
    if (st == HSP_AGAIN || (st == HSP_ENOMEM && u->capturing)) {
        u->again = u->capturing;
        st = u->capturing ? HSP_OK : hsp_cuda_lose(g, err, "%s: it is being captured", name);
    }
    u->failed = u->failed || st != HSP_OK;
    return st;
}

/* Adds a call between begin and end to the description of its graph. */
static void trace_call(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c)
{
    int64_t words[8 + 5 * (HSP_MAX_IN + HSP_MAX_OUT)] = {c->op,        c->n_in,      c->n_out,
                                                         c->origin[0], c->origin[1], c->adds};
    size_t n = 8;
    for (uint8_t i = 0; i < c->n_in + c->n_out; i++) {
        const struct hsp_array *a = i < c->n_in ? &c->in[i] : &c->out[i - c->n_in];
        words[n++] = (int64_t)a->dtype;
        for (uint8_t d = 0; d < HSP_MAX_RANK; d++) {
            words[n++] = d < a->rank ? a->ext[d] : -1;
        }
        hsp_cuda_trace_pointer(g, q, a->data);
    }
    hsp_cuda_trace_pointer(g, q, c->update);
    hsp_cuda_trace(g, q, words, n * sizeof(words[0]));
}

#define OP(op) (UINT64_C(1) << HSP_OP_##op)
#define ADDS   (OP(BIAS_DB) | OP(LAYERNORM_DW) | OP(RMSNORM_DW) | OP(LINEAR_DW) | OP(EMBED_DW))
#define MANY   (OP(ADAMW) | OP(SGDM) | OP(SQSUM) | OP(NARROW))
/* The ops whose kernels first ask for scratch. */
#define SCRATCH                                                                           \
    (OP(BIAS_DB) | OP(LAYERNORM_DW) | OP(RMSNORM_DW) | OP(EMBED_DW) | OP(ATTENTION_BWD) | \
     OP(PACKED_ATTENTION_BWD) | OP(SUM) | OP(COUNT) | OP(SQSUM))

/* Returns whether a call only takes its scratch, and gives the device nothing. */
static bool only_rehearses(const struct hsp_cuda *g, enum hsp_devq q)
{
    return g->queue[q].rehearses && !g->queue[q].capturing;
}

/* Ends a call of a rehearsal. HSP_AGAIN is no error here: hsp_cuda_scratch returns it after it has
 * made the scratch large enough, to end the call. */
static enum hsp_status rehearsed(enum hsp_status st)
{
    return st == HSP_AGAIN ? HSP_OK : st;
}

/* Checks one call. Returns HSP_EUNSUPPORTED if the GPU has no kernel for it. */
static enum hsp_status check_call(const struct hsp_call *c, struct hsp_err *err)
{
    enum hsp_dtype real = HSP_F32;
    enum hsp_status st = hsp_call_check(c, &real, err);
    if (st == HSP_OK && hsp_cuda_kernels[c->op] == NULL) {
        st = hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s on a GPU", hsp_op_name(c->op));
    }
    if (st == HSP_OK && c->adds != 0 && (ADDS >> c->op & 1) == 0) {
        st = hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s added to its output on a GPU",
                         hsp_op_name(c->op));
    }
    return st;
}

static bool is_empty(const struct hsp_call *c)
{
    for (uint8_t i = 0; i < c->n_out; i++) {
        if (hsp_cuda_count(&c->out[i]) > 0) {
            return false;
        }
    }
    return true;
}

static enum hsp_status cuda_run(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_status st = enter(g, q, err);
    st = st == HSP_OK ? check_call(c, err) : st;
    if (st == HSP_OK && is_empty(c)) {
        return HSP_OK;
    }
    if (st == HSP_OK && only_rehearses(g, q)) {
        return (SCRATCH >> c->op & 1) != 0 ? rehearsed(hsp_cuda_kernels[c->op](g, q, c, err))
                                           : HSP_OK;
    }
    if (st == HSP_OK) {
        if (g->queue[q].capturing) {
            trace_call(g, q, c);
        }
        st = hsp_cuda_kernels[c->op](g, q, c, err);
    }
    return leave(g, q, st == HSP_OK ? hsp_op_name(c->op) : "op", st, err);
}

/* Returns whether one kernel can run all calls: they have one op and one type. */
static bool are_alike(const struct hsp_call *c, uint32_t n)
{
    bool alike =
        c->op != HSP_OP_NARROW || (c->in[0].dtype == HSP_F32 && c->out[0].dtype == HSP_BF16);
    for (uint32_t k = 0; k < n; k++) {
        alike = alike && c[k].op == c->op && c[k].in[0].dtype == c->in[0].dtype &&
                c[k].out[0].dtype == c->out[0].dtype;
    }
    return alike;
}

static enum hsp_status cuda_run_many(struct hsp_backend *b, enum hsp_devq q,
                                     const struct hsp_call *c, uint32_t n, struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_status st = enter(g, q, err);
    if (st == HSP_OK && (n == 0 || (MANY >> c->op & 1) == 0 || !are_alike(c, n))) {
        for (uint32_t k = 0; st == HSP_OK && k < n; k++) {
            st = cuda_run(b, q, &c[k], err);
        }
        return st;
    }
    for (uint32_t k = 0; st == HSP_OK && k < n; k++) {
        st = check_call(&c[k], err);
        if (st == HSP_OK && g->queue[q].capturing) {
            trace_call(g, q, &c[k]);
        }
    }
    if (st == HSP_OK && only_rehearses(g, q)) {
        return c->op == HSP_OP_SQSUM ? rehearsed(hsp_cuda_sqsum_many(g, q, c, n, err)) : HSP_OK;
    }
    if (st == HSP_OK) {
        st = c->op == HSP_OP_SQSUM    ? hsp_cuda_sqsum_many(g, q, c, n, err)
             : c->op == HSP_OP_NARROW ? hsp_cuda_narrow_many(g, q, c, n, err)
                                      : hsp_cuda_update_many(g, q, c, n, err);
    }
    return leave(g, q, st == HSP_OK ? hsp_op_name(c->op) : "op", st, err);
}

static enum hsp_status cuda_run_chain(struct hsp_backend *b, enum hsp_devq q,
                                      const struct hsp_call *c, uint32_t n, bool *ret_done,
                                      struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_status st = enter(g, q, err);
    bool empty = false;
    *ret_done = false;
    for (uint32_t k = 0; st == HSP_OK && k < n; k++) {
        st = check_call(&c[k], err);
        empty = empty || is_empty(&c[k]);
    }
    if (st == HSP_OK && empty) {
        return HSP_OK;
    }
    if (st == HSP_OK) {
        st = c->op == HSP_OP_GELU_DX ? hsp_cuda_gelu_chain(g, q, c, ret_done, err)
                                     : hsp_cuda_norm_chain(g, q, c, n, ret_done, err);
    }
    if (only_rehearses(g, q)) {
        return rehearsed(st);
    }
    for (uint32_t k = 0; st == HSP_OK && *ret_done && k < n && g->queue[q].capturing; k++) {
        trace_call(g, q, &c[k]);
    }
    *ret_done = *ret_done && st == HSP_OK;
    return leave(g, q, st == HSP_OK ? hsp_op_name(c->op) : "op", st, err);
}

static enum hsp_status cuda_run_sum(struct hsp_backend *b, enum hsp_devq q,
                                    const struct hsp_call *c, const struct hsp_sum *s,
                                    bool *ret_done, struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_dtype real = HSP_F32;
    *ret_done = false;
    enum hsp_status st = enter(g, q, err);
    st = st == HSP_OK ? hsp_call_check(c, &real, err) : st;
    st = st == HSP_OK ? hsp_sum_check(c, s, err) : st;
    if (st == HSP_OK && g->queue[q].capturing) {
        trace_call(g, q, c);
        hsp_cuda_trace_pointer(g, q, s->bias != NULL ? s->bias->data : NULL);
        hsp_cuda_trace_pointer(g, q, s->add != NULL ? s->add->data : NULL);
        hsp_cuda_trace_pointer(g, q, s->out->data);
    }
    st = st == HSP_OK ? hsp_cuda_product_sum(g, q, c, s, ret_done, err) : st;
    return leave(g, q, st == HSP_OK ? hsp_op_name(c->op) : "op", st, err);
}

static enum hsp_status cuda_warm(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                 const struct hsp_sum *s, struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_dtype real = HSP_F32;
    enum hsp_status st = enter(g, q, err);
    st = st == HSP_OK && g->queue[q].between
             ? hsp_err_set(err, HSP_ESTATE, 0, "warm between begin and end")
             : st;
    st = st == HSP_OK ? hsp_call_check(c, &real, err) : st;
    st = st == HSP_OK && s != NULL ? hsp_sum_check(c, s, err) : st;
    st = st == HSP_OK ? hsp_cuda_product_warm(g, q, c, s, err) : st;
    return leave(g, q, st == HSP_OK ? hsp_op_name(c->op) : "op", st, err);
}

static enum hsp_status cuda_rehearse(struct hsp_backend *b, enum hsp_devq q, bool on,
                                     struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_status st = enter(g, q, err);
    g->queue[q].rehearses = on && st == HSP_OK;
    return st;
}

static enum hsp_status cuda_accumulate(struct hsp_backend *b, enum hsp_devq q,
                                       enum hsp_dtype dst_type, void *dst, enum hsp_dtype src_type,
                                       const void *src, int64_t n, struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_status st = enter(g, q, err);
    bool fit = hsp_dtype_real(dst_type) && hsp_dtype_real(src_type) &&
               (dst_type == src_type || src_type == HSP_BF16 || dst_type == HSP_F64);
    if (st == HSP_OK && !fit) {
        st = hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s added to %s", hsp_dtype_name(src_type),
                         hsp_dtype_name(dst_type));
    }
    if (st == HSP_OK && (n <= 0 || only_rehearses(g, q))) {
        return HSP_OK;
    }
    if (st == HSP_OK) {
        int64_t words[] = {-1, dst_type, src_type, n};
        hsp_cuda_trace_pointer(g, q, dst);
        hsp_cuda_trace_pointer(g, q, src);
        hsp_cuda_trace(g, q, words, sizeof(words));
        st = hsp_cuda_accumulate(g, q, dst_type, dst, src_type, src, n, err);
    }
    return leave(g, q, "accumulate", st, err);
}

static enum hsp_status cuda_copy(struct hsp_backend *b, enum hsp_devq q, void *dst, const void *src,
                                 size_t bytes, struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_status st = enter(g, q, err);
    if (st == HSP_OK && (bytes == 0 || only_rehearses(g, q))) {
        return HSP_OK;
    }
    if (st == HSP_OK) {
        uint64_t words[] = {UINT64_MAX - 1, bytes};
        hsp_cuda_trace_pointer(g, q, dst);
        hsp_cuda_trace_pointer(g, q, src);
        hsp_cuda_trace(g, q, words, sizeof(words));
        st = hsp_cuda_check(g, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, g->stream[q]),
                            "a copy", err);
    }
    return leave(g, q, "copy", st, err);
}

static enum hsp_status cuda_fill(struct hsp_backend *b, enum hsp_devq q, enum hsp_dtype t,
                                 void *dst, double value, int64_t n, struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_status st = enter(g, q, err);
    if (st == HSP_OK && (n <= 0 || only_rehearses(g, q))) {
        return HSP_OK;
    }
    if (st == HSP_OK) {
        bool zeros = value == 0.0 && !signbit(value);
        int64_t words[] = {-3, t, zeros, n};
        hsp_cuda_trace_pointer(g, q, dst);
        hsp_cuda_trace(g, q, words, sizeof(words));
        st = zeros ? hsp_cuda_check(
                         g, cudaMemsetAsync(dst, 0, (size_t)n * hsp_dtype_size(t), g->stream[q]),
                         "a fill", err)
                   : hsp_cuda_fill(g, q, t, dst, value, n, err);
    }
    return leave(g, q, "fill", st, err);
}

static enum hsp_status cuda_cells(struct hsp_backend *b, enum hsp_devq q,
                                  const struct hsp_cell_view *dst, const struct hsp_cell_view *src,
                                  const struct hsp_box *cell, enum hsp_cells how,
                                  struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_status st = enter(g, q, err);
    if (st == HSP_OK && (dst->dtype != src->dtype || !hsp_box_inside(cell, &dst->box) ||
                         !hsp_box_inside(cell, &src->box))) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "a cell that does not lie in both tensors");
    }
    if (st == HSP_OK && (hsp_box_empty(cell) || only_rehearses(g, q))) {
        return HSP_OK;
    }
    if (st == HSP_OK) {
        int64_t words[4 + 3 * HSP_MAX_RANK] = {-4, how, dst->dtype, cell->rank};
        for (uint8_t d = 0; d < cell->rank; d++) {
            words[4 + 3 * d] = cell->hi[d] - cell->lo[d];
            words[5 + 3 * d] = dst->box.hi[d] - dst->box.lo[d];
            words[6 + 3 * d] = src->box.hi[d] - src->box.lo[d];
        }
        hsp_cuda_trace_pointer(g, q, dst->data);
        hsp_cuda_trace_pointer(g, q, src->data);
        hsp_cuda_trace(g, q, words, sizeof(words));
        st = hsp_cuda_cells(g, q, dst, src, cell, how, err);
    }
    return leave(g, q, "cells", st, err);
}

static enum hsp_status cuda_hash(struct hsp_backend *b, enum hsp_devq q,
                                 const struct hsp_hash_call *c, uint32_t n, uint64_t *ret,
                                 struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_status st = enter(g, q, err);
    for (uint32_t k = 0; st == HSP_OK && k < n; k++) {
        if (c[k].dtype != HSP_F32 && c[k].dtype != HSP_F64) {
            st =
                hsp_err_set(err, HSP_EUNSUPPORTED, 0, "the hash of %s", hsp_dtype_name(c[k].dtype));
        }
    }
    if (st == HSP_OK && n == 0) {
        return HSP_OK;
    }
    st = st == HSP_OK ? hsp_cuda_hash(g, q, c, n, ret, err) : st;
    return leave(g, q, "hash", st, err);
}

static void *cuda_native(struct hsp_backend *b, enum hsp_devq q)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    struct hsp_err err;
    if (hsp_cuda_bind(g, &err) != HSP_OK || hsp_cuda_queue_need(g, q, &err) != HSP_OK) {
        return NULL;
    }
    hsp_cuda_expect_peers(g);
    return g->stream[q];
}

/* ---- memory ---- */

static enum hsp_status cuda_alloc(struct hsp_backend *b, enum hsp_mem mem, size_t bytes, void **ret,
                                  struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_status st = hsp_cuda_bind(g, err);
    return st == HSP_OK ? hsp_cuda_alloc(g, mem, bytes, "memory", ret, err) : st;
}

static void cuda_release(struct hsp_backend *b, enum hsp_mem mem, void *p)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    struct hsp_err err;
    (void)hsp_cuda_bind(g, &err); /* also for a lost device the table of blocks is kept in order */
    hsp_cuda_release(g, mem, p);
}

/* Pins memory. A driver may refuse memory (of a file system, beyond a limit, of another kind) by
 * one of many errors, and the device still works after all of them. A lost device reports its
 * failure again at the next call. */
static enum hsp_status cuda_pin(struct hsp_backend *b, void *p, size_t bytes, struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_status st = hsp_cuda_bind(g, err);
    return st == HSP_OK ? hsp_cuda_register(g, p, bytes, err) : st;
}

static bool cuda_unpin(struct hsp_backend *b, void *p)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    struct hsp_err err;
    (void)hsp_cuda_bind(g, &err); /* also for a lost device */
    return hsp_cuda_unregister(g, p);
}

static bool cuda_trim(struct hsp_backend *b)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    struct hsp_err err;
    (void)hsp_cuda_bind(g, &err);
    return hsp_cuda_trim(g);
}

/* ---- life ---- */

static void cuda_close(struct hsp_backend *b)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    if (hsp_cuda_use(g->device) == cudaSuccess) {
        (void)cudaDeviceSynchronize();
    }
    (void)cudaGetLastError(); /* nobody asks for errors any more */
    for (unsigned q = 0; g->queue != NULL && q < HSP_N_DEVQ; q++) {
        hsp_cuda_queue_fini(g, (enum hsp_devq)q);
    }
    hsp_cuda_gemm_free(g);
    if (g->lt != NULL) {
        (void)cublasLtDestroy(g->lt);
    }
    hsp_cuda_memory_free(g);
    hsp_cuda_fault_free(g->fault);
    if (g->graphs_lock != NULL) {
        (void)pthread_mutex_destroy(g->graphs_lock);
    }
    free(g->graphs_lock);
    free(g->queue);
    free(g);
}

static const struct hsp_backend functions = {
    .name = "cuda",
    .device = true,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .trim = cuda_trim,
    .run = cuda_run,
    .run_sum = cuda_run_sum,
    .warm = cuda_warm,
    .adds = ADDS,
    .many = MANY,
    .run_many = cuda_run_many,
    .run_chain = cuda_run_chain,
    .rehearse = cuda_rehearse,
    .accumulate = cuda_accumulate,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .cells = cuda_cells,
    .hash = cuda_hash,
    .mark = hsp_cuda_mark,
    .await = hsp_cuda_await,
    .finish = hsp_cuda_finish,
    .reached = hsp_cuda_reached,
    .seconds = hsp_cuda_seconds,
    .begin = hsp_cuda_begin,
    .end = hsp_cuda_end,
    .native = cuda_native,
    .close = cuda_close,
};

static enum hsp_status read_device(struct hsp_cuda *g, struct hsp_err *err)
{
    struct cudaDeviceProp p;
    enum hsp_status st =
        hsp_cuda_check(g, cudaGetDeviceProperties(&p, g->device), "its properties", err);
    if (st != HSP_OK) {
        return st;
    }
    g->sm = 10 * p.major + p.minor;
    g->n_sms = p.multiProcessorCount;
    g->smem_block = (int)p.sharedMemPerBlockOptin;
    if (g->sm < HSP_CUDA_MIN_SM) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0,
                           "GPU %d (%s) has compute capability %d.%d, below %d.%d", g->device,
                           p.name, p.major, p.minor, HSP_CUDA_MIN_SM / 10, HSP_CUDA_MIN_SM % 10);
    }
    cudaError_t e = hsp_cuda_find_code();
    if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction) {
        (void)cudaGetLastError();
        return hsp_err_set(
            err, HSP_EUNSUPPORTED, 0,
            "GPU %d (%s) has compute capability %d.%d; this build has kernels for %s, and for "
            "GPUs newer than %s",
            g->device, p.name, p.major, p.minor, HSP_CUDA_ARCHS, HSP_CUDA_PTX);
    }
    return hsp_cuda_check(g, e, "its kernels", err);
}

static enum hsp_status make(struct hsp_cuda *g, const struct hsp_device_opts *o,
                            struct hsp_err *err)
{
    enum hsp_status st = hsp_cuda_fault_new(&g->fault, err);
    if (st == HSP_OK) {
        st = hsp_cuda_memory_new(g, o->memory_bytes, err);
    }
    g->queue = calloc(HSP_N_DEVQ, sizeof(*g->queue));
    pthread_mutex_t *lock = calloc(1, sizeof(*lock));
    g->graphs_lock = lock;
    if (st == HSP_OK && (g->queue == NULL || lock == NULL)) {
        st = hsp_err_nomem(err, "a backend");
    }
    if (lock != NULL) {
        (void)pthread_mutex_init(lock, NULL);
    }
    hsp_cuda_unbind(); /* an earlier backend may have closed this device meanwhile */
    st = st == HSP_OK ? hsp_cuda_bind(g, err) : st;
    st = st == HSP_OK ? read_device(g, err) : st;
    for (int q = 0; st == HSP_OK && q < HSP_DEVQ_STATE + 1; q++) {
        st = hsp_cuda_queue_need(g, (enum hsp_devq)q, err);
    }
    return st == HSP_OK ? hsp_cuda_check_lt(g, cublasLtCreate(&g->lt), "cuBLASLt", err) : st;
}

enum hsp_status hsp_backend_cuda_open(int device, const struct hsp_device_opts *o,
                                      struct hsp_backend **ret, struct hsp_err *err)
{
    static const struct hsp_device_opts none;
    struct hsp_cuda *g = calloc(1, sizeof(*g));
    if (g == NULL) {
        return hsp_err_nomem(err, "a backend");
    }
    o = o != NULL ? o : &none;
    g->base = functions;
    g->device = device;
    g->tf32 = o->tf32;
    g->sync = o->sync;
    enum hsp_status st = make(g, o, err);
    if (st != HSP_OK) {
        if (g->fault != NULL) {
            cuda_close(&g->base);
        } else {
            free(g->queue);
            free(g->graphs_lock);
            free(g);
        }
        return st;
    }
    g->base.tf32 = g->base.bf16 = g->sm >= 80; /* the tensor cores have both from Ampere on */
    *ret = &g->base;
    return HSP_OK;
}
