/* hspmd-worker --verify: the sharded programs of a file against the unsharded one beside them.
 *
 * Step by step: the reference runs and its batch tensors are kept by row of the global batch; then
 * the sharded programs run, and each value a rank produces is compared where it is produced:
 *   after an op or load   the output, unless it is a partial sum (an axis that is summed over is
 * cut); after a Reshard       the cells that were written, wherever they came from; at the vote the
 * reduced gradients; after the step every state tensor. The difference earliest in the
 * single-device graph is the one reported. */
#include <inttypes.h> /* PRIu64 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/host/fileio.h"
#include "worker/app/localrun.h"
#include "worker/app/runfile.h"

#define VERIFY_STEPS 3
#define FILE_ARENA   ((size_t)1 << 30)

/* A value kept from the reference run, as doubles, with its extents. */
struct kept {
    double *data; /* owned; NULL: not kept */
    struct hsp_box box;
    double scale; /* largest magnitude */
};

/* What one rank's tensor means in the reference. */
struct match {
    uint32_t ref; /* tensor of the reference program; UINT32_MAX: none */
    bool partial; /* this rank's value is an addend */
};

struct difference {
    bool found;
    uint32_t node; /* in the single-device graph; UINT32_MAX: gradients and state */
    char text[200];
};

struct verify {
    struct hsp_program_file file;
    const struct hsp_program *ref;
    struct hsp_text text;
    struct hsp_arena *arena;
    struct hsp_local *one, *many;
    struct kept *tensor;  /* by tensor of the reference */
    struct kept *grad;    /* by state tensor number of the reference: gradient of that parameter */
    struct match **match; /* [rank][tensor] */
    struct vrank {
        struct verify *v;
        uint32_t rank;
    } * rank;
    pthread_mutex_t lock; /* the following */
    struct difference diff;
    uint64_t n_compared;
    uint64_t step;
};

/* ---- tensors of the two sides ---- */

static double value_at(const struct hsp_view *v, int64_t k)
{
    switch (v->dtype) {
    case HSP_F32: return (double)((const float *)v->data)[k];
    case HSP_F64: return ((const double *)v->data)[k];
    case HSP_I32: return (double)((const int32_t *)v->data)[k];
    }
    return 0.0;
}

/* Calls for each element of @cell: index in the view, index in the kept array (rows moved by
 * @row0). */
struct walk {
    const struct hsp_view *view;
    const struct kept *kept;
    int64_t row0;
};

static bool next_element(const struct hsp_box *cell, int64_t *at)
{
    for (int d = (int)cell->rank - 1; d >= 0; d--) {
        if (++at[d] < cell->hi[d]) {
            return true;
        }
        at[d] = cell->lo[d];
    }
    return false;
}

static void indices(const struct walk *w, const int64_t *at, int64_t *ret_view, int64_t *ret_kept)
{
    int64_t a = 0, b = 0;
    for (uint8_t d = 0; d < w->view->box.rank; d++) {
        const struct hsp_box *v = &w->view->box, *k = &w->kept->box;
        a = a * (v->hi[d] - v->lo[d]) + at[d] - v->lo[d];
        b = b * (k->hi[d] - k->lo[d]) + at[d] - k->lo[d] + (d == 0 ? w->row0 : 0);
    }
    *ret_view = a;
    *ret_kept = b;
}

static enum hsp_status keep(struct kept *k, const struct hsp_view *v, const struct hsp_box *full,
                            int64_t row0, struct hsp_err *err)
{
    if (!k->data) {
        k->box = *full;
        k->scale = 0.0;
        k->data = calloc((size_t)hsp_box_count(full) + 1, sizeof(double));
        if (!k->data) {
            return hsp_err_set(err, HSP_ENOMEM, 0, "no memory to keep the reference's values");
        }
    }
    struct walk w = {.view = v, .kept = k, .row0 = row0};
    int64_t at[HSP_MAX_RANK], from, to;
    memcpy(at, v->box.lo, sizeof(at));
    if (hsp_box_empty(&v->box)) {
        return HSP_OK;
    }
    do {
        indices(&w, at, &from, &to);
        k->data[to] = value_at(v, from);
        if (isfinite(k->data[to])) {
            k->scale = fmax(k->scale, fabs(k->data[to]));
        }
    } while (next_element(&v->box, at));
    return HSP_OK;
}

