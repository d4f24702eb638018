#include "daemon/spmd/reshard/reshard_kind.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/reshard/cell_holders.h"
#include "daemon/spmd/reshard/resolve_impl.h"
#include "proto/base/vec.h"
#include "proto/layout/box.h"
#include "proto/layout/rank_set.h"

#define MAX_GROUPS ((size_t)1 << 20)

struct finder {
    struct hsp_tasks t;
    bool partial_target;
    uint32_t up[HSP_MAX_RANKS];       /* towards the smallest rank of the part */
    bool used[HSP_MAX_RANKS];         /* receives, or gives something to another rank */
    struct hsp_rank_set *hold, *recv; /* [task]; owned */
    struct hsp_method_group *group;   /* of the part at hand; owned, members in the arena */
    size_t n_groups, cap_groups;
    struct hsp_arena *arena;
    struct hsp_err *err;
};

/* ---- parts ---- */

static uint32_t part_of(struct finder *f, uint32_t rank)
{
    while (f->up[rank] != rank) {
        f->up[rank] = f->up[f->up[rank]];
        rank = f->up[rank];
    }
    return rank;
}

static void join(struct finder *f, uint32_t a, uint32_t b)
{
    uint32_t x = part_of(f, a), y = part_of(f, b);
    f->used[a] = f->used[b] = true;
    f->up[x > y ? x : y] = x < y ? x : y;
}

/* Returns true if some receiver holds addend @addend of the sum @t. */
static bool addend_received(const struct finder *f, const struct hsp_move_task *t, uint32_t addend)
{
    for (uint32_t i = 0; i < t->n_hold; i++) {
        const struct hsp_holder *h = &f->t.hold[t->hold + i];
        if (h->addend == addend && hsp_task_receives(&f->t, t, h->rank)) {
            return true;
        }
    }
    return false;
}

/* Joins all receivers of a sum, and for each addend the holders that receive, or, if there is none,
 * its first holder. */
static void join_sum(struct finder *f, const struct hsp_move_task *t)
{
    const uint32_t *recv = &f->t.recv[t->recv];
    for (uint32_t i = 0; i < t->n_recv; i++) {
        join(f, recv[0], recv[i]);
    }
    for (uint32_t i = 0; i < t->n_hold; i++) {
        const struct hsp_holder *h = &f->t.hold[t->hold + i];
        bool first = true;
        for (uint32_t k = 0; k < i; k++) {
            first = first && f->t.hold[t->hold + k].addend != h->addend;
        }
        if (hsp_task_receives(&f->t, t, h->rank) || (first && !addend_received(f, t, h->addend))) {
            join(f, recv[0], h->rank);
        }
    }
}

/* Joins the ranks between which a cell without a sum moves. If every receiver holds the cell,
 * nothing moves. If some receivers hold it, it moves among the receivers. If none does, each
 * receiver gets it from a holder, taken in turn. */
static void join_plain(struct finder *f, size_t task)
{
    const struct hsp_move_task *t = &f->t.task[task];
    const uint32_t *recv = &f->t.recv[t->recv];
    struct hsp_rank_set own = hsp_set_and(&f->hold[task], &f->recv[task]);
    bool local = hsp_set_equal(&own, &f->recv[task]), inside = hsp_set_count(&own) > 0;
    for (uint32_t i = 0; i < t->n_recv; i++) {
        join(f, recv[i],
             local    ? recv[i]
             : inside ? recv[0]
                      : f->t.hold[t->hold + i % t->n_hold].rank);
    }
}

static enum hsp_status make_parts(struct finder *f)
{
    size_t n = f->t.n + 1;
    f->hold = calloc(n, sizeof *f->hold);
    f->recv = calloc(n, sizeof *f->recv);
    if (f->hold == NULL || f->recv == NULL) {
        return hsp_err_nomem(f->err, "methods of a reshard");
    }
    for (uint32_t r = 0; r < HSP_MAX_RANKS; r++) {
        f->up[r] = r;
    }
    for (uint32_t i = 0; i < f->t.dst->n; i++) {
        f->used[f->t.dst->items[i].rank] = true;
    }
    for (size_t k = 0; k < f->t.n; k++) {
        const struct hsp_move_task *t = &f->t.task[k];
        for (uint32_t i = 0; i < t->n_hold; i++) {
            hsp_set_add(&f->hold[k], f->t.hold[t->hold + i].rank);
        }
        for (uint32_t i = 0; i < t->n_recv; i++) {
            hsp_set_add(&f->recv[k], f->t.recv[t->recv + i]);
        }
        if (t->sum) {
            join_sum(f, t);
        } else {
            join_plain(f, k);
        }
    }
    return HSP_OK;
}

