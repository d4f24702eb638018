#include "daemon/planner/price.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "daemon/plan/stage_groups.h"
#include "daemon/planner/bucket.h"
#include "daemon/planner/links.h"
#include "daemon/planner/timing.h"
#include "daemon/spmd/schedule/kept_messages.h"
#include "daemon/spmd/sharding/pipeline_units.h"
#include "proto/base/check.h"

struct pricing {
    const struct hsp_price_in *in;
    const struct hsp_plan *plan;
    const uint32_t *device;
    struct hsp_link_cost all; /* among all ranks */
    uint64_t bucket;          /* bytes (bucket.h) */
    uint32_t *group;          /* [n_ranks] scratch of link_of */
    struct hsp_cost *cost;
    /* nodes of the plan that hold each piece of the state; replica holders count apart */
    uint32_t held;
    double *cycle_us; /* by rank: update + its pipeline */
};

static const struct hsp_device_desc *dev_of(const struct pricing *p, uint32_t rank)
{
    return &p->in->cluster->dev[p->device[rank]];
}

static struct hsp_link_cost link_of(const struct pricing *p, uint32_t n, const uint32_t *ranks)
{
    for (uint32_t i = 0; i < n; i++) {
        p->group[i] = p->device[ranks[i]];
    }
    return hsp_link_group(p->in->cluster, p->group, n);
}

static bool one_node(const struct pricing *p)
{
    for (uint32_t r = 1; r < p->plan->n_ranks; r++) {
        if (dev_of(p, r)->node != dev_of(p, 0)->node) {
            return false;
        }
    }
    return true;
}

static bool cluster_has_nodes(const struct hsp_cluster_desc *c)
{
    for (uint32_t i = 1; i < c->n; i++) {
        if (c->dev[i].node != c->dev[0].node) {
            return true;
        }
    }
    return false;
}

/* Groups that cut activations have all parameters each. */
static bool all_grouped(const struct hsp_pipeline *s)
{
    uint32_t g = 0;
    while (g < s->n_stages && hsp_stage_groups(&s->stages[g]) > 1) {
        g++;
    }
    return g == s->n_stages;
}

/* Pipelines, or groups of all stages, on other nodes hold replicas of the whole state at zero 0. */
static bool needs_copies(const struct pricing *p)
{
    bool several = p->plan->n_pipelines > 1 || all_grouped(&p->plan->pipelines[0]);
    bool replicated = p->plan->zero == 0 && several && !one_node(p);
    return !replicated && cluster_has_nodes(p->in->cluster);
}

/* Bytes of a parameter on its way to where it is used, for each byte of its state. */
static double used_part(const struct pricing *p)
{
    return (double)p->in->work->use_elem / p->in->work->elem;
}

/* Gradients are added up, and then their sums (zero 0) or the parameters go out. */
static double sync_us(const struct pricing *p, const struct hsp_stage_work *r, double bytes,
                      uint32_t holders)
{
    const struct hsp_link_cost *link = &p->all;
    double ways = 1 + (p->plan->zero == HSP_ZERO_NONE ? 1 : used_part(p));
    if (holders < 2) {
        return 0;
    }
    /* Two phases for each bucket; further peers cost a quarter of a message each. Parameters that
     * are gathered for each use travel each by itself. */
    bool alone = p->plan->zero == HSP_ZERO_PARAMETERS;
    double n = hsp_bucket_count(alone ? 0 : p->bucket, r->n_params, bytes);
    double messages = 2.0 * n * (1 + (holders - 1) / 4.0);
    return messages * link->latency_us + ways * bytes * (holders - 1) / holders * link->us_per_byte;
}

/* With zero 3 parameters are gathered twice in each micro-batch and gradients reduced once; a rank
 * serves the micro-batches of other pipelines, too. */
static double cut_sync_us(const struct pricing *p, const struct hsp_pipeline *s, double once)
{
    double all = 0;
    for (uint32_t i = 0; i < p->plan->n_pipelines; i++) {
        all += p->plan->pipelines[i].micro_batches;
    }
    double ways = (1 + 2 * used_part(p)) / (1 + used_part(p));
    return ways * once * fmax(s->micro_batches, all / p->plan->n_pipelines);
}

