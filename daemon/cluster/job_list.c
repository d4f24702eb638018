#include "daemon/cluster/job_list.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/standing.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/rows.h"

void hsp_ci_job_free(struct hsp_job *j)
{
    if (j == NULL) {
        return;
    }
    hsp_ci_epoch_fini(&j->cur);
    hsp_ci_epoch_fini(&j->att);
    hsp_ci_epoch_fini(&j->over);
    for (uint32_t i = 0; i < j->n_plans; i++) {
        hsp_ci_plan_fini(&j->plans[i]);
    }
    hsp_ci_info_fini(&j->result);
    free(j->plans);
    free(j->held);
    free(j->disk);
    free(j->asked);
    free(j->watch);
    free(j->progress.stand);
    free(j->leases);
    hsp_ci_marks_free(j);
    hsp_ci_unlearn_all(j);
    free(j->data_path);
    free(j->checkpoint_path);
    free(j);
}

void hsp_ci_job_forget(struct hsp_cluster *c, struct hsp_job *j)
{
    uint32_t at = 0;
    while (c->jobs[at] != j) {
        at++;
    }
    if (!j->unrecorded) {
        hsp_ci_emit(c, HSP_ACT_ERASE)->key = hsp_ci_printf(c, "job/%u", j->id);
        hsp_ci_job_over(c, j->id);
        if (!hsp_cluster_none(j->from)) {
            hsp_ci_adopted_over(c, j->from, j->id);
        }
    }
    hsp_ci_job_free(j);
    memmove(&c->jobs[at], &c->jobs[at + 1], (c->n_jobs - at - 1) * sizeof(c->jobs[0]));
    c->n_jobs--;
}

static int ascending(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* The numbers from the next one on that parked agents name for jobs of this cluster, ascending. */
static uint32_t named_by_parked(struct hsp_cluster *c, uint32_t **ret)
{
    uint32_t n = 0, all = 0;
    for (uint32_t i = 0; i < c->n_parked; i++) {
        all += c->parked[i].n_jobs;
    }
    uint32_t *list = hsp_ci_alloc(c, all, sizeof(*list));
    for (uint32_t i = 0; list != NULL && i < c->n_parked; i++) {
        for (uint32_t k = 0; k < c->parked[i].n_jobs; k++) {
            const struct hsp_parked_job *p = &c->parked[i].jobs[k];
            if (hsp_digest_equal(p->cluster, c->id) && p->job >= c->next_job) {
                list[n++] = p->job;
            }
        }
    }
    if (n > 1) {
        qsort(list, n, sizeof(*list), ascending);
    }
    *ret = list;
    return n;
}

/* @id, or the first number behind the ranges of ended jobs that it is in. */
static uint32_t past_ended(const struct hsp_cluster *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->n_ended; i++) {
        if (id >= c->ended[i].from && id < c->ended[i].to) {
            id = (uint32_t)c->ended[i].to;
        }
    }
    return id;
}

/* The first free number from the next one on. */
static uint32_t free_number(struct hsp_cluster *c)
{
    uint32_t *named, n = named_by_parked(c, &named), at = 0, id = c->next_job, before;
    do {
        before = id;
        id = past_ended(c, id);
        while (hsp_ci_job(c, id) != NULL) {
            id++;
        }
        for (; at < n && named[at] <= id; at++) {
            id += named[at] == id;
        }
    } while (id != before);
    return id;
}

/* A store of an older hspmdd may have followed papers to the end of the numbers: no coordinator has
 * given those that it has passed over. */
uint32_t hsp_ci_job_number(struct hsp_cluster *c)
{
    uint32_t id = c->next_job < HSP_MAX_FOREIGN ? free_number(c) : HSP_MAX_FOREIGN;
    if (id >= HSP_MAX_FOREIGN) {
        c->next_job = HSP_JOBS_FOLLOWED;
        id = free_number(c);
    }
    c->next_job = id + 1;
    return id;
}

void hsp_ci_job_number_seen(struct hsp_cluster *c, uint32_t id, uint32_t more)
{
    if (id >= c->next_job && id < HSP_JOBS_FOLLOWED) {
        c->next_job = id + more;
        hsp_ci_store_term(c);
    }
}

static bool make_room(struct hsp_cluster *c)
{
    for (uint32_t i = 0; c->n_jobs == HSP_MAX_JOBS && i < c->n_jobs; i++) {
        const struct hsp_job *j = c->jobs[i];
        if (hsp_job_terminal(j->state) && j->n_leases == 0 && !hsp_ci_keeps_state(j)) {
            hsp_ci_job_forget(c, c->jobs[i]);
        }
    }
    return c->n_jobs < HSP_MAX_JOBS;
}

struct hsp_job *hsp_ci_job_add(struct hsp_cluster *c, uint32_t id)
{
    return make_room(c) ? hsp_ci_job_insert(c, id) : NULL;
}

struct hsp_job *hsp_ci_job_insert(struct hsp_cluster *c, uint32_t id)
{
    if (c->n_jobs >= HSP_MAX_JOBS) {
        return NULL;
    }
    struct hsp_job *j = calloc(1, sizeof(*j));
    if (j == NULL) {
        c->failed = true;
        return NULL;
    }
    j->id = id;
    uint32_t at = c->n_jobs++;
    for (; at > 0 && c->jobs[at - 1]->id > id; at--) {
        c->jobs[at] = c->jobs[at - 1];
    }
    c->jobs[at] = j;
    return j;
}
