/* Plays the shell of the coordinator: rows become durable one after the other, messages leave
 * behind them, plans are made. */
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_check.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/measure.h"
#include "proto/base/arena.h"
#include "proto/wire/papers.h"
#include "tests/sim/sim.h"

struct sim_store { /* of an action, until it is durable */
    enum hsp_action_type type;
    char key[64];
    void *value;
    uint32_t len, job;
    uint64_t plan;
};

static void row_put(struct sim *s, const char *key, const void *value, uint32_t len)
{
    uint32_t i = 0;
    while (i < s->n_rows && strcmp(s->rows[i].key, key) != 0) {
        i++;
    }
    if (i == s->n_rows) {
        s->n_rows++;
        (void)snprintf(s->rows[i].key, sizeof(s->rows[i].key), "%s", key);
        s->rows[i].value = NULL;
    }
    free(s->rows[i].value);
    s->rows[i].value = malloc(len + 1);
    memcpy(s->rows[i].value, value, len);
    s->rows[i].len = len;
}

static void row_erase(struct sim *s, const char *key)
{
    for (uint32_t i = 0; i < s->n_rows; i++) {
        if (strcmp(s->rows[i].key, key) == 0) {
            free(s->rows[i].value);
            s->rows[i] = s->rows[--s->n_rows];
            return;
        }
    }
}

void sim_store_done(struct sim *s, const struct sim_store *p)
{
    struct sim_plan *plan = sim_plan_get(s, p->job, p->plan);
    switch (p->type) {
    case HSP_ACT_STORE: row_put(s, p->key, p->value, p->len); break;
    case HSP_ACT_ERASE: row_erase(s, p->key); break;
    case HSP_ACT_KEEP_PLAN:
    case HSP_ACT_COPY_PLAN:
        if (plan != NULL) {
            plan->durable = true;
        }
        break;
    case HSP_ACT_DROP_PLAN:
        if (plan != NULL) {
            plan->used = false;
        }
        break;
    default: break;
    }
}

static void d_store(struct sim *s, const struct hsp_action *a)
{
    struct sim_store *p = hsp_arena_alloc(s->arena, sizeof(*p));
    p->type = a->type;
    p->job = a->job;
    p->plan = a->plan_no;
    if (a->key != NULL) {
        (void)snprintf(p->key, sizeof(p->key), "%s", a->key);
    }
    p->value = a->len != 0 ? hsp_arena_memdup(s->arena, a->value, a->len) : NULL;
    p->len = a->len;
    /* the owner of the store is on disk before anything else */
    if (strcmp(p->key, "cluster") == 0) {
        sim_store_done(s, p);
        return;
    }
    uint64_t takes = sim_below(s, 3) != 0 ? 0 : 1 + sim_below(s, s->chaos ? 6 : 1);
    s->store_at = (s->store_at > s->now ? s->store_at : s->now) + takes;
    if (s->chaos && s->permille != 0 && sim_below(s, 4000) < s->permille) {
        sim_push(s, s->now + sim_below(s, takes + 3),
                 (struct sim_ev){.type = SIM_E_CALL, .num = SIM_CALL_KILL});
    }
    sim_push(s, s->store_at, (struct sim_ev){.type = SIM_E_D_STORED, .gen = s->d_gen, .ptr = p});
}

static void keep_plan(struct sim *s, const struct hsp_action *a)
{
    struct sim_plan *old = sim_plan_get(s, a->job, a->plan_no);
    if (old != NULL) {
        old->used = false; /* kept by a process that died before its row was on disk */
    }
    for (uint32_t i = 0; i < SIM_PLANS; i++) {
        struct sim_plan *p = &s->plans[i];
        if (p->used && p->ticket == a->ticket) {
            if (a->ticket != s->job[a->job].ticket) {
                sim_fail(s, "job %u: the plan of an old question is used", a->job); /* S7 */
            }
            p->plan = a->plan_no;
            return;
        }
    }
    sim_fail(s, "job %u: a plan that was never made is kept", a->job);
}

static void copy_plan(struct sim *s, const struct hsp_action *a)
{
    const struct sim_plan *from = sim_plan_get(s, a->job, a->from_plan);
    struct sim_plan *old = sim_plan_get(s, a->job, a->plan_no);
    if (from == NULL) {
        sim_fail(s, "job %u: a copy of plan %llu, which is not kept", a->job,
                 (unsigned long long)a->from_plan);
        return;
    }
    struct sim_plan p = *from;
    if (old != NULL) {
        old->used = false;
    }
    p.plan = a->plan_no;
    p.ticket = 0;
    p.durable = false;
    for (uint32_t i = 0; i < SIM_PLANS; i++) {
        if (!s->plans[i].used) {
            s->plans[i] = p;
            return;
        }
    }
    sim_fail(s, "plans are never dropped");
}