/* A bucket is packed beside the largest parameter, which may be its last. */
static double bucket_room(const struct pricing *p, const struct hsp_member *m, uint32_t holders)
{
    bool none = holders < 2 || p->plan->zero == HSP_ZERO_PARAMETERS;
    return none ? 0 : HSP_PACK_COPIES * fmin((double)p->bucket, m->sync_bytes);
}

/* Parameters that are gathered for each use, and their gradients: the transport keeps the messages
 * that come, and those that leave in two moves (spmd/schedule/kept_messages.h). */
static double gathered_room(const struct pricing *p, const struct hsp_stage_work *range,
                            double inner, uint32_t holders)
{
    double largest = fmax(range->largest_cut * inner, range->largest_whole);
    bool gathers = holders > 1 && p->plan->zero == HSP_ZERO_PARAMETERS;
    return gathers ? (1 + HSP_KEPT_MOVES) * largest * (holders - 1) / holders : 0;
}

struct stage_time {
    double us;       /* of all micro-batches */
    double transfer; /* of all micro-batches, to the next stage and back */
};

/* The sum of the chunks of a stage on one rank. */
struct rank_sum {
    double base_bytes, act_bytes, home_bytes, comm_bytes, host_bytes;
    double scratch_bytes, wide_bytes, micro_bytes, post_bytes;
    double whole_bytes; /* of the parameters that tensor groups do not divide */
};

static uint32_t member_of(const struct hsp_stage *g, uint32_t rank)
{
    uint32_t member = 0;
    while (g->ranks[member] != rank) {
        member++;
    }
    return member;
}

/* One chunk on one rank. */
static void price_chunk(const struct pricing *p, const struct hsp_stage_work *range, uint32_t chunk,
                        struct hsp_rank_cost *rc, uint32_t rank, struct rank_sum *sum)
{
    struct hsp_member m;
    const struct hsp_pipeline *s = &p->plan->pipelines[rc->pipeline];
    const struct hsp_stage *g = &s->stages[rc->stage];
    uint32_t holders = p->plan->n_pipelines * hsp_stage_groups(g);
    uint32_t flight = hsp_order_alive(s, rc->stage, chunk), member = member_of(g, rank);
    double inner;
    uint32_t first, end;
    (void)hsp_stage_shares(g, member, &inner); /* the group's own counts in the range */
    hsp_stage_group(g, hsp_stage_group_of(g, member), &first, &end);
    double comm = hsp_comm_bytes(range, dev_of(p, rank), inner, end - first, holders);
    hsp_stage_price(p->in, range, g, member, dev_of(p, rank), p->plan->n_pipelines, p->plan->zero,
                    p->held, &m);
    rc->compute_us += s->sequences * m.seq_us + s->micro_batches * m.micro_us;
    rc->update_us += m.update_us;
    rc->home_bytes += m.home_bytes;
    rc->used_bytes += m.sync_bytes;
    double once = sync_us(p, range, m.sync_bytes, holders);
    rc->sync_us += p->plan->zero == HSP_ZERO_PARAMETERS ? cut_sync_us(p, s, once) : once;
    sum->base_bytes += m.base_bytes - comm; /* shared by all chunks: the largest */
    sum->act_bytes +=
        m.bytes_per_flight * flight + m.deferred_bytes * hsp_order_waiting(s, rc->stage);
    sum->host_bytes += m.host_bytes * flight;
    sum->home_bytes += m.home_bytes;
    sum->post_bytes += m.post_bytes;
    sum->whole_bytes += range->param.whole;
    sum->comm_bytes = fmax(sum->comm_bytes, comm + bucket_room(p, &m, holders) +
                                                gathered_room(p, range, inner, holders));
    sum->scratch_bytes = fmax(sum->scratch_bytes, m.scratch_bytes);
    sum->wide_bytes = fmax(sum->wide_bytes, m.wide_bytes);
    sum->micro_bytes = fmax(sum->micro_bytes, m.micro_bytes);
}

