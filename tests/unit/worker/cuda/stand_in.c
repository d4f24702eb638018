#include "tests/unit/worker/cuda/stand_in.h"

#include <stdio.h>

#include "worker/backend/cuda/cuda_device.h"
#include "worker/backend/cuda/cuda_gemm.h"
#include "worker/backend/cuda/cuda_memory.h"
#include "worker/backend/cuda/kernels.h"

struct job {
    float *out;
    const float *x, *y;
    const struct hsp_update_scalars *update;
    int64_t n;
};

static bool touch(const struct job *j)
{
    size_t bytes = (size_t)j->n * sizeof(float);
    return hsp_fake_touch(j->x, bytes, false) &&
           (j->y == NULL || hsp_fake_touch(j->y, bytes, false)) &&
           (j->update == NULL || hsp_fake_touch(j->update, sizeof(*j->update), false)) &&
           hsp_fake_touch(j->out, bytes, true);
}

static void run_add(void *args)
{
    const struct job *j = args;
    for (int64_t i = 0; touch(j) && i < j->n; i++) {
        j->out[i] = j->x[i] + j->y[i];
    }
}

static void run_move(void *args)
{
    const struct job *j = args;
    if (touch(j)) {
        memmove(j->out, j->x, (size_t)j->n * sizeof(float));
    }
}

static void run_sgdm(void *args)
{
    const struct job *j = args;
    for (int64_t i = 0; touch(j) && i < j->n; i++) {
        j->out[i] = j->x[i] - (float)j->update->lr * j->y[i];
    }
}

static void launch(struct hsp_cuda *g, enum hsp_devq q, const char *name, void (*run)(void *),
                   const struct job *j, unsigned threads)
{
    struct hsp_fake_work w = {.name = name,
                              .func = name, /* each kernel has one literal */
                              .run = run,
                              .args = j,
                              .bytes = sizeof(*j),
                              .grid = {1, 1, 1},
                              .block = {threads, 1, 1}};
    (void)hsp_fake_submit(g->stream[q], &w); /* the error is kept for cudaGetLastError */
}

static enum hsp_status add(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                           struct hsp_err *err)
{
    (void)err;
    struct job j = {.out = c->out[0].data,
                    .x = c->in[0].data,
                    .y = c->in[1].data,
                    .n = hsp_cuda_count(&c->out[0])};
    launch(g, q, "add", run_add, &j, 32);
    return HSP_OK;
}

static enum hsp_status gelu(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                            struct hsp_err *err)
{
    void *scratch;
    int64_t n = hsp_cuda_count(&c->out[0]);
    enum hsp_status st = hsp_cuda_scratch(g, q, (size_t)n * sizeof(float), &scratch, err);
    if (st != HSP_OK) {
        return st;
    }
    struct job in = {.out = scratch, .x = c->in[0].data, .n = n};
    struct job out = {.out = c->out[0].data, .x = scratch, .n = n};
    launch(g, q, "gelu in", run_move, &in, 32);
    launch(g, q, "gelu out", run_move, &out, 32);
    return HSP_OK;
}

static enum hsp_status sgdm(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                            struct hsp_err *err)
{
    (void)err;
    struct job j = {.out = c->out[0].data,
                    .x = c->in[0].data,
                    .y = c->in[2].data,
                    .update = c->update,
                    .n = hsp_cuda_count(&c->out[0])};
    launch(g, q, "sgdm", run_sgdm, &j, 32);
    return HSP_OK;
}

static enum hsp_status refused(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                               struct hsp_err *err)
{
    (void)c;
    (void)err;
    struct job j = {.n = 0};
    launch(g, q, "refused", run_move, &j, 2000);
    return HSP_OK;
}

static enum hsp_status hungry(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                              struct hsp_err *err)
{
    void *scratch;
    (void)c;
    return hsp_cuda_scratch(g, q, (size_t)1 << 40, &scratch, err);
}

const hsp_cuda_kernel hsp_cuda_kernels[HSP_N_OPS] = {
    [HSP_OP_ADD] = add,        [HSP_OP_GELU] = gelu,    [HSP_OP_SGDM] = sgdm,
    [HSP_OP_SWIGLU] = refused, [HSP_OP_SQSUM] = hungry,
};

cudaError_t hsp_cuda_find_code(void)
{
    cudaFuncAttributes a;
    return cudaFuncGetAttributes(&a, "add");
}

