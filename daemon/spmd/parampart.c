/* Pre and Post: parameters from home to use, gradients from accumulators to home, the update. */
#include <string.h>

#include "daemon/spmd/home.h"
#include "daemon/spmd/stagecode.h"
#include "daemon/spmd/switch.h"
#include "proto/base/check.h"

static const char *const kind_suffix[HSP_N_STATE_KINDS] = {"", "#m", "#v", "#momentum"};

static enum hsp_status no_memory(const struct hsp_compiler *c, uint32_t param, struct hsp_err *err)
{
    return hsp_err_set(err, HSP_ENOMEM, 0, "code of parameter %s",
                       c->g->tensors[c->g->params[param].tensor].name);
}

static bool has_kind(const struct hsp_compiler *c, uint32_t kind)
{
    bool adam = c->t->hyper.optimizer == HSP_OPT_ADAMW;
    switch ((enum hsp_state_kind)kind) {
    case HSP_STATE_PARAM: return true;
    case HSP_STATE_M:
    case HSP_STATE_V: return adam;
    case HSP_STATE_MOMENTUM: return !adam;
    }
    return false;
}

/* The home of @param as a layout of this stage. */
static enum hsp_status home_layout(struct hsp_compiler *c, const struct hsp_stagecode *s,
                                   uint32_t param, struct hsp_layout *ret, bool **ret_present,
                                   struct hsp_err *err)
{
    const struct hsp_cover *home = &c->home[param];
    enum hsp_status rc =
        hsp_layout_whole(home->rank, home->extent, s->group->n, c->arena, ret, err);
    bool *present = hsp_arena_array(c->arena, s->group->n, sizeof *present);
    if (rc != HSP_OK || present == NULL) {
        return rc != HSP_OK ? rc : no_memory(c, param, err);
    }
    for (uint32_t i = 0; i < home->n; i++) {
        const struct hsp_held *h = &home->items[i];
        for (uint32_t j = 0; j < s->group->n; j++) {
            if (s->group->ranks[j] == h->rank) {
                ret->box[j] = h->box;
                present[j] = true;
            }
        }
        for (uint8_t d = 0; d < home->rank; d++) {
            if (h->box.lo[d] != 0 || h->box.hi[d] != home->extent[d]) {
                ret->cut[d] = HSP_CUT_HOME | (param * HSP_MAX_RANK + d);
            }
        }
    }
    *ret_present = present;
    return HSP_OK;
}

static enum hsp_status add_state(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                 const struct hsp_layout *at, bool *present, struct hsp_err *err)
{
    const struct hsp_tensor *t = &c->g->tensors[c->g->params[param].tensor];
    for (uint32_t k = 0; k < HSP_N_STATE_KINDS; k++) {
        if (!has_kind(c, k)) {
            continue;
        }
        struct hsp_value v = {.dtype = t->dtype,
                              .cls = HSP_CLASS_STATE,
                              .tensor = HSP_NONE,
                              .state_kind = (uint8_t)k,
                              .next = HSP_NONE,
                              .param = param,
                              .at = *at,
                              .present = present,
                              .alias = HSP_NONE};
        v.name = hsp_arena_printf(c->arena, "%s%s", t->name, kind_suffix[k]);
        if (v.name == NULL) {
            return no_memory(c, param, err);
        }
        enum hsp_status rc = hsp_value_add(s, &v, &s->state[param * HSP_N_STATE_KINDS + k], err);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    return HSP_OK;
}

/* Whether every rank's home is its use. All or nothing: that two boxes happen to be equal under
 * some shares must not change a program's structure. */
static enum hsp_status home_is_use(struct hsp_compiler *c, uint32_t param, bool *ret,
                                   struct hsp_err *err)
{
    struct hsp_cover use;
    enum hsp_status rc = HSP_OK;
    hsp_cover_init(&use, c->home[param].rank, c->home[param].extent);
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        const struct hsp_stagecode *s = &c->stage[i];
        struct hsp_layout l;
        if (!hsp_stage_uses(c->g, c->units, &c->p->streams[s->stream], s->stage, param)) {
            continue;
        }
        rc = hsp_param_use(c->g, s->group, param, c->arena, &l, err);
        for (uint32_t j = 0; rc == HSP_OK && j < l.n; j++) {
            rc = hsp_cover_add(&use, s->group->ranks[j], 0, &l.box[j]);
            if (rc != HSP_OK) {
                rc = no_memory(c, param, err);
            }
        }
    }
    hsp_cover_normalise(&use);
    *ret = hsp_cover_equal(&use, &c->home[param]);
    hsp_cover_fini(&use);
    return rc;
}

