/* Runs the sharded programs of a file against the unsharded one beside them, which takes one
 * sequence at a time (hspmd-worker --verify).
 *
 * Step by step: the unsharded program runs and its values are kept by sequence; then the sharded
 * programs run, and each value a rank produces is compared where it is produced, in Pre, training
 * and validation alike:
 *   after an op or load   the output, unless it is a partial sum (an axis that is summed over is
 *                         cut); without a batch dim it is the sum over the micro-batch's sequences
 *   after a Reshard       the cells that were written, wherever they came from
 *   after an accumulation the sum over the sequences of the pipeline so far
 *   at the vote           the reduced gradients, loss, norm, tokens, validation loss
 *   after the step        every state tensor.
 * The difference earliest in the single-device graph is the one reported. */
#include "worker/run/verify.h"

#include <inttypes.h> /* PRIu64 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/str.h"
#include "proto/host/file_io.h"
#include "proto/program/program_check.h"
#include "proto/program/program_file.h"
#include "worker/run/local_run.h"
#include "worker/run/run_program.h"
#include "worker/run/verify_bf16.h"
#include "worker/run/verify_compare.h"
#include "worker/run/verify_impl.h"
#include "worker/run/verify_match.h"

#define VERIFY_STEPS 3
#define LOW_STATE    0.25 /* of the largest number in it, a state of a bf16 job may be off */
#define FILE_ARENA   ((size_t)1 << 30)

/* A tensor that differs, with its place in the single-device graph. Places begin with the nodes of
 * the graph. */
enum { PLACE_SUM = INT32_MAX - 2, PLACE_GRADIENT, PLACE_END };

struct difference {
    bool found;
    uint32_t node; /* or one of these places */
    char text[200];
};

struct verify {
    struct hsp_program_file file;
    const struct hsp_program *ref;
    struct hsp_dataset dataset;
    struct hsp_arena *arena;
    struct hsp_local *one, *many;
    void *before;             /* the state of `one` before the step */
    struct hsp_kept *tensor;  /* by tensor of the reference */
    struct hsp_kept *grad;    /* by state number of the reference: gradient of that parameter */
    uint8_t *classes;         /* by tensor of the reference, enum hsp_verify_how */
    struct hsp_match **match; /* [rank][tensor] */
    bool low;                 /* programs compute in bf16 */
    double sum_floor;         /* scale below which weight gradients are noise */
    double row_floor;         /* ... gradients of activations */
    struct hsp_vote vote;     /* of the reference */
    struct vrank {
        struct verify *v;
        uint32_t rank;
    } * rank;
    pthread_mutex_t lock; /* the following */
    struct difference diff;
    uint64_t n_compared;
    uint64_t step;
};

static void report(struct verify *v, uint32_t node, const char *what, const char *name,
                   uint32_t rank, double by)
{
    (void)pthread_mutex_lock(&v->lock);
    if (!v->diff.found || node < v->diff.node) {
        v->diff.found = true;
        v->diff.node = node;
        (void)snprintf(v->diff.text, sizeof(v->diff.text),
                       "step %" PRIu64 ", rank %u: %s %s differs by %.3g times the tolerance",
                       v->step, rank, what, name, by);
    }
    (void)pthread_mutex_unlock(&v->lock);
}

/* Sums of the loss are fp64 also in fp32 jobs, and gradients are fp32 also in bf16 jobs. Their
 * addends have the narrower type. */
static double tolerance(const struct verify *v, enum hsp_dtype t)
{
    if (v->low) {
        return hsp_verify_tolerance(t == HSP_I32 ? t : HSP_BF16);
    }
    uint32_t any = v->ref->bind.state[0].tensor;
    enum hsp_dtype job = (enum hsp_dtype)v->ref->tpl.tensors[any].dtype;
    return hsp_verify_tolerance(t == HSP_F64 ? job : t);
}

static void count_compared(struct verify *v)
{
    (void)pthread_mutex_lock(&v->lock);
    v->n_compared++;
    (void)pthread_mutex_unlock(&v->lock);
}

/* ---- the unsharded run ---- */