enum hsp_status hsp_cuda_accumulate(struct hsp_cuda *g, enum hsp_devq q, enum hsp_dtype dst_type,
                                    void *dst, enum hsp_dtype src_type, const void *src, int64_t n,
                                    struct hsp_err *err)
{
    if (dst_type != HSP_F32 || src_type != HSP_F32) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "the stand-in adds fp32 only");
    }
    struct job j = {.out = dst, .x = dst, .y = src, .n = n};
    launch(g, q, "accumulate", run_add, &j, 32);
    return HSP_OK;
}

struct fill {
    float *dst, value;
    int64_t n;
};

static void run_fill(void *args)
{
    const struct fill *f = args;
    bool fine = hsp_fake_touch(f->dst, (size_t)f->n * sizeof(float), true);
    for (int64_t i = 0; fine && i < f->n; i++) {
        f->dst[i] = f->value;
    }
}

enum hsp_status hsp_cuda_fill(struct hsp_cuda *g, enum hsp_devq q, enum hsp_dtype t, void *dst,
                              double value, int64_t n, struct hsp_err *err)
{
    struct fill f = {.dst = dst, .value = (float)value, .n = n};
    struct hsp_fake_work w = {
        .name = "fill", .func = "fill", .run = run_fill, .args = &f, .bytes = sizeof(f)};
    (void)hsp_fake_submit(g->stream[q], &w);
    return t == HSP_F32 ? HSP_OK : hsp_err_set(err, HSP_EUNSUPPORTED, 0, "fp32 only");
}

struct cells {
    struct hsp_cell_view dst, src;
    struct hsp_box cell;
    enum hsp_cells how;
};

static void touch_cell(const struct hsp_cell_view *v, const struct hsp_box *cell, bool write)
{
    int64_t at[HSP_MAX_RANK];
    memcpy(at, cell->lo, sizeof(at));
    for (;;) {
        int64_t i = 0;
        for (uint8_t d = 0; d < cell->rank; d++) {
            i = i * (v->box.hi[d] - v->box.lo[d]) + at[d] - v->box.lo[d];
        }
        if (!hsp_fake_touch((uint8_t *)v->data + (size_t)i * hsp_dtype_size(v->dtype),
                            hsp_dtype_size(v->dtype), write)) {
            return;
        }
        int d = cell->rank - 1;
        while (d >= 0 && ++at[d] == cell->hi[d]) {
            at[d] = cell->lo[d];
            d--;
        }
        if (d < 0) {
            return;
        }
    }
}

static void run_cells(void *args)
{
    const struct cells *c = args;
    touch_cell(&c->src, &c->cell, false);
    touch_cell(&c->dst, &c->cell, true);
    if (c->how == HSP_CELLS_COPY) {
        hsp_cell_copy(&c->dst, &c->src, &c->cell);
    } else {
        hsp_cell_reduce(&c->dst, &c->src, &c->cell,
                        c->how == HSP_CELLS_ADD ? HSP_REDUCE_SUM : HSP_REDUCE_MAX);
    }
}

enum hsp_status hsp_cuda_cells(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_cell_view *dst,
                               const struct hsp_cell_view *src, const struct hsp_box *cell,
                               enum hsp_cells how, struct hsp_err *err)
{
    (void)err;
    struct cells c = {.dst = *dst, .src = *src, .cell = *cell, .how = how};
    struct hsp_fake_work w = {
        .name = "cells", .func = "cells", .run = run_cells, .args = &c, .bytes = sizeof(c)};
    (void)hsp_fake_submit(g->stream[q], &w);
    return HSP_OK;
}

enum hsp_status hsp_cuda_hash(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_hash_call *c,
                              uint32_t n, uint64_t *ret, struct hsp_err *err)
{
    (void)g;
    (void)q;
    (void)c;
    (void)ret;
    return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "the stand-in hashes none of %u arrays", n);
}

/* Gives many calls one by one. */
static enum hsp_status each(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                            uint32_t n, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; st == HSP_OK && k < n; k++) {
        st = hsp_cuda_kernels[c[k].op] != NULL
                 ? hsp_cuda_kernels[c[k].op](g, q, &c[k], err)
                 : hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s", hsp_op_name(c[k].op));
    }
    return st;
}

HSP_CUDA_MANY(update_many)
{
    return each(g, q, c, n, err);
}

HSP_CUDA_MANY(sqsum_many)
{
    return each(g, q, c, n, err);
}

HSP_CUDA_MANY(narrow_many)
{
    return each(g, q, c, n, err);
}

