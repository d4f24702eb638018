#include "daemon/spmd/lower/zero3_rendezvous.h"

#include <stdlib.h>

#include "daemon/spmd/sharding/pipeline_units.h"

/* ---- clocks ---- */

static double pass_us(const void *ctx, uint32_t stage, const struct hsp_pass *u)
{
    const struct hsp_pipeline *s = ctx;
    uint32_t first, end;
    hsp_chunk_units(s, stage, u->chunk, &first, &end);
    bool again = s->stages[stage].saved == HSP_SAVED_RECOMPUTE;
    double forward = 1.0 + end - first; /* never nothing */
    switch ((enum hsp_segment_kind)u->kind) {
    case HSP_SEG_BACKWARD: return (again ? 3 : 2) * forward;
    case HSP_SEG_INPUT_GRAD: return (again ? 2 : 1) * forward;
    case HSP_SEG_PRE:
    case HSP_SEG_FORWARD:
    case HSP_SEG_WEIGHT_GRAD:
    case HSP_SEG_POST:
    case HSP_SEG_EVAL:
    case HSP_SEG_SERVE: break;
    }
    return forward;
}

static double hop_us(const void *ctx, uint32_t from, uint32_t to, const struct hsp_pass *u)
{
    (void)ctx;
    (void)from;
    (void)to;
    (void)u;
    return 0;
}

enum hsp_status hsp_clocks_make(const struct hsp_compiler *c, struct hsp_clocks *ret,
                                struct hsp_err *err)
{
    struct hsp_clocks k = {.c = c};
    enum hsp_status rc = HSP_OK;
    *ret = k;
    if (c->n_rendezvous == 0) {
        return HSP_OK;
    }
    k.train = hsp_arena_array(c->arena, c->p->n_pipelines, sizeof *k.train);
    k.eval = hsp_arena_array(c->arena, c->p->n_pipelines, sizeof *k.eval);
    if (k.train == NULL || k.eval == NULL) {
        return hsp_err_nomem(err, "rendezvous of pipelines");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->p->n_pipelines; i++) {
        const struct hsp_pipeline *s = &c->p->pipelines[i];
        struct hsp_pass_costs costs = {.ctx = s, .pass_us = pass_us, .hop_us = hop_us};
        int64_t bound = c->stage[c->first_stage[i]].bound;
        uint32_t n_eval = c->eval ? (uint32_t)((c->eval_seqs[i] + bound - 1) / bound) : 0;
        rc = hsp_timeline_make(s, &costs, c->arena, &k.train[i], err);
        if (rc == HSP_OK) {
            rc = hsp_timeline_eval(s, n_eval, &costs, c->arena, &k.eval[i], err);
        }
    }
    *ret = k;
    return rc;
}

double hsp_interval_begins(const struct hsp_interval *interval, double end_us)
{
    return interval->from_us / end_us;
}

double hsp_rendezvous_find(const struct hsp_rendezvous *m, const struct hsp_interval *interval,
                           double end_us)
{
    double part = (1.0 + m->at) / (1.0 + m->of);
    return (interval->from_us + (interval->to_us - interval->from_us) * part) / end_us;
}

/* ---- timelines of ranks ---- */

/* True when others take the tensor given at the next rendezvous of the stage, so that it gets there
 * while a pass computes. */
static bool is_late(const struct hsp_rendezvous *m)
{
    return m->gives && m->at + 1 < m->of;
}

static double serve_at(const struct hsp_rendezvous *m, const struct hsp_interval *interval,
                       double end_us)
{
    struct hsp_rendezvous at = *m;
    at.at += is_late(m) ? 1 : 0;
    return hsp_rendezvous_find(&at, interval, end_us);
}

static const struct hsp_timeline *clock_of(const struct hsp_clocks *k,
                                           const struct hsp_stagecode *s, bool eval)
{
    return eval ? &k->eval[s->pipeline] : &k->train[s->pipeline];
}

/* Passes in which @m takes place, in one of the schedules: calls for each. */
static uint32_t put_service_slots(const struct hsp_clocks *k, const struct hsp_rendezvous *m,
                                  bool eval, struct hsp_service_slot *ret, uint32_t first,
                                  uint32_t n)
{
    const struct hsp_stagecode *s = &k->c->stage[m->stage];
    const struct hsp_timeline *t = clock_of(k, s, eval);
    uint8_t kind = hsp_part_segment(s, m->part);
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->n_passes; i++) {
        const struct hsp_interval *x = &t->at[(size_t)s->stage * t->n_passes + i];
        if (x->pass.kind != kind || x->pass.chunk != hsp_part_chunk(m->part)) {
            continue;
        }
        if (ret != NULL) {
            ret[count] = (struct hsp_service_slot){.at = serve_at(m, x, t->end_us),
                                                   .takes = m->gives,
                                                   .after = m->gives && !is_late(m),
                                                   .first = first,
                                                   .n = n};
        }
        count++;
    }
    return count;
}

static int by_time(const void *a, const void *b)
{
    const struct hsp_service_slot *x = a, *y = b;
    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    if (x->after != y->after) {
        return x->after ? 1 : -1;
    }
    if (x->takes != y->takes) {
        return x->takes ? 1 : -1; /* a receiver of data sent here does not wait for this rank */
    }
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Every service slot of the pieces of @seg. @ret NULL: only counts them. */
static uint32_t list_service_slots(const struct hsp_clocks *k, const struct hsp_segment *seg,
                                   const uint32_t *meets, bool eval, struct hsp_service_slot *ret)
{
    uint32_t n = 0, end = seg->first_piece + seg->n_pieces;
    for (uint32_t p = seg->first_piece, next; p < end; p = next) {
        for (next = p + 1; next < end && meets[next] == meets[p]; next++) {
        }
        n += put_service_slots(k, &k->c->rendezvous_at[meets[p] - 1], eval,
                               ret == NULL ? NULL : ret + n, p, next - p);
    }
    return n;
}

enum hsp_status hsp_rank_timeline_make(const struct hsp_clocks *k, const struct hsp_stagecode *s,
                                       const struct hsp_program *p, const uint32_t *meets,
                                       bool eval, struct hsp_rank_timeline *ret,
                                       struct hsp_err *err)
{
    struct hsp_rank_timeline a = {.meets = meets, .rendezvous_at = k->c->rendezvous_at};
    *ret = a;
    if (k->train == NULL) {
        return HSP_OK;
    }
    const struct hsp_timeline *t = clock_of(k, s, eval);
    a.interval = t->at == NULL ? NULL : t->at + (size_t)s->stage * t->n_passes;
    a.end_us = t->end_us;
    for (uint32_t i = 0; i < p->tpl.n_segments; i++) {
        const struct hsp_segment *seg = &p->tpl.segments[i];
        if (seg->kind != HSP_SEG_SERVE) {
            continue;
        }
        a.service_slot = hsp_arena_array(k->c->arena, list_service_slots(k, seg, meets, eval, NULL),
                                         sizeof *a.service_slot);
        if (a.service_slot == NULL) {
            return hsp_err_nomem(err, "rendezvous of pipelines");
        }
        a.n = list_service_slots(k, seg, meets, eval, a.service_slot);
        qsort(a.service_slot, a.n, sizeof *a.service_slot, by_time);
    }
    *ret = a;
    return HSP_OK;
}
