#include "daemon/spmd/switch.h"

#include <inttypes.h>
#include <stdio.h> /* snprintf */
#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/resolve.h"
#include "proto/base/vec.h"

#define MAX_ROWS ((size_t)1 << 24)

enum hsp_status hsp_have_home(const struct hsp_cover *old_home, const uint32_t *mesh,
                              uint32_t n_old, struct hsp_cover *ret, struct hsp_err *err)
{
    hsp_cover_init(ret, old_home->rank, old_home->extent);
    for (uint32_t i = 0; i < old_home->n; i++) {
        const struct hsp_held *h = &old_home->items[i];
        if (h->rank >= n_old || mesh[h->rank] == HSP_NONE) {
            continue;
        }
        enum hsp_status rc = hsp_cover_add(ret, mesh[h->rank], 0, &h->box);
        if (rc != HSP_OK) {
            hsp_cover_fini(ret);
            return hsp_err_set(err, rc, 0, "sources of state");
        }
    }
    hsp_cover_normalise(ret);
    return HSP_OK;
}

enum hsp_status hsp_have_copies(const struct hsp_state_table *copies, uint32_t param,
                                const uint32_t *mesh, uint32_t n_old, struct hsp_cover *have,
                                struct hsp_err *err)
{
    for (uint32_t i = 0; i < copies->n; i++) {
        const struct hsp_state_row *r = &copies->row[i];
        if (r->param != param || r->to >= n_old || mesh[r->to] == HSP_NONE) {
            continue;
        }
        enum hsp_status rc = hsp_cover_add(have, mesh[r->to], 0, &r->box);
        if (rc != HSP_OK) {
            return hsp_err_set(err, rc, 0, "copies of state");
        }
    }
    hsp_cover_normalise(have);
    return HSP_OK;
}

/* ---- tables ---- */

struct table {
    const struct hsp_graph *g;
    const struct hsp_cover *src, *dst; /* of the running parameter */
    uint32_t param;
    const uint32_t *node;
    uint32_t n_mesh, copies;
    int64_t *load;             /* elements sent per rank; owned */
    struct hsp_state_row *row; /* owned */
    size_t n, cap;
};

static enum hsp_status add_row(struct table *t, uint32_t from, uint32_t to,
                               const struct hsp_box *box, struct hsp_err *err)
{
    if (!hsp_grow(&t->row, &t->cap, t->n + 1, sizeof *t->row, MAX_ROWS)) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "transfer of more than %zu rows", MAX_ROWS);
    }
    t->row[t->n++] = (struct hsp_state_row){.from = from, .to = to, .param = t->param, .box = *box};
    if (from != to) {
        t->load[from] += hsp_box_count(box);
    }
    return HSP_OK;
}

/* Boxes may lie on ranks of any mesh: those outside @n_mesh are a caller's error. */
static enum hsp_status check_ranks(const struct hsp_cover *c, uint32_t n_mesh, struct hsp_err *err)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->items[i].rank >= n_mesh) {
            return hsp_err_set(err, HSP_EINVAL, 0, "rank %u of a mesh of %u", c->items[i].rank,
                               n_mesh);
        }
    }
    return HSP_OK;
}

static enum hsp_status missing(const struct table *t, const struct hsp_box *box,
                               struct hsp_err *err)
{
    char text[160] = "";
    size_t at = 0;
    for (uint8_t d = 0; d < box->rank && at < sizeof text; d++) {
        int n = snprintf(text + at, sizeof text - at, "%s%" PRId64 ":%" PRId64, d > 0 ? "," : "",
                         box->lo[d], box->hi[d]);
        at += n > 0 ? (size_t)n : 0;
    }
    return hsp_err_set(err, HSP_ENOENT, 0, "nobody has [%s] of %s", text,
                       t->g->tensors[t->g->params[t->param].tensor].name);
}

/* The holder a receiver should ask: itself, one on its node, the one with the least to send. */
static uint32_t best_source(const struct table *t, const struct hsp_region *r, uint32_t to)
{
    uint32_t best = HSP_NONE;
    for (uint32_t i = 0; i < r->n_src; i++) {
        uint32_t from = t->src->items[r->src[i]].rank;
        if (from == to) {
            return from;
        }
        bool near = t->node[from] == t->node[to];
        bool best_near = best != HSP_NONE && t->node[best] == t->node[to];
        if (best == HSP_NONE || (near && !best_near) ||
            (near == best_near &&
             (t->load[from] < t->load[best] || (t->load[from] == t->load[best] && from < best)))) {
            best = from;
        }
    }
    return best;
}