/* ---- the kind of a part ---- */

/* The common traits of its cells. H, R: holders and receivers among its ranks. */
struct look {
    struct hsp_rank_set ranks, src, dst; /* all; that hold something used; that receive */
    bool sum, sent;                      /* some cell is a sum; some other cell is sent */
    bool equal, inside;                  /* sums: R = H; R inside H */
    bool each;                           /* sums: every addend has a holder that receives */
    bool gather;         /* other cells: a holder receives, and so does another rank */
    bool single;         /* other cells: one holder, one receiver */
    bool like_h, like_r; /* sums have equal holders; other cells equal receivers */
    bool one_more;       /* sums that go further go to one rank */
    bool further;        /* some sum has receivers that do not make it */
    bool like_s;         /* sums have equal receivers */
};

static void look_at_sum(const struct finder *f, size_t k, const struct hsp_rank_set *h,
                        const struct hsp_rank_set *r, struct look *x)
{
    const struct hsp_move_task *t = &f->t.task[k];
    struct hsp_rank_set own = hsp_set_and(h, r);
    bool each = true;
    for (uint32_t i = 0; i < t->n_hold; i++) {
        each = each && addend_received(f, t, f->t.hold[t->hold + i].addend);
    }
    uint32_t done = each ? hsp_set_count(&own) : hsp_set_count(&own) > 0 ? 1 : 0;
    x->further = x->further || hsp_set_count(r) > done;
    x->sum = true;
    x->equal = x->equal && hsp_set_equal(h, r);
    x->inside = x->inside && hsp_set_inside(r, h);
    x->each = x->each && each;
    x->one_more = x->one_more && hsp_set_count(r) - done <= 1;
}

static struct look look_at(const struct finder *f, const struct hsp_rank_set *ranks)
{
    struct look x = {.ranks = *ranks, .equal = true, .inside = true, .each = true};
    struct hsp_rank_set sum_h = {{0}}, sum_r = {{0}}, plain_r = {{0}};
    bool plain = false;
    x.gather = x.single = x.like_h = x.like_r = x.like_s = x.one_more = true;
    for (size_t k = 0; k < f->t.n; k++) {
        struct hsp_rank_set h = hsp_set_and(&f->hold[k], ranks),
                            r = hsp_set_and(&f->recv[k], ranks);
        struct hsp_rank_set own = hsp_set_and(&h, &r);
        if (hsp_set_count(&r) == 0) {
            continue;
        }
        hsp_set_join(&x.src, &h);
        hsp_set_join(&x.dst, &r);
        if (f->t.task[k].sum) {
            x.like_h = x.like_h && (!x.sum || hsp_set_equal(&h, &sum_h));
            x.like_s = x.like_s && (!x.sum || hsp_set_equal(&r, &sum_r));
            sum_h = h;
            sum_r = r;
            look_at_sum(f, k, &h, &r, &x);
            continue;
        }
        x.like_r = x.like_r && (!plain || hsp_set_equal(&r, &plain_r));
        plain_r = r;
        plain = true;
        x.sent = x.sent || !hsp_set_inside(&r, &h);
        x.gather = x.gather && hsp_set_count(&own) > 0 && hsp_set_count(&r) > 1;
        x.single = x.single && hsp_set_count(&h) == 1 && hsp_set_count(&r) == 1;
    }
    return x;
}

/* Returns the mask of the dims along which items of @ranks differ. */
static uint32_t cut_dims(const struct hsp_cover *c, const struct hsp_rank_set *ranks)
{
    const struct hsp_box *first = NULL;
    uint32_t mask = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct hsp_box *b = &c->items[i].box;
        if (!hsp_set_has(ranks, c->items[i].rank) || hsp_box_empty(b)) {
            continue;
        }
        first = first == NULL ? b : first;
        for (uint8_t d = 0; d < b->rank; d++) {
            bool cut = b->lo[d] != first->lo[d] || b->hi[d] != first->hi[d];
            mask |= cut ? UINT32_C(1) << d : 0;
        }
    }
    return mask;
}

static bool one_bit(uint32_t mask)
{
    return mask != 0 && (mask & (mask - 1)) == 0;
}

