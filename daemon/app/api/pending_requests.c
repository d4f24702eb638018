#include "daemon/app/api/pending_requests.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/api/adoption.h"
#include "daemon/app/docs/check_doc.h"
#include "daemon/app/feed/event_log.h"
#include "daemon/app/plans/job_record.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/event_queue.h"
#include "daemon/app/state/sessions.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/str.h"

#define MAX_PENDING 4096 /* requests under way; more are refused */

const struct hsp_pending *hsp_app_pending_find(const struct hsp_app *a, uint64_t number)
{
    const struct hsp_pending *p = a->pending;
    while (p != NULL && p->number != number) {
        p = p->next;
    }
    return p;
}

struct hsp_pending *hsp_app_pending_take(struct hsp_app *a, uint64_t number)
{
    struct hsp_pending **at = &a->pending;
    while (*at != NULL && (*at)->number != number) {
        at = &(*at)->next;
    }
    struct hsp_pending *p = *at;
    if (p != NULL) {
        *at = p->next;
    }
    return p;
}

void hsp_app_pending_free(struct hsp_pending *p)
{
    if (p != NULL) {
        (void)hsp_job_rec_unref(p->rec);
        (void)hsp_adoption_free(p->adopt);
        cJSON_free(p->plan_json);
        free(p);
    }
}

/* {"job","id","reason","plan"}: the answer of submit. The reason names the job's wait. */
static char *submitted(const struct hsp_app *a, const struct hsp_pending *p, uint32_t job)
{
    const struct hsp_job *core = hsp_cluster_job(a->cluster, job);
    cJSON *o = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(o, "apiVersion", "hspmd/v1");
    (void)cJSON_AddStringToObject(o, "job", p->rec->spec->name);
    (void)cJSON_AddNumberToObject(o, "id", job);
    const char *why = core == NULL || core->state != HSP_JOB_PENDING ? ""
                      : core->reason[0] != '\0'                      ? core->reason
                                                                     : p->no_plan;
    if (why[0] != '\0') {
        (void)cJSON_AddStringToObject(o, "reason", why);
    }
    if (p->plan_json != NULL) {
        (void)cJSON_AddRawToObject(o, "plan", p->plan_json);
    }
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    return text;
}

/* The findings of a check; and a line of events. */
static char *checked(struct hsp_app *a)
{
    struct hsp_check_sum s;
    char *doc = hsp_check_doc(a->cluster, &s), reason[400];
    (void)snprintf(reason, sizeof reason,
                   "%" PRIu32 " node%s and %" PRIu32 " pair%s measured, %" PRIu32
                   " skipped, %" PRIu32 " worse than %g of the recorded rate%s%s",
                   s.nodes, hsp_s(s.nodes), s.pairs, hsp_s(s.pairs), s.skipped, s.worse,
                   a->cluster->check.terms.threshold, s.worse > 0 ? ", the first: " : "", s.first);
    struct hsp_fact f = {.type = "check.end",
                         .severity = s.worse > 0 ? HSP_SEV_WARN : HSP_SEV_NOTICE,
                         .node = "",
                         .reason = reason,
                         .cause = "",
                         .actor = a->cluster->check.actor};
    hsp_app_fact(a, &f);
    return doc;
}

void hsp_app_pending_reply(struct hsp_app *a, uint64_t number, enum hsp_status st, uint32_t job,
                           const char *text)
{
    struct hsp_pending *p = hsp_app_pending_take(a, number);
    if (p == NULL) {
        return;
    }
    char *blob = st != HSP_OK || (p->rec == NULL && !p->check) ? NULL
                 : p->check                                    ? checked(a)
                                                               : submitted(a, p, job);
    const char *answer = blob == NULL && st == HSP_OK ? text : blob; /* a remark of the core */
    hsp_app_reply(a, p->conn, p->request, st, text, answer, answer != NULL ? strlen(answer) : 0,
                  false);
    cJSON_free(blob);
    hsp_app_pending_free(p);
}

void hsp_app_pending_end(struct hsp_app *a, enum hsp_status st, const char *text)
{
    while (a->pending != NULL) {
        struct hsp_pending *p = hsp_app_pending_take(a, a->pending->number);
        hsp_app_reply(a, p->conn, p->request, st, text, NULL, 0, false);
        hsp_app_pending_free(p);
    }
}

void hsp_app_admin(struct hsp_app *a, uint32_t conn, uint64_t request, const char *actor,
                   struct hsp_admin_event *ev, struct hsp_job_rec *rec, char *plan_json)
{
    uint32_t n = 0;
    for (const struct hsp_pending *q = a->pending; q != NULL; q = q->next) {
        n++;
    }
    struct hsp_pending *p = n < MAX_PENDING && !a->store_stalled ? calloc(1, sizeof *p) : NULL;
    if (p == NULL) {
        hsp_app_reply(a, conn, request, a->store_stalled ? HSP_ENOSPC : HSP_ELIMIT,
                      a->store_stalled ? a->stalled_why : "too many requests at a time; try again",
                      NULL, 0, false);
        (void)hsp_job_rec_unref(rec);
        cJSON_free(plan_json);
        return;
    }
    *p = (struct hsp_pending){.next = a->pending,
                              .number = ++a->next_request,
                              .conn = conn,
                              .request = request,
                              .rec = rec,
                              .plan_json = plan_json,
                              .check = ev->verb == HSP_ADMIN_CHECK};
    a->pending = p;
    ev->request = p->number;
    ev->actor = actor;
    struct hsp_event e = {.type = HSP_EV_ADMIN, .u.admin = *ev};
    hsp_app_post(a, &e, NULL);
}

void hsp_app_admin_adopt(struct hsp_app *a, uint32_t conn, uint64_t request, const char *actor,
                         struct hsp_admin_event *ev, struct hsp_adoption *adopt)
{
    hsp_app_admin(a, conn, request, actor, ev, NULL, NULL);
    if (ev->request != 0) {
        a->pending->adopt = adopt; /* the newest is the first */
    } else {
        (void)hsp_adoption_free(adopt);
    }
}

void hsp_app_checks_gone(struct hsp_app *a, uint32_t conn)
{
    struct hsp_pending *p = a->pending;
    while (p != NULL && (p->conn != conn || !p->check)) {
        p = p->next;
    }
    if (p != NULL) {
        struct hsp_event e = {.type = HSP_EV_ADMIN,
                              .u.admin = {.verb = HSP_ADMIN_CHECK_STOP, .request = p->number}};
        hsp_app_post(a, &e, NULL);
    }
}
