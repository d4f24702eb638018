#include "daemon/spmd/lower/param_slots.h"

enum hsp_status hsp_param_no_memory(const struct hsp_compiler *c, uint32_t param,
                                    struct hsp_err *err)
{
    return hsp_err_nomem(err, "code of parameter %s",
                         c->g->tensors[c->g->params[param].tensor].name);
}

const char *hsp_slot_name(const struct hsp_compiler *c, uint32_t param, uint32_t slot,
                          const char *suffix)
{
    const char *name = c->g->tensors[c->g->params[param].tensor].name;
    return slot == 0 ? hsp_arena_printf(c->arena, "%s%s", name, suffix)
                     : hsp_arena_printf(c->arena, "%s#%u%s", name, slot, suffix);
}

void hsp_slot_link(struct hsp_stagecode *s, uint32_t *first, uint32_t value)
{
    while (*first != HSP_NONE) {
        first = &s->value[*first].next;
    }
    *first = value;
}

uint32_t hsp_slot_find(const struct hsp_stagecode *s, uint32_t first, uint32_t slot)
{
    while (first != HSP_NONE && s->value[first].slot != slot) {
        first = s->value[first].next;
    }
    return first;
}

uint32_t hsp_slot_state(const struct hsp_stagecode *s, uint32_t param, uint32_t kind, uint32_t slot)
{
    return hsp_slot_find(s, s->state[param * HSP_N_STATE_KINDS + kind], slot);
}

uint32_t hsp_slot_source(const struct hsp_stagecode *s, uint32_t param, uint32_t slot)
{
    uint32_t copy = hsp_slot_find(s, s->copy[param], slot);
    return copy != HSP_NONE ? copy : hsp_slot_state(s, param, HSP_STATE_PARAM, slot);
}

enum hsp_status hsp_param_cover(const struct hsp_stagecode *s, uint32_t value,
                                struct hsp_cover *ret, struct hsp_err *err)
{
    return value == HSP_NONE ? HSP_OK : hsp_value_cover(s, &s->value[value], true, ret, err);
}

enum hsp_status hsp_param_steps(struct hsp_stagecode *s, uint32_t part, uint32_t reshard,
                                uint32_t in, uint32_t out, struct hsp_err *err)
{
    return hsp_param_meet(s, part, 0, reshard, in, out, err);
}

enum hsp_status hsp_param_meet(struct hsp_stagecode *s, uint32_t part, uint32_t meets,
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

uint32_t hsp_param_use_value(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                             uint32_t param)
{
    return s->version[c->g->params[param].tensor];
}

enum hsp_status hsp_slot_cover(const struct hsp_compiler *c, uint32_t param, uint32_t slot,
                               struct hsp_cover *ret, struct hsp_err *err)
{
    const struct hsp_cover *home = &c->home[param];
    enum hsp_status rc = HSP_OK;
    hsp_cover_init(ret, home->rank, home->extent);
    for (uint32_t i = 0; rc == HSP_OK && i < home->n; i++) {
        if (c->slots[param].of[i] == slot) {
            const struct hsp_held *h = &home->items[i];
            rc = hsp_cover_add(ret, h->rank, h->addend, &h->box);
        }
    }
    return rc == HSP_OK ? rc : hsp_param_no_memory(c, param, err);
}
