#include "daemon/migrate/bsr_routes.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/migrate/bsr_cells.h"
#include "daemon/migrate/bsr_impl.h"
#include "proto/base/vec.h"

#define DRAFT_ROWS HSP_BSR_ROWS

struct holder {
    uint32_t rank;
    uint32_t draft; /* by which it got the running chunk; HSP_NONE: its own state */
};

struct router {
    struct hsp_bsr_work *w;
    double budget_us;            /* load up to which a card serves its own rank directly */
    int64_t *nic_out, *nic_in;   /* [n_nics] bytes */
    int64_t *near_out, *near_in; /* [n_ranks] bytes that touch no card */
    uint64_t *holds;             /* [n_ranks] running number of the chunk it has */
    uint64_t round;
    struct holder *holder; /* of the running chunk */
    uint32_t n_holders;
    uint32_t cell; /* the running one */
    int64_t bytes; /* its */
};

static void add_holder(struct router *r, uint32_t rank, uint32_t draft)
{
    r->holds[rank] = r->round;
    r->holder[r->n_holders++] = (struct holder){rank, draft};
}

static enum hsp_status add_row(struct router *r, const struct holder *from, uint32_t to,
                               struct hsp_err *err)
{
    struct hsp_bsr_work *w = r->w;
    if (!hsp_grow(&w->draft, &w->cap_drafts, w->n_drafts + 1, sizeof *w->draft, DRAFT_ROWS)) {
        return hsp_grow_error(w->n_drafts + 1, DRAFT_ROWS, "rows of a transfer", err);
    }
    if (hsp_bsr_link(w->net, from->rank, to) == HSP_LINK_NIC) {
        r->nic_out[w->net->place[from->rank].nic] += r->bytes;
        r->nic_in[w->net->place[to].nic] += r->bytes;
    } else {
        r->near_out[from->rank] += r->bytes;
        r->near_in[to] += r->bytes;
    }
    w->draft[w->n_drafts] = (struct hsp_bsr_draft){
        .from = from->rank, .to = to, .cell = r->cell, .parent = from->draft};
    add_holder(r, to, (uint32_t)w->n_drafts++);
    return HSP_OK;
}

/* Returns, of the holders that reach @to, the one with the least to send. Its rank is HSP_NONE if
 * no holder reaches @to. */
static struct holder who_reaches(const struct router *r, uint32_t to)
{
    const struct hsp_bsr_net *net = r->w->net;
    struct holder best = {HSP_NONE, HSP_NONE};
    int64_t least = 0;
    for (uint32_t i = 0; i < r->n_holders; i++) {
        const struct holder *h = &r->holder[i];
        int64_t load = r->nic_out[net->place[h->rank].nic] + r->near_out[h->rank];
        if (!hsp_bsr_apart(net, h->rank, to) && (best.rank == HSP_NONE || load < least)) {
            best = *h;
            least = load;
        }
    }
    return best;
}

/* Returns a rank without the chunk that reaches both @to and a holder: of such ranks the one with
 * the least to receive. */
static uint32_t go_between(const struct router *r, uint32_t to)
{
    const struct hsp_bsr_net *net = r->w->net;
    uint32_t best = HSP_NONE;
    int64_t least = 0;
    for (uint32_t k = 0; k < net->n_ranks; k++) {
        int64_t load = r->nic_in[net->place[k].nic] + r->near_in[k];
        bool can = r->holds[k] != r->round && k != to && !hsp_bsr_apart(net, k, to) &&
                   who_reaches(r, k).rank != HSP_NONE;
        if (can && (best == HSP_NONE || load < least)) {
            best = k;
            least = load;
        }
    }
    return best;
}

/* Adds a row to the transfer table by which rank @to gets the chunk. It comes from @from if the two
 * ranks can reach each other, else from another holder that reaches @to. If @to reaches no holder,
 * a third rank gets the chunk first and passes it on. */
static enum hsp_status add_draft(struct router *r, const struct holder *from, uint32_t to,
                                 struct hsp_err *err)
{
    struct holder by = *from;
    enum hsp_status st = HSP_OK;
    if (hsp_bsr_apart(r->w->net, from->rank, to)) {
        by = who_reaches(r, to);
    }
    if (by.rank == HSP_NONE) {
        uint32_t between = go_between(r, to);
        if (between == HSP_NONE) {
            const struct hsp_graph *g = r->w->g;
            return hsp_err_set(err, HSP_ENOENT, 0, "rank %u reaches no rank that has all of %s", to,
                               g->tensors[g->params[r->w->cell[r->cell].param].tensor].name);
        }
        by = who_reaches(r, between);
        st = add_row(r, &by, between, err);
        by = st == HSP_OK ? r->holder[r->n_holders - 1] : by;
    }
    return st == HSP_OK ? add_row(r, &by, to, err) : st;
}