/* Largest |difference| over the tolerance, on a cell: above 1 they differ. */
static double distance(const struct kept *k, const struct hsp_view *v, const struct hsp_box *cell,
                       int64_t row0, double tol)
{
    struct walk w = {.view = v, .kept = k, .row0 = row0};
    int64_t at[HSP_MAX_RANK], a, b;
    double worst = 0.0, allowed = tol * (k->scale + 1e-30);
    memcpy(at, cell->lo, sizeof(at));
    if (hsp_box_empty(cell)) {
        return 0.0;
    }
    do {
        indices(&w, at, &a, &b);
        double x = value_at(v, a), y = k->data[b];
        bool same = (isnan(x) && isnan(y)) || (isinf(x) && isinf(y) && (x > 0) == (y > 0));
        double d = same                         ? 0.0
                   : isfinite(x) && isfinite(y) ? fabs(x - y) / allowed
                                                : (double)INFINITY;
        worst = d > worst ? d : worst;
    } while (next_element(cell, at));
    return worst;
}

/* fp64: far above rounding, far below any mistake. fp32 loses about half its digits on the way. */
static double tolerance(enum hsp_dtype t)
{
    return t == HSP_F64 ? 1e-8 : t == HSP_F32 ? 2e-3 : 0.0;
}

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

static void count_compared(struct verify *v)
{
    (void)pthread_mutex_lock(&v->lock);
    v->n_compared++;
    (void)pthread_mutex_unlock(&v->lock);
}

/* ---- which tensor is which ---- */

static uint32_t find_tensor(const struct hsp_program *p, const char *name, size_t len)
{
    for (uint32_t t = 0; t < p->tpl.n_tensors; t++) {
        const char *x = p->tpl.tensors[t].name;
        if (strncmp(x, name, len) == 0 && x[len] == '\0' &&
            p->tpl.tensors[t].cls != HSP_CLASS_STATE) {
            return t;
        }
    }
    return UINT32_MAX;
}

/* The reference's tensor of the same name, or of the name without the program's suffix. */
static uint32_t counterpart(const struct verify *v, const struct hsp_program *p, uint32_t t)
{
    const char *name = p->tpl.tensors[t].name;
    if (p->tpl.tensors[t].rank == 0 || !p->bind.tensor[t].batch_dim0) {
        return UINT32_MAX; /* rows of the batch are what two micro-batchings have in common */
    }
    uint32_t r = find_tensor(v->ref, name, strlen(name));
    if (r == UINT32_MAX) {
        r = find_tensor(v->ref, name, strcspn(name, "#"));
    }
    bool same = r != UINT32_MAX && v->ref->bind.tensor[r].batch_dim0 &&
                v->ref->tpl.tensors[r].rank == p->tpl.tensors[t].rank;
    return same ? r : UINT32_MAX;
}

static bool op_extents(const struct hsp_program *p, const struct hsp_instr *i,
                       struct hsp_axes *ret_ax, int64_t ret[HSP_MAX_AXES])
{
    int64_t in[HSP_MAX_IN][HSP_MAX_RANK] = {{0}};
    uint8_t rank = 0;
    for (uint8_t k = 0; k < i->n_in; k++) {
        const struct hsp_ptensor *t = &p->tpl.tensors[i->in[k]];
        rank = t->rank > rank ? t->rank : rank;
        for (uint8_t d = 0; d < t->rank; d++) {
            in[k][d] = p->bind.symbol[t->sym[d]];
        }
    }
    return hsp_op_axes((enum hsp_op)i->op, &i->at, rank, ret_ax, NULL) == HSP_OK &&
           hsp_op_extents((enum hsp_op)i->op, &i->at, ret_ax, in, ret, NULL) == HSP_OK;
}