static enum hsp_status ref_traced(void *ctx, uint32_t instr, uint32_t micro, bool eval,
                                  struct hsp_err *err)
{
    struct verify *v = ((struct vrank *)ctx)->v;
    const struct hsp_instr *i = &v->ref->tpl.instrs[instr];
    const struct hsp_data_bind *d = &v->ref->bind.data;
    struct hsp_engine *e = hsp_local_engine(v->one, 0);
    uint32_t rows = eval ? d->eval_seqs : d->global_batch, row;
    enum hsp_status st = HSP_OK;
    (void)hsp_engine_micro(e, micro, &row);
    for (uint8_t o = 0; o < i->n_out && st == HSP_OK; o++) {
        uint32_t t = i->out[o];
        struct hsp_cell_view w;
        struct hsp_box full = v->ref->bind.tensor[t].box;
        if (v->ref->tpl.tensors[t].cls == HSP_CLASS_STATE) {
            continue;
        }
        st = hsp_engine_fetch(e, (enum hsp_queue)i->queue, t, micro, &w, err);
        if (st != HSP_OK) {
            break;
        }
        switch (v->classes[t]) {
        case HSP_VERIFY_ROWS:
            full.hi[0] = rows;
            st = hsp_kept_put(&v->tensor[t], &w, &full, row, err);
            break;
        case HSP_VERIFY_SUM: st = hsp_kept_put_row(&v->tensor[t], &w, row, rows, err); break;
        case HSP_VERIFY_SAME: st = hsp_kept_put(&v->tensor[t], &w, &full, 0, err); break;
        default: break;
        }
    }
    return st;
}

/* ---- the sharded run ---- */

/* The value that a rank should have after an instruction. */
struct expected {
    const struct hsp_kept *value;
    struct hsp_kept own; /* value points here when it was made for this comparison */
    int64_t row0;        /* of the batch dim */
    bool sum, param;
    double floor; /* of a scale: a true 0 is noise below it */
};

/* Gets a parameter as it was before the step, from the unsharded state. */
static enum hsp_status expect_param(struct verify *v, uint32_t state, struct expected *x,
                                    struct hsp_err *err)
{
    struct hsp_cell_view w = hsp_state_view(v->ref, state, v->before);
    x->value = &x->own;
    x->param = true;
    return hsp_kept_put(&x->own, &w, &v->ref->bind.state[state].full, 0, err);
}

/* Returns true if the unsharded program accumulates @tensor in @acc. */
static bool accumulates(const struct hsp_program *ref, uint32_t tensor, uint32_t acc)
{
    for (uint32_t k = 0; k < ref->tpl.n_instrs; k++) {
        const struct hsp_instr *i = &ref->tpl.instrs[k];
        if (i->kind == HSP_I_ACC && i->in[0] == tensor && i->out[0] == acc) {
            return true;
        }
    }
    return false;
}

/* After the last accumulation of a micro-batch: of the contributions that belong here those that
 * this rank's program has, of the pipeline's sequences so far. HSP_ENOENT: cannot be told. */
static enum hsp_status expect_acc(const struct vrank *c, uint32_t instr, uint32_t end,
                                  struct expected *x, struct hsp_err *err)
{
    struct verify *v = c->v;
    const struct hsp_program *p = &v->file.programs[c->rank];
    uint32_t acc = p->tpl.instrs[instr].out[0], ref = v->match[c->rank][acc].ref;
    if (ref == UINT32_MAX) {
        return HSP_ENOENT;
    }
    enum hsp_status st = hsp_kept_zero(&x->own, &v->ref->bind.tensor[ref].box, err);
    for (uint32_t k = 0; st == HSP_OK && k < p->tpl.n_instrs; k++) {
        const struct hsp_instr *i = &p->tpl.instrs[k];
        if (i->kind != HSP_I_ACC || i->out[0] != acc) {
            continue;
        }
        const struct hsp_match *m = &v->match[c->rank][i->in[0]];
        if (k > instr || m->partial || m->how != HSP_VERIFY_SUM || !v->tensor[m->ref].data) {
            return HSP_ENOENT;
        }
        if (accumulates(v->ref, m->ref, ref)) {
            hsp_kept_add(&v->tensor[m->ref], p->bind.pipeline.first_seq, end, &x->own);
        }
    }
    x->value = &x->own;
    x->sum = true;
    return st;
}

