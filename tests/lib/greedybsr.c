#include "daemon/graph/graph_build.h"
#include "daemon/migrate/bsr_cells.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/sharding/param_home.h"
#include "proto/layout/box.h"
#include "proto/layout/cover_cells.h"
#include "tests/lib/greedybsr.h"

#include <stdlib.h>
#include <string.h>

/* ---- greedy and min-rank ---- */

struct plain {
    const struct hsp_bsr_net *net;
    const struct hsp_cover *have, *want;
    enum hsp_plain_rule rule;
    uint32_t param;
    int64_t *near, *far; /* [n_ranks] elements sent within and between network domains */
    struct hsp_state_row *row;
    uint32_t n, cap;
};

static uint32_t best_holder(const struct plain *p, const struct hsp_region *r, uint32_t to)
{
    uint32_t best = HSP_NONE;
    bool best_near = false;
    for (uint32_t i = 0; i < r->n_src; i++) {
        uint32_t from = p->have->items[r->src[i]].rank;
        bool near = hsp_bsr_link(p->net, from, to) != HSP_LINK_NIC;
        const int64_t *load = near ? p->near : p->far;
        if (from == to) {
            return from;
        }
        if (best == HSP_NONE ||
            (p->rule == HSP_PLAIN_MIN_RANK
                 ? from < best
                 : near > best_near || (near == best_near && load[from] < load[best]))) {
            best = from;
            best_near = near;
        }
    }
    return best;
}

