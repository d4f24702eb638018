/* Writes the findings of a check of nodes as a document. */
#include "daemon/app/docs/check_doc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "daemon/app/docs/doc_put.h"
#include "daemon/app/plans/plan_request.h"
#include "daemon/planner/links.h"
#include "proto/base/arena.h"
#include "proto/base/str.h"

#define ARENA_BYTES ((size_t)1 << 20)
#define NOISE_S     1e-4 /* a scheduler's: no link is slow for that */

struct doc {
    const struct hsp_cluster *c;
    double threshold;
    struct hsp_arena *arena;
    struct hsp_cluster_desc desc; /* a device of each node that was measured */
    uint32_t of_node[HSP_CHECK_NODES];
    struct hsp_check_sum *sum;
};

static const char *name_of(const struct doc *d, uint32_t at)
{
    return d->c->nodes[d->c->check.nodes[at].node].name;
}

/* @said: the fault; kept when it is the first. */
static void worse(struct doc *d, const char *said)
{
    if (d->sum->worse++ == 0) {
        hsp_str_printf(d->sum->first, sizeof d->sum->first, "%s", said); /* cut on purpose */
    }
}

/* @least becomes the least of itself and the part of @record that @measured is. */
static void part(double *least, double measured, double record)
{
    if (record > 0) {
        *least = fmin(*least, measured > 0 ? measured / record : 0);
    }
}

/* ---- devices ---- */

static void rates(cJSON *o, const char *key, const double rate[3], double op_us)
{
    cJSON *x = cJSON_AddObjectToObject(o, key);
    put(x, "gemm_flops_per_second", rate[0]);
    put(x, "gemm_fp64_flops_per_second", rate[1]);
    put(x, "memory_bytes_per_second", rate[2]);
    put(x, "op_seconds", 1e-6 * op_us);
}

/* Returns its verdict. */
static const char *put_device(struct doc *d, cJSON *list, const struct hsp_cluster_node *n,
                              const struct hsp_m_figures *f)
{
    const struct hsp_m_device *r = &n->dev[f->device].profile;
    const double now[3] = {f->gemm_fp32_flops, f->gemm_fp64_flops, f->mem_bytes_per_s};
    const double then[3] = {r->gemm_fp32_flops, r->gemm_fp64_flops, r->mem_bytes_per_s};
    double ratio = INFINITY;
    char said[200];
    for (int i = 0; i < 3; i++) {
        part(&ratio, now[i], then[i]);
    }
    bool slow = ratio < d->threshold, crowded = f->share < d->threshold;
    const char *verdict = slow ? "slow" : crowded ? "crowded" : "ok";
    cJSON *o = cJSON_CreateObject();
    put(o, "index", f->device);
    put_text(o, "verdict", verdict);
    if (isfinite(ratio)) {
        put(o, "ratio", ratio);
    }
    put(o, "share", f->share);
    rates(o, "measured", now, f->op_us);
    rates(o, "on_record", then, r->op_us);
    (void)cJSON_AddItemToArray(list, o);
    if (slow) {
        (void)snprintf(said, sizeof said, "%s/%u is at %.2f of its record", n->name, f->device,
                       ratio);
        worse(d, said);
    } else if (crowded) {
        (void)snprintf(said, sizeof said, "%s/%u got its core for %.2f of the time", n->name,
                       f->device, f->share);
        worse(d, said);
    }
    return verdict;
}

static const char *state_verdict(struct doc *d, enum hsp_check_state s, const char *why)
{
    if (s == HSP_CHECK_SKIPPED) {
        d->sum->skipped++;
        return "skipped";
    }
    if (s != HSP_CHECK_DONE) {
        worse(d, why);
        return "failed";
    }
    return "ok";
}

static void put_node(struct doc *d, cJSON *list, uint32_t at)
{
    const struct hsp_check_node *k = &d->c->check.nodes[at];
    const struct hsp_cluster_node *n = &d->c->nodes[k->node];
    const char *verdict = state_verdict(d, k->state, k->why);
    cJSON *o = cJSON_CreateObject(), *devices = cJSON_CreateArray();
    for (uint32_t i = 0; k->state == HSP_CHECK_DONE && i < k->n_devices; i++) {
        const char *of = put_device(d, devices, n, &k->devices[i]);
        verdict = strcmp(verdict, "ok") == 0 || strcmp(of, "slow") == 0 ? of : verdict;
    }
    d->sum->nodes += k->state == HSP_CHECK_DONE;
    put_text(o, "name", n->name);
    put_text(o, "verdict", verdict);
    put_text(o, "reason", k->why);
    (void)cJSON_AddItemToObject(o, "devices", devices);
    (void)cJSON_AddItemToArray(list, o);
}

/* ---- links ---- */

/* The links that planning assumes: they are described together, as for a job on all of these nodes.
 */
