#include "worker/exec/interp.h"

#include <inttypes.h> /* PRIu64 */

#include "proto/layout/box.h"
#include "worker/data/load.h"
#include "worker/exec/engine.h"
#include "worker/exec/engine_impl.h"
#include "worker/exec/moves.h"
#include "worker/exec/operand.h"
#include "worker/exec/staging.h"
#include "worker/exec/state_watch.h"
#include "worker/exec/voting.h"

static struct hsp_array array_of(const struct hsp_cell_view *v)
{
    struct hsp_array a = {.data = v->data, .dtype = v->dtype, .rank = v->box.rank};
    for (uint8_t d = 0; d < a.rank; d++) {
        a.ext[d] = v->box.hi[d] - v->box.lo[d];
    }
    return a;
}

static bool is_update(uint8_t op)
{
    return op == HSP_OP_ADAMW || op == HSP_OP_SGDM;
}

/* ---- where outputs go ---- */

static const struct hsp_route *route_of(const struct hsp_engine *e, uint32_t k)
{
    return e->way->routes != NULL ? &e->way->routes[k] : NULL;
}

struct hsp_cell_view hsp_output(const struct hsp_engine *e, uint32_t k, uint8_t j, uint32_t micro,
                                enum hsp_queue q, bool *ret_adds)
{
    const struct hsp_instr *i = &e->t->instrs[k];
    const struct hsp_route *r = route_of(e, k);
    *ret_adds = false;
    if (r != NULL && (r->stats >> j & 1) != 0) {
        return (struct hsp_cell_view){
            .data = hsp_stat_place(e, q, e->entry[q].stat_base + r->out[j]), .dtype = HSP_F64};
    }
    if (r != NULL && (r->sums >> j & 1) != 0) {
        *ret_adds = (r->begins >> j & 1) == 0 || !e->entry[q].first;
        return hsp_engine_view(e, r->out[j], micro);
    }
    return hsp_engine_view(e, i->out[j], micro);
}

/* Returns true if accumulation @k makes the first addition to its sum. */
static bool begins_sum(const struct hsp_engine *e, uint32_t k, enum hsp_queue q)
{
    const struct hsp_route *r = route_of(e, k);
    return r != NULL && (r->begins & 1) != 0 && e->entry[q].first;
}

/* Returns true if other instructions have done the work of instruction @k, or will do it. */
static bool is_needless(const struct hsp_engine *e, uint32_t k)
{
    const struct hsp_route *r = route_of(e, k);
    return r != NULL &&
           (r->done || (r->begun_by != HSP_NO_PIECE && (e->piece[r->begun_by] & HSP_PIECE_RUNS)));
}

uint32_t hsp_given_how(const struct hsp_engine *e, uint32_t k, enum hsp_queue q)
{
    return (uint32_t)is_needless(e, k) | (uint32_t)begins_sum(e, k, q) << 1;
}

static enum hsp_status run_stat(struct hsp_engine *e, uint32_t k, uint32_t micro, enum hsp_queue q,
                                struct hsp_err *err)
{
    const struct hsp_instr *i = &e->t->instrs[k];
    struct hsp_cell_view v = hsp_engine_view(e, i->in[0], micro);
    return hsp_stat_note(e, q, (uint8_t)i->arg, v.dtype, is_needless(e, k) ? NULL : v.data, err);
}

enum hsp_status hsp_note_done(struct hsp_engine *e, uint32_t k, enum hsp_queue q,
                              struct hsp_err *err)
{
    return e->t->instrs[k].kind == HSP_I_STAT ? run_stat(e, k, 0, q, err) : HSP_OK;
}

/* ---- ops ---- */

