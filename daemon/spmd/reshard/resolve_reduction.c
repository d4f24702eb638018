#include "daemon/spmd/reshard/resolve_reduction.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/reshard/cell_holders.h"
#include "daemon/spmd/reshard/copy_send.h"
#include "daemon/spmd/reshard/move_list.h"
#include "daemon/spmd/reshard/resolve.h"
#include "daemon/spmd/reshard/resolve_impl.h"
#include "proto/layout/box.h"

/* A group that adds, its members ascending. */
struct group {
    uint32_t n;
    uint32_t rank[HSP_MAX_RANKS];
    uint8_t pick[HSP_MAX_RANKS];
    bool picks; /* some member gives one input of several that hold the cell */
};

static bool in_list(const uint32_t *list, uint32_t n, uint32_t rank)
{
    for (uint32_t i = 0; i < n; i++) {
        if (list[i] == rank) {
            return true;
        }
    }
    return false;
}

static int by_addend(const void *a, const void *b)
{
    const struct hsp_holder *x = a, *y = b;
    if (x->addend != y->addend) {
        return x->addend < y->addend ? -1 : 1;
    }
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void add_member(struct group *g, uint32_t rank, uint8_t pick)
{
    uint32_t i = g->n++;
    for (; i > 0 && g->rank[i - 1] > rank; i--) {
        g->rank[i] = g->rank[i - 1];
        g->pick[i] = g->pick[i - 1];
    }
    g->rank[i] = rank;
    g->pick[i] = pick;
    g->picks = g->picks || pick != HSP_MOVE_SUM;
}

/* The holder of one addend, h[0..n), that is best for one group alone. */
static const struct hsp_holder *best_adder(const struct hsp_resolver *r,
                                           const struct hsp_move_task *t,
                                           const struct hsp_holder *h, uint32_t n)
{
    const struct hsp_holder *best = NULL;
    bool best_recv = false;
    double best_us = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool recv = hsp_task_receives(&r->t, t, h[i].rank);
        double us = hsp_resolver_us(r, h[i].rank, r->t.recv[t->recv]);
        if (best == NULL || (recv && !best_recv) ||
            (recv == best_recv &&
             (us < best_us || (!(us > best_us) && r->load[h[i].rank] < r->load[best->rank])))) {
            best = &h[i];
            best_recv = recv;
            best_us = us;
        }
    }
    return best;
}

/* The @j-th holder of one addend that receives. */
static const struct hsp_holder *nth_receiving(const struct hsp_resolver *r,
                                              const struct hsp_move_task *t,
                                              const struct hsp_holder *h, uint32_t n, uint32_t j)
{
    for (uint32_t i = 0; i < n; i++) {
        if (hsp_task_receives(&r->t, t, h[i].rank) && j-- == 0) {
            return &h[i];
        }
    }
    return NULL;
}

/* How many groups can add side by side: every addend has so many holders that receive. At least 1.
 */
static uint32_t count_groups(const struct hsp_resolver *r, const struct hsp_move_task *t)
{
    const struct hsp_holder *h = &r->t.hold[t->hold];
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0, end; i < t->n_hold; i = end) {
        uint32_t n = 0;
        for (end = i; end < t->n_hold && h[end].addend == h[i].addend; end++) {
            n += hsp_task_receives(&r->t, t, h[end].rank) ? 1 : 0;
        }
        least = n < least ? n : least;
    }
    return least == 0 || r->t.opts->owner_bytes ? 1 : least;
}

/* Holders are sorted by addend, no rank has two. */
static void make_group(const struct hsp_resolver *r, const struct hsp_move_task *t, uint32_t j,
                       uint32_t n_groups, struct group *ret)
{
    const struct hsp_holder *h = &r->t.hold[t->hold];
    for (uint32_t i = 0, end; i < t->n_hold; i = end) {
        for (end = i; end < t->n_hold && h[end].addend == h[i].addend;) {
            end++;
        }
        const struct hsp_holder *one = n_groups > 1 ? nth_receiving(r, t, &h[i], end - i, j)
                                                    : best_adder(r, t, &h[i], end - i);
        add_member(ret, one->rank, hsp_holder_pick(one));
    }
}

/* Where a rank holds several addends: each gives all of them, or one. Ranks that hold most come
 * first, with all; the rest is given by ranks that give nothing yet, receivers first. */
struct assignment {
    const struct hsp_resolver *r;
    const struct hsp_move_task *t;
    bool *taken; /* [holder]: its addend is given by somebody */
    struct group *g;
};

