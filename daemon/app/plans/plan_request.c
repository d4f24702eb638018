/* Answers planning questions on a pool thread. */
#include "daemon/app/plans/plan_request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/measure.h"
#include "daemon/cluster/paths.h"
#include "daemon/planner/cluster_file.h"
#include "proto/base/map.h"
#include "proto/base/str.h"
#include "proto/wire/protocol.h"

/* Of a device that ran out of memory, this part at least is taken off. */
#define MEMORY_STEP 16
/* The least believed share of the rate of memory that work on bf16 reaches. */
#define LEAST_BF16_PART 1e-3
#define MOST_BF16_PART  1e3
/* So many facts without a remedy of their own against one device, and it is left out. */
#define PATIENCE 2

/* ---- the snapshot ---- */

struct link_sum {
    struct hsp_link_cost same, cross;
};

static void add_link(struct hsp_link_cost *l, double latency, double per_byte)
{
    l->latency_us = fmax(l->latency_us, latency);
    l->us_per_byte = fmax(l->us_per_byte, per_byte);
}

/* Never measured: as a described cluster without links (cluster_file.c). */
static void default_link(struct hsp_link_cost *l, double latency, double gbit)
{
    if (!(l->latency_us > 0)) {
        l->latency_us = latency;
    }
    if (!(l->us_per_byte > 0)) {
        l->us_per_byte = 8e-3 / gbit;
    }
}

/* The part of @text up to its last @end, behind a letter for the kind of address. False: there is
 * none. */
static bool host_key(char kind, const char *text, size_t len, char end,
                     char ret[HSP_ADDRESS_MAX + 2])
{
    while (len > 0 && text[len - 1] != end) {
        len--;
    }
    (void)snprintf(ret, HSP_ADDRESS_MAX + 2, "%c%.*s", kind, (int)len,
                   text); /* an address at most */
    return len > 0;
}

/* The number of the first node whose address has this key, which is @at if none had. */
static bool first_of(struct hsp_map *seen, const char *key, uint32_t at, uint32_t *ret)
{
    uint32_t k = at;
    bool ok = hsp_map_get(seen, key, &k) || hsp_map_put(seen, key, at) == HSP_OK;
    *ret = k < *ret ? k : *ret;
    return ok;
}

/* The number of the first node on the host of @node, whose own is @at: *ret is @at or less. False
 * without memory. */
static bool find_host(const struct hsp_cluster_node *node, uint32_t at, struct hsp_map *seen,
                      uint32_t *ret)
{
    char key[HSP_ADDRESS_MAX + 2];
    const char *x = hsp_cluster_listener(node), *local = x != NULL ? strstr(x, ",unix:") : NULL;
    bool ok = true;
    *ret = at;
    if (x != NULL && host_key('t', x, strcspn(x, ","), ':', key)) {
        ok = first_of(seen, key, at, ret);
    }
    if (ok && local != NULL && host_key('u', local, strlen(local), '.', key)) {
        ok = first_of(seen, key, at, ret);
    }
    return ok;
}

/* Which host each node of @devices is on, by the number of its first node there; how many there
 * are, of nodes that have measured. One that has just come may not have said yet where it listens.
 */
static enum hsp_status find_hosts(const struct hsp_cluster *c, const hsp_device_id *devices,
                                  uint32_t n, uint32_t host[HSP_MAX_NODES], uint32_t *ret_n,
                                  struct hsp_err *err)
{
    uint32_t node[HSP_MAX_NODES], n_nodes = 0, n_hosts = 0;
    bool known[HSP_MAX_NODES] = {false}, ok = true;
    struct hsp_map seen; /* key of an address -> number in node of the first that has it */
    hsp_map_init(&seen, 2 * (size_t)HSP_MAX_NODES);
    for (uint32_t i = 0; i < n && ok; i++) {
        uint32_t at = HSP_DEVICE_NODE(devices[i]), k;
        if (known[at]) {
            continue;
        }
        known[at] = true;
        host[at] = at;
        if (!c->nodes[at].measured) {
            continue;
        }
        ok = find_host(&c->nodes[at], n_nodes, &seen, &k);
        host[at] = k < n_nodes ? host[node[k]] : at;
        n_hosts += k < n_nodes ? 0 : 1;
        node[n_nodes++] = at;
    }
    hsp_map_fini(&seen);
    *ret_n = n_hosts;
    return ok ? HSP_OK : hsp_err_nomem(err, "planning");
}

