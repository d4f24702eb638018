/* Writes checkpoints beside the steps, so that the next steps pass and a STOP may come meanwhile;
 * older ones are deleted with each that is complete. The coordinator must know each checkpoint that
 * it was told of. */
#include <string.h>

#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "tests/sim/sim.h"

void sim_ckpt_begin(struct sim *s, uint32_t x, uint64_t version, uint64_t lineage)
{
    const struct sim_run *r = &s->exec[x].cur;
    struct sim_job_truth *t = &s->job[r->job];
    uint64_t at = s->now + sim_below(s, 60);
    t->ckpt_at = at > t->ckpt_at ? at : t->ckpt_at; /* one after the other */
    sim_push(s, t->ckpt_at,
             (struct sim_ev){
                 .type = SIM_E_X_CKPT,
                 .who = x,
                 .gen = s->exec[x].gen,
                 .data = {.job = r->job, .epoch = r->epoch, .step = version, .lineage = lineage}});
}

/* As hsp_ckpt_prune: of the checkpoints up to @step the newest of the history stay, and others
 * between them. */
static void prune(struct sim *s, struct sim_job_truth *t, const struct sim_run *r, uint64_t step)
{
    uint32_t seen = 0;
    for (uint64_t v = step + 1; v-- > 0;) {
        bool counts = t->disk[v] != 0 && hsp_cuts_allow(r->cut, r->n_cuts, t->disk_epoch[v], v);
        if (counts && t->given_up[v] && r->epoch >= t->begun) {
            sim_fail(s, "version %llu, which was given up, is kept as one of the history",
                     (unsigned long long)v);
        }
        t->disk[v] = seen >= s->ckpt_keep ? 0 : t->disk[v];
        seen += counts;
    }
}

void sim_ckpt_done(struct sim *s, uint32_t x, const struct sim_data *d)
{
    const struct sim_exec *e = &s->exec[x];
    struct sim_job_truth *t = &s->job[d->job];
    bool broke = e->cur.epoch == d->epoch && e->cur.phase == SIM_BROKEN;
    if (d->epoch <= e->closed[d->job] || e->cur.job != d->job || broke) {
        return; /* given up with its epoch */
    }
    bool full = s->chaos && sim_below(s, 16) == 0;
    if (!full) {
        t->disk[d->step] = t->ckpt_lineage = d->lineage;
        t->disk_epoch[d->step] = d->epoch;
        t->spoiled[d->step] = t->given_up[d->step] = false;
        prune(s, t, &e->cur, d->step);
    }
    struct hsp_msg m = {.type = HSP_MSG_CHECKPOINTED,
                        .epoch = d->epoch,
                        .u.ckpt = {.job = d->job,
                                   .step = d->step,
                                   .term = 1,
                                   .complete = !full,
                                   .content = full ? 0 : d->lineage,
                                   .reason = full ? "no space left on device" : ""}};
    sim_to_agent(s, x, &m);
}

void sim_ckpt_seen(struct sim *s, uint32_t job, uint64_t ticket)
{
    static struct hsp_m_seen seen[SIM_STEPS];
    const struct sim_job_truth *t = &s->job[job];
    uint32_t n = 0;
    for (uint32_t v = 0; v < SIM_STEPS; v++) {
        if (t->disk[v] != 0) {
            seen[n++] = (struct hsp_m_seen){v, 1, t->disk_epoch[v], t->disk[v]};
        }
    }
    struct hsp_event ev = {
        .now_ms = s->now,
        .type = HSP_EV_CKPTS,
        .u.ckpts = {.job = job, .ticket = ticket, .n = n, .seen = seen, .why = "", .damaged = ""}};
    sim_d_step(s, &ev);
}

