#include "daemon/spmd/lower/zero3.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/lower/layer_runs.h"
#include "daemon/spmd/lower/lower_prologue.h"
#include "daemon/spmd/lower/param_slots.h"
#include "proto/base/vec.h"
#include "proto/layout/box.h"

#define MAX_MEETINGS ((size_t)HSP_MAX_INSTRS)

/* A gradient to be reduced. */
struct given {
    uint32_t param, value;
};

/* A stage's part of a gradient, and the place of its addition. */
struct taken {
    uint32_t stage, value, acc;
};

struct gatherer {
    struct hsp_compiler *c;
    uint32_t stage; /* index of s */
    struct hsp_stagecode *s;
    uint32_t n_old; /* values before */
    uint32_t
        *old_acc; /* [param]: accumulator in the layout of its use, HSP_NONE: none, or it stays */
    /* of the running part */
    uint32_t part;
    bool *reads;              /* [unit * params + param]; owned */
    uint32_t *use;            /* [unit * params + param]: as the unit gathers it; owned */
    uint32_t *first_run;      /* [unit]: in which it reads first, HSP_NONE; owned */
    uint32_t *run_of;         /* [step]; owned */
    struct hsp_unit_run *run; /* owned */
    uint32_t n_runs;
    struct given *given; /* of the running unit; owned */
    struct taken *taken; /* not added up yet; owned */
    size_t n_given, cap_given, n_taken, cap_taken;
    size_t n_due; /* of taken: of the unit before the last one */
    struct hsp_err *err;
};

/* The parameter that @value, one from before, is the use of, to be gathered; HSP_NONE: none. */
static uint32_t gathered_param(const struct gatherer *x, uint32_t value)
{
    const struct hsp_value *v = &x->s->value[value];
    bool use = value < x->n_old && v->param != HSP_NONE && v->cls == HSP_CLASS_STEP &&
               v->tensor != HSP_NONE && v->is_alias != NULL && !v->is_alias[0];
    return use ? v->param : HSP_NONE;
}

/* The unit of step @i: of a Reshard that of the op it is made for. */
static uint32_t unit_of(const struct gatherer *x, const struct hsp_code *code, size_t i)
{
    while (i + 1 < code->n && code->step[i].node == HSP_NONE) {
        i++;
    }
    uint32_t node = code->step[i].node;
    return node == HSP_NONE ? 0 : x->c->g->nodes[node].layer;
}

/* Whether every element of the home is stored once. */
static bool stored_once(const struct hsp_cover *home)
{
    struct hsp_box whole = hsp_box_whole(home->rank, home->extent);
    int64_t n = 0;
    for (uint32_t i = 0; i < home->n; i++) {
        n += hsp_box_count(&home->items[i].box);
    }
    return n == hsp_box_count(&whole);
}

/* A rendezvous that begins here. */
static enum hsp_status meet(struct gatherer *x, bool gives, uint32_t *ret)
{
    struct hsp_compiler *c = x->c;
    if (!hsp_grow(&c->rendezvous_at, &c->cap_rendezvous, c->n_rendezvous + 1,
                  sizeof *c->rendezvous_at, MAX_MEETINGS)) {
        return hsp_grow_error(c->n_rendezvous + 1, MAX_MEETINGS, "gathers of parameters", x->err);
    }
    c->rendezvous_at[c->n_rendezvous] =
        (struct hsp_rendezvous){.stage = x->stage, .part = x->part, .gives = gives};
    *ret = (uint32_t)++c->n_rendezvous;
    return HSP_OK;
}

/* ---- parameters ---- */