/* Whether this op of a rank sums over an axis of which the rank has only a part. */
static bool cut_sum(const struct verify *v, const struct hsp_program *p, const struct hsp_instr *i)
{
    struct hsp_axes ax, full;
    int64_t have[HSP_MAX_AXES] = {0}, want[HSP_MAX_AXES] = {0};
    for (uint32_t k = 0; k < v->ref->tpl.n_instrs; k++) {
        const struct hsp_instr *r = &v->ref->tpl.instrs[k];
        if (r->kind != HSP_I_OP || r->node != i->node || r->op != i->op) {
            continue;
        }
        if (!op_extents(p, i, &ax, have) || !op_extents(v->ref, r, &full, want)) {
            return false;
        }
        for (uint8_t a = 0; a < ax.n_axes; a++) {
            bool sums = ax.axis[a].cls == HSP_AXIS_CONTRACTED || ax.axis[a].cls == HSP_AXIS_LOOKUP;
            if (sums && ax.axis[a].name != 'b' && have[a] != want[a]) {
                return true;
            }
        }
        return false;
    }
    return false;
}

static bool reduces(const struct hsp_reshard_bind *r)
{
    for (uint32_t k = 0; k < r->n_moves; k++) {
        if (r->moves[k].kind == HSP_MOVE_ALL_REDUCE ||
            r->moves[k].kind == HSP_MOVE_REDUCE_SCATTER) {
            return true;
        }
    }
    return false;
}

/* Whether addends may go through this instruction: an op must be linear in exactly those inputs. An
 * addend that enters another op is a mistake, and the op's output is judged as a complete value. */
static bool passes(const struct hsp_program *p, const struct hsp_instr *i, uint32_t partial_inputs)
{
    struct hsp_axes ax;
    if (i->kind == HSP_I_RESHARD) {
        return !reduces(&p->bind.reshard[i->arg]);
    }
    if (i->kind != HSP_I_OP) {
        return true;
    }
    return hsp_op_axes((enum hsp_op)i->op, &i->at, p->tpl.tensors[i->out[0]].rank, &ax, NULL) ==
               HSP_OK &&
           (partial_inputs == ax.linear[0] || partial_inputs == ax.linear[1]);
}

/* Partial sums arise at cut sums and end at Reshards that reduce. */
static void match_rank(struct verify *v, uint32_t rank)
{
    const struct hsp_program *p = &v->file.programs[rank];
    struct match *m = v->match[rank];
    for (uint32_t t = 0; t < p->tpl.n_tensors; t++) {
        m[t].ref = counterpart(v, p, t);
    }
    for (uint32_t k = 0; k < p->tpl.n_instrs; k++) {
        const struct hsp_instr *i = &p->tpl.instrs[k];
        uint32_t partial_inputs = 0;
        for (uint8_t o = 0; o < i->n_in; o++) {
            partial_inputs |= (m[i->in[o]].partial ? 1u : 0u) << o;
        }
        bool partial = (partial_inputs != 0 && passes(p, i, partial_inputs)) ||
                       (i->kind == HSP_I_OP && cut_sum(v, p, i));
        for (uint8_t o = 0; o < i->n_out; o++) {
            m[i->out[o]].partial = partial;
        }
    }
}

/* ---- while the programs run ---- */

static enum hsp_status ref_traced(void *ctx, uint32_t instr, uint32_t micro, bool eval,
                                  struct hsp_err *err)
{
    struct verify *v = ((struct vrank *)ctx)->v;
    const struct hsp_instr *i = &v->ref->tpl.instrs[instr];
    enum hsp_status st = HSP_OK;
    for (uint8_t o = 0; o < i->n_out && !eval && st == HSP_OK; o++) {
        uint32_t t = i->out[o], first;
        if (!v->ref->bind.tensor[t].batch_dim0) {
            continue;
        }
        (void)hsp_engine_micro(hsp_local_engine(v->one, 0), micro, &first);
        struct hsp_view w = hsp_engine_view(hsp_local_engine(v->one, 0), t, micro, 0);
        struct hsp_box full = v->ref->bind.tensor[t].box;
        full.hi[0] = v->ref->bind.data.global_batch;
        st = keep(&v->tensor[t], &w, &full, first, err);
    }
    return st;
}

