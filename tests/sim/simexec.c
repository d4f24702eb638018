/* Models an executor: its segments, its mesh, the messages to it. The model keeps to the contract
 * of worker/agent/EXECUTOR.md and nothing else. simepoch.c begins its epochs, simstep.c makes its
 * steps. */
#include <string.h>

#include "tests/sim/sim.h"

void sim_seg_drop(struct sim_exec *x, enum sim_drop how, uint32_t job, uint64_t plan,
                  uint32_t owner, uint64_t version)
{
    uint32_t n = 0, others = 0;
    uint64_t older = UINT64_MAX;
    for (uint32_t i = 0; i < x->n_seg; i++) {
        const struct sim_seg *g = &x->seg[i];
        if (g->job == job && g->plan == plan && g->owner == owner && g->version != version) {
            others++;
            older = g->version < older ? g->version : older;
        }
    }
    const bool two = others > 1;
    for (uint32_t i = 0; i < x->n_seg; i++) {
        const struct sim_seg *g = &x->seg[i];
        bool hit = g->job == job;
        if (how == SIM_DROP_SLOT) {
            hit = hit && g->plan == plan && g->owner == owner &&
                  (g->version == version || (g->version == older && two));
        } else if (how == SIM_DROP_BELOW) {
            hit = hit && g->plan == plan && g->owner == owner && g->version < version;
        } else if (how == SIM_DROP_ABOVE) {
            hit = hit && g->plan == plan && g->version > version;
        } else if (how == SIM_DROP_BUT) {
            hit = hit && g->plan == plan && g->version != version && g->version != owner;
        } else {
            hit = hit && g->plan < plan;
        }
        if (!hit) {
            x->seg[n++] = *g;
        }
    }
    x->n_seg = n;
}

void sim_seg_put(struct sim *s, struct sim_exec *x, struct sim_seg g)
{
    sim_seg_drop(x, SIM_DROP_SLOT, g.job, g.plan, g.owner, g.version);
    if (x->n_seg == SIM_SEGS) {
        sim_fail(s, "more segments on a device than layouts that can be needed");
        return;
    }
    x->seg[x->n_seg++] = g;
}

void sim_seg_verify(struct sim *s, uint32_t x, uint32_t job, uint64_t plan, uint64_t version)
{
    struct sim_exec *e = &s->exec[x];
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_seg; i++) {
        const struct sim_seg *g = &e->seg[i];
        if (!g->damaged || g->job != job || g->plan != plan || g->version != version) {
            e->seg[n++] = *g;
            continue;
        }
        struct hsp_msg m = {.type = HSP_MSG_STATE_DAMAGED,
                            .u.damaged = {.job = job,
                                          .device = x % SIM_DEVS,
                                          .plan = plan,
                                          .rank = g->rank,
                                          .owner = g->owner,
                                          .version = version,
                                          .part = "cells"}};
        sim_to_agent(s, x, &m);
        e->found.job = job;
        e->found.plan = plan;
        e->found.version = version;
        s->n_damaged++;
    }
    e->n_seg = n;
}

void sim_x_discard(struct sim *s, uint32_t x, uint32_t job, uint64_t keep_plan)
{
    sim_seg_drop(&s->exec[x], SIM_DROP_PLANS_BELOW, job, keep_plan, 0, 0);
}

void sim_x_data_to(struct sim *s, uint32_t x, const struct sim_prep *p, uint32_t peer,
                   struct sim_data d)
{
    d.from = x;
    d.to = p->exec[peer];
    d.to_gen = p->gen[peer];
    sim_to_exec(s, x, d);
}

/* @d: the message that all others than @rank get. */
static void tell_mesh(struct sim *s, uint32_t x, const struct sim_prep *p, uint32_t rank,
                      struct sim_data d)
{
    for (uint32_t i = 0; i < p->n_peers; i++) {
        if (i != rank && (p->apart[rank] >> i & 1) == 0) {
            sim_x_data_to(s, x, p, i, d);
        }
    }
}

static void break_mesh(struct sim *s, uint32_t x, const struct sim_prep *p, uint64_t epoch,
                       uint32_t job, uint32_t rank)
{
    tell_mesh(s, x, p, rank,
              (struct sim_data){.kind = SIM_D_BREAK, .epoch = epoch, .job = job, .rank = rank});
}

void sim_x_clear(struct sim *s, uint32_t x, struct sim_run *r, bool tell)
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

void sim_x_replay(struct sim *s, uint32_t x, uint64_t epoch, uint32_t job)
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

/* The epoch of @r ends by a loss: the version that it computes with is sealed, unless an earlier
 * due version may not be stable at others (worker/executor/epoch_live.h). */
