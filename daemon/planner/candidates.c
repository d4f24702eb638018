#include "daemon/planner/candidates.h"

#include <math.h>
#include <string.h>

#include "daemon/planner/figure.h"
#include "daemon/planner/price.h"

/* The price of a structure, as a part of its step. Computing is predicted better than
 * communication, replicas make a loss cheap, and simple plans switch faster: the others must be
 * clearly faster. */
static const double preference[HSP_N_STRUCTS] = {
    [HSP_STRUCT_DP] = 0,      [HSP_STRUCT_DP_SUBSET] = 0.01, [HSP_STRUCT_DP_ZERO] = 0.20,
    [HSP_STRUCT_PIPE] = 0.05, [HSP_STRUCT_TENSOR] = 0.05,    [HSP_STRUCT_MIXED] = 0.05,
    [HSP_STRUCT_RING] = 0.10,
};

enum hsp_status hsp_search_no_memory(struct hsp_search *s)
{
    return hsp_err_nomem(s->err, "planning over %u devices", s->in.cluster->n);
}

static bool canceled(const struct hsp_search *s)
{
    return s->opts->cancel != NULL && atomic_load_explicit(s->opts->cancel, memory_order_relaxed);
}

static void lacks_memory(const struct hsp_search *s, uint32_t rank, struct hsp_candidate *c)
{
    const struct hsp_device_desc *d = &s->in.cluster->dev[c->device[rank]];
    double need = (double)c->cost.rank[rank].total_bytes;
    c->short_bytes = need - (double)d->mem_bytes;
    c->trouble =
        hsp_arena_printf(s->arena, "needs %s on %s, which offers %s", hsp_bytes_figure(need).text,
                         d->name, hsp_bytes_figure((double)d->mem_bytes).text);
}

static void lacks_room(struct hsp_search *s, uint32_t rank, struct hsp_candidate *c)
{
    const struct hsp_device_desc *d = &s->in.cluster->dev[c->device[rank]];
    double need = (double)c->cost.rank[rank].node_folder_bytes;
    s->short_of_room = true;
    c->fits = false;
    c->short_bytes = need - (double)d->folder_bytes;
    c->trouble = hsp_arena_printf(s->arena, "needs %s in the state folder of %.*s, which has %s",
                                  hsp_bytes_figure(need).text, (int)strcspn(d->name, "/"), d->name,
                                  hsp_bytes_figure((double)d->folder_bytes).text);
}

enum hsp_status hsp_search_offer(struct hsp_search *s, enum hsp_structure kind,
                                 struct hsp_plan *plan, uint32_t *device, const char *what)
{
    struct hsp_candidate c = {.tried = true, .plan = plan, .device = device, .what = what};
    struct hsp_candidate *best = &s->best[kind];
    uint32_t rank = 0;
    enum hsp_status st = hsp_price(&s->in, plan, device, s->arena, &c.cost, s->err);
    if (st != HSP_OK) {
        return st;
    }
    c.fits = hsp_cost_fits(&s->in, &c.cost, &rank);
    c.score = c.cost.step_us * (1 + preference[kind]);
    if (!c.fits) {
        lacks_memory(s, rank, &c);
    } else if (!hsp_cost_fits_folder(&s->in, &c.cost, &rank)) {
        lacks_room(s, rank, &c);
    }
    if (!c.fits && c.trouble == NULL) {
        return hsp_search_no_memory(s);
    }
    bool better = !best->tried || (c.fits && !best->fits) ||
                  (c.fits == best->fits &&
                   (c.fits ? c.score < best->score : c.short_bytes < best->short_bytes));
    if (better) {
        *best = c;
    }
    return HSP_OK;
}

enum hsp_status hsp_attempt_begin(struct hsp_search *s, struct hsp_attempt *a)
{
    a->mark = hsp_arena_mark(s->arena);
    memcpy(a->before, s->best, sizeof(a->before));
    return canceled(s) ? hsp_err_set(s->err, HSP_ECANCELED, 0, "planning canceled") : HSP_OK;
}

