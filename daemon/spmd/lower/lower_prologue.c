#include "daemon/spmd/lower/lower_prologue.h"

#include <string.h>

#include "daemon/spmd/lower/param_slots.h"
#include "daemon/spmd/sharding/param_use.h"
#include "proto/layout/box.h"
#include "proto/layout/canon.h"

static const char *const kind_suffix[HSP_N_STATE_KINDS] = {"", "#m", "#v", "#momentum"};

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

/* The boxes of the home of @param in @slot as a layout of this stage. */
static enum hsp_status home_layout(struct hsp_compiler *c, const struct hsp_stagecode *s,
                                   uint32_t param, uint32_t slot, struct hsp_layout *ret,
                                   bool **ret_present, struct hsp_err *err)
{
    const struct hsp_cover *home = &c->home[param];
    enum hsp_status rc =
        hsp_layout_whole(home->rank, home->extent, s->group->n, c->arena, ret, err);
    bool *present = hsp_arena_array(c->arena, s->group->n, sizeof *present);
    if (rc != HSP_OK || present == NULL) {
        return rc != HSP_OK ? rc : hsp_param_no_memory(c, param, err);
    }
    for (uint32_t i = 0; i < home->n; i++) {
        const struct hsp_held *h = &home->items[i];
        if (c->slots[param].of[i] != slot) {
            continue;
        }
        for (uint32_t j = 0; j < s->group->n; j++) {
            if (s->group->ranks[j] == h->rank) {
                ret->box[j] = h->box;
                present[j] = true;
            }
        }
        for (uint8_t d = 0; d < home->rank; d++) {
            if (h->box.lo[d] != 0 || h->box.hi[d] != home->extent[d]) {
                ret->cut[d] =
                    HSP_CUT_HOME | slot << HSP_CUT_HOME_SHIFT | (param * HSP_MAX_RANK + d);
            }
        }
    }
    *ret_present = present;
    return HSP_OK;
}

static enum hsp_status add_state(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                 uint32_t slot, const struct hsp_layout *at, bool *present,
                                 struct hsp_err *err)
{
    for (uint32_t k = 0; k < HSP_N_STATE_KINDS; k++) {
        if (!has_kind(c, k)) {
            continue;
        }
        struct hsp_value v = {.dtype = (uint8_t)c->g->spec.dtype,
                              .cls = HSP_CLASS_STATE,
                              .tensor = HSP_NONE,
                              .state_kind = (uint8_t)k,
                              .next = HSP_NONE,
                              .slot = slot,
                              .param = param,
                              .at = *at,
                              .present = present,
                              .alias = HSP_NONE};
        uint32_t value = HSP_NONE;
        v.name = hsp_slot_name(c, param, slot, kind_suffix[k]);
        if (v.name == NULL) {
            return hsp_param_no_memory(c, param, err);
        }
        enum hsp_status rc = hsp_value_add(s, &v, &value, err);
        if (rc != HSP_OK) {
            return rc;
        }
        hsp_slot_link(s, &s->state[param * HSP_N_STATE_KINDS + k], value);
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
        if (!hsp_stage_uses_param(c->g, c->units, &c->p->pipelines[s->pipeline], s->stage, param)) {
            continue;
        }
        rc = hsp_param_use(c->g, s->group, param, c->arena, &l, err);
        for (uint32_t j = 0; rc == HSP_OK && j < l.n; j++) {
            rc = hsp_cover_add(&use, s->group->ranks[j], 0, &l.box[j]);
            if (rc != HSP_OK) {
                rc = hsp_param_no_memory(c, param, err);
            }
        }
    }
    hsp_cover_normalise(&use);
    *ret = hsp_cover_equal(&use, &c->home[param]);
    hsp_cover_fini(&use);
    return rc;
}

/* The state of one parameter on one stage; @use: its cuts are those of its use, which it is. */
static enum hsp_status declare_home(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                    const struct hsp_layout *use, struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t slot = 0; rc == HSP_OK && slot < c->slots[param].n; slot++) {
        struct hsp_layout home;
        bool *present = NULL, any = false;
        rc = home_layout(c, s, param, slot, &home, &present, err);
        for (uint32_t j = 0; rc == HSP_OK && j < s->group->n; j++) {
            any = any || present[j];
        }
        if (rc == HSP_OK && use != NULL) {
            memcpy(home.cut, use->cut, sizeof home.cut);
        }
        rc = rc == HSP_OK && any ? add_state(c, s, param, slot, &home, present, err) : rc;
    }
    return rc;
}

/* The parameter in the type of its use, where it is stored: cast once per step, so that it is
 * smaller on its way to the uses. @kept: read behind Pre, too. */
static enum hsp_status add_copies(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                                  bool kept, struct hsp_err *err)
{
    const struct hsp_tensor *t = &c->g->tensors[c->g->params[param].tensor];
    uint32_t home = s->state[param * HSP_N_STATE_KINDS + HSP_STATE_PARAM];
    enum hsp_status rc = HSP_OK;
    while (rc == HSP_OK && home != HSP_NONE && t->dtype != c->g->spec.dtype) {
        struct hsp_step st = hsp_step_make(HSP_I_OP, HSP_QUEUE_COMPUTE);
        struct hsp_value v = s->value[home];
        st.op = HSP_OP_NARROW;
        st.n_in = st.n_out = 1;
        st.in[0] = home;
        home = v.next;
        v.dtype = t->dtype;
        v.cls = kept ? HSP_CLASS_STEP : HSP_CLASS_MICRO;
        v.next = HSP_NONE;
        v.name = hsp_slot_name(c, param, v.slot, "#copy");
        if (v.name == NULL) {
            return hsp_param_no_memory(c, param, err);
        }
        rc = hsp_value_add(s, &v, &st.out[0], err);
        if (rc == HSP_OK) {
            hsp_slot_link(s, &s->copy[param], st.out[0]);
            rc = hsp_step_add(s, HSP_PART_PRE, SIZE_MAX, &st, err);
        }
    }
    return rc;
}