static void take_addend(struct assignment *a, uint32_t addend)
{
    const struct hsp_holder *h = &a->r->t.hold[a->t->hold];
    for (uint32_t i = 0; i < a->t->n_hold; i++) {
        a->taken[i] = a->taken[i] || h[i].addend == addend;
    }
}

/* Addends of the rank of holder @i, if none is taken and its inputs hold no other; else 0. */
static uint32_t free_addends(const struct assignment *a, uint32_t i)
{
    const struct hsp_holder *h = &a->r->t.hold[a->t->hold];
    uint32_t n = 0;
    for (uint32_t k = 0; k < a->t->n_hold; k++) {
        if (h[k].rank == h[i].rank) {
            if (a->taken[k]) {
                return 0;
            }
            n++;
        }
    }
    return n == h[i].n_items ? n : 0;
}

static bool give_all(struct assignment *a)
{
    const struct hsp_holder *h = &a->r->t.hold[a->t->hold];
    uint32_t best = UINT32_MAX, most = 1;
    for (uint32_t i = 0; i < a->t->n_hold; i++) {
        uint32_t n = free_addends(a, i);
        if (n > most) {
            best = i;
            most = n;
        }
    }
    if (best == UINT32_MAX) {
        return false;
    }
    uint32_t rank = h[best].rank;
    for (uint32_t i = 0; i < a->t->n_hold; i++) {
        if (h[i].rank == rank) {
            take_addend(a, h[i].addend);
        }
    }
    add_member(a->g, rank, HSP_MOVE_SUM);
    return true;
}

static bool give_one(struct assignment *a, uint32_t addend)
{
    const struct hsp_holder *h = &a->r->t.hold[a->t->hold], *best = NULL;
    for (uint32_t i = 0; i < a->t->n_hold; i++) {
        bool can = h[i].addend == addend && !in_list(a->g->rank, a->g->n, h[i].rank);
        if (can && (best == NULL || (hsp_task_receives(&a->r->t, a->t, h[i].rank) &&
                                     !hsp_task_receives(&a->r->t, a->t, best->rank)))) {
            best = &h[i];
        }
    }
    if (best == NULL) {
        return false;
    }
    take_addend(a, addend);
    add_member(a->g, best->rank, hsp_holder_pick(best));
    return true;
}

static enum hsp_status assign(const struct hsp_resolver *r, const struct hsp_move_task *t,
                              struct group *ret, struct hsp_err *err)
{
    struct assignment a = {.r = r, .t = t, .g = ret};
    bool ok = true;
    a.taken = calloc(t->n_hold, sizeof *a.taken);
    if (a.taken == NULL) {
        return hsp_err_nomem(err, "moves of a reshard");
    }
    while (give_all(&a)) {
    }
    for (uint32_t i = 0; ok && i < t->n_hold; i++) {
        ok = a.taken[i] || give_one(&a, r->t.hold[t->hold + i].addend);
    }
    free(a.taken);
    return ok ? HSP_OK
              : hsp_err_set(
                    err, HSP_EUNSUPPORTED, 0,
                    "ranks hold several addends of a cell, none of which can be given alone");
}

/* The member of @g that makes the sum for receiver @to: incoming data is near, then outgoing data.
 */
static uint32_t best_root(const struct hsp_resolver *r, const struct group *g, const bool *may,
                          uint32_t to)
{
    uint32_t best = UINT32_MAX;
    double best_us = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        double us = hsp_resolver_us(r, g->rank[i], to);
        for (uint32_t k = 0; r->t.opts->links != NULL && k < g->n; k++) {
            us += hsp_resolver_us(r, g->rank[k], g->rank[i]);
        }
        if (may[i] && (best == UINT32_MAX || us < best_us ||
                       (!(us > best_us) && r->load[g->rank[i]] < r->load[g->rank[best]]))) {
            best = i;
            best_us = us;
        }
    }
    return best;
}

static struct hsp_draft_key key_of(uint8_t kind, const struct group *g)
{
    return (struct hsp_draft_key){
        .kind = kind, .n_ranks = g->n, .ranks = g->rank, .pick = g->picks ? g->pick : NULL};
}

/* One rank holds all addends. *ret_has: a receiver that has the sum. */
static enum hsp_status sum_alone(struct hsp_resolver *r, const struct hsp_move_task *t,
                                 const struct group *g, bool *has, struct hsp_err *err)
{
    uint32_t from = g->rank[0];
    if (hsp_task_receives(&r->t, t, from)) {
        has[from] = true;
        return hsp_resolver_copy(r, t, from, g->pick[0], err);
    }
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < t->n_recv; i++) {
        has[r->t.recv[t->recv + i]] = true;
        rc = hsp_resolver_send(r, t, false, g->pick[0], from, r->t.recv[t->recv + i], err);
    }
    return rc;
}

