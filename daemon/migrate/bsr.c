#include "daemon/migrate/bsr.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/migrate/bsr_cells.h"
#include "daemon/migrate/bsr_chunks.h"
#include "daemon/migrate/bsr_impl.h"
#include "daemon/migrate/bsr_order.h"
#include "daemon/migrate/bsr_routes.h"
#include "daemon/migrate/bsr_sources.h"
#include "proto/layout/box.h"

/* ---- the network of a cluster ---- */

/* Numbers the network cards: ranks with the same host and card get the number of the first of them.
 */
static void number_cards(const struct hsp_cluster_desc *c, const uint32_t *device,
                         struct hsp_bsr_net *net)
{
    for (uint32_t r = 0; r < net->n_ranks; r++) {
        const struct hsp_device_desc *d = &c->dev[device[r]];
        double us = c->cross.us_per_byte;
        uint32_t k = 0;
        while (k < r && (c->dev[device[k]].host != d->host || c->dev[device[k]].nic != d->nic)) {
            k++;
        }
        us = d->uplink.us_per_byte > us ? d->uplink.us_per_byte : us;
        us = d->nic_us_per_byte > us ? d->nic_us_per_byte : us;
        uint32_t nic = k < r ? net->place[k].nic : net->n_nics++;
        net->place[r] = (struct hsp_bsr_place){.host = d->host, .domain = d->node, .nic = nic};
        net->nic_us_per_byte[nic] = us > 0 ? us : 1e-9;
    }
}

enum hsp_status hsp_bsr_net_make(const struct hsp_cluster_desc *c, const uint32_t *device,
                                 uint32_t n_ranks, struct hsp_arena *arena, struct hsp_bsr_net *ret,
                                 struct hsp_err *err)
{
    struct hsp_bsr_net net = {.n_ranks = n_ranks,
                              .place = hsp_arena_array(arena, n_ranks, sizeof *net.place),
                              .nic_us_per_byte =
                                  hsp_arena_array(arena, n_ranks, sizeof *net.nic_us_per_byte)};
    if (net.place == NULL || net.nic_us_per_byte == NULL) {
        return hsp_err_nomem(err, "a transfer of state");
    }
    net.link[HSP_LINK_DOMAIN] = net.link[HSP_LINK_HOST] = c->same_node;
    net.link[HSP_LINK_NIC] = c->cross;
    number_cards(c, device, &net);
    *ret = net;
    return HSP_OK;
}

/* ---- the table ---- */

static int compare_boxes(const struct hsp_box *a, const struct hsp_box *b)
{
    for (uint8_t d = 0; d < a->rank; d++) {
        if (a->lo[d] != b->lo[d]) {
            return a->lo[d] < b->lo[d] ? -1 : 1;
        }
    }
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct hsp_state_row *x = a, *y = b;
    if (x->param != y->param) {
        return x->param < y->param ? -1 : 1;
    }
    int c = compare_boxes(&x->box, &y->box);
    return c != 0 ? c : x->to < y->to ? -1 : x->to > y->to;
}

/* Makes the table: first the rows that are sent, in their order, then the rows by which a rank
 * copies from its own old segment. Other ranks wait for sent rows, and no rank waits for a row of
 * the second kind. */
static enum hsp_status make_table(struct hsp_bsr_work *w, struct hsp_arena *arena,
                                  struct hsp_state_table *ret, struct hsp_err *err)
{
    size_t n = w->n_drafts + w->n_own;
    uint32_t *order = calloc(w->n_drafts + 1, sizeof *order);
    struct hsp_state_row *row = hsp_arena_array(arena, n, sizeof *row);
    enum hsp_status st = order != NULL && row != NULL ? hsp_bsr_order(w, order, err)
                                                      : hsp_err_nomem(err, "a transfer of state");
    if (st == HSP_OK && n > HSP_BSR_ROWS) {
        st = hsp_err_set(err, HSP_ELIMIT, 0, "more than %u rows of a transfer", HSP_BSR_ROWS);
    }
    for (size_t i = 0; st == HSP_OK && i < w->n_drafts; i++) {
        const struct hsp_bsr_draft *d = &w->draft[order[i]];
        row[i] = (struct hsp_state_row){.from = d->from,
                                        .to = d->to,
                                        .param = w->cell[d->cell].param,
                                        .passed_on = d->parent != HSP_NONE,
                                        .box = w->cell[d->cell].box};
    }
    free(order);
    if (st == HSP_OK) {
        if (w->n_own > 0) {
            qsort(w->own, w->n_own, sizeof *w->own, by_place);
            memcpy(row + w->n_drafts, w->own, w->n_own * sizeof *row);
        }
        *ret = (struct hsp_state_table){(uint32_t)n, row};
    }
    return st;
}

enum hsp_status hsp_bsr_plan(const struct hsp_graph *g, const struct hsp_cover *have,
                             const struct hsp_cover *want, const struct hsp_bsr_net *net,
                             const struct hsp_bsr_opts *opts, struct hsp_arena *arena,
                             struct hsp_state_table *ret, struct hsp_err *err)
{
    struct hsp_bsr_work w = {.g = g, .net = net, .opts = opts};
    enum hsp_status st = hsp_bsr_work_init(&w, have, want, err);
    st = st == HSP_OK ? hsp_bsr_cut(&w, err) : st;
    st = st == HSP_OK ? hsp_bsr_hops(&w, err) : st;
    st = st == HSP_OK ? hsp_bsr_route(&w, err) : st;
    st = st == HSP_OK ? make_table(&w, arena, ret, err) : st;
    hsp_bsr_work_fini(&w);
    return st;
}

