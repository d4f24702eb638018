#include "daemon/cluster/index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/check.h"
#include "proto/base/place.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"
#include "proto/op/op.h"

#define MAX_DEVICES ((size_t)HSP_MAX_NODES * HSP_NODE_DEVICES)

uint32_t hsp_ci_index_of(const struct hsp_cluster *c, const struct hsp_cluster_node *n)
{
    return (uint32_t)(n - c->nodes);
}

void hsp_ci_index_init(struct hsp_cluster *c)
{
    hsp_map_init(&c->by_name, HSP_MAX_NODES);
    hsp_map_init(&c->by_conn, HSP_MAX_NODES);
    hsp_map_init(&c->parked_conn, HSP_MAX_PARKED);
    c->oldest = c->newest = c->first_live = HSP_NO_NODE;
    c->due_ms = HSP_NEVER;
}

void hsp_ci_notes_free(struct hsp_cluster_node *n)
{
    for (uint32_t i = 0; i < HSP_NODE_DEVICES; i++) {
        free(n->dev[i].note);
        n->dev[i].note = NULL;
    }
    free(n->paths);
    n->paths = NULL;
    n->n_paths = 0;
}

void hsp_ci_index_fini(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        hsp_ci_notes_free(&c->nodes[i]);
    }
    hsp_map_fini(&c->by_name);
    hsp_map_fini(&c->by_conn);
    free(c->briefs);
    free(c->holders);
    free(c->look);
    free(c->down);
    free(c->queue);
    free(c->turns);
}

/* ---- nodes ---- */

struct hsp_cluster_node *hsp_ci_node_add(struct hsp_cluster *c, uint32_t at)
{
    size_t n = (size_t)at + 1;
    if (!hsp_grow(&c->nodes, &c->cap_nodes, n, sizeof(*c->nodes), HSP_MAX_NODES) ||
        !hsp_grow(&c->briefs, &c->cap_briefs, n, sizeof(*c->briefs), HSP_MAX_NODES) ||
        !hsp_grow(&c->holders, &c->cap_holders, n * HSP_NODE_DEVICES, sizeof(*c->holders),
                  MAX_DEVICES)) {
        return NULL;
    }
    for (; c->n_nodes < n; c->n_nodes++) {
        c->nodes[c->n_nodes] = (struct hsp_cluster_node){
            .state = HSP_NODE_DEAD, .older = HSP_NO_NODE, .newer = HSP_NO_NODE};
    }
    return &c->nodes[at];
}

bool hsp_ci_node_named(struct hsp_cluster *c, const struct hsp_cluster_node *n)
{
    return hsp_map_put(&c->by_name, n->name, hsp_ci_index_of(c, n)) == HSP_OK;
}

struct hsp_cluster_node *hsp_ci_node_new(struct hsp_cluster *c, const char *name)
{
    uint32_t at = c->n_vacant > 0 ? 0 : c->n_nodes;
    while (at < c->n_nodes && c->nodes[at].name[0] != '\0') {
        at++;
    }
    if (at == HSP_MAX_NODES) {
        return NULL;
    }
    c->n_vacant -= at < c->n_nodes;
    struct hsp_cluster_node *n = hsp_ci_node_add(c, at);
    if (n != NULL) {
        (void)snprintf(n->name, sizeof(n->name), "%s", name);
        hsp_ci_node_state(c, n, HSP_NODE_LEFT);
    }
    c->failed = c->failed || n == NULL || !hsp_ci_node_named(c, n);
    return c->failed ? NULL : n;
}

void hsp_ci_node_vacate(struct hsp_cluster *c, struct hsp_cluster_node *n)
{
    HSP_ASSERT(!n->listed && n->conn == 0 && hsp_ci_node_gone(n));
    (void)hsp_map_remove(&c->by_name, n->name); /* it is there */
    hsp_ci_notes_free(n);
    *n = (struct hsp_cluster_node){.state = HSP_NODE_DEAD,
                                   .older = HSP_NO_NODE,
                                   .newer = HSP_NO_NODE,
                                   /* the node stands in lists until they are read */
                                   .looked = n->looked,
                                   .queued = n->queued};
    c->n_vacant++;
    hsp_ci_node_dirty(c, n);
}

const struct hsp_cluster_node *hsp_cluster_node_by_name(const struct hsp_cluster *c,
                                                        const char *name)
{
    uint32_t at;
    return hsp_map_get(&c->by_name, name, &at) ? &c->nodes[at] : NULL;
}

struct hsp_cluster_node *hsp_ci_node_of_conn(const struct hsp_cluster *c, uint32_t conn)
{
    uint32_t at;
    return conn != 0 && hsp_map_get_u64(&c->by_conn, conn, &at) ? &c->nodes[at] : NULL;
}

void hsp_ci_node_conn(struct hsp_cluster *c, struct hsp_cluster_node *n, uint32_t conn)
{
    if (n->conn != 0) {
        (void)hsp_map_remove_u64(&c->by_conn, n->conn); /* it is there */
    }
    n->conn = conn;
    if (conn != 0 && hsp_map_put_u64(&c->by_conn, conn, hsp_ci_index_of(c, n)) != HSP_OK) {
        c->failed = true;
    }
    hsp_ci_node_dirty(c, n);
    c->look_jobs = true;
}