/* No adder receives: one makes the sum and hands it to the nearest receiver. */
static enum hsp_status sum_and_send(struct hsp_resolver *r, const struct hsp_move_task *t,
                                    struct group *g, bool *has, struct hsp_err *err)
{
    bool any[HSP_MAX_RANKS];
    uint32_t to = r->t.recv[t->recv];
    memset(any, true, g->n * sizeof *any);
    uint32_t root = g->rank[best_root(r, g, any, to)];
    for (uint32_t i = 1; i < t->n_recv; i++) {
        uint32_t other = r->t.recv[t->recv + i];
        to = hsp_resolver_us(r, root, other) < hsp_resolver_us(r, root, to) ? other : to;
    }
    add_member(g, to, HSP_MOVE_SUM);
    has[to] = true;
    r->load[root] += hsp_box_count(&t->box);
    struct hsp_draft_key key = key_of(HSP_MOVE_REDUCE_SEND, g);
    return hsp_drafts_add(&r->drafts, &key, &t->box, root, to, err);
}

static enum hsp_status add_group(struct hsp_resolver *r, const struct hsp_move_task *t,
                                 struct group *g, bool *has, struct hsp_err *err)
{
    bool may[HSP_MAX_RANKS];
    uint32_t n = 0;
    if (g->n == 1) {
        return sum_alone(r, t, g, has, err);
    }
    for (uint32_t i = 0; i < g->n; i++) {
        may[i] = hsp_task_receives(&r->t, t, g->rank[i]);
        n += may[i] ? 1 : 0;
        r->load[g->rank[i]] += hsp_box_count(&t->box);
    }
    if (n == 0) {
        return sum_and_send(r, t, g, has, err);
    }
    struct hsp_draft_key key = key_of(n == g->n ? HSP_MOVE_ALL_REDUCE : HSP_MOVE_REDUCE_SCATTER, g);
    uint32_t root = g->rank[best_root(r, g, may, r->t.recv[t->recv])];
    for (uint32_t i = 0; i < g->n; i++) {
        has[g->rank[i]] = has[g->rank[i]] || n == g->n || g->rank[i] == root;
    }
    return hsp_drafts_add(&r->drafts, &key, &t->box, root, root, err);
}

/* The sum to receivers that have not got it yet, from those that have. */
static enum hsp_status spread(struct hsp_resolver *r, const struct hsp_move_task *t,
                              const bool *has, struct hsp_err *err)
{
    const uint32_t *recv = &r->t.recv[t->recv];
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < t->n_recv; i++) {
        uint32_t from = UINT32_MAX;
        double best = 0;
        for (uint32_t k = 0; !has[recv[i]] && k < t->n_recv; k++) {
            double us = has[recv[k]] ? hsp_resolver_us(r, recv[k], recv[i]) : 0;
            if (has[recv[k]] && (from == UINT32_MAX || us < best ||
                                 (!(us > best) && r->load[recv[k]] < r->load[from]))) {
                from = recv[k];
                best = us;
            }
        }
        if (!has[recv[i]]) {
            rc = hsp_resolver_send(r, t, true, HSP_MOVE_SUM, from, recv[i], err);
        }
    }
    return rc;
}

enum hsp_status hsp_resolver_sum(struct hsp_resolver *r, const struct hsp_move_task *t,
                                 struct hsp_err *err)
{
    bool has[HSP_MAX_RANKS] = {false}, several = false;
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 1; i < t->n_hold; i++) {
        several = several || r->t.hold[t->hold + i].rank == r->t.hold[t->hold + i - 1].rank;
    }
    uint32_t n = 1;
    if (!several) {
        qsort(&r->t.hold[t->hold], t->n_hold, sizeof *r->t.hold, by_addend);
        n = count_groups(r, t);
    }
    for (uint32_t j = 0; rc == HSP_OK && j < n; j++) {
        struct group g;
        g.n = 0;
        g.picks = false;
        if (several) {
            rc = assign(r, t, &g, err);
        } else {
            make_group(r, t, j, n, &g);
        }
        rc = rc == HSP_OK ? add_group(r, t, &g, has, err) : rc;
    }
    return rc == HSP_OK ? spread(r, t, has, err) : rc;
}