/* Its figures as measured by its agent: nodes meet where hspmdd is, as far as anybody knows. */
static struct hsp_link_cost uplink_of(const struct hsp_cluster_node *n)
{
    return n->measured ? (struct hsp_link_cost){.latency_us = 1e6 * n->uplink.latency_s,
                                                .us_per_byte = 1e6 / n->uplink.bytes_per_s}
                       : (struct hsp_link_cost){0};
}

/* The card by which the device reaches other hosts: one of that name that the first node of the
 * host has is the same. */
static void describe_card(const struct hsp_cluster *c, hsp_device_id id, struct hsp_device_desc *d)
{
    const struct hsp_cluster_node *n = &c->nodes[d->node], *first = &c->nodes[d->host];
    uint32_t k = n->dev[HSP_DEVICE_INDEX(id)].profile.card, same = 0;
    d->nic = 0;
    if (k >= n->n_cards) {
        return;
    }
    while (same < first->n_cards && strcmp(first->card[same].name, n->card[k].name) != 0) {
        same++;
    }
    d->nic = same < first->n_cards ? d->host * HSP_NODE_CARDS + same : d->node * HSP_NODE_CARDS + k;
    d->nic_us_per_byte = n->card[k].gbit_per_s > 0 ? 8e-3 / n->card[k].gbit_per_s : 0;
}

static void describe_device(const struct hsp_cluster *c, hsp_device_id id, double speed,
                            struct hsp_device_desc *d)
{
    const struct hsp_cluster_node *n = &c->nodes[HSP_DEVICE_NODE(id)];
    const struct hsp_m_device *p = &n->dev[HSP_DEVICE_INDEX(id)].profile;
    const char *kind = n->dev[HSP_DEVICE_INDEX(id)].kind;
    char name[sizeof d->name];
    (void)snprintf(name, sizeof name, "%s/%u", n->name, HSP_DEVICE_INDEX(id));
    *d = hsp_device_default(name, HSP_DEVICE_NODE(id), p->speed > 0 ? p->speed : 1);
    d->mem_bytes = p->mem_bytes < INT64_MAX ? (int64_t)p->mem_bytes : INT64_MAX;
    d->folder_bytes = n->folder_free < INT64_MAX ? (int64_t)n->folder_free : INT64_MAX;
    d->communicator_bytes = strcmp(kind, "cuda") == 0 ? HSP_COMMUNICATOR_BYTES : 0;
    const double measured[] = {p->gemm_fp32_flops, p->gemm_fp64_flops, p->gemm_tf32_flops,
                               p->gemm_bf16_flops, p->mem_bytes_per_s, p->op_us,
                               p->gemm_us,         p->host_bytes_per_s};
    double *const to[] = {&d->gemm_flops[HSP_RATE_FP32],
                          &d->gemm_flops[HSP_RATE_FP64],
                          &d->gemm_flops[HSP_RATE_TF32],
                          &d->gemm_flops[HSP_RATE_BF16],
                          &d->mem_bytes_per_s,
                          &d->op_us,
                          &d->gemm_us,
                          &d->host_bytes_per_s};
    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) {
        if (measured[i] > 0) {
            *to[i] = measured[i];
        }
    }
    _Static_assert(sizeof d->gemm_part / sizeof(double) == HSP_GEMM_PARTS, "as in the message");
    memcpy(d->gemm_part, n->dev[HSP_DEVICE_INDEX(id)].gemm_part, sizeof d->gemm_part);
    d->bf16_part = p->bf16_part > 0 ? fmin(fmax(p->bf16_part, LEAST_BF16_PART), MOST_BF16_PART) : 0;
    d->widens = strcmp(kind, "cpu") == 0;
    d->no_buckets = n->protocol != 0 && n->protocol < HSP_PROTO_BUCKETS;
    double s = speed > 0 ? speed : 1;
    for (int r = 0; r < HSP_N_RATES; r++) {
        d->gemm_flops[r] *= s;
    }
    d->mem_bytes_per_s *= s;
    d->op_us /= s;
    d->gemm_us /= s;
}

#define FAST_LATENCY_US  10   /* a kernel of NCCL begins */
#define FAST_BYTES_PER_S 2e10 /* where nobody knows: less than one link of any NVLink */

/* Their fast domains; devices of one node stand together. */
static void describe_domains(const struct hsp_cluster *c, const hsp_device_id *id, uint32_t n,
                             struct hsp_device_desc *dev)
{
    uint32_t domain[HSP_NODE_DEVICES], last = HSP_NO_NODE;
    double rate[HSP_NODE_DEVICES], us[HSP_NODE_DEVICES];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t node = HSP_DEVICE_NODE(id[i]), k = HSP_DEVICE_INDEX(id[i]);
        if (node != last) {
            hsp_node_domains(&c->nodes[node], domain, rate, us);
            last = node;
        }
        dev[i].domain = domain[k] != 0 ? node * HSP_NODE_DEVICES + domain[k] : 0;
        dev[i].fast = (struct hsp_link_cost){fmax(FAST_LATENCY_US, us[k]),
                                             1e6 / (rate[k] > 0 ? rate[k] : FAST_BYTES_PER_S)};
    }
}

