/* Begins an epoch at an executor: prepares it, joins its mesh, moves the state into its layout. */
#include <string.h>

#include "proto/base/hash.h"
#include "tests/sim/sim.h"

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

/* Verifies the pieces that the executor holds of the version. False: a piece that is asked of it is
 * not there. */
static bool verify(struct sim *s, uint32_t x, const struct hsp_m_prepare *p)
{
    struct sim_exec *e = &s->exec[x];
    const struct sim_run *r = &e->next;
    bool whole = true;
    sim_seg_verify(s, x, p->job, p->from_plan, p->step);
    sim_seg_verify(s, x, p->job, p->plan, p->step);
    for (uint32_t i = 0; i < r->p.n_rows; i++) {
        const struct sim_row *w = &r->p.row[i];
        whole = whole && (w->from != r->rank ||
                          sim_seg_find(e, p->job, p->from_plan, w->owner, p->step) != NULL);
    }
    return whole;
}

static void refuse(struct sim *s, uint32_t x, const struct hsp_msg *m, enum hsp_fact_kind fact,
                   const char *why)
{
    struct hsp_msg f = {.type = HSP_MSG_PREPARE_FAILED,
                        .epoch = m->epoch,
                        .u.failed = {.job = m->u.prepare.job,
                                     .device = x % SIM_DEVS,
                                     .fact = fact,
                                     .amount = fact == HSP_FACT_OUT_OF_MEMORY ? 4096 : 0,
                                     .peer = HSP_MSG_RANKS,
                                     .reason = why}};
    sim_x_clear(s, x, &s->exec[x].next, true);
    sim_to_agent(s, x, &f);
}

/* The mesh is to stand in time. */
static void watch_mesh(struct sim *s, uint32_t x, uint32_t job, uint64_t epoch)
{
    sim_push(s, s->now + s->cfg.dead_ms,
             (struct sim_ev){.type = SIM_E_X_DEAF,
                             .who = x,
                             .gen = s->exec[x].gen,
                             .data = {.job = job, .epoch = epoch}});
    sim_push(s, s->now + SIM_CONNECT_MS,
             (struct sim_ev){.type = SIM_E_X_LATE,
                             .who = x,
                             .gen = s->exec[x].gen,
                             .data = {.job = job, .epoch = epoch}});
}

/* As the shell of the coordinator tells it: each job has its distance of due versions. */
static uint64_t every_of(const struct sim *s, const struct hsp_m_prepare *p)
{
    return p->due_every == 0 || !s->few_due ? 1 : 1 + hsp_mix64(s->seed ^ p->job) % 5;
}

/* The next run of @e, as @m says it. */
static void begin_next(struct sim_exec *e, const struct hsp_msg *m)
{
    const struct hsp_m_prepare *p = &m->u.prepare;
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
                               .n_replica_holders = p->n_keepers,
                               .conn = 1u << p->rank,
                               .due = {.ckpt_every = p->checkpoint_every, .steps = p->steps},
                               .live = p->live,
                               .keeps = p->keeps,
                               .keep = p->keep,
                               .confirmed = UINT64_MAX};
    e->next.n_cuts = p->n_cuts;
    for (uint32_t i = 0; i < p->n_cuts; i++) {
        e->next.cut[i] = p->cuts[i];
    }
    memcpy(&e->next.p, m->blob, sizeof(e->next.p));
    e->next.conn |= e->next.p.apart[p->rank];
    for (uint32_t i = 0; i < e->next.p.n_rows; i++) {
        e->next.need += e->next.p.row[i].to == p->rank;
    }
}