/* Cells of a Reshard this rank wrote, compared one by one; for everything else the whole box. */
static double written_distance(const struct vrank *c, const struct hsp_instr *i,
                               const struct kept *k, const struct hsp_view *w, int64_t row0)
{
    const struct hsp_program *p = &c->v->file.programs[c->rank];
    double tol = tolerance(w->dtype), worst = 0.0;
    if (i->kind != HSP_I_RESHARD) {
        return distance(k, w, &w->box, row0, tol);
    }
    const struct hsp_reshard_bind *r = &p->bind.reshard[i->arg];
    for (uint32_t j = 0; j < r->n_moves; j++) {
        const struct hsp_move *m = &r->moves[j];
        for (uint32_t q = 0; q < m->n_cells; q++) {
            bool gets =
                (m->kind != HSP_MOVE_P2P || m->ranks[m->cells[q].peer] == c->rank) &&
                (m->kind != HSP_MOVE_REDUCE_SCATTER || m->ranks[m->cells[q].root] == c->rank);
            struct hsp_box cell = m->cells[q].box;
            if (cell.rank > 0 && cell.hi[0] == HSP_TO_END) {
                cell.hi[0] = w->box.hi[0];
            }
            if (gets) {
                worst = fmax(worst, distance(k, w, &cell, row0, tol));
            }
        }
    }
    return worst;
}

static enum hsp_status many_traced(void *ctx, uint32_t instr, uint32_t micro, bool eval,
                                   struct hsp_err *err)
{
    const struct vrank *c = ctx;
    struct verify *v = c->v;
    const struct hsp_program *p = &v->file.programs[c->rank];
    const struct hsp_instr *i = &p->tpl.instrs[instr];
    (void)err; /* differences are collected, not errors of the run */
    for (uint8_t o = 0; o < i->n_out && !eval; o++) {
        const struct match *m = &v->match[c->rank][i->out[o]];
        if (m->ref == UINT32_MAX || m->partial || !v->tensor[m->ref].data) {
            continue;
        }
        const struct hsp_engine *e = hsp_local_engine(v->many, c->rank);
        uint32_t first;
        (void)hsp_engine_micro(e, micro, &first);
        struct hsp_view w = hsp_engine_view(e, i->out[o], micro, 0);
        double by = written_distance(c, i, &v->tensor[m->ref], &w, first);
        count_compared(v);
        if (by > 1.0) {
            report(v, i->node,
                   i->kind == HSP_I_OP        ? hsp_op_name((enum hsp_op)i->op)
                   : i->kind == HSP_I_RESHARD ? "reshard"
                                              : "load",
                   p->tpl.tensors[i->out[o]].name, c->rank, by);
        }
    }
    return HSP_OK;
}

/* State tensor of @p that is template tensor @t; UINT32_MAX. */
static uint32_t state_of(const struct hsp_program *p, uint32_t t)
{
    for (uint32_t k = 0; k < p->bind.n_state; k++) {
        if (p->bind.state[k].tensor == t) {
            return k;
        }
    }
    return UINT32_MAX;
}

/* State tensor of the reference with the same parameter and kind. */
static uint32_t ref_state(const struct verify *v, const struct hsp_program *p, uint32_t k)
{
    for (uint32_t j = 0; j < v->ref->bind.n_state; j++) {
        if (v->ref->bind.state[j].tensor_id == p->bind.state[k].tensor_id &&
            v->ref->tpl.tensors[v->ref->bind.state[j].tensor].state_kind ==
                p->tpl.tensors[p->bind.state[k].tensor].state_kind) {
            return j;
        }
    }
    return UINT32_MAX;
}

/* Calls @fn for the gradient of each update: view with the home's box, state tensor of the
 * parameter. */
static enum hsp_status each_gradient(const struct vrank *c, const struct hsp_program *p,
                                     const struct hsp_engine *e,
                                     enum hsp_status (*fn)(const struct vrank *, uint32_t,
                                                           const struct hsp_view *,
                                                           struct hsp_err *),
                                     struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < p->tpl.n_instrs && st == HSP_OK; k++) {
        const struct hsp_instr *i = &p->tpl.instrs[k];
        if (i->kind == HSP_I_OP && (i->op == HSP_OP_ADAMW || i->op == HSP_OP_SGDM)) {
            uint32_t s = state_of(p, i->in[0]);
            struct hsp_view g = hsp_engine_view(e, i->in[i->n_in - 1], 0, 0);
            g.box = p->bind.tensor[i->in[0]].box;
            st = s == UINT32_MAX ? HSP_OK : fn(c, s, &g, err);
        }
    }
    return st;
}

