#include "daemon/spmd/reshard/cell_holders.h"

#include <inttypes.h>
#include <stdlib.h>

#include "daemon/spmd/reshard/resolve_impl.h"
#include "proto/base/vec.h"
#include "proto/layout/box.h"
#include "proto/layout/cover_cells.h"

#define MAX_POOL ((size_t)1 << 24) /* holders and receivers of all cells of one Reshard */

bool hsp_task_receives(const struct hsp_tasks *x, const struct hsp_move_task *t, uint32_t rank)
{
    for (uint32_t i = 0; i < t->n_recv; i++) {
        if (x->recv[t->recv + i] == rank) {
            return true;
        }
    }
    return false;
}

static enum hsp_status add_holder(struct hsp_tasks *x, const struct hsp_holder *h,
                                  struct hsp_err *err)
{
    if (!hsp_grow(&x->hold, &x->cap_hold, x->n_hold + 1, sizeof *x->hold, MAX_POOL)) {
        return hsp_grow_error(x->n_hold + 1, MAX_POOL, "holders of cells", err);
    }
    x->hold[x->n_hold++] = *h;
    return HSP_OK;
}

static enum hsp_status add_receiver(struct hsp_tasks *x, uint32_t rank, struct hsp_err *err)
{
    if (!hsp_grow(&x->recv, &x->cap_recv, x->n_recv + 1, sizeof *x->recv, MAX_POOL)) {
        return hsp_grow_error(x->n_recv + 1, MAX_POOL, "receivers of cells", err);
    }
    x->recv[x->n_recv++] = rank;
    return HSP_OK;
}

/* The holders of the cell whose addends are mapped to target addend @part (@map NULL: all). */
static enum hsp_status add_holders(struct hsp_tasks *x, const struct hsp_region *g,
                                   const uint32_t *map, uint32_t part, struct hsp_err *err)
{
    size_t from = x->n_hold;
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0, end; rc == HSP_OK && i < g->n_src; i = end) {
        const struct hsp_held *first = &x->src->items[g->src[i]];
        for (end = i + 1; end < g->n_src && x->src->items[g->src[end]].rank == first->rank;) {
            end++;
        }
        size_t mine = x->n_hold;
        for (uint32_t k = i; rc == HSP_OK && k < end; k++) {
            const struct hsp_held *h = &x->src->items[g->src[k]];
            bool known = map != NULL && map[k] != part;
            for (size_t at = mine; !known && at < x->n_hold; at++) {
                known = x->hold[at].addend == h->addend;
            }
            struct hsp_holder one = {.rank = h->rank,
                                     .addend = h->addend,
                                     .input = (uint8_t)x->input[g->src[k]],
                                     .n_items = (uint8_t)(end - i)};
            rc = known ? HSP_OK : add_holder(x, &one, err);
        }
    }
    struct hsp_move_task *t = &x->task[x->n];
    t->hold = from;
    t->n_hold = (uint32_t)(x->n_hold - from);
    for (uint32_t i = 1; i < t->n_hold; i++) {
        t->sum = t->sum || x->hold[from + i].addend != x->hold[from].addend;
    }
    return rc;
}

/* Copies that several ranks computed: only the smallest one's counts, a receiver's if there is one.
 */
static void keep_owner(const struct hsp_tasks *x, struct hsp_move_task *t)
{
    struct hsp_holder *h = &x->hold[t->hold];
    uint32_t k = 0;
    while (k < t->n_hold && !hsp_task_receives(x, t, h[k].rank)) {
        k++;
    }
    h[0] = h[k < t->n_hold ? k : 0];
    t->n_hold = 1;
}

/* Which addends of the source become which addend of the target; src NULL: all of them one value.
 */
struct parts {
    const uint32_t *src, *dst; /* by index in the region: its number */
    uint32_t from, to;         /* numbers of the task at hand */
};

