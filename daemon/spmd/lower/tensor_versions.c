#include "daemon/spmd/lower/tensor_versions.h"

#include "daemon/spmd/sharding/activation_rest.h"
#include "proto/base/check.h"

/* The version to start from: the first complete one, else the first. */
uint32_t hsp_version_best(const struct hsp_stagecode *s, uint32_t tensor)
{
    for (uint32_t v = s->version[tensor]; v != HSP_NONE; v = s->value[v].next) {
        if (!hsp_layout_partial(&s->value[v].at)) {
            return v;
        }
    }
    return s->version[tensor];
}

static uint32_t find_version(const struct hsp_stagecode *s, uint32_t tensor,
                             const struct hsp_layout *at)
{
    for (uint32_t v = s->version[tensor]; v != HSP_NONE; v = s->value[v].next) {
        if (hsp_layout_equal(&s->value[v].at, at)) {
            return v;
        }
    }
    return HSP_NONE;
}

/* A new version of @from's tensor in layout @at. A sum between groups may stay one while each group
 * completes its addend; other sums are completed or sliced. */
static enum hsp_status reshard_version(struct hsp_compiler *c, struct hsp_stagecode *s,
                                       uint32_t part, uint32_t from, const struct hsp_layout *at,
                                       uint32_t *ret, struct hsp_err *err)
{
    const struct hsp_layout have = s->value[from].at;
    bool slice = hsp_layout_inside(at, &have);
    bool sum = have.partial != at->partial;
    const char *suffix = slice ? "#slice" : sum ? "#sum" : "#whole";
    struct hsp_step st = hsp_step_make(HSP_I_RESHARD, slice ? HSP_QUEUE_COMPUTE : HSP_QUEUE_COMM);
    enum hsp_apart apart = at->partial == 0 ? HSP_APART_NOT
                           : slice          ? HSP_APART_MEMBERS
                                            : HSP_APART_GROUPS;
    uint32_t v = HSP_NONE;
    HSP_ASSERT(slice || at->partial == 0 ||
               (at->partial == HSP_OVER_GROUPS && (have.partial & HSP_OVER_GROUPS) != 0));
    enum hsp_status rc = hsp_value_version(c, s, s->value[from].tensor, suffix, at, &v, err);
    if (rc == HSP_OK) {
        rc = hsp_reshard_values(c, s, from, v, apart, &st.arg, err);
    }
    if (rc == HSP_OK) {
        st.n_in = st.n_out = 1;
        st.in[0] = from;
        st.out[0] = v;
        rc = hsp_step_add(s, part, slice ? SIZE_MAX : hsp_step_after(s, part, from), &st, err);
        *ret = v;
    }
    return rc;
}

/* Inputs are read, and the seed is written, by every member as it needs them. */
static enum hsp_status load_tensor(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t part,
                                   uint32_t tensor, const struct hsp_layout *at, uint32_t *ret,
                                   struct hsp_err *err)
{
    const struct hsp_tensor *t = &c->g->tensors[tensor];
    bool seed = t->kind == HSP_TENSOR_SEED;
    struct hsp_step st = hsp_step_make(seed ? HSP_I_ONE : HSP_I_LOAD, HSP_QUEUE_COMPUTE);
    enum hsp_status rc = hsp_value_version(c, s, tensor, "", at, ret, err);
    st.n_out = 1;
    st.out[0] = *ret;
    st.arg = seed ? 0 : t->load;
    return rc == HSP_OK ? hsp_step_add(s, part, SIZE_MAX, &st, err) : rc;
}

bool hsp_tensor_is_read(const struct hsp_compiler *c, uint32_t tensor)
{
    uint8_t kind = c->g->tensors[tensor].kind;
    return kind == HSP_TENSOR_INPUT || kind == HSP_TENSOR_SEED;
}

/* A sum that is to be cut where it is whole and whole where it is cut: a rank that adds some part
 * would get none of it, so the sum is completed first. */
static bool crosswise(const struct hsp_layout *have, const struct hsp_layout *at)
{
    bool cut = false, uncut = false;
    for (uint8_t d = 0; d < at->rank; d++) {
        cut = cut || (have->cut[d] == 0 && at->cut[d] != 0) ||
              (have->split[d] == 0 && at->split[d] != 0);
        uncut = uncut || (have->cut[d] != 0 && at->cut[d] == 0) ||
                (have->split[d] != 0 && at->split[d] == 0);
    }
    return have->partial != 0 && at->partial == 0 && cut && uncut;
}

enum hsp_status hsp_version_want(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t part,
                                 uint32_t tensor, const struct hsp_layout *at, uint32_t *ret,
                                 struct hsp_err *err)
{
    *ret = find_version(s, tensor, at);
    if (*ret != HSP_NONE) {
        return HSP_OK;
    }
    uint32_t from = hsp_version_best(s, tensor);
    bool inside = false;
    enum hsp_status rc = HSP_OK;
    for (uint32_t v = s->version[tensor]; !inside && v != HSP_NONE; v = s->value[v].next) {
        inside = hsp_layout_inside(at, &s->value[v].at);
        from = inside ? v : from; /* a local slice is cheapest */
    }
    if (!inside && hsp_tensor_is_read(c, tensor)) {
        return load_tensor(c, s, part, tensor, at, ret, err);
    }
    if (!inside && crosswise(&s->value[from].at, at)) {
        struct hsp_layout sum;
        struct hsp_tiers tiers = hsp_stage_tiers(s->group);
        rc = hsp_layout_complete(&s->value[from].at, NULL, &tiers, c->arena, &sum, err);
        if (rc == HSP_OK) {
            rc = reshard_version(c, s, part, from, &sum, &from, err);
        }
    }
    return rc == HSP_OK ? reshard_version(c, s, part, from, at, ret, err) : rc;
}
