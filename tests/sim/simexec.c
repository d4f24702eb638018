/* The model executor. It keeps to the contract of worker/agent/README.md and nothing else. */
#include <string.h>

#include "proto/base/hash.h"
#include "tests/sim/sim.h"

enum sim_drop { DROP_SLOT, DROP_ABOVE, DROP_PLANS_BELOW };
static void seg_drop(struct sim_exec *x, enum sim_drop how, uint32_t job, uint64_t plan,
                     uint32_t owner, uint64_t version)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->n_seg; i++) {
        const struct sim_seg *g = &x->seg[i];
        bool hit = g->job == job;
        if (how == DROP_SLOT) {
            hit = hit && g->plan == plan && g->owner == owner && (g->version - version) % 2 == 0;
        } else if (how == DROP_ABOVE) {
            hit = hit && g->plan == plan && g->version > version;
        } else {
            hit = hit && g->plan < plan;
        }
        if (!hit) {
            x->seg[n++] = *g;
        }
    }
    x->n_seg = n;
}

static void seg_put(struct sim *s, struct sim_exec *x, struct sim_seg g)
{
    seg_drop(x, DROP_SLOT, g.job, g.plan, g.owner, g.version);
    if (x->n_seg == SIM_SEGS) {
        sim_fail(s, "more segments on a device than layouts that can be needed");
        return;
    }
    x->seg[x->n_seg++] = g;
}

void sim_x_discard(struct sim *s, uint32_t x, uint32_t job, uint64_t keep_plan)
{
    seg_drop(&s->exec[x], DROP_PLANS_BELOW, job, keep_plan, 0, 0);
}

static void timer(struct sim *s, uint32_t x, uint64_t after, uint64_t what)
{
    struct sim_exec *e = &s->exec[x];
    sim_push(s, s->now + after,
             (struct sim_ev){
                 .type = SIM_E_X_TIMER, .who = x, .gen = e->gen, .num = what << 32 | ++e->token});
}

static void data_to(struct sim *s, uint32_t x, const struct sim_prep *p, uint32_t peer,
                    struct sim_data d)
{
    d.from = x;
    d.to = p->exec[peer];
    d.to_gen = p->gen[peer];
    sim_to_exec(s, x, d);
}

static void break_mesh(struct sim *s, uint32_t x, const struct sim_prep *p, uint64_t epoch,
                       uint32_t job, uint32_t rank)
{
    for (uint32_t i = 0; i < p->n_peers; i++) {
        if (i != rank) {
            data_to(
                s, x, p, i,
                (struct sim_data){.kind = SIM_D_BREAK, .epoch = epoch, .job = job, .rank = rank});
        }
    }
}

static void clear_run(struct sim *s, uint32_t x, struct sim_run *r, bool tell)
{
    if (r->epoch != 0 && tell && r->phase != SIM_BROKEN) {
        break_mesh(s, x, &r->p, r->epoch, r->job, r->rank);
    }
    memset(r, 0, offsetof(struct sim_run, p));
}

static void reply(struct sim *s, uint32_t x, uint16_t type, uint64_t epoch, uint32_t job)
{
    struct hsp_msg m = {.type = type, .epoch = epoch};
    m.u.devref.job = job;
    m.u.devref.device = x % SIM_DEVS;
    sim_to_agent(s, x, &m);
}

static void replay_early(struct sim *s, uint32_t x, uint64_t epoch, uint32_t job)
{
    struct sim_exec *e = &s->exec[x];
    static _Thread_local struct sim_data now[256];
    uint32_t n = 0, k = 0;
    for (uint32_t i = 0; i < e->n_early; i++) {
        if (e->early[i].job == job && e->early[i].epoch == epoch) {
            now[n++] = e->early[i];
        } else if (e->early[i].job != job || e->early[i].epoch > epoch) {
            e->early[k++] = e->early[i];
        }
    }
    e->n_early = k;
    for (uint32_t i = 0; i < n; i++) {
        sim_x_data(s, x, &now[i]);
    }
}