static void seal_live(struct sim *s, uint32_t x, const struct sim_run *r)
{
    bool runs = r->phase >= SIM_COPYING && r->phase <= SIM_UPDATE && r->voted_once;
    if (!runs || !r->live || r->due.all) {
        return;
    }
    struct sim_seg g = {.job = r->job,
                        .rank = r->rank,
                        .owner = r->rank,
                        .plan = r->plan,
                        .version = r->step,
                        .lineage = r->lineage};
    if (r->phase == SIM_UPDATE) { /* its vote has passed */
        g.version++;
        g.lineage = sim_x_lineage(r);
    }
    bool due = r->due.pending && r->phase == SIM_UPDATE && g.version == r->due.newest;
    if (due || (!r->due.pending && g.version > r->due.newest)) {
        sim_seg_put(s, &s->exec[x], g);
        s->n_live++;
    }
}

/* Rank @peer of @r is lost, as @d says; NULL: by its own connection, which has ended. */
static void lost_peer(struct sim *s, uint32_t x, struct sim_run *r, uint32_t peer, bool before,
                      const struct sim_data *d)
{
    bool silent = d != NULL && d->silent;
    struct hsp_msg m = {.type = HSP_MSG_PEER_LOST,
                        .epoch = r->epoch,
                        .u.lost = {.job = r->job,
                                   .device = x % SIM_DEVS,
                                   .peer = peer,
                                   .by = silent ? d->by : r->rank,
                                   .silent = silent,
                                   .before_start = before,
                                   .reason = silent ? "it is silent" : "connection broke"}};
    if (s->nameless) {
        m.u.lost.peer = HSP_MSG_RANKS;
        m.u.lost.by = r->rank;
        m.u.lost.silent = false;
    }
    if (silent) { /* before the connections end: the others know the lost rank */
        struct sim_data on = *d;
        on.local = false;
        tell_mesh(s, x, &r->p, r->rank, on);
    }
    break_mesh(s, x, &r->p, r->epoch, r->job, r->rank);
    if (!before) {
        seal_live(s, x, r);
    }
    if (before) {
        memset(r, 0, offsetof(struct sim_run, p));
    } else {
        r->phase = SIM_BROKEN;
    }
    sim_to_agent(s, x, &m);
}

void sim_x_lost_peer(struct sim *s, uint32_t x, struct sim_run *r, uint32_t peer, bool before)
{
    lost_peer(s, x, r, peer, before, NULL);
}

static void on_break(struct sim *s, uint32_t x, const struct sim_data *d)
{
    struct sim_exec *e = &s->exec[x];
    struct sim_data self = *d;
    const struct sim_run *of = e->cur.epoch == d->epoch ? &e->cur : &e->next;
    if (d->silent && d->rank == of->rank) { /* another has lost this very rank */
        self.rank = d->by;
        self.by = d->rank;
        d = &self;
    }
    if (e->cur.epoch == d->epoch && e->cur.job == d->job && e->cur.phase != SIM_BROKEN) {
        /* a source matters only while something is still to come from it */
        if (d->rank >= e->cur.n_ranks + e->cur.n_replica_holders && e->cur.phase != SIM_TRANSFER) {
            return;
        }
        /* a replica holder cannot tell a loss from the end of its epoch */
        if (e->cur.phase == SIM_KEEPING && e->next.phase == SIM_READY &&
            e->next.mode == HSP_MODE_SWITCH) {
            e->cur.broken = d->rank + 1;
            return;
        }
        if (e->cur.phase == SIM_FINAL && e->cur.rank != 0 &&
            !sim_unwritable(s, e->cur.job, e->cur.p.exec[0])) {
            return;
        }
        lost_peer(s, x, &e->cur, d->rank, false, d);
    } else if (e->next.epoch == d->epoch && e->next.job == d->job) {
        lost_peer(s, x, &e->next, d->rank, true, d);
    }
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
        sim_x_called(s, x, d->rank);
    } else if (e->next.epoch == d->epoch && e->next.job == d->job && d->kind == SIM_D_TOLD) {
        sim_x_told(s, x, d->step);
    } else if (e->cur.epoch == d->epoch && e->cur.job == d->job) {
        sim_x_in_epoch(s, x, d);
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
        seal_live(s, x, &e->cur);
        sim_x_clear(s, x, &e->cur, true);
        e->token++;
        e->prev_epoch = 0;
    }
    if (e->next.job == job && e->next.epoch <= upto) {
        sim_x_clear(s, x, &e->next, true);
    }
    e->closed[job] = upto > e->closed[job] ? upto : e->closed[job];
    sim_x_replay(s, x, upto, job); /* only forgets */
}