/* State and use of one parameter on one stage; @same: the state itself is used. */
static enum hsp_status declare(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                               bool same, struct hsp_err *err)
{
    struct hsp_layout home, use;
    bool *present = NULL, any = false;
    bool uses = hsp_stage_uses(c->g, c->units, &c->p->streams[s->stream], s->stage, param);
    enum hsp_status rc = home_layout(c, s, param, &home, &present, err);
    if (rc == HSP_OK && uses) {
        rc = hsp_param_use(c->g, s->group, param, c->arena, &use, err);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    for (uint32_t j = 0; j < s->group->n; j++) {
        any = any || present[j];
    }
    if (uses && same) {
        memcpy(home.cut, use.cut, sizeof home.cut);
    }
    if (any) {
        rc = add_state(c, s, param, &home, present, err);
    }
    if (rc != HSP_OK || !uses) {
        return rc;
    }
    uint32_t v = HSP_NONE;
    rc = hsp_value_version(c, s, c->g->params[param].tensor, "#use", &use, &v, err);
    bool *is_alias = hsp_arena_array(c->arena, s->group->n, sizeof *is_alias);
    if (rc != HSP_OK || is_alias == NULL) {
        return rc != HSP_OK ? rc : no_memory(c, param, err);
    }
    for (uint32_t j = 0; j < s->group->n; j++) {
        is_alias[j] = same;
    }
    s->value[v].cls = HSP_CLASS_STEP;
    s->value[v].param = param;
    s->value[v].alias = s->state[param * HSP_N_STATE_KINDS + HSP_STATE_PARAM];
    s->value[v].is_alias = is_alias;
    return HSP_OK;
}

/* The boxes of @value that members hold apart from their state; nothing for HSP_NONE. */
static enum hsp_status add_values(const struct hsp_stagecode *s, uint32_t value,
                                  struct hsp_cover *ret, struct hsp_err *err)
{
    return value == HSP_NONE ? HSP_OK : hsp_value_cover(s, &s->value[value], true, ret, err);
}

/* One RESHARD step on every stage that has one of the two values. */
static enum hsp_status reshard_steps(struct hsp_stagecode *s, uint32_t part, uint32_t reshard,
                                     uint32_t in, uint32_t out, struct hsp_err *err)
{
    struct hsp_step st = hsp_step_make(HSP_I_RESHARD, HSP_QUEUE_COMM);
    if (in == HSP_NONE && out == HSP_NONE) {
        return HSP_OK;
    }
    st.arg = reshard;
    st.n_in = in != HSP_NONE;
    st.in[0] = in;
    st.n_out = out != HSP_NONE;
    st.out[0] = out;
    return hsp_step_add(s, part, SIZE_MAX, &st, err);
}

static uint32_t use_value(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                          uint32_t param)
{
    return s->version[c->g->params[param].tensor];
}

static enum hsp_status gather_param(struct hsp_compiler *c, uint32_t param, struct hsp_err *err)
{
    const char *name = c->g->tensors[c->g->params[param].tensor].name;
    struct hsp_cover dst;
    uint32_t reshard = HSP_NONE;
    hsp_cover_init(&dst, c->home[param].rank, c->home[param].extent);
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        struct hsp_stagecode *s = &c->stage[i];
        rc = add_values(s, use_value(c, s, param), &dst, err);
    }
    bool needed = dst.n > 0;
    if (rc == HSP_OK && needed) {
        rc = hsp_reshard_add(c, name, false, false, &c->home[param], &dst, &reshard, err);
    }
    hsp_cover_fini(&dst);
    for (uint32_t i = 0; rc == HSP_OK && needed && i < c->n_stages; i++) {
        struct hsp_stagecode *s = &c->stage[i];
        rc = reshard_steps(s, HSP_PART_PRE, reshard, s->state[param * HSP_N_STATE_KINDS],
                           use_value(c, s, param), err);
    }
    return rc;
}

