#include "daemon/planner/rings.h"

#include <math.h>

#include "daemon/planner/candidates.h"

#define PARTS 64 /* shares of a group are of so many */

/* Returns false for a model that flattens a sequence to one row: after the flattening there is no
 * sequence to cut. */
static bool has_sequence(const struct hsp_graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i].op == HSP_OP_FLATTEN) {
            return false;
        }
    }
    return true;
}

/* Makes a stage of the first @k devices of @x. Each device is a group of its own, and gets a share
 * of each sequence in proportion to its speed (equal shares if the devices are alike). */
static enum hsp_status make_stage(struct hsp_search *s, struct hsp_plan_draft *d,
                                  const struct hsp_tp_group *x, uint32_t k, struct hsp_stage *g)
{
    double rate = 0;
    *g = (struct hsp_stage){.layers = s->n_blocks,
                            .n = k,
                            .n_groups = k,
                            .split = HSP_SPLIT_SEQUENCE,
                            .saved = s->in.work->recompute ? HSP_SAVED_RECOMPUTE : HSP_SAVED_OPEN,
                            .ranks = hsp_arena_array(s->arena, k, sizeof(*g->ranks)),
                            .shares = hsp_arena_array(s->arena, k, sizeof(*g->shares)),
                            .first = hsp_arena_array(s->arena, k, sizeof(*g->first)),
                            .group_shares = hsp_arena_array(s->arena, k, sizeof(*g->shares))};
    if (g->ranks == NULL || g->shares == NULL || g->first == NULL || g->group_shares == NULL) {
        return hsp_search_no_memory(s);
    }
    for (uint32_t i = 0; i < k; i++) {
        rate += 1 / x[i].seq_us;
    }
    bool alike = x[k - 1].seq_us <= x[0].seq_us * (1 + HSP_ALIKE);
    for (uint32_t i = 0; i < k; i++) {
        g->shares[i] = 1;
        g->first[i] = i;
        g->group_shares[i] = alike ? 1 : (int64_t)fmax(1, round(PARTS * k / x[i].seq_us / rate));
        d->device[d->plan->n_ranks] = x[i].dev[0];
        g->ranks[i] = d->plan->n_ranks++;
    }
    return HSP_OK;
}

/* Returns the times of a pipeline over @g by which its share of the batch is chosen. */
static struct hsp_share_dev speed_of(const struct hsp_search *s, const struct hsp_plan_draft *d,
                                     const struct hsp_stage *g, uint32_t n_pipelines,
                                     uint32_t micro)
{
    struct hsp_share_dev ret = {.micro = micro, .min = 1, .max = s->global_batch};
    for (uint32_t i = 0; i < g->n; i++) {
        struct hsp_member m;
        hsp_stage_price(&s->in, &s->all, g, i, &s->in.cluster->dev[d->device[g->ranks[i]]],
                        n_pipelines, 0, 1, &m);
        ret.fixed_us = fmax(ret.fixed_us, m.update_us);
        ret.micro_us = fmax(ret.micro_us, m.micro_us);
        ret.seq_us = fmax(ret.seq_us, m.seq_us);
    }
    return ret;
}

/* Tries @n_pipelines pipelines of @k devices each; devices of like speed are in one pipeline. */
static enum hsp_status try_rings(struct hsp_search *s, const struct hsp_tp_group *x, uint32_t k,
                                 uint32_t n_pipelines, uint32_t micro)
{
    struct hsp_plan_draft d;
    double us;
    struct hsp_share_dev *dev = hsp_arena_array(s->arena, n_pipelines, sizeof(*dev));
    uint32_t *share = hsp_arena_array(s->arena, n_pipelines, sizeof(*share));
    enum hsp_status st = hsp_draft_make(s, n_pipelines, 0, &d);
    if (dev == NULL || share == NULL || st != HSP_OK) {
        return hsp_search_no_memory(s);
    }
    for (uint32_t i = 0; i < n_pipelines && st == HSP_OK; i++) {
        struct hsp_pipeline *t = &d.plan->pipelines[i];
        t->n_stages = 1;
        t->stages = hsp_arena_array(s->arena, 1, sizeof(*t->stages));
        st = t->stages == NULL ? hsp_search_no_memory(s)
                               : make_stage(s, &d, &x[(size_t)i * k], k, &t->stages[0]);
        if (st == HSP_OK) {
            dev[i] = speed_of(s, &d, &t->stages[0], n_pipelines, micro);
        }
    }
    if (st == HSP_OK) {
        st = hsp_shares_minmax(n_pipelines, dev, s->global_batch, share, &us, s->err);
    }
    for (uint32_t i = 0; i < n_pipelines && st == HSP_OK; i++) {
        d.plan->pipelines[i].sequences = share[i];
        d.plan->pipelines[i].micro_batches = hsp_parts(share[i], micro);
    }
    const char *what = hsp_arena_printf(s->arena, "sequences cut over %u devices in %u pipeline%s",
                                        k, n_pipelines, n_pipelines > 1 ? "s" : "");
    if (st != HSP_OK || what == NULL) {
        return st != HSP_OK ? st : hsp_search_no_memory(s);
    }
    return hsp_search_offer(s, HSP_STRUCT_RING, d.plan, d.device, what);
}

enum hsp_status hsp_try_rings(struct hsp_search *s, const struct hsp_tp_group *x, uint32_t n)
{
    if (!has_sequence(s->g)) {
        return HSP_OK;
    }
    uint32_t most = n < HSP_RING_MAX ? n : HSP_RING_MAX;
    for (uint32_t k = 2; k <= most; k = 2 * k > most && k < most ? most : 2 * k) {
        uint32_t pipelines = n / k < HSP_MAX_PIPELINES ? n / k : HSP_MAX_PIPELINES;
        pipelines = pipelines < s->global_batch ? pipelines : s->global_batch;
        for (uint32_t micro = 1; micro <= s->micro_cap; micro *= 2) {
            struct hsp_attempt a;
            enum hsp_status st = hsp_attempt_begin(s, &a);
            if (st == HSP_OK) {
                st = try_rings(s, x, k, pipelines, micro);
            }
            if (st != HSP_OK) {
                return st;
            }
            hsp_attempt_end(s, &a);
        }
    }
    return HSP_OK;
}