/* The sum over all members of @o, each its group's share. */
static double shares_of(const struct hsp_stage *o)
{
    double all = 0, sum = 0;
    uint32_t groups = hsp_stage_groups(o), first, end;
    for (uint32_t g = 0; groups > 1 && g < groups; g++) {
        all += (double)o->group_shares[g];
    }
    for (uint32_t g = 0; groups > 1 && g < groups; g++) {
        hsp_stage_group(o, g, &first, &end);
        for (uint32_t k = first; k < end; k++) {
            sum += (double)o->group_shares[g] / all;
        }
    }
    return groups > 1 ? sum : o->n;
}

/* Messages with one sequence's activations that a member of stage @gi has in one piece, as a part
 * of the whole: each member of the stage @other gets its group's share, and those of one group send
 * it together. */
static double spread_of(const struct hsp_pipeline *s, uint32_t gi, uint32_t member, uint32_t other)
{
    const struct hsp_stage *g = &s->stages[gi];
    double inner, share = hsp_stage_shares(g, member, &inner);
    uint32_t first, end;
    hsp_stage_group(g, hsp_stage_group_of(g, member), &first, &end);
    return share * shares_of(&s->stages[other]) / (end - first);
}

/* Whether a validation has several micro-batches in the pipeline. */
static bool validates(const struct pricing *p, const struct hsp_pipeline *s, double micro)
{
    const struct hsp_data_bind *d = &p->in->train->data;
    double part = d->global_batch > 0 ? (double)s->sequences / d->global_batch : 0;
    return d->validation_every > 0 && d->eval_seqs * part + 1 > micro;
}

/* Of groups that cut sequences, the largest block of keys or of values that goes round, of a
 * sequence. */
static double ring_block(const struct hsp_stage *g, const struct hsp_stage_work *r, double inner)
{
    bool rings = hsp_stage_groups(g) > 1 && g->split == HSP_SPLIT_SEQUENCE;
    return rings ? hsp_largest_share(g) * (r->w.keys.cut * inner + r->w.keys.whole) / 2 : 0;
}

/* The transport's copies of the activations of a micro-batch, in their type: to the next stage, and
 * their gradients to the one before, with those that are sent and not taken yet; in a tensor group,
 * its sums; blocks of keys and values. *ret_packed: the buffers in which they are packed. */
static double message_bytes(const struct pricing *p, const struct hsp_stage_work *range,
                            const struct hsp_rank_cost *rc, uint32_t member, double micro,
                            double *ret_packed)
{
    const struct hsp_pipeline *s = &p->plan->pipelines[rc->pipeline];
    uint32_t last = s->n_stages - 1, chunks = hsp_pipeline_chunks(s), gi = rc->stage;
    bool turns = chunks > 1; /* the output of the last stage goes to the first one again */
    double next = 0, back = 0, sums = 0, ring = 0, inner;
    double share = hsp_stage_shares(&s->stages[gi], member, &inner);
    for (uint32_t c = 0; c < chunks; c++) {
        double out = range[c].w.leaving, in = range[c].entering;
        if (gi < last || turns) {
            next = fmax(next, out * spread_of(s, gi, member, gi < last ? gi + 1 : 0));
        }
        if (gi > 0 || turns) {
            back = fmax(back, in * spread_of(s, gi, member, gi > 0 ? gi - 1 : last));
        }
        sums = inner < 1 ? fmax(sums, share * fmax(out, in)) : sums;
        ring = fmax(ring, ring_block(&s->stages[gi], &range[c], inner));
    }
    double one = fmax(next, back), most = fmax(fmax(one, sums), ring);
    double ahead = fmax(hsp_order_kept(s, gi, false), validates(p, s, micro) ? HSP_KEPT_MOVES : 0);
    double kept = next * ahead + back * hsp_order_kept(s, gi, true) + HSP_KEPT_MOVES * ring;
    *ret_packed = HSP_PACK_COPIES * micro * most;
    return micro * (HSP_KEPT_COPIES * most + fmax(kept - fmax(one, ring), 0));
}

/* Of a GPU in a pipeline: a communicator for each way to and from each member that it has messages
 * with. */
