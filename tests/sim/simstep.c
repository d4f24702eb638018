/* Makes the steps of an executor: seals and copies the state, computes, votes, updates. */
#include "proto/base/hash.h"
#include "tests/sim/sim.h"

static void timer(struct sim *s, uint32_t x, uint64_t after, uint64_t what)
{
    struct sim_exec *e = &s->exec[x];
    sim_push(s, s->now + after,
             (struct sim_ev){
                 .type = SIM_E_X_TIMER, .who = x, .gen = e->gen, .num = what << 32 | ++e->token});
}

static void begin_compute(struct sim *s, uint32_t x)
{
    struct sim_run *r = &s->exec[x].cur;
    r->phase = SIM_COMPUTE;
    timer(s, x, r->step == r->steps ? 0 : 10 + sim_below(s, 20), 1);
}

/* The record of the step waits for the copies of the newest due version, or it does not. The last
 * version has no vote of its own in executors: they wait for its copies. */
static void begin_step(struct sim *s, uint32_t x)
{
    struct sim_run *r = &s->exec[x].cur;
    bool waits = hsp_due_waits(&r->due, r->step) || r->step == r->steps;
    if (waits && r->confirmed != r->due.newest) {
        r->phase = SIM_COPYING;
    } else {
        begin_compute(s, x);
    }
}

static void begin_copies(struct sim *s, uint32_t x)
{
    struct sim_run *r = &s->exec[x].cur;
    r->acks = 0;
    for (uint32_t i = 0; i < r->p.plan.n_copies; i++) {
        const struct sim_copy *k = &r->p.plan.copy[i];
        if (k->from != r->rank || k->to >= r->n_ranks + r->n_replica_holders) {
            continue;
        }
        r->acks++;
        sim_x_data_to(s, x, &r->p, k->to,
                      (struct sim_data){.kind = SIM_D_COPY,
                                        .epoch = r->epoch,
                                        .job = r->job,
                                        .rank = r->rank,
                                        .step = r->step,
                                        .lineage = r->lineage,
                                        .differs = r->wrong});
    }
    if (r->acks == 0) {
        r->confirmed = r->step;
    }
}

static void seal(struct sim *s, uint32_t x)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_run *r = &e->cur;
    r->due_lineage = r->lineage;
    sim_seg_put(s, e,
                (struct sim_seg){.job = r->job,
                                 .rank = r->rank,
                                 .owner = r->rank,
                                 .plan = r->plan,
                                 .version = r->step,
                                 .lineage = r->lineage});
    sim_wrong_sealed(s, r);
    begin_copies(s, x);
}

void sim_x_step(struct sim *s, uint32_t x)
{
    const struct sim_run *r = &s->exec[x].cur;
    if (r->step == r->due.newest) {
        seal(s, x);
    }
    begin_step(s, x);
}

static void tell_step(struct sim *s, uint32_t x, struct sim_run *r, uint64_t stable)
{
    double compute[SIM_EXECS];
    for (uint32_t i = 0; i < r->n_ranks; i++) {
        compute[i] = 1;
    }
    struct hsp_msg m = {.type = HSP_MSG_STEP,
                        .epoch = r->epoch,
                        .u.step = {.job = r->job,
                                   .step = r->step,
                                   .ahead = r->step - stable,
                                   .final = r->step == r->steps,
                                   .n_compute = r->n_ranks,
                                   .compute_s = compute}};
    sim_to_agent(s, x, &m);
}

void sim_x_leave(struct sim *s, uint32_t x)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_run *r = &e->cur;
    if (r->phase != SIM_FINAL || !e->next.armed || (!r->unwritten && !r->leaves)) {
        return;
    }
    for (uint32_t i = 1; r->rank == 0 && i < r->n_ranks; i++) {
        sim_x_data_to(
            s, x, &r->p, i,
            (struct sim_data){.kind = SIM_D_LEAVE, .epoch = r->epoch, .job = r->job, .rank = 0});
    }
    s->job[r->job].moves += r->rank == 0;
    sim_x_switch(s, x);
}

/* One rank's update goes wrong, which the hashes of the next vote show: the first rank to come
 * decides for all. */