void sim_ckpt_told(struct sim *s, uint32_t conn, const struct hsp_msg *m)
{
    const struct hsp_job *j = hsp_cluster_job(s->d, m->u.ckpt.job);
    struct sim_job_truth *t = &s->job[m->u.ckpt.job];
    uint64_t step = m->u.ckpt.step;
    if (!m->u.ckpt.complete || j == NULL || m->epoch < t->begun ||
        hsp_ci_node_of_conn(s->d, conn) == NULL) {
        return; /* of steps that are made again; by a node that was turned away */
    }
    if (!j->has_ckpt || j->ckpt_step < step) {
        sim_fail(s, "job %u, which is %s: the checkpoint of version %llu is not on record", j->id,
                 hsp_job_state_name(j->state), (unsigned long long)step);
    }
    if (j->ckpt_step == step && j->ckpt.epoch <= m->epoch &&
        (j->ckpt.epoch != m->epoch || j->ckpt.content != m->u.ckpt.content)) {
        sim_fail(s, "job %u: what is on record of version %llu is not the checkpoint of epoch %llu",
                 j->id, (unsigned long long)step, (unsigned long long)m->epoch);
    }
    if (j->state == HSP_JOB_SUSPENDED && j->origin_step != j->ckpt_step) {
        sim_fail(s, "job %u is suspended with version %llu, its newest is %llu", j->id,
                 (unsigned long long)j->origin_step, (unsigned long long)j->ckpt_step);
    }
    t->told = step > t->told ? step : t->told;
}

uint64_t sim_ckpt_restored(struct sim *s, const struct hsp_msg *m)
{
    struct sim_job_truth *t = &s->job[m->u.prepare.job];
    uint64_t step = m->u.prepare.step;
    bool first = t->restored != m->epoch; /* checkpoints behind the first PREPARE come too late */
    t->restored = m->epoch;
    if (first && t->disk[step] == 0 && t->told > step) {
        sim_fail(s, "job %u begins with version %llu, which was deleted for %llu", m->u.prepare.job,
                 (unsigned long long)step, (unsigned long long)t->told);
    }
    if (first && t->disk[step] != 0 && t->disk[step] != m->u.prepare.ckpt_content) {
        sim_fail(s, "job %u begins with version %llu of epoch %llu, another one is there",
                 m->u.prepare.job, (unsigned long long)step,
                 (unsigned long long)m->u.prepare.ckpt_epoch);
    }
    if (first && t->disk[step] != 0 && t->given_up[step]) {
        sim_fail(s, "job %u begins with version %llu of epoch %llu, which was given up",
                 m->u.prepare.job, (unsigned long long)step,
                 (unsigned long long)t->disk_epoch[step]);
    }
    if (t->spoiled[step]) {
        return 0;
    }
    /* One that was deleted for another that nobody could tell of is taken as if it was there. */
    return t->disk[step] != 0 ? t->disk[step] : t->ckpt_lineage;
}

void sim_ckpt_begun(struct sim *s, const struct sim_run *r, uint64_t version)
{
    struct sim_job_truth *t = &s->job[r->job];
    for (uint64_t v = version + 1; v < SIM_STEPS && t->begun != r->epoch; v++) {
        t->given_up[v] = t->given_up[v] || (t->disk[v] != 0 && t->disk_epoch[v] < r->epoch);
    }
    t->begun = r->epoch;
}

void sim_ckpt_spoil(struct sim *s, uint32_t job)
{
    struct sim_job_truth *t = &s->job[job];
    uint64_t v = SIM_STEPS;
    while (v > 0 && t->disk[v - 1] == 0) {
        v--;
    }
    if (v > 0) {
        sim_log(s, "! damage checkpoint %llu of job %u", (unsigned long long)v - 1, job);
        t->spoiled[v - 1] = true;
    }
}

void sim_ckpt_refuse(struct sim *s, uint32_t x)
{
    struct sim_run *r = &s->exec[x].cur;
    struct hsp_msg m = {.type = HSP_MSG_CKPT_REFUSED,
                        .epoch = r->epoch,
                        .u.refused = {.job = r->job,
                                      .device = x % SIM_DEVS,
                                      .step = r->step,
                                      .damaged = true,
                                      .reason = "wte.weight is damaged"}};
    s->job[r->job].excess = true; /* more is lost than its nodes */
    r->phase = SIM_BROKEN;
    sim_to_agent(s, x, &m);
}