static void check_ready(struct sim *s, uint32_t x)
{
    struct sim_run *r = &s->exec[x].next;
    if (r->phase == SIM_PREPARING && !r->building && r->conn == (1u << r->p.n_peers) - 1) {
        r->phase = SIM_READY;
        struct hsp_msg m = {.type = HSP_MSG_READY,
                            .epoch = r->epoch,
                            .u.ready = {.job = r->job, .device = x % SIM_DEVS, .data_bytes = 10}};
        sim_to_agent(s, x, &m);
    }
}

static void prepare(struct sim *s, uint32_t x, const struct hsp_msg *m)
{
    struct sim_exec *e = &s->exec[x];
    const struct hsp_m_prepare *p = &m->u.prepare;
    if (m->epoch <= e->closed[p->job]) {
        return;
    }
    if (e->next.epoch == m->epoch) {
        if (e->next.phase == SIM_READY) {
            e->next.phase = SIM_PREPARING;
            check_ready(s, x);
        }
        return;
    }
    if (e->cur.epoch != 0 && e->cur.job != p->job) {
        sim_fail(s, "device %u works for job %u and is given job %u", x, e->cur.job, p->job);
        return;
    }
    clear_run(s, x, &e->next, true);
    e->next = (struct sim_run){.job = p->job,
                               .epoch = m->epoch,
                               .plan = p->plan,
                               .from_plan = p->from_plan,
                               .steps = p->steps,
                               .ckpt_every = p->checkpoint_every,
                               .mode = p->mode,
                               .phase = SIM_PREPARING,
                               .rank = p->rank,
                               .n_ranks = p->n_ranks,
                               .n_keepers = p->n_keepers,
                               .conn = 1u << p->rank};
    memcpy(&e->next.p, m->blob, sizeof(e->next.p));
    for (uint32_t i = 0; i < e->next.p.n_rows; i++) {
        e->next.need += e->next.p.row[i].to == p->rank;
    }
    if (s->chaos && sim_below(s, 200) == 0) {
        struct hsp_msg f = {.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = m->epoch,
                            .u.failed = {.job = p->job,
                                         .device = x % SIM_DEVS,
                                         .fact = HSP_FACT_OUT_OF_MEMORY,
                                         .amount = 4096,
                                         .reason = "out of memory by 4096 bytes"}};
        clear_run(s, x, &e->next, true);
        sim_to_agent(s, x, &f);
        return;
    }
    for (uint32_t i = 0; i < e->next.p.n_peers; i++) {
        if (i != p->rank) {
            data_to(s, x, &e->next.p, i,
                    (struct sim_data){
                        .kind = SIM_D_CONN, .epoch = m->epoch, .job = p->job, .rank = p->rank});
        }
    }
    if (s->chaos && sim_below(s, 8) == 0) { /* its program, its memory, its data take their time */
        e->next.building = true;
        sim_push(s, s->now + sim_below(s, 600),
                 (struct sim_ev){.type = SIM_E_X_BUILT,
                                 .who = x,
                                 .gen = e->gen,
                                 .data = {.job = p->job, .epoch = m->epoch}});
    }
    sim_push(s, s->now + SIM_CONNECT_MS,
             (struct sim_ev){.type = SIM_E_X_LATE,
                             .who = x,
                             .gen = e->gen,
                             .data = {.job = p->job, .epoch = m->epoch}});
    replay_early(s, x, m->epoch, p->job);
    check_ready(s, x);
}

void sim_x_built(struct sim *s, uint32_t x, uint32_t job, uint64_t epoch)
{
    struct sim_run *r = &s->exec[x].next;
    if (r->job == job && r->epoch == epoch) {
        r->building = false;
        check_ready(s, x);
    }
}

void sim_x_late(struct sim *s, uint32_t x, uint32_t job, uint64_t epoch)
{
    struct sim_run *r = &s->exec[x].next;
    if (r->job != job || r->epoch != epoch || r->phase != SIM_PREPARING) {
        return;
    }
    struct hsp_msg f = {.type = HSP_MSG_PREPARE_FAILED,
                        .epoch = epoch,
                        .u.failed = {.job = job,
                                     .device = x % SIM_DEVS,
                                     .fact = HSP_FACT_CANNOT_CONNECT,
                                     .peer = HSP_MSG_RANKS,
                                     .reason = "a peer does not call"}};
    clear_run(s, x, r, true);
    sim_to_agent(s, x, &f);
}