/* ---- the order of hearing ---- */

/* The first live node behind @at. Live nodes only leave that part of the list for its end, so
 * each node is passed once for each time it is heard. */
static uint32_t live_behind(const struct hsp_cluster *c, uint32_t at)
{
    do {
        at = c->nodes[at].newer;
    } while (at != HSP_NO_NODE && c->nodes[at].state != HSP_NODE_LIVE);
    return at;
}

static void unlist(struct hsp_cluster *c, struct hsp_cluster_node *n)
{
    uint32_t *from = n->older != HSP_NO_NODE ? &c->nodes[n->older].newer : &c->oldest;
    uint32_t *to = n->newer != HSP_NO_NODE ? &c->nodes[n->newer].older : &c->newest;
    *from = n->newer;
    *to = n->older;
    n->older = n->newer = HSP_NO_NODE;
    n->listed = false;
}

static void list(struct hsp_cluster *c, struct hsp_cluster_node *n)
{
    uint32_t at = hsp_ci_index_of(c, n);
    n->older = c->newest;
    n->newer = HSP_NO_NODE;
    *(c->newest != HSP_NO_NODE ? &c->nodes[c->newest].newer : &c->oldest) = at;
    c->newest = at;
    n->listed = true;
}

void hsp_ci_node_state(struct hsp_cluster *c, struct hsp_cluster_node *n, enum hsp_node_state to)
{
    uint32_t at = hsp_ci_index_of(c, n);
    c->n_away -= n->state == HSP_NODE_AWAY;
    c->n_away += to == HSP_NODE_AWAY;
    if (c->first_live == at && to != HSP_NODE_LIVE) {
        c->first_live = live_behind(c, at);
    }
    n->state = to;
    if (n->listed && to != HSP_NODE_LIVE && to != HSP_NODE_SUSPECT) {
        unlist(c, n);
    }
}

void hsp_ci_node_reason(struct hsp_cluster_node *n, const char *why)
{
    if (!n->draining) {
        hsp_str_tell(n->reason, sizeof(n->reason), "%s", why);
    }
}

void hsp_ci_node_heard(struct hsp_cluster *c, struct hsp_cluster_node *n)
{
    uint32_t at = hsp_ci_index_of(c, n);
    c->n_away -= n->state == HSP_NODE_AWAY;
    if (c->first_live == at) {
        c->first_live = live_behind(c, at);
    }
    if (n->listed) {
        unlist(c, n);
    }
    n->last_ms = c->now_ms;
    n->state = HSP_NODE_LIVE;
    list(c, n);
    c->first_live = c->first_live == HSP_NO_NODE ? at : c->first_live;
}

hsp_msec hsp_ci_silence_due(const struct hsp_cluster *c)
{
    hsp_msec due = HSP_NEVER;
    if (c->first_live != HSP_NO_NODE) {
        due = c->nodes[c->first_live].last_ms + c->cfg.suspect_ms;
    }
    if (c->oldest != HSP_NO_NODE && c->nodes[c->oldest].state == HSP_NODE_SUSPECT) {
        hsp_msec dead = c->nodes[c->oldest].last_ms + c->cfg.dead_ms;
        hsp_msec look = c->looked_ms + c->cfg.suspect_ms;
        due = dead < due ? dead : due;
        due = look < due ? look : due;
    }
    return due;
}

/* ---- lists of devices and leases ---- */

static int by_device(const void *key, const void *item)
{
    const hsp_device_id *a = key, *b = item;
    return (*a > *b) - (*a < *b);
}

/* Where @d stands in an ascending list, or would. */
static uint32_t place_of(const hsp_device_id *list, uint32_t n, hsp_device_id d)
{
    return (uint32_t)hsp_place(&d, list, n, sizeof(*list), by_device);
}

bool hsp_ci_has(const hsp_device_id *list, uint32_t n, hsp_device_id d)
{
    uint32_t at = place_of(list, n, d);
    return at < n && list[at] == d;
}

bool hsp_ci_all_in(const hsp_device_id *want, uint32_t n_want, const hsp_device_id *have,
                   uint32_t n_have)
{
    for (uint32_t i = 0; i < n_want; i++) {
        if (!hsp_ci_has(have, n_have, want[i])) {
            return false;
        }
    }
    return true;
}

static void drop_lease(struct hsp_job *j, hsp_device_id d)
{
    uint32_t at = place_of(j->leases, j->n_leases, d);
    HSP_ASSERT(at < j->n_leases && j->leases[at] == d);
    j->n_leases--;
    j->stale_row = true;
    memmove(&j->leases[at], &j->leases[at + 1], (j->n_leases - at) * sizeof(*j->leases));
}