/* The tensor that @unit gathers @param into. Its name ends in "#use" like one of a whole step. */
static enum hsp_status add_use(struct gatherer *x, uint32_t unit, uint32_t param, uint32_t *ret)
{
    static const char *const part[HSP_N_PARTS] = {
        [HSP_PART_BACKWARD] = "#back", [HSP_PART_WGRAD] = "#wgrad", [HSP_PART_EVAL] = "#eval"};
    const struct hsp_compiler *c = x->c;
    const char *name = c->g->tensors[c->g->params[param].tensor].name;
    const char *tag = part[hsp_part_kind(x->part)];
    uint32_t others = 0;
    for (uint32_t u = 0; u < c->g->n_layers; u++) {
        others += c->units[(size_t)param * c->g->n_layers + u] ? 1 : 0;
    }
    struct hsp_value v = x->s->value[hsp_param_use_value(c, x->s, param)];
    tag = tag == NULL ? "" : tag;
    v.name = others > 1 ? hsp_arena_printf(c->arena, "%s%s#%u#use", name, tag, unit)
                        : hsp_arena_printf(c->arena, "%s%s#use", name, tag);
    v.cls = HSP_CLASS_MICRO;
    v.next = v.alias = HSP_NONE;
    v.is_alias = NULL;
    v.parts = 0;
    return v.name != NULL ? hsp_value_add(x->s, &v, ret, x->err)
                          : hsp_param_no_memory(c, param, x->err);
}

/* @use: the layout into which the stage gathers it. */
static enum hsp_status gather_slot(struct gatherer *x, uint32_t meets, uint32_t param,
                                   uint32_t slot, const struct hsp_cover *uses, uint32_t use)
{
    struct hsp_compiler *c = x->c;
    const char *name = c->g->tensors[c->g->params[param].tensor].name;
    struct hsp_cover src, dst;
    uint32_t reshard = HSP_NONE;
    enum hsp_status rc = hsp_slot_cover(c, param, slot, &src, x->err);
    enum hsp_status st = hsp_slot_uses(c, param, slot, uses, &dst, x->err);
    rc = rc == HSP_OK ? st : rc;
    bool needed = dst.n > 0;
    if (rc == HSP_OK && needed) {
        rc = hsp_reshard_add(c, name, false, false, &src, &dst, &reshard, x->err);
    }
    hsp_cover_fini(&src);
    hsp_cover_fini(&dst);
    for (uint32_t i = 0; rc == HSP_OK && needed && i < c->n_stages; i++) {
        struct hsp_stagecode *s = &c->stage[i];
        bool mine = i == x->stage;
        uint32_t source = hsp_slot_source(s, param, slot);
        rc = hsp_param_meet(s, mine ? x->part : (uint32_t)HSP_PART_SERVE, meets, reshard, source,
                            mine ? use : HSP_NONE, x->err);
    }
    return rc;
}

/* Everything @unit reads in this part, in the order of parameters. */
static enum hsp_status gather_unit(struct gatherer *x, uint32_t unit)
{
    uint32_t meets = 0, n = x->c->g->n_params;
    enum hsp_status rc = meet(x, false, &meets);
    for (uint32_t p = 0; rc == HSP_OK && p < n; p++) {
        struct hsp_cover uses;
        uint32_t *use = &x->use[(size_t)unit * n + p];
        if (!x->reads[(size_t)unit * n + p]) {
            continue;
        }
        hsp_cover_init(&uses, x->c->home[p].rank, x->c->home[p].extent);
        rc = add_use(x, unit, p, use);
        if (rc == HSP_OK) {
            rc = hsp_param_cover(x->s, *use, &uses, x->err);
        }
        for (uint32_t slot = 0; rc == HSP_OK && slot < x->c->slots[p].n; slot++) {
            rc = gather_slot(x, meets, p, slot, &uses, *use);
        }
        hsp_cover_fini(&uses);
    }
    return rc;
}

/* Gathers when run @run begins: for the next run; when the part begins, for its first two.
 */
static enum hsp_status gather_ahead(struct gatherer *x, uint32_t run)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t r = run == 0 ? 0 : run + 1; r <= run + 1; r++) {
        for (uint32_t u = 0; rc == HSP_OK && u < x->c->g->n_layers; u++) {
            rc = x->first_run[u] == r ? gather_unit(x, u) : HSP_OK;
        }
    }
    return rc;
}