/* Returns true if a later Reshard writes the output of Reshard @instr before any instruction reads
 * that output. One Reshard for each slot of a home fills a parameter, which is complete after the
 * last of these Reshards. */
static bool filled_later(const struct hsp_program *p, uint32_t instr)
{
    const struct hsp_instr *i = &p->tpl.instrs[instr];
    for (uint32_t k = instr + 1; i->kind == HSP_I_RESHARD && k < p->tpl.n_instrs; k++) {
        const struct hsp_instr *later = &p->tpl.instrs[k];
        for (uint8_t o = 0; o < later->n_in; o++) {
            if (later->in[o] == i->out[0]) {
                return false;
            }
        }
        if (later->kind == HSP_I_RESHARD && later->out[0] == i->out[0]) {
            return true;
        }
    }
    return false;
}

/* Returns true if a tensor of the unsharded program is the gradient of another tensor. */
static bool is_gradient(const struct verify *v, uint32_t ref)
{
    return strstr(v->ref->tpl.tensors[ref].name, ".grad") != NULL;
}

/* Finds the expected value of output @o of the instruction. HSP_ENOENT: there is none. */
static enum hsp_status expect(const struct vrank *c, uint32_t instr, uint8_t o, uint32_t micro,
                              struct expected *x, struct hsp_err *err)
{
    struct verify *v = c->v;
    const struct hsp_instr *i = &v->file.programs[c->rank].tpl.instrs[instr];
    const struct hsp_match *m = &v->match[c->rank][i->out[o]];
    bool sends = i->kind == HSP_I_RESHARD && i->n_in > 0 && i->in[0] == i->out[o];
    uint32_t first, n = hsp_engine_micro(hsp_local_engine(v->many, c->rank), micro, &first);
    if (m->partial || sends || filled_later(&v->file.programs[c->rank], instr)) {
        return HSP_ENOENT;
    }
    if (i->kind == HSP_I_ACC) {
        return expect_acc(c, instr, first + n, x, err);
    }
    if (m->how == HSP_VERIFY_PARAM) {
        return expect_param(v, m->ref, x, err);
    }
    if (m->how == HSP_VERIFY_NONE || i->kind == HSP_I_ZERO || !v->tensor[m->ref].data) {
        return HSP_ENOENT;
    }
    x->value = &v->tensor[m->ref];
    x->param = i->kind == HSP_I_OP && i->op == HSP_OP_NARROW; /* its copy in another type */
    x->row0 = m->how == HSP_VERIFY_ROWS ? first : 0;
    x->floor = m->how == HSP_VERIFY_ROWS && is_gradient(v, m->ref) ? v->row_floor : 0.0;
    if (m->how == HSP_VERIFY_SUM) {
        x->value = &x->own;
        x->sum = true;
        enum hsp_status st = hsp_kept_zero(&x->own, &v->tensor[m->ref].box, err);
        if (st == HSP_OK) {
            hsp_kept_add(&v->tensor[m->ref], first, first + n, &x->own);
        }
        return st;
    }
    return HSP_OK;
}

/* Returns the place by which differences are ordered: the node of the single-device graph. Sums
 * over micro-batches and instructions of Post belong to no node; their place is just before that of
 * the gradients. */
static uint32_t place_of(const struct hsp_instr *i)
{
    return i->node < PLACE_SUM ? i->node : PLACE_SUM;
}

static const char *what_made(const struct hsp_instr *i)
{
    switch (i->kind) {
    case HSP_I_OP: return hsp_op_name((enum hsp_op)i->op);
    case HSP_I_RESHARD: return "reshard";
    case HSP_I_ACC: return "sum over micro-batches";
    default: return "load";
    }
}