static double pipe_bytes(const struct pricing *p, const struct hsp_rank_cost *rc, uint32_t rank)
{
    const struct hsp_pipeline *s = &p->plan->pipelines[rc->pipeline];
    double each = (double)dev_of(p, rank)->communicator_bytes * HSP_PAIR_PART, ways = 0;
    bool turns = hsp_pipeline_chunks(s) > 1;
    uint32_t n = s->n_stages, at = rc->stage;
    for (uint32_t side = 0; side < 2 && n > 1; side++) {
        uint32_t other = (at + (side == 0 ? 1 : n - 1)) % n;
        bool next = turns || (side == 0 ? at + 1 < n : at > 0);
        ways += next ? 2 * ceil((double)s->stages[other].n / s->stages[at].n) : 0;
    }
    return ways * each;
}

/* The state that @rank has, of one kind. Where the plan's homes say it, the sum knew an even cut:
 * gradients lie as parameters do with zero 3, and where all are used at home. */
static double state_home(const struct pricing *p, uint32_t rank, struct rank_sum *x)
{
    const struct hsp_cost *at = p->in->homes;
    if (p->in->home_bytes != NULL) {
        double more = p->in->home_bytes[rank] - x->home_bytes;
        bool alike = p->plan->zero == HSP_ZERO_NONE || p->plan->zero == HSP_ZERO_PARAMETERS;
        x->base_bytes += alike ? more : 0;
        x->post_bytes += x->post_bytes > 0 ? more : 0;
    }
    return at != NULL                  ? at->rank[p->device[rank]].home_bytes
           : p->in->home_bytes != NULL ? p->in->home_bytes[rank]
                                       : x->home_bytes;
}

/* Each member of a stage has all of the parameters that tensor groups do not divide (zero 0). Their
 * replicas on other nodes take the place of copies, and what copies are left are one member's. So a
 * member keeps this many bytes less of one kind of state for others. */
static double spared_bytes(const struct pricing *p, const struct hsp_stage *g, double whole)
{
    if (p->plan->zero != HSP_ZERO_NONE || p->in->homes != NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < g->n; i++) {
        p->group[i] = p->device[g->ranks[i]];
    }
    double nodes = hsp_count_nodes(p->in->cluster, p->group, g->n, p->held);
    return whole * (p->held - 1 - (p->held - nodes) / g->n);
}

/* Kinds of state: parameters, and the optimizer's values for each. */
static double kinds_of(const struct hsp_price_in *in)
{
    return in->train->hyper.optimizer == HSP_OPT_ADAMW ? 3 : 2;
}

/* Sums of gradients begin while the last backward goes on (spmd/schedule/early_sums.h). */
static bool sums_early(const struct pricing *p)
{
    return p->bucket > 0 && p->plan->zero != HSP_ZERO_PARAMETERS;
}

/* The part of the synchronisation that goes on beside the last backward, of a rank whose backward
 * has no communication: two thirds of a micro-batch. The last bucket has the embedding, whose
 * gradient is whole at the end only. */
static double hidden_us(const struct pricing *p, const struct hsp_stage_work *range,
                        const struct hsp_rank_cost *rc)
{
    const struct hsp_pipeline *s = &p->plan->pipelines[rc->pipeline];
    const struct hsp_stage *g = &s->stages[rc->stage];
    double n = 0, ways = p->plan->zero == HSP_ZERO_NONE ? 1 : 1 + used_part(p);
    if (!sums_early(p) || s->n_stages > 1 || g->n > hsp_stage_groups(g)) {
        return 0;
    }
    for (uint32_t c = 0; c < hsp_pipeline_chunks(s); c++) {
        n += range[c].n_params;
    }
    double buckets = hsp_bucket_count(p->bucket, n, rc->used_bytes);
    double last = fmax(1 / buckets, p->in->work->param[0].bytes / rc->used_bytes);
    double beside = 2.0 / 3 * rc->compute_us / s->micro_batches;
    return fmin(beside, rc->sync_us / ways) * fmax(1 - last, 0);
}