/* ---- gradients ---- */

/* A tensor of @s, in the layout of its home of @param in @slot. */
static enum hsp_status add_like_home(struct gatherer *x, struct hsp_stagecode *s, uint32_t param,
                                     uint32_t slot, uint8_t cls, const char *suffix, uint32_t *ret)
{
    struct hsp_value v = s->value[hsp_slot_state(s, param, HSP_STATE_PARAM, slot)];
    v.cls = cls;
    v.state_kind = 0;
    v.next = HSP_NONE;
    v.parts = 0;
    v.name = hsp_slot_name(x->c, param, slot, suffix);
    return v.name != NULL ? hsp_value_add(s, &v, ret, x->err)
                          : hsp_param_no_memory(x->c, param, x->err);
}

/* The part of stage @stage in a reduction to @slot of gradient @grad of x->s: the received part is
 * added later. */
static enum hsp_status take_grad(struct gatherer *x, uint32_t stage, uint32_t meets, uint32_t param,
                                 uint32_t slot, uint32_t reshard, uint32_t grad)
{
    struct hsp_stagecode *s = &x->c->stage[stage];
    bool mine = stage == x->stage;
    uint32_t part = mine ? x->part : (uint32_t)HSP_PART_SERVE, got = HSP_NONE;
    enum hsp_status rc = HSP_OK;
    if (hsp_slot_state(s, param, HSP_STATE_PARAM, slot) != HSP_NONE) {
        rc = add_like_home(x, s, param, slot, HSP_CLASS_MICRO, mine ? "#part" : "#got", &got);
    }
    if (rc == HSP_OK) {
        rc = hsp_param_meet(s, part, meets, reshard, mine ? grad : HSP_NONE, got, x->err);
    }
    if (rc != HSP_OK || got == HSP_NONE) {
        return rc;
    }
    if (!hsp_grow(&x->taken, &x->cap_taken, x->n_taken + 1, sizeof *x->taken, MAX_MEETINGS)) {
        return hsp_grow_error(x->n_taken + 1, MAX_MEETINGS, "parts of gradients", x->err);
    }
    x->taken[x->n_taken++] =
        (struct taken){.stage = stage, .value = got, .acc = hsp_slot_find(s, s->acc[param], slot)};
    return HSP_OK;
}

static enum hsp_status reduce_grad(struct gatherer *x, uint32_t meets, const struct given *grad)
{
    struct hsp_compiler *c = x->c;
    uint32_t param = grad->param;
    const char *name = c->g->tensors[c->g->params[param].tensor].name;
    enum hsp_status rc = HSP_OK;
    for (uint32_t slot = 0; rc == HSP_OK && slot < c->slots[param].n; slot++) {
        struct hsp_cover src, dst;
        uint32_t reshard = HSP_NONE;
        hsp_cover_init(&src, c->home[param].rank, c->home[param].extent);
        rc = hsp_slot_cover(c, param, slot, &dst, x->err);
        if (rc == HSP_OK) {
            rc = hsp_param_cover(x->s, grad->value, &src, x->err);
        }
        if (rc == HSP_OK) {
            rc = hsp_reshard_add(c, name, false, false, &src, &dst, &reshard, x->err);
        }
        hsp_cover_fini(&src);
        hsp_cover_fini(&dst);
        for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
            rc = take_grad(x, i, meets, param, slot, reshard, grad->value);
        }
    }
    return rc;
}

/* Adds up as @t says. */
static enum hsp_status add_up(struct gatherer *x, const struct taken *t, uint32_t meets)
{
    bool mine = t->stage == x->stage;
    struct hsp_step st = hsp_step_make(HSP_I_ACC, HSP_QUEUE_COMPUTE);
    st.n_in = st.n_out = 1;
    st.in[0] = t->value;
    st.out[0] = t->acc;
    st.meets = mine ? 0 : meets;
    return hsp_step_add(&x->c->stage[t->stage], mine ? x->part : (uint32_t)HSP_PART_SERVE, SIZE_MAX,
                        &st, x->err);
}