static enum hsp_status plain_cell(void *ctx, const struct hsp_region *r, struct hsp_err *err)
{
    struct plain *p = ctx;
    for (uint32_t i = 0; i < r->n_dst; i++) {
        uint32_t to = p->want->items[r->dst[i]].rank, from = best_holder(p, r, to);
        if (from == HSP_NONE) {
            return hsp_err_set(err, HSP_ENOENT, 0, "nobody has it");
        }
        if (p->n == p->cap) {
            p->cap = p->cap == 0 ? 1024 : 2 * p->cap;
            p->row = realloc(p->row, p->cap * sizeof *p->row);
            if (p->row == NULL) {
                abort();
            }
        }
        p->row[p->n++] =
            (struct hsp_state_row){.from = from, .to = to, .param = p->param, .box = r->box};
        if (from != to) {
            bool near = hsp_bsr_link(p->net, from, to) != HSP_LINK_NIC;
            (near ? p->near : p->far)[from] += hsp_box_count(&r->box);
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_plain_bsr(const struct hsp_graph *g, const struct hsp_cover *have,
                              const struct hsp_cover *want, const struct hsp_bsr_net *net,
                              enum hsp_plain_rule rule, struct hsp_arena *arena,
                              struct hsp_state_table *ret, struct hsp_err *err)
{
    struct plain p = {.net = net,
                      .rule = rule,
                      .near = calloc(net->n_ranks, sizeof *p.near),
                      .far = calloc(net->n_ranks, sizeof *p.far)};
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; st == HSP_OK && i < g->n_params; i++) {
        p.param = i;
        p.have = &have[i];
        p.want = &want[i];
        st = hsp_regions(p.have, p.want, plain_cell, &p, err);
    }
    if (st == HSP_OK) {
        *ret = (struct hsp_state_table){p.n, hsp_arena_memdup(arena, p.row, p.n * sizeof *p.row)};
    }
    free(p.near);
    free(p.far);
    free(p.row);
    return st;
}

/* ---- Hetu v2's C1 -> C2 ---- */

#define HEAD "apiVersion: hspmd/v1\nkind: plan\n"
#define PIPE1                                                                               \
    "  - {sequences: 32, micro_batches: 32, stages: [{layers: 15, ranks: [0, 1, 2, 3]}, "   \
    "{layers: 15, ranks: [4, 5, 6, 7]}, {layers: 15, ranks: [8, 9, 10, 11]}, {layers: 15, " \
    "ranks: [12, 13, 14, 15]}]}\n"

static const char c1[] =
    HEAD "ranks: 32\npipelines:\n" PIPE1
         "  - {sequences: 32, micro_batches: 32, stages: [{layers: 15, ranks: [16, 17, 18, 19]}, "
         "{layers: 15, ranks: [20, 21, 22, 23]}, {layers: 15, ranks: [24, 25, 26, 27]}, {layers: "
         "15, ranks: [28, 29, 30, 31]}]}\n";
static const char c2[] =
    HEAD "ranks: 31\npipelines:\n" PIPE1
         "  - {sequences: 32, micro_batches: 32, stages: [{layers: 16, ranks: [16, 17, 18, 19]}, "
         "{layers: 16, ranks: [20, 21, 22, 23]}, {layers: 16, ranks: [24, 25, 26, 27]}, {layers: "
         "8, ranks: [28, 29]}, {layers: 4, ranks: [30]}]}\n";

enum { DEVICES = 32, FAILED = 31, PER_NODE = 8 };

static enum hsp_status homes(struct hsp_hetu_case *c, const char *text, struct hsp_cover *ret,
                             struct hsp_err *err)
{
    struct hsp_plan *p = NULL;
    enum hsp_status st = hsp_plan_parse(text, strlen(text), "plan", 64, c->arena, &p, err);
    return st == HSP_OK ? hsp_plan_homes(c->g, p, ret, err) : st;
}

/* Of the matrices of the blocks only; the failed device's part is gone. */
static void leave_out(struct hsp_hetu_case *c)
{
    for (uint32_t i = 0; i < c->g->n_params; i++) {
        const char *name = c->g->tensors[c->g->params[i].tensor].name;
        struct hsp_cover *h = &c->have[i];
        uint32_t n = 0;
        for (uint32_t k = 0; k < h->n; k++) {
            if (h->items[k].rank != FAILED) {
                h->items[n++] = h->items[k];
            }
        }
        h->n = n;
        if (strncmp(name, "model.layers.", 13) != 0 || h->rank != 2) {
            c->want[i].n = 0;
        }
    }
}

static enum hsp_status make_net(struct hsp_hetu_case *c, struct hsp_err *err)
{
    struct hsp_device_desc dev[DEVICES] = {0};
    uint32_t device[DEVICES];
    const struct hsp_cluster_desc d = {.n = DEVICES,
                                       .dev = dev,
                                       .same_node = {5, 1 / 200e3}, /* 200 GB/s each way */
                                       .cross = {10, 1 / 25e3}};    /* 200 Gbit/s */
    for (uint32_t i = 0; i < DEVICES; i++) {
        dev[i] = (struct hsp_device_desc){
            .node = i / PER_NODE, .host = i / PER_NODE, .nic = i % PER_NODE};
        device[i] = i;
    }
    return hsp_bsr_net_make(&d, device, DEVICES - 1, c->arena, &c->net, err);
}

enum hsp_status hsp_hetu_init(struct hsp_hetu_case *c, struct hsp_err *err)
{
    const struct hsp_model_spec s = {.family = "llama",
                                     .layers = 60,
                                     .hidden = 6656,
                                     .heads = 64,
                                     .vocab = 32000,
                                     .sequence = 4096,
                                     .dtype = HSP_F32,
                                     .kv_heads = 64,
                                     .intermediate = 17920,
                                     .rope_theta = 10000,
                                     .rms_norm_eps = 1e-5};
    *c = (struct hsp_hetu_case){.arena = hsp_arena_new((size_t)256 << 20),
                                .opts = {.elem_bytes = 12}};
    enum hsp_status st = hsp_graph_build(&s, &c->g, err);
    if (st == HSP_OK) {
        c->have = hsp_arena_array(c->arena, c->g->n_params, sizeof *c->have);
        c->want = hsp_arena_array(c->arena, c->g->n_params, sizeof *c->want);
        st = homes(c, c1, c->have, err);
    }
    st = st == HSP_OK ? homes(c, c2, c->want, err) : st;
    if (st == HSP_OK) {
        leave_out(c);
        st = make_net(c, err);
    }
    return st;
}

void hsp_hetu_fini(struct hsp_hetu_case *c)
{
    for (uint32_t i = 0; c->g != NULL && i < c->g->n_params; i++) {
        hsp_cover_fini(&c->have[i]);
        hsp_cover_fini(&c->want[i]);
    }
    c->g = hsp_graph_free(c->g);
    c->arena = hsp_arena_free(c->arena);
}
