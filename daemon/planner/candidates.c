/* Enumeration of structures; see planner.h and candidates.h. */
#include "daemon/planner/candidates.h"

#include <math.h>
#include <string.h>

#include "daemon/planner/lines.h"
#include "daemon/planner/price.h"
#include "daemon/planner/rings.h"
#include "daemon/planner/shares.h"
#include "daemon/planner/supers.h"

#define MAX_PREFIXES     32 /* numbers of streams tried */
#define MAX_LINK_CLASSES 4  /* the search is done for each */

/* What a structure pays, as a part of its step. Computing is predicted better than communication,
 * replicas make a loss cheap, and simple plans switch faster: the others must be clearly faster. */
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
        const struct hsp_device_desc *d = &s->in.cluster->dev[device[rank]];
        double need = (double)c.cost.rank[rank].total_bytes;
        c.short_bytes = need - (double)d->mem_bytes;
        c.trouble = hsp_arena_printf(s->arena, "needs %s on %s, which offers %s",
                                     hsp_bytes_figure(need).text, d->name,
                                     hsp_bytes_figure((double)d->mem_bytes).text);
        if (c.trouble == NULL) {
            return hsp_search_no_memory(s);
        }
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

enum hsp_status hsp_draft_make(struct hsp_search *s, uint32_t n_streams, uint8_t zero,
                               struct hsp_plan_draft *ret)
{
    struct hsp_plan *p = hsp_arena_alloc(s->arena, sizeof(*p));
    ret->device = hsp_arena_array(s->arena, s->in.cluster->n, sizeof(*ret->device));
    if (p == NULL || ret->device == NULL) {
        return hsp_search_no_memory(s);
    }
    p->zero = zero;
    p->n_streams = n_streams;
    p->streams = hsp_arena_array(s->arena, n_streams, sizeof(*p->streams));
    ret->plan = p;
    return p->streams == NULL ? hsp_search_no_memory(s) : HSP_OK;
}

enum hsp_status hsp_draft_stage(struct hsp_search *s, struct hsp_plan_draft *d, struct hsp_stage *g,
                                uint32_t layers, const struct hsp_super *x)
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

/* ---- data parallel: every group a stream with the whole model ---- */

uint32_t hsp_micro_fit(const struct hsp_search *s, const struct hsp_super *x, uint32_t holders,
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

uint32_t hsp_nodes_of(const struct hsp_search *s, const struct hsp_super *x, const uint32_t *member,
                      uint32_t n)
{
    uint32_t *first = hsp_arena_array(s->arena, n, sizeof(*first));
    for (uint32_t i = 0; first != NULL && i < n; i++) {
        first[i] = x[member != NULL ? member[i] : i].dev[0];
    }
    return first == NULL ? 0 : hsp_count_nodes(s->in.cluster, first, n, s->in.copies);
}

static bool any_grouped(const struct hsp_super *x, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && x[i].n == 1) {
        i++;
    }
    return i < n;
}

/* Streams over the @k fastest groups. One that does not fit is offered with micro-batches of 1, so
 * that the explanation has its numbers. */
static enum hsp_status try_streams(struct hsp_search *s, const struct hsp_super *x, uint32_t k,
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
    uint32_t held = zero > 0 ? hsp_nodes_of(s, x, NULL, k) : 1; /* else replicas, or keepers */
    if (held == 0) {
        return hsp_search_no_memory(s);
    }
    for (uint32_t i = 0; i < k; i++) {
        (void)hsp_micro_fit(s, &x[i], k, zero, held, &dev[i]);
    }
    st = hsp_shares_minmax(k, dev, s->global_batch, share, &us, s->err);
    for (uint32_t i = 0; i < k && st == HSP_OK; i++) {
        struct hsp_stream *t = &d.plan->streams[i];
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
        degree > 1 ? (k > 1 ? " streams" : " stream") : (k > 1 ? " devices" : " device"),
        zero > 0 ? ", optimizer state cut (ZeRO-1)" : "");
    return what == NULL ? hsp_search_no_memory(s)
                        : hsp_search_offer(s, kind, d.plan, d.device, what);
}