static void forget_ticket(struct sim *s, uint64_t ticket)
{
    for (uint32_t i = 0; i < SIM_PLANS; i++) {
        if (s->plans[i].used && s->plans[i].ticket == ticket && s->plans[i].plan == 0) {
            s->plans[i].used = false;
        }
    }
}

static void suspend_fact(struct sim *s, const struct hsp_fact *f)
{
    struct sim_job_truth *t = &s->job[f->job <= SIM_JOBS ? f->job : 0];
    const struct hsp_job *j = hsp_cluster_job(s->d, f->job);
    t->wished = t->wished && j->suspending;
    if (strcmp(f->type, "admin.resume") == 0 && strncmp(f->reason, "from version", 12) == 0) {
        t->excess = true; /* the job goes on from its checkpoint: later steps are made again */
        t->anew = j->next_epoch;
        t->resumes++;
    } else if (strcmp(f->type, "ckpt.fallback") == 0) {
        t->fallbacks++;
    } else if (strcmp(f->type, "admin.suspend") == 0) {
        t->floor = j->stable;
        t->wished = j->suspending;
    } else if (strcmp(f->type, "job.suspended") == 0) {
        t->suspends++;
        if (!t->excess && j->origin_step < t->floor) {
            sim_fail(s, "job %u is suspended with version %llu, it had %llu before", j->id,
                     (unsigned long long)j->origin_step, (unsigned long long)t->floor);
        }
    }
}

/* An agent that waits for a coordinator that was stopped is not dead. */
static void silent_death(struct sim *s, uint32_t node)
{
    const struct sim_agent *a = &s->agent[node];
    bool stall = s->d_resumed_ms > s->d_stopped_ms + (uint64_t)2 * s->cfg.suspect_ms &&
                 s->now < s->d_resumed_ms + s->cfg.suspect_ms;
    bool waits = a->alive && !a->paused && !a->cut && a->gen == a->heard_gen && a->conn != 0 &&
                 s->conn_open[a->conn];
    if (stall && waits) {
        sim_fail(s, "n%u is dead because the coordinator did not run", node);
    }
}

static void trace_fact(struct sim *s, const struct hsp_fact *f)
{
    sim_log(s, "%s job %u node %s epoch %llu: %s%s%s", f->type, f->job, f->node,
            (unsigned long long)f->epoch, f->reason, f->cause[0] != '\0' ? ", cause: " : "",
            f->cause);
    suspend_fact(s, f);
    bool silent = strncmp(f->reason, "silent for", 10) == 0 && f->node[0] == 'n';
    if (strcmp(f->type, "node.dead") == 0 && silent) {
        silent_death(s, (uint32_t)(f->node[1] - '0'));
    }
    if (strcmp(f->type, "node.forgotten") == 0 && f->node[0] == 'n') {
        s->forgotten++;
        s->agent[f->node[1] - '0'].stranger = true;
    }
    if (strcmp(f->type, "admin.check") == 0) {
        sim_check_begun(s);
    }
    if (!s->tracing || strncmp(f->type, "plan.", 5) == 0 || strcmp(f->type, "node.live") == 0) {
        return;
    }
    hsp_buf_printf(&s->trace, "%s", f->type);
    if (f->job != 0) {
        hsp_buf_printf(&s->trace, " job %u", f->job);
    }
    if (f->node[0] != '\0') {
        hsp_buf_printf(&s->trace, " %s", f->node);
    }
    hsp_buf_printf(&s->trace, "%s%s%s%s\n", f->reason[0] != '\0' ? ": " : "", f->reason,
                   f->cause[0] != '\0' ? " <- " : "", f->cause);
}

static void maybe_fault(struct sim *s)
{
    if (s->chaos && s->permille != 0 && sim_below(s, 1000) < s->permille) {
        sim_push(s, s->now + sim_below(s, 25), (struct sim_ev){.type = SIM_E_FAULT});
    }
}

static void d_send(struct sim *s, const struct hsp_action *a)
{
    struct hsp_msg m = *a->msg;
    if (a->type == HSP_ACT_PREPARE) {
        m.blob = (const uint8_t *)sim_prep_make(s, &m, a->u.prepare);
        m.blob_len = sizeof(struct sim_prep);
    }
    if (a->type == HSP_ACT_PAPERS) {
        struct hsp_buf b;
        hsp_buf_init(&b, HSP_PAPERS_MAX);
        hsp_papers_write(a->u.papers, &b);
        m.blob = hsp_arena_memdup(s->arena, b.data, b.len);
        m.blob_len = (uint32_t)b.len;
        hsp_buf_fini(&b);
    }
    if (m.type == HSP_MSG_PREPARE || m.type == HSP_MSG_ARM || m.type == HSP_MSG_START ||
        m.type == HSP_MSG_SEAL || m.type == HSP_MSG_RELEASE) {
        maybe_fault(s);
    }
    if (a->conn == 0 || a->conn > s->n_conns) {
        sim_fail(s, "an action names connection %u, which never was", a->conn); /* S5 */
        return;
    }
    if (a->type == HSP_ACT_CHECK) {
        sim_check_sent(s, a->conn, &m.u.check);
    }
    /* leaves when every row before it is durable */
    uint64_t at = s->store_at > s->now ? s->store_at : s->now;
    sim_push(s, at,
             (struct sim_ev){
                 .type = SIM_E_D_SEND, .conn = a->conn, .gen = s->d_gen, .ptr = sim_clone(s, &m)});
}