/* One rank of a stage; its time and memory go into its row. */
static void price_rank(const struct pricing *p, const struct hsp_stage_work *range, uint32_t rank,
                       struct hsp_rank_cost *rc)
{
    const struct hsp_pipeline *s = &p->plan->pipelines[rc->pipeline];
    const struct hsp_stage *g = &s->stages[rc->stage];
    struct rank_sum x = {0};
    double micro = (s->sequences + s->micro_batches - 1) / s->micro_batches;
    double kinds = kinds_of(p->in);
    double states = kinds * hsp_state_versions(dev_of(p, rank), p->held);
    for (uint32_t c = 0; c < hsp_pipeline_chunks(s); c++) {
        price_chunk(p, &range[c], c, rc, rank, &x);
    }
    rc->sync_us -= hidden_us(p, range, rc);
    double home = state_home(p, rank, &x);
    double spared = hsp_sealed_bytes(kinds, spared_bytes(p, g, x.whole_bytes), 1);
    double less = hsp_device_is_host(dev_of(p, rank)) ? spared : 0;
    double packed, kept = message_bytes(p, range, rc, member_of(g, rank), micro, &packed);
    x.comm_bytes =
        fmax(x.comm_bytes, HSP_COMM_BASE_BYTES + packed) + kept + pipe_bytes(p, rc, rank);
    bool greets = dev_of(p, rank)->communicator_bytes > 0 && p->plan->n_ranks > 1;
    x.comm_bytes += greets ? HSP_GREETING_BYTES : 0;
    x.base_bytes += x.comm_bytes;
    rc->home_bytes = p->in->home_bytes != NULL ? p->in->home_bytes[rank] : rc->home_bytes;
    x.base_bytes += states * (home - x.home_bytes) - less;
    rc->device = p->device[rank];
    rc->sequences = s->sequences;
    rc->micro_batches = s->micro_batches;
    double work = x.micro_bytes + micro * x.scratch_bytes;
    work = sums_early(p) ? work + x.post_bytes : fmax(work, x.post_bytes);
    rc->total_bytes = (int64_t)ceil(x.base_bytes + micro * (x.act_bytes + x.wide_bytes) + work);
    rc->act_bytes = (int64_t)ceil(micro * (x.act_bytes + x.scratch_bytes + x.wide_bytes));
    rc->host_bytes = (int64_t)ceil(micro * x.host_bytes);
    rc->state_bytes = (int64_t)ceil(states * home - less);
    rc->folder_bytes = (int64_t)ceil(hsp_sealed_bytes(kinds, home, p->held) - spared);
    rc->comm_bytes = (int64_t)ceil(x.comm_bytes);
    rc->grad_bytes = rc->total_bytes - rc->act_bytes - rc->state_bytes - rc->comm_bytes;
}

void hsp_block_ranges(const struct hsp_pipeline *s, uint32_t stage, char ret[HSP_RANGES_BYTES])
{
    size_t at = 0;
    ret[0] = '\0';
    for (uint32_t c = 0; c < hsp_pipeline_chunks(s); c++) {
        uint32_t n = hsp_chunk_layers(&s->stages[stage], c);
        uint32_t first = hsp_chunk_first_block(s, stage, c);
        const char *comma = at > 0 ? "," : "";
        int more = 0;
        if (n == 1) {
            more = snprintf(ret + at, HSP_RANGES_BYTES - at, "%s%u", comma, first);
        } else if (n > 1) {
            more =
                snprintf(ret + at, HSP_RANGES_BYTES - at, "%s%u-%u", comma, first, first + n - 1);
        }
        at += (size_t)more;
        HSP_ASSERT(at < HSP_RANGES_BYTES);
    }
}

/* Of a stage of several chunks, in @arena. */
static enum hsp_status list_blocks(const struct hsp_pipeline *s, uint32_t stage,
                                   struct hsp_arena *arena, const char **ret, struct hsp_err *err)
{
    char text[HSP_RANGES_BYTES];
    *ret = NULL;
    if (hsp_pipeline_chunks(s) == 1) {
        return HSP_OK;
    }
    hsp_block_ranges(s, stage, text);
    *ret = hsp_arena_strdup(arena, text);
    return *ret != NULL ? HSP_OK : hsp_err_nomem(err, "blocks of a stage");
}

