#include "daemon/app/api/admin_requests.h"

#include <string.h>

#include "daemon/app/api/admin_queries.h"
#include "daemon/app/api/adopt_requests.h"
#include "daemon/app/api/backup.h"
#include "daemon/app/api/ckpt_requests.h"
#include "daemon/app/api/pending_requests.h"
#include "daemon/app/docs/status_doc.h"
#include "daemon/app/feed/subscriptions.h"
#include "daemon/app/feed/trace_collect.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "daemon/app/state/sessions.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/parked.h"
#include "proto/base/buf.h"
#include "proto/base/str.h"

#define CONFIG_MAX (1u << 20)

static void refuse(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                   const struct hsp_err *why)
{
    hsp_app_reply(a, cl->conn, m->request, why->code, why->msg, NULL, 0, false);
}

/* The configuration in use: every key with its value and where it comes from. Keys of TLS are in
 * files that it names. */
static void answer_config(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m)
{
    struct hsp_buf b;
    hsp_buf_init(&b, CONFIG_MAX);
    hsp_daemon_config_print(a->cfg, &b);
    hsp_app_reply(a, cl->conn, m->request, b.failed ? HSP_ENOMEM : HSP_OK,
                  b.failed ? "out of memory" : "", (const char *)b.data, b.len, false);
    hsp_buf_fini(&b);
}

static void answer_status(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m)
{
    const char *name = m->u.query.name;
    const struct hsp_job *j;
    struct hsp_err err = {0};
    if (strcmp(m->u.query.what, "config") == 0) {
        answer_config(a, cl, m);
        return;
    }
    if (name[0] != '\0' && hsp_cluster_job_called(a->cluster, name, &j, &err) == HSP_ENOENT) {
        bool node = hsp_cluster_node_by_name(a->cluster, name) != NULL ||
                    hsp_cluster_parked_by_name(a->cluster, name) != NULL;
        if (node) {
            err.code = HSP_OK;
        } else if (!hsp_cluster_parked_keeps(a->cluster, name, &err)) {
            (void)hsp_err_set(&err, HSP_ENOENT, 0, "no job or node %s; hspmdctl status shows all",
                              name);
        }
    }
    if (err.code != HSP_OK) {
        refuse(a, cl, m, &err);
        return;
    }
    char *doc = hsp_app_status(a, name);
    hsp_app_reply(a, cl->conn, m->request, doc != NULL ? HSP_OK : HSP_ENOMEM,
                  doc != NULL ? "" : "out of memory", doc, doc != NULL ? strlen(doc) : 0, false);
    cJSON_free(doc);
}

/* Verbs on one job, by name or number. */
static void job_verb(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m,
                     enum hsp_admin_verb verb, const char *name)
{
    const struct hsp_job *j;
    struct hsp_admin_event ev = {.verb = verb};
    struct hsp_err err;
    enum hsp_status st = verb == HSP_ADMIN_FORGET
                             ? hsp_cluster_job_to_forget(a->cluster, name, &j, &err)
                             : hsp_cluster_job_called(a->cluster, name, &j, &err);
    if (st != HSP_OK) {
        refuse(a, cl, m, &err);
        return;
    }
    ev.job = j->id;
    if (verb == HSP_ADMIN_FORGET) {
        hsp_app_forget(a, cl, m, j->id);
        return;
    }
    const char *fault = hsp_app_job_fault(a, j->id);
    if (fault != NULL && verb == HSP_ADMIN_RESUME) {
        hsp_app_reply(a, cl->conn, m->request, HSP_ESTATE, fault, NULL, 0, false);
        return;
    }
    ev.diverged = hsp_app_job_diverges(hsp_app_job_find(a, j->id), j, &ev.diverged_from);
    if (verb == HSP_ADMIN_RESUME && m->u.query.what[0] != '\0') {
        if (!hsp_parse_u64(m->u.query.what, &ev.step)) {
            hsp_app_reply(a, cl->conn, m->request, HSP_EINVAL, "not the step of a checkpoint", NULL,
                          0, false);
            return;
        }
        hsp_app_resume_from(a, cl, m, j->id, ev.step);
        return;
    }
    if (verb == HSP_ADMIN_SCALE) {
        ev.min = m->u.scale.min != 0 ? m->u.scale.min : j->min;
        ev.max = m->u.scale.max != 0 ? m->u.scale.max : j->max;
    }
    hsp_app_admin(a, cl->conn, m->request, cl->name, &ev, NULL, NULL);
}

static void node_verb(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m,
                      enum hsp_admin_verb verb)
{
    struct hsp_admin_event ev = {
        .verb = verb, .node = m->u.drain.name, .reason = m->u.drain.reason};
    if (verb == HSP_ADMIN_DRAIN && ev.reason[0] == '\0') {
        hsp_app_reply(a, cl->conn, m->request, HSP_EINVAL, "a drain needs a reason", NULL, 0,
                      false);
        return;
    }
    hsp_app_admin(a, cl->conn, m->request, cl->name, &ev, NULL, NULL);
}

