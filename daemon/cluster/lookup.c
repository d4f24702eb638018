#include "daemon/cluster/lookup.h"

#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/place.h"
#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/op/op.h"
#include "proto/wire/identity.h"

static const char *const health_words[] = {"fine", "warned", "cordoned", "lost"};

static const char *const job_state_words[] = {
    [HSP_JOB_PENDING] = "pending",     [HSP_JOB_STARTING] = "starting",
    [HSP_JOB_RUNNING] = "running",     [HSP_JOB_SWITCHING] = "switching",
    [HSP_JOB_SEALING] = "sealing",     [HSP_JOB_RECOVERING] = "recovering",
    [HSP_JOB_PAUSED] = "paused",       [HSP_JOB_FINISHING] = "finishing",
    [HSP_JOB_DONE] = "done",           [HSP_JOB_FAILED] = "failed",
    [HSP_JOB_CANCELLED] = "cancelled", [HSP_JOB_SUSPENDED] = "suspended",
    [HSP_JOB_BEHIND] = "behind",
};
_Static_assert(HSP_ARRAY_LEN(job_state_words) == HSP_JOB_BEHIND + 1, "a word per state");

/* ---- nodes and devices ---- */

struct hsp_cluster_node *hsp_ci_node(const struct hsp_cluster *c, hsp_device_id d)
{
    return &c->nodes[HSP_DEVICE_NODE(d)];
}

struct hsp_node_device *hsp_ci_device(const struct hsp_cluster *c, hsp_device_id d)
{
    return &c->nodes[HSP_DEVICE_NODE(d)].dev[HSP_DEVICE_INDEX(d)];
}

const char *hsp_ci_device_name(struct hsp_cluster *c, hsp_device_id d)
{
    return hsp_ci_printf(c, "%s/%u", hsp_ci_node(c, d)->name, HSP_DEVICE_INDEX(d));
}

const char *hsp_node_state_name(enum hsp_node_state s)
{
    static const char *const names[] = {"away", "live", "suspect", "dead", "left"};
    return names[s];
}

const char *hsp_health_name(enum hsp_health h)
{
    return health_words[h];
}

bool hsp_ci_node_gone(const struct hsp_cluster_node *n)
{
    return n->state == HSP_NODE_DEAD || n->state == HSP_NODE_LEFT;
}

bool hsp_ci_device_unhealthy(const struct hsp_node_device *d)
{
    return d->health >= HSP_HEALTH_CORDON;
}

bool hsp_ci_ends_other(const struct hsp_node_device *d, uint32_t job)
{
    return d->ending != 0 && (d->stops || d->ending != job);
}

bool hsp_cluster_offers(const struct hsp_cluster_node *n, uint32_t device)
{
    const struct hsp_node_device *d = &n->dev[device];
    return n->conn != 0 && !n->draining && !n->leaving && n->fault.until_ms == 0 && d->present &&
           !hsp_ci_device_unhealthy(d);
}

const char *hsp_ci_to_leave(const struct hsp_cluster *c, hsp_device_id d)
{
    const struct hsp_cluster_node *n = hsp_ci_node(c, d);
    return n->draining                                         ? "drain of"
           : n->leaving                                        ? "planned leave of"
           : n->fault.until_ms != 0                            ? "fault of"
           : hsp_ci_device_unhealthy(hsp_ci_device(c, d))      ? "cordon of"
           : hsp_ci_device(c, d)->replica_holder && !n->holder ? "deny of"
                                                               : NULL;
}

bool hsp_ci_contains(const hsp_device_id *list, uint32_t n, hsp_device_id d)
{
    for (uint32_t i = 0; i < n; i++) {
        if (list[i] == d) {
            return true;
        }
    }
    return false;
}

/* ---- jobs ---- */

static int by_id(const void *key, const void *item)
{
    const uint32_t *id = key;
    const struct hsp_job *const *j = item;
    return (*id > (*j)->id) - (*id < (*j)->id);
}

struct hsp_job *hsp_ci_job(const struct hsp_cluster *c, uint32_t id)
{
    size_t at = hsp_place(&id, c->jobs, c->n_jobs, sizeof(c->jobs[0]), by_id);
    return at < c->n_jobs && c->jobs[at]->id == id ? c->jobs[at] : NULL;
}

const struct hsp_job *hsp_cluster_job(const struct hsp_cluster *c, uint32_t id)
{
    return hsp_ci_job(c, id);
}