/* Returns true if rank @a of @x has the boxes of rank @b of @y. */
static bool same_boxes(const struct hsp_cover *x, uint32_t a, const struct hsp_cover *y, uint32_t b)
{
    uint32_t i = 0, k = 0;
    for (;; i++, k++) {
        while (i < x->n && x->items[i].rank != a) {
            i++;
        }
        while (k < y->n && y->items[k].rank != b) {
            k++;
        }
        if (i == x->n || k == y->n) {
            return i == x->n && k == y->n;
        }
        if (!hsp_box_equal(&x->items[i].box, &y->items[k].box)) {
            return false;
        }
    }
}

static uint32_t first_of(const struct hsp_rank_set *s)
{
    uint32_t r = 0;
    while (r < HSP_MAX_RANKS && !hsp_set_has(s, r)) {
        r++;
    }
    return r;
}

static enum hsp_reshard_method alone(const struct finder *f, const struct look *x, uint32_t rank)
{
    bool held = hsp_set_count(&x->src) > 0;
    if (!held) { /* nothing, or nothing but zeros */
        return f->partial_target && f->t.zero[rank] ? HSP_RESHARD_TO_PARTIAL : HSP_RESHARD_IDENTITY;
    }
    return same_boxes(f->t.src, rank, f->t.dst, rank) ? HSP_RESHARD_IDENTITY : HSP_RESHARD_SLICE;
}

/* Returns true if the part is one rank that sends to one other rank. */
static bool one_pair(const struct look *x)
{
    struct hsp_rank_set both = hsp_set_and(&x->src, &x->dst);
    return hsp_set_count(&both) == 0 && hsp_set_count(&x->src) == 1 && hsp_set_count(&x->dst) == 1;
}

static enum hsp_reshard_method exchange(const struct finder *f, const struct look *x)
{
    struct hsp_rank_set both = hsp_set_and(&x->src, &x->dst);
    uint32_t from = cut_dims(f->t.src, &x->ranks), to = cut_dims(f->t.dst, &x->ranks);
    if (x->gather) {
        return x->like_r ? HSP_RESHARD_ALL_GATHER : HSP_RESHARD_SPLIT_ALL_GATHER;
    }
    if (one_pair(x)) {
        return HSP_RESHARD_SEND_RECV;
    }
    if (x->single && hsp_set_equal(&both, &x->ranks) && one_bit(from) && one_bit(to) &&
        from != to) {
        return HSP_RESHARD_ALL_TO_ALL;
    }
    return HSP_RESHARD_BSR;
}

/* Returns the method by which sums get to receivers that do not add them up, and other cells get to
 * their receivers. */
static enum hsp_reshard_method then(const struct look *x)
{
    bool among = hsp_set_inside(&x->dst, &x->src), alike = x->like_s && x->like_r;
    if (among && (!x->sent || x->gather)) {
        return alike ? HSP_RESHARD_ALL_GATHER : HSP_RESHARD_SPLIT_ALL_GATHER;
    }
    return x->one_more && !x->sent ? HSP_RESHARD_SEND_RECV : HSP_RESHARD_BSR;
}

static void name_part(const struct finder *f, const struct look *x, struct hsp_method_part *p)
{
    p->n_steps = 1;
    if (p->n_ranks == 1) {
        p->step[0] = (uint8_t)alone(f, x, p->ranks[0]);
    } else if (!x->sum) {
        bool piece =
            one_pair(x) && !same_boxes(f->t.src, first_of(&x->src), f->t.dst, first_of(&x->dst));
        p->n_steps = piece ? 2 : 1;
        p->step[0] = HSP_RESHARD_SLICE;
        p->step[p->n_steps - 1] = (uint8_t)exchange(f, x);
    } else {
        bool all = x->inside ? x->equal : x->each;
        p->step[0] = all         ? x->like_h ? HSP_RESHARD_ALL_REDUCE : HSP_RESHARD_SPLIT_ALL_REDUCE
                     : x->like_h ? HSP_RESHARD_REDUCE_SCATTER
                                 : HSP_RESHARD_SPLIT_REDUCE_SCATTER;
        if (x->further || x->sent) {
            p->step[p->n_steps++] = (uint8_t)then(x);
        }
    }
}

/* ---- communicators ---- */