void sim_x_prepare(struct sim *s, uint32_t x, const struct hsp_msg *m)
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
    sim_x_clear(s, x, &e->next, true);
    begin_next(e, m);
    e->next.due.every = every_of(s, p);
    e->next.due.all = e->next.due.every == 1;
    if (s->chaos && sim_below(s, 200) == 0) {
        refuse(s, x, m, HSP_FACT_OUT_OF_MEMORY, "out of memory by 4096 bytes");
        return;
    }
    bool makes = p->rank < p->n_ranks + p->n_keepers;
    if (makes && (s->folder_broken[x / SIM_DEVS] || (s->chaos && sim_below(s, 300) == 0))) {
        refuse(s, x, m, HSP_FACT_STATE_FOLDER, "Read-only file system [EROFS]; mount it writable");
        return;
    }
    if (p->mode == HSP_MODE_RECOVER && p->void_from != UINT64_MAX) {
        sim_seg_drop(e, SIM_DROP_ABOVE, p->job, p->plan, 0, p->void_from - 1);
    }
    if (p->mode == HSP_MODE_RECOVER && !verify(s, x, p)) {
        refuse(s, x, m, HSP_FACT_NO_STATE, "the version is not here as promised");
        return;
    }
    for (uint32_t i = 0; i < e->next.p.n_peers; i++) {
        if (i != p->rank && (e->next.p.apart[p->rank] >> i & 1) == 0) {
            sim_x_data_to(
                s, x, &e->next.p, i,
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
    watch_mesh(s, x, p->job, m->epoch);
    sim_x_replay(s, x, m->epoch, p->job);
    check_ready(s, x);
}

void sim_x_called(struct sim *s, uint32_t x, uint32_t peer)
{
    s->exec[x].next.conn |= 1u << peer;
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
    sim_x_clear(s, x, r, true);
    sim_to_agent(s, x, &f);
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
        hsp_due_begin(&r->due, r->step);
        send_started(s, x);
        sim_x_step(s, x);
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

void sim_x_row(struct sim *s, uint32_t x, const struct sim_data *d)
{
    const struct sim_run *r = &s->exec[x].cur;
    if (d->onto != r->rank) {
        sim_x_data_to(s, x, &r->p, d->onto, *d);
        return;
    }
    take_row(s, &s->exec[x].cur, d->step, d->lineage);
    check_rows(s, x);
}

/* A switch: the first of those that know the version tells it to those that have no rows to learn
 * it from. */
static void tell_version(struct sim *s, uint32_t x, uint64_t version)
{
    const struct sim_run *r = &s->exec[x].cur;
    uint32_t teller = 0;
    while (teller < r->p.n_peers && !r->p.voted[teller]) {
        teller++;
    }
    for (uint32_t i = r->n_ranks; teller == r->rank && i < r->p.n_peers; i++) {
        if (!r->p.voted[i]) {
            sim_x_data_to(s, x, &r->p, i,
                          (struct sim_data){.kind = SIM_D_TOLD,
                                            .epoch = r->epoch,
                                            .job = r->job,
                                            .rank = r->rank,
                                            .step = version});
        }
    }
}

/* Gives the segment of @w, of @version, to its receiver. */
static void give_row(struct sim *s, uint32_t x, const struct sim_row *w, uint64_t version,
                     uint64_t lineage)
{
    struct sim_run *r = &s->exec[x].cur;
    if (w->to == r->rank) {
        take_row(s, r, version, lineage);
        return;
    }
    sim_x_data_to(s, x, &r->p, w->via != SIM_DIRECT ? w->via : w->to,
                  (struct sim_data){.kind = SIM_D_ROW,
                                    .epoch = r->epoch,
                                    .job = r->job,
                                    .rank = r->rank,
                                    .onto = w->to,
                                    .step = version,
                                    .lineage = lineage});
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
    if (e->bare && r->rank < r->n_ranks) {
        sim_fail(s, "device %u is lost and gets work", x);
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
        if (g != NULL && g->damaged) { /* since it was verified, or it is of the epoch before */
            sim_seg_verify(s, x, r->job, r->from_plan, version);
            sim_x_lost_peer(s, x, r, HSP_MSG_RANKS, false);
            return;
        }
        if (g == NULL) {
            sim_fail(s, "job %u epoch %llu: source %u lacks version %llu of rank %u in plan %llu",
                     r->job, (unsigned long long)r->epoch, x, (unsigned long long)version, w->owner,
                     (unsigned long long)r->from_plan);
            return;
        }
        give_row(s, x, w, version, g->lineage);
    }
    if (!holds) {
        sim_ckpt_begun(s, r, version);
        s->job[r->job].told = 0;
        r->got = r->need = 0;
        r->got_lineage = r->p.lineage;
        r->step = version;
    }
    if (r->mode == HSP_MODE_RESTORE && r->p.lineage == 0 && r->rank < r->n_ranks) {
        sim_ckpt_refuse(s, x);
        return;
    }
    if (r->rank >= r->n_ranks) {
        r->step = version;
        r->phase = r->rank < r->n_ranks + r->n_replica_holders ? SIM_KEEPING : SIM_SERVING;
        send_started(s, x);
        return;
    }
    check_rows(s, x);
}

void sim_x_begin(struct sim *s, uint32_t x, uint64_t epoch, uint64_t step)
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
    sim_x_clear(s, x, &e->cur, true);
    e->prev_epoch = 0;
    e->cur = e->next;
    memset(&e->next, 0, offsetof(struct sim_run, p));
    sim_seg_drop(e, SIM_DROP_ABOVE, e->cur.job, e->cur.plan, 0, step);
    if (e->cur.mode == HSP_MODE_RECOVER && e->cur.keeps) {
        sim_seg_drop(e, SIM_DROP_BUT, e->cur.job, e->cur.plan, (uint32_t)e->cur.keep, step);
    }
    if (e->cur.mode != HSP_MODE_RECOVER) {
        sim_x_discard(s, x, e->cur.job, e->cur.plan);
    }
    begin_transfer(s, x, step);
    sim_x_replay(s, x, epoch, e->cur.job);
}

/* A joiner has no vote: it waits for the rows of the others. */
void sim_x_arm(struct sim *s, uint32_t x, uint64_t epoch)
{
    struct sim_exec *e = &s->exec[x];
    if (e->next.epoch != epoch || e->next.phase != SIM_READY) {
        return;
    }
    e->next.armed = true;
    if (e->cur.epoch == 0 && e->next.rank < e->next.n_ranks) {
        e->cur = e->next;
        memset(&e->next, 0, offsetof(struct sim_run, p));
        begin_transfer(s, x, 0);
        sim_x_replay(s, x, epoch, e->cur.job);
    } else {
        sim_x_leave(s, x);
    }
}

void sim_x_switch(struct sim *s, uint32_t x)
{
    struct sim_exec *e = &s->exec[x];
    uint64_t version = e->cur.step;
    e->prev = e->cur.p;
    e->prev_epoch = e->cur.epoch;
    e->cur = e->next;
    memset(&e->next, 0, offsetof(struct sim_run, p));
    sim_seg_drop(e, SIM_DROP_ABOVE, e->cur.job, e->cur.plan, 0,
                 0); /* leftovers of an aborted attempt: none */
    begin_transfer(s, x, version);
    sim_x_replay(s, x, e->cur.epoch, e->cur.job);
}

/* The members have left the epoch before, or there was none. */
void sim_x_told(struct sim *s, uint32_t x, uint64_t version)
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
    sim_x_replay(s, x, e->cur.epoch, e->cur.job);
}