/* Adds up the part that this stage received in the reduction before the last. */
static enum hsp_status add_due(struct gatherer *x)
{
    enum hsp_status rc = HSP_OK;
    for (size_t i = 0; rc == HSP_OK && i < x->n_due; i++) {
        rc = add_up(x, &x->taken[i], 0);
    }
    if (x->n_taken > x->n_due) { /* without any there is no array either */
        memmove(x->taken, x->taken + x->n_due, (x->n_taken - x->n_due) * sizeof *x->taken);
    }
    x->n_taken -= x->n_due;
    x->n_due = x->n_taken;
    return rc;
}

/* Reduces all gradients of the unit that has ended. Other pipelines add up their received parts at
 * once; they come to it later anyway. */
static enum hsp_status reduce_unit(struct gatherer *x)
{
    uint32_t meets = 0;
    size_t n = x->n_due;
    enum hsp_status rc = x->n_given > 0 ? meet(x, true, &meets) : HSP_OK;
    for (size_t i = 0; rc == HSP_OK && i < x->n_given; i++) {
        rc = reduce_grad(x, meets, &x->given[i]);
    }
    for (size_t i = n; rc == HSP_OK && i < x->n_taken; i++) {
        if (x->taken[i].stage == x->stage) {
            x->taken[n++] = x->taken[i];
        } else {
            rc = add_up(x, &x->taken[i], meets);
        }
    }
    x->n_taken = n;
    x->n_given = 0;
    return rc == HSP_OK ? add_due(x) : rc;
}

/* ---- accumulators ---- */

/* Accumulators of @param where it is stored, in place of those where it is used. */
static enum hsp_status move_acc(struct gatherer *x, struct hsp_stagecode *s, uint32_t param)
{
    enum hsp_status rc = HSP_OK;
    s->acc[param] = HSP_NONE;
    for (uint32_t slot = 0; rc == HSP_OK && slot < x->c->slots[param].n; slot++) {
        struct hsp_step zero = hsp_step_make(HSP_I_ZERO, HSP_QUEUE_COMPUTE);
        zero.n_out = 1;
        if (hsp_slot_state(s, param, HSP_STATE_PARAM, slot) == HSP_NONE) {
            continue;
        }
        rc = add_like_home(x, s, param, slot, HSP_CLASS_STEP, "#acc", &zero.out[0]);
        if (rc == HSP_OK) {
            hsp_slot_link(s, &s->acc[param], zero.out[0]);
            rc = hsp_step_add(s, HSP_PART_PRE, SIZE_MAX, &zero, x->err);
        }
    }
    return rc;
}

/* The parameter whose accumulator was @value; HSP_NONE. */
static uint32_t moved_param(const struct gatherer *x, uint32_t value)
{
    uint32_t p = x->s->value[value].param;
    return p != HSP_NONE && x->old_acc[p] == value ? p : HSP_NONE;
}

/* Zeroes of accumulators that are no more. */
static void drop_zeroes(const struct gatherer *x)
{
    struct hsp_code *pre = &x->s->part[HSP_PART_PRE];
    size_t n = 0;
    for (size_t i = 0; i < pre->n; i++) {
        const struct hsp_step *st = &pre->step[i];
        if (st->kind != HSP_I_ZERO || moved_param(x, st->out[0]) == HSP_NONE) {
            pre->step[n++] = pre->step[i];
        }
    }
    pre->n = n;
}