static void lost_peer(struct sim *s, uint32_t x, struct sim_run *r, uint32_t peer, bool before)
{
    struct hsp_msg m = {.type = HSP_MSG_PEER_LOST,
                        .epoch = r->epoch,
                        .u.lost = {.job = r->job,
                                   .device = x % SIM_DEVS,
                                   .peer = peer,
                                   .before_start = before,
                                   .reason = "connection broke"}};
    break_mesh(s, x, &r->p, r->epoch, r->job, r->rank);
    if (before) {
        memset(r, 0, offsetof(struct sim_run, p));
    } else {
        r->phase = SIM_BROKEN;
    }
    sim_to_agent(s, x, &m);
}

static void begin_compute(struct sim *s, uint32_t x)
{
    struct sim_run *r = &s->exec[x].cur;
    r->phase = SIM_COMPUTE;
    timer(s, x, r->step == r->steps ? 0 : 10 + sim_below(s, 20), 1);
}

static void begin_copies(struct sim *s, uint32_t x)
{
    struct sim_run *r = &s->exec[x].cur;
    r->phase = SIM_COPYING;
    r->acks = 0;
    for (uint32_t i = 0; i < r->p.plan.n_copies; i++) {
        const struct sim_copy *k = &r->p.plan.copy[i];
        if (k->from != r->rank || k->to >= r->n_ranks + r->n_keepers) {
            continue;
        }
        r->acks++;
        data_to(s, x, &r->p, k->to,
                (struct sim_data){.kind = SIM_D_COPY,
                                  .epoch = r->epoch,
                                  .job = r->job,
                                  .rank = r->rank,
                                  .step = r->step,
                                  .lineage = r->lineage});
    }
    if (r->acks == 0) {
        begin_compute(s, x);
    }
}

static void begin_step(struct sim *s, uint32_t x)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_run *r = &e->cur;
    seg_drop(e, DROP_SLOT, r->job, r->plan, r->rank, r->step);
    seg_put(s, e,
            (struct sim_seg){.job = r->job,
                             .rank = r->rank,
                             .owner = r->rank,
                             .plan = r->plan,
                             .version = r->step,
                             .lineage = r->lineage});
    begin_copies(s, x);
}

static void send_started(struct sim *s, uint32_t x)
{
    const struct sim_run *r = &s->exec[x].cur;
    struct hsp_msg m = {
        .type = HSP_MSG_STARTED,
        .epoch = r->epoch,
        .u.started = {.job = r->job, .device = x % SIM_DEVS, .step = r->step, .transfer_ms = 1}};
    sim_to_agent(s, x, &m);
}

static void check_rows(struct sim *s, uint32_t x)
{
    struct sim_run *r = &s->exec[x].cur;
    if (r->phase == SIM_TRANSFER && r->got == r->need) {
        r->lineage = r->got_lineage;
        send_started(s, x);
        begin_step(s, x);
    }
}

static void take_row(struct sim *s, struct sim_run *r, uint64_t version, uint64_t lineage)
{
    if (r->got > 0 && (r->got_lineage != lineage || r->step != version)) {
        sim_fail(s, "job %u epoch %llu: state of different versions is mixed", r->job,
                 (unsigned long long)r->epoch);
    }
    r->got_lineage = lineage;
    r->step = version;
    r->got++;
}

/* A switch: the first of those that know the version tells it to those that have no rows to learn it
 * from. */
static void tell_version(struct sim *s, uint32_t x, uint64_t version)
{
    const struct sim_run *r = &s->exec[x].cur;
    uint32_t teller = 0;
    while (teller < r->p.n_peers && !r->p.voted[teller]) {
        teller++;
    }
    for (uint32_t i = r->n_ranks; teller == r->rank && i < r->p.n_peers; i++) {
        if (!r->p.voted[i]) {
            data_to(s, x, &r->p, i,
                    (struct sim_data){.kind = SIM_D_TOLD,
                                      .epoch = r->epoch,
                                      .job = r->job,
                                      .rank = r->rank,
                                      .step = version});
        }
    }
}