const struct hsp_job *hsp_cluster_job_by_name(const struct hsp_cluster *c, const char *name)
{
    const struct hsp_job *best = NULL;
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        const struct hsp_job *j = c->jobs[i];
        bool better = best == NULL || hsp_ci_not_adopted(best) ||
                      (hsp_job_terminal(best->state) && !hsp_ci_not_adopted(j));
        best = better && strcmp(j->name, name) == 0 ? j : best;
    }
    return best;
}

/* The jobs called @name that have ended as @found has, or not, and are foreign as it is.
 * HSP_ESTATE: there are others but it. */
static enum hsp_status the_only_one(const struct hsp_cluster *c, const char *name,
                                    const struct hsp_job *found, struct hsp_err *err)
{
    uint32_t n = 0, untold = 0;
    char all[120] = "", one[40], more[24] = "";
    bool foreign = hsp_ci_not_adopted(found), ended = hsp_job_terminal(found->state);
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        const struct hsp_job *j = c->jobs[i];
        if (strcmp(j->name, name) == 0 && hsp_job_terminal(j->state) == ended &&
            hsp_ci_not_adopted(j) == foreign) {
            size_t used = strlen(all);
            hsp_str_printf(one, sizeof(one), "%s%u (%s)", n++ > 0 ? ", " : "", j->id,
                           foreign ? "foreign" : hsp_job_state_name(j->state));
            if (untold > 0 || used + strlen(one) >= sizeof(all)) {
                untold++;
                continue;
            }
            hsp_str_printf(all + used, sizeof(all) - used, "%s", one);
        }
    }
    if (untold > 0) {
        hsp_str_printf(more, sizeof(more), " and %u more", untold);
    }
    return n <= 1
               ? HSP_OK
               : hsp_err_set(err, HSP_ESTATE, 0,
                             "several jobs are called %s: %s%s; give the number", name, all, more);
}

static bool is_called(const struct hsp_parked_job *j, const char *what)
{
    uint64_t id;
    return hsp_parse_u64(what, &id) ? id == j->job : strcmp(j->name, what) == 0;
}

bool hsp_cluster_parked_keeps(const struct hsp_cluster *c, const char *what, struct hsp_err *err)
{
    const struct hsp_parked *first = NULL;
    char more[24] = "";
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_parked; i++) {
        const struct hsp_parked *p = &c->parked[i];
        bool keeps = false;
        for (uint32_t k = 0; k < p->n_jobs && !keeps; k++) {
            keeps = is_called(&p->jobs[k], what);
        }
        n += keeps;
        first = keeps && first == NULL ? p : first;
    }
    if (n > 1) {
        hsp_str_printf(more, sizeof(more), " and %u more", n - 1);
    }
    if (n > 0) {
        (void)hsp_err_set(
            err, HSP_ENOENT, 0,
            "job %s is not known here: agents that are not members store its state, %s%s: if "
            "state_dir is right, hspmdctl job adopt %s takes it over, node discard deletes it",
            what, first->name, more, what);
    }
    return n > 0;
}

static enum hsp_status called(const struct hsp_cluster *c, const char *what, bool ended_too,
                              const struct hsp_job **ret, struct hsp_err *err)
{
    uint64_t id;
    bool number = hsp_parse_u64(what, &id);
    const struct hsp_job *found = !number            ? hsp_cluster_job_by_name(c, what)
                                  : id <= UINT32_MAX ? hsp_ci_job(c, (uint32_t)id)
                                                     : NULL;
    if (found == NULL) {
        return hsp_cluster_parked_keeps(c, what, err)
                   ? HSP_ENOENT
                   : hsp_err_set(err, HSP_ENOENT, 0, "no job %s; hspmdctl status shows all", what);
    }
    if (!number && (ended_too || !hsp_job_terminal(found->state)) &&
        the_only_one(c, what, found, err) != HSP_OK) {
        return HSP_ESTATE;
    }
    *ret = found;
    return HSP_OK;
}

enum hsp_status hsp_cluster_job_called(const struct hsp_cluster *c, const char *what,
                                       const struct hsp_job **ret, struct hsp_err *err)
{
    return called(c, what, false, ret, err);
}

enum hsp_status hsp_cluster_job_to_forget(const struct hsp_cluster *c, const char *what,
                                          const struct hsp_job **ret, struct hsp_err *err)
{
    return called(c, what, true, ret, err);
}

const char *hsp_job_state_name(enum hsp_job_state s)
{
    return job_state_words[s];
}

bool hsp_job_terminal(enum hsp_job_state s)
{
    return s == HSP_JOB_DONE || s == HSP_JOB_FAILED || s == HSP_JOB_CANCELLED;
}

bool hsp_ci_at_rest(const struct hsp_job *j)
{
    return hsp_job_terminal(j->state) || j->state == HSP_JOB_SUSPENDED;
}