static enum hsp_status keep_gradient(const struct vrank *c, uint32_t s, const struct hsp_view *g,
                                     struct hsp_err *err)
{
    return keep(&c->v->grad[s], g, &c->v->ref->bind.state[s].full, 0, err);
}

static enum hsp_status compare_gradient(const struct vrank *c, uint32_t s, const struct hsp_view *g,
                                        struct hsp_err *err)
{
    const struct hsp_program *p = &c->v->file.programs[c->rank];
    uint32_t r = ref_state(c->v, p, s);
    char name[HSP_MAX_NAME + 1];
    (void)err; /* differences are collected */
    if (r == UINT32_MAX || !c->v->grad[r].data) {
        return HSP_OK;
    }
    double by = distance(&c->v->grad[r], g, &g->box, 0, tolerance(g->dtype));
    count_compared(c->v);
    if (by > 1.0) {
        report(c->v, UINT32_MAX, "gradient of", hsp_state_name(p, s, name), c->rank, by);
    }
    return HSP_OK;
}

static enum hsp_status ref_passed(void *ctx, const struct hsp_vote *vote,
                                  const struct hsp_vote_record *all, uint32_t n,
                                  struct hsp_err *err)
{
    const struct vrank *c = ctx;
    (void)vote;
    (void)all;
    (void)n;
    return each_gradient(c, c->v->ref, hsp_local_engine(c->v->one, 0), keep_gradient, err);
}

static enum hsp_status many_passed(void *ctx, const struct hsp_vote *vote,
                                   const struct hsp_vote_record *all, uint32_t n,
                                   struct hsp_err *err)
{
    const struct vrank *c = ctx;
    (void)vote;
    (void)all;
    (void)n;
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

/* Adam makes a full step of rounding noise where a gradient is 0 in truth, so states of fp32 jobs
 * are compared by what a step can move. */
static enum hsp_status compare_states(struct verify *v, unsigned slot, struct hsp_err *err)
{
    for (uint32_t rank = 0; rank < v->file.n; rank++) {
        const struct hsp_program *p = &v->file.programs[rank];
        for (uint32_t k = 0; k < p->bind.n_state; k++) {
            char name[HSP_MAX_NAME + 1];
            uint32_t r = ref_state(v, p, k);
            if (r == UINT32_MAX) {
                return hsp_err_set(err, HSP_EINVAL, 0, "no %s in the unsharded program",
                                   hsp_state_name(p, k, name));
            }
            struct kept kept = {0};
            struct hsp_view w = hsp_state_view(v->ref, r, hsp_local_slot(v->one, 0, slot));
            enum hsp_status st = keep(&kept, &w, &v->ref->bind.state[r].full, 0, err);
            if (st != HSP_OK) {
                return st;
            }
            struct hsp_view x = hsp_state_view(p, k, hsp_local_slot(v->many, rank, slot));
            double tol = 100.0 * tolerance(x.dtype);
            kept.scale += v->ref->bind.hyper.lr;
            double by = distance(&kept, &x, &x.box, 0, tol);
            free(kept.data);
            v->n_compared++;
            if (by > 1.0) {
                report(v, UINT32_MAX, "state of", hsp_state_name(p, k, name), rank, by);
            }
        }
    }
    return HSP_OK;
}

/* ---- life ---- */

static enum hsp_status load(struct verify *v, const char *path, struct hsp_err *err)
{
    uint8_t *data = NULL;
    size_t len = 0;
    enum hsp_status st = hsp_file_read(path, HSP_MAX_PROGRAM_FILE_BYTES, &data, &len, err);
    if (st != HSP_OK) {
        return st;
    }
    v->arena = hsp_arena_new(FILE_ARENA);
    st = v->arena ? hsp_program_file_decode(data, len, v->arena, &v->file, err)
                  : hsp_err_set(err, HSP_ENOMEM, 0, "no memory for programs");
    free(data);
    if (st == HSP_OK && v->file.n_ref == 0) {
        st = hsp_err_set(err, HSP_EINVAL, 0,
                         "no unsharded program beside; compile the job with --verify");
    }
    if (st != HSP_OK) {
        (void)hsp_err_wrap(err, "%s", path);
        return st;
    }
    v->ref = &v->file.ref[0];
    v->file.data_path = ""; /* made-up text: the verdict does not depend on a file */
    return hsp_local_text(&v->file, &v->text, err);
}

static enum hsp_status prepare(struct verify *v, int threads, struct hsp_err *err)
{
    uint32_t n = v->file.n;
    v->tensor = hsp_arena_array(v->arena, v->ref->tpl.n_tensors, sizeof(*v->tensor));
    v->grad = hsp_arena_array(v->arena, v->ref->bind.n_state, sizeof(*v->grad));
    v->match = hsp_arena_array(v->arena, n, sizeof(*v->match));
    v->rank = hsp_arena_array(v->arena, n, sizeof(*v->rank));
    bool ok = v->tensor && v->grad && v->match && v->rank;
    for (uint32_t k = 0; k < n && ok; k++) {
        v->rank[k] = (struct vrank){.v = v, .rank = k};
        v->match[k] =
            hsp_arena_array(v->arena, v->file.programs[k].tpl.n_tensors, sizeof(**v->match));
        ok = v->match[k] != NULL;
        if (ok) {
            match_rank(v, k);
        }
    }
    if (!ok) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no memory to compare");
    }
    struct hsp_local_opts one = {.n = 1,
                                 .programs = v->ref,
                                 .text = &v->text,
                                 .threads = threads > 0 ? threads : 1,
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
        free(v->tensor[k].data);
        v->tensor[k].data = NULL;
    }
    for (uint32_t k = 0; v->grad && k < v->ref->bind.n_state; k++) {
        free(v->grad[k].data);
        v->grad[k].data = NULL;
    }
}