enum hsp_status hsp_param_pre(struct hsp_compiler *c, struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t p = 0; rc == HSP_OK && p < c->g->n_params; p++) {
        bool same = false;
        rc = home_is_use(c, p, &same, err);
        for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
            rc = declare(c, &c->stage[i], p, same, err);
        }
        if (rc == HSP_OK) {
            rc = gather_param(c, p, err);
        }
    }
    return rc;
}

/* ---- Post ---- */

/* A value for something of @param that lives in Post only. */
static enum hsp_status post_value(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                  const char *suffix, const struct hsp_layout *at, bool *present,
                                  uint32_t *ret, struct hsp_err *err)
{
    const struct hsp_tensor *t = &c->g->tensors[c->g->params[param].tensor];
    struct hsp_value v = {.dtype = t->dtype,
                          .cls = HSP_CLASS_MICRO,
                          .tensor = HSP_NONE,
                          .next = HSP_NONE,
                          .param = param,
                          .at = *at,
                          .present = present,
                          .alias = HSP_NONE};
    v.name = hsp_arena_printf(c->arena, "%s%s", t->name, suffix);
    return v.name == NULL ? no_memory(c, param, err) : hsp_value_add(s, &v, ret, err);
}

/* True when every home box is the accumulator of its rank, and nobody else holds any of it. */
static bool already_home(const struct hsp_cover *src, const struct hsp_cover *home)
{
    if (src->n != home->n) {
        return false;
    }
    for (uint32_t i = 0; i < src->n; i++) {
        if (src->items[i].rank != home->items[i].rank ||
            !hsp_box_equal(&src->items[i].box, &home->items[i].box)) {
            return false;
        }
        for (uint32_t k = 0; k < i; k++) {
            struct hsp_box both;
            if (hsp_box_cut(&src->items[i].box, &src->items[k].box, &both)) {
                return false;
            }
        }
    }
    return true;
}

/* The summed gradient of @param in its home layout: @grad[stage], HSP_NONE where there is no home.
 */
static enum hsp_status reduce_grad(struct hsp_compiler *c, uint32_t param, uint32_t *grad,
                                   struct hsp_err *err)
{
    const char *name = c->g->tensors[c->g->params[param].tensor].name;
    struct hsp_cover src;
    uint32_t reshard = HSP_NONE;
    enum hsp_status rc = HSP_OK;
    hsp_cover_init(&src, c->home[param].rank, c->home[param].extent);
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        rc = add_values(&c->stage[i], c->stage[i].acc[param], &src, err);
    }
    if (rc == HSP_OK) {
        hsp_cover_normalise(&src);
    }
    if (rc == HSP_OK && already_home(&src, &c->home[param])) {
        for (uint32_t i = 0; i < c->n_stages; i++) {
            grad[i] = c->stage[i].acc[param];
        }
        hsp_cover_fini(&src);
        return HSP_OK;
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        struct hsp_stagecode *s = &c->stage[i];
        uint32_t home = s->state[param * HSP_N_STATE_KINDS];
        grad[i] = HSP_NONE;
        if (home != HSP_NONE) {
            struct hsp_value h = s->value[home]; /* the vector may move */
            rc = post_value(c, s, param, "#grad", &h.at, h.present, &grad[i], err);
        }
    }
    if (rc == HSP_OK) {
        rc = hsp_reshard_add(c, name, false, true, &src, &c->home[param], &reshard, err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        struct hsp_stagecode *s = &c->stage[i];
        rc = reshard_steps(s, HSP_PART_POST, reshard, s->acc[param], grad[i], err);
    }
    hsp_cover_fini(&src);
    return rc;
}