static struct hsp_call call_of(const struct hsp_engine *e, uint32_t n, uint32_t micro,
                               enum hsp_queue q, struct hsp_op_call *x)
{
    const struct hsp_instr *i = &e->t->instrs[n];
    uint8_t adds = 0;
    for (uint8_t k = 0; k < i->n_in; k++) {
        struct hsp_cell_view v = hsp_engine_view(e, i->in[k], micro);
        x->in[k] = array_of(&v);
    }
    for (uint8_t k = 0; k < i->n_out; k++) {
        bool add;
        struct hsp_cell_view v = hsp_output(e, n, k, micro, q, &add);
        x->out[k] = array_of(&v);
        adds |= (uint8_t)((unsigned)add << k);
    }
    x->at = hsp_instr_attrs(i, e->b->symbol);
    struct hsp_call c = {.op = (enum hsp_op)i->op,
                         .at = &x->at,
                         .n_in = i->n_in,
                         .n_out = i->n_out,
                         .adds = adds,
                         .in = x->in,
                         .out = x->out,
                         .tf32 = e->b->hyper.tf32,
                         .update = is_update(i->op) ? e->scalars.device : NULL};
    for (int k = 0; k < 2; k++) {
        c.origin[k] = i->origin_sym[k] == UINT32_MAX ? 0 : e->b->symbol[i->origin_sym[k]];
    }
    if (is_update(i->op)) {
        hsp_state_watch_call(e, n, &c);
    }
    return c;
}

static enum hsp_status run_op(struct hsp_engine *e, uint32_t k, uint32_t micro, enum hsp_queue q,
                              struct hsp_err *err)
{
    const struct hsp_instr *i = &e->t->instrs[k];
    struct hsp_op_call x;
    bool update = is_update(i->op);
    if (update && !e->voted) {
        return hsp_err_set(err, HSP_ESTATE, 0, "update before the vote of step %" PRIu64, e->step);
    }
    if (update && e->vote.noop) { /* the new version equals the old one */
        return HSP_OK;
    }
    struct hsp_call c = call_of(e, k, micro, q, &x);
    return e->o.backend->run(e->o.backend, hsp_devq_of(q), &c, err);
}

/* Returns the additions to product @k; @part has room for their arrays. */
static struct hsp_sum sum_of(const struct hsp_engine *e, uint32_t k, uint32_t micro,
                             struct hsp_array part[3])
{
    const struct hsp_epilogue *t = &e->way->epilogues[k];
    const uint32_t tensor[3] = {t->bias, t->add, t->out};
    for (int j = 0; j < 3; j++) {
        if (tensor[j] != HSP_NO_TENSOR) {
            struct hsp_cell_view v = hsp_engine_view(e, tensor[j], micro);
            part[j] = array_of(&v);
        }
    }
    return (struct hsp_sum){.bias = t->bias != HSP_NO_TENSOR ? &part[0] : NULL,
                            .add = t->add != HSP_NO_TENSOR ? &part[1] : NULL,
                            .out = &part[2]};
}

static bool has_epilogue(const struct hsp_engine *e, uint32_t k)
{
    return e->way->epilogues != NULL && e->way->epilogues[k].n > 0;
}

/* Gives a product and its additions to the backend as one call. *ret_done is false if the backend
 * refuses such a call. */
static enum hsp_status run_with_epilogue(struct hsp_engine *e, uint32_t k, uint32_t micro,
                                         enum hsp_queue q, bool *ret_done, struct hsp_err *err)
{
    struct hsp_op_call x;
    struct hsp_array part[3];
    struct hsp_sum s = sum_of(e, k, micro, part);
    struct hsp_call c = call_of(e, k, micro, q, &x);
    return e->o.backend->run_sum(e->o.backend, hsp_devq_of(q), &c, &s, ret_done, err);
}

/* Writes the calls of the fused launch at @k to @c, and returns their number. */
static uint32_t fused_calls(struct hsp_engine *e, uint32_t k, uint32_t micro, struct hsp_call *c)
{
    uint32_t n = 0;
    for (uint32_t j = k; j < k + e->way->launches[k].n; j++) {
        if (!is_needless(e, j)) {
            c[n] = call_of(e, j, micro, HSP_QUEUE_COMPUTE, &e->calls[n]);
            n++;
        }
    }
    return n;
}