static void add_lease(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d)
{
    uint32_t at = place_of(j->leases, j->n_leases, d);
    if (!hsp_grow(&j->leases, &j->cap_leases, (size_t)j->n_leases + 1, sizeof(*j->leases),
                  MAX_DEVICES)) {
        c->failed = true;
        return;
    }
    memmove(&j->leases[at + 1], &j->leases[at], (j->n_leases - at) * sizeof(*j->leases));
    j->leases[at] = d;
    j->n_leases++;
}

void hsp_ci_lease(struct hsp_cluster *c, hsp_device_id d, uint32_t job)
{
    struct hsp_node_device *v = hsp_ci_device(c, d);
    if (v->job == job) {
        return;
    }
    struct hsp_job *from = hsp_ci_job(c, v->job), *to = hsp_ci_job(c, job);
    if (from != NULL) {
        drop_lease(from, d);
    }
    v->job = job;
    c->holders[d] = job;
    if (to != NULL) {
        add_lease(c, to, d);
    }
    hsp_ci_node_dirty(c, hsp_ci_node(c, d));
    c->look_jobs = true;
}

void hsp_ci_ask(struct hsp_cluster *c, hsp_device_id d, enum hsp_device_ask ask)
{
    struct hsp_node_device *v = hsp_ci_device(c, d);
    if (ask == HSP_ASK_STOP && v->ask == ask) {
        return; /* one answer, which no later order takes for its own */
    }
    v->ask = ask;
    v->asked = false;
    v->leaves = false;
    v->let_go_ms = 0;
    hsp_ci_node_dirty(c, hsp_ci_node(c, d));
    c->look_jobs = true;
}

void hsp_ci_answer_by(struct hsp_cluster *c, hsp_msec t)
{
    c->answers_ms = t < c->answers_ms ? t : c->answers_ms;
}

/* ---- nodes and jobs to be looked at ---- */

void hsp_ci_node_dirty(struct hsp_cluster *c, struct hsp_cluster_node *n)
{
    c->dirty = true;
    if (n->looked) {
        return;
    }
    if (!hsp_grow(&c->look, &c->cap_look, (size_t)c->n_look + 1, sizeof(*c->look), HSP_MAX_NODES)) {
        c->failed = true;
        return;
    }
    c->look[c->n_look++] = hsp_ci_index_of(c, n);
    n->looked = true;
}

void hsp_ci_job_dirty(struct hsp_cluster *c, struct hsp_job *j)
{
    j->look = true;
    c->dirty = true;
}

void hsp_ci_jobs_dirty(struct hsp_cluster *c)
{
    c->look_jobs = true;
    c->dirty = true;
}

static struct hsp_node_summary summary_of(const struct hsp_cluster_node *n)
{
    struct hsp_node_summary b = {0};
    for (uint32_t i = 0; i < HSP_NODE_DEVICES; i++) {
        const struct hsp_node_device *v = &n->dev[i];
        uint16_t bit = (uint16_t)(1u << i);
        if (hsp_cluster_offers(n, i)) {
            b.offer |= v->replica_holder ? 0 : bit;
            b.keep |= v->replica_holder && n->holder ? bit : 0;
            b.down |= v->up ? 0 : bit;
            b.ends |= v->ending != 0 ? bit : 0;
        }
    }
    return b;
}

void hsp_ci_refresh(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < c->n_look; i++) {
        c->briefs[c->look[i]] = summary_of(&c->nodes[c->look[i]]);
    }
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

uint32_t hsp_ci_take_look(struct hsp_cluster *c, uint32_t **ret)
{
    uint32_t n = c->n_look;
    *ret = hsp_ci_alloc(c, n, sizeof(**ret));
    if (*ret == NULL || n == 0) {
        return 0;
    }
    hsp_ci_refresh(c);
    memcpy(*ret, c->look, n * sizeof(**ret));
    qsort(*ret, n, sizeof(**ret), ascending);
    for (uint32_t i = 0; i < n; i++) {
        c->nodes[(*ret)[i]].looked = false;
    }
    c->n_look = 0;
    return n;
}

/* ---- executors that are awaited ---- */

void hsp_ci_await(struct hsp_cluster *c, hsp_device_id d)
{
    for (uint32_t i = 0; i < c->n_down; i++) {
        if (c->down[i] == d) {
            return;
        }
    }
    if (!hsp_grow(&c->down, &c->cap_down, (size_t)c->n_down + 1, sizeof(*c->down), MAX_DEVICES)) {
        c->failed = true;
        return;
    }
    c->down[c->n_down++] = d;
}

hsp_msec hsp_ci_await_due(struct hsp_cluster *c)
{
    hsp_msec best = HSP_NEVER;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_down; i++) {
        const struct hsp_node_device *v = hsp_ci_device(c, c->down[i]);
        hsp_msec t = v->restart_ms + c->cfg.up_ms;
        if (v->present && !v->up && t > c->now_ms) {
            c->down[n++] = c->down[i];
            best = t < best && hsp_ci_node(c, c->down[i])->conn != 0 ? t : best;
        }
    }
    c->n_down = n;
    return best;
}