static struct stage_time price_stage(struct pricing *p, uint32_t si, uint32_t gi,
                                     const char *block_ranges)
{
    const struct hsp_pipeline *s = &p->plan->pipelines[si];
    const struct hsp_stage *g = &s->stages[gi];
    struct hsp_link_cost link = link_of(p, g->n, g->ranks);
    struct hsp_stage_work range[HSP_MAX_CHUNKS];
    struct stage_time t = {0};
    double tensor = 0, leaving = 0, m = s->micro_batches;
    struct hsp_work work = *p->in->work;
    uint32_t first, end, chunks = hsp_pipeline_chunks(s);
    work.recompute = g->saved == HSP_SAVED_RECOMPUTE;
    work.offload = g->saved == HSP_SAVED_OFFLOAD;
    for (uint32_t c = 0; c < chunks; c++) {
        hsp_chunk_units(s, gi, c, &first, &end);
        hsp_range_make(&work, first, end, &range[c]);
        tensor += m * hsp_stage_tensor_us(&range[c], g, s->sequences / m, &link);
        leaving += range[c].w.leaving;
    }
    if (gi + 1 < s->n_stages) {
        struct hsp_link_cost hop = hsp_link_pair(p->in->cluster, p->device[g->ranks[0]],
                                                 p->device[s->stages[gi + 1].ranks[0]]);
        t.transfer = 2 * (m * chunks * hop.latency_us + s->sequences * leaving * hop.us_per_byte);
    }
    for (uint32_t i = 0; i < g->n; i++) {
        struct hsp_rank_cost *rc = &p->cost->rank[g->ranks[i]];
        *rc = (struct hsp_rank_cost){.pipeline = si,
                                     .stage = gi,
                                     .first_block = hsp_chunk_first_block(s, gi, 0),
                                     .n_blocks = g->layers,
                                     .block_ranges = block_ranges,
                                     .schedule = s->schedule,
                                     .part = hsp_stage_part(g, i),
                                     .tensor_us = tensor,
                                     .transfer_us = t.transfer};
        price_rank(p, range, g->ranks[i], rc);
        t.us = fmax(t.us, rc->compute_us);
    }
    t.us += tensor;
    return t;
}

/* 1F1B and GPipe: fill with all stages and hops once, then the slowest stage or hop for every
 * further micro-batch. */
static enum hsp_status price_pipeline(struct pricing *p, uint32_t si, struct hsp_arena *arena,
                                      struct hsp_err *err)
{
    const struct hsp_pipeline *s = &p->plan->pipelines[si];
    double m = s->micro_batches, fill = 0, slow = 0;
    for (uint32_t gi = 0; gi < s->n_stages; gi++) {
        const char *blocks = NULL;
        enum hsp_status st = list_blocks(s, gi, arena, &blocks, err);
        if (st != HSP_OK) {
            return st;
        }
        struct stage_time t = price_stage(p, si, gi, blocks);
        fill += (t.us + t.transfer) / m;
        slow = fmax(slow, fmax(t.us, t.transfer) / m);
    }
    double us = fill + (m - 1) * slow;
    if (s->schedule == HSP_SCHED_INTERLEAVED || s->schedule == HSP_SCHED_ZERO_BUBBLE) {
        struct hsp_timeline line;
        struct hsp_arena_position mark = hsp_arena_mark(arena);
        enum hsp_status st =
            hsp_pipeline_timeline(p->in, p->plan, si, p->device, arena, &line, err);
        if (st != HSP_OK) {
            return st;
        }
        us = line.end_us;
        hsp_arena_rewind(arena, mark);
    }
    for (uint32_t gi = 0; gi < s->n_stages; gi++) {
        for (uint32_t i = 0; i < s->stages[gi].n; i++) {
            uint32_t rank = s->stages[gi].ranks[i];
            p->cycle_us[rank] = us + p->cost->rank[rank].update_us;
        }
    }
    return HSP_OK;
}

/* Each device alone would need this long for one sequence; together they cannot be faster than the
 * sum of their rates. */
static double bound_us(const struct hsp_price_in *in)
{
    struct hsp_stage_work all;
    double rate = 0;
    struct hsp_work work = *in->work;
    work.recompute = work.offload = false;
    hsp_range_make(&work, 0, work.n_layers, &all);
    double low = all.w.low.cut + all.w.low.whole;
    for (uint32_t i = 0; i < in->cluster->n; i++) {
        const struct hsp_device_desc *d = &in->cluster->dev[i];
        struct hsp_amount s = hsp_product_seconds(&all.w, d, in->work->rate);
        double us = 1e6 * (s.cut + s.whole +
                           (all.w.bytes.cut + all.w.bytes.whole - low) / d->mem_bytes_per_s +
                           low / hsp_device_bf16_bytes(d));
        rate += us > 0 ? 1 / us : 0;
    }
    return rate > 0 ? in->train->data.global_batch / rate : 0;
}