/* The state of @version moves into the layout of cur. */
static void begin_transfer(struct sim *s, uint32_t x, uint64_t version)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_run *r = &e->cur;
    if (r->epoch <= e->last_epoch[r->job]) {
        sim_fail(s, "device %u begins epoch %llu after %llu", x, (unsigned long long)r->epoch,
                 (unsigned long long)e->last_epoch[r->job]);
    }
    e->last_epoch[r->job] = r->epoch;
    r->phase = SIM_TRANSFER;
    bool holds = r->mode == HSP_MODE_SWITCH || r->mode == HSP_MODE_RECOVER;
    if (r->mode == HSP_MODE_SWITCH) {
        tell_version(s, x, version);
    }
    for (uint32_t i = 0; holds && i < r->p.n_rows; i++) {
        const struct sim_row *w = &r->p.row[i];
        if (w->from != r->rank) {
            continue;
        }
        const struct sim_seg *g = sim_seg_find(e, r->job, r->from_plan, w->owner, version);
        if (g == NULL) {
            sim_fail(s, "job %u epoch %llu: source %u lacks version %llu of rank %u in plan %llu",
                     r->job, (unsigned long long)r->epoch, x, (unsigned long long)version, w->owner,
                     (unsigned long long)r->from_plan);
            return;
        }
        if (w->to == r->rank) {
            take_row(s, r, version, g->lineage);
        } else {
            data_to(s, x, &r->p, w->to,
                    (struct sim_data){.kind = SIM_D_ROW,
                                      .epoch = r->epoch,
                                      .job = r->job,
                                      .rank = r->rank,
                                      .step = version,
                                      .lineage = g->lineage});
        }
    }
    if (!holds) {
        s->job[r->job].begun = r->epoch;
        s->job[r->job].told = 0;
        r->got = r->need = 0;
        r->got_lineage = r->p.lineage;
        r->step = version;
    }
    if (r->rank >= r->n_ranks) {
        r->step = version;
        r->phase = r->rank < r->n_ranks + r->n_keepers ? SIM_KEEPING : SIM_SERVING;
        send_started(s, x);
        return;
    }
    check_rows(s, x);
}

static void start(struct sim *s, uint32_t x, uint64_t epoch, uint64_t step)
{
    struct sim_exec *e = &s->exec[x];
    if (e->next.epoch != epoch || e->next.phase != SIM_READY) {
        return;
    }
    struct sim_job_truth *t = &s->job[e->next.job];
    if (step < t->committed && !t->excess && e->next.rank < e->next.n_ranks &&
        epoch > t->last_epoch) {
        sim_fail(s, "job %u goes back to version %llu below the committed %llu", e->next.job,
                 (unsigned long long)step, (unsigned long long)t->committed);
    }
    clear_run(s, x, &e->cur, true);
    e->prev_epoch = 0;
    e->cur = e->next;
    memset(&e->next, 0, offsetof(struct sim_run, p));
    seg_drop(e, DROP_ABOVE, e->cur.job, e->cur.plan, 0, step);
    if (e->cur.mode != HSP_MODE_RECOVER) {
        sim_x_discard(s, x, e->cur.job, e->cur.plan);
    }
    begin_transfer(s, x, step);
    replay_early(s, x, epoch, e->cur.job);
}