/* Gives all ops of a fused launch of the compute queue to the backend as one call. *ret_done is
 * false if nothing was given: the backend refuses such a call, or the ops are updates that must not
 * run now. */
static enum hsp_status run_fused(struct hsp_engine *e, uint32_t k, uint32_t micro, bool *ret_done,
                                 struct hsp_err *err)
{
    const struct hsp_fused_launch *g = &e->way->launches[k];
    struct hsp_backend *b = e->o.backend;
    struct hsp_call c[HSP_MANY_CALLS];
    bool update = is_update(e->t->instrs[k].op);
    *ret_done = false;
    if (update && (!e->voted || e->vote.noop)) {
        return HSP_OK;
    }
    uint32_t n = fused_calls(e, k, micro, c);
    *ret_done = !g->chain;
    enum hsp_status st = g->chain ? b->run_chain(b, HSP_DEVQ_COMPUTE, c, n, ret_done, err)
                                  : b->run_many(b, HSP_DEVQ_COMPUTE, c, n, err);
    for (uint32_t j = k; j < k + g->n && st == HSP_OK && *ret_done; j++) {
        st = hsp_note_done(e, j, HSP_QUEUE_COMPUTE, err);
    }
    return st;
}

/* ---- data ---- */

/* Writes the random keys of the sequences, [n_seq, 2], to @dst. In evaluation they are -1, which
 * says to draw nothing. */
static void load_keys(const struct hsp_engine *e, const struct hsp_micro *m, int32_t *dst)
{
    for (uint32_t i = 0; i < m->n_seq; i++, dst += 2) {
        dst[0] = dst[1] = -1;
        if (!e->eval) {
            hsp_sample_keys(&e->b->data, e->step, m->sample[i], dst);
        }
    }
}

/* Loads the part of micro-batch @micro that the box of @view contains to @to. */
static enum hsp_status load_into(struct hsp_engine *e, const struct hsp_instr *i, uint32_t micro,
                                 const struct hsp_cell_view *view, void *to, struct hsp_err *err)
{
    struct hsp_cell_view v = *view;
    struct hsp_micro part;
    if (micro >= e->sheet.n_micro) {
        return hsp_err_set(err, HSP_EINVAL, 0, "micro-batch %u of %u", micro, e->sheet.n_micro);
    }
    const struct hsp_micro *all = &e->sheet.micro[micro];
    if (v.box.hi[0] > (int64_t)all->n_seq) {
        return hsp_err_set(err, HSP_EINVAL, 0, "sequences to %lld of a micro-batch of %u",
                           (long long)v.box.hi[0], all->n_seq);
    }
    part = *all;
    part.n_seq = (uint32_t)(v.box.hi[0] - v.box.lo[0]);
    part.offset = all->offset != NULL ? all->offset + v.box.lo[0] : NULL;
    part.sample = all->sample != NULL ? all->sample + v.box.lo[0] : NULL;
    part.first = all->first != NULL ? all->first + v.box.lo[0] : NULL;
    if (i->arg == HSP_LOAD_KEYS) {
        if (v.box.lo[1] != 0 || v.box.hi[1] != 2) {
            return hsp_err_set(err, HSP_EINVAL, 0, "a part of the random keys");
        }
        load_keys(e, &part, to);
        return HSP_OK;
    }
    struct hsp_load_spec s = {.what = (enum hsp_load)i->arg,
                              .data = &e->b->data,
                              .micro = &part,
                              .first_col = v.box.lo[1],
                              .n_cols = v.box.hi[1] - v.box.lo[1]};
    return hsp_dataset_load(e->o.dataset, &s, to, err);
}

static enum hsp_status run_load(struct hsp_engine *e, const struct hsp_instr *i, uint32_t micro,
                                enum hsp_queue q, struct hsp_err *err)
{
    struct hsp_cell_view v = hsp_engine_view(e, i->out[0], micro);
    void *at = NULL;
    enum hsp_status st = hsp_load_begin(e, q, v.data, &at, err);
    if (st == HSP_OK) {
        st = load_into(e, i, micro, &v, at, err);
    }
    return st == HSP_OK ? hsp_load_end(e, q, v.data, at, hsp_cell_bytes(&v.box, v.dtype), err) : st;
}