/* Returns the rank in the network domain of @to that hands it the chunk: the nearest, and of
 * several as near the one with the least to send. */
static struct holder nearest(const struct router *r, uint32_t to)
{
    const struct hsp_bsr_work *w = r->w;
    struct holder best = {HSP_NONE, HSP_NONE};
    int best_class = HSP_LINK_NIC;
    for (uint32_t i = 0; i < r->n_holders; i++) {
        const struct holder *h = &r->holder[i];
        if (w->net_domain[h->rank] != w->net_domain[to]) {
            continue;
        }
        int link = (int)hsp_bsr_link(w->net, h->rank, to);
        link =
            link == HSP_LINK_NIC ? HSP_LINK_HOST : link; /* joined by hosts and domains of others */
        if (best.rank == HSP_NONE || link < best_class ||
            (link == best_class && r->near_out[h->rank] < r->near_out[best.rank])) {
            best = *h;
            best_class = link;
        }
    }
    return best;
}

static double load_us(const struct router *r, const int64_t *bytes, uint32_t nic)
{
    return (double)(bytes[nic] + r->bytes) * r->w->net->nic_us_per_byte[nic];
}

/* Returns the network card of domain @net_domain with the least of @bytes for its speed. */
static uint32_t idlest_card(const struct router *r, const struct hsp_bsr_domain *isl,
                            const int64_t *bytes)
{
    uint32_t best = HSP_NONE;
    for (uint32_t i = 0; i < isl->n_nic; i++) {
        uint32_t nic = r->w->domain_nic[isl->first_nic + i];
        if (best == HSP_NONE || load_us(r, bytes, nic) < load_us(r, bytes, best)) {
            best = nic;
        }
    }
    return best;
}

/* Returns, of the ranks that use a card, the one that has done the least for others. */
static uint32_t behind_card(const struct router *r, const struct hsp_bsr_domain *isl, uint32_t nic)
{
    const struct hsp_bsr_work *w = r->w;
    uint32_t best = HSP_NONE;
    for (uint32_t i = 0; i < isl->n; i++) {
        uint32_t rank = w->member[isl->first + i];
        if (w->net->place[rank].nic == nic &&
            (best == HSP_NONE ||
             r->near_in[rank] + r->near_out[rank] < r->near_in[best] + r->near_out[best])) {
            best = rank;
        }
    }
    return best;
}

/* Returns one of @n ranks whose card can still serve it directly: the one whose card has the least
 * of @bytes, and of equal cards the rank with the least to do. HSP_NONE: all cards are full. */
static uint32_t direct(const struct router *r, const uint32_t *rank, uint32_t n,
                       const int64_t *bytes, const int64_t *near)
{
    const struct hsp_bsr_place *place = r->w->net->place;
    uint32_t best = HSP_NONE;
    double least = 0;
    for (uint32_t i = 0; i < n; i++) {
        double us = load_us(r, bytes, place[rank[i]].nic);
        if (us <= r->budget_us &&
            (best == HSP_NONE || us < least || (us <= least && near[rank[i]] < near[best]))) {
            best = rank[i];
            least = us;
        }
    }
    return best;
}

static struct holder holder_of(const struct router *r, uint32_t rank)
{
    uint32_t i = 0;
    while (r->holder[i].rank != rank) {
        i++;
    }
    return r->holder[i];
}

/* Chooses the rank through whose card the chunk leaves domain @from. That rank then holds the
 * chunk. */
static enum hsp_status leave(struct router *r, uint32_t from, uint32_t *list, struct holder *ret,
                             struct hsp_err *err)
{
    const struct hsp_bsr_domain *isl = &r->w->isl[from];
    enum hsp_status st = HSP_OK;
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_holders; i++) {
        if (r->w->net_domain[r->holder[i].rank] == from) {
            list[n++] = r->holder[i].rank;
        }
    }
    uint32_t exit = direct(r, list, n, r->nic_out, r->near_out);
    if (exit == HSP_NONE) {
        uint32_t nic = idlest_card(r, isl, r->nic_out);
        exit = behind_card(r, isl, nic);
        for (uint32_t i = 0; i < n; i++) { /* a holder behind that card needs no help */
            exit = r->w->net->place[list[i]].nic == nic ? list[i] : exit;
        }
    }
    if (r->holds[exit] != r->round) {
        const struct holder near = nearest(r, exit);
        st = add_draft(r, &near, exit, err);
    }
    *ret = st == HSP_OK ? holder_of(r, exit) : (struct holder){exit, HSP_NONE};
    return st;
}

