#include "daemon/spmd/reshard/resolve.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/reshard/cell_holders.h"
#include "daemon/spmd/reshard/copy_send.h"
#include "daemon/spmd/reshard/move_list.h"
#include "daemon/spmd/reshard/resolve_impl.h"
#include "daemon/spmd/reshard/resolve_reduction.h"
#include "proto/base/check.h"
#include "proto/layout/box.h"

/* ---- all-gathers ---- */

/* Holders of @t that receive it; *ret_one: one of them. */
static uint32_t n_both(const struct hsp_resolver *r, const struct hsp_move_task *t,
                       uint32_t *ret_one)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_hold; i++) {
        if (hsp_task_receives(&r->t, t, r->t.hold[t->hold + i].rank)) {
            *ret_one = r->t.hold[t->hold + i].rank;
            n++;
        }
    }
    return n;
}

struct candidate {
    const struct hsp_resolver *r;
    size_t task;
};

static int by_receivers(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    const struct hsp_move_task *s = &x->r->t.task[x->task], *t = &x->r->t.task[y->task];
    if (s->n_recv != t->n_recv) {
        return s->n_recv < t->n_recv ? -1 : 1;
    }
    for (uint32_t i = 0; i < s->n_recv; i++) {
        uint32_t p = x->r->t.recv[s->recv + i], q = x->r->t.recv[t->recv + i];
        if (p != q) {
            return p < q ? -1 : 1;
        }
    }
    return x->task < y->task ? -1 : x->task > y->task;
}

static bool same_receivers(const struct candidate *x, const struct candidate *y)
{
    const struct hsp_move_task *s = &x->r->t.task[x->task], *t = &x->r->t.task[y->task];
    return s->n_recv == t->n_recv && memcmp(&x->r->t.recv[s->recv], &x->r->t.recv[t->recv],
                                            s->n_recv * sizeof *x->r->t.recv) == 0;
}

/* Cells needed by the same ranks are an all-gather when at least two of these hold a piece that
 * no other one has. */
static void mark_class(struct hsp_resolver *r, const struct candidate *c, size_t n)
{
    uint32_t first = HSP_MAX_RANKS, rank = 0;
    bool several = false;
    for (size_t i = 0; i < n; i++) {
        if (n_both(r, &r->t.task[c[i].task], &rank) == 1) {
            several = several || (first != HSP_MAX_RANKS && rank != first);
            first = rank;
        }
    }
    for (size_t i = 0; several && i < n; i++) {
        struct hsp_move_task *t = &r->t.task[c[i].task];
        t->gather = n_both(r, t, &rank) < t->n_recv;
    }
}

static enum hsp_status mark_gathers(struct hsp_resolver *r, struct hsp_err *err)
{
    struct candidate *c = calloc(r->t.n + 1, sizeof *c);
    size_t n = 0;
    uint32_t one;
    if (c == NULL) {
        return hsp_err_nomem(err, "moves of a reshard");
    }
    for (size_t i = 0; i < r->t.n; i++) {
        const struct hsp_move_task *t = &r->t.task[i];
        if (!t->sum && t->n_recv > 1 && n_both(r, t, &one) > 0) {
            c[n++] = (struct candidate){r, i};
        }
    }
    qsort(c, n, sizeof *c, by_receivers);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_receivers(&c[i], &c[end]);) {
            end++;
        }
        mark_class(r, &c[i], end - i);
    }
    free(c);
    return HSP_OK;
}

/* ---- one addend ---- */

/* The best holder of @t to send to @to; among those that receive themselves when @inside. */
static const struct hsp_holder *best_source(const struct hsp_resolver *r,
                                            const struct hsp_move_task *t, uint32_t to, bool inside)
{
    const struct hsp_holder *best = NULL;
    double best_us = 0;
    for (uint32_t i = 0; i < t->n_hold; i++) {
        const struct hsp_holder *h = &r->t.hold[t->hold + i];
        if (inside && !hsp_task_receives(&r->t, t, h->rank)) {
            continue;
        }
        double us = hsp_resolver_us(r, h->rank, to);
        if (best == NULL || us < best_us ||
            (!(us > best_us) && r->load[h->rank] < r->load[best->rank])) {
            best = h;
            best_us = us;
        }
    }
    return best;
}

