/* Describes one piece of work of the emulated device, does it on the host, and finds the memory
 * that it accesses. */
#include <stdlib.h>
#include <string.h>

#include "proto/layout/box.h"
#include "tests/lib/mockdevint.h"

static const char *const kind_name[] = {"op",   "sum",   "accumulate", "copy",
                                        "fill", "cells", "hash",       "another library"};

const char *hsp_mockdev_name(const struct hsp_mockdev_call *c)
{
    return c->kind <= MOCKDEV_SUM ? hsp_op_name(c->op.op) : kind_name[c->kind];
}

static void set_array(struct hsp_array *to, const struct hsp_array *from)
{
    to->data = from->data;
    to->dtype = from->dtype;
    to->rank = from->rank;
    for (uint8_t d = 0; d < from->rank; d++) {
        to->ext[d] = from->ext[d];
    }
}

static void set_box(struct hsp_box *to, const struct hsp_box *from)
{
    to->rank = from->rank;
    for (uint8_t d = 0; d < from->rank; d++) {
        to->lo[d] = from->lo[d];
        to->hi[d] = from->hi[d];
    }
}

static void set_view(struct hsp_cell_view *to, const struct hsp_cell_view *from)
{
    to->data = from->data;
    to->dtype = from->dtype;
    set_box(&to->box, &from->box);
}

void hsp_mockdev_call_run(struct hsp_mockdev_call *x, const struct hsp_call *c)
{
    memset(x, 0, sizeof(*x)); /* padding too */
    x->kind = MOCKDEV_RUN;
    x->op.op = c->op;
    x->op.tf32 = c->tf32;
    x->op.n_in = c->n_in;
    x->op.n_out = c->n_out;
    x->op.adds = c->adds;
    x->op.origin[0] = c->origin[0];
    x->op.origin[1] = c->origin[1];
    x->at = *c->at;
    x->update = c->update;
    memcpy(x->op.sums, c->sums, sizeof x->op.sums);
    for (uint8_t k = 0; k < c->n_in; k++) {
        set_array(&x->in[k], &c->in[k]);
    }
    for (uint8_t k = 0; k < c->n_out; k++) {
        set_array(&x->out[k], &c->out[k]);
    }
}

static size_t array_bytes(const struct hsp_array *a)
{
    int64_t n = 1;
    for (uint8_t d = 0; d < a->rank; d++) {
        n *= a->ext[d];
    }
    return (size_t)n * hsp_dtype_size(a->dtype);
}

static bool are_apart(const struct hsp_array *a, const struct hsp_array *b)
{
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    return x + array_bytes(a) <= y || y + array_bytes(b) <= x;
}

bool hsp_mockdev_call_sum(struct hsp_mockdev_call *x, const struct hsp_call *c,
                          const struct hsp_sum *s)
{
    hsp_mockdev_call_run(x, c);
    x->kind = MOCKDEV_SUM;
    set_array(&x->sum, s->out);
    x->with_bias = s->bias != NULL;
    x->with_add = s->add != NULL;
    bool apart = are_apart(s->out, &c->in[0]) && are_apart(s->out, &c->in[1]);
    if (s->bias != NULL) {
        set_array(&x->bias, s->bias);
        apart = apart && are_apart(s->out, s->bias);
    }
    if (s->add != NULL) {
        set_array(&x->add, s->add);
        apart = apart && (s->add->data == s->out->data || are_apart(s->out, s->add));
    }
    return apart;
}

void hsp_mockdev_call_cells(struct hsp_mockdev_call *x, const struct hsp_cell_view *dst,
                            const struct hsp_cell_view *src, const struct hsp_box *cell,
                            enum hsp_cells how)
{
    memset(x, 0, sizeof(*x));
    x->kind = MOCKDEV_CELLS;
    set_view(&x->to, dst);
    set_view(&x->from, src);
    set_box(&x->cell, cell);
    x->how = how;
}

