/* Parameters stored cut and gathered for each use, and their gradients added up where they are stored
 * (Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter models, 2020,
 * stage 3).
 *
 * In each part a unit of the model (a block, the embedding, the head) gathers all it reads before its
 * first reader, into tensors that nobody reads behind its last one; a gradient is reduced to the
 * accumulators of its homes where it used to be accumulated. Ranks of other streams, which may have
 * other micro-batches, take their part in both in SERVE (meeting.h). A parameter whose home is its
 * use stays as it is; one that several ranks store keeps the accumulator of its use.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/paramslot.h"
#include "proto/base/vec.h"

#define MAX_MEETINGS ((size_t)HSP_MAX_INSTRS)

struct gatherer {
    struct hsp_compiler *c;
    uint32_t stage; /* index of s */
    struct hsp_stagecode *s;
    uint32_t n_old; /* values before */
    uint32_t
        *old_acc; /* [param]: accumulator in the layout of its use, HSP_NONE: none, or it stays */
    /* of the running part */
    uint32_t part;
    bool *reads;    /* [unit * params + param] */
    bool *gathered; /* [unit] */
    uint32_t *use;  /* [param]: as gathered by the unit last reached */
    struct hsp_err *err;
};

static enum hsp_status no_memory(struct hsp_err *err)
{
    return hsp_err_set(err, HSP_ENOMEM, 0, "gathered parameters");
}

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

/* A meeting that begins here. */
static enum hsp_status meet(struct gatherer *x, bool gives, uint32_t *ret)
{
    struct hsp_compiler *c = x->c;
    if (!hsp_grow(&c->meeting, &c->cap_meetings, c->n_meetings + 1, sizeof *c->meeting,
                  MAX_MEETINGS)) {
        return hsp_grow_error(c->n_meetings + 1, MAX_MEETINGS, "gathers of parameters", x->err);
    }
    c->meeting[c->n_meetings] =
        (struct hsp_meeting){.stage = x->stage, .part = x->part, .gives = gives};
    *ret = (uint32_t)++c->n_meetings;
    return HSP_OK;
}

/* A Reshard of @meets at the end of @part of @s. */
static enum hsp_status add_reshard(struct hsp_stagecode *s, uint32_t part, uint32_t meets,
                                   uint32_t reshard, uint32_t in, uint32_t out, struct hsp_err *err)
{
    struct hsp_step st = hsp_step_make(HSP_I_RESHARD, HSP_QUEUE_COMM);
    if (in == HSP_NONE && out == HSP_NONE) {
        return HSP_OK;
    }
    st.arg = reshard;
    st.meets = meets;
    st.n_in = in != HSP_NONE;
    st.in[0] = in;
    st.n_out = out != HSP_NONE;
    st.out[0] = out;
    return hsp_step_add(s, part, SIZE_MAX, &st, err);
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

static enum hsp_status gather_slot(struct gatherer *x, uint32_t meets, uint32_t param,
                                   uint32_t slot, const struct hsp_cover *uses)
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
        uint32_t state = hsp_slot_state(s, param, HSP_STATE_PARAM, slot);
        rc = add_reshard(s, mine ? x->part : (uint32_t)HSP_PART_SERVE, meets, reshard, state,
                         mine ? x->use[param] : HSP_NONE, x->err);
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
        if (!x->reads[(size_t)unit * n + p]) {
            continue;
        }
        hsp_cover_init(&uses, x->c->home[p].rank, x->c->home[p].extent);
        rc = add_use(x, unit, p, &x->use[p]);
        if (rc == HSP_OK) {
            rc = hsp_param_cover(x->s, x->use[p], &uses, x->err);
        }
        for (uint32_t slot = 0; rc == HSP_OK && slot < x->c->slots[p].n; slot++) {
            rc = gather_slot(x, meets, p, slot, &uses);
        }
        hsp_cover_fini(&uses);
    }
    x->gathered[unit] = true;
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

/* The part of stage @stage in a reduction to @slot of gradient @grad of x->s: it gets some, and adds
 * that. */
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
        rc = add_reshard(s, part, meets, reshard, mine ? grad : HSP_NONE, got, x->err);
    }
    if (rc != HSP_OK || got == HSP_NONE) {
        return rc;
    }
    struct hsp_step st = hsp_step_make(HSP_I_ACC, HSP_QUEUE_COMPUTE);
    st.n_in = st.n_out = 1;
    st.in[0] = got;
    st.out[0] = hsp_slot_find(s, s->acc[param], slot);
    st.meets = mine ? 0 : meets;
    return hsp_step_add(s, part, SIZE_MAX, &st, x->err);
}