static enum hsp_status many_traced(void *ctx, uint32_t instr, uint32_t micro, bool eval,
                                   struct hsp_err *err)
{
    const struct vrank *c = ctx;
    struct verify *v = c->v;
    const struct hsp_program *p = &v->file.programs[c->rank];
    const struct hsp_instr *i = &p->tpl.instrs[instr];
    enum hsp_status st = HSP_OK;
    for (uint8_t o = 0; o < i->n_out && st == HSP_OK; o++) {
        struct expected x = {0};
        st = expect(c, instr, o, micro, &x, err);
        if (st == HSP_OK) {
            struct hsp_cell_view w;
            st = hsp_engine_fetch(hsp_local_engine(v->many, c->rank), (enum hsp_queue)i->queue,
                                  i->out[o], micro, &w, err);
            if (st != HSP_OK) {
                hsp_kept_drop(&x.own);
                break;
            }
            struct hsp_kept k = *x.value;
            double tol = tolerance(v, w.dtype);
            k.scale = fmax(k.scale, x.sum && w.box.rank > 0 ? v->sum_floor : x.floor);
            if (x.param && v->step > 0 &&
                !v->low) { /* as compare_states; version 0 is the same on all */
                tol *= 100.0;
                k.scale += v->ref->bind.hyper.lr;
            }
            double by = hsp_kept_distance(&k, &w, &w.box, x.row0, tol);
            count_compared(v);
            if (by > 1.0) {
                report(v, x.param ? 0 : place_of(i), what_made(i), p->tpl.tensors[i->out[o]].name,
                       c->rank, by);
            }
        }
        hsp_kept_drop(&x.own);
        st = st == HSP_ENOENT ? HSP_OK : st;
    }
    (void)eval; /* its tensors have names and sequences of their own */
    return st;
}

/* Returns the state tensor of @p that is template tensor @t; UINT32_MAX if there is none. */
static uint32_t state_of(const struct hsp_program *p, uint32_t t)
{
    for (uint32_t k = 0; k < p->bind.n_state; k++) {
        if (p->bind.state[k].tensor == t) {
            return k;
        }
    }
    return UINT32_MAX;
}

/* Calls @fn for the gradient of each update, with a view that has the box of the home, and the
 * state tensor of the parameter. */
static enum hsp_status each_gradient(const struct vrank *c, const struct hsp_program *p,
                                     struct hsp_engine *e,
                                     enum hsp_status (*fn)(const struct vrank *, uint32_t,
                                                           const struct hsp_cell_view *,
                                                           struct hsp_err *),
                                     struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < p->tpl.n_instrs && st == HSP_OK; k++) {
        const struct hsp_instr *i = &p->tpl.instrs[k];
        if (i->kind == HSP_I_OP && (i->op == HSP_OP_ADAMW || i->op == HSP_OP_SGDM)) {
            uint32_t s = state_of(p, i->in[0]);
            struct hsp_cell_view g;
            st = hsp_engine_fetch(e, HSP_QUEUE_COMM, i->in[i->n_in - 1], 0, &g, err);
            g.box = p->bind.tensor[i->in[0]].box;
            st = s == UINT32_MAX || st != HSP_OK ? st : fn(c, s, &g, err);
        }
    }
    return st;
}

static enum hsp_status keep_gradient(const struct vrank *c, uint32_t s,
                                     const struct hsp_cell_view *g, struct hsp_err *err)
{
    return hsp_kept_put(&c->v->grad[s], g, &c->v->ref->bind.state[s].full, 0, err);
}

static enum hsp_status compare_gradient(const struct vrank *c, uint32_t s,
                                        const struct hsp_cell_view *g, struct hsp_err *err)
{
    const struct hsp_program *p = &c->v->file.programs[c->rank];
    uint32_t r = hsp_verify_state(c->v->ref, p, s);
    char name[HSP_MAX_NAME + 1];
    (void)err; /* differences are collected */
    if (r == UINT32_MAX || !c->v->grad[r].data) {
        return HSP_OK;
    }
    double by = hsp_kept_distance(&c->v->grad[r], g, &g->box, 0, tolerance(c->v, g->dtype));
    count_compared(c->v);
    if (by > 1.0) {
        report(c->v, PLACE_GRADIENT, "gradient of", hsp_state_name(p, s, name), c->rank, by);
    }
    return HSP_OK;
}