static void on_msg(struct sim *s, uint32_t x, const struct hsp_msg *m)
{
    struct sim_exec *e = &s->exec[x];
    switch (m->type) {
    case HSP_MSG_PREPARE: sim_x_prepare(s, x, m); break;
    case HSP_MSG_START: sim_x_begin(s, x, m->epoch, m->u.start.step); break;
    case HSP_MSG_ARM: sim_x_arm(s, x, m->epoch); break;
    case HSP_MSG_DROP:
        if (e->next.epoch == m->epoch && e->next.job == m->u.devref.job) {
            sim_x_clear(s, x, &e->next, true);
            if (e->cur.phase == SIM_KEEPING && e->cur.broken != 0) {
                sim_x_lost_peer(s, x, &e->cur, e->cur.broken - 1, false);
            }
        }
        reply(s, x, HSP_MSG_DROPPED, m->epoch, m->u.devref.job);
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
    case HSP_MSG_WHERE: sim_x_where(s, x, &m->u.where); break;
    case HSP_MSG_STOP:
        sim_given_up(s, m->u.devref.job, m->epoch);
        seal(s, x, m->u.devref.job, m->epoch);
        sim_x_discard(s, x, m->u.devref.job, UINT64_MAX);
        reply(s, x, HSP_MSG_STOPPED, m->epoch, m->u.devref.job);
        break;
    case HSP_MSG_RELEASE:
        sim_x_discard(s, x, m->u.release.job, m->u.release.keep_plan);
        if (e->cur.epoch != 0 && e->cur.rank >= e->cur.n_ranks) {
            e->prev_epoch = 0;
        }
        bool source = e->cur.rank >= e->cur.n_ranks + e->cur.n_replica_holders;
        if (e->cur.job == m->u.release.job && (source || e->cur.plan < m->u.release.keep_plan)) {
            e->token += !source;
            sim_x_clear(s, x, &e->cur, !source);
        }
        reply(s, x, HSP_MSG_RELEASED, m->epoch, m->u.release.job);
        break;
    default: break;
    }
}

static void come_up(struct sim *s, uint32_t x)
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

void sim_x_event(struct sim *s, const struct sim_ev *e)
{
    struct sim_exec *x = &s->exec[e->who];
    if (sim_wire_holds(s, e)) {
        return;
    }
    if (e->gen != x->gen || !x->alive) {
        if (e->type == SIM_E_X_DATA && e->data.kind == SIM_D_CONN) {
            /* nobody listens there any more: the caller sees it, if its node answers at all */
            struct sim_exec *from = &s->exec[e->data.from];
            for (uint32_t i = 0; from->next.epoch == e->data.epoch && i < from->next.p.n_peers;
                 i++) {
                if (from->next.p.exec[i] == e->who && s->agent[e->who / SIM_DEVS].alive) {
                    struct sim_data d = {.kind = SIM_D_BREAK,
                                         .rank = i,
                                         .job = e->data.job,
                                         .epoch = e->data.epoch,
                                         .local = true};
                    sim_push(s, s->now + sim_latency(s),
                             (struct sim_ev){.type = SIM_E_X_DATA,
                                             .who = e->data.from,
                                             .gen = from->gen,
                                             .data = d});
                }
            }
        }
        return;
    }
    switch (e->type) {
    case SIM_E_X_START: come_up(s, e->who); break;
    case SIM_E_X_MSG:
        if (((const struct hsp_msg *)e->ptr)->type == HSP_MSG_SEAL && e->num == 0 &&
            sim_below(s, 2) == 0) { /* threads and streams take their time to stop */
            struct sim_ev later = *e;
            later.num = 1;
            sim_push(s, s->now + 1 + sim_below(s, 10), later);
        } else if (x->up) {
            on_msg(s, e->who, e->ptr);
        }
        break;
    case SIM_E_X_DATA:
        if (x->up) {
            sim_x_data(s, e->who, &e->data);
        }
        break;
    case SIM_E_X_TIMER: sim_x_timer(s, e->who, e->num); break;
    case SIM_E_X_CKPT: sim_ckpt_done(s, e->who, &e->data); break;
    case SIM_E_X_DEAF: sim_x_deaf(s, e->who, e->data.job, e->data.epoch); break;
    case SIM_E_X_LATE: sim_x_late(s, e->who, e->data.job, e->data.epoch); break;
    case SIM_E_X_BUILT: sim_x_built(s, e->who, e->data.job, e->data.epoch); break;
    case SIM_E_X_BEAT: {
        struct hsp_msg m = {.type = HSP_MSG_HEARTBEAT};
        sim_to_agent(s, e->who, &m);
        sim_push(s, s->now + 400,
                 (struct sim_ev){.type = SIM_E_X_BEAT, .who = e->who, .gen = x->gen});
        break;
    }
    default: break;
    }
}