static enum hsp_status add_task(struct hsp_tasks *x, const struct hsp_region *g,
                                const struct parts *p, struct hsp_err *err)
{
    if (!hsp_grow(&x->task, &x->cap, x->n + 1, sizeof *x->task, MAX_POOL)) {
        return hsp_grow_error(x->n + 1, MAX_POOL, "cells of a reshard", err);
    }
    struct hsp_move_task *t = &x->task[x->n];
    *t = (struct hsp_move_task){.box = g->box, .recv = x->n_recv};
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < g->n_dst; i++) {
        if (p->src == NULL || p->dst[i] == p->to) {
            rc = add_receiver(x, x->dst->items[g->dst[i]].rank, err);
        }
    }
    t->n_recv = (uint32_t)(x->n_recv - t->recv);
    if (rc != HSP_OK || t->n_recv == 0) {
        return rc;
    }
    rc = add_holders(x, g, p->src, p->from, err);
    if (rc != HSP_OK) {
        return rc;
    }
    if (t->n_hold == 0) {
        for (uint32_t i = 0; i < t->n_recv; i++) {
            x->zero[x->recv[t->recv + i]] = true;
        }
        return HSP_OK;
    }
    if (x->opts->owner_bytes && !t->sum && t->n_hold > 1) {
        keep_owner(x, t);
    }
    x->n++;
    return HSP_OK;
}

/* Numbers the distinct addends of @items[index[0..n)] in order of appearance. */
static uint32_t number_addends(const struct hsp_cover *c, const uint32_t *index, uint32_t n,
                               uint32_t *ret)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        while (k < i && c->items[index[k]].addend != c->items[index[i]].addend) {
            k++;
        }
        ret[i] = k < i ? ret[k] : found++;
    }
    return found;
}

/* Ranks that hold source addend @a and need target addend @b. */
static uint32_t shared(const struct hsp_tasks *x, const struct hsp_region *g, const uint32_t *a_of,
                       uint32_t a, const uint32_t *b_of, uint32_t b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_src; i++) {
        for (uint32_t k = 0; a_of[i] == a && k < g->n_dst; k++) {
            n += b_of[k] == b && x->src->items[g->src[i]].rank == x->dst->items[g->dst[k]].rank;
        }
    }
    return n;
}

/* Which target addend each source addend becomes: where most of it is already, then any that is
 * free, then the first. @to[n_a]. */
static void match_addends(const struct hsp_tasks *x, const struct hsp_region *g,
                          const uint32_t *a_of, uint32_t n_a, const uint32_t *b_of, uint32_t n_b,
                          uint32_t *to)
{
    for (uint32_t a = 0; a < n_a; a++) {
        uint32_t best = 0, best_shared = 0;
        bool found = false;
        for (uint32_t b = 0; b < n_b; b++) {
            bool taken = false;
            for (uint32_t k = 0; k < a; k++) {
                taken = taken || to[k] == b;
            }
            uint32_t n = taken ? 0 : shared(x, g, a_of, a, b_of, b);
            if (!taken && (!found || n > best_shared)) {
                found = true;
                best = b;
                best_shared = n;
            }
        }
        to[a] = best;
    }
}

static bool has_part(const uint32_t *of, uint32_t n, uint32_t part)
{
    for (uint32_t i = 0; i < n; i++) {
        if (of[i] == part) {
            return true;
        }
    }
    return false;
}

/* The part of the source that most ranks with part @to of the target have, else the first. */
static uint32_t nearest_part(const struct hsp_tasks *x, const struct hsp_region *g,
                             const struct parts *p, uint32_t to)
{
    uint32_t best = p->src[0], most = 0;
    for (uint32_t i = 0; i < g->n_src; i++) {
        uint32_t n = shared(x, g, p->src, p->src[i], p->dst, to);
        best = n > most ? p->src[i] : best;
        most = n > most ? n : most;
    }
    return best;
}

/* Sums and maxima mix in no cell: several addends of the one are one addend of the other. */
static void join_addends(const struct hsp_tasks *x, const struct hsp_region *g, uint32_t *a_of)
{
    if (x->src->reduce != x->dst->reduce) {
        for (uint32_t i = 0; i < g->n_src; i++) {
            a_of[i] = 0;
        }
    }
}

/* A maximum may count an addend twice, so that those nobody holds are copies of others; of a sum
 * they are 0. */