static enum hsp_status ref_passed(void *ctx, const struct hsp_vote *vote,
                                  const struct hsp_vote_record *all, uint32_t n,
                                  struct hsp_err *err)
{
    const struct vrank *c = ctx;
    (void)all;
    (void)n;
    c->v->vote = *vote;
    return each_gradient(c, c->v->ref, hsp_local_engine(c->v->one, 0), keep_gradient, err);
}

/* Compares the records together: every number of a step that is not a tensor. */
static void compare_votes(const struct vrank *c, const struct hsp_vote *x)
{
    struct verify *v = c->v;
    const struct hsp_vote *r = &v->vote;
    double tol = tolerance(v, HSP_F64);
    const struct {
        const char *name;
        double have, want, tol;
    } number[] = {{"loss", x->loss, r->loss, tol},
                  {"tokens", x->tokens, r->tokens, 0},
                  {"norm", x->norm, r->norm, tol},
                  {"loss of validation", x->eval_loss, r->eval_loss, tol},
                  {"tokens of validation", x->eval_tokens, r->eval_tokens, 0}};
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
        double by = hsp_verify_distance(number[i].have, number[i].want, number[i].tol);
        count_compared(v);
        if (by > 1.0) {
            report(v, PLACE_END, "vote:", number[i].name, c->rank, by);
        }
    }
}

static enum hsp_status many_passed(void *ctx, const struct hsp_vote *vote,
                                   const struct hsp_vote_record *all, uint32_t n,
                                   struct hsp_err *err)
{
    const struct vrank *c = ctx;
    (void)all;
    (void)n;
    compare_votes(c, vote);
    return each_gradient(c, &c->v->file.programs[c->rank], hsp_local_engine(c->v->many, c->rank),
                         compare_gradient, err);
}

static struct hsp_engine_hooks ref_hooks(void *ctx, uint32_t rank)
{
    struct verify *v = ctx;
    return (struct hsp_engine_hooks){
        .ctx = &v->rank[rank], .traced = ref_traced, .passed = ref_passed};
}

static struct hsp_engine_hooks many_hooks(void *ctx, uint32_t rank)
{
    struct verify *v = ctx;
    return (struct hsp_engine_hooks){
        .ctx = &v->rank[rank], .traced = many_traced, .passed = many_passed};
}

/* Adam makes a full step of rounding noise where a gradient is 0 in truth. So states of fp32 jobs
 * are compared within the length of one step; of bf16 ones, where more gradients are noise, within
 * that of two steps in opposite directions. */
static enum hsp_status compare_states(struct verify *v, struct hsp_err *err)
{
    for (uint32_t rank = 0; rank < v->file.n; rank++) {
        const struct hsp_program *p = &v->file.programs[rank];
        for (uint32_t k = 0; k < p->bind.n_state; k++) {
            char name[HSP_MAX_NAME + 1];
            uint32_t r = hsp_verify_state(v->ref, p, k);
            if (r == UINT32_MAX) {
                return hsp_err_set(err, HSP_EINVAL, 0, "no %s in the unsharded program",
                                   hsp_state_name(p, k, name));
            }
            struct hsp_kept kept = {0};
            struct hsp_cell_view w = hsp_state_view(v->ref, r, hsp_local_state(v->one, 0));
            enum hsp_status st = hsp_kept_put(&kept, &w, &v->ref->bind.state[r].full, 0, err);
            if (st != HSP_OK) {
                return st;
            }
            struct hsp_cell_view x = hsp_state_view(p, k, hsp_local_state(v->many, rank));
            double tol = v->low ? LOW_STATE : 100.0 * hsp_verify_tolerance(x.dtype);
            kept.scale += (v->low ? 2.0 / LOW_STATE : 1.0) * v->ref->bind.hyper.lr;
            double by = hsp_kept_distance(&kept, &x, &x.box, 0, tol);
            hsp_kept_drop(&kept);
            v->n_compared++;
            if (by > 1.0) {
                report(v, PLACE_END, "state of", hsp_state_name(p, k, name), rank, by);
            }
        }
    }
    return HSP_OK;
}

/* ---- life ---- */

static void widen(struct hsp_program_file *f)
{
    for (uint32_t k = 0; k < f->n; k++) {
        hsp_program_widen(&f->programs[k]);
    }
    hsp_program_widen(&f->ref[0]);
}