/* Links that are slower than they were, and have been measured anew. */
static enum hsp_status describe_slow(const struct hsp_cluster *c, struct hsp_arena *arena,
                                     struct hsp_cluster_desc *ret, struct hsp_err *err)
{
    struct hsp_slow_link *slow = hsp_arena_array(arena, (size_t)c->n_pairs + 1, sizeof *slow);
    if (slow == NULL) {
        return hsp_err_nomem(err, "planning");
    }
    ret->slow = slow;
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        const struct hsp_broken_pair *p = &c->pairs[i];
        if (p->bytes_per_s > 0) {
            slow[ret->n_slow++] = (struct hsp_slow_link){p->a, p->b, 1e6 / p->bytes_per_s};
        }
    }
    return HSP_OK;
}

struct named {
    struct hsp_device_desc desc;
    hsp_device_id id;
};

static int by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    return strverscmp(x->desc.name, y->desc.name);
}

enum hsp_status hsp_cluster_describe(const struct hsp_cluster *c, const hsp_device_id *devices,
                                     const double *speed, uint32_t n, struct hsp_arena *arena,
                                     struct hsp_cluster_desc *ret, hsp_device_id **ret_device,
                                     struct hsp_err *err)
{
    struct named *list = hsp_arena_array(arena, n, sizeof *list);
    struct hsp_device_desc *dev = hsp_arena_array(arena, n, sizeof *dev);
    hsp_device_id *id = hsp_arena_array(arena, n, sizeof *id);
    struct link_sum l = {0};
    uint32_t host[HSP_MAX_NODES];
    if (list == NULL || dev == NULL || id == NULL) {
        return hsp_err_nomem(err, "planning");
    }
    if (n > HSP_MAX_DEVICES) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "%u devices, at most %d can be planned", n,
                           HSP_MAX_DEVICES);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_cluster_node *node = &c->nodes[HSP_DEVICE_NODE(devices[i])];
        list[i].id = devices[i];
        describe_device(c, devices[i], speed != NULL ? speed[i] : 1, &list[i].desc);
        add_link(&l.same, node->same_latency_us, node->same_us_per_byte);
        add_link(&l.cross, node->cross_latency_us, node->cross_us_per_byte);
    }
    default_link(&l.same, 20, 40);
    default_link(&l.cross, 60, 10);
    uint32_t n_hosts = 0;
    enum hsp_status st = find_hosts(c, devices, n, host, &n_hosts, err);
    if (st != HSP_OK) {
        return st;
    }
    qsort(list, n, sizeof *list, by_name);
    for (uint32_t i = 0; i < n; i++) {
        dev[i] = list[i].desc;
        dev[i].host = host[dev[i].node];
        describe_card(c, list[i].id, &dev[i]);
        if (n_hosts > 1) {
            dev[i].uplink = uplink_of(&c->nodes[dev[i].node]);
        }
        id[i] = list[i].id;
    }
    describe_domains(c, id, n, dev);
    *ret = (struct hsp_cluster_desc){.n = n, .dev = dev, .same_node = l.same, .cross = l.cross};
    *ret_device = id;
    return describe_slow(c, arena, ret, err);
}

enum hsp_status hsp_plan_question_new(const struct hsp_cluster *c, struct hsp_job_rec *rec,
                                      const struct hsp_plan_request *r, size_t mem_cap,
                                      struct hsp_plan_question **ret, struct hsp_err *err)
{
    struct hsp_plan_question *q = calloc(1, sizeof *q);
    if (q == NULL || (q->arena = hsp_arena_new(mem_cap)) == NULL) {
        free(q);
        return hsp_err_nomem(err, "planning");
    }
    atomic_init(&q->cancel, false);
    q->job = r->job;
    q->ticket = r->ticket;
    q->urgent = r->urgent;
    q->current_usable = r->current_usable;
    q->rec = rec != NULL ? hsp_job_rec_ref(rec) : NULL;
    q->copies = rec != NULL ? rec->spec->copies : 1;
    q->mem_cap = mem_cap;
    q->excluded = hsp_arena_array(q->arena, r->n_devices, sizeof *q->excluded);
    enum hsp_status st = q->excluded == NULL
                             ? hsp_err_nomem(err, "planning")
                             : hsp_cluster_describe(c, r->devices, r->speed, r->n_devices, q->arena,
                                                    &q->cluster, &q->device, err);
    if (st != HSP_OK) {
        (void)hsp_plan_question_free(q);
        return st;
    }
    hsp_plan_facts(q, r->facts, r->n_facts);
    *ret = q;
    return HSP_OK;
}

