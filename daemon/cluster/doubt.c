#include "daemon/cluster/doubt.h"

#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/standing.h"
#include "proto/base/str.h"

void hsp_ci_doubt_all(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        struct hsp_job *j = c->jobs[i];
        j->ran_unknown = true; /* the job may have gone on elsewhere */
        j->anew = false;
        j->doubted = j->doubted || (!hsp_ci_at_rest(j) && j->state != HSP_JOB_BEHIND);
        hsp_ci_store_job(c, j);
    }
}

void hsp_ci_doubt_parked(struct hsp_cluster *c, uint32_t conn)
{
    const struct hsp_parked *p = hsp_ci_parked_of(c, conn);
    for (uint32_t i = 0; i < c->n_jobs && p != NULL; i++) {
        struct hsp_job *j = c->jobs[i];
        bool open = !hsp_ci_at_rest(j) && j->state != HSP_JOB_BEHIND;
        if (!open || !hsp_ci_is_ahead(c, p, j)) {
            continue;
        }
        if (j->ahead[0] == '\0') {
            hsp_str_printf(j->ahead, sizeof(j->ahead), "%s", p->name);
            j->ahead_in = 0;
            hsp_ci_store_job(c, j);
        }
        uint64_t in = hsp_ci_ahead_given_in(c, j) + 1;
        j->ahead_in = in > j->ahead_in ? in : j->ahead_in;
        hsp_ci_job_dirty(c, j);
    }
}

static void not_ahead(struct hsp_cluster *c, struct hsp_job *j, const char *name)
{
    if (j->ahead[0] != '\0' && strcmp(j->ahead, name) == 0) {
        j->ahead[0] = '\0';
        hsp_ci_job_dirty(c, j);
        hsp_ci_store_job(c, j);
    }
}

void hsp_ci_doubt_disbelieve(struct hsp_cluster *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        not_ahead(c, c->jobs[i], name);
    }
}

void hsp_ci_doubt_hello(struct hsp_cluster *c, struct hsp_job *j, uint32_t at,
                        const struct hsp_m_kept *k)
{
    not_ahead(c, j, c->nodes[at].name); /* the node does not keep more any longer */
    if (j->doubted) {
        hsp_ci_mark(c, j, at)->keeps = k != NULL && hsp_ci_standing(c, k) == HSP_STANDS_KNOWN &&
                                       hsp_ci_proven_member(c, j, &c->nodes[at]);
        hsp_ci_job_dirty(c, j);
    }
}

/* Returns the layout of the epoch that runs or ran last, else of the last attempt; NULL if there is
 * none. */
static const struct hsp_job_plan *newest(const struct hsp_job *j)
{
    const struct hsp_job_plan *p = j->cur.epoch != 0 ? hsp_ci_plan(j, j->cur.plan) : NULL;
    for (uint32_t i = j->n_plans; i-- > 0 && p == NULL;) {
        p = j->plans[i].started ? &j->plans[i] : NULL;
    }
    return p;
}

/* Returns the reason why it is not certain that @j has not ended elsewhere; NULL if it is certain.
 */
static const char *why_doubt(struct hsp_cluster *c, const struct hsp_job *j)
{
    const struct hsp_job_plan *p = newest(j);
    bool any = false;
    for (uint32_t i = 0; i < j->n_marks; i++) {
        any = any || j->marks[i].keeps;
    }
    if (p == NULL) {
        return "it had not begun by then";
    }
    if (!any) {
        return "no connected agent proves that it stores state of it";
    }
    for (uint32_t i = 0; i < p->info.n_ranks + p->info.n_replica_holders; i++) {
        hsp_device_id d = hsp_ci_holder(&p->info, i);
        const struct hsp_job_mark *k = hsp_ci_marked(j, HSP_DEVICE_NODE(d));
        if (hsp_ci_node(c, d)->conn != 0 && (k == NULL || !k->keeps)) {
            return hsp_ci_printf(
                c, "node %s is connected and does not prove that it stores state of it",
                hsp_ci_node(c, d)->name);
        }
    }
    return NULL;
}

/* Why @j is held, for people; NULL: it is not. */
static const char *why_held(struct hsp_cluster *c, const struct hsp_job *j)
{
    if (j->ahead[0] != '\0') {
        return hsp_ci_printf(
            c,
            "node %s stores a newer epoch of it and is no member of it by this store, which is "
            "older: put the newer store back%s; hspmdctl cancel %s gives up its state",
            j->ahead, hsp_ci_newer_store(c, j->ahead_in - 1), j->name);
    }
    const char *why = j->doubted ? why_doubt(c, j) : NULL;
    return why == NULL
               ? NULL
               : hsp_ci_printf(c,
                               "an older store was put back and %s: it may have ended since; "
                               "hspmdctl resume %s continues it, hspmdctl cancel %s ends it",
                               why, j->name, j->name);
}

static void believe(struct hsp_cluster *c, struct hsp_job *j)
{
    j->doubted = false;
    j->ahead[0] = j->reason[0] = '\0';
    hsp_ci_job_dirty(c, j);
    hsp_ci_store_job(c, j);
}

bool hsp_ci_held_in_doubt(struct hsp_cluster *c, struct hsp_job *j)
{
    const char *why = why_held(c, j);
    char shown[sizeof(j->reason)]; /* a long one is cut */
    hsp_str_printf(shown, sizeof(shown), "%s", why != NULL ? why : "");
    if (why == NULL && j->doubted) {
        believe(c, j);
    } else if (why != NULL && strcmp(shown, j->reason) != 0) {
        hsp_ci_fact(c, "job.held", HSP_SEV_WARN, j, NULL, "%s", why);
        memcpy(j->reason, shown, sizeof(shown)); /* so it is told once */
        hsp_ci_job_blocked(c, j, "%s", why);
    }
    return why != NULL;
}

bool hsp_ci_doubt_end(struct hsp_cluster *c, struct hsp_job *j)
{
    if (hsp_ci_ahead_of(c, j) != NULL) {
        return false;
    }
    believe(c, j);
    return true;
}