/* A device that is not well gets no work. */
static void check_asked(struct sim *s, const struct hsp_plan_request *q)
{
    for (uint32_t i = 0; i < q->n_devices; i++) {
        const struct hsp_cluster_node *n = &s->d->nodes[HSP_DEVICE_NODE(q->devices[i])];
        if (n->dev[HSP_DEVICE_INDEX(q->devices[i])].health >= HSP_HEALTH_CORDON ||
            n->fault.until_ms != 0) {
            sim_fail(s, "planning may use device %u, which is not well", q->devices[i]);
        }
    }
}

static void d_actions(struct sim *s, const struct hsp_actions *acts)
{
    if (acts->n > 4000) {
        sim_fail(s, "%u actions in one step", acts->n); /* S6 */
    }
    for (uint32_t i = 0; i < acts->n; i++) {
        const struct hsp_action *a = &acts->item[i];
        switch (a->type) {
        case HSP_ACT_SEND:
        case HSP_ACT_CHECK:
        case HSP_ACT_PAPERS:
        case HSP_ACT_PREPARE: d_send(s, a); break;
        case HSP_ACT_CLOSE:
            sim_push(s, s->store_at > s->now ? s->store_at : s->now,
                     (struct sim_ev){.type = SIM_E_D_CLOSE, .conn = a->conn, .gen = s->d_gen});
            break;
        case HSP_ACT_KEEP_PLAN:
            keep_plan(s, a);
            d_store(s, a);
            break;
        case HSP_ACT_COPY_PLAN:
            copy_plan(s, a);
            d_store(s, a);
            break;
        case HSP_ACT_STORE:
        case HSP_ACT_ERASE:
        case HSP_ACT_DROP_PLAN: d_store(s, a); break;
        case HSP_ACT_START_PLAN:
            check_asked(s, a->u.plan);
            s->job[a->job].ticket = a->ticket;
            sim_plan_make(s, a->u.plan);
            sim_push(s, s->now + 1 + sim_below(s, a->u.plan->urgent ? 10 : 100),
                     (struct sim_ev){
                         .type = SIM_E_D_PLAN, .gen = s->d_gen, .num = a->ticket, .who = a->job});
            break;
        case HSP_ACT_FIND_CKPTS:
            sim_push(s, s->now + 1 + sim_below(s, 20),
                     (struct sim_ev){
                         .type = SIM_E_D_CKPTS, .gen = s->d_gen, .num = a->ticket, .who = a->job});
            break;
        case HSP_ACT_CANCEL_PLAN: forget_ticket(s, a->ticket); break;
        case HSP_ACT_REPLY:
            sim_log(s, "reply %d %s", (int)a->status, a->text);
            s->reply = a->status;
            (void)snprintf(s->reply_text, sizeof(s->reply_text), "%s", a->text);
            s->job[a->job <= SIM_JOBS ? a->job : 0].known = true;
            if (a->request >= SIM_CHECK_REQUEST) {
                sim_check_reply(s, a);
            }
            break;
        case HSP_ACT_FACT: trace_fact(s, a->u.fact); break;
        case HSP_ACT_METRIC: break;
        }
    }
}

static void d_timer(struct sim *s)
{
    uint64_t t = hsp_cluster_deadline(s->d);
    if (t != UINT64_MAX && (s->d_timer <= s->now || t < s->d_timer)) {
        s->d_timer = t > s->now ? t : s->now + 1;
        sim_push(s, s->d_timer, (struct sim_ev){.type = SIM_E_D_TICK, .gen = s->d_gen});
    }
}

void sim_d_step(struct sim *s, const struct hsp_event *ev)
{
    struct hsp_actions acts;
    struct hsp_err err = {0};
    struct hsp_event at = *ev;
    at.unix_s = 1 + s->now / 1000;
    sim_check_before(s, ev);
    if (hsp_cluster_step(s->d, &at, &acts, &err) != HSP_OK) {
        sim_fail(s, "coordinator: %s", err.msg);
        return;
    }
    hsp_cluster_check(s->d);
    sim_check_after(s, ev);
    sim_wrong_known(s, false);
    if (ev->type == HSP_EV_MSG && ev->u.msg->type == HSP_MSG_CHECKPOINTED &&
        !s->agent[s->conn_node[ev->conn]].stranger) {
        sim_ckpt_told(s, ev->conn, ev->u.msg);
    }
    d_actions(s, &acts);
    d_timer(s);
}