void hsp_mockdev_call_hash(struct hsp_mockdev_call *x, const struct hsp_hash_call *c, uint64_t *ret)
{
    memset(x, 0, sizeof(*x));
    x->kind = MOCKDEV_HASH;
    x->from.data = (void *)(uintptr_t)c->data;
    x->from.dtype = x->hash.dtype = c->dtype;
    x->to.data = ret;
    x->hash.rank = c->rank;
    x->hash.key = c->key;
    x->n = 1;
    for (uint8_t d = 0; d < c->rank; d++) {
        x->hash.ext[d] = c->ext[d];
        x->hash.stride[d] = c->stride[d];
        x->n *= c->ext[d];
    }
}

/* ---- accesses ---- */

struct visit {
    struct hsp_mockdev_area *areas;
    struct hsp_mockdev_touch t;
    struct hsp_err *err;
    bool bad;
};

static void touch(struct visit *v, const void *p, size_t bytes, bool write)
{
    if (v->bad || bytes == 0) {
        return;
    }
    struct hsp_mockdev_area *a = hsp_mockdev_find(v->areas, p, bytes);
    v->t.write = write;
    if (a == NULL) {
        v->bad = true;
        (void)hsp_err_set(v->err, HSP_EIO, 0, "mockdev: %s %s %zu bytes at %p, outside of memory",
                          v->t.what, write ? "writes" : "reads", bytes, p);
    } else if (!hsp_mockdev_note(a, p, bytes, &v->t, v->err)) {
        v->bad = true;
    }
}

/* Notes accesses to the rows of a cell in a view. */
static void touch_cell(struct visit *v, const struct hsp_cell_view *w, const struct hsp_box *cell,
                       bool write)
{
    size_t elem = hsp_dtype_size(w->dtype);
    int last = (int)cell->rank - 1;
    int64_t at[HSP_MAX_RANK] = {0}, run = last < 0 ? 1 : cell->hi[last] - cell->lo[last];
    int64_t rows = hsp_box_empty(cell) ? 0 : hsp_box_count(cell) / run;
    for (int64_t k = 0; k < rows; k++) {
        int64_t i = 0;
        for (int d = 0; d <= last; d++) {
            i = i * (w->box.hi[d] - w->box.lo[d]) + cell->lo[d] + at[d] - w->box.lo[d];
        }
        touch(v, (const uint8_t *)w->data + (size_t)i * elem, (size_t)run * elem, write);
        for (int d = last - 1; d >= 0 && ++at[d] == cell->hi[d] - cell->lo[d]; d--) {
            at[d] = 0;
        }
    }
}

/* A copy may touch memory of the host that is no allocation of ours. */
static void touch_any(struct visit *v, const void *p, size_t bytes, bool write)
{
    if (hsp_mockdev_find(v->areas, p, bytes) != NULL) {
        touch(v, p, bytes, write);
    }
}