/* @wide: bf16 becomes fp32. */
static enum hsp_status load(struct verify *v, const char *path, bool wide, struct hsp_err *err)
{
    uint8_t *data = NULL;
    size_t len = 0;
    enum hsp_status st = hsp_file_read(path, HSP_MAX_PROGRAM_FILE_BYTES, &data, &len, err);
    if (st != HSP_OK) {
        return st;
    }
    v->arena = hsp_arena_new(FILE_ARENA);
    st = v->arena ? hsp_program_file_decode(data, len, v->arena, &v->file, err)
                  : hsp_err_nomem(err, "programs");
    free(data);
    if (st == HSP_OK && v->file.n_ref == 0) {
        st = hsp_err_set(err, HSP_EINVAL, 0,
                         "no unsharded program beside; compile the job with --verify");
    }
    if (st != HSP_OK) {
        (void)hsp_err_wrap(err, "%s", path);
        return st;
    }
    if (wide) {
        widen(&v->file);
    }
    v->ref = &v->file.ref[0];
    v->low = hsp_program_low(v->ref);
    const struct hsp_pipeline_bind *s = &v->ref->bind.pipeline;
    if (s->n_micro != v->ref->bind.data.global_batch || s->eval_n_micro != s->eval_n_seq) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "%s: the unsharded program does not take one sequence at a time", path);
    }
    v->file.data_path = ""; /* made-up data: the verdict does not depend on a file */
    return hsp_local_dataset(&v->file, &v->dataset, err);
}

static enum hsp_status prepare(struct verify *v, const struct hsp_run_opts *o, struct hsp_err *err)
{
    uint32_t n = v->file.n;
    v->tensor = hsp_arena_array(v->arena, v->ref->tpl.n_tensors, sizeof(*v->tensor));
    v->grad = hsp_arena_array(v->arena, v->ref->bind.n_state, sizeof(*v->grad));
    v->match = hsp_arena_array(v->arena, n, sizeof(*v->match));
    v->rank = hsp_arena_array(v->arena, n, sizeof(*v->rank));
    v->classes = hsp_arena_alloc(v->arena, v->ref->tpl.n_tensors + 1);
    v->before = hsp_arena_alloc(v->arena, (size_t)v->ref->bind.state_bytes + 1);
    bool ok = v->tensor && v->grad && v->match && v->rank && v->classes && v->before;
    if (ok) {
        hsp_verify_classes(v->ref, v->classes);
    }
    for (uint32_t k = 0; k < n && ok; k++) {
        v->rank[k] = (struct vrank){.v = v, .rank = k};
        v->match[k] =
            hsp_arena_array(v->arena, v->file.programs[k].tpl.n_tensors, sizeof(**v->match));
        ok = v->match[k] != NULL;
        if (ok) {
            hsp_verify_match(v->ref, v->classes, &v->file.programs[k], v->match[k]);
            hsp_verify_tiers(v->file.programs, n, k, v->match[k]);
        }
    }
    if (!ok) {
        return hsp_err_nomem(err, "the comparison");
    }
    struct hsp_local_opts one = {.n = 1,
                                 .programs = v->ref,
                                 .dataset = &v->dataset,
                                 .threads = o->threads > 0 ? o->threads : 1,
                                 .open = o->open,
                                 .gpu = o->gpu,
                                 .nccl = o->nccl,
                                 .open_ctx = o->open_ctx,
                                 .ctx = v,
                                 .hooks = ref_hooks};
    struct hsp_local_opts many = one;
    many.n = n;
    many.programs = v->file.programs;
    many.hooks = many_hooks;
    enum hsp_status st = hsp_local_open(&one, &v->one, err);
    return st == HSP_OK ? hsp_local_open(&many, &v->many, err) : st;
}

static void drop_kept(struct verify *v)
{
    for (uint32_t k = 0; v->tensor && k < v->ref->tpl.n_tensors; k++) {
        hsp_kept_drop(&v->tensor[k]);
    }
    for (uint32_t k = 0; v->grad && k < v->ref->bind.n_state; k++) {
        hsp_kept_drop(&v->grad[k]);
    }
}

