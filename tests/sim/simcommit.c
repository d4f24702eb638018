/* Judges committed versions: they come in order, each once, with as many copies as promised. */
#include <string.h>

#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "tests/sim/sim.h"

struct sim_seg *sim_seg_find(struct sim_exec *x, uint32_t job, uint64_t plan, uint32_t owner,
                             uint64_t version)
{
    for (uint32_t i = 0; i < x->n_seg; i++) {
        struct sim_seg *g = &x->seg[i];
        if (g->job == job && g->plan == plan && g->owner == owner && g->version == version) {
            return g;
        }
    }
    return NULL;
}

/* A committed version is sealed on as many nodes as promised, but for those whose memory is
 * gone. */
static void check_copies(struct sim *s, const struct sim_run *r)
{
    const struct sim_plan *p = &r->p.plan;
    const struct sim_job_truth *t = &s->job[r->job];
    for (uint32_t c = 0; c < SIM_CELLS; c++) {
        uint32_t nodes = t->lost;
        for (uint32_t i = 0; i < r->n_ranks + r->n_replica_holders; i++) {
            struct sim_exec *e = &s->exec[r->p.exec[i]];
            for (uint32_t o = 0; o < r->n_ranks; o++) {
                uint8_t has = i == o ? p->home[o] : 0;
                for (uint32_t k = 0; k < p->n_copies; k++) {
                    has |= p->copy[k].from == o && p->copy[k].to == i ? p->copy[k].cells : 0;
                }
                const struct sim_seg *g = sim_seg_find(e, r->job, r->plan, o, r->step);
                if ((has >> c & 1) != 0 && g != NULL && g->lineage == r->lineage) {
                    nodes |= 1u << (r->p.exec[i] / SIM_DEVS);
                }
            }
        }
        if ((uint32_t)__builtin_popcount(nodes) < t->tolerance + 1) {
            sim_fail(s, "job %u: cell %u of version %llu is committed and not on %u nodes", r->job,
                     c, (unsigned long long)r->step, t->tolerance + 1);
        }
    }
}

void sim_given_up(struct sim *s, uint32_t job, uint64_t epoch)
{
    struct sim_job_truth *t = &s->job[job];
    t->stopped = t->stopped < epoch ? epoch : t->stopped;
}

void sim_goes_wrong(struct sim *s, const struct sim_run *r)
{
    const struct sim_wrong w = {.job = r->job,
                                .plan = r->plan,
                                .epoch = r->epoch,
                                .version = r->step,
                                .lineage = r->lineage};
    for (uint32_t i = 0; i < s->n_wrong; i++) {
        if (s->wrong[i].lineage == w.lineage) {
            return;
        }
    }
    s->wrong[s->n_wrong++] = w; /* room was seen to */
}

void sim_wrong_sealed(struct sim *s, const struct sim_run *r)
{
    for (uint32_t i = 0; i < s->n_wrong; i++) {
        struct sim_wrong *w = &s->wrong[i];
        if (w->lineage != r->lineage || r->epoch <= w->epoch || r->epoch < w->heir.epoch) {
            continue;
        }
        if (r->epoch > w->heir.epoch) {
            w->heir.epoch = r->epoch;
            w->heir.plan = r->plan;
            w->heir.n_ranks = r->n_ranks;
            memcpy(w->heir.exec, r->p.exec, sizeof(w->heir.exec));
            memcpy(w->heir.wipes, r->p.wipes, sizeof(w->heir.wipes));
            w->heir.sealed = 0;
        }
        w->heir.sealed |= 1u << r->rank;
        w->voted = w->voted || w->heir.sealed == (1u << r->n_ranks) - 1;
    }
}

/* Does a member of the epoch that was begun with @w show that it has sealed nothing of it? */
static bool heir_shows(struct sim *s, const struct sim_wrong *w, const struct hsp_job *j)
{
    const struct hsp_job_plan *p = hsp_ci_plan(j, w->heir.plan);
    bool sealed = j->state == HSP_JOB_RECOVERING || j->state == HSP_JOB_PAUSED;
    for (uint32_t i = 0; sealed && p != NULL && i < w->heir.n_ranks; i++) {
        uint32_t x = w->heir.exec[i];
        const struct sim_agent *a = &s->agent[x / SIM_DEVS];
        const struct hsp_cluster_node *n = hsp_ci_node_of_conn(s->d, a->conn);
        if ((w->heir.sealed >> i & 1) == 0 && a->alive && a->conn != 0 && n != NULL &&
            s->exec[x].wipes == w->heir.wipes[i] && n->incarnation < p->since &&
            p->damaged < w->version) {
            return true;
        }
    }
    return false;
}