/* Which parameters have their accumulators at home, on all stages. */
static enum hsp_status move_accs(struct hsp_compiler *c, uint32_t *const *old_acc,
                                 struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t p = 0; p < c->g->n_params; p++) {
        c->grad_at_home[p] = stored_once(&c->home[p]);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        struct gatherer x = {.c = c, .s = &c->stage[i], .old_acc = old_acc[i], .err = err};
        for (uint32_t p = 0; p < c->g->n_params; p++) {
            uint32_t use = hsp_param_use_value(c, x.s, p);
            const struct hsp_value *v = use == HSP_NONE ? NULL : &x.s->value[use];
            if (v != NULL && v->is_alias != NULL && v->is_alias[0]) {
                c->grad_at_home[p] = false; /* home is use: its accumulator is there already */
            }
        }
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        struct gatherer x = {.c = c, .s = &c->stage[i], .old_acc = old_acc[i], .err = err};
        for (uint32_t p = 0; p < c->g->n_params; p++) {
            x.old_acc[p] = c->grad_at_home[p] ? x.s->acc[p] : HSP_NONE;
        }
        for (uint32_t p = 0; rc == HSP_OK && p < c->g->n_params; p++) {
            rc = c->grad_at_home[p] ? move_acc(&x, x.s, p) : HSP_OK;
        }
        drop_zeroes(&x);
    }
    return rc;
}

/* ---- parts ---- */

static void find_reads(struct gatherer *x, const struct hsp_code *code)
{
    uint32_t n = x->c->g->n_params;
    memset(x->reads, 0, (size_t)x->c->g->n_layers * n * sizeof *x->reads);
    for (uint32_t u = 0; u < x->c->g->n_layers; u++) {
        x->first_run[u] = HSP_NONE;
    }
    for (size_t i = 0; i < code->n; i++) {
        for (uint8_t k = 0; k < code->step[i].n_in; k++) {
            uint32_t p = gathered_param(x, code->step[i].in[k]), unit = unit_of(x, code, i);
            if (p != HSP_NONE) {
                x->reads[(size_t)unit * n + p] = true;
                x->first_run[unit] =
                    x->first_run[unit] == HSP_NONE ? x->run_of[i] : x->first_run[unit];
            }
        }
    }
}

/* The changed step: with the gathered tensor in place of the use; a gradient waits for the end of
 * its unit. */
static enum hsp_status rewrite_step(struct gatherer *x, const struct hsp_code *old, size_t i,
                                    uint32_t meets)
{
    struct hsp_step st = old->step[i];
    uint32_t param = st.kind == HSP_I_ACC ? moved_param(x, st.out[0]) : HSP_NONE;
    if (param != HSP_NONE) {
        if (!hsp_grow(&x->given, &x->cap_given, x->n_given + 1, sizeof *x->given, MAX_MEETINGS)) {
            return hsp_grow_error(x->n_given + 1, MAX_MEETINGS, "gradients", x->err);
        }
        x->given[x->n_given++] = (struct given){.param = param, .value = st.in[0]};
        return HSP_OK;
    }
    for (uint8_t k = 0; k < st.n_in; k++) {
        uint32_t p = gathered_param(x, st.in[k]);
        if (p != HSP_NONE) {
            st.in[k] = x->use[(size_t)unit_of(x, old, i) * x->c->g->n_params + p];
        }
    }
    st.meets = meets;
    return hsp_step_add(x->s, x->part, SIZE_MAX, &st, x->err);
}

/* Run @run begins: the moves at its seam with the one before. Where nothing moves its first step is
 * a rendezvous of its own, so that no piece has steps of both and waits for the later one's
 * operands.
 */
static enum hsp_status begin_run(struct gatherer *x, uint32_t run, uint32_t *ret_meets)
{
    size_t before = x->c->n_rendezvous;
    *ret_meets = 0;
    enum hsp_status rc = gather_ahead(x, run);
    rc = rc == HSP_OK ? reduce_unit(x) : rc;
    return rc == HSP_OK && run > 0 && x->c->n_rendezvous == before ? meet(x, false, ret_meets) : rc;
}