/* Of a step of @step_us, where a version costs @version_us. */
static double due_us(const struct hsp_due_rule *due, double version_us, double step_us)
{
    if (due->every > 0 || !(due->overhead > 0)) {
        return version_us / (due->every > 0 ? due->every : 1);
    }
    double most = fmax(1, due->max_recompute_s * 1e6 / step_us); /* steps */
    return fmax(version_us / most, fmin(version_us, due->overhead * step_us));
}

/* State without a replica on another node is sent to one in every step whose version is due, while
 * the next step computes; a quarter of that time is counted for links and memory, which are shared.
 */
static double copy_us(const struct pricing *p, double step_us)
{
    double worst = 0;
    if (!needs_copies(p) || p->in->copies < 2) {
        return 0;
    }
    for (uint32_t r = 0; r < p->plan->n_ranks; r++) {
        double version = (double)p->cost->rank[r].folder_bytes / 2 / p->held;
        struct hsp_link_cost out = hsp_link_out(p->in->cluster, p->device[r]);
        worst = fmax(worst, version * (p->in->copies - 1) * out.us_per_byte);
    }
    return due_us(&p->in->due, worst / 4, step_us);
}

/* Gradients come for parameters that a rank has and does not compute with, and it updates all it
 * has; weights come, and gradients go, for parameters that it only computes with. */
static double homes_us(const struct pricing *p)
{
    double worst = 0;
    for (uint32_t r = 0; p->in->homes != NULL && r < p->cost->n; r++) {
        const struct hsp_rank_cost *own = &p->cost->rank[r];
        const struct hsp_rank_cost *at = &p->in->homes->rank[p->device[r]];
        double bytes = fmax(at->home_bytes - own->used_bytes, 0) +
                       (1 + used_part(p)) * fmax(own->used_bytes - at->home_bytes, 0);
        double update = fmax(at->update_us - own->update_us, 0);
        worst = fmax(worst, update + bytes * p->all.us_per_byte);
    }
    return worst;
}

static void finish(struct pricing *p)
{
    struct hsp_cost *c = p->cost;
    double least = (double)INFINITY;
    for (uint32_t r = 0; r < c->n; r++) {
        double busy = c->rank[r].compute_us + c->rank[r].tensor_us + c->rank[r].update_us;
        c->pipeline_us = fmax(c->pipeline_us, p->cycle_us[r]);
        c->sync_us = fmax(c->sync_us, c->rank[r].sync_us);
        least = fmin(least, busy);
    }
    c->vote_us = c->n > 1 ? p->all.latency_us * (1 + log2(c->n)) : 0;
    c->homes_us = homes_us(p);
    c->step_us = c->pipeline_us + c->sync_us + c->vote_us + c->homes_us;
    c->copy_us = copy_us(p, c->step_us);
    c->step_us += c->copy_us;
    c->idle_us = c->step_us - least;
    c->bound_us = bound_us(p->in);
    c->nodes = hsp_count_nodes(p->in->cluster, p->device, c->n, p->in->copies);
    c->copied = p->held > 1;
    double all = 0;
    for (uint32_t i = 0; i < p->in->work->n_params; i++) {
        all += p->in->work->param[i].bytes;
    }
    c->replica_holder_bytes = hsp_sealed_bytes(kinds_of(p->in), all, 1);
}

/* Adds up the bytes of the ranks of a node in its state folder. */
static enum hsp_status add_up_nodes(struct pricing *p, struct hsp_arena *arena, struct hsp_err *err)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < p->cost->n; r++) {
        most = dev_of(p, r)->node > most ? dev_of(p, r)->node : most;
    }
    int64_t *of = hsp_arena_array(arena, (size_t)most + 1, sizeof(*of));
    if (of == NULL) {
        return hsp_err_nomem(err, "price of a plan of %u ranks", p->cost->n);
    }
    for (uint32_t r = 0; r < p->cost->n; r++) {
        of[dev_of(p, r)->node] += p->cost->rank[r].folder_bytes;
    }
    for (uint32_t r = 0; r < p->cost->n; r++) {
        p->cost->rank[r].node_folder_bytes = of[dev_of(p, r)->node];
    }
    return HSP_OK;
}

