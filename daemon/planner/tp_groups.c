#include "daemon/planner/tp_groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/planner/candidates.h"
#include "daemon/planner/links.h"
#include "daemon/planner/shares.h"
#include "proto/layout/cut_shares.h"

static const struct hsp_device_desc *dev_of(const struct hsp_search *s, uint32_t d)
{
    return &s->in.cluster->dev[d];
}

/* Whole model, one sequence, alone. */
static double alone_us(const struct hsp_search *s, const struct hsp_stage_work *all, uint32_t d)
{
    struct hsp_member m;
    hsp_member_price(&s->in, all, dev_of(s, d), 1, 1, 1, 0, 1, &m);
    return m.seq_us + m.micro_us / s->micro_cap;
}

struct order {
    double us;
    uint32_t node, domain, dev;
};

static int by_node_and_speed(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    if (x->node != y->node) {
        return x->node < y->node ? -1 : 1;
    }
    if (x->domain != y->domain) {
        return x->domain < y->domain ? -1 : 1;
    }
    if (x->us < y->us || x->us > y->us) {
        return x->us < y->us ? -1 : 1;
    }
    return x->dev < y->dev ? -1 : x->dev > y->dev;
}

static int tp_groups_by_speed(const void *a, const void *b)
{
    const struct hsp_tp_group *x = a, *y = b;
    if (x->seq_us < y->seq_us || x->seq_us > y->seq_us) {
        return x->seq_us < y->seq_us ? -1 : 1;
    }
    return x->dev[0] < y->dev[0] ? -1 : x->dev[0] > y->dev[0];
}

static int64_t gcd_of(uint32_t n, const int64_t *v)
{
    int64_t g = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (int64_t a = v[i]; a != 0;) {
            int64_t rest = g % a;
            g = a;
            a = rest;
        }
    }
    return g > 0 ? g : 1;
}

/* Of element-wise work, that on bf16 at its own rate. */
static double elements_us(const struct hsp_device_desc *d, double bytes, double low)
{
    return 1e6 * (bytes - low) / d->mem_bytes_per_s + 1e6 * low / hsp_device_bf16_bytes(d);
}

/* Fractions by linear program (two segments: multiplications and memory-bound work, with the
 * members' memory as caps on their parts), then whole units by largest remainder. A member without
 * a unit is no member: HSP_EINFEASIBLE. */
static enum hsp_status share_units(struct hsp_search *s, const struct hsp_stage_work *all,
                                   struct hsp_tp_group *x)
{
    uint32_t n = x->n;
    double *v = hsp_arena_array(s->arena, (size_t)n * 7, sizeof(*v));
    int64_t *weight = hsp_arena_array(s->arena, n, sizeof(*weight));
    int64_t *cuts = hsp_arena_array(s->arena, (size_t)n + 1, sizeof(*cuts));
    if (v == NULL || weight == NULL || cuts == NULL) {
        return hsp_err_nomem(s->err, "tensor group of %u", n);
    }
    double *slope = v, *fixed = v + 2 * n, *mem = v + 4 * n, *cap = v + 5 * n, *w = v + 6 * n, us;
    for (uint32_t j = 0; j < n; j++) {
        const struct hsp_device_desc *d = dev_of(s, x->dev[j]);
        struct hsp_amount products = hsp_product_seconds(&all->w, d, s->in.work->rate);
        slope[j] = 1e6 * products.cut;
        fixed[j] = 1e6 * products.whole;
        slope[n + j] = elements_us(d, all->w.bytes.cut, all->w.low.cut);
        fixed[n + j] = elements_us(d, all->w.bytes.whole, all->w.low.whole);
        /* a pipeline may later give each group a part of the blocks only, so memory bounds the
         * proportions, not the sizes */
        mem[j] = 1;
        cap[j] = (double)d->mem_bytes;
    }
    double total = 0;
    for (uint32_t j = 0; j < n; j++) {
        total += cap[j];
    }
    for (uint32_t j = 0; j < n; j++) {
        cap[j] = fmin(1, 2 * cap[j] / total);
    }
    struct hsp_lp_limits limits = {.cancel = s->opts->cancel};
    struct hsp_segments seg = {n, 2, slope, fixed, mem, cap};
    enum hsp_status st = hsp_shares_segments(&seg, &limits, w, &us, s->err);
    if (st != HSP_OK) {
        return st;
    }
    for (uint32_t j = 0; j < n; j++) {
        weight[j] = (int64_t)llround(w[j] * 1e6);
    }
    hsp_cut_shares(s->in.work->tp_units, n, weight, cuts);
    for (uint32_t j = 0; j < n; j++) {
        x->shares[j] = cuts[j + 1] - cuts[j];
        if (x->shares[j] == 0) {
            return HSP_EINFEASIBLE;
        }
    }
    int64_t g = gcd_of(n, x->shares);
    for (uint32_t j = 0; j < n; j++) {
        x->shares[j] /= g;
    }
    return HSP_OK;
}