/* The coordinator learns of a wrong version when its node speaks, and an epoch may have begun with
 * it by then. Where all ranks of that could vote, or none of those that could not is here, the
 * version may stay: nobody can tell that its vote has not passed. */
void sim_wrong_known(struct sim *s, bool starts)
{
    for (uint32_t i = 0; i < s->n_wrong; i++) {
        struct sim_wrong *w = &s->wrong[i];
        w->known = w->known && !starts;
        struct hsp_job *j = hsp_ci_job(s->d, w->job);
        const struct hsp_job_plan *p = j != NULL ? hsp_ci_plan(j, w->plan) : NULL;
        if (w->known || p == NULL || p->void_from > w->version || hsp_ci_attempt_gone(j)) {
            continue;
        }
        if (w->heir.epoch == 0 || (!w->voted && heir_shows(s, w, j))) {
            w->known = true;
            s->n_given_up++;
        }
    }
}

static void check_given_up(struct sim *s, const struct sim_run *r)
{
    for (uint32_t i = 0; i < s->n_wrong; i++) {
        if (s->wrong[i].known && s->wrong[i].lineage == r->lineage) {
            sim_fail(s, "job %u: version %llu was given up, and is committed", r->job,
                     (unsigned long long)r->step);
        }
    }
}

void sim_commit(struct sim *s, const struct sim_run *r)
{
    struct sim_job_truth *t = &s->job[r->job];
    check_given_up(s, r);
    if (r->epoch < t->last_epoch && r->step <= t->committed && t->lineage[r->step] == r->lineage) {
        return; /* the last of an epoch to pass its last vote */
    }
    if (r->epoch < t->last_epoch) {
        sim_fail(s, "job %u: epoch %llu commits after epoch %llu", r->job,
                 (unsigned long long)r->epoch, (unsigned long long)t->last_epoch);
    }
    bool again = r->step <= t->committed && t->lineage[r->step] != 0;
    if (again && t->lineage[r->step] != r->lineage && !t->excess) {
        sim_fail(s, "job %u: version %llu is committed twice with different content", r->job,
                 (unsigned long long)r->step);
    }
    if (!again && r->due.all && r->step > t->committed + 1 && !t->excess) {
        sim_fail(s, "job %u: version %llu is committed after %llu", r->job,
                 (unsigned long long)r->step, (unsigned long long)t->committed);
    }
    t->lost = 0;
    t->tolerance = sim_plan_spread(&r->p) - 1;
    for (uint32_t i = 0; i < r->n_ranks + r->n_replica_holders;
         i++) { /* pieces that a member lost since it prepared are still lost */
        struct sim_exec *e = &s->exec[r->p.exec[i]];
        bool found =
            e->found.job == r->job && e->found.plan == r->plan && e->found.version == r->step;
        bool lost = found || e->wipes != r->p.wipes[i];
        for (uint32_t k = 0; k < e->n_seg; k++) { /* and pieces damaged since they were sealed */
            const struct sim_seg *g = &e->seg[k];
            lost = lost ||
                   (g->damaged && g->job == r->job && g->plan == r->plan && g->version == r->step);
        }
        t->lost |= lost ? 1u << (r->p.exec[i] / SIM_DEVS) : 0;
    }
    if (!again && r->epoch > t->stopped) {
        check_copies(s, r);
    }
    if (t->excess) {
        t->floor = r->step < t->floor ? r->step : t->floor;
        memset(&t->lineage[r->step], 0, (SIM_STEPS - r->step) * sizeof(t->lineage[0]));
    }
    t->commits += !again;
    t->lineage[r->step] = r->lineage;
    t->committed = r->step > t->committed || t->excess ? r->step : t->committed;
    t->excess = (uint32_t)__builtin_popcount(t->lost) > t->tolerance || r->epoch < t->anew;
    t->last_epoch = r->epoch;
}