static void tell_step(struct sim *s, uint32_t x, struct sim_run *r)
{
    double compute[SIM_EXECS];
    for (uint32_t i = 0; i < r->n_ranks; i++) {
        compute[i] = 1;
    }
    struct hsp_msg m = {.type = HSP_MSG_STEP,
                        .epoch = r->epoch,
                        .u.step = {.job = r->job,
                                   .step = r->step,
                                   .final = r->step == r->steps,
                                   .n_compute = r->n_ranks,
                                   .compute_s = compute}};
    sim_to_agent(s, x, &m);
    if (r->save || (r->ckpt_every != 0 && r->step % r->ckpt_every == 0)) {
        r->save = false;
        sim_ckpt_begin(s, x);
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
    sim_commit(s, r);
    r->voted_once = true;
    e->prev_epoch = 0;
    if (r->rank == 0) {
        tell_step(s, x, r);
    }
    if (r->step == r->steps) {
        r->phase = SIM_FINAL;
        if (r->rank == 0) {
            timer(s, x, 30, 3);
        }
        return;
    }
    r->decisive = e->next.epoch != 0;
    for (uint32_t i = 0; i < r->n_ranks; i++) {
        r->decisive = r->decisive && r->vote_armed[slot][i] == e->next.epoch;
    }
    r->phase = SIM_UPDATE;
    seg_drop(e, DROP_SLOT, r->job, r->plan, r->rank, r->step + 1); /* the slot is being written */
    timer(s, x, 1 + sim_below(s, 4), 2);
}

static void send_vote(struct sim *s, uint32_t x)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_run *r = &e->cur;
    uint64_t armed = e->next.armed ? e->next.epoch : 0;
    r->phase = SIM_VOTING;
    for (uint32_t i = 0; i < r->n_ranks; i++) {
        struct sim_data d = {.kind = SIM_D_VOTE,
                             .epoch = r->epoch,
                             .job = r->job,
                             .rank = r->rank,
                             .step = r->step,
                             .armed = armed};
        if (i == r->rank) {
            sim_x_data(s, x, &d);
        } else {
            data_to(s, x, &r->p, i, d);
        }
    }
}

static void updated(struct sim *s, uint32_t x)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_run *r = &e->cur;
    r->step++;
    r->lineage = hsp_mix64(r->lineage ^ hsp_mix64(r->plan * 1000003 + r->step)) | 1;
    if (!r->decisive) {
        begin_step(s, x);
        return;
    }
    seg_put(s, e,
            (struct sim_seg){.job = r->job,
                             .rank = r->rank,
                             .owner = r->rank,
                             .plan = r->plan,
                             .version = r->step,
                             .lineage = r->lineage});
    if (e->next.epoch == 0) { /* the new mesh broke meanwhile */
        lost_peer(s, x, r, HSP_MSG_RANKS, false);
        return;
    }
    uint64_t version = r->step;
    e->prev = r->p;
    e->prev_epoch = r->epoch;
    e->cur = e->next;
    memset(&e->next, 0, offsetof(struct sim_run, p));
    seg_drop(e, DROP_ABOVE, e->cur.job, e->cur.plan, 0,
             0); /* leftovers of an aborted attempt: none */
    begin_transfer(s, x, version);
    replay_early(s, x, e->cur.epoch, e->cur.job);
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
    } else if (what >> 32 == 3 && e->cur.phase == SIM_FINAL && !sim_unwritten(s, x, what)) {
        struct hsp_msg m = {.type = HSP_MSG_FINISHED,
                            .epoch = e->cur.epoch,
                            .u.finished = {.job = e->cur.job, .step = e->cur.step}};
        s->job[e->cur.job].done = true;
        sim_to_agent(s, x, &m);
    }
}

static void on_break(struct sim *s, uint32_t x, const struct sim_data *d)
{
    struct sim_exec *e = &s->exec[x];
    if (e->cur.epoch == d->epoch && e->cur.job == d->job && e->cur.phase != SIM_BROKEN) {
        /* a source matters only while something is still to come from it */
        if (d->rank >= e->cur.n_ranks + e->cur.n_keepers && e->cur.phase != SIM_TRANSFER) {
            return;
        }
        /* a keeper cannot tell a loss from the end of its epoch */
        if (e->cur.phase == SIM_KEEPING && e->next.phase == SIM_READY &&
            e->next.mode == HSP_MODE_SWITCH) {
            e->cur.broken = d->rank + 1;
            return;
        }
        if (e->cur.phase == SIM_FINAL && e->cur.rank != 0 && !s->job[e->cur.job].unwritable) {
            return;
        }
        lost_peer(s, x, &e->cur, d->rank, false);
    } else if (e->next.epoch == d->epoch && e->next.job == d->job) {
        lost_peer(s, x, &e->next, d->rank, true);
    }
}