/* In place of adding @grad to the accumulator of @param. */
static enum hsp_status reduce_grad(struct gatherer *x, uint32_t param, uint32_t grad)
{
    struct hsp_compiler *c = x->c;
    const char *name = c->g->tensors[c->g->params[param].tensor].name;
    uint32_t meets = 0;
    enum hsp_status rc = meet(x, true, &meets);
    for (uint32_t slot = 0; rc == HSP_OK && slot < c->slots[param].n; slot++) {
        struct hsp_cover src, dst;
        uint32_t reshard = HSP_NONE;
        hsp_cover_init(&src, c->home[param].rank, c->home[param].extent);
        rc = hsp_slot_cover(c, param, slot, &dst, x->err);
        if (rc == HSP_OK) {
            rc = hsp_param_cover(x->s, grad, &src, x->err);
        }
        if (rc == HSP_OK) {
            rc = hsp_reshard_add(c, name, false, false, &src, &dst, &reshard, x->err);
        }
        hsp_cover_fini(&src);
        hsp_cover_fini(&dst);
        for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
            rc = take_grad(x, i, meets, param, slot, reshard, grad);
        }
    }
    return rc;
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
    memset(x->gathered, 0, x->c->g->n_layers * sizeof *x->gathered);
    for (size_t i = 0; i < code->n; i++) {
        for (uint8_t k = 0; k < code->step[i].n_in; k++) {
            uint32_t p = gathered_param(x, code->step[i].in[k]);
            if (p != HSP_NONE) {
                x->reads[(size_t)unit_of(x, code, i) * n + p] = true;
            }
        }
    }
}

/* The step with what was gathered for it in place of the use. */
static enum hsp_status rename_uses(struct gatherer *x, const struct hsp_code *old, size_t i,
                                   struct hsp_step *st)
{
    enum hsp_status rc = HSP_OK;
    for (uint8_t k = 0; rc == HSP_OK && k < st->n_in; k++) {
        uint32_t p = gathered_param(x, st->in[k]);
        if (p == HSP_NONE) {
            continue;
        }
        uint32_t unit = unit_of(x, old, i);
        if (!x->gathered[unit]) {
            rc = gather_unit(x, unit);
        }
        st->in[k] = x->use[p];
    }
    return rc;
}

static enum hsp_status rewrite_part(struct gatherer *x, uint32_t part)
{
    struct hsp_code old = x->s->part[part];
    size_t first = x->c->n_meetings;
    enum hsp_status rc = HSP_OK;
    x->part = part;
    find_reads(x, &old);
    x->s->part[part] = (struct hsp_code){0};
    for (size_t i = 0; rc == HSP_OK && i < old.n; i++) {
        struct hsp_step st = old.step[i];
        uint32_t param = st.kind == HSP_I_ACC ? moved_param(x, st.out[0]) : HSP_NONE;
        if (param != HSP_NONE) {
            rc = reduce_grad(x, param, st.in[0]);
            continue;
        }
        rc = rename_uses(x, &old, i, &st);
        if (rc == HSP_OK) {
            rc = hsp_step_add(x->s, part, SIZE_MAX, &st, x->err);
        }
    }
    free(old.step);
    for (size_t i = first; i < x->c->n_meetings; i++) {
        x->c->meeting[i].at = (uint32_t)(i - first);
        x->c->meeting[i].of = (uint32_t)(x->c->n_meetings - first);
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
    x.gathered = calloc(units + 1, sizeof *x.gathered);
    x.use = calloc(n + 1, sizeof *x.use);
    if (x.reads == NULL || x.gathered == NULL || x.use == NULL) {
        rc = no_memory(err);
    }
    for (uint32_t nth = 0; rc == HSP_OK && nth < x.s->n_parts; nth++) {
        uint32_t part = hsp_part_nth(x.s, nth);
        enum hsp_part kind = hsp_part_kind(part);
        if (kind != HSP_PART_PRE && kind != HSP_PART_POST && kind != HSP_PART_SERVE) {
            rc = rewrite_part(&x, part);
        }
    }
    free(x.reads);
    free(x.gathered);
    free(x.use);
    return rc;
}

enum hsp_status hsp_param_gather(struct hsp_compiler *c, struct hsp_err *err)
{
    uint32_t **old_acc = hsp_arena_array(c->arena, c->n_stages, sizeof *old_acc);
    enum hsp_status rc = old_acc == NULL ? no_memory(err) : HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        old_acc[i] = hsp_arena_array(c->arena, c->g->n_params, sizeof **old_acc);
        rc = old_acc[i] == NULL ? no_memory(err) : HSP_OK;
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