void hsp_attempt_end(struct hsp_search *s, const struct hsp_attempt *a)
{
    for (uint32_t i = 0; i < HSP_N_STRUCTS; i++) {
        if (s->best[i].plan != a->before[i].plan) {
            return;
        }
    }
    hsp_arena_rewind(s->arena, a->mark);
}

/* ---- building plans from groups ---- */

enum hsp_status hsp_draft_make(struct hsp_search *s, uint32_t n_pipelines, uint8_t zero,
                               struct hsp_plan_draft *ret)
{
    struct hsp_plan *p = hsp_arena_alloc(s->arena, sizeof(*p));
    ret->device = hsp_arena_array(s->arena, s->in.cluster->n, sizeof(*ret->device));
    if (p == NULL || ret->device == NULL) {
        return hsp_search_no_memory(s);
    }
    p->zero = zero;
    p->n_pipelines = n_pipelines;
    p->pipelines = hsp_arena_array(s->arena, n_pipelines, sizeof(*p->pipelines));
    ret->plan = p;
    return p->pipelines == NULL ? hsp_search_no_memory(s) : HSP_OK;
}

enum hsp_status hsp_draft_stage(struct hsp_search *s, struct hsp_plan_draft *d, struct hsp_stage *g,
                                uint32_t layers, const struct hsp_tp_group *x)
{
    g->layers = layers;
    g->saved = s->in.work->recompute ? HSP_SAVED_RECOMPUTE : HSP_SAVED_OPEN;
    g->n = x->n;
    g->ranks = hsp_arena_array(s->arena, x->n, sizeof(*g->ranks));
    g->shares = x->shares;
    if (g->ranks == NULL) {
        return hsp_search_no_memory(s);
    }
    for (uint32_t i = 0; i < x->n; i++) {
        d->device[d->plan->n_ranks] = x->dev[i];
        g->ranks[i] = d->plan->n_ranks++;
    }
    return HSP_OK;
}

uint32_t hsp_parts(uint32_t sequences, uint32_t size)
{
    return (sequences + size - 1) / size;
}

/* ---- data parallel: every group a pipeline with the whole model ---- */

uint32_t hsp_micro_fit(const struct hsp_search *s, const struct hsp_tp_group *x, uint32_t holders,
                       uint8_t zero, uint32_t held, struct hsp_share_dev *ret)
{
    double total = 0, compute = 0, micro_us = 0, update = 0;
    uint32_t size = s->micro_cap;
    for (uint32_t i = 0; i < x->n; i++) {
        total += (double)x->shares[i];
    }
    for (uint32_t i = 0; i < x->n; i++) {
        struct hsp_member m;
        const struct hsp_device_desc *d = &s->in.cluster->dev[x->dev[i]];
        hsp_member_price(&s->in, &s->all, d, (double)x->shares[i] / total, x->n, holders, zero,
                         held, &m);
        while (size > 0 && hsp_member_bytes(&m, size, 1) > (double)d->mem_bytes) {
            size /= 2;
        }
        size = m.folder_bytes > s->room[x->dev[i]] ? 0 : size;
        compute = fmax(compute, m.seq_us);
        micro_us = fmax(micro_us, m.micro_us);
        update = fmax(update, m.update_us);
    }
    double one = hsp_tensor_us(&s->all, x->n, 1, &x->in);
    double none = hsp_tensor_us(&s->all, x->n, 0, &x->in);
    *ret = (struct hsp_share_dev){.fixed_us = update,
                                  .micro_us = micro_us + none,
                                  .seq_us = compute + one - none,
                                  .micro = size > 0 ? size : 1,
                                  .min = 1,
                                  .max = s->global_batch};
    return size;
}

uint32_t hsp_nodes_of(const struct hsp_search *s, const struct hsp_tp_group *x,
                      const uint32_t *member, uint32_t n)
{
    uint32_t *first = hsp_arena_array(s->arena, n, sizeof(*first));
    for (uint32_t i = 0; first != NULL && i < n; i++) {
        first[i] = x[member != NULL ? member[i] : i].dev[0];
    }
    return first == NULL ? 0 : hsp_count_nodes(s->in.cluster, first, n, s->in.copies);
}