bool hsp_ci_in_doubt(const struct hsp_job *j)
{
    return !hsp_ci_at_rest(j) && j->state != HSP_JOB_BEHIND && (j->doubted || j->ahead[0] != '\0');
}

const struct hsp_job *hsp_cluster_stays(const struct hsp_cluster *c,
                                        const struct hsp_cluster_node *n)
{
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        const struct hsp_job *j = hsp_ci_job(c, n->dev[d].job);
        if (j != NULL && (j->state == HSP_JOB_BEHIND || hsp_ci_in_doubt(j))) {
            return j;
        }
    }
    return NULL;
}

/* A layout of @j that may be needed names @node: of one that has failed, and is kept,
 * or is being mended. */
static bool is_kept_on(const struct hsp_job *j, uint32_t node)
{
    bool is = false;
    for (uint32_t i = 0; i < j->n_plans; i++) {
        const struct hsp_plan_info *p = &j->plans[i].info;
        for (uint32_t k = 0; k < p->n_ranks + p->n_replica_holders; k++) {
            hsp_device_id d = k < p->n_ranks ? p->device[k] : p->replica_holder[k - p->n_ranks];
            is = is || HSP_DEVICE_NODE(d) == node;
        }
    }
    return is;
}

const struct hsp_job *hsp_cluster_left_on(const struct hsp_cluster *c,
                                          const struct hsp_cluster_node *n)
{
    const struct hsp_job *j = hsp_cluster_stays(c, n);
    for (uint32_t d = 0; j == NULL && d < HSP_NODE_DEVICES; d++) {
        j = hsp_ci_job(c, n->dev[d].job);
    }
    for (uint32_t i = 0; j == NULL && i < c->n_jobs; i++) {
        j = is_kept_on(c->jobs[i], (uint32_t)(n - c->nodes)) ? c->jobs[i] : NULL;
    }
    return j;
}

static bool is_away(const struct hsp_cluster_node *n)
{
    return hsp_ci_node_gone(n) || n->state == HSP_NODE_AWAY;
}

void hsp_cluster_drain_text(const struct hsp_cluster *c, const struct hsp_cluster_node *n,
                            char *ret, size_t size)
{
    const struct hsp_job *j = n->draining && !is_away(n) ? hsp_cluster_left_on(c, n) : NULL;
    ret[0] = '\0';
    if (j == NULL) {
        return;
    }
    const char *state = hsp_job_state_name(j->state);
    if (j->state == HSP_JOB_BEHIND || hsp_ci_in_doubt(j)) {
        hsp_str_printf(ret, size, "waits: job %s is %s and stays here", j->name,
                       j->state == HSP_JOB_BEHIND ? state : "held");
    } else if (hsp_ci_keeps_state(j)) {
        hsp_str_printf(ret, size,
                       "waits: job %s has failed and its state is stored here: resume or cancel it",
                       j->name);
    } else if (hsp_ci_at_rest(j)) {
        hsp_str_printf(ret, size, "waits: job %s is %s and has not stopped here yet", j->name,
                       state);
    } else {
        hsp_str_printf(ret, size, "waits: job %s is still here, %s%s%s", j->name, state,
                       j->reason[0] != '\0' ? ": " : "", j->reason);
    }
}

const char *hsp_cluster_node_word(const struct hsp_cluster *c, const struct hsp_cluster_node *n)
{
    return n->draining && !is_away(n) ? hsp_cluster_left_on(c, n) != NULL ? "draining" : "drained"
           : n->leaving               ? "leaving"
                                      : hsp_node_state_name(n->state);
}

bool hsp_ci_keeps_state(const struct hsp_job *j)
{
    return j->state == HSP_JOB_FAILED && j->n_plans > 0;
}

bool hsp_ci_not_adopted(const struct hsp_job *j)
{
    return j->unrecorded && !hsp_cluster_none(j->from);
}

bool hsp_ci_job_runs(const struct hsp_job *j)
{
    return j->state == HSP_JOB_RUNNING || j->state == HSP_JOB_SWITCHING ||
           j->state == HSP_JOB_FINISHING;
}

bool hsp_ci_attempt_gone(const struct hsp_job *j)
{
    return j->att.epoch != 0 && j->att.phase == HSP_ATT_GO;
}

struct hsp_job_plan *hsp_ci_plan(const struct hsp_job *j, uint64_t plan)
{
    for (uint32_t i = 0; i < j->n_plans; i++) {
        if (j->plans[i].plan == plan) {
            return &j->plans[i];
        }
    }
    return NULL;
}
