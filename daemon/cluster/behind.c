#include "daemon/cluster/behind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/attempt_end.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/standing.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_list.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_requests.h"
#include "daemon/cluster/rows.h"
#include "proto/base/str.h"

static const char *what_to_do(struct hsp_cluster *c, const struct hsp_job *j,
                              const struct hsp_m_kept *k)
{
    return hsp_ci_printf(c,
                         "hspmdctl job adopt %s takes it over from its agents; or put the newer "
                         "store back%s; hspmdctl cancel %s gives up their state",
                         j->name, hsp_ci_newer_store(c, hsp_ci_given_in(c, k)), j->name);
}

/* Numbers that another store gave are not given here. */
static void see(struct hsp_job *j, const struct hsp_m_kept *k)
{
    hsp_ci_epoch_seen(j, k->epoch);
    hsp_ci_plan_seen(j, k->plan);
}

void hsp_ci_job_behind(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                       const struct hsp_m_kept *k)
{
    uint64_t known = j->next_epoch - 1;
    see(j, k);
    if (j->state == HSP_JOB_BEHIND) {
        hsp_ci_store_job(c, j);
        return;
    }
    hsp_ci_cancel_plan(c, j);
    hsp_ci_epoch_fini(&j->att);
    hsp_ci_epoch_fini(&j->cur);
    for (uint32_t i = 0; i < j->n_leases; i++) { /* nobody is told to let go */
        hsp_ci_ask(c, j->leases[i], HSP_ASK_NONE);
    }
    for (uint32_t i = 0; i < j->n_marks; i++) {
        j->marks[i].seal = 0;
    }
    j->n_held = 0;
    j->suspending = j->ckpt_asked = j->doubted = false;
    j->ahead[0] = '\0';
    j->state_deadline_ms = 0;
    hsp_str_printf(
        j->reason, sizeof(j->reason),
        "%s has seen epoch %llu and plan %llu of it, this store knows epochs up to %llu: "
        "%s",
        n->name, (unsigned long long)k->epoch, (unsigned long long)k->plan,
        (unsigned long long)known, what_to_do(c, j, k));
    hsp_ci_job_move(c, j, HSP_JOB_BEHIND);
    hsp_ci_store_job(c, j);
}

/* True when a store of this cluster can have given that number, and there is room without
 * forgetting a job that has a row. */
static bool may_be_found(const struct hsp_cluster *c, const struct hsp_m_kept *k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        n += c->jobs[i]->unrecorded;
    }
    bool ours = hsp_digest_equal(k->cluster, c->id);
    bool can_be = k->job < (ours ? c->found_below : HSP_MAX_FOREIGN);
    return can_be && n < HSP_MAX_FOUND && c->n_jobs < HSP_MAX_JOBS;
}

static void tell_found(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                       const struct hsp_m_kept *k)
{
    if (hsp_ci_not_adopted(j)) { /* its reason comes with the marks */
        hsp_ci_fact(c, "job.foreign", HSP_SEV_NOTICE, j, n,
                    "%s stores state of it, of %s; it is not adopted, and stays as it is", n->name,
                    hsp_ci_cluster_text(c, j->from));
        return;
    }
    hsp_str_printf(j->reason, sizeof(j->reason),
                   "%s has seen epoch %llu of it, which is not known here: %s", n->name,
                   (unsigned long long)k->epoch, what_to_do(c, j, k));
    see(j, k);
    hsp_ci_fact(c, "job.behind", HSP_SEV_ERROR, j, n, "%s", j->reason);
}

void hsp_ci_job_found(struct hsp_cluster *c, const struct hsp_cluster_node *n,
                      const struct hsp_m_kept *k)
{
    bool shown = hsp_ci_job(c, k->job) != NULL; /* another node keeps it too */
    struct hsp_job *j = !shown && may_be_found(c, k) ? hsp_ci_job_add(c, k->job) : NULL;
    if (j == NULL) {
        return; /* its agents keep its state; it is shown when there is room */
    }
    hsp_ci_job_number_seen(c, k->job, 1);
    *j = (struct hsp_job){.id = k->job,
                          .state = HSP_JOB_BEHIND,
                          .unrecorded = true,
                          .from = hsp_digest_equal(k->cluster, c->id) ? (struct hsp_digest){0, 0}
                                                                      : k->cluster,
                          .min = 1,
                          .max = 1,
                          .next_epoch = 1,
                          .next_plan = 1};
    j->data_path = strdup("");
    j->checkpoint_path = strdup("");
    c->failed = c->failed || j->data_path == NULL || j->checkpoint_path == NULL;
    hsp_str_printf(j->name, sizeof(j->name), "%s",
                   hsp_name_valid(k->name) ? k->name : hsp_ci_printf(c, "job-%u", k->job));
    tell_found(c, j, n, k);
    hsp_ci_jobs_dirty(c);
}