static enum hsp_status run_fill(struct hsp_engine *e, const struct hsp_instr *i, uint32_t micro,
                                enum hsp_devq q, struct hsp_err *err)
{
    struct hsp_cell_view v = hsp_engine_view(e, i->out[0], micro);
    return e->o.backend->fill(e->o.backend, q, v.dtype, v.data, i->kind == HSP_I_ONE ? 1.0 : 0.0,
                              hsp_box_count(&v.box), err);
}

/* Copies a tensor between the device's memory and the host's. */
static enum hsp_status run_copy(struct hsp_engine *e, const struct hsp_instr *i, uint32_t micro,
                                enum hsp_devq q, struct hsp_err *err)
{
    struct hsp_cell_view to = hsp_engine_view(e, i->out[0], micro);
    struct hsp_cell_view from = hsp_engine_view(e, i->in[0], micro);
    return e->o.backend->copy(e->o.backend, q, to.data, from.data,
                              hsp_cell_bytes(&to.box, to.dtype), err);
}

static enum hsp_status run_acc(struct hsp_engine *e, uint32_t k, uint32_t micro, enum hsp_queue q,
                               struct hsp_err *err)
{
    const struct hsp_instr *i = &e->t->instrs[k];
    struct hsp_cell_view to = hsp_engine_view(e, i->out[0], micro);
    struct hsp_cell_view from = hsp_engine_view(e, i->in[0], micro);
    struct hsp_backend *b = e->o.backend;
    enum hsp_devq d = hsp_devq_of(q);
    int64_t n = hsp_box_count(&to.box);
    if (begins_sum(e, k, q) && to.dtype == from.dtype) {
        return b->copy(b, d, to.data, from.data, hsp_cell_bytes(&to.box, to.dtype), err);
    }
    enum hsp_status st =
        begins_sum(e, k, q) ? b->fill(b, d, to.dtype, to.data, 0.0, n, err) : HSP_OK;
    return st == HSP_OK ? b->accumulate(b, d, to.dtype, to.data, from.dtype, from.data, n, err)
                        : st;
}

static enum hsp_status run_seal(struct hsp_engine *e, enum hsp_devq q, struct hsp_err *err)
{
    struct hsp_written w = {.version = e->step + 1, .queue = q};
    if (!e->o.hooks.sealed) {
        return HSP_OK;
    }
    enum hsp_status st = hsp_state_watch_after(e, &w, err);
    st = st == HSP_OK ? e->o.backend->mark(e->o.backend, q, &w.ticket, err) : st;
    return st == HSP_OK ? e->o.hooks.sealed(e->o.hooks.ctx, &w, err) : st;
}

/* Runs instruction @k. *ret_n: the number of instructions run, 1 except for a bucket of
 * Reshards. */
static enum hsp_status run_instr(struct hsp_engine *e, uint32_t k, uint32_t micro, enum hsp_queue q,
                                 uint32_t *ret_n, struct hsp_err *err)
{
    const struct hsp_instr *i = &e->t->instrs[k];
    enum hsp_devq d = hsp_devq_of(q);
    *ret_n = 1;
    if (i->kind != HSP_I_STAT && is_needless(e, k)) {
        return HSP_OK;
    }
    switch ((enum hsp_instr_kind)i->kind) {
    case HSP_I_OP: return run_op(e, k, micro, q, err);
    case HSP_I_LOAD: return run_load(e, i, micro, q, err);
    case HSP_I_ZERO:
    case HSP_I_ONE: return run_fill(e, i, micro, d, err);
    case HSP_I_ACC: return run_acc(e, k, micro, q, err);
    case HSP_I_RESHARD: return hsp_run_reshard(e, k, micro, q, ret_n, err);
    case HSP_I_STAT: return run_stat(e, k, micro, q, err);
    case HSP_I_VOTE: return hsp_run_vote(e, err);
    case HSP_I_COPY: return run_copy(e, i, micro, d, err);
    case HSP_I_SEAL: return run_seal(e, d, err);
    }
    return hsp_err_set(err, HSP_EINVAL, 0, "instruction of kind %u", i->kind);
}