static bool goes_wrong(struct sim *s, const struct sim_run *r)
{
    struct sim_job_truth *t = &s->job[r->job];
    if (t->update_epoch != r->epoch || t->update_step != r->step) {
        t->update_epoch = r->epoch;
        t->update_step = r->step;
        uint64_t luck = hsp_mix64(s->seed ^ hsp_mix64(r->epoch << 32 ^ r->step << 8 ^ r->job));
        t->update_wrong = s->chaos && s->healed_ms == 0 && r->n_ranks > 1 &&
                          s->n_wrong < SIM_WRONG && luck % 300 == 0;
        t->update_wrong = t->update_wrong || r->step == s->wrong_at;
        s->wrong_at = r->step == s->wrong_at ? 0 : s->wrong_at;
    }
    return t->update_wrong;
}

/* All records are here and do not add up. */
static void give_up(struct sim *s, uint32_t x)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_run *r = &e->cur;
    struct hsp_msg m = {.type = HSP_MSG_STATE_DAMAGED,
                        .u.damaged = {.job = r->job,
                                      .device = x % SIM_DEVS,
                                      .plan = r->plan,
                                      .rank = r->rank,
                                      .owner = r->rank,
                                      .version = r->due.newest,
                                      .live = true,
                                      .given_up_in = r->epoch,
                                      .part = "replicas differ"}};
    sim_to_agent(s, x, &m);
    sim_seg_drop(e, SIM_DROP_ABOVE, r->job, r->plan, 0, r->due.newest - 1);
    sim_x_lost_peer(s, x, r, HSP_MSG_RANKS, false);
}

/* Takes in the words of the records about due versions. A stable one is committed, and older ones
 * may go. */
static void note_due(struct sim *s, uint32_t x, uint32_t slot)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_run *r = &e->cur;
    struct sim_run committed = *r;
    const uint64_t due = r->due.newest;
    const uint64_t known = r->due.pending ? r->due.before : due; /* to be stable */
    struct hsp_due_news news =
        hsp_due_passed(&r->due, r->step, r->vote_flags[slot], r->n_ranks, r->decisive);
    if (news.stable) {
        committed.step = due;
        committed.lineage = r->due_lineage;
        sim_commit(s, &committed);
        sim_seg_drop(e, SIM_DROP_BELOW, r->job, r->plan, r->rank, due);
    }
    if (r->rank == 0) {
        r->save = r->save || news.refused;
        tell_step(s, x, r, news.stable ? due : known);
    }
    if (r->rank == 0 && news.checkpoint != HSP_DUE_NONE) {
        sim_ckpt_begin(s, x, news.checkpoint, committed.lineage);
    }
}

static void check_vote(struct sim *s, uint32_t x)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_run *r = &e->cur;
    uint32_t slot = r->step & 1;
    if (r->phase != SIM_VOTING || r->vote_step[slot] != r->step ||
        r->votes[slot] != (1u << r->n_ranks) - 1) {
        return;
    }
    bool confirmed = hsp_due_confirmed(&r->due, r->vote_flags[slot], r->n_ranks);
    if (r->wrong && confirmed) {
        give_up(s, x);
        return;
    }
    r->decisive = e->next.epoch != 0;
    for (uint32_t i = 0; i < r->n_ranks; i++) {
        r->decisive = r->decisive && r->vote_armed[slot][i] == e->next.epoch;
    }
    note_due(s, x, slot);
    r->voted_once = true;
    e->prev_epoch = 0;
    if (r->step == r->steps) {
        r->phase = SIM_FINAL;
        if (r->rank == 0) {
            timer(s, x, 30, 3);
        }
        sim_x_leave(s, x);
        return;
    }
    r->phase = SIM_UPDATE;
    timer(s, x, 1 + sim_below(s, 4), 2);
}

static void send_vote(struct sim *s, uint32_t x)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_run *r = &e->cur;
    uint64_t armed = e->next.armed ? e->next.epoch : 0;
    uint32_t flags = hsp_due_record(&r->due, r->confirmed, &armed);
    flags |= r->rank == 0 && r->save ? HSP_VOTE_CHECKPOINT : 0;
    r->save = false;
    r->phase = SIM_VOTING;
    for (uint32_t i = 0; i < r->n_ranks; i++) {
        struct sim_data d = {.kind = SIM_D_VOTE,
                             .epoch = r->epoch,
                             .job = r->job,
                             .rank = r->rank,
                             .step = r->step,
                             .flags = flags,
                             .armed = armed};
        if (i == r->rank) {
            sim_x_data(s, x, &d);
        } else {
            sim_x_data_to(s, x, &r->p, i, d);
        }
    }
}