static enum hsp_status price_all(struct pricing *p, struct hsp_arena *arena, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    *p->cost = (struct hsp_cost){.n = p->cost->n, .rank = p->cost->rank, .bucket_bytes = p->bucket};
    memset(p->cost->rank, 0, p->cost->n * sizeof(*p->cost->rank));
    memset(p->cycle_us, 0, p->cost->n * sizeof(*p->cycle_us));
    for (uint32_t s = 0; st == HSP_OK && s < p->plan->n_pipelines; s++) {
        st = price_pipeline(p, s, arena, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    finish(p);
    return add_up_nodes(p, arena, err);
}

enum hsp_status hsp_price(const struct hsp_price_in *in, const struct hsp_plan *plan,
                          const uint32_t *device, struct hsp_arena *arena, struct hsp_cost *ret,
                          struct hsp_err *err)
{
    struct hsp_cost cost = {.n = plan->n_ranks};
    struct pricing p = {.in = in, .plan = plan, .device = device, .cost = &cost};
    uint32_t rank;
    cost.rank = hsp_arena_array(arena, plan->n_ranks, sizeof(*cost.rank));
    p.cycle_us = hsp_arena_array(arena, plan->n_ranks, sizeof(*p.cycle_us));
    p.group = hsp_arena_array(arena, plan->n_ranks, sizeof(*p.group));
    if (cost.rank == NULL || p.cycle_us == NULL || p.group == NULL) {
        return hsp_err_nomem(err, "price of a plan of %u ranks", plan->n_ranks);
    }
    p.all = hsp_link_group(in->cluster, device, plan->n_ranks);
    p.held = needs_copies(&p) ? hsp_count_nodes(in->cluster, device, plan->n_ranks, in->copies) : 1;
    p.bucket = hsp_bucket_of_plan(plan, in->cluster, device);
    enum hsp_status st = price_all(&p, arena, err);
    /* Buckets that find no memory are none. */
    if (st == HSP_OK && !plan->states_bucket && p.bucket > 0 && !hsp_cost_fits(in, &cost, &rank)) {
        p.bucket = 0;
        st = price_all(&p, arena, err);
    }
    if (st == HSP_OK) {
        *ret = cost;
    }
    return st;
}

bool hsp_cost_fits(const struct hsp_price_in *in, const struct hsp_cost *c, uint32_t *ret_rank)
{
    for (uint32_t r = 0; r < c->n; r++) {
        if (c->rank[r].total_bytes > in->cluster->dev[c->rank[r].device].mem_bytes) {
            *ret_rank = r;
            return false;
        }
    }
    return true;
}

bool hsp_cost_fits_folder(const struct hsp_price_in *in, const struct hsp_cost *c,
                          uint32_t *ret_rank)
{
    for (uint32_t r = 0; r < c->n; r++) {
        int64_t room = in->cluster->dev[c->rank[r].device].folder_bytes;
        if (room > 0 && c->rank[r].node_folder_bytes > room) {
            *ret_rank = r;
            return false;
        }
    }
    return true;
}

bool hsp_cost_fits_host(const struct hsp_price_in *in, const struct hsp_cost *c, uint32_t *ret_rank,
                        int64_t *ret_bytes)
{
    for (uint32_t r = 0; r < c->n; r++) {
        const struct hsp_device_desc *d = &in->cluster->dev[c->rank[r].device];
        int64_t sum = 0;
        for (uint32_t k = 0; d->host_bytes > 0 && k < c->n; k++) {
            bool same = in->cluster->dev[c->rank[k].device].node == d->node;
            sum += same ? c->rank[k].host_bytes : 0;
        }
        if (sum > d->host_bytes) {
            *ret_rank = r;
            *ret_bytes = sum;
            return false;
        }
    }
    return true;
}
