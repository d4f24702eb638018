#include "daemon/planner/replicas.h"

#include "daemon/planner/candidates.h"
#include "daemon/planner/shares.h"

#define MAX_PREFIXES 32 /* numbers of pipelines tried */

static bool any_grouped(const struct hsp_tp_group *x, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && x[i].n == 1) {
        i++;
    }
    return i < n;
}

/* Pipelines over the @k fastest groups. One that does not fit is offered with micro-batches of 1,
 * so that the explanation has its numbers. */
static enum hsp_status try_replicas(struct hsp_search *s, const struct hsp_tp_group *x, uint32_t k,
                                    uint8_t zero, uint32_t degree)
{
    struct hsp_plan_draft d;
    double us = 0;
    if (degree > 1 && !any_grouped(x, k)) { /* tried as single devices */
        return HSP_OK;
    }
    struct hsp_share_dev *dev = hsp_arena_array(s->arena, k, sizeof(*dev));
    uint32_t *share = hsp_arena_array(s->arena, k, sizeof(*share));
    enum hsp_status st = hsp_draft_make(s, k, zero, &d);
    if (dev == NULL || share == NULL || st != HSP_OK) {
        return hsp_search_no_memory(s);
    }
    /* else replicas, or replica holders */
    uint32_t held = zero > 0 ? hsp_nodes_of(s, x, NULL, k) : 1;
    if (held == 0) {
        return hsp_search_no_memory(s);
    }
    for (uint32_t i = 0; i < k; i++) {
        (void)hsp_micro_fit(s, &x[i], k, zero, held, &dev[i]);
    }
    st = hsp_shares_minmax(k, dev, s->global_batch, share, &us, s->err);
    for (uint32_t i = 0; i < k && st == HSP_OK; i++) {
        struct hsp_pipeline *t = &d.plan->pipelines[i];
        t->sequences = share[i];
        t->micro_batches = hsp_parts(share[i], dev[i].micro);
        t->n_stages = 1;
        t->stages = hsp_arena_array(s->arena, 1, sizeof(*t->stages));
        st = t->stages == NULL ? hsp_search_no_memory(s)
                               : hsp_draft_stage(s, &d, &t->stages[0], s->n_blocks, &x[i]);
    }
    if (st != HSP_OK) {
        return st;
    }
    bool all = k == s->n_groups;
    enum hsp_structure kind = degree > 1 ? HSP_STRUCT_TENSOR
                              : zero > 0 ? HSP_STRUCT_DP_ZERO
                              : all      ? HSP_STRUCT_DP
                                         : HSP_STRUCT_DP_SUBSET;
    const char *what = hsp_arena_printf(
        s->arena, "%s%u%s%s", degree > 1 ? "tensor groups in " : "data parallel over ", k,
        degree > 1 ? (k > 1 ? " pipelines" : " pipeline") : (k > 1 ? " devices" : " device"),
        zero > 0 ? ", optimizer state cut (ZeRO-1)" : "");
    return what == NULL ? hsp_search_no_memory(s)
                        : hsp_search_offer(s, kind, d.plan, d.device, what);
}

/* @x with those first that hold the whole model: a fast group that does not is in no one's way. */
static const struct hsp_tp_group *holders_first(struct hsp_search *s, const struct hsp_tp_group *x,
                                                uint32_t n)
{
    struct hsp_tp_group *list = hsp_arena_array(s->arena, n, sizeof(*list));
    uint32_t at = 0;
    for (int pass = 0; list != NULL && pass < 2; pass++) {
        for (uint32_t i = 0; i < n; i++) {
            struct hsp_share_dev unused;
            if ((hsp_micro_fit(s, &x[i], n, 0, 1, &unused) > 0) == (pass == 0)) {
                list[at++] = x[i];
            }
        }
    }
    return list;
}

enum hsp_status hsp_try_replicas(struct hsp_search *s, const struct hsp_tp_group *x, uint32_t n,
                                 uint32_t degree)
{
    const struct hsp_tp_group *whole = holders_first(s, x, n);
    if (whole == NULL) {
        return hsp_search_no_memory(s);
    }
    uint32_t most = n < HSP_MAX_PIPELINES ? n : HSP_MAX_PIPELINES;
    most = most < s->global_batch ? most : s->global_batch;
    uint32_t step = hsp_parts(most, MAX_PREFIXES);
    for (uint32_t k = most; k >= 1; k = k > step ? k - step : k - 1) {
        for (uint8_t zero = 0; zero <= (s->opts->no_zero || k == 1 ? 0 : 1); zero++) {
            struct hsp_attempt a;
            enum hsp_status st = hsp_attempt_begin(s, &a);
            if (st == HSP_OK) {
                st = try_replicas(s, zero > 0 ? x : whole, k, zero, degree);
            }
            if (st != HSP_OK) {
                return st;
            }
            hsp_attempt_end(s, &a);
        }
        if (k == 1) {
            break;
        }
    }
    return HSP_OK;
}