/* Price of the whole model on the group, without its links: for ordering only. */
static void order_key(const struct hsp_search *s, const struct hsp_stage_work *all,
                      struct hsp_tp_group *x)
{
    double total = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        total += (double)x->shares[i];
    }
    x->seq_us = 0;
    x->mem_bytes = x->room = (double)INFINITY;
    for (uint32_t i = 0; i < x->n; i++) {
        struct hsp_member m;
        hsp_member_price(&s->in, all, dev_of(s, x->dev[i]), (double)x->shares[i] / total, x->n, 1,
                         0, 1, &m);
        x->seq_us = fmax(x->seq_us, m.seq_us + m.micro_us / s->micro_cap);
        x->mem_bytes = fmin(x->mem_bytes, (double)dev_of(s, x->dev[i])->mem_bytes);
        x->room = fmin(x->room, s->room[x->dev[i]]);
    }
}

static enum hsp_status form(struct hsp_search *s, const struct hsp_stage_work *all,
                            const struct order *o, uint32_t n, struct hsp_tp_group *x)
{
    x->n = n;
    x->dev = hsp_arena_array(s->arena, n, sizeof(*x->dev));
    x->shares = hsp_arena_array(s->arena, n, sizeof(*x->shares));
    if (x->dev == NULL || x->shares == NULL) {
        return hsp_err_nomem(s->err, "tensor group of %u", n);
    }
    for (uint32_t i = 0; i < n; i++) {
        x->dev[i] = o[i].dev;
        x->shares[i] = 1;
    }
    if (n > 1) {
        enum hsp_status st = share_units(s, all, x);
        if (st != HSP_OK) {
            return st;
        }
    }
    order_key(s, all, x);
    x->out = hsp_link_out(s->in.cluster, x->dev[0]);
    x->in = hsp_link_group(s->in.cluster, x->dev, n);
    return HSP_OK;
}

/* As many as are of one node with the first; or of one domain of it. */
static uint32_t run_of(const struct order *o, uint32_t n, bool domain)
{
    uint32_t k = 1;
    while (k < n && o[k].node == o[0].node && (!domain || o[k].domain == o[0].domain)) {
        k++;
    }
    return k;
}

/* A fast domain among the @n devices of a node has room for a group of @degree. */
static bool domain_holds(const struct order *o, uint32_t n, uint32_t degree)
{
    bool any = false;
    for (uint32_t i = 0, k; i < n; i += k) {
        k = run_of(&o[i], n - i, true);
        any = any || (o[i].domain != 0 && k >= degree);
    }
    return any;
}

enum hsp_status hsp_tp_groups_make(struct hsp_search *s, uint32_t degree, struct hsp_tp_group **ret,
                                   uint32_t *ret_n)
{
    uint32_t n_dev = s->in.cluster->n, n = 0;
    const struct hsp_stage_work *all = &s->all;
    struct hsp_tp_group *x = hsp_arena_array(s->arena, n_dev, sizeof(*x));
    struct order *o = hsp_arena_array(s->arena, n_dev, sizeof(*o));
    *ret_n = 0;
    if (x == NULL || o == NULL) {
        return hsp_err_nomem(s->err, "groups of %u devices", n_dev);
    }
    for (uint32_t d = 0; d < n_dev; d++) {
        o[d] = (struct order){alone_us(s, all, d), dev_of(s, d)->node, dev_of(s, d)->domain, d};
    }
    qsort(o, n_dev, sizeof(*o), by_node_and_speed);
    bool grouped = degree == 1, inside = false;
    for (uint32_t i = 0; i < n_dev;) {
        if (i == 0 || o[i - 1].node != o[i].node) {
            inside = domain_holds(&o[i], run_of(&o[i], n_dev - i, false), degree);
        }
        uint32_t left = run_of(&o[i], n_dev - i, inside);
        uint32_t take = left >= degree ? degree : 1;
        enum hsp_status st = form(s, all, &o[i], take, &x[n]);
        if (st == HSP_EINFEASIBLE) { /* too unequal to cut: no such groups */
            return HSP_OK;
        }
        if (st != HSP_OK) {
            return st;
        }
        grouped = grouped || take > 1;
        n++;
        i += take;
    }
    qsort(x, n, sizeof(*x), tp_groups_by_speed);
    *ret = x;
    *ret_n = grouped ? n : 0;
    return HSP_OK;
}