/* ---- the bytes that a table moves ---- */

static void count_rows(const struct hsp_bsr_net *net, const struct hsp_bsr_opts *opts,
                       const struct hsp_state_table *t, struct hsp_bsr_traffic *ret)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const struct hsp_state_row *r = &t->row[i];
        int64_t bytes = hsp_box_count(&r->box) * opts->elem_bytes;
        enum hsp_link_class link = hsp_bsr_link(net, r->from, r->to);
        ret->bytes[link] += bytes;
        ret->rank[r->from].sent[link] += bytes;
        ret->rank[r->to].got[link] += bytes;
        if (link == HSP_LINK_NIC) {
            ret->nic[net->place[r->from].nic].sent[link] += bytes;
            ret->nic[net->place[r->to].nic].got[link] += bytes;
        }
    }
}

/* Finds the busiest network card and the busiest link of any kind. */
static void find_busiest(const struct hsp_bsr_net *net, struct hsp_bsr_traffic *ret)
{
    double us = 0;
    for (uint32_t i = 0; i < net->n_nics; i++) {
        const struct hsp_bsr_flow *f = &ret->nic[i];
        int64_t sent = f->sent[HSP_LINK_NIC], got = f->got[HSP_LINK_NIC];
        int64_t load = sent > got ? sent : got;
        if (load > ret->nic_load) {
            ret->nic_load = load;
            ret->busiest = i;
        }
        double busy = (double)load * net->nic_us_per_byte[i];
        us = busy > us ? busy : us;
    }
    for (uint32_t r = 0; r < net->n_ranks; r++) {
        double sent = 0, got = 0;
        for (int link = 0; link < HSP_LINK_NIC; link++) {
            sent += (double)ret->rank[r].sent[link] * net->link[link].us_per_byte;
            got += (double)ret->rank[r].got[link] * net->link[link].us_per_byte;
        }
        us = sent > us ? sent : us;
        us = got > us ? got : us;
    }
    ret->seconds = us * 1e-6;
}

/* Adds the bytes that must cross the network under every plan. The senders and the receivers of
 * each cell count once per network domain: @mark[domain] is the number of the cell and role last
 * seen. */
static void add_floor(const struct hsp_bsr_work *w, struct hsp_bsr_traffic *ret, uint64_t *mark)
{
    uint64_t round = 0;
    for (size_t i = 0; i < w->n_cells; i++) {
        const struct hsp_bsr_cell *c = &w->cell[i];
        uint32_t n_from = 0, n_to = 0, from = 0;
        round++;
        for (uint32_t k = 0; k < c->n_src + c->n_dst; k++) {
            uint32_t at = w->net_domain[w->ids[c->first + k]];
            if (mark[at] == round) {
                continue;
            }
            mark[at] = round;
            if (k < c->n_src) {
                n_from++;
                from = at;
            } else {
                n_to++;
                w->isl[at].in += c->bytes;
            }
        }
        w->isl[from].out += n_from == 1 && n_to > 0 ? c->bytes : 0;
        ret->needed += c->bytes * c->n_dst;
    }
    for (uint32_t i = 0; i < w->n_net_domains; i++) {
        const struct hsp_bsr_domain *isl = &w->isl[i];
        int64_t most = isl->out > isl->in ? isl->out : isl->in;
        int64_t mean = (most + isl->n_nic - 1) / (isl->n_nic > 0 ? isl->n_nic : 1);
        ret->floor = mean > ret->floor ? mean : ret->floor;
    }
}

enum hsp_status hsp_bsr_measure(const struct hsp_graph *g, const struct hsp_cover *have,
                                const struct hsp_cover *want, const struct hsp_bsr_net *net,
                                const struct hsp_bsr_opts *opts, const struct hsp_state_table *t,
                                struct hsp_arena *arena, struct hsp_bsr_traffic *ret,
                                struct hsp_err *err)
{
    struct hsp_bsr_work w = {.g = g, .net = net, .opts = opts};
    struct hsp_bsr_traffic out = {.rank = hsp_arena_array(arena, net->n_ranks, sizeof *out.rank),
                                  .nic = hsp_arena_array(arena, net->n_nics, sizeof *out.nic)};
    uint64_t *mark = calloc((size_t)net->n_ranks + 1, sizeof *mark);
    enum hsp_status st = out.rank != NULL && out.nic != NULL && mark != NULL
                             ? hsp_bsr_work_init(&w, have, want, err)
                             : hsp_err_nomem(err, "a transfer of state");
    if (st == HSP_OK) {
        count_rows(net, opts, t, &out);
        find_busiest(net, &out);
        add_floor(&w, &out, mark);
        out.relayed = out.bytes[HSP_LINK_DOMAIN] + out.bytes[HSP_LINK_HOST] +
                      out.bytes[HSP_LINK_NIC] - out.needed;
        *ret = out;
    }
    hsp_bsr_work_fini(&w);
    free(mark);
    return st;
}