/* A gradient that is 0 in truth is rounding noise: all are judged on the scale of the largest. */
static void level_gradients(struct verify *v)
{
    double scale = 0.0;
    for (uint32_t k = 0; k < v->ref->bind.n_state; k++) {
        scale = fmax(scale, v->grad[k].scale);
    }
    for (uint32_t k = 0; k < v->ref->bind.n_state; k++) {
        v->grad[k].scale = scale;
    }
}

static enum hsp_status verify_step(struct verify *v, uint64_t step, struct hsp_err *err)
{
    v->step = step;
    if (hsp_local_run(v->one, step, step + 1, err) != HSP_OK) {
        return hsp_err_wrap(err, "unsharded");
    }
    level_gradients(v);
    if (hsp_local_run(v->many, step, step + 1, err) != HSP_OK) {
        return hsp_err_wrap(err, "sharded");
    }
    enum hsp_status st = compare_states(v, (unsigned)((step + 1) & 1), err);
    drop_kept(v);
    if (st == HSP_OK && v->diff.found) {
        st = hsp_err_set(err, HSP_EDIGEST, 0, "%s", v->diff.text);
    }
    return st;
}

enum hsp_status hsp_verify_file(const struct hsp_run_opts *o, struct hsp_err *err)
{
    struct verify v = {.lock = PTHREAD_MUTEX_INITIALIZER};
    uint64_t steps = o->steps > 0 ? o->steps : VERIFY_STEPS;
    enum hsp_status st = load(&v, o->file, err);
    if (st == HSP_OK) {
        st = prepare(&v, o->threads, err);
    }
    for (uint64_t t = 0; t < steps && st == HSP_OK; t++) {
        st = verify_step(&v, t, err);
    }
    if (st == HSP_OK && !o->quiet) {
        (void)printf("%u ranks equal one device: %" PRIu64 " values compared in %" PRIu64
                     " steps\n",
                     v.file.n, v.n_compared, steps);
    }
    drop_kept(&v);
    hsp_local_close(v.many);
    hsp_local_close(v.one);
    if (v.text.data) {
        hsp_text_close(&v.text);
    }
    hsp_arena_free(v.arena);
    return st;
}
