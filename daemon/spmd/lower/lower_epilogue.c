#include "daemon/spmd/lower/lower_epilogue.h"

#include "daemon/spmd/lower/param_slots.h"
#include "proto/layout/box.h"

#include "daemon/spmd/sharding/param_owners.h"
/* A value for something of @param that lives in Post only. */
static enum hsp_status post_value(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                  uint32_t slot, const char *suffix, const struct hsp_layout *at,
                                  bool *present, uint32_t *ret, struct hsp_err *err)
{
    struct hsp_value v = {.dtype = (uint8_t)c->g->spec.dtype,
                          .cls = HSP_CLASS_MICRO,
                          .tensor = HSP_NONE,
                          .next = HSP_NONE,
                          .slot = slot,
                          .param = param,
                          .at = *at,
                          .present = present,
                          .alias = HSP_NONE};
    v.name = hsp_slot_name(c, param, slot, suffix);
    return v.name == NULL ? hsp_param_no_memory(c, param, err) : hsp_value_add(s, &v, ret, err);
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

/* The gradients of one stage: a value for each slot of its home. */
static enum hsp_status add_grads(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                 uint32_t *ret, struct hsp_err *err)
{
    uint32_t home = s->state[param * HSP_N_STATE_KINDS];
    enum hsp_status rc = HSP_OK;
    *ret = HSP_NONE;
    while (rc == HSP_OK && home != HSP_NONE) {
        struct hsp_value h = s->value[home]; /* the vector may move */
        uint32_t v = HSP_NONE;
        rc = post_value(c, s, param, h.slot, "#grad", &h.at, h.present, &v, err);
        if (rc == HSP_OK) {
            hsp_slot_link(s, ret, v);
        }
        home = h.next;
    }
    return rc;
}

/* The sum of @src to the boxes of one slot. */
static enum hsp_status reduce_slot(struct hsp_compiler *c, uint32_t param, uint32_t slot,
                                   struct hsp_cover *src, const uint32_t *grad, struct hsp_err *err)
{
    const char *name = c->g->tensors[c->g->params[param].tensor].name;
    struct hsp_cover home;
    uint32_t reshard = HSP_NONE;
    enum hsp_status rc = hsp_slot_cover(c, param, slot, &home, err);
    if (rc == HSP_OK) {
        rc = hsp_reshard_add(c, name, false, true, src, &home, &reshard, err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        struct hsp_stagecode *s = &c->stage[i];
        rc = hsp_param_steps(s, HSP_PART_POST, reshard, s->acc[param],
                             hsp_slot_find(s, grad[i], slot), err);
    }
    hsp_cover_fini(&home);
    return rc;
}

/* The summed gradient of @param in its home layout: @grad[stage], the first slot's, HSP_NONE where
 * there is no home. */
static enum hsp_status reduce_grad(struct hsp_compiler *c, uint32_t param, uint32_t *grad,
                                   struct hsp_err *err)
{
    struct hsp_cover src;
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; c->grad_at_home[param] && i < c->n_stages; i++) {
        grad[i] = c->stage[i].acc[param];
    }
    if (c->grad_at_home[param]) {
        return HSP_OK;
    }
    hsp_cover_init(&src, c->home[param].rank, c->home[param].extent);
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        rc = hsp_param_cover(&c->stage[i], c->stage[i].acc[param], &src, err);
    }
    if (rc == HSP_OK) {
        hsp_cover_normalise(&src);
    }
    bool home = rc == HSP_OK && already_home(&src, &c->home[param]);
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        if (home) {
            grad[i] = c->stage[i].acc[param];
        } else {
            rc = add_grads(c, &c->stage[i], param, &grad[i], err);
        }
    }
    for (uint32_t slot = 0; rc == HSP_OK && !home && slot < c->slots[param].n; slot++) {
        rc = reduce_slot(c, param, slot, &src, grad, err);
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
        rc = post_value(c, s, param, s->value[value].slot, "#sqsum", &scalar, NULL, &v, err);
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
        return hsp_param_no_memory(c, param, err);
    }
    at.box[j] = *box;
    for (uint8_t d = 0; d < at.rank; d++) {
        at.cut[d] = HSP_CUT_OWNED | (s->n_owned++ & ~HSP_CUT_OWNED);
    }
    enum hsp_status rc = post_value(c, s, param, s->value[grad].slot, "#owned", &at, NULL, &v, err);
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
        (void)hsp_param_no_memory(c, param, err);
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

/* Squares of the part that member @j owns of one slot of a home: all of the box, or parts of it. */
static enum hsp_status square_slot(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                   uint32_t grad, uint32_t j, const struct hsp_box *box,
                                   struct hsp_box *own, uint32_t n_own, struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_own; i++) {
        struct hsp_box part;
        if (hsp_box_cut(&own[i], box, &part)) {
            own[n++] = part;
        }
    }
    if (hsp_box_empty(box) || (n == 1 && hsp_box_equal(&own[0], box))) {
        return square(c, s, param, grad, j, err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
        rc = square_part(c, s, param, grad, j, &own[i], err);
    }
    return rc;
}

/* The squared norm: every element is counted by its owner. @grad: of the first slot. */
static enum hsp_status add_norm(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                uint32_t grad, struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    uint32_t home = s->state[param * HSP_N_STATE_KINDS];
    while (rc == HSP_OK && home != HSP_NONE) {
        const struct hsp_value h = s->value[home]; /* the vector may move */
        for (uint32_t j = 0; rc == HSP_OK && j < s->group->n; j++) {
            struct hsp_box *own = NULL;
            uint32_t n = 0;
            if (!h.present[j]) {
                continue;
            }
            rc = hsp_home_owned(&c->home[param], s->group->ranks[j], c->arena, &own, &n, err);
            if (rc == HSP_OK) {
                rc = square_slot(c, s, param, hsp_slot_find(s, grad, h.slot), j, &h.at.box[j], own,
                                 n, err);
            }
        }
        home = h.next;
    }
    return rc;
}

/* The update of one slot. */
static enum hsp_status add_update(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                  uint32_t slot, uint32_t grad, struct hsp_err *err)
{
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
        uint32_t state = hsp_slot_state(s, param, k, slot);
        if (state != HSP_NONE) {
            st.in[n] = st.out[n] = state;
            n++;
        }
    }
    st.n_in = (uint8_t)(st.n_out + 1);
    st.in[st.n_out] = grad;
    return hsp_step_add(s, HSP_PART_POST, SIZE_MAX, &st, err);
}

static enum hsp_status add_updates(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                   uint32_t grad, struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t v = s->state[param * HSP_N_STATE_KINDS]; rc == HSP_OK && v != HSP_NONE;
         v = s->value[v].next) {
        uint32_t slot = s->value[v].slot;
        rc = add_update(c, s, param, slot, hsp_slot_find(s, grad, slot), err);
    }
    return rc;
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
            rc = add_updates(c, s, p, grads[(size_t)p * c->n_stages + stage], err);
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
        return hsp_err_nomem(err, "gradients of %u parameters", c->g->n_params);
    }
    for (uint32_t p = 0; rc == HSP_OK && p < c->g->n_params; p++) {
        rc = reduce_grad(c, p, &grads[(size_t)p * c->n_stages], err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        rc = finish_post(c, i, grads, err);
    }
    return rc;
}