static void visit(struct visit *v, const struct hsp_mockdev_call *c)
{
    size_t bytes = (size_t)c->n * hsp_dtype_size(c->to.dtype);
    switch (c->kind) {
    case MOCKDEV_RUN:
    case MOCKDEV_SUM:
        for (uint8_t k = 0; k < c->op.n_in; k++) {
            touch(v, c->in[k].data, array_bytes(&c->in[k]), false);
        }
        if (c->with_bias) {
            touch(v, c->bias.data, array_bytes(&c->bias), false);
        }
        if (c->with_add) {
            touch(v, c->add.data, array_bytes(&c->add), false);
        }
        if (c->update != NULL) {
            touch(v, c->update, sizeof(*c->update), false);
        }
        for (uint8_t k = 0; k < HSP_UPDATE_STATES && c->op.sums[k] != NULL; k++) {
            touch(v, c->op.sums[k], sizeof(*c->op.sums[k]), true);
        }
        for (uint8_t k = 0; k < c->op.n_out; k++) {
            touch(v, c->out[k].data, array_bytes(&c->out[k]), true);
        }
        if (c->kind == MOCKDEV_SUM) {
            touch(v, c->sum.data, array_bytes(&c->sum), true);
        }
        break;
    case MOCKDEV_ACCUMULATE:
        touch(v, c->from.data, (size_t)c->n * hsp_dtype_size(c->from.dtype), false);
        touch(v, c->to.data, bytes, true);
        break;
    case MOCKDEV_COPY:
        touch_any(v, c->from.data, (size_t)c->n, false);
        touch_any(v, c->to.data, (size_t)c->n, true);
        break;
    case MOCKDEV_FILL: touch(v, c->to.data, bytes, true); break;
    case MOCKDEV_CELLS:
        touch_cell(v, &c->from, &c->cell, false);
        touch_cell(v, &c->to, &c->cell, true);
        break;
    case MOCKDEV_HASH:
        touch(v, c->from.data, (size_t)c->n * hsp_dtype_size(c->from.dtype), false);
        touch(v, c->to.data, sizeof(uint64_t), true);
        break;
    case MOCKDEV_FOREIGN: /* announced before */
    case MOCKDEV_MARK:
    case MOCKDEV_AWAIT: break;
    }
}

bool hsp_mockdev_visit_bytes(struct hsp_mockdev_area *areas, const void *p, size_t bytes,
                             const struct hsp_mockdev_touch *t, struct hsp_err *err)
{
    struct visit v = {.areas = areas, .t = *t, .err = err};
    touch(&v, p, bytes, t->write);
    return !v.bad;
}

bool hsp_mockdev_visit(struct hsp_mockdev_area *areas, const struct hsp_mockdev_call *c,
                       struct hsp_mockdev_touch t, struct hsp_err *err)
{
    struct visit v = {.areas = areas, .t = t, .err = err};
    visit(&v, c);
    return !v.bad;
}

void *hsp_mockdev_real(struct hsp_mockdev_area *areas, const void *p)
{
    struct hsp_mockdev_area *a = hsp_mockdev_find(areas, p, 0);
    return a == NULL ? (void *)(uintptr_t)p : a->real + ((const uint8_t *)p - a->at);
}

void hsp_mockdev_make_real(struct hsp_mockdev_area *areas, struct hsp_mockdev_call *c)
{
    for (uint8_t k = 0; k < c->op.n_in; k++) {
        c->in[k].data = hsp_mockdev_real(areas, c->in[k].data);
    }
    for (uint8_t k = 0; k < c->op.n_out; k++) {
        c->out[k].data = hsp_mockdev_real(areas, c->out[k].data);
    }
    c->bias.data = hsp_mockdev_real(areas, c->bias.data);
    c->add.data = hsp_mockdev_real(areas, c->add.data);
    c->sum.data = hsp_mockdev_real(areas, c->sum.data);
    c->update = c->update != NULL ? hsp_mockdev_real(areas, c->update) : NULL;
    for (uint8_t k = 0; k < HSP_UPDATE_STATES && c->op.sums[k] != NULL; k++) {
        c->op.sums[k] = hsp_mockdev_real(areas, c->op.sums[k]);
    }
    c->to.data = hsp_mockdev_real(areas, c->to.data);
    c->from.data = hsp_mockdev_real(areas, c->from.data);
}

/* ---- execution ---- */

static enum hsp_status run_pair(struct hsp_backend *cpu, enum hsp_devq q, enum hsp_op op,
                                const struct hsp_array *a, const struct hsp_array *b,
                                const struct hsp_array *out, struct hsp_err *err)
{
    struct hsp_attrs at = {0};
    struct hsp_array in[2] = {*a, *b};
    struct hsp_call c = {.op = op, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = out};
    return cpu->run(cpu, q, &c, err);
}

/* Runs a fused product, bias and add as separate ops in turn, so that the result has the bits of
 * the unfused program. If the result does not overlap the output of the product, that output is
 * then filled with garbage, because the fused op leaves it undefined. */
