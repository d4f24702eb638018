#include "worker/run/verify_match.h"

#include <string.h>

#include "worker/run/verify_impl.h"

static uint32_t find_tensor(const struct hsp_program *p, const char *name, bool state)
{
    for (uint32_t t = 0; t < p->tpl.n_tensors; t++) {
        if (strcmp(p->tpl.tensors[t].name, name) == 0 &&
            (p->tpl.tensors[t].cls == HSP_CLASS_STATE) == state) {
            return t;
        }
    }
    return UINT32_MAX;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Writes the name without the suffixes that programs add ("#sum", "#whole") to @out. Tensors of
 * Eval keep "#eval". */
static void plain_name(const char *name, char out[HSP_MAX_NAME + 8])
{
    size_t n = strcspn(name, "#");
    bool eval = ends_in(name, "#eval") || ends_in(name, ".eval");
    n = n < HSP_MAX_NAME ? n : HSP_MAX_NAME;
    memcpy(out, name, n);
    memcpy(out + n, eval ? "#eval" : "", eval ? sizeof "#eval" : 1);
}

/* ---- the unsharded program ---- */

/* Returns true if op @i is linear in the inputs of @mask taken together. */
static bool linear_in(const struct hsp_program *p, const struct hsp_instr *i, uint32_t mask)
{
    struct hsp_axes ax;
    struct hsp_attrs at = hsp_instr_attrs(i, p->bind.symbol);
    uint8_t rank = 0;
    for (uint8_t k = 0; k < i->n_in; k++) {
        uint8_t r = p->tpl.tensors[i->in[k]].rank;
        rank = r > rank ? r : rank;
    }
    return hsp_op_axes((enum hsp_op)i->op, &at, rank, &ax, NULL) == HSP_OK &&
           (mask == ax.linear[0] || mask == ax.linear[1]);
}

static uint8_t class_of_op(const struct hsp_program *p, const struct hsp_instr *i,
                           const uint8_t *classes)
{
    uint32_t sums = 0;
    bool rows = false;
    for (uint8_t k = 0; k < i->n_in; k++) {
        uint8_t c = classes[i->in[k]];
        if (c == HSP_VERIFY_NONE) {
            return HSP_VERIFY_NONE;
        }
        rows = rows || c == HSP_VERIFY_ROWS;
        sums |= (c == HSP_VERIFY_SUM ? 1u : 0u) << k;
    }
    if (sums != 0) { /* with rows beside it the batch would enter twice */
        return !rows && linear_in(p, i, sums) ? HSP_VERIFY_SUM : HSP_VERIFY_NONE;
    }
    return rows ? HSP_VERIFY_SUM : HSP_VERIFY_SAME; /* the batch is gone: it was summed over */
}

void hsp_verify_classes(const struct hsp_program *ref, uint8_t *ret)
{
    for (uint32_t t = 0; t < ref->tpl.n_tensors; t++) {
        bool state = ref->tpl.tensors[t].cls == HSP_CLASS_STATE;
        ret[t] = state                            ? HSP_VERIFY_SAME
                 : ref->bind.tensor[t].batch_dim0 ? HSP_VERIFY_ROWS
                                                  : HSP_VERIFY_NONE;
    }
    for (uint32_t k = 0; k < ref->tpl.n_instrs; k++) {
        const struct hsp_instr *i = &ref->tpl.instrs[k];
        uint8_t c = i->kind == HSP_I_OP                        ? class_of_op(ref, i, ret)
                    : i->kind == HSP_I_ONE                     ? HSP_VERIFY_SAME
                    : i->kind == HSP_I_RESHARD && i->n_in == 1 ? ret[i->in[0]]
                                                               : HSP_VERIFY_NONE;
        for (uint8_t o = 0; o < i->n_out; o++) {
            const struct hsp_ptensor *t = &ref->tpl.tensors[i->out[o]];
            if (ret[i->out[o]] != HSP_VERIFY_ROWS && t->cls != HSP_CLASS_STATE) {
                ret[i->out[o]] = c;
            }
        }
    }
}

/* ---- a rank's program ---- */

uint32_t hsp_verify_state(const struct hsp_program *ref, const struct hsp_program *p, uint32_t k)
{
    for (uint32_t j = 0; j < ref->bind.n_state; j++) {
        if (ref->bind.state[j].tensor_id == p->bind.state[k].tensor_id &&
            ref->tpl.tensors[ref->bind.state[j].tensor].state_kind ==
                p->tpl.tensors[p->bind.state[k].tensor].state_kind) {
            return j;
        }
    }
    return UINT32_MAX;
}

static struct hsp_match counterpart(const struct hsp_program *ref, const uint8_t *classes,
                                    const struct hsp_program *p, uint32_t t)
{
    const struct hsp_ptensor *x = &p->tpl.tensors[t];
    char plain[HSP_MAX_NAME + 8];
    struct hsp_match none = {.how = HSP_VERIFY_NONE, .ref = UINT32_MAX};
    if (x->cls == HSP_CLASS_STATE) {
        return none; /* compared after the step */
    }
    uint32_t r = find_tensor(ref, x->name, false);
    plain_name(x->name, plain);
    if (r == UINT32_MAX) {
        r = find_tensor(ref, plain, false);
    }
    /* where micro-batches are cut their dim is a number here, and still rows of the batch */
    if (r != UINT32_MAX && ref->tpl.tensors[r].rank == x->rank &&
        (ref->bind.tensor[r].batch_dim0 || !p->bind.tensor[t].batch_dim0)) {
        return (struct hsp_match){.how = classes[r], .ref = r};
    }
    r = find_tensor(ref, plain, true); /* a gathered parameter */
    for (uint32_t k = 0; r != UINT32_MAX && k < ref->bind.n_state; k++) {
        if (ref->bind.state[k].tensor == r && ends_in(x->name, "#use")) {
            return (struct hsp_match){.how = HSP_VERIFY_PARAM, .ref = k};
        }
    }
    return none;
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
    struct hsp_attrs at = hsp_instr_attrs(i, p->bind.symbol);
    return hsp_op_axes((enum hsp_op)i->op, &at, rank, ret_ax, NULL) == HSP_OK &&
           hsp_op_extents((enum hsp_op)i->op, &at, ret_ax, in, ret, NULL) == HSP_OK;
}

/* Returns the axis that is the batch, HSP_MAX_AXES if there is none. Its length is that of the
 * micro-batch, or of a rank's part of the micro-batch. */
static uint8_t batch_axis(const struct hsp_instr *i, const struct hsp_axes *ax,
                          const struct hsp_match *match)
{
    for (uint8_t k = 0; k < i->n_in; k++) {
        if (match[i->in[k]].how == HSP_VERIFY_ROWS) {
            return (uint8_t)ax->in[k].dim[0].axis;
        }
    }
    return HSP_MAX_AXES;
}

static bool has_axis(const struct hsp_operand_use *u, uint8_t axis)
{
    for (uint8_t d = 0; d < u->rank; d++) {
        if (u->dim[d].axis == (int8_t)axis) {
            return true;
        }
    }
    return false;
}

/* Returns true if output @o of this op of a rank is a sum over an axis of which the rank has only a
 * part. */
static bool cut_sum(const struct hsp_program *ref, const struct hsp_program *p,
                    const struct hsp_instr *i, const struct hsp_match *match, uint8_t o)
{
    struct hsp_axes ax, full;
    int64_t have[HSP_MAX_AXES] = {0}, want[HSP_MAX_AXES] = {0};
    for (uint32_t k = 0; k < ref->tpl.n_instrs; k++) {
        const struct hsp_instr *r = &ref->tpl.instrs[k];
        if (r->kind != HSP_I_OP || r->node != i->node || r->op != i->op) {
            continue;
        }
        if (!op_extents(p, i, &ax, have) || !op_extents(ref, r, &full, want)) {
            return false;
        }
        uint8_t batch = batch_axis(i, &ax, match);
        if (batch < ax.n_axes) {
            want[batch] = p->bind.symbol[HSP_SYM_BATCH];
        }
        for (uint8_t a = 0; a < ax.n_axes; a++) {
            if (have[a] != want[a] && !has_axis(&ax.out[o], a)) {
                return true;
            }
        }
        return false;
    }
    return false;
}

static bool adds(const struct hsp_move *m)
{
    return m->kind == HSP_MOVE_ALL_REDUCE || m->kind == HSP_MOVE_REDUCE_SCATTER ||
           m->kind == HSP_MOVE_REDUCE_SEND;
}

static bool reduces(const struct hsp_reshard_bind *r)
{
    for (uint32_t k = 0; k < r->n_moves; k++) {
        if (adds(&r->moves[k])) {
            return true;
        }
    }
    return false;
}

/* Returns true if addends may pass through this instruction: an op must be linear in exactly the
 * inputs that are addends. An addend that enters another op is a mistake, and the output of that op
 * is compared as a complete value. */
static bool passes(const struct hsp_program *p, const struct hsp_instr *i, uint32_t partial_inputs)
{
    if (i->kind == HSP_I_RESHARD) {
        return !reduces(&p->bind.reshard[i->arg]);
    }
    return i->kind != HSP_I_OP || linear_in(p, i, partial_inputs);
}

void hsp_verify_match(const struct hsp_program *ref, const uint8_t *classes,
                      const struct hsp_program *p, struct hsp_match *ret)
{
    for (uint32_t t = 0; t < p->tpl.n_tensors; t++) {
        ret[t] = counterpart(ref, classes, p, t);
    }
    for (uint32_t k = 0; k < p->tpl.n_instrs; k++) { /* partial from cut sums to reductions */
        const struct hsp_instr *i = &p->tpl.instrs[k];
        uint32_t partial_inputs = 0;
        for (uint8_t o = 0; o < i->n_in; o++) {
            partial_inputs |= (ret[i->in[o]].partial ? 1u : 0u) << o;
        }
        bool passed = partial_inputs != 0 && passes(p, i, partial_inputs);
        for (uint8_t o = 0; o < i->n_out; o++) {
            bool partial = passed || (i->kind == HSP_I_OP && cut_sum(ref, p, i, ret, o));
            bool before = i->kind == HSP_I_ACC && ret[i->out[o]].partial;
            ret[i->out[o]].partial = partial || before;
        }
    }
}

/* ---- sums in two steps ---- */

/* Returns true if two ranks are members of one stage. A pipeline runs each node on one of its
 * stages. */
static bool same_stage(const struct hsp_program *a, const struct hsp_program *b)
{
    uint32_t i = 0;
    if (a->bind.pipeline.first_seq != b->bind.pipeline.first_seq ||
        a->bind.pipeline.n_seq != b->bind.pipeline.n_seq) {
        return false;
    }
    while (i < a->tpl.n_instrs && a->tpl.instrs[i].kind != HSP_I_OP) {
        i++;
    }
    for (uint32_t k = 0; i < a->tpl.n_instrs && k < b->tpl.n_instrs; k++) {
        if (b->tpl.instrs[k].kind == HSP_I_OP && b->tpl.instrs[k].node == a->tpl.instrs[i].node) {
            return true;
        }
    }
    return false;
}

/* Returns true if a Reshard of @rank adds parts of several members of its stage. */
static bool adds_members(const struct hsp_program *programs, uint32_t rank,
                         const struct hsp_reshard_bind *r)
{
    for (uint32_t k = 0; k < r->n_moves; k++) {
        const struct hsp_move *m = &r->moves[k];
        for (uint32_t i = 0; adds(m) && i < m->n_ranks; i++) {
            if (m->ranks[i] != rank && same_stage(&programs[rank], &programs[m->ranks[i]])) {
                return true;
            }
        }
    }
    return false;
}

/* Marks on @rank the tensors that @mate's Reshards take as addends of their stage; an equal copy of
 * too. */
static void mark_addends(const struct hsp_program *programs, uint32_t rank, uint32_t mate,
                         struct hsp_match *match)
{
    const struct hsp_program *p = &programs[rank], *q = &programs[mate];
    for (uint32_t k = 0; k < q->tpl.n_instrs; k++) {
        const struct hsp_instr *i = &q->tpl.instrs[k];
        bool addends =
            i->kind == HSP_I_RESHARD && adds_members(programs, mate, &q->bind.reshard[i->arg]);
        for (uint8_t o = 0; addends && o < i->n_in; o++) {
            uint32_t t = find_tensor(p, q->tpl.tensors[i->in[o]].name, false);
            if (t != UINT32_MAX) {
                match[t].partial = true;
            }
        }
    }
}

void hsp_verify_tiers(const struct hsp_program *programs, uint32_t n, uint32_t rank,
                      struct hsp_match *match)
{
    const struct hsp_program *p = &programs[rank];
    for (uint32_t mate = 0; mate < n; mate++) {
        if (same_stage(p, &programs[mate])) {
            mark_addends(programs, rank, mate, match);
        }
    }
    for (uint32_t k = p->tpl.n_instrs; k-- > 0;) {
        const struct hsp_instr *i = &p->tpl.instrs[k];
        if (i->kind == HSP_I_ACC && match[i->out[0]].partial) {
            match[i->in[0]].partial = true;
        }
    }
}