static enum hsp_status transfer_cell(void *ctx, const struct hsp_region *r, struct hsp_err *err)
{
    struct table *t = ctx;
    for (uint32_t i = 0; i < r->n_dst; i++) {
        uint32_t to = t->dst->items[r->dst[i]].rank;
        if (r->n_src == 0) {
            return missing(t, &r->box, err);
        }
        enum hsp_status rc = add_row(t, best_source(t, r, to), to, &r->box, err);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    return HSP_OK;
}

static int compare_boxes(const struct hsp_box *a, const struct hsp_box *b)
{
    for (uint8_t d = 0; d < a->rank; d++) {
        if (a->lo[d] != b->lo[d]) {
            return a->lo[d] < b->lo[d] ? -1 : 1;
        }
        if (a->hi[d] != b->hi[d]) {
            return a->hi[d] < b->hi[d] ? -1 : 1;
        }
    }
    return 0;
}

static int by_row(const void *a, const void *b)
{
    const struct hsp_state_row *x = a, *y = b;
    if (x->param != y->param) {
        return x->param < y->param ? -1 : 1;
    }
    int c = compare_boxes(&x->box, &y->box);
    if (c != 0) {
        return c;
    }
    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Runs @fn over all parameters and hands out the rows. */
static enum hsp_status make_table(struct table *t, const struct hsp_cover *src,
                                  const struct hsp_cover *dst, hsp_region_fn fn,
                                  struct hsp_arena *arena, struct hsp_state_table *ret,
                                  struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    t->load = calloc((size_t)t->n_mesh + 1, sizeof *t->load);
    if (t->load == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "transfer of state");
    }
    for (uint32_t p = 0; rc == HSP_OK && p < t->g->n_params; p++) {
        t->param = p;
        t->src = &src[p];
        t->dst = dst == NULL ? NULL : &dst[p];
        rc = check_ranks(t->src, t->n_mesh, err);
        if (rc == HSP_OK && t->dst != NULL) {
            rc = check_ranks(t->dst, t->n_mesh, err);
        }
        if (rc == HSP_OK) {
            rc = hsp_regions(t->src, t->dst, fn, t, err);
        }
    }
    if (rc == HSP_OK) {
        struct hsp_state_table out = {.n = (uint32_t)t->n};
        if (t->n > 0) {
            qsort(t->row, t->n, sizeof *t->row, by_row);
        }
        out.row = hsp_arena_memdup(arena, t->row, t->n * sizeof *t->row);
        if (out.row == NULL) {
            rc = hsp_err_set(err, HSP_ENOMEM, 0, "transfer of state");
        } else {
            *ret = out;
        }
    }
    free(t->load);
    free(t->row);
    return rc;
}

enum hsp_status hsp_transfer_table(const struct hsp_graph *g, const struct hsp_cover *have,
                                   const struct hsp_cover *want, const uint32_t *node,
                                   uint32_t n_mesh, struct hsp_arena *arena,
                                   struct hsp_state_table *ret, struct hsp_err *err)
{
    struct table t = {.g = g, .node = node, .n_mesh = n_mesh};
    return make_table(&t, have, want, transfer_cell, arena, ret, err);
}

/* ---- second copies ---- */

/* The node after @at in the ring of nodes; @at itself when there is no other. */
static uint32_t next_node(const uint32_t *node, uint32_t n_ranks, uint32_t at)
{
    uint32_t next = HSP_NONE, first = at;
    for (uint32_t i = 0; i < n_ranks; i++) {
        if (node[i] > at && (next == HSP_NONE || node[i] < next)) {
            next = node[i];
        }
        first = node[i] < first ? node[i] : first;
    }
    return next == HSP_NONE ? first : next;
}

/* The rank that has on node @at the place that @rank has on its own. */
static uint32_t same_place(const uint32_t *node, uint32_t n_ranks, uint32_t rank, uint32_t at)
{
    uint32_t index = 0, count = 0;
    for (uint32_t i = 0; i < n_ranks; i++) {
        index += i < rank && node[i] == node[rank] ? 1 : 0;
        count += node[i] == at ? 1 : 0;
    }
    index %= count; /* @at is the node of some rank */
    for (uint32_t i = 0; i < n_ranks; i++) {
        if (node[i] == at && index-- == 0) {
            return i;
        }
    }
    return HSP_NONE;
}

uint32_t hsp_buddy(const uint32_t *node, uint32_t n_ranks, uint32_t rank)
{
    uint32_t next = next_node(node, n_ranks, node[rank]);
    return next == node[rank] ? HSP_NONE : same_place(node, n_ranks, rank, next);
}

uint32_t hsp_spare_ranks(const uint32_t *node, uint32_t n_ranks, uint32_t copies)
{
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < n_ranks; i++) {
        uint32_t k = 0;
        while (node[k] != node[i]) {
            k++;
        }
        nodes += k == i ? 1 : 0;
    }
    return copies > nodes ? copies - nodes : 0;
}

