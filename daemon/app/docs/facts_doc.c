#include "daemon/app/docs/facts_doc.h"

#include <stdio.h>
#include <string.h>

#include "daemon/app/docs/doc_put.h"
#include "daemon/app/store/event_line.h"
#include "daemon/cluster/health.h"
#include "proto/wire/msg.h"

#define NO_DEVICE UINT32_MAX

struct list {
    cJSON *items;
    const struct hsp_cluster *c;
    const struct hsp_job *job; /* this job alone; NULL: see node */
    const char *node;          /* this node alone; "" all */
    hsp_msec now_ms;
    int64_t unix_ms; /* the same by the wall clock */
};

struct fact {
    const char *kind;
    const struct hsp_job *job; /* NULL: of all */
    uint32_t node, device;     /* device NO_DEVICE: all of the node */
    uint32_t peer;             /* another node; HSP_NO_NODE none */
    const char *why;
    hsp_msec since_ms, until_ms; /* until HSP_NEVER: see ends */
    const char *ends;
};

static void put_time(const struct list *l, cJSON *x, const char *key, const char *seconds,
                     hsp_msec at, double sign)
{
    char text[HSP_TIME_TEXT];
    int64_t later = at > l->now_ms ? (int64_t)(at - l->now_ms) : -(int64_t)(l->now_ms - at);
    hsp_time_format(l->unix_ms + later, text);
    put_text(x, key, text);
    put(x, seconds, sign * 1e-3 * (double)later);
}

static void add(const struct list *l, const struct fact *f)
{
    const char *node = l->c->nodes[f->node].name;
    const char *peer = f->peer != HSP_NO_NODE ? l->c->nodes[f->peer].name : "";
    bool over =
        f->until_ms <= l->now_ms; /* of a job that has ended, the core does not look at it */
    bool asked = l->job != NULL ? f->job == l->job
                                : l->node[0] == '\0' || strcmp(l->node, node) == 0 ||
                                      strcmp(l->node, peer) == 0;
    cJSON *x = asked && !over ? cJSON_CreateObject() : NULL;
    if (x == NULL) {
        return;
    }
    put_text(x, "kind", f->kind);
    if (f->job != NULL) {
        put_text(x, "job", f->job->name);
    }
    put_text(x, "node", node);
    if (f->device != NO_DEVICE) {
        put(x, "device", f->device);
    }
    if (peer[0] != '\0') {
        put_text(x, "peer", peer);
    }
    put_text(x, "reason", f->why);
    put_time(l, x, "since", "seconds", f->since_ms, -1);
    if (f->until_ms != HSP_NEVER) {
        put_time(l, x, "until", "left_seconds", f->until_ms, 1);
    } else {
        put_text(x, "ends", f->ends);
    }
    (void)cJSON_AddItemToArray(l->items, x);
}

/* Nothing of a job that has ended is tried again: a resume forgets its facts. */
static void add_of_job(const struct list *l, const struct hsp_job *j)
{
    if (j->state == HSP_JOB_DONE || j->state == HSP_JOB_CANCELLED) {
        return;
    }
    for (uint32_t i = 0; i < j->n_facts; i++) {
        const struct hsp_learnt *k = &j->facts[i];
        uint32_t peer = HSP_DEVICE_NODE(k->fact.peer), node = HSP_DEVICE_NODE(k->fact.device);
        const struct fact f = {.kind = hsp_fact_name(k->fact.kind),
                               .job = j,
                               .node = node,
                               .device = HSP_DEVICE_INDEX(k->fact.device),
                               .peer = peer != node ? peer : HSP_NO_NODE,
                               .why = k->why,
                               .since_ms = k->since_ms,
                               .until_ms = k->until_ms};
        add(l, &f);
    }
    for (uint32_t i = 0; i < j->n_marks; i++) {
        const struct hsp_job_mark *m = &j->marks[i];
        const struct fact f = {.kind = "keeper-refused",
                               .job = j,
                               .node = m->node,
                               .device = NO_DEVICE,
                               .peer = HSP_NO_NODE,
                               .why = m->keep_refused,
                               .since_ms = m->keep_since_ms,
                               .until_ms = j->keep_retry_ms};
        if (m->keep_refused != NULL) {
            add(l, &f);
        }
    }
}

static void add_of_node(const struct list *l, uint32_t node)
{
    const struct hsp_cluster_node *n = &l->c->nodes[node];
    const struct fact folder = {.kind = "state-folder",
                                .node = node,
                                .device = NO_DEVICE,
                                .peer = HSP_NO_NODE,
                                .why = n->fault.why,
                                .since_ms = n->fault.since_ms,
                                .until_ms = n->fault.until_ms};
    if (n->fault.until_ms != 0) {
        add(l, &folder);
    }
    for (uint32_t d = 0; n->conn != 0 && d < HSP_NODE_DEVICES; d++) {
        const struct hsp_node_device *v = &n->dev[d];
        if (!v->present || v->note == NULL || v->health < HSP_HEALTH_CORDON) {
            continue;
        }
        const struct fact f = {.kind = v->health == HSP_HEALTH_LOST ? "lost" : "cordoned",
                               .node = node,
                               .device = d,
                               .peer = HSP_NO_NODE,
                               .why = hsp_device_why(v),
                               .since_ms = v->note->since_ms,
                               .until_ms = HSP_NEVER,
                               .ends = "when its agent finds it well, or is started again"};
        add(l, &f);
    }
}

void hsp_facts_put(cJSON *o, const struct hsp_cluster *c, const struct hsp_job *job,
                   const char *node, hsp_msec now_ms, int64_t unix_ms)
{
    const struct list l = {cJSON_AddArrayToObject(o, "facts"), c, job, node, now_ms, unix_ms};
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        add_of_node(&l, i);
    }
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        const struct hsp_broken_pair *p = &c->pairs[i];
        const struct fact f = {.kind = "broken-link",
                               .node = p->a,
                               .device = NO_DEVICE,
                               .peer = p->b,
                               .why = p->why,
                               .since_ms = p->since_ms,
                               .until_ms = p->next_ms > l.now_ms ? p->next_ms : l.now_ms + 1};
        if (p->broken) {
            add(&l, &f);
        }
    }
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        add_of_job(&l, c->jobs[i]);
    }
}