void sim_d_start(struct sim *s)
{
    struct hsp_cluster_row rows[1024];
    struct hsp_actions acts;
    struct hsp_err err = {0};
    for (uint32_t i = 0; i < s->n_rows; i++) {
        rows[i] = (struct hsp_cluster_row){s->rows[i].key, s->rows[i].value, s->rows[i].len};
    }
    hsp_cluster_free(s->d);
    s->d = hsp_cluster_new(&s->cfg);
    s->d_alive = true;
    s->d_timer = 0;
    s->store_at = s->now;
    if (hsp_cluster_load(s->d, rows, s->n_rows, s->now, &acts, &err) != HSP_OK) {
        sim_fail(s, "load: %s", err.msg);
        return;
    }
    hsp_cluster_check(s->d);
    sim_wrong_known(s, true);
    for (uint32_t i = 1; i <= s->d->n_jobs; i++) {
        if (s->job[i].wished && !hsp_cluster_job(s->d, i)->suspending) {
            sim_fail(s, "job %u: that it is to be suspended is forgotten", i);
        }
    }
    d_actions(s, &acts);
    d_timer(s);
}

/* Contract W6 of cluster.h. */
static void d_echo(struct sim *s, uint32_t conn, const struct hsp_m_echo *m)
{
    static const uint8_t piece[HSP_ECHO_CHUNK];
    struct hsp_msg r = {.type = HSP_MSG_ECHO, .blob = piece, .u.echo.seq = m->seq};
    uint32_t left = m->back;
    do {
        r.blob_len = left < HSP_ECHO_CHUNK ? left : HSP_ECHO_CHUNK;
        left -= r.blob_len;
        r.u.echo.more = left != 0;
        sim_to_node(s, conn, SIM_E_A_MSG, sim_clone(s, &r));
    } while (left != 0);
}

static void d_msg(struct sim *s, const struct sim_ev *e)
{
    if (!s->conn_open[e->conn] || s->agent[s->conn_node[e->conn]].cut) {
        return;
    }
    const struct hsp_msg *m = e->ptr;
    s->agent[s->conn_node[e->conn]].heard_gen = s->agent[s->conn_node[e->conn]].gen;
    sim_log_msg(s, "daemon <- conn", e->conn, m);
    if (m->type == HSP_MSG_ECHO && !m->u.echo.more && hsp_cluster_measures(s->d, e->conn)) {
        d_echo(s, e->conn, &m->u.echo);
    }
    struct hsp_event ev = {.now_ms = s->now,
                           .type = HSP_EV_MSG,
                           .conn = e->conn,
                           .random = sim_digest(s),
                           .u.msg = e->ptr};
    sim_d_step(s, &ev);
}

void sim_d_event(struct sim *s, const struct sim_ev *e)
{
    struct hsp_event ev = {.now_ms = s->now, .conn = e->conn};
    if (e->gen != s->d_gen) {
        return;
    }
    switch (e->type) {
    case SIM_E_D_START: sim_d_start(s); return;
    case SIM_E_D_TICK:
        ev.type = HSP_EV_TICK;
        s->d_timer = 0;
        break;
    case SIM_E_D_MSG: d_msg(s, e); return;
    case SIM_E_D_CLOSED: ev.type = HSP_EV_CONN_CLOSED; break;
    case SIM_E_D_OPENED:
        if (!s->conn_open[e->conn]) {
            return;
        }
        if (e->num != 0) {
            sim_conn_up(s, e->conn);
        }
        ev.type = HSP_EV_CONN_OPENED;
        break;
    case SIM_E_D_STORED: sim_store_done(s, e->ptr); return;
    case SIM_E_D_PLAN: sim_plan_answer(s, e->num, e->who); return;
    case SIM_E_D_CKPTS: sim_ckpt_seen(s, e->who, e->num); return;
    case SIM_E_D_SEND:
        if (s->conn_open[e->conn]) {
            sim_to_node(s, e->conn, SIM_E_A_MSG, e->ptr);
        }
        return;
    case SIM_E_D_CLOSE:
        /* messages sent before arrive before */
        if (s->conn_open[e->conn]) {
            uint32_t node = s->conn_node[e->conn];
            s->conn_open[e->conn] = false;
            ev.type = HSP_EV_CONN_CLOSED;
            if (!s->agent[node].cut && s->agent[node].conn == e->conn) {
                sim_to_node(s, e->conn, SIM_E_A_DOWN, NULL);
            }
            break;
        }
        return;
    default: return;
    }
    sim_d_step(s, &ev);
}