/* Returns the rank through whose card the chunk enters domain @to. */
static uint32_t enter(const struct router *r, uint32_t to, uint32_t *list)
{
    const struct hsp_bsr_work *w = r->w;
    const struct hsp_bsr_cell *c = &w->cell[r->cell];
    const uint32_t *dst = w->ids + c->first + c->n_src;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_dst; i++) {
        if (w->net_domain[dst[i]] == to) {
            list[n++] = dst[i];
        }
    }
    uint32_t entry = direct(r, list, n, r->nic_in, r->near_in);
    if (entry == HSP_NONE) {
        uint32_t nic = idlest_card(r, &w->isl[to], r->nic_in);
        entry = behind_card(r, &w->isl[to], nic);
        for (uint32_t i = 0; i < n; i++) {
            entry = w->net->place[list[i]].nic == nic ? list[i] : entry;
        }
    }
    return entry;
}

static bool has_net_domain(const struct router *r, uint32_t net_domain)
{
    bool has = false;
    for (uint32_t i = 0; i < r->n_holders && !has; i++) {
        has = r->w->net_domain[r->holder[i].rank] == net_domain;
    }
    return has;
}

static enum hsp_status route_chunk(struct router *r, uint32_t *list, struct hsp_err *err)
{
    struct hsp_bsr_work *w = r->w;
    const struct hsp_bsr_cell *c = &w->cell[r->cell];
    enum hsp_status st = HSP_OK;
    r->round++;
    r->n_holders = 0;
    for (uint32_t i = 0; i < c->n_src; i++) {
        add_holder(r, w->ids[c->first + i], HSP_NONE);
    }
    for (uint32_t i = 0; st == HSP_OK && i < c->n_hops; i++) {
        const struct hsp_bsr_hop hop = w->hop[c->hop + i];
        struct holder exit;
        if (w->net->n_apart > 0 &&
            has_net_domain(r, hop.to)) { /* by a rank that passes the chunk on */
            continue;
        }
        st = leave(r, hop.from, list, &exit, err);
        st = st == HSP_OK ? add_draft(r, &exit, enter(r, hop.to, list), err) : st;
    }
    for (uint32_t i = 0; st == HSP_OK && i < c->n_dst; i++) {
        uint32_t to = w->ids[c->first + c->n_src + i];
        if (r->holds[to] != r->round) {
            const struct holder near = nearest(r, to);
            st = add_draft(r, &near, to, err);
        }
    }
    return st;
}

/* Returns the mean load of the cards of the busiest network domain. */
static double mean_load(const struct hsp_bsr_work *w)
{
    double load = 0;
    for (uint32_t i = 0; i < w->n_net_domains; i++) {
        const struct hsp_bsr_domain *isl = &w->isl[i];
        double us = (double)(isl->out > isl->in ? isl->out : isl->in) / isl->bytes_per_us;
        load = us > load ? us : load;
    }
    return load;
}

enum hsp_status hsp_bsr_route(struct hsp_bsr_work *w, struct hsp_err *err)
{
    size_t n = (size_t)w->net->n_ranks + 1, k = (size_t)w->net->n_nics + 1;
    struct router r = {.w = w,
                       .nic_out = calloc(k, sizeof *r.nic_out),
                       .nic_in = calloc(k, sizeof *r.nic_in),
                       .near_out = calloc(n, sizeof *r.near_out),
                       .near_in = calloc(n, sizeof *r.near_in),
                       .holds = calloc(n, sizeof *r.holds),
                       .holder = calloc(n, sizeof *r.holder)};
    uint32_t *list = calloc(n, sizeof *list);
    enum hsp_status st = HSP_OK;
    if (r.nic_out == NULL || r.nic_in == NULL || r.near_out == NULL || r.near_in == NULL ||
        r.holds == NULL || r.holder == NULL || list == NULL) {
        st = hsp_err_nomem(err, "a transfer of state");
    }
    r.budget_us = mean_load(w);
    for (size_t i = 0; st == HSP_OK && i < w->n_cells; i++) {
        r.cell = (uint32_t)i;
        r.bytes = w->cell[i].bytes;
        st = route_chunk(&r, list, err);
    }
    free(r.nic_out);
    free(r.nic_in);
    free(r.near_out);
    free(r.near_in);
    free(r.holds);
    free(r.holder);
    free(list);
    return st;
}
