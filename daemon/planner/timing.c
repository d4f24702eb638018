#include "daemon/planner/timing.h"

#include <math.h>

#include "daemon/planner/links.h"
#include "daemon/spmd/sharding/pipeline_units.h"
#include "proto/program/micro_size.h"
#include "proto/program/sheet.h"

/* One chunk of one stage: a + b * sequences of the micro-batch. */
struct line {
    double once, each;
};

struct chunk {
    struct line compute, reduce; /* all passes together */
    double leaving;              /* bytes of a sequence on the way to the next chunk */
};

struct timing {
    const struct hsp_price_in *in;
    const struct hsp_pipeline *s;
    const uint32_t *device;
    struct chunk *chunk; /* [chunk * n_stages + stage] */
};

static double at(const struct line *l, double sequences)
{
    return l->once + l->each * sequences;
}

static void price_chunk(const struct timing *x, const struct hsp_plan *plan, uint32_t stage,
                        uint32_t c, struct hsp_link_cost link, struct chunk *ret)
{
    const struct hsp_stage *g = &x->s->stages[stage];
    struct hsp_work work = *x->in->work;
    struct hsp_stage_work range;
    uint32_t first, end;
    work.recompute = g->saved == HSP_SAVED_RECOMPUTE;
    work.offload = g->saved == HSP_SAVED_OFFLOAD;
    hsp_chunk_units(x->s, stage, c, &first, &end);
    hsp_range_make(&work, first, end, &range);
    *ret = (struct chunk){.leaving = range.w.leaving};
    for (uint32_t i = 0; i < g->n; i++) {
        struct hsp_member m;
        hsp_stage_price(x->in, &range, g, i, &x->in->cluster->dev[x->device[g->ranks[i]]],
                        plan->n_pipelines, plan->zero, 1, &m);
        ret->compute.each = fmax(ret->compute.each, m.seq_us);
        ret->compute.once = fmax(ret->compute.once, m.micro_us);
    }
    ret->reduce.once = hsp_stage_tensor_us(&range, g, 0, &link);
    ret->reduce.each = hsp_stage_tensor_us(&range, g, 1, &link) - ret->reduce.once;
}

/* The part of a chunk's compute, or of its all-reduces, that a pass does. @first: nobody waits for
 * gradients of its input, so all of a split backward is its second half (split_backward.c). */
static double part_of(uint8_t kind, bool recompute, bool reduce, bool first)
{
    double forward = reduce ? 1.0 / 2 : 1.0 / 3, again = recompute ? forward : 0;
    double all = 1 + again, back = 1 - forward + again;
    double weights = first ? back : reduce ? 0 : 1.0 / 3;
    switch ((enum hsp_segment_kind)kind) {
    case HSP_SEG_FORWARD: return forward / all;
    case HSP_SEG_BACKWARD: return back / all;
    case HSP_SEG_INPUT_GRAD: return (back - weights) / all;
    case HSP_SEG_WEIGHT_GRAD: return weights / all;
    case HSP_SEG_PRE:
    case HSP_SEG_POST:
    case HSP_SEG_EVAL:
    case HSP_SEG_SERVE: break;
    }
    return 0;
}

static double pass_us(const void *ctx, uint32_t stage, const struct hsp_pass *u)
{
    const struct timing *x = ctx;
    const struct chunk *c = &x->chunk[u->chunk * x->s->n_stages + stage];
    double n = hsp_micro_size(x->s->sequences, x->s->micro_batches, u->micro);
    bool again = x->s->stages[stage].saved == HSP_SAVED_RECOMPUTE;
    return at(&c->compute, n) * part_of(u->kind, again, false, stage == 0) +
           at(&c->reduce, n) * part_of(u->kind, again, true, stage == 0);
}

/* Backward carries the gradients of forward's messages. */
static double hop_us(const void *ctx, uint32_t from, uint32_t to, const struct hsp_pass *u)
{
    const struct timing *x = ctx;
    double n = hsp_micro_size(x->s->sequences, x->s->micro_batches, u->micro);
    struct hsp_link_cost link =
        hsp_link_pair(x->in->cluster, x->device[x->s->stages[from].ranks[0]],
                      x->device[x->s->stages[to].ranks[0]]);
    uint32_t place = u->chunk * x->s->n_stages + from;
    place -= u->kind == HSP_SEG_FORWARD ? 0 : 1;
    return link.latency_us + n * x->chunk[place].leaving * link.us_per_byte;
}

enum hsp_status hsp_pipeline_timeline(const struct hsp_price_in *in, const struct hsp_plan *plan,
                                      uint32_t pipeline, const uint32_t *device,
                                      struct hsp_arena *arena, struct hsp_timeline *ret,
                                      struct hsp_err *err)
{
    struct timing x = {.in = in, .s = &plan->pipelines[pipeline], .device = device};
    struct hsp_pass_costs costs = {.ctx = &x, .pass_us = pass_us, .hop_us = hop_us};
    uint32_t chunks = hsp_pipeline_chunks(x.s), *member;
    x.chunk = hsp_arena_array(arena, (size_t)chunks * x.s->n_stages, sizeof *x.chunk);
    member = hsp_arena_array(arena, plan->n_ranks, sizeof *member);
    if (x.chunk == NULL || member == NULL) {
        return hsp_err_nomem(err, "times of a pipeline of %u stages", x.s->n_stages);
    }
    for (uint32_t i = 0; i < x.s->n_stages; i++) {
        const struct hsp_stage *g = &x.s->stages[i];
        for (uint32_t k = 0; k < g->n; k++) {
            member[k] = device[g->ranks[k]];
        }
        struct hsp_link_cost link = hsp_link_group(in->cluster, member, g->n);
        for (uint32_t c = 0; c < chunks; c++) {
            price_chunk(&x, plan, i, c, link, &x.chunk[c * x.s->n_stages + i]);
        }
    }
    return hsp_timeline_make(x.s, &costs, arena, ret, err);
}
