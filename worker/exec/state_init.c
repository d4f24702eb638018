#include "worker/exec/state_init.h"

#include <inttypes.h> /* PRId64 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/rng.h"
#include "proto/layout/box.h"
#include "proto/op/bf16.h"

struct hsp_cell_view hsp_state_view(const struct hsp_program *p, uint32_t k, void *state)
{
    uint32_t t = p->bind.state[k].tensor;
    return (struct hsp_cell_view){.data = (uint8_t *)state + p->bind.tensor[t].offset,
                                  .box = p->bind.tensor[t].box,
                                  .dtype = (enum hsp_dtype)p->tpl.tensors[t].dtype};
}

const char *hsp_state_name(const struct hsp_program *p, uint32_t k, char *buf)
{
    const char *name = p->tpl.tensors[p->bind.state[k].tensor].name;
    size_t n = strcspn(name, "#");
    n = n > HSP_MAX_NAME ? HSP_MAX_NAME : n;
    memcpy(buf, name, n);
    buf[n] = '\0';
    return buf;
}

enum hsp_status hsp_box_runs(const struct hsp_box *held, const struct hsp_box *full, hsp_run_fn fn,
                             void *ctx, struct hsp_err *err)
{
    int64_t count = hsp_box_count(held), at[HSP_MAX_RANK] = {0}, local = 0;
    int last = (int)held->rank - 1;
    int64_t run = last < 0 ? 1 : held->hi[last] - held->lo[last];
    enum hsp_status st = HSP_OK;
    while (local < count && st == HSP_OK) {
        uint64_t global = 0;
        for (int d = 0; d <= last; d++) {
            global = global * (uint64_t)(full->hi[d] - full->lo[d]) +
                     (uint64_t)(held->lo[d] + at[d] - full->lo[d]);
        }
        st = fn(ctx, global, local, run, err);
        local += run;
        for (int d = last - 1; d >= 0 && ++at[d] == held->hi[d] - held->lo[d]; d--) {
            at[d] = 0;
        }
    }
    return st;
}

/* Context of draw_run: one parameter whose elements are drawn. */
struct draw {
    struct hsp_cell_view v;
    uint64_t seed, stream;
    double std;
};

/* Writes @x to element @at of a view. */
static void set(const struct hsp_cell_view *v, int64_t at, double x)
{
    switch (v->dtype) {
    case HSP_F32: ((float *)v->data)[at] = (float)x; return;
    case HSP_F64: ((double *)v->data)[at] = x; return;
    case HSP_I32: ((int32_t *)v->data)[at] = (int32_t)x; return;
    case HSP_BF16: ((uint16_t *)v->data)[at] = hsp_bf16_of((float)x); return;
    }
}

static enum hsp_status draw_run(void *ctx, uint64_t first_global, int64_t first_local, int64_t n,
                                struct hsp_err *err)
{
    struct draw *d = ctx;
    (void)err; /* drawing cannot fail */
    for (int64_t k = 0; k < n; k++) {
        set(&d->v, first_local + k,
            d->std * hsp_rng_normal(d->seed, d->stream, first_global + (uint64_t)k, 0));
    }
    return HSP_OK;
}

void hsp_state_init(const struct hsp_program *p, void *state)
{
    memset(state, 0, (size_t)p->bind.state_bytes);
    for (uint32_t k = 0; k < p->bind.n_state; k++) {
        const struct hsp_state_bind *s = &p->bind.state[k];
        struct hsp_cell_view v = hsp_state_view(p, k, state);
        if (p->tpl.tensors[s->tensor].state_kind != HSP_STATE_PARAM || s->init == HSP_INIT_ZERO) {
            continue;
        }
        if (s->init == HSP_INIT_ONE) {
            int64_t n = hsp_box_count(&v.box);
            for (int64_t j = 0; j < n; j++) {
                set(&v, j, 1.0);
            }
            continue;
        }
        char name[HSP_MAX_NAME + 1], stream[HSP_MAX_NAME + 8];
        (void)snprintf(stream, sizeof(stream), "init/%s", hsp_state_name(p, k, name));
        struct draw d = {
            .v = v, .seed = p->bind.data.seed, .stream = hsp_hash_str(stream), .std = s->init_std};
        (void)hsp_box_runs(&v.box, &s->full, draw_run, &d, NULL); /* drawing cannot fail */
    }
}

/* Context of import_run: one parameter whose elements are read from a file. */
struct import {
    const struct hsp_st_reader *r;
    const struct hsp_st_entry *e;
    struct hsp_cell_view v;
    void *buf; /* the elements of one run, in the file's type */
};

/* Returns element @k of the run in m->buf. */
static double element(const struct import *m, int64_t k)
{
    switch (m->e->dtype) {
    case HSP_F32: return (double)((const float *)m->buf)[k];
    case HSP_F64: return ((const double *)m->buf)[k];
    case HSP_I32: return (double)((const int32_t *)m->buf)[k];
    case HSP_BF16: return (double)hsp_bf16_float(((const uint16_t *)m->buf)[k]);
    }
    return 0;
}

static enum hsp_status import_run(void *ctx, uint64_t first_global, int64_t first_local, int64_t n,
                                  struct hsp_err *err)
{
    struct import *m = ctx;
    size_t elem = hsp_dtype_size(m->e->dtype);
    enum hsp_status st =
        hsp_st_read(m->r, m->e, first_global * elem, m->buf, (size_t)n * elem, err);
    for (int64_t k = 0; k < n && st == HSP_OK; k++) {
        set(&m->v, first_local + k, element(m, k));
    }
    return st;
}

static enum hsp_status import_one(const struct hsp_program *p, const struct hsp_st_reader *r,
                                  uint32_t k, void *state, struct hsp_err *err)
{
    char name[HSP_MAX_NAME + 1];
    const struct hsp_box *full = &p->bind.state[k].full;
    struct import m = {.r = r, .v = hsp_state_view(p, k, state)};
    m.e = hsp_st_find(r, hsp_state_name(p, k, name));
    if (!m.e) {
        return hsp_err_set(err, HSP_ENOENT, 0, "no tensor %s in the file", name);
    }
    bool same = m.e->rank == full->rank && hsp_dtype_real(m.e->dtype);
    for (uint8_t d = 0; same && d < full->rank; d++) {
        same = m.e->ext[d] == full->hi[d] - full->lo[d];
    }
    if (!same) {
        return hsp_err_set(err, HSP_EINVAL, 0, "tensor %s of the file has another shape or type",
                           name);
    }
    uint8_t last = full->rank;
    int64_t run = last == 0 ? 1 : m.v.box.hi[last - 1] - m.v.box.lo[last - 1];
    m.buf = malloc((size_t)run * hsp_dtype_size(m.e->dtype) + 1);
    if (!m.buf) {
        return hsp_err_nomem(err, "a row of %s", name);
    }
    enum hsp_status st = hsp_box_runs(&m.v.box, full, import_run, &m, err);
    free(m.buf);
    return st;
}

enum hsp_status hsp_state_import(const struct hsp_program *p, const struct hsp_st_reader *r,
                                 void *state, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < p->bind.n_state && st == HSP_OK; k++) {
        if (p->tpl.tensors[p->bind.state[k].tensor].state_kind == HSP_STATE_PARAM) {
            st = import_one(p, r, k, state, err);
        }
    }
    return st;
}