/* State and use of one parameter on one stage; @same: the state itself, or its copy, is used. */
static enum hsp_status declare(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t param,
                               bool same, struct hsp_err *err)
{
    struct hsp_layout use;
    bool uses =
        hsp_stage_uses_param(c->g, c->units, &c->p->pipelines[s->pipeline], s->stage, param);
    enum hsp_status rc = uses ? hsp_param_use(c->g, s->group, param, c->arena, &use, err) : HSP_OK;
    rc = rc == HSP_OK ? declare_home(c, s, param, uses && same ? &use : NULL, err) : rc;
    bool kept = same || c->p->zero == HSP_ZERO_PARAMETERS;
    rc = rc == HSP_OK ? add_copies(c, s, param, kept, err) : rc;
    if (rc != HSP_OK || !uses) {
        return rc;
    }
    uint32_t v = HSP_NONE;
    rc = hsp_value_version(c, s, c->g->params[param].tensor, "#use", &use, &v, err);
    bool *is_alias = hsp_arena_array(c->arena, s->group->n, sizeof *is_alias);
    if (rc != HSP_OK || is_alias == NULL) {
        return rc != HSP_OK ? rc : hsp_param_no_memory(c, param, err);
    }
    for (uint32_t j = 0; j < s->group->n; j++) {
        is_alias[j] = same;
    }
    s->value[v].cls = HSP_CLASS_STEP;
    s->value[v].param = param;
    s->value[v].alias = hsp_slot_source(s, param, 0);
    s->value[v].is_alias = is_alias;
    return HSP_OK;
}

enum hsp_status hsp_slot_uses(const struct hsp_compiler *c, uint32_t param, uint32_t slot,
                              const struct hsp_cover *uses, struct hsp_cover *ret,
                              struct hsp_err *err)
{
    const struct hsp_cover *home = &c->home[param];
    enum hsp_status rc = HSP_OK;
    hsp_cover_init(ret, home->rank, home->extent);
    bool all = c->slots[param].n == 1; /* as it is */
    for (uint32_t i = 0; rc == HSP_OK && i < uses->n; i++) {
        const struct hsp_held *u = &uses->items[i];
        rc = all ? hsp_cover_add(ret, u->rank, u->addend, &u->box) : HSP_OK;
        for (uint32_t k = 0; rc == HSP_OK && !all && k < home->n; k++) {
            struct hsp_box both;
            if (c->slots[param].of[k] == slot && hsp_box_cut(&u->box, &home->items[k].box, &both)) {
                rc = hsp_cover_add(ret, u->rank, 0, &both);
            }
        }
    }
    rc = rc == HSP_OK && !all ? hsp_cover_canonical(ret) : rc;
    return rc == HSP_OK ? rc : hsp_param_no_memory(c, param, err);
}

static enum hsp_status gather_slot(struct hsp_compiler *c, uint32_t param, uint32_t slot,
                                   const struct hsp_cover *uses, struct hsp_err *err)
{
    const char *name = c->g->tensors[c->g->params[param].tensor].name;
    struct hsp_cover src, dst;
    uint32_t reshard = HSP_NONE;
    enum hsp_status rc = hsp_slot_cover(c, param, slot, &src, err);
    enum hsp_status st = hsp_slot_uses(c, param, slot, uses, &dst, err);
    rc = rc == HSP_OK ? st : rc;
    bool needed = dst.n > 0;
    if (rc == HSP_OK && needed) {
        rc = hsp_reshard_add(c, name, false, false, &src, &dst, &reshard, err);
    }
    hsp_cover_fini(&src);
    hsp_cover_fini(&dst);
    for (uint32_t i = 0; rc == HSP_OK && needed && i < c->n_stages; i++) {
        struct hsp_stagecode *s = &c->stage[i];
        rc = hsp_param_steps(s, HSP_PART_PRE, reshard, hsp_slot_source(s, param, slot),
                             hsp_param_use_value(c, s, param), err);
    }
    return rc;
}

static enum hsp_status gather_param(struct hsp_compiler *c, uint32_t param, struct hsp_err *err)
{
    struct hsp_cover uses;
    enum hsp_status rc = HSP_OK;
    hsp_cover_init(&uses, c->home[param].rank, c->home[param].extent);
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        struct hsp_stagecode *s = &c->stage[i];
        rc = hsp_param_cover(s, hsp_param_use_value(c, s, param), &uses, err);
    }
    for (uint32_t slot = 0; rc == HSP_OK && slot < c->slots[param].n; slot++) {
        rc = gather_slot(c, param, slot, &uses, err);
    }
    hsp_cover_fini(&uses);
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
    }
    for (uint32_t p = 0; p < c->g->n_params && c->p->zero != HSP_ZERO_PARAMETERS; p++) {
        rc = rc == HSP_OK ? gather_param(c, p, err) : rc;
    }
    return rc;
}