static enum hsp_status add_group(struct finder *f, const uint32_t *ranks, uint32_t n)
{
    for (size_t i = 0; i < f->n_groups; i++) {
        if (f->group[i].n == n && memcmp(f->group[i].ranks, ranks, n * sizeof *ranks) == 0) {
            return HSP_OK;
        }
    }
    if (!hsp_grow(&f->group, &f->cap_groups, f->n_groups + 1, sizeof *f->group, MAX_GROUPS)) {
        return hsp_grow_error(f->n_groups + 1, MAX_GROUPS, "groups of a reshard", f->err);
    }
    struct hsp_method_group *g = &f->group[f->n_groups];
    *g = (struct hsp_method_group){.n = n,
                                   .ranks = hsp_arena_memdup(f->arena, ranks, n * sizeof *ranks)};
    f->n_groups++;
    return g->ranks != NULL ? HSP_OK : hsp_err_nomem(f->err, "methods of a reshard");
}

/* Holders of pieces: piece i's are rank[first[i]] to rank[first[i + 1] - 1]. */
struct pieces {
    uint32_t n, n_ranks, most; /* most: of one piece */
    uint32_t *first, *rank;    /* owned */
};

/* Makes the groups: group j has the j-th holder of each piece, modulo the number of its holders
 * (HSPMD 3.3). */
static enum hsp_status put_groups(struct finder *f, const struct pieces *p)
{
    uint32_t *g = calloc((size_t)p->n + 1, sizeof *g);
    enum hsp_status rc = g != NULL ? HSP_OK : hsp_err_nomem(f->err, "methods of a reshard");
    for (uint32_t j = 0; rc == HSP_OK && j < p->most; j++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < p->n; i++) {
            uint32_t len = p->first[i + 1] - p->first[i];
            uint32_t rank = p->rank[p->first[i] + j % len];
            bool there = false;
            for (uint32_t k = 0; k < n; k++) {
                there = there || g[k] == rank;
            }
            if (!there) {
                g[n++] = rank;
            }
        }
        rc = add_group(f, g, n);
    }
    free(g);
    return rc;
}

/* Adds one piece: the holders among @ranks of @addend of task @k (HSP_ANY_ADDEND: of any addend).
 */
static void add_piece(const struct finder *f, size_t k, const struct hsp_rank_set *ranks,
                      uint32_t addend, struct pieces *p)
{
    const struct hsp_move_task *t = &f->t.task[k];
    for (uint32_t i = 0; i < t->n_hold; i++) {
        const struct hsp_holder *h = &f->t.hold[t->hold + i];
        if ((addend == HSP_ANY_ADDEND || h->addend == addend) && hsp_set_has(ranks, h->rank)) {
            p->rank[p->n_ranks++] = h->rank;
        }
    }
    uint32_t len = p->n_ranks - p->first[p->n];
    if (len > 0) {
        p->most = len > p->most ? len : p->most;
        p->first[++p->n] = p->n_ranks;
    }
}

static enum hsp_status new_pieces(const struct finder *f, size_t n, struct pieces *ret)
{
    *ret = (struct pieces){0};
    ret->first = calloc(n + 2, sizeof *ret->first);
    ret->rank = calloc(n + 1, sizeof *ret->rank);
    return ret->first != NULL && ret->rank != NULL ? HSP_OK
                                                   : hsp_err_nomem(f->err, "methods of a reshard");
}

static void free_pieces(struct pieces *p)
{
    free(p->first);
    free(p->rank);
}

/* Addends of a sum in the order of their numbers. */
static enum hsp_status sum_groups(struct finder *f, size_t k, const struct hsp_rank_set *ranks)
{
    const struct hsp_move_task *t = &f->t.task[k];
    const struct hsp_holder *h = &f->t.hold[t->hold];
    struct pieces p;
    enum hsp_status rc = new_pieces(f, t->n_hold, &p);
    uint64_t from = 0; /* addends below it are done */
    while (rc == HSP_OK) {
        uint64_t next = UINT64_MAX;
        for (uint32_t i = 0; i < t->n_hold; i++) {
            next = h[i].addend >= from && h[i].addend < next ? h[i].addend : next;
        }
        if (next == UINT64_MAX) {
            break;
        }
        add_piece(f, k, ranks, (uint32_t)next, &p);
        from = next + 1;
    }
    rc = rc == HSP_OK ? put_groups(f, &p) : rc;
    free_pieces(&p);
    return rc;
}

/* Pieces that the same ranks need, from the first task @k of its kind on. */
static enum hsp_status gather_groups(struct finder *f, size_t k, const struct hsp_rank_set *ranks)
{
    struct hsp_rank_set recv = hsp_set_and(&f->recv[k], ranks);
    struct pieces p;
    enum hsp_status rc = new_pieces(f, f->t.n_hold, &p);
    for (size_t i = 0; rc == HSP_OK && i < f->t.n; i++) {
        struct hsp_rank_set r = hsp_set_and(&f->recv[i], ranks);
        if (!f->t.task[i].sum && hsp_set_equal(&r, &recv)) {
            if (i < k) { /* listed with the first of its kind */
                free_pieces(&p);
                return HSP_OK;
            }
            add_piece(f, i, ranks, HSP_ANY_ADDEND, &p);
        }
    }
    rc = rc == HSP_OK ? put_groups(f, &p) : rc;
    free_pieces(&p);
    return rc;
}