static void in_epoch(struct sim *s, uint32_t x, const struct sim_data *d)
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
        check_vote(s, x);
    } else if (d->kind == SIM_D_COPY) {
        seg_put(s, e,
                (struct sim_seg){.job = r->job,
                                 .rank = r->rank,
                                 .owner = d->rank,
                                 .plan = r->plan,
                                 .version = d->step,
                                 .lineage = d->lineage});
        data_to(s, x, &r->p, d->rank,
                (struct sim_data){.kind = SIM_D_ACK,
                                  .epoch = r->epoch,
                                  .job = r->job,
                                  .rank = r->rank,
                                  .step = d->step});
    } else if (d->kind == SIM_D_ACK && r->phase == SIM_COPYING && d->step == r->step) {
        if (--r->acks == 0) {
            begin_compute(s, x);
        }
    } else if (d->kind == SIM_D_ROW) {
        take_row(s, r, d->step, d->lineage);
        check_rows(s, x);
    }
}

/* The members have left the epoch before, or there was none. */
static void told(struct sim *s, uint32_t x, uint64_t version)
{
    struct sim_exec *e = &s->exec[x];
    if (e->next.phase != SIM_READY) {
        sim_fail(s, "device %u is told the version of an epoch it is not ready for", x);
        return;
    }
    if (e->cur.epoch != 0) {
        e->prev = e->cur.p;
        e->prev_epoch = e->cur.epoch;
    }
    e->cur = e->next;
    memset(&e->next, 0, offsetof(struct sim_run, p));
    begin_transfer(s, x, version);
    replay_early(s, x, e->cur.epoch, e->cur.job);
}

void sim_x_data(struct sim *s, uint32_t x, const struct sim_data *d)
{
    struct sim_exec *e = &s->exec[x];
    if (d->epoch <= e->closed[d->job]) {
        return;
    }
    if (d->kind == SIM_D_BREAK) {
        on_break(s, x, d);
        return;
    }
    if (e->next.epoch == d->epoch && e->next.job == d->job && d->kind == SIM_D_CONN) {
        e->next.conn |= 1u << d->rank;
        check_ready(s, x);
    } else if (e->next.epoch == d->epoch && e->next.job == d->job && d->kind == SIM_D_TOLD) {
        told(s, x, d->step);
    } else if (e->cur.epoch == d->epoch && e->cur.job == d->job) {
        in_epoch(s, x, d);
    } else if (d->job != e->cur.job || d->epoch > e->cur.epoch) {
        if (e->n_early == sizeof(e->early) / sizeof(e->early[0])) {
            memmove(e->early, e->early + 1, sizeof(e->early) - sizeof(e->early[0]));
            e->n_early--;
        }
        e->early[e->n_early++] = *d;
    }
}

static void seal(struct sim *s, uint32_t x, uint32_t job, uint64_t upto)
{
    struct sim_exec *e = &s->exec[x];
    if (e->cur.job == job && e->cur.epoch <= upto) {
        clear_run(s, x, &e->cur, true);
        e->token++;
        e->prev_epoch = 0;
    }
    if (e->next.job == job && e->next.epoch <= upto) {
        clear_run(s, x, &e->next, true);
    }
    e->closed[job] = upto > e->closed[job] ? upto : e->closed[job];
    replay_early(s, x, upto, job); /* only forgets */
}