static bool has_it(const struct table *t, const struct hsp_region *r, uint32_t node)
{
    for (uint32_t i = 0; i < r->n_src; i++) {
        if (t->node[t->src->items[r->src[i]].rank] == node) {
            return true;
        }
    }
    return false;
}

static enum hsp_status copy_cell(void *ctx, const struct hsp_region *r, struct hsp_err *err)
{
    struct table *t = ctx;
    enum hsp_status st = HSP_OK;
    uint32_t owner = HSP_NONE, have = 0;
    for (uint32_t i = 0; i < r->n_src; i++) {
        uint32_t rank = t->src->items[r->src[i]].rank;
        owner = rank < owner ? rank : owner;
    }
    if (owner == HSP_NONE) {
        return HSP_OK;
    }
    uint32_t at = t->node[owner];
    do {
        have += has_it(t, r, at) ? 1 : 0;
        at = next_node(t->node, t->n_mesh, at);
    } while (at != t->node[owner]);
    at = next_node(t->node, t->n_mesh, at);
    for (; st == HSP_OK && have < t->copies && at != t->node[owner];
         at = next_node(t->node, t->n_mesh, at)) {
        if (!has_it(t, r, at)) {
            st = add_row(t, owner, same_place(t->node, t->n_mesh, owner, at), &r->box, err);
            have++;
        }
    }
    for (uint32_t k = 0; st == HSP_OK && have + k < t->copies; k++) {
        st = add_row(t, owner, t->n_mesh + k, &r->box, err);
    }
    return st;
}

enum hsp_status hsp_copy_table(const struct hsp_graph *g, const struct hsp_cover *home,
                               const uint32_t *node, uint32_t n_ranks, uint32_t copies,
                               struct hsp_arena *arena, struct hsp_state_table *ret,
                               struct hsp_err *err)
{
    struct table t = {.g = g, .node = node, .n_mesh = n_ranks, .copies = copies};
    return make_table(&t, home, NULL, copy_cell, arena, ret, err);
}

/* ---- owners ---- */

struct owned {
    const struct hsp_cover *home;
    uint32_t rank;
    struct hsp_box *box; /* owned */
    size_t n, cap;
};

static enum hsp_status owned_cell(void *ctx, const struct hsp_region *r, struct hsp_err *err)
{
    struct owned *o = ctx;
    uint32_t owner = HSP_NONE;
    for (uint32_t i = 0; i < r->n_src; i++) {
        uint32_t rank = o->home->items[r->src[i]].rank;
        owner = rank < owner ? rank : owner;
    }
    if (owner != o->rank) {
        return HSP_OK;
    }
    if (!hsp_grow(&o->box, &o->cap, o->n + 1, sizeof *o->box, MAX_ROWS)) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "an owner of more than %zu boxes", MAX_ROWS);
    }
    o->box[o->n++] = r->box;
    return HSP_OK;
}

/* Joins @b to @a when together they are one box. */
static bool join(struct hsp_box *a, const struct hsp_box *b)
{
    uint8_t differ = 0, dim = 0;
    for (uint8_t d = 0; d < a->rank; d++) {
        if (a->lo[d] != b->lo[d] || a->hi[d] != b->hi[d]) {
            differ++;
            dim = d;
        }
    }
    if (differ == 1 && a->hi[dim] == b->lo[dim]) {
        a->hi[dim] = b->hi[dim];
        return true;
    }
    if (differ == 1 && b->hi[dim] == a->lo[dim]) {
        a->lo[dim] = b->lo[dim];
        return true;
    }
    return false;
}

static void join_all(struct owned *o)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < o->n; i++) {
            for (size_t k = i + 1; k < o->n; k++) {
                if (join(&o->box[i], &o->box[k])) {
                    memmove(&o->box[k], &o->box[k + 1], (o->n - k - 1) * sizeof *o->box);
                    o->n--;
                    k--;
                    again = true;
                }
            }
        }
    }
}

enum hsp_status hsp_home_owned(const struct hsp_cover *home, uint32_t rank, struct hsp_arena *arena,
                               struct hsp_box **ret, uint32_t *ret_n, struct hsp_err *err)
{
    struct owned o = {.home = home, .rank = rank};
    enum hsp_status rc = hsp_regions(home, NULL, owned_cell, &o, err);
    if (rc == HSP_OK) {
        join_all(&o);
        struct hsp_box *box = hsp_arena_memdup(arena, o.box, o.n * sizeof *box);
        if (box == NULL) {
            rc = hsp_err_set(err, HSP_ENOMEM, 0, "boxes of an owner");
        } else {
            *ret = box;
            *ret_n = (uint32_t)o.n;
        }
    }
    free(o.box);
    return rc;
}