static bool is_collective(uint8_t m)
{
    return m >= HSP_RESHARD_ALL_REDUCE && m <= HSP_RESHARD_SPLIT_ALL_GATHER;
}

static enum hsp_status list_groups(struct finder *f, const struct hsp_rank_set *ranks,
                                   struct hsp_method_part *p)
{
    bool gather =
        p->step[0] == HSP_RESHARD_ALL_GATHER || p->step[0] == HSP_RESHARD_SPLIT_ALL_GATHER;
    enum hsp_status rc = HSP_OK;
    f->n_groups = 0;
    for (size_t k = 0; rc == HSP_OK && is_collective(p->step[0]) && k < f->t.n; k++) {
        struct hsp_rank_set r = hsp_set_and(&f->recv[k], ranks);
        if (hsp_set_count(&r) > 0 && f->t.task[k].sum == !gather) {
            rc = gather ? gather_groups(f, k, ranks) : sum_groups(f, k, ranks);
        }
    }
    p->n_groups = (uint32_t)f->n_groups;
    p->group = hsp_arena_memdup(f->arena, f->group, f->n_groups * sizeof *f->group);
    return rc == HSP_OK && p->group == NULL ? hsp_err_nomem(f->err, "methods of a reshard") : rc;
}

/* ---- all of it ---- */

static enum hsp_status list_part(struct finder *f, uint32_t root, struct hsp_method_part *p)
{
    struct hsp_rank_set ranks = {{0}};
    for (uint32_t r = root; r < HSP_MAX_RANKS; r++) {
        if (f->used[r] && part_of(f, r) == root) {
            hsp_set_add(&ranks, r);
        }
    }
    p->ranks = hsp_arena_array(f->arena, hsp_set_count(&ranks), sizeof *p->ranks);
    if (p->ranks == NULL) {
        return hsp_err_nomem(f->err, "methods of a reshard");
    }
    for (uint32_t r = root; r < HSP_MAX_RANKS; r++) {
        if (hsp_set_has(&ranks, r)) {
            p->ranks[p->n_ranks++] = r;
        }
    }
    struct look x = look_at(f, &ranks);
    name_part(f, &x, p);
    return list_groups(f, &ranks, p);
}

static enum hsp_status list_parts(struct finder *f, struct hsp_methods *ret)
{
    struct hsp_methods m = {0};
    enum hsp_status rc = HSP_OK;
    for (uint32_t r = 0; r < HSP_MAX_RANKS; r++) {
        m.n += f->used[r] && part_of(f, r) == r ? 1 : 0;
    }
    m.part = hsp_arena_array(f->arena, m.n, sizeof *m.part);
    if (m.part == NULL) {
        return hsp_err_nomem(f->err, "methods of a reshard");
    }
    for (uint32_t r = 0, n = 0; rc == HSP_OK && r < HSP_MAX_RANKS; r++) {
        if (f->used[r] && part_of(f, r) == r) {
            rc = list_part(f, r, &m.part[n++]);
        }
    }
    if (rc == HSP_OK) {
        *ret = m;
    }
    return rc;
}

enum hsp_status hsp_methods_find(const struct hsp_cover *src, const struct hsp_cover *dst,
                                 bool partial_target, struct hsp_arena *arena,
                                 struct hsp_methods *ret, struct hsp_err *err)
{
    const struct hsp_resolve_opts opts = {.partial_target = partial_target};
    struct finder *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return hsp_err_nomem(err, "methods of a reshard");
    }
    f->t.src = src;
    f->t.dst = dst;
    f->t.opts = &opts;
    f->t.any_target = true;
    f->partial_target = partial_target;
    f->arena = arena;
    f->err = err;
    enum hsp_status rc = hsp_tasks_make(&f->t, err);
    if (rc == HSP_OK) {
        rc = make_parts(f);
    }
    if (rc == HSP_OK) {
        rc = list_parts(f, ret);
    }
    hsp_tasks_fini(&f->t);
    free(f->hold);
    free(f->recv);
    free(f->group);
    free(f);
    return rc;
}