struct hsp_plan_question *hsp_plan_question_free(struct hsp_plan_question *q)
{
    if (q != NULL) {
        (void)hsp_plan_rec_unref(q->current);
        (void)hsp_job_rec_unref(q->rec);
        (void)hsp_arena_free(q->arena);
        free(q);
    }
    return NULL;
}

/* ---- facts ---- */

uint32_t hsp_plan_find(const struct hsp_plan_question *q, hsp_device_id d)
{
    uint32_t i = 0;
    while (i < q->cluster.n && q->device[i] != d) {
        i++;
    }
    return i;
}

void hsp_plan_measured(struct hsp_plan_question *q, const struct hsp_cluster *c,
                       const struct hsp_device_measured *m, size_t n, enum hsp_rate rate)
{
    for (size_t k = 0; k < n; k++) {
        uint32_t i = hsp_plan_find(q, m[k].device), node = HSP_DEVICE_NODE(m[k].device);
        if (i < q->cluster.n && c->nodes[node].incarnation == m[k].incarnation) {
            hsp_profile_correct(&q->cluster.dev[i], rate, &m[k].sums);
        }
    }
}

/* By a part at least, and twice as much each time that it was learnt again: the lack of the device
 * may not depend on the need of the plan. The fifth time takes all. */
static void less_memory(struct hsp_plan_question *q, uint32_t i, uint64_t missing, uint32_t again)
{
    int64_t *mem = &q->cluster.dev[i].mem_bytes;
    int64_t part = *mem / MEMORY_STEP, off = part;
    for (uint32_t k = 0; k < again && off < *mem; k++) {
        off = 2 * off + part; /* 1, 3, 7, 15, 31 parts */
    }
    if (missing < (uint64_t)INT64_MAX && (int64_t)missing > off) {
        off = (int64_t)missing;
    }
    *mem = off < *mem ? *mem - off : 0;
}

/* Devices that cannot talk to each other: the one named most often goes, then look again; of equals
 * the slower one. */
static void break_pairs(struct hsp_plan_question *q, const struct hsp_plan_fact *facts, uint32_t n)
{
    for (;;) {
        uint32_t worst = q->cluster.n, most = 0;
        for (uint32_t i = 0; i < q->cluster.n; i++) {
            uint32_t named = 0;
            for (uint32_t k = 0; k < n && !q->excluded[i]; k++) {
                uint32_t a = hsp_plan_find(q, facts[k].device), b = hsp_plan_find(q, facts[k].peer);
                bool open = facts[k].kind == HSP_FACT_CANNOT_CONNECT && a < q->cluster.n &&
                            b < q->cluster.n && a != b && !q->excluded[a] && !q->excluded[b];
                named += open && (a == i || b == i);
            }
            double flops = q->cluster.dev[i].gemm_flops[0];
            if (named > most ||
                (named == most && named > 0 && flops < q->cluster.dev[worst].gemm_flops[0])) {
                worst = i;
                most = named;
            }
        }
        if (most == 0) {
            return;
        }
        q->excluded[worst] = true;
    }
}

static void exclude_node(struct hsp_plan_question *q, uint32_t node)
{
    for (uint32_t i = 0; i < q->cluster.n; i++) {
        q->excluded[i] = q->excluded[i] || HSP_DEVICE_NODE(q->device[i]) == node;
    }
}

void hsp_plan_facts(struct hsp_plan_question *q, const struct hsp_plan_fact *facts, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = hsp_plan_find(q, facts[k].device), same = 0;
        if (i == q->cluster.n) {
            continue;
        }
        switch (facts[k].kind) {
        case HSP_FACT_OUT_OF_MEMORY: less_memory(q, i, facts[k].amount, facts[k].again); break;
        case HSP_FACT_NO_DATA:
        case HSP_FACT_DATA_DIFFERS: exclude_node(q, HSP_DEVICE_NODE(facts[k].device)); break;
        case HSP_FACT_CANNOT_CONNECT: break; /* below, all pairs together */
        default:
            for (uint32_t m = 0; m <= k; m++) {
                bool is = facts[m].kind == facts[k].kind && facts[m].device == facts[k].device;
                same += is ? 1 + facts[m].again : 0;
            }
            q->excluded[i] = q->excluded[i] || same >= PATIENCE;
            break;
        }
    }
    break_pairs(q, facts, n);
}