static enum hsp_status do_sum(struct hsp_backend *cpu, enum hsp_devq q, struct hsp_mockdev_call *c,
                              struct hsp_err *err)
{
    struct hsp_array own = c->out[0], between = own;
    size_t bytes = array_bytes(&own);
    between.data = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (between.data == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "mockdev: no memory");
    }
    enum hsp_status st = cpu->run(cpu, q, &c->op, err);
    if (st == HSP_OK && c->with_bias) {
        const struct hsp_array *to = c->with_add ? &between : &c->sum;
        st = run_pair(cpu, q, HSP_OP_BIAS_ADD, &own, &c->bias, to, err);
    }
    if (st == HSP_OK && c->with_add) {
        const struct hsp_array *y = c->with_bias ? &between : &own;
        st = run_pair(cpu, q, HSP_OP_ADD, &c->add, y, &c->sum, err);
    }
    free(between.data);
    if (are_apart(&own, &c->sum)) {
        memset(own.data, 0x5a, bytes);
    }
    return st;
}

/* Runs an op whose outputs are added to old values: computes these outputs in buffers of their own
 * first, then adds them. */
static enum hsp_status do_adding(struct hsp_backend *cpu, enum hsp_devq q,
                                 struct hsp_mockdev_call *c, struct hsp_err *err)
{
    struct hsp_array own[HSP_MAX_OUT];
    struct hsp_call one = c->op;
    enum hsp_status st = HSP_OK;
    memcpy(own, c->out, sizeof(own));
    for (uint8_t k = 0; k < one.n_out; k++) {
        if ((c->op.adds >> k & 1) != 0) {
            own[k].data = aligned_alloc(64, (array_bytes(&own[k]) + 127) / 64 * 64);
            st = own[k].data != NULL ? st : hsp_err_set(err, HSP_ENOMEM, 0, "mockdev: no memory");
        }
    }
    one.out = own;
    one.adds = 0;
    st = st == HSP_OK ? cpu->run(cpu, q, &one, err) : st;
    for (uint8_t k = 0; k < one.n_out; k++) {
        if ((c->op.adds >> k & 1) == 0) {
            continue;
        }
        size_t n = array_bytes(&own[k]) / hsp_dtype_size(own[k].dtype);
        st = st == HSP_OK ? cpu->accumulate(cpu, q, own[k].dtype, c->out[k].data, own[k].dtype,
                                            own[k].data, (int64_t)n, err)
                          : st;
        free(own[k].data);
    }
    return st;
}

enum hsp_status hsp_mockdev_do(struct hsp_backend *cpu, enum hsp_devq q, struct hsp_mockdev_call *c,
                               struct hsp_err *err)
{
    c->op.at = &c->at;
    c->op.in = c->in;
    c->op.out = c->out;
    c->op.update = c->update;
    switch (c->kind) {
    case MOCKDEV_RUN:
        return c->op.adds != 0 ? do_adding(cpu, q, c, err) : cpu->run(cpu, q, &c->op, err);
    case MOCKDEV_SUM: return do_sum(cpu, q, c, err);
    case MOCKDEV_ACCUMULATE:
        return cpu->accumulate(cpu, q, c->to.dtype, c->to.data, c->from.dtype, c->from.data, c->n,
                               err);
    case MOCKDEV_COPY: return cpu->copy(cpu, q, c->to.data, c->from.data, (size_t)c->n, err);
    case MOCKDEV_FILL: return cpu->fill(cpu, q, c->to.dtype, c->to.data, c->value, c->n, err);
    case MOCKDEV_CELLS: return cpu->cells(cpu, q, &c->to, &c->from, &c->cell, c->how, err);
    case MOCKDEV_HASH:
        c->hash.data = c->from.data;
        return cpu->hash(cpu, q, &c->hash, 1, c->to.data, err);
    case MOCKDEV_FOREIGN:
    case MOCKDEV_MARK:
    case MOCKDEV_AWAIT: break;
    }
    return HSP_OK;
}