uint64_t sim_x_lineage(const struct sim_run *r)
{
    return hsp_mix64(r->lineage ^ hsp_mix64(r->plan * 1000003 + r->step + 1)) | 1;
}

static void updated(struct sim *s, uint32_t x)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_run *r = &e->cur;
    r->lineage = sim_x_lineage(r);
    r->step++;
    if (r->step != r->due.newest) { /* nobody compares it */
        sim_x_step(s, x);
        return;
    }
    r->wrong = goes_wrong(s, r);
    if (r->wrong) {
        r->lineage = hsp_mix64(~r->lineage ^ r->epoch) | 1;
        sim_goes_wrong(s, r);
    }
    if (r->wrong && r->decisive) {
        give_up(s, x); /* no vote is behind it: the ranks compare it before they leave */
        return;
    }
    if (!r->decisive) {
        sim_x_step(s, x);
        return;
    }
    sim_seg_put(s, e,
                (struct sim_seg){.job = r->job,
                                 .rank = r->rank,
                                 .owner = r->rank,
                                 .plan = r->plan,
                                 .version = r->step,
                                 .lineage = r->lineage});
    if (e->next.epoch == 0) { /* the new mesh broke meanwhile */
        sim_x_lost_peer(s, x, r, HSP_MSG_RANKS, false);
        return;
    }
    sim_x_switch(s, x);
}

void sim_x_timer(struct sim *s, uint32_t x, uint64_t what)
{
    struct sim_exec *e = &s->exec[x];
    if ((what & UINT32_MAX) != e->token) {
        return; /* of an epoch that was left */
    }
    if (what >> 32 == 1 && e->cur.phase == SIM_COMPUTE) {
        send_vote(s, x);
    } else if (what >> 32 == 2 && e->cur.phase == SIM_UPDATE) {
        updated(s, x);
    } else if (what >> 32 == 3 && e->cur.phase == SIM_FINAL && sim_unwritten(s, x, what)) {
        e->cur.unwritten = true;
        sim_x_leave(s, x);
    } else if (what >> 32 == 3 && e->cur.phase == SIM_FINAL) {
        struct hsp_msg m = {.type = HSP_MSG_FINISHED,
                            .epoch = e->cur.epoch,
                            .u.finished = {.job = e->cur.job, .step = e->cur.step}};
        s->job[e->cur.job].done = true;
        sim_to_agent(s, x, &m);
    }
}

/* A replica holder seals no version whose replicas differ. */
static void take_copy(struct sim *s, struct sim_exec *e, const struct sim_data *d)
{
    const struct sim_run *r = &e->cur;
    if (d->differs && r->rank >= r->n_ranks) {
        sim_seg_drop(e, SIM_DROP_SLOT, r->job, r->plan, d->rank, d->step);
        return;
    }
    sim_seg_put(s, e,
                (struct sim_seg){.job = r->job,
                                 .rank = r->rank,
                                 .owner = d->rank,
                                 .plan = r->plan,
                                 .version = d->step,
                                 .lineage = d->lineage});
}

void sim_x_in_epoch(struct sim *s, uint32_t x, const struct sim_data *d)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_run *r = &e->cur;
    if (r->phase == SIM_BROKEN) {
        return;
    }
    if (d->kind == SIM_D_VOTE) {
        uint32_t slot = d->step & 1;
        if (r->votes[slot] == 0 || r->vote_step[slot] != d->step) {
            r->votes[slot] = 0;
            r->vote_step[slot] = d->step;
        }
        r->votes[slot] |= 1u << d->rank;
        r->vote_armed[slot][d->rank] = d->armed;
        r->vote_flags[slot][d->rank] = d->flags;
        check_vote(s, x);
    } else if (d->kind == SIM_D_COPY) {
        take_copy(s, e, d);
        sim_x_data_to(s, x, &r->p, d->rank,
                      (struct sim_data){.kind = SIM_D_ACK,
                                        .epoch = r->epoch,
                                        .job = r->job,
                                        .rank = r->rank,
                                        .step = d->step});
    } else if (d->kind == SIM_D_ACK && r->acks > 0 && d->step == r->due.newest) {
        r->confirmed = --r->acks == 0 ? d->step : r->confirmed;
        if (r->acks == 0 && r->phase == SIM_COPYING) {
            begin_compute(s, x);
        }
    } else if (d->kind == SIM_D_ROW) {
        sim_x_row(s, x, d);
    } else if (d->kind == SIM_D_LEAVE) {
        r->leaves = true;
        sim_x_leave(s, x);
    }
}