static void node_allow(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m)
{
    struct hsp_admin_event ev = {.verb = m->u.nodeallow.holder ? HSP_ADMIN_ALLOW : HSP_ADMIN_DENY,
                                 .node = m->u.nodeallow.name};
    hsp_app_admin(a, cl->conn, m->request, cl->name, &ev, NULL, NULL);
}

static void node_remove(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m)
{
    struct hsp_admin_event ev = {.verb = HSP_ADMIN_REMOVE, .node = m->u.nodename.name};
    hsp_app_admin(a, cl->conn, m->request, cl->name, &ev, NULL, NULL);
}

static void node_check(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *msg)
{
    const struct hsp_m_nodecheck *m = &msg->u.nodecheck;
    const char *name[HSP_CHECK_NODES];
    struct hsp_admin_event ev = {
        .verb = HSP_ADMIN_CHECK,
        .check = {.threshold = m->threshold, .busy = m->busy, .n_nodes = m->n_nodes, .node = name}};
    for (uint32_t i = 0; i < m->n_nodes; i++) {
        name[i] = m->nodes[i].name;
    }
    const struct hsp_pending *p = a->pending;
    while (p != NULL && !p->check) {
        p = p->next;
    }
    if (p != NULL) { /* the answer may wait for the disk, and is made from the core's result */
        hsp_app_reply(a, cl->conn, msg->request, HSP_ESTATE,
                      "another check is under way; try again when it has ended", NULL, 0, false);
        return;
    }
    if (!(m->threshold > 0 && m->threshold <= 1)) {
        hsp_app_reply(a, cl->conn, msg->request, HSP_EINVAL, "the threshold is above 0, at most 1",
                      NULL, 0, false);
        return;
    }
    hsp_app_admin(a, cl->conn, msg->request, cl->name, &ev, NULL, NULL);
}

static void ckpt(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m)
{
    if (strcmp(m->u.query.what, "save") == 0) {
        job_verb(a, cl, m, HSP_ADMIN_CHECKPOINT, m->u.query.name);
    } else if (strcmp(m->u.query.what, "list") == 0) {
        hsp_app_list_ckpts(a, cl, m);
    } else {
        hsp_app_reply(a, cl->conn, m->request, HSP_EUNSUPPORTED, "ckpt knows list and save", NULL,
                      0, false);
    }
}

void hsp_app_request(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m)
{
    hsp_log(a->log, HSP_LOG_DEBUG, "admin", "%s: %s", cl->name, hsp_msg_name(m->type));
    switch (m->type) {
    case HSP_MSG_SUBMIT:
    case HSP_MSG_PLAN:
    case HSP_MSG_PROGRAM:
    case HSP_MSG_GRAPH: hsp_app_query(a, cl, m, ""); break;
    case HSP_MSG_STATUS: answer_status(a, cl, m); break;
    case HSP_MSG_CANCEL: job_verb(a, cl, m, HSP_ADMIN_CANCEL, m->u.query.name); break;
    case HSP_MSG_FORGET: job_verb(a, cl, m, HSP_ADMIN_FORGET, m->u.query.name); break;
    case HSP_MSG_RESUME: job_verb(a, cl, m, HSP_ADMIN_RESUME, m->u.query.name); break;
    case HSP_MSG_SUSPEND: job_verb(a, cl, m, HSP_ADMIN_SUSPEND, m->u.query.name); break;
    case HSP_MSG_SCALE: job_verb(a, cl, m, HSP_ADMIN_SCALE, m->u.scale.name); break;
    case HSP_MSG_DRAIN: node_verb(a, cl, m, HSP_ADMIN_DRAIN); break;
    case HSP_MSG_UNDRAIN: node_verb(a, cl, m, HSP_ADMIN_UNDRAIN); break;
    case HSP_MSG_NODE_ALLOW: node_allow(a, cl, m); break;
    case HSP_MSG_NODE_REMOVE: node_remove(a, cl, m); break;
    case HSP_MSG_ADOPT: hsp_app_adopt(a, cl, m); break;
    case HSP_MSG_NODE_CHECK: node_check(a, cl, m); break;
    case HSP_MSG_CKPT: ckpt(a, cl, m); break;
    case HSP_MSG_LOGS:
    case HSP_MSG_EVENTS:
    case HSP_MSG_METRICS: hsp_app_follow(a, cl, m); break;
    case HSP_MSG_WAIT: hsp_app_wait(a, cl, m); break;
    case HSP_MSG_BACKUP: hsp_app_backup(a, cl, m); break;
    case HSP_MSG_TRACE_JOB: hsp_app_trace(a, cl, m); break;
    default:
        hsp_app_reply(a, cl->conn, m->request, HSP_EUNSUPPORTED, "no such request", NULL, 0, false);
        break;
    }
}