static enum hsp_status add_gather(struct hsp_resolver *r, const struct hsp_move_task *t,
                                  struct hsp_err *err)
{
    const uint32_t *recv = &r->t.recv[t->recv];
    const struct hsp_holder *h = best_source(r, t, recv[0], true);
    struct hsp_draft_key key = {.kind = HSP_MOVE_ALL_GATHER, .n_ranks = t->n_recv, .ranks = recv};
    uint8_t pick[HSP_MAX_RANKS];
    if (hsp_holder_pick(h) != HSP_MOVE_SUM) {
        for (uint32_t i = 0; i < t->n_recv; i++) {
            pick[i] = recv[i] == h->rank ? hsp_holder_pick(h) : HSP_MOVE_SUM;
        }
        key.pick = pick;
    }
    r->load[h->rank] += hsp_box_count(&t->box) * (t->n_recv - 1);
    return hsp_drafts_add(&r->drafts, &key, &t->box, h->rank, h->rank, err);
}

static enum hsp_status resolve_plain(struct hsp_resolver *r, const struct hsp_move_task *t,
                                     struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    if (t->gather) {
        return add_gather(r, t, err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < t->n_recv; i++) {
        uint32_t to = r->t.recv[t->recv + i];
        const struct hsp_holder *own = NULL;
        for (uint32_t k = 0; own == NULL && k < t->n_hold; k++) {
            own = r->t.hold[t->hold + k].rank == to ? &r->t.hold[t->hold + k] : NULL;
        }
        if (own != NULL) {
            rc = hsp_resolver_copy(r, t, to, hsp_holder_pick(own), err);
        } else {
            const struct hsp_holder *h = best_source(r, t, to, false);
            rc = hsp_resolver_send(r, t, false, hsp_holder_pick(h), h->rank, to, err);
        }
    }
    return rc;
}

/* ---- all of it ---- */

static enum hsp_status decide(struct hsp_resolver *r, struct hsp_err *err)
{
    enum hsp_status rc = hsp_tasks_make(&r->t, err);
    if (rc == HSP_OK) {
        rc = mark_gathers(r, err);
    }
    for (size_t i = 0; rc == HSP_OK && i < r->t.n; i++) {
        const struct hsp_move_task *t = &r->t.task[i];
        rc = t->sum ? hsp_resolver_sum(r, t, err) : resolve_plain(r, t, err);
    }
    return rc;
}

enum hsp_status hsp_resolve(const struct hsp_cover *src, const struct hsp_cover *dst,
                            const struct hsp_resolve_opts *opts, uint32_t *channel,
                            struct hsp_arena *arena, struct hsp_moves *ret, struct hsp_err *err)
{
    static const struct hsp_resolve_opts plain = {0};
    struct hsp_resolver *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return hsp_err_nomem(err, "moves of a reshard");
    }
    r->t.src = src;
    r->t.dst = dst;
    r->t.opts = opts != NULL ? opts : &plain;
    uint32_t n_load = r->t.opts->load != NULL ? r->t.opts->n_load : 0;
    HSP_ASSERT(n_load <= HSP_MAX_RANKS);
    if (n_load > 0) {
        memcpy(r->load, r->t.opts->load, n_load * sizeof *r->load);
    }
    enum hsp_status rc = decide(r, err);
    if (rc == HSP_OK) {
        rc = hsp_drafts_finish(&r->drafts, &r->t, channel, arena, ret, err);
    }
    if (rc == HSP_OK && n_load > 0) {
        memcpy(r->t.opts->load, r->load, n_load * sizeof *r->load);
    }
    hsp_drafts_fini(&r->drafts);
    hsp_tasks_fini(&r->t);
    free(r);
    return rc;
}
