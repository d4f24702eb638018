#include "daemon/cluster/doubt.h"

#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/standing.h"

void hsp_ci_doubt_all(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        struct hsp_job *j = c->jobs[i];
        if (!hsp_ci_at_rest(j) && j->state != HSP_JOB_BEHIND) {
            j->doubted = true;
            hsp_ci_store_job(c, j);
        }
    }
}

void hsp_ci_doubt_hello(struct hsp_cluster *c, struct hsp_job *j, uint32_t at,
                        const struct hsp_m_kept *k)
{
    if (j->doubted) {
        hsp_ci_mark(c, j, at)->keeps = k != NULL && hsp_ci_standing(c, k) == HSP_STANDS_KNOWN &&
                                       hsp_ci_proven_member(c, j, &c->nodes[at]);
        hsp_ci_look_job(c, j);
    }
}

/* The layout of the epoch that runs or ran last, else the last one that was begun; NULL: none. */
static const struct hsp_job_plan *newest(const struct hsp_job *j)
{
    const struct hsp_job_plan *p = j->cur.epoch != 0 ? hsp_ci_plan(j, j->cur.plan) : NULL;
    for (uint32_t i = j->n_plans; i-- > 0 && p == NULL;) {
        p = j->plans[i].started ? &j->plans[i] : NULL;
    }
    return p;
}

/* Why it is not certain that @j goes on; NULL: it is. */
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
        return "no agent keeps state of it";
    }
    for (uint32_t i = 0; i < p->info.n_ranks + p->info.n_keepers; i++) {
        hsp_device_id d = hsp_ci_holder(&p->info, i);
        const struct hsp_job_mark *k = hsp_ci_marked(j, HSP_DEVICE_NODE(d));
        if (hsp_ci_node(c, d)->conn != 0 && (k == NULL || !k->keeps)) {
            return hsp_ci_printf(c, "node %s keeps no state of it any more",
                                 hsp_ci_node(c, d)->name);
        }
    }
    return NULL;
}

bool hsp_ci_held_in_doubt(struct hsp_cluster *c, struct hsp_job *j)
{
    const char *why = j->doubted ? why_doubt(c, j) : NULL;
    if (j->doubted && why == NULL) {
        hsp_ci_doubt_end(c, j);
    }
    if (why == NULL) {
        return false;
    }
    const char *text =
        hsp_ci_printf(c,
                      "an older store was put back and %s: it may have ended since; hspmdctl "
                      "resume %s lets it go on, hspmdctl cancel %s ends it",
                      why, j->name, j->name);
    if (strcmp(text, j->reason) != 0) {
        hsp_ci_fact(c, "job.held", HSP_SEV_WARN, j, NULL, "%s", text);
        hsp_ci_job_blocked(c, j, "%s", text);
    }
    return true;
}

void hsp_ci_doubt_end(struct hsp_cluster *c, struct hsp_job *j)
{
    j->doubted = false;
    j->reason[0] = '\0';
    hsp_ci_look_job(c, j);
    hsp_ci_store_job(c, j);
}