enum hsp_status hsp_run_next(struct hsp_engine *e, uint32_t k, uint32_t end, uint32_t micro,
                             enum hsp_queue q, uint32_t *ret_n, struct hsp_err *err)
{
    const struct hsp_way *w = e->way;
    enum hsp_status st = HSP_OK;
    bool done = false;
    if (has_epilogue(e, k) && w->epilogues[k].n < end - k) {
        *ret_n = 1U + w->epilogues[k].n;
        st = run_with_epilogue(e, k, micro, q, &done, err);
    } else if (w->launches != NULL && w->launches[k].n > 0 && w->launches[k].n <= end - k) {
        *ret_n = w->launches[k].n;
        st = run_fused(e, k, micro, &done, err);
    }
    if (st != HSP_OK || done) {
        return st;
    }
    return run_instr(e, k, micro, q, ret_n, err);
}

bool hsp_is_product(const struct hsp_instr *i)
{
    return i->kind == HSP_I_OP &&
           (i->op == HSP_OP_LINEAR || i->op == HSP_OP_LINEAR_DX || i->op == HSP_OP_LINEAR_DW);
}

enum hsp_status hsp_warm_product(struct hsp_engine *e, uint32_t k, uint32_t micro,
                                 struct hsp_err *err)
{
    const struct hsp_backend *b = e->o.backend;
    enum hsp_status st = HSP_OK;
    uint8_t adds = UINT8_MAX;
    /* the product is added to its sum, then it begins the sum */
    for (int first = 0; st == HSP_OK && first < 2; first++) {
        struct hsp_op_call x;
        struct hsp_array part[3];
        struct hsp_sum s = {NULL, NULL, NULL};
        e->entry[HSP_QUEUE_COMPUTE].first = first != 0;
        struct hsp_call c = call_of(e, k, micro, HSP_QUEUE_COMPUTE, &x);
        if (has_epilogue(e, k)) {
            s = sum_of(e, k, micro, part);
        }
        if (c.adds != adds) {
            st = b->warm(e->o.backend, HSP_DEVQ_COMPUTE, &c, s.out != NULL ? &s : NULL, err);
        }
        adds = c.adds;
    }
    e->entry[HSP_QUEUE_COMPUTE].first = false;
    return st == HSP_OK ? st : hsp_err_wrap(err, "instruction %u, before the first step", k);
}

enum hsp_status hsp_rehearse_op(struct hsp_engine *e, uint32_t k, struct hsp_err *err)
{
    const struct hsp_instr *i = &e->t->instrs[k];
    const struct hsp_fused_launch *g = e->way->launches != NULL ? &e->way->launches[k] : NULL;
    struct hsp_backend *b = e->o.backend;
    struct hsp_op_call x;
    if (i->kind != HSP_I_OP || hsp_is_product(i) || is_update(i->op)) {
        return HSP_OK; /* warm runs products; an update takes no scratch */
    }
    struct hsp_call c = call_of(e, k, 0, HSP_QUEUE_COMPUTE, &x);
    enum hsp_status st = b->run(b, HSP_DEVQ_COMPUTE, &c, err);
    if (st == HSP_OK && g != NULL && g->n > 0) {
        struct hsp_call all[HSP_MANY_CALLS];
        bool done;
        uint32_t n = fused_calls(e, k, 0, all);
        st = g->chain ? b->run_chain(b, HSP_DEVQ_COMPUTE, all, n, &done, err)
                      : b->run_many(b, HSP_DEVQ_COMPUTE, all, n, err);
    }
    return st == HSP_OK ? st : hsp_err_wrap(err, "instruction %u, before the first step", k);
}