static bool describe(struct doc *d)
{
    const struct hsp_check *k = &d->c->check;
    hsp_device_id dev[HSP_CHECK_NODES], *order = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->n_nodes; i++) {
        uint32_t at = 0;
        const struct hsp_cluster_node *x = &d->c->nodes[k->nodes[i].node];
        while (at < HSP_NODE_DEVICES && !x->dev[at].present) {
            at++;
        }
        d->of_node[i] = UINT32_MAX;
        if (at < HSP_NODE_DEVICES) {
            dev[n++] = HSP_DEVICE(k->nodes[i].node, at);
        }
    }
    if (n == 0) {
        return true;
    }
    if (hsp_cluster_describe(d->c, dev, NULL, n, d->arena, &d->desc, &order, NULL) != HSP_OK) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < k->n_nodes; j++) {
            if (k->nodes[j].node == HSP_DEVICE_NODE(order[i])) {
                d->of_node[j] = i;
            }
        }
    }
    return true;
}

static void two(cJSON *o, const char *key, double a, double b)
{
    const double v[2] = {a, b};
    (void)cJSON_AddItemToObject(o, key, cJSON_CreateDoubleArray(v, 2));
}

/* The figures of a link that was measured; its verdict. */
static const char *put_link(struct doc *d, cJSON *o, const struct hsp_check_pair *p)
{
    uint32_t a = d->of_node[p->a], b = d->of_node[p->b];
    double ratio = INFINITY, latency = fmax(p->end[0].latency_s, p->end[1].latency_s);
    bool late = false;
    cJSON *m = cJSON_AddObjectToObject(o, "measured");
    put_text(o, "transport", p->transport);
    two(m, "latency_seconds", p->end[0].latency_s, p->end[1].latency_s);
    two(m, "bytes_per_second", p->end[0].bytes_per_s, p->end[1].bytes_per_s);
    if (a != UINT32_MAX && b != UINT32_MAX) {
        struct hsp_link_cost l = hsp_link_pair(&d->desc, a, b);
        cJSON *r = cJSON_AddObjectToObject(o, "on_record");
        put(r, "latency_seconds", 1e-6 * l.latency_us);
        put(r, "bytes_per_second", 1e6 / l.us_per_byte);
        part(&ratio, fmin(p->end[0].bytes_per_s, p->end[1].bytes_per_s), 1e6 / l.us_per_byte);
        put(o, "ratio", ratio);
        late = latency > 1e-6 * l.latency_us / d->threshold + NOISE_S;
    }
    if (ratio < d->threshold || late) {
        char said[240];
        (void)snprintf(said, sizeof said, "%s and %s: %s", name_of(d, p->a), name_of(d, p->b),
                       late ? "messages take longer than recorded"
                            : "less bandwidth than recorded");
        worse(d, said);
        return "slow";
    }
    return "ok";
}

static void put_pair(struct doc *d, cJSON *list, const struct hsp_check_pair *p)
{
    const struct hsp_check *k = &d->c->check;
    if (k->nodes[p->a].state != HSP_CHECK_DONE || k->nodes[p->b].state != HSP_CHECK_DONE) {
        return; /* the node has the message */
    }
    cJSON *o = cJSON_CreateObject();
    const char *verdict = state_verdict(d, p->state, p->why);
    put_text(o, "a", name_of(d, p->a));
    put_text(o, "b", name_of(d, p->b));
    if (p->state == HSP_CHECK_DONE) {
        verdict = put_link(d, o, p);
        d->sum->pairs++;
    }
    put_text(o, "verdict", verdict);
    put_text(o, "reason", p->why);
    (void)cJSON_AddItemToArray(list, o);
}

char *hsp_check_doc(const struct hsp_cluster *c, struct hsp_check_sum *ret)
{
    const struct hsp_check *k = &c->check;
    struct doc d = {
        .c = c, .threshold = k->terms.threshold, .arena = hsp_arena_new(ARENA_BYTES), .sum = ret};
    *ret = (struct hsp_check_sum){0};
    if (d.arena == NULL || !describe(&d)) {
        (void)hsp_arena_free(d.arena);
        return NULL;
    }
    cJSON *o = cJSON_CreateObject();
    put_text(o, "apiVersion", "hspmd/v1");
    put_text(o, "kind", "node-check");
    put(o, "threshold", d.threshold);
    cJSON *nodes = cJSON_AddArrayToObject(o, "nodes"), *pairs = cJSON_AddArrayToObject(o, "pairs");
    for (uint32_t i = 0; i < k->n_nodes; i++) {
        put_node(&d, nodes, i);
    }
    for (uint32_t i = 0; i < k->n_pairs; i++) {
        put_pair(&d, pairs, &k->pairs[i]);
    }
    put(o, "measured", ret->nodes + ret->pairs);
    put(o, "skipped", ret->skipped);
    put(o, "worse", ret->worse);
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    (void)hsp_arena_free(d.arena);
    return text;
}