/* A gradient whose true value is 0 is rounding noise. So all gradients are compared on the scale of
 * the largest gradient, and those of activations on a small part of that scale. Example: attention
 * that sees one token has the gradient 0 for its query. */
static void level_gradients(struct verify *v)
{
    double scale = 0.0, rows = 0.0;
    for (uint32_t t = 0; t < v->ref->tpl.n_tensors; t++) {
        if (v->classes[t] == HSP_VERIFY_ROWS && v->tensor[t].data && is_gradient(v, t)) {
            rows = fmax(rows, v->tensor[t].scale);
        }
    }
    v->row_floor = rows * 1e-3;
    for (uint32_t k = 0; k < v->ref->bind.n_state; k++) {
        scale = fmax(scale, v->grad[k].scale);
    }
    for (uint32_t k = 0; k < v->ref->bind.n_state; k++) {
        v->grad[k].scale = scale;
    }
    v->sum_floor = scale * 1e-2; /* of one sequence or one micro-batch: less */
}

static enum hsp_status verify_step(struct verify *v, uint64_t step, struct hsp_err *err)
{
    v->step = step;
    memcpy(v->before, hsp_local_state(v->one, 0), (size_t)v->ref->bind.state_bytes);
    if (hsp_local_run(v->one, step, step + 1, err) != HSP_OK) {
        return hsp_err_wrap(err, "unsharded");
    }
    level_gradients(v);
    if (hsp_local_run(v->many, step, step + 1, err) != HSP_OK) {
        return hsp_err_wrap(err, "sharded");
    }
    enum hsp_status st = compare_states(v, err);
    drop_kept(v);
    if (st == HSP_OK && v->diff.found) {
        st = hsp_err_set(err, HSP_EDIGEST, 0, "%s", v->diff.text);
    }
    for (uint32_t rank = 0; st == HSP_OK && v->low && rank < v->file.n; rank++) {
        hsp_verify_adopt(v->ref, hsp_local_state(v->one, 0), &v->file.programs[rank],
                         hsp_local_state(v->many, rank));
        st = hsp_local_put(v->many, rank, err);
    }
    return st;
}

/* The findings of one comparison of a file. */
struct found {
    uint32_t n;
    uint64_t n_compared;
    bool low;
};

static enum hsp_status compare(const struct hsp_run_opts *o, bool wide, struct found *ret,
                               struct hsp_err *err)
{
    struct verify v = {.lock = PTHREAD_MUTEX_INITIALIZER};
    uint64_t steps = o->steps > 0 ? o->steps : VERIFY_STEPS;
    enum hsp_status st = load(&v, o->file, wide, err);
    if (st == HSP_OK) {
        st = prepare(&v, o, err);
    }
    for (uint64_t t = 0; t < steps && st == HSP_OK; t++) {
        st = verify_step(&v, t, err);
    }
    *ret = (struct found){v.file.n, v.n_compared, v.low};
    drop_kept(&v);
    hsp_local_close(v.many);
    hsp_local_close(v.one);
    if (v.dataset.n_files > 0) {
        hsp_dataset_close(&v.dataset);
    }
    hsp_arena_free(v.arena);
    return st;
}

enum hsp_status hsp_verify_file(const struct hsp_run_opts *o, struct hsp_err *err)
{
    struct found as_is, wide = {0};
    uint64_t steps = o->steps > 0 ? o->steps : VERIFY_STEPS;
    enum hsp_status st = compare(o, false, &as_is, err);
    if (st == HSP_OK && as_is.low) {
        st = compare(o, true, &wide, err);
        if (st != HSP_OK) {
            return hsp_err_wrap(err, "with fp32 in place of bf16");
        }
    }
    const uint64_t compared = as_is.n_compared + wide.n_compared;
    if (st == HSP_OK && !o->quiet) {
        (void)printf("%u rank%s one device: %" PRIu64 " value%s compared in %" PRIu64 " step%s%s\n",
                     as_is.n, as_is.n == 1 ? " equals" : "s equal", compared, hsp_s(compared),
                     steps, hsp_s(steps), as_is.low ? ", in bf16 and with fp32 in its place" : "");
    }
    return st;
}
