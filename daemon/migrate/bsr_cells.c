#include "daemon/migrate/bsr_cells.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/migrate/bsr_impl.h"
#include "proto/base/vec.h"
#include "proto/layout/box.h"
#include "proto/layout/cover_cells.h"

#define MAX_IDS ((size_t)1 << 26)

enum hsp_link_class hsp_bsr_link(const struct hsp_bsr_net *net, uint32_t from, uint32_t to)
{
    const struct hsp_bsr_place *a = &net->place[from], *b = &net->place[to];
    if (from == to) {
        return HSP_LINK_DEVICE;
    }
    if (a->domain == b->domain && a->domain != HSP_NONE) {
        return HSP_LINK_DOMAIN;
    }
    return a->host == b->host ? HSP_LINK_HOST : HSP_LINK_NIC;
}

bool hsp_bsr_apart(const struct hsp_bsr_net *net, uint32_t x, uint32_t y)
{
    uint32_t a = x < y ? x : y, b = x < y ? y : x, lo = 0, hi = net->n_apart;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const struct hsp_bsr_pair *p = &net->apart[mid];
        if (p->a == a && p->b == b) {
            return true;
        }
        if (p->a < a || (p->a == a && p->b < b)) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return false;
}

/* ---- network domains ---- */

struct keyed {
    uint32_t key, rank;
};

static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static uint32_t root_of(uint32_t *up, uint32_t r)
{
    while (up[r] != r) {
        r = up[r] = up[up[r]];
    }
    return r;
}

/* Joins ranks with equal keys; the smaller rank is the root. */
static void join_equal(struct keyed *k, uint32_t n, uint32_t *up)
{
    qsort(k, n, sizeof *k, by_key);
    for (uint32_t i = 1; i < n; i++) {
        uint32_t a = root_of(up, k[i - 1].rank), b = root_of(up, k[i].rank);
        if (k[i].key == k[i - 1].key && a != b) {
            up[a > b ? a : b] = a < b ? a : b;
        }
    }
}

/* Numbers the network domains in the order of their smallest ranks. */
static void number_net_domains(struct hsp_bsr_work *w, struct keyed *k, uint32_t *up)
{
    const struct hsp_bsr_net *net = w->net;
    uint32_t n = 0;
    for (uint32_t r = 0; r < net->n_ranks; r++) {
        up[r] = r;
        k[r] = (struct keyed){net->place[r].host, r};
    }
    join_equal(k, net->n_ranks, up);
    for (uint32_t r = 0; r < net->n_ranks; r++) {
        if (net->place[r].domain != HSP_NONE) {
            k[n++] = (struct keyed){net->place[r].domain, r};
        }
    }
    join_equal(k, n, up);
    for (uint32_t r = 0; r < net->n_ranks; r++) {
        uint32_t root = root_of(up, r);
        w->net_domain[r] = root == r ? w->n_net_domains++ : w->net_domain[root];
        w->isl[w->net_domain[r]].n++;
    }
}

static void list_members(struct hsp_bsr_work *w)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < w->n_net_domains; i++) {
        w->isl[i].first = at;
        at += w->isl[i].n;
        w->isl[i].n = 0;
    }
    for (uint32_t r = 0; r < w->net->n_ranks; r++) {
        struct hsp_bsr_domain *i = &w->isl[w->net_domain[r]];
        w->member[i->first + i->n++] = r;
    }
}

/* Lists the network cards of the ranks of each network domain. A card belongs to one domain only.
 */
static void list_cards(struct hsp_bsr_work *w, struct keyed *k)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < w->n_net_domains; i++) {
        struct hsp_bsr_domain *isl = &w->isl[i];
        for (uint32_t m = 0; m < isl->n; m++) {
            uint32_t r = w->member[isl->first + m];
            k[m] = (struct keyed){w->net->place[r].nic, r};
        }
        qsort(k, isl->n, sizeof *k, by_key);
        isl->first_nic = at;
        for (uint32_t m = 0; m < isl->n; m++) {
            if (m == 0 || k[m].key != k[m - 1].key) {
                w->domain_nic[at++] = k[m].key;
                isl->bytes_per_us += 1 / w->net->nic_us_per_byte[k[m].key];
            }
        }
        isl->n_nic = at - isl->first_nic;
    }
}

static enum hsp_status make_net_domains(struct hsp_bsr_work *w, struct hsp_err *err)
{
    size_t n = (size_t)w->net->n_ranks + 1;
    struct keyed *k = calloc(n, sizeof *k);
    uint32_t *up = calloc(n, sizeof *up);
    w->net_domain = calloc(n, sizeof *w->net_domain);
    w->member = calloc(n, sizeof *w->member);
    w->domain_nic = calloc(n, sizeof *w->domain_nic);
    w->isl = calloc(n, sizeof *w->isl);
    bool ok = k != NULL && up != NULL && w->net_domain != NULL && w->member != NULL &&
              w->domain_nic != NULL && w->isl != NULL;
    if (ok) {
        number_net_domains(w, k, up);
        list_members(w);
        list_cards(w, k);
    }
    free(k);
    free(up);
    return ok ? HSP_OK : hsp_err_nomem(err, "a transfer of state");
}