/* The stand-in has no chains. */
enum hsp_status hsp_cuda_norm_chain(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                    uint32_t n, bool *ret_done, struct hsp_err *err)
{
    (void)g;
    (void)q;
    (void)c;
    (void)n;
    (void)err;
    *ret_done = false;
    return HSP_OK;
}

enum hsp_status hsp_cuda_gelu_chain(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                    bool *ret_done, struct hsp_err *err)
{
    return hsp_cuda_norm_chain(g, q, c, 1, ret_done, err);
}

enum hsp_status hsp_cuda_product_sum(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                     const struct hsp_sum *s, bool *ret_done, struct hsp_err *err)
{
    (void)g;
    (void)q;
    (void)c;
    (void)s;
    (void)err;
    *ret_done = false;
    return HSP_OK;
}

enum hsp_status hsp_cuda_product_warm(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                      const struct hsp_sum *s, struct hsp_err *err)
{
    bool done;
    return hsp_cuda_product_sum(g, q, c, s, &done, err);
}

void hsp_cuda_gemm_free(struct hsp_cuda *g)
{
    assert_null(g->gemm);
}

/* ---- for tests ---- */

struct hsp_backend *standin_open(const struct hsp_fake_opts *f, const struct hsp_device_opts *o)
{
    struct hsp_backend *b;
    struct hsp_err err;
    struct hsp_fake_opts all = f != NULL ? *f : (struct hsp_fake_opts){.seed = 0};
    all.seed += hsp_test_seed() << 16; /* different from the numbers that the test itself draws */
    hsp_fake_reset(&all);
    assert_ok(hsp_backend_cuda_open(0, o, &b, &err), &err);
    return b;
}

void standin_assert_clean(void)
{
    struct hsp_fake_usage u = hsp_fake_usage();
    if (hsp_fake_reports() != 0) {
        fail_msg("%s", hsp_fake_report(0));
    }
    assert_int_equal(u.device_bytes, 0);
    assert_int_equal(u.pinned_bytes, 0);
    assert_int_equal(u.allocations + u.pinned, 0);
    assert_int_equal(u.streams, 0);
    assert_int_equal(u.events, 0);
    assert_int_equal(u.graphs + u.execs + u.handles, 0);
}

void standin_close(struct hsp_backend *b)
{
    b->close(b);
    standin_assert_clean();
}

float *standin_alloc(struct hsp_backend *b, int64_t n)
{
    void *p;
    struct hsp_err err;
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, (size_t)n * sizeof(float), &p, &err), &err);
    return p;
}

static struct hsp_array row(const float *p, int64_t n)
{
    return (struct hsp_array){
        .data = (void *)(uintptr_t)p, .dtype = HSP_F32, .rank = 1, .ext = {n}};
}

enum hsp_status standin_add(struct hsp_backend *b, enum hsp_devq q, float *out, const float *x,
                            const float *y, int64_t n, struct hsp_err *err)
{
    struct hsp_attrs at = {.i = {0}};
    struct hsp_array in[] = {row(x, n), row(y, n)}, to[] = {row(out, n)};
    struct hsp_call c = {.op = HSP_OP_ADD, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = to};
    return b->run(b, q, &c, err);
}

enum hsp_status standin_op(struct hsp_backend *b, enum hsp_devq q, enum hsp_op op, float *out,
                           const float *in, int64_t n, struct hsp_err *err)
{
    struct hsp_attrs at = {.i = {0}};
    struct hsp_array a[] = {row(in, n), row(in, n)}, to[] = {row(out, n)};
    struct hsp_call c = {
        .op = op, .at = &at, .n_in = hsp_op_n_in(op), .n_out = 1, .in = a, .out = to};
    if (op == HSP_OP_SQSUM) {
        to[0] = (struct hsp_array){.data = out, .dtype = HSP_F64};
    }
    return b->run(b, q, &c, err);
}

float standin_peek(const float *p)
{
    float v;
    hsp_fake_peek(&v, p, sizeof(v));
    return v;
}

uint64_t standin_mark(struct hsp_backend *b, enum hsp_devq q)
{
    struct hsp_err err;
    uint64_t t = 0;
    assert_ok(b->mark(b, q, &t, &err), &err);
    return t;
}

void standin_finish(struct hsp_backend *b, enum hsp_devq q)
{
    struct hsp_err err;
    assert_ok(b->finish(b, q, standin_mark(b, q), &err), &err);
}

void standin_fill(struct hsp_backend *b, enum hsp_devq q, float *p, double v, int64_t n)
{
    struct hsp_err err;
    assert_ok(b->fill(b, q, HSP_F32, p, v, n, &err), &err);
}