static enum hsp_status keep_apart(struct hsp_tasks *x, const struct hsp_region *g,
                                  struct hsp_err *err)
{
    uint32_t *list = calloc(2 * (size_t)g->n_src + g->n_dst + 1, sizeof *list);
    if (list == NULL) {
        return hsp_err_nomem(err, "cells of a reshard");
    }
    uint32_t *a_of = list, *to = list + g->n_src, *b_of = to + g->n_src;
    uint32_t n_a = number_addends(x->src, g->src, g->n_src, a_of);
    uint32_t n_b = number_addends(x->dst, g->dst, g->n_dst, b_of);
    join_addends(x, g, a_of);
    match_addends(x, g, a_of, n_a, b_of, n_b, to);
    for (uint32_t i = 0; i < g->n_src; i++) {
        a_of[i] = to[a_of[i]]; /* from here on the number of its target */
    }
    enum hsp_status rc = HSP_OK;
    for (uint32_t b = 0; rc == HSP_OK && b < n_b; b++) {
        struct parts p = {.src = a_of, .dst = b_of, .from = b, .to = b};
        bool copies = x->dst->reduce == HSP_REDUCE_MAX && g->n_src > 0;
        p.from = copies && !has_part(a_of, g->n_src, b) ? nearest_part(x, g, &p, b) : b;
        rc = add_task(x, g, &p, err);
    }
    free(list);
    return rc;
}

static enum hsp_status take_cell(void *ctx, const struct hsp_region *g, struct hsp_err *err)
{
    struct hsp_tasks *x = ctx;
    if (g->n_dst == 0) {
        return HSP_OK;
    }
    return x->opts->partial_target ? keep_apart(x, g, err)
                                   : add_task(x, g, &(struct parts){0}, err);
}

/* ---- all of it ---- */

static enum hsp_status check_ranks(const struct hsp_cover *c, struct hsp_err *err)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->items[i].rank >= HSP_MAX_RANKS) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "rank %u above limit %d", c->items[i].rank,
                               HSP_MAX_RANKS);
        }
    }
    return HSP_OK;
}

/* No rank receives an element twice. */
static enum hsp_status check_target(const struct hsp_cover *dst, struct hsp_err *err)
{
    for (uint32_t i = 1; i < dst->n; i++) {
        for (uint32_t k = i; k > 0 && dst->items[k - 1].rank == dst->items[i].rank; k--) {
            struct hsp_box both;
            if (hsp_box_cut(&dst->items[k - 1].box, &dst->items[i].box, &both)) {
                return hsp_err_set(err, HSP_EINVAL, 0, "rank %u receives two boxes that overlap",
                                   dst->items[i].rank);
            }
        }
    }
    return HSP_OK;
}

static enum hsp_status check_covers(const struct hsp_tasks *x, struct hsp_err *err)
{
    const struct hsp_cover *src = x->src, *dst = x->dst;
    enum hsp_status rc = check_ranks(src, err);
    if (rc == HSP_OK) {
        rc = check_ranks(dst, err);
    }
    if (rc == HSP_OK && src->rank != dst->rank) {
        rc = hsp_err_set(err, HSP_EINVAL, 0, "covers of rank %u and %u", src->rank, dst->rank);
    }
    for (uint8_t d = 0; rc == HSP_OK && d < src->rank; d++) {
        if (src->extent[d] != dst->extent[d]) {
            rc = hsp_err_set(err, HSP_EINVAL, 0, "covers of extents %" PRId64 " and %" PRId64,
                             src->extent[d], dst->extent[d]);
        }
    }
    return rc == HSP_OK && !x->any_target ? check_target(dst, err) : rc;
}

/* Numbers of the items among those of their rank. */
static enum hsp_status number_inputs(struct hsp_tasks *x, struct hsp_err *err)
{
    const struct hsp_cover *c = x->src;
    x->input = calloc((size_t)c->n + 1, sizeof *x->input);
    if (x->input == NULL) {
        return hsp_err_nomem(err, "cells of a reshard");
    }
    for (uint32_t i = 1; i < c->n; i++) {
        x->input[i] = c->items[i].rank == c->items[i - 1].rank ? x->input[i - 1] + 1 : 0;
        if (x->input[i] >= HSP_MOVE_SUM) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "rank %u holds more than %d boxes",
                               c->items[i].rank, HSP_MOVE_SUM);
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_tasks_make(struct hsp_tasks *x, struct hsp_err *err)
{
    enum hsp_status rc = check_covers(x, err);
    if (rc == HSP_OK) {
        rc = number_inputs(x, err);
    }
    return rc == HSP_OK ? hsp_regions(x->src, x->dst, take_cell, x, err) : rc;
}

void hsp_tasks_fini(struct hsp_tasks *x)
{
    free(x->input);
    free(x->task);
    free(x->hold);
    free(x->recv);
}

/* ---- layers ---- */