static enum hsp_status rewrite_steps(struct gatherer *x, const struct hsp_code *old)
{
    enum hsp_status rc = HSP_OK;
    uint32_t run = 0;
    for (size_t i = 0; rc == HSP_OK && i < old->n; i++) {
        uint32_t meets = 0;
        if (run < x->n_runs && x->run[run].first == i) {
            rc = begin_run(x, run++, &meets);
        }
        rc = rc == HSP_OK ? rewrite_step(x, old, i, meets) : rc;
    }
    rc = rc == HSP_OK ? reduce_unit(x) : rc;
    return rc == HSP_OK ? add_due(x) : rc;
}

static enum hsp_status rewrite_part(struct gatherer *x, uint32_t part)
{
    struct hsp_code old = x->s->part[part];
    size_t first = x->c->n_rendezvous;
    enum hsp_status rc = HSP_OK;
    x->part = part;
    x->run_of = malloc((old.n + 1) * sizeof *x->run_of);
    x->run = malloc((old.n + 1) * sizeof *x->run);
    if (x->run_of == NULL || x->run == NULL) {
        rc = hsp_err_nomem(x->err, "gathered parameters");
    } else {
        x->n_runs = hsp_unit_runs(x->c, &old, x->run_of, x->run);
        find_reads(x, &old);
        x->s->part[part] = (struct hsp_code){0};
        rc = rewrite_steps(x, &old);
        free(old.step);
    }
    free(x->run_of);
    free(x->run);
    for (size_t i = first; i < x->c->n_rendezvous; i++) {
        x->c->rendezvous_at[i].at = (uint32_t)(i - first);
        x->c->rendezvous_at[i].of = (uint32_t)(x->c->n_rendezvous - first);
    }
    return rc;
}

static enum hsp_status gather_stage(struct hsp_compiler *c, uint32_t stage, uint32_t *old_acc,
                                    struct hsp_err *err)
{
    struct gatherer x = {
        .c = c, .stage = stage, .s = &c->stage[stage], .old_acc = old_acc, .err = err};
    size_t units = c->g->n_layers, n = c->g->n_params;
    enum hsp_status rc = HSP_OK;
    x.n_old = (uint32_t)x.s->n_values;
    x.reads = calloc(units * n + 1, sizeof *x.reads);
    x.first_run = calloc(units + 1, sizeof *x.first_run);
    x.use = calloc(units * n + 1, sizeof *x.use);
    if (x.reads == NULL || x.first_run == NULL || x.use == NULL) {
        rc = hsp_err_nomem(err, "gathered parameters");
    }
    for (uint32_t nth = 0; rc == HSP_OK && nth < x.s->n_parts; nth++) {
        uint32_t part = hsp_part_nth(x.s, nth);
        enum hsp_part kind = hsp_part_kind(part);
        if (kind != HSP_PART_PRE && kind != HSP_PART_POST && kind != HSP_PART_SERVE) {
            rc = rewrite_part(&x, part);
        }
    }
    free(x.reads);
    free(x.first_run);
    free(x.use);
    free(x.given);
    free(x.taken);
    return rc;
}

enum hsp_status hsp_param_gather(struct hsp_compiler *c, struct hsp_err *err)
{
    uint32_t **old_acc = hsp_arena_array(c->arena, c->n_stages, sizeof *old_acc);
    enum hsp_status rc = old_acc == NULL ? hsp_err_nomem(err, "gathered parameters") : HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        old_acc[i] = hsp_arena_array(c->arena, c->g->n_params, sizeof **old_acc);
        rc = old_acc[i] == NULL ? hsp_err_nomem(err, "gathered parameters") : HSP_OK;
    }
    rc = rc == HSP_OK ? move_accs(c, old_acc, err) : rc;
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        rc = gather_stage(c, i, old_acc[i], err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        hsp_parts_mark(&c->stage[i]);
    }
    return rc;
}