static enum hsp_status try_all_streams(struct hsp_search *s, const struct hsp_super *x, uint32_t n,
                                       uint32_t degree)
{
    uint32_t most = n < HSP_MAX_STREAMS ? n : HSP_MAX_STREAMS;
    most = most < s->global_batch ? most : s->global_batch;
    uint32_t step = hsp_parts(most, MAX_PREFIXES);
    for (uint32_t k = most; k >= 1; k = k > step ? k - step : k - 1) {
        for (uint8_t zero = 0; zero <= (s->opts->no_zero || k == 1 ? 0 : 1); zero++) {
            struct hsp_attempt a;
            enum hsp_status st = hsp_attempt_begin(s, &a);
            if (st == HSP_OK) {
                st = try_streams(s, x, k, zero, degree);
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

static enum hsp_status make_ranges(struct hsp_search *s)
{
    uint32_t nb = s->n_blocks;
    s->ranges = hsp_arena_array(s->arena, (size_t)nb * nb, sizeof(*s->ranges));
    if (s->ranges == NULL) {
        return hsp_search_no_memory(s);
    }
    hsp_range_make(s->in.work, 0, s->in.work->n_layers, &s->all);
    for (uint32_t first = 0; first < nb; first++) {
        for (uint32_t end = first + 1; end <= nb; end++) {
            hsp_range_of_blocks(s->in.work, first, end, &s->ranges[(size_t)first * nb + end - 1]);
        }
    }
    return HSP_OK;
}

static enum hsp_status try_groups(struct hsp_search *s, const struct hsp_super *x, uint32_t n,
                                  uint32_t degree)
{
    enum hsp_status st = try_all_streams(s, x, n, degree);
    if (st == HSP_OK && degree == 1) {
        st = hsp_try_rings(s, x, n);
    }
    return st == HSP_OK ? hsp_try_lines(s, x, n, degree) : st;
}

/* Classes of links out of nodes, slowest first, each bound faster than the one before by more than the
 * tolerance, which doubles until there are few. */
static uint32_t link_classes(const struct hsp_super *x, uint32_t n, double bound[MAX_LINK_CLASSES])
{
    for (double tol = HSP_ALIKE;; tol *= 2) {
        uint32_t count = 0;
        double at = (double)INFINITY, next;
        do {
            next = -1;
            for (uint32_t i = 0; i < n; i++) {
                double us = x[i].out.us_per_byte;
                next = us * (1 + tol) < at ? fmax(next, us) : next;
            }
            if (next >= 0 && count < MAX_LINK_CLASSES) {
                bound[count] = next;
            }
            count += next >= 0 ? 1 : 0;
            at = next;
        } while (next >= 0);
        if (count <= MAX_LINK_CLASSES) {
            return count;
        }
    }
}

/* All groups, then without those behind the slowest links: one of them makes the gradients of all
 * late, however fast it computes. */
static enum hsp_status try_by_links(struct hsp_search *s, struct hsp_super *x, uint32_t n,
                                    uint32_t degree)
{
    double bound[MAX_LINK_CLASSES];
    uint32_t classes = link_classes(x, n, bound);
    enum hsp_status st = HSP_OK;
    s->n_groups = n;
    for (uint32_t k = 0; k < classes && st == HSP_OK; k++) {
        uint32_t near = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (x[i].out.us_per_byte <= bound[k]) {
                x[near++] = x[i];
            }
        }
        n = near;
        st = try_groups(s, x, n, degree);
    }
    return st;
}

enum hsp_status hsp_search_run(struct hsp_search *s)
{
    enum hsp_status ranges = make_ranges(s);
    if (ranges != HSP_OK) {
        return ranges;
    }
    int64_t units = s->in.work->tp_units;
    for (uint32_t degree = 1; degree == 1 || (int64_t)degree <= units; degree *= 2) {
        struct hsp_super *x = NULL;
        uint32_t n = 0;
        if (degree > s->in.cluster->n) {
            break;
        }
        enum hsp_status st = hsp_supers_make(s, degree, &x, &n);
        if (st == HSP_OK && n > 0) {
            st = try_by_links(s, x, n, degree);
        }
        if (st != HSP_OK) {
            return st;
        }
    }
    return HSP_OK;
}