void sim_x_msg(struct sim *s, uint32_t x, const struct hsp_msg *m)
{
    struct sim_exec *e = &s->exec[x];
    switch (m->type) {
    case HSP_MSG_PREPARE: prepare(s, x, m); break;
    case HSP_MSG_START: start(s, x, m->epoch, m->u.start.step); break;
    case HSP_MSG_ARM:
        if (e->next.epoch == m->epoch && e->next.phase == SIM_READY) {
            e->next.armed = true;
            if (e->cur.epoch == 0 &&
                e->next.rank <
                    e->next.n_ranks) { /* a joiner has no vote: it waits for what the others send */
                e->cur = e->next;
                memset(&e->next, 0, offsetof(struct sim_run, p));
                begin_transfer(s, x, 0);
                replay_early(s, x, m->epoch, e->cur.job);
            }
        }
        break;
    case HSP_MSG_DROP:
        if (e->next.epoch == m->epoch && e->next.job == m->u.devref.job) {
            clear_run(s, x, &e->next, true);
            if (e->cur.phase == SIM_KEEPING && e->cur.broken != 0) {
                lost_peer(s, x, &e->cur, e->cur.broken - 1, false);
            }
        }
        break;
    case HSP_MSG_SEAL:
        seal(s, x, m->u.jobref.job, m->epoch);
        struct hsp_msg r = {.type = HSP_MSG_SEALED, .epoch = m->epoch};
        r.u.sealed.job = m->u.jobref.job;
        sim_to_agent(s, x, &r);
        break;
    case HSP_MSG_CHECKPOINT:
        e->cur.save = e->cur.save || (e->cur.epoch == m->epoch && e->cur.job == m->u.devref.job);
        break;
    case HSP_MSG_STOP:
        if (s->job[m->u.devref.job].stopped < m->epoch) {
            s->job[m->u.devref.job].stopped = m->epoch;
        }
        seal(s, x, m->u.devref.job, m->epoch);
        sim_x_discard(s, x, m->u.devref.job, UINT64_MAX);
        reply(s, x, HSP_MSG_STOPPED, m->epoch, m->u.devref.job);
        break;
    case HSP_MSG_RELEASE:
        if (m->u.release.keep_plan == UINT64_MAX && e->cur.job == m->u.release.job &&
            s->job[e->cur.job].stopped < e->cur.epoch) { /* of a job that is over: STOP follows */
            s->job[e->cur.job].stopped = e->cur.epoch;
        }
        sim_x_discard(s, x, m->u.release.job, m->u.release.keep_plan);
        if (e->cur.epoch != 0 && e->cur.rank >= e->cur.n_ranks) {
            e->prev_epoch = 0;
        }
        if (e->cur.rank >= e->cur.n_ranks + e->cur.n_keepers && e->cur.job == m->u.release.job) {
            clear_run(s, x, &e->cur, false);
        }
        reply(s, x, HSP_MSG_RELEASED, m->epoch, m->u.release.job);
        break;
    default: break;
    }
}

void sim_x_start(struct sim *s, uint32_t x)
{
    struct sim_exec *e = &s->exec[x];
    e->up = true;
    memset(&e->cur, 0, offsetof(struct sim_run, p));
    memset(&e->next, 0, offsetof(struct sim_run, p));
    memset(e->closed, 0, sizeof(e->closed));
    e->prev_epoch = 0;
    e->n_early = 0;
    char address[64];
    (void)snprintf(address, sizeof(address), "h%u:%u#%u",
                   s->two_a_host ? x / SIM_DEVS / 2 : x / SIM_DEVS, x, e->gen);
    struct hsp_msg m = {.type = HSP_MSG_EXECUTOR_UP,
                        .u.up = {.device = x % SIM_DEVS, .address = address}};
    sim_to_agent(s, x, &m);
    sim_push(s, s->now + 400, (struct sim_ev){.type = SIM_E_X_BEAT, .who = x, .gen = e->gen});
}

void sim_x_die(struct sim *s, uint32_t x, bool silent)
{
    struct sim_exec *e = &s->exec[x];
    if (!e->alive) {
        return;
    }
    if (!silent) {
        struct sim_run *runs[] = {&e->cur, &e->next};
        for (int i = 0; i < 2; i++) {
            if (runs[i]->epoch != 0 && runs[i]->phase != SIM_BROKEN) {
                break_mesh(s, x, &runs[i]->p, runs[i]->epoch, runs[i]->job, runs[i]->rank);
            }
        }
        for (uint32_t i = 0; e->prev_epoch != 0 && i < e->prev.n_peers; i++) {
            if (e->prev.exec[i] == x) {
                break_mesh(s, x, &e->prev, e->prev_epoch, e->cur.job, i);
            }
        }
    }
    e->alive = e->up = e->paused = false;
    e->gen++;
    e->token++;
}