/* ---- cells ---- */

static enum hsp_status missing(const struct hsp_bsr_work *w, const struct hsp_box *box,
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
                       w->g->tensors[w->g->params[w->param].tensor].name);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Adds the ranks of items, ascending, each once. Returns how many. */
static uint32_t add_ranks(struct hsp_bsr_work *w, const struct hsp_cover *c, const uint32_t *item,
                          uint32_t n)
{
    uint32_t *to = w->ids + w->n_ids, u = 0;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = c->items[item[i]].rank;
    }
    if (n > 1) {
        qsort(to, n, sizeof *to, by_value);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (u == 0 || to[u - 1] != to[i]) {
            to[u++] = to[i];
        }
    }
    w->n_ids += u;
    return u;
}

static enum hsp_status own_row(struct hsp_bsr_work *w, uint32_t rank, const struct hsp_box *box,
                               struct hsp_err *err)
{
    if (!hsp_grow(&w->own, &w->cap_own, w->n_own + 1, sizeof *w->own, HSP_BSR_ROWS)) {
        return hsp_grow_error(w->n_own + 1, HSP_BSR_ROWS, "rows of a transfer", err);
    }
    w->own[w->n_own++] =
        (struct hsp_state_row){.from = rank, .to = rank, .param = w->param, .box = *box};
    return HSP_OK;
}

/* Removes from the list of receivers those that hold the cell; holders and receivers are in
 * ascending order. */
static enum hsp_status keep_own(struct hsp_bsr_work *w, struct hsp_bsr_cell *c, struct hsp_err *err)
{
    uint32_t *src = w->ids + c->first, *dst = src + c->n_src, s = 0, n = 0;
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; st == HSP_OK && i < c->n_dst; i++) {
        while (s < c->n_src && src[s] < dst[i]) {
            s++;
        }
        if (s < c->n_src && src[s] == dst[i]) {
            st = own_row(w, dst[i], &c->box, err);
        } else {
            dst[n++] = dst[i];
        }
    }
    w->n_ids -= c->n_dst - n;
    c->n_dst = n;
    return st;
}

static enum hsp_status add_cell(void *ctx, const struct hsp_region *r, struct hsp_err *err)
{
    struct hsp_bsr_work *w = ctx;
    size_t need = w->n_ids + r->n_src + r->n_dst;
    if (r->n_dst == 0) {
        return HSP_OK;
    }
    if (r->n_src == 0) {
        return missing(w, &r->box, err);
    }
    if (!hsp_grow(&w->ids, &w->cap_ids, need, sizeof *w->ids, MAX_IDS) ||
        !hsp_grow(&w->cell, &w->cap_cells, w->n_cells + 1, sizeof *w->cell, HSP_BSR_ROWS)) {
        return need > MAX_IDS ? hsp_grow_error(need, MAX_IDS, "holders of state", err)
                              : hsp_grow_error(w->n_cells + 1, HSP_BSR_ROWS, "cells of state", err);
    }
    struct hsp_bsr_cell c = {.param = w->param,
                             .box = r->box,
                             .bytes = hsp_box_count(&r->box) * w->opts->elem_bytes,
                             .first = (uint32_t)w->n_ids};
    c.n_src = add_ranks(w, w->have, r->src, r->n_src);
    c.n_dst = add_ranks(w, w->want, r->dst, r->n_dst);
    enum hsp_status st = keep_own(w, &c, err);
    if (c.n_dst > 0) {
        w->cell[w->n_cells++] = c;
    } else {
        w->n_ids = c.first;
    }
    return st;
}

static enum hsp_status check_ranks(const struct hsp_bsr_work *w, const struct hsp_cover *c,
                                   struct hsp_err *err)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->items[i].rank >= w->net->n_ranks) {
            return hsp_err_set(err, HSP_EINVAL, 0, "rank %u of a mesh of %u", c->items[i].rank,
                               w->net->n_ranks);
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_bsr_work_init(struct hsp_bsr_work *w, const struct hsp_cover *have,
                                  const struct hsp_cover *want, struct hsp_err *err)
{
    enum hsp_status st = make_net_domains(w, err);
    for (uint32_t p = 0; st == HSP_OK && p < w->g->n_params; p++) {
        w->param = p;
        w->have = &have[p];
        w->want = &want[p];
        st = check_ranks(w, w->have, err);
        st = st == HSP_OK ? check_ranks(w, w->want, err) : st;
        st = st == HSP_OK ? hsp_regions(w->have, w->want, add_cell, w, err) : st;
    }
    return st;
}

void hsp_bsr_work_fini(struct hsp_bsr_work *w)
{
    free(w->net_domain);
    free(w->member);
    free(w->domain_nic);
    free(w->isl);
    free(w->cell);
    free(w->ids);
    free(w->hop);
    free(w->draft);
    free(w->own);
}