/* Adds the squares of @value on member @j to the norm. */
static enum hsp_status square(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                              uint32_t value, uint32_t j, struct hsp_err *err)
{
    struct hsp_step op = hsp_step_make(HSP_I_OP, HSP_QUEUE_COMPUTE);
    struct hsp_step stat = hsp_step_make(HSP_I_STAT, HSP_QUEUE_COMPUTE);
    struct hsp_layout scalar;
    uint32_t v = HSP_NONE;
    enum hsp_status rc = hsp_layout_whole(0, NULL, s->group->n, c->arena, &scalar, err);
    if (rc == HSP_OK) {
        rc = post_value(c, s, param, "#sqsum", &scalar, NULL, &v, err);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    s->value[v].dtype = HSP_F64;
    op.op = HSP_OP_SQSUM;
    op.only = stat.only = j;
    op.n_in = op.n_out = stat.n_in = 1;
    op.in[0] = value;
    op.out[0] = stat.in[0] = v;
    stat.arg = HSP_STAT_SQNORM;
    rc = hsp_step_add(s, HSP_PART_POST, SIZE_MAX, &op, err);
    return rc == HSP_OK ? hsp_step_add(s, HSP_PART_POST, SIZE_MAX, &stat, err) : rc;
}

/* Squares of one owned box that is only a part of the member's gradient. */
static enum hsp_status square_part(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                   uint32_t grad, uint32_t j, const struct hsp_box *box,
                                   struct hsp_err *err)
{
    uint32_t rank = s->group->ranks[j], v = HSP_NONE;
    struct hsp_step st = hsp_step_make(HSP_I_RESHARD, HSP_QUEUE_COMPUTE);
    struct hsp_layout at = s->value[grad].at;
    struct hsp_cover src, dst;
    at.box = hsp_arena_memdup(c->arena, at.box, at.n * sizeof *at.box);
    if (at.box == NULL) {
        return no_memory(c, param, err);
    }
    at.box[j] = *box;
    for (uint8_t d = 0; d < at.rank; d++) {
        at.cut[d] = HSP_CUT_OWNED | (s->n_owned++ & ~HSP_CUT_OWNED);
    }
    enum hsp_status rc = post_value(c, s, param, "#owned", &at, NULL, &v, err);
    if (rc != HSP_OK) {
        return rc;
    }
    hsp_cover_init(&src, at.rank, at.extent);
    hsp_cover_init(&dst, at.rank, at.extent);
    rc = hsp_cover_add(&src, rank, rank, &s->value[grad].at.box[j]);
    if (rc == HSP_OK) {
        rc = hsp_cover_add(&dst, rank, rank, box);
    }
    if (rc == HSP_OK) {
        rc = hsp_reshard_add(c, s->value[v].name, false, false, &src, &dst, &st.arg, err);
    } else {
        (void)no_memory(c, param, err);
    }
    hsp_cover_fini(&src);
    hsp_cover_fini(&dst);
    st.only = j;
    st.n_in = st.n_out = 1;
    st.in[0] = grad;
    st.out[0] = v;
    if (rc == HSP_OK) {
        rc = hsp_step_add(s, HSP_PART_POST, SIZE_MAX, &st, err);
    }
    return rc == HSP_OK ? square(c, s, param, v, j, err) : rc;
}

/* The squared norm: every element is counted by its owner. */
static enum hsp_status add_norm(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                uint32_t grad, struct hsp_err *err)
{
    const struct hsp_value home = s->value[s->state[param * HSP_N_STATE_KINDS]];
    enum hsp_status rc = HSP_OK;
    for (uint32_t j = 0; rc == HSP_OK && j < s->group->n; j++) {
        struct hsp_box *own = NULL;
        uint32_t n = 0;
        if (!home.present[j]) {
            continue;
        }
        rc = hsp_home_owned(&c->home[param], s->group->ranks[j], c->arena, &own, &n, err);
        bool all = n == 1 && hsp_box_equal(&own[0], &home.at.box[j]);
        if (rc == HSP_OK && (all || hsp_box_empty(&home.at.box[j]))) {
            rc = square(c, s, param, grad, j, err);
            continue;
        }
        for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
            rc = square_part(c, s, param, grad, j, &own[i], err);
        }
    }
    return rc;
}