/* The nodes that keep @j, with a remedy. */
static void say_who_keeps(struct hsp_cluster *c, struct hsp_job *j)
{
    const char *list = "", *one = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->n_marks; i++) {
        const char *name = c->nodes[j->marks[i].node].name;
        if (!j->marks[i].keeps) {
            continue;
        }
        one = one != NULL ? one : name;
        list = hsp_ci_and_name(c, list, n++, name);
    }
    if (one != NULL) {
        hsp_str_printf(j->reason, sizeof(j->reason),
                       "not adopted, of %s, stored by %s: hspmdctl job adopt %s takes it over, "
                       "hspmdctl node discard %s deletes the state on %s",
                       hsp_ci_cluster_text(c, j->from), list, j->name, one, one);
    }
}

void hsp_ci_behind_hello(struct hsp_cluster *c, struct hsp_job *j, uint32_t at,
                         const struct hsp_m_kept *k)
{
    enum hsp_standing how = k != NULL ? hsp_ci_standing(c, k) : HSP_STANDS_FOREIGN;
    bool keeps = how != HSP_STANDS_FOREIGN && how != HSP_STANDS_OTHER;
    if (j->state != HSP_JOB_BEHIND || (!keeps && hsp_ci_marked(j, at) == NULL)) {
        return;
    }
    hsp_ci_mark(c, j, at)->keeps = keeps;
    if (hsp_ci_not_adopted(j)) {
        say_who_keeps(c, j);
    }
}

void hsp_ci_behind_tidy(struct hsp_cluster *c)
{
    for (uint32_t i = c->n_jobs; i-- > 0;) {
        struct hsp_job *j = c->jobs[i];
        bool kept = j->n_leases > 0;
        for (uint32_t k = 0; k < j->n_marks && !kept; k++) {
            kept = j->marks[k].keeps;
        }
        if (j->unrecorded && !kept) {
            hsp_ci_job_forget(c, j);
        }
    }
}

void hsp_ci_behind_finished(struct hsp_cluster *c, struct hsp_job *j,
                            const struct hsp_cluster_node *n, uint64_t epoch)
{
    bool holds = false;
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        holds = holds || n->dev[d].job == j->id;
    }
    const char *text =
        hsp_ci_printf(c,
                      "%s reports that it is done and its outputs are written: hspmdctl cancel %s "
                      "ends it here too, and gives back its devices",
                      n->name, j->name);
    if (holds && epoch + 1 == j->next_epoch && strcmp(text, j->reason) != 0) {
        hsp_str_printf(j->reason, sizeof(j->reason), "%s", text);
        hsp_ci_fact(c, "job.says_done", HSP_SEV_WARN, j, n, "%s", j->reason);
        hsp_ci_store_job(c, j);
    }
}

static enum hsp_standing testimony(const struct hsp_cluster *c, const struct hsp_cluster_node *n,
                                   const struct hsp_m_hello *m, uint32_t i)
{
    return hsp_ci_testifies(c, n, m, &m->kept[i]) ? hsp_ci_standing(c, &m->kept[i])
                                                  : HSP_STANDS_KNOWN;
}

bool hsp_ci_knows_more(const struct hsp_cluster *c, const struct hsp_cluster_node *n,
                       const struct hsp_m_hello *m)
{
    bool does = false;
    for (uint32_t i = 0; i < m->n_kept && !does; i++) {
        enum hsp_standing how = testimony(c, n, m, i);
        does = how == HSP_STANDS_NEWER || how == HSP_STANDS_UNKNOWN;
    }
    return does;
}

void hsp_ci_take_evidence(struct hsp_cluster *c, const struct hsp_cluster_node *n,
                          const struct hsp_m_hello *m)
{
    for (uint32_t i = 0; i < m->n_kept; i++) {
        enum hsp_standing how = testimony(c, n, m, i);
        if (how == HSP_STANDS_NEWER) {
            hsp_ci_job_behind(c, hsp_ci_job(c, m->kept[i].job), n, &m->kept[i]);
        } else if (how == HSP_STANDS_UNKNOWN ||
                   hsp_ci_standing(c, &m->kept[i]) == HSP_STANDS_NOT_ADOPTED) {
            hsp_ci_job_found(c, n, &m->kept[i]);
        }
    }
}

void hsp_ci_behind(struct hsp_cluster *c, const char *name, uint64_t generation, const char *why)
{
    if (c->behind) {
        return;
    }
    c->behind = true;
    hsp_str_printf(c->behind_by, sizeof(c->behind_by), "%s", name);
    hsp_str_printf(c->behind_why, sizeof(c->behind_why),
                   "this hspmdd is behind, as node %s reports (%s): put the newer store back%s; if "
                   "that store is lost, hspmdd --restore with a backup, over this store, numbers "
                   "anew, above it; if the report of %s is wrong, hspmdctl node remove %s",
                   name, why, hsp_ci_newer_store(c, hsp_generation_number(generation)), name, name);
    hsp_ci_store_cluster(c);
    hsp_ci_fact(c, "coordinator.behind", HSP_SEV_ERROR, NULL, NULL, "%s", c->behind_why);
}
