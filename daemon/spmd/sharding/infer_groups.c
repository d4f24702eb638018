#include "daemon/spmd/sharding/infer_groups.h"

#include <string.h>

#include "proto/layout/cut_shares.h"

#define MAX_SUM 1024 /* of shares that are searched: finer cuts have their own lengths as shares */

uint32_t hsp_use_group_n(const struct hsp_annot *a)
{
    return a->tier == HSP_TIER_RANK ? 1 : a->n;
}

uint32_t hsp_use_group_rank(const struct hsp_annot *a, uint32_t i)
{
    return a->tier == HSP_TIER_RANK ? a->rank : a->of[i]->rank;
}

void hsp_use_ranks(const struct hsp_annot *a, uint32_t *rank, uint32_t *n)
{
    if (a->tier == HSP_TIER_RANK) {
        rank[(*n)++] = a->rank;
        return;
    }
    for (uint32_t i = 0; i < a->n; i++) { /* at most HSP_MAX_TIERS deep: its cover was made */
        hsp_use_ranks(a->of[i], rank, n);
    }
}

enum hsp_status hsp_use_groups_add(const struct hsp_annot *a, const char *name,
                                   struct hsp_use_groups *ret, struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    if (a->tier == HSP_TIER_DUP) {
        for (uint32_t i = 0; rc == HSP_OK && i < a->n; i++) {
            rc = hsp_use_groups_add(a->of[i], name, ret, err);
        }
        return rc;
    }
    for (uint32_t i = 0; a->tier == HSP_TIER_SPLIT && i < a->n; i++) {
        if (a->of[i]->tier != HSP_TIER_RANK) {
            return hsp_err_set(err, HSP_EINVAL, 0,
                               "annotations: %s: tensor parallelism gives each part to one rank",
                               name);
        }
    }
    ret->of[ret->n++] = a;
    return HSP_OK;
}

/* ---- shares ---- */

/* One way in which a group is cut: @units of the grain at @at[0..n]. */
struct cut {
    uint32_t param;
    int64_t units;
    int64_t *at;
};
struct search {
    const struct hsp_graph *g;
    uint32_t n_ranks, n;
    struct cut *cut; /* all different */
};

static const char *name_of(const struct hsp_graph *g, uint32_t param)
{
    return g->tensors[g->params[param].tensor].name;
}

static bool same_shares(const struct hsp_annot *a, const struct hsp_annot *b)
{
    return a->shares != NULL && a->cuts == NULL && b->shares != NULL && b->cuts == NULL &&
           a->n == b->n && memcmp(a->shares, b->shares, a->n * sizeof *a->shares) == 0;
}

/* Adds how @a cuts its parameter, unless it is known. */
static void add_cut(struct search *s, const struct hsp_annot *a, uint32_t param, int64_t *at)
{
    const struct hsp_param *p = &s->g->params[param];
    int64_t ext[HSP_MAX_RANK];
    hsp_tensor_extents(s->g, p->tensor, 1, ext);
    struct cut c = {.param = param, .units = ext[p->tp_dim] / p->tp_grain, .at = at};
    if (a->cuts == NULL) {
        hsp_cut_shares(c.units, s->n_ranks, a->shares, at);
    }
    for (uint32_t i = 0; a->cuts != NULL && i <= s->n_ranks; i++) {
        at[i] = a->cuts[i] / p->tp_grain;
    }
    bool known = false;
    for (uint32_t i = 0; !known && i < s->n; i++) {
        known = s->cut[i].units == c.units &&
                memcmp(s->cut[i].at, at, (s->n_ranks + 1) * sizeof *at) == 0;
    }
    if (!known) {
        s->cut[s->n++] = c;
    }
}

/* The first cut that the shares @w do not make; s->n: they make all. */
static uint32_t not_made(const struct search *s, const int64_t *w, int64_t *at)
{
    uint32_t i = 0;
    for (; i < s->n; i++) {
        hsp_cut_shares(s->cut[i].units, s->n_ranks, w, at);
        if (memcmp(at, s->cut[i].at, (s->n_ranks + 1) * sizeof *at) != 0) {
            break;
        }
    }
    return i;
}

/* The finest cut in proportion, in as few units as can be; its own lengths where that is too many.
 */
static enum hsp_status find_shares(const struct search *s, int64_t *len, int64_t *at, int64_t *ret,
                                   struct hsp_err *err)
{
    uint32_t finest = 0, bad = s->n;
    for (uint32_t i = 1; i < s->n; i++) {
        finest = s->cut[i].units > s->cut[finest].units ? i : finest;
    }
    const struct cut *c = &s->cut[finest];
    for (uint32_t i = 0; i < s->n_ranks; i++) {
        len[i] = c->at[i + 1] - c->at[i];
    }
    for (int64_t sum = 1; sum <= c->units && sum <= MAX_SUM; sum++) {
        hsp_cut_shares(sum, s->n_ranks, len, at);
        for (uint32_t i = 0; i < s->n_ranks; i++) {
            ret[i] = at[i + 1] - at[i];
        }
        if (not_made(s, ret, at) == s->n) {
            return HSP_OK;
        }
    }
    memcpy(ret, len, s->n_ranks * sizeof *ret);
    bad = not_made(s, ret, at);
    return bad == s->n ? HSP_OK
                       : hsp_err_set(err, HSP_EINVAL, 0,
                                     "annotations: no integer shares cut both %s and %s like this",
                                     name_of(s->g, c->param), name_of(s->g, s->cut[bad].param));
}

enum hsp_status hsp_use_shares(const struct hsp_graph *g, const struct hsp_use_groups *u,
                               uint32_t n, uint32_t k, struct hsp_arena *arena, int64_t *ret,
                               struct hsp_err *err)
{
    const struct hsp_annot *first = u[0].of[k];
    struct search s = {.g = g, .n_ranks = hsp_use_group_n(first)};
    bool same = true;
    if (first->tier == HSP_TIER_RANK || s.n_ranks == 1) {
        ret[0] = 1;
        return HSP_OK;
    }
    for (uint32_t i = 0; i < n; i++) {
        same = same && same_shares(first, u[i].of[k]);
    }
    if (same) {
        memcpy(ret, first->shares, s.n_ranks * sizeof *ret);
        return HSP_OK;
    }
    size_t room = (size_t)s.n_ranks + 1;
    int64_t *at = hsp_arena_array(arena, room * ((size_t)n + 2), sizeof *at);
    s.cut = hsp_arena_array(arena, n, sizeof *s.cut);
    if (at == NULL || s.cut == NULL) {
        return hsp_err_nomem(err, "the plan");
    }
    for (uint32_t i = 0; i < n; i++) {
        add_cut(&s, u[i].of[k], u[i].param, at + i * room);
    }
    return find_shares(&s, at + n * room, at + (n + 1) * room, ret, err);
}