static enum hsp_status add_update(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                  uint32_t grad, struct hsp_err *err)
{
    const uint32_t *state = &s->state[param * HSP_N_STATE_KINDS];
    double decay = c->g->params[param].decay ? c->t->weight_decay : 0;
    struct hsp_step st = hsp_step_make(HSP_I_OP, HSP_QUEUE_COMPUTE);
    if (c->t->hyper.optimizer == HSP_OPT_ADAMW) {
        st.op = HSP_OP_ADAMW;
        st.n_out = 3;
        st.at.f[0] = c->t->hyper.beta1;
        st.at.f[1] = c->t->hyper.beta2;
        st.at.f[2] = c->t->eps;
        st.at.f[3] = decay;
    } else {
        st.op = HSP_OP_SGDM;
        st.n_out = 2;
        st.at.f[0] = c->t->momentum;
        st.at.f[1] = decay;
    }
    for (uint32_t k = 0, n = 0; k < HSP_N_STATE_KINDS; k++) {
        if (state[k] != HSP_NONE) {
            st.in[n] = st.out[n] = state[k];
            n++;
        }
    }
    st.n_in = (uint8_t)(st.n_out + 1);
    st.in[st.n_out] = grad;
    return hsp_step_add(s, HSP_PART_POST, SIZE_MAX, &st, err);
}

static enum hsp_status finish_post(struct hsp_compiler *c, uint32_t stage, const uint32_t *grads,
                                   struct hsp_err *err)
{
    struct hsp_stagecode *s = &c->stage[stage];
    struct hsp_step vote = hsp_step_make(HSP_I_VOTE, HSP_QUEUE_COMM);
    struct hsp_step seal = hsp_step_make(HSP_I_SEAL, HSP_QUEUE_COMPUTE);
    enum hsp_status rc = HSP_OK;
    for (uint32_t p = 0; rc == HSP_OK && p < c->g->n_params; p++) {
        if (s->state[p * HSP_N_STATE_KINDS] != HSP_NONE) {
            rc = add_norm(c, s, p, grads[(size_t)p * c->n_stages + stage], err);
        }
    }
    if (rc == HSP_OK) {
        rc = hsp_step_add(s, HSP_PART_POST, SIZE_MAX, &vote, err);
    }
    for (uint32_t p = 0; rc == HSP_OK && p < c->g->n_params; p++) {
        if (s->state[p * HSP_N_STATE_KINDS] != HSP_NONE) {
            rc = add_update(c, s, p, grads[(size_t)p * c->n_stages + stage], err);
        }
    }
    return rc == HSP_OK ? hsp_step_add(s, HSP_PART_POST, SIZE_MAX, &seal, err) : rc;
}

enum hsp_status hsp_param_post(struct hsp_compiler *c, struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    size_t n = (size_t)c->g->n_params * c->n_stages;
    uint32_t *grads = hsp_arena_array(c->arena, n, sizeof *grads);
    if (grads == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "gradients of %u parameters", c->g->n_params);
    }
    for (uint32_t p = 0; rc == HSP_OK && p < c->g->n_params; p++) {
        rc = reduce_grad(c, p, &grads[(size_t)p * c->n_stages], err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        rc = finish_post(c, i, grads, err);
    }
    return rc;
}
