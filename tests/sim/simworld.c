/* Queue, network, processes. Device ids of the cluster use HSP_NODE_DEVICES per node; executors
 * here are node * SIM_DEVS + device, where node is the number in the name "nK". */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/arena.h"
#include "proto/base/hash.h"
#include "proto/base/vec.h"
#include "tests/sim/sim.h"

uint64_t sim_rand(struct sim *s)
{
    s->rng += 0x9e3779b97f4a7c15ull;
    return hsp_mix64(s->rng);
}

uint64_t sim_below(struct sim *s, uint64_t n)
{
    return sim_rand(s) % n;
}

void sim_fail(struct sim *s, const char *fmt, ...)
{
    if (s->failed) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(s->why, sizeof(s->why), fmt, ap);
    va_end(ap);
    s->failed = true;
}

void sim_log(struct sim *s, const char *fmt, ...)
{
    if (s->log == NULL) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    fprintf(s->log, "[%6llu] ", (unsigned long long)s->now);
    vfprintf(s->log, fmt, ap);
    fputc('\n', s->log);
    va_end(ap);
}

static void log_msg(struct sim *s, const char *what, uint32_t who, const struct hsp_msg *m)
{
    if (s->log == NULL || m->type == HSP_MSG_HEARTBEAT) {
        return;
    }
    struct hsp_buf b;
    hsp_buf_init(&b, 4096);
    hsp_msg_dump(m, &b);
    sim_log(s, "  %s %u: %s", what, who, hsp_buf_cstr(&b));
    hsp_buf_fini(&b);
}

/* ---- queue ---- */

static bool before(const struct sim_ev *a, const struct sim_ev *b)
{
    return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

void sim_push(struct sim *s, uint64_t at, struct sim_ev ev)
{
    if (!hsp_grow(&s->heap, &s->cap_heap, s->n_heap + 1, sizeof(*s->heap), 1u << 22)) {
        sim_fail(s, "the event queue is full");
        return;
    }
    ev.at = at;
    ev.seq = s->seq++;
    size_t i = s->n_heap++;
    while (i > 0 && before(&ev, &s->heap[(i - 1) / 2])) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = ev;
}

static struct sim_ev pop(struct sim *s)
{
    struct sim_ev top = s->heap[0], last = s->heap[--s->n_heap];
    size_t i = 0;
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= s->n_heap) {
            break;
        }
        if (c + 1 < s->n_heap && before(&s->heap[c + 1], &s->heap[c])) {
            c++;
        }
        if (!before(&s->heap[c], &last)) {
            break;
        }
        s->heap[i] = s->heap[c];
        i = c;
    }
    s->heap[i] = last;
    return top;
}

static const struct hsp_msg *clone(struct sim *s, const struct hsp_msg *m)
{
    struct hsp_msg *c = hsp_arena_alloc(s->arena, sizeof(*c));
    struct hsp_msg bare = *m;
    bare.blob = NULL;
    bare.blob_len = 0;
    if (c == NULL || hsp_msg_clone(&bare, s->arena, c, NULL) != HSP_OK) {
        sim_fail(s, "out of memory");
        abort();
    }
    c->blob = m->blob; /* lives in the arena of the run */
    c->blob_len = m->blob_len;
    return c;
}

static uint64_t latency(struct sim *s)
{
    return s->chaos && sim_below(s, 20) == 0 ? 1 + sim_below(s, 60) : 1 + sim_below(s, 3);
}

/* Arrival on a connection that keeps order. */
static uint64_t arrive(struct sim *s, uint64_t *last, uint64_t from)
{
    uint64_t at = from + latency(s);
    at = at < *last ? *last : at;
    *last = at;
    return at;
}

/* ---- control connections ---- */

static void conn_close(struct sim *s, uint32_t conn, bool tell_d, bool tell_a)
{
    uint32_t node = s->conn_node[conn];
    if (!s->conn_open[conn]) {
        return;
    }
    s->conn_open[conn] = false;
    if (tell_d && s->d_alive) {
        sim_push(s, s->now + latency(s),
                 (struct sim_ev){.type = SIM_E_D_CLOSED, .conn = conn, .gen = s->d_gen});
    }
    struct sim_agent *a = &s->agent[node];
    if (a->conn == conn) {
        a->conn = 0;
        if (tell_a && a->alive) {
            sim_push(
                s, s->now + latency(s),
                (struct sim_ev){.type = SIM_E_A_DOWN, .who = node, .gen = a->gen, .conn = conn});
        }
    }
}

static void a_connect(struct sim *s, uint32_t node)
{
    struct sim_agent *a = &s->agent[node];
    if (!s->d_alive || a->cut || s->n_conns + 1 >= SIM_CONNS) {
        sim_push(s, s->now + 5,
                 (struct sim_ev){.type = SIM_E_A_DOWN, .who = node, .gen = a->gen, .conn = 0});
        return;
    }
    uint32_t conn = ++s->n_conns;
    s->conn_node[conn] = node;
    s->conn_open[conn] = true;
    s->conn_last[conn][0] = s->conn_last[conn][1] = s->now;
    a->conn = conn;
    sim_push(s, arrive(s, &s->conn_last[conn][0], s->now),
             (struct sim_ev){.type = SIM_E_D_OPENED, .conn = conn, .gen = s->d_gen});
    sim_push(s, arrive(s, &s->conn_last[conn][1], s->now),
             (struct sim_ev){.type = SIM_E_A_UP, .who = node, .gen = a->gen, .conn = conn});
}

static void to_daemon(struct sim *s, uint32_t node, const struct hsp_msg *m)
{
    struct sim_agent *a = &s->agent[node];
    if (a->conn == 0 || !s->conn_open[a->conn]) {
        return;
    }
    sim_push(
        s, arrive(s, &s->conn_last[a->conn][0], s->now),
        (struct sim_ev){.type = SIM_E_D_MSG, .conn = a->conn, .gen = s->d_gen, .ptr = clone(s, m)});
}

/* ---- executors ---- */

void sim_to_agent(struct sim *s, uint32_t x, const struct hsp_msg *m)
{
    uint64_t at = s->now + sim_below(s, 2);
    at = at < s->pipe_last[x][0] ? s->pipe_last[x][0] : at;
    s->pipe_last[x][0] = at;
    sim_push(s, at,
             (struct sim_ev){.type = SIM_E_A_EXEC,
                             .who = x,
                             .gen = s->agent[x / SIM_DEVS].gen,
                             .num = s->exec[x].gen,
                             .ptr = clone(s, m)});
}

void sim_to_exec(struct sim *s, uint32_t x, struct sim_data d)
{
    sim_push(s, arrive(s, &s->data_last[x][d.to], s->now),
             (struct sim_ev){.type = SIM_E_X_DATA, .who = d.to, .gen = d.to_gen, .data = d});
}

static void a_exec_gone(struct sim *s, uint32_t x)
{
    uint64_t at = s->now + 1 < s->pipe_last[x][0] ? s->pipe_last[x][0] : s->now + 1;
    sim_push(s, at,
             (struct sim_ev){.type = SIM_E_A_EXIT, .who = x, .gen = s->agent[x / SIM_DEVS].gen});
}

/* ---- agents ---- */

static void a_step(struct sim *s, uint32_t node, struct hsp_agent_event ev);

static void a_scan(struct sim *s, uint32_t node, uint64_t scan)
{
    struct hsp_m_holding h[SIM_DEVS * SIM_SEGS];
    uint32_t n = 0;
    for (uint32_t d = 0; d < s->n_devs; d++) {
        const struct sim_exec *e = &s->exec[node * SIM_DEVS + d];
        for (uint32_t i = 0; i < e->n_seg; i++) {
            const struct sim_seg *g = &e->seg[i];
            h[n++] = (struct hsp_m_holding){g->job, d, g->plan, g->rank, g->owner, g->version};
        }
    }
    struct hsp_agent_event ev = {.type = HSP_AEV_SCANNED, .scan = scan, .n = n, .holdings = h};
    a_step(s, node, ev);
}

static void a_actions(struct sim *s, uint32_t node, const struct hsp_agent_actions *acts)
{
    struct sim_agent *a = &s->agent[node];
    for (uint32_t i = 0; i < acts->n && a->alive; i++) {
        const struct hsp_agent_action *x = &acts->item[i];
        uint32_t id = node * SIM_DEVS + x->device;
        switch (x->type) {
        case HSP_AACT_CONNECT: a_connect(s, node); break;
        case HSP_AACT_DISCONNECT:
            if (a->conn != 0) {
                conn_close(s, a->conn, !a->cut, true);
            } else {
                sim_push(s, s->now,
                         (struct sim_ev){.type = SIM_E_A_DOWN, .who = node, .gen = a->gen});
            }
            break;
        case HSP_AACT_SEND: to_daemon(s, node, x->msg); break;
        case HSP_AACT_SEND_EXEC: {
            uint64_t at = s->now + sim_below(s, 2);
            at = at < s->pipe_last[id][1] ? s->pipe_last[id][1] : at;
            s->pipe_last[id][1] = at;
            sim_push(s, at,
                     (struct sim_ev){.type = SIM_E_X_MSG,
                                     .who = id,
                                     .gen = s->exec[id].gen,
                                     .ptr = clone(s, x->msg)});
            break;
        }
        case HSP_AACT_SPAWN:
            if (s->exec[id].alive) {
                sim_fail(s, "executor %u is spawned while it lives", id);
                break;
            }
            s->exec[id].alive = true;
            sim_push(s, s->now + 20 + sim_below(s, 60),
                     (struct sim_ev){.type = SIM_E_X_START, .who = id, .gen = s->exec[id].gen});
            break;
        case HSP_AACT_KILL:
            if (s->exec[id].alive) {
                sim_x_die(s, id, false);
                a_exec_gone(s, id);
            }
            break;
        case HSP_AACT_SCAN:
            sim_push(s, s->now + 1,
                     (struct sim_ev){
                         .type = SIM_E_A_SCANNED, .who = node, .gen = a->gen, .num = x->scan});
            break;
        case HSP_AACT_DISCARD: sim_x_discard(s, id, x->job, x->keep_plan); break;
        case HSP_AACT_LOG: sim_log(s, "  n%u: %s", node, x->text); break;
        case HSP_AACT_EXIT:
            sim_log(s, "  n%u exits: %s", node, x->text);
            a->alive = false;
            a->gen++;
            if (a->conn != 0) {
                conn_close(s, a->conn, true, false);
            }
            sim_push(s, s->now + 2000 + sim_below(s, 3000),
                     (struct sim_ev){.type = SIM_E_A_START, .who = node, .gen = a->gen});
            break;
        }
    }
}

static void a_step(struct sim *s, uint32_t node, struct hsp_agent_event ev)
{
    struct sim_agent *a = &s->agent[node];
    struct hsp_agent_actions acts;
    struct hsp_err err = {0};
    ev.now_ms = s->now;
    if (hsp_agent_step(a->core, &ev, &acts, &err) != HSP_OK) {
        sim_fail(s, "agent n%u: %s", node, err.msg);
        return;
    }
    hsp_agent_check(a->core);
    a_actions(s, node, &acts);
    if (!a->alive) {
        return;
    }
    uint64_t t = hsp_agent_deadline(a->core);
    if (t != UINT64_MAX && (a->timer <= s->now || t < a->timer)) {
        a->timer = t > s->now ? t : s->now + 1;
        sim_push(s, a->timer, (struct sim_ev){.type = SIM_E_A_TICK, .who = node, .gen = a->gen});
    }
}

void sim_start_node(struct sim *s, uint32_t node)
{
    struct sim_agent *a = &s->agent[node];
    struct hsp_agent_config cfg;
    struct hsp_m_device dev[SIM_DEVS];
    char name[16];
    (void)snprintf(name, sizeof(name), "n%u", node);
    hsp_agent_defaults(&cfg);
    for (uint32_t i = 0; i < s->n_devs; i++) {
        dev[i] = (struct hsp_m_device){
            .index = i, .kind = "cpu", .speed = 1, .mem_bytes = 1u << 30, .address = ""};
    }
    cfg.node = name;
    cfg.address = name;
    cfg.devices = dev;
    cfg.n_devices = s->n_devs;
    hsp_agent_free(a->core);
    a->core = hsp_agent_new(&cfg);
    a->alive = true;
    a->paused = false;
    a->leaving = false;
    a->conn = 0;
    a->timer = 0;
    a_step(s, node, (struct hsp_agent_event){.type = HSP_AEV_START});
}

/* ---- coordinator ---- */

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

struct pending_store { /* of an action, until it is durable */
    enum hsp_action_type type;
    char key[64];
    void *value;
    uint32_t len, job;
    uint64_t plan;
};

static void store_done(struct sim *s, const struct pending_store *p)
{
    struct sim_plan *plan = sim_plan_get(s, p->job, p->plan);
    switch (p->type) {
    case HSP_ACT_STORE: row_put(s, p->key, p->value, p->len); break;
    case HSP_ACT_ERASE: row_erase(s, p->key); break;
    case HSP_ACT_KEEP_PLAN:
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
    struct pending_store *p = hsp_arena_alloc(s->arena, sizeof(*p));
    p->type = a->type;
    p->job = a->job;
    p->plan = a->plan_no;
    if (a->key != NULL) {
        (void)snprintf(p->key, sizeof(p->key), "%s", a->key);
    }
    p->value = a->len != 0 ? hsp_arena_memdup(s->arena, a->value, a->len) : NULL;
    p->len = a->len;
    uint64_t takes = sim_below(s, 3) != 0 ? 0 : 1 + sim_below(s, s->chaos ? 6 : 1);
    s->store_at = (s->store_at > s->now ? s->store_at : s->now) + takes;
    if (s->chaos && s->permille != 0 && sim_below(s, 4000) < s->permille) {
        sim_push(s, s->now + sim_below(s, takes + 3),
                 (struct sim_ev){.type = SIM_E_CALL, .num = 3});
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

static void forget_ticket(struct sim *s, uint64_t ticket)
{
    for (uint32_t i = 0; i < SIM_PLANS; i++) {
        if (s->plans[i].used && s->plans[i].ticket == ticket && s->plans[i].plan == 0) {
            s->plans[i].used = false;
        }
    }
}

static void trace_fact(struct sim *s, const struct hsp_fact *f)
{
    sim_log(s, "%s job %u node %s epoch %llu: %s%s%s", f->type, f->job, f->node,
            (unsigned long long)f->epoch, f->reason, f->cause[0] != '\0' ? ", cause: " : "",
            f->cause);
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
        m.blob = (const uint8_t *)sim_prep_make(s, &m.u.prepare, a->u.prepare);
        m.blob_len = sizeof(struct sim_prep);
    }
    if (m.type == HSP_MSG_PREPARE || m.type == HSP_MSG_ARM || m.type == HSP_MSG_START ||
        m.type == HSP_MSG_SEAL || m.type == HSP_MSG_RELEASE) {
        maybe_fault(s);
    }
    if (a->conn == 0 || a->conn > s->n_conns) {
        sim_fail(s, "an action names connection %u, which never was", a->conn); /* S5 */
        return;
    }
    /* leaves when every row before it is durable */
    uint64_t at = s->store_at > s->now ? s->store_at : s->now;
    sim_push(s, at,
             (struct sim_ev){
                 .type = SIM_E_D_SEND, .conn = a->conn, .gen = s->d_gen, .ptr = clone(s, &m)});
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
        case HSP_ACT_PREPARE: d_send(s, a); break;
        case HSP_ACT_CLOSE:
            sim_push(s, s->store_at > s->now ? s->store_at : s->now,
                     (struct sim_ev){.type = SIM_E_D_CLOSE, .conn = a->conn, .gen = s->d_gen});
            break;
        case HSP_ACT_KEEP_PLAN:
            keep_plan(s, a);
            d_store(s, a);
            break;
        case HSP_ACT_STORE:
        case HSP_ACT_ERASE:
        case HSP_ACT_DROP_PLAN: d_store(s, a); break;
        case HSP_ACT_START_PLAN:
            s->job[a->job].ticket = a->ticket;
            sim_plan_make(s, a->u.plan);
            sim_push(s, s->now + 1 + sim_below(s, a->u.plan->urgent ? 10 : 100),
                     (struct sim_ev){
                         .type = SIM_E_D_PLAN, .gen = s->d_gen, .num = a->ticket, .who = a->job});
            break;
        case HSP_ACT_CANCEL_PLAN: forget_ticket(s, a->ticket); break;
        case HSP_ACT_REPLY:
            sim_log(s, "reply %d %s", (int)a->status, a->text);
            s->job[a->job <= SIM_JOBS ? a->job : 0].known = true;
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
    if (hsp_cluster_step(s->d, ev, &acts, &err) != HSP_OK) {
        sim_fail(s, "coordinator: %s", err.msg);
        return;
    }
    hsp_cluster_check(s->d);
    d_actions(s, &acts);
    d_timer(s);
}

static void d_start(struct sim *s)
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
    d_actions(s, &acts);
    d_timer(s);
}

/* ---- faults ---- */

void sim_kill_exec(struct sim *s, uint32_t x)
{
    sim_log(s, "! kill executor %u", x);
    if (s->exec[x].alive) {
        sim_x_die(s, x, false);
        a_exec_gone(s, x);
    }
}

static void drop_inbox(struct sim *s, uint32_t node)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_inbox; i++) {
        const struct sim_ev *e = &s->inbox[i];
        bool of_exec = e->type == SIM_E_X_MSG || e->type == SIM_E_X_DATA ||
                       e->type == SIM_E_X_TIMER || e->type == SIM_E_X_BEAT ||
                       e->type == SIM_E_A_EXEC || e->type == SIM_E_A_EXIT;
        if ((of_exec ? e->who / SIM_DEVS : e->who) != node) {
            s->inbox[n++] = *e;
        }
    }
    s->n_inbox = (uint32_t)n;
}

static void agent_gone(struct sim *s, uint32_t node, uint64_t restart_ms, bool silent)
{
    struct sim_agent *a = &s->agent[node];
    if (!a->alive) {
        return;
    }
    for (uint32_t d = 0; d < s->n_devs; d++) {
        sim_x_die(s, node * SIM_DEVS + d, silent);
    }
    a->alive = false;
    a->paused = false;
    a->gen++;
    drop_inbox(s, node);
    if (a->conn != 0) {
        conn_close(s, a->conn, !silent && !a->cut, false);
    }
    sim_push(s, s->now + restart_ms,
             (struct sim_ev){.type = SIM_E_A_START, .who = node, .gen = a->gen});
}

void sim_kill_agent(struct sim *s, uint32_t node, uint64_t restart_ms)
{
    sim_log(s, "! kill agent n%u", node);
    agent_gone(s, node, restart_ms, false);
}

void sim_crash_node(struct sim *s, uint32_t node, uint64_t restart_ms)
{
    sim_log(s, "! crash node n%u", node);
    agent_gone(s, node, restart_ms, true);
    sim_node_lost(s, node);
}

void sim_kill_daemon(struct sim *s, uint64_t restart_ms)
{
    sim_log(s, "! kill the coordinator");
    if (!s->d_alive) {
        return;
    }
    s->d_alive = false;
    /* of the rows being written a prefix is durable */
    struct sim_ev *pending[512];
    uint32_t n = 0;
    for (size_t i = 0; i < s->n_heap; i++) {
        if (s->heap[i].type == SIM_E_D_STORED && s->heap[i].gen == s->d_gen && n < 512) {
            uint32_t at = n++;
            for (; at > 0 && s->heap[i].seq < pending[at - 1]->seq; at--) {
                pending[at] = pending[at - 1];
            }
            pending[at] = &s->heap[i];
        }
    }
    uint64_t keep = sim_below(s, n + 1);
    for (uint64_t i = 0; i < keep; i++) {
        store_done(s, pending[i]->ptr);
    }
    s->d_gen++;
    for (uint32_t i = 0; i < SIM_PLANS; i++) {
        s->plans[i].used = s->plans[i].used && s->plans[i].durable;
        s->plans[i].ticket = 0; /* tickets are of one process */
    }
    for (uint32_t i = 1; i <= s->n_conns; i++) {
        conn_close(s, i, false, !s->agent[s->conn_node[i]].cut);
    }
    sim_push(s, s->now + restart_ms, (struct sim_ev){.type = SIM_E_D_START, .gen = s->d_gen});
}

void sim_pause_agent(struct sim *s, uint32_t node, uint64_t ms)
{
    sim_log(s, "! stop agent n%u for %llu ms", node, (unsigned long long)ms);
    if (s->agent[node].alive && !s->agent[node].paused) {
        s->agent[node].paused = true;
        sim_push(s, s->now + ms,
                 (struct sim_ev){.type = SIM_E_RESUME_A, .who = node, .gen = s->agent[node].gen});
    }
}

void sim_pause_exec(struct sim *s, uint32_t x, uint64_t ms)
{
    sim_log(s, "! stop executor %u for %llu ms", x, (unsigned long long)ms);
    if (s->exec[x].alive && !s->exec[x].paused) {
        s->exec[x].paused = true;
        sim_push(s, s->now + ms,
                 (struct sim_ev){.type = SIM_E_RESUME_X, .who = x, .gen = s->exec[x].gen});
    }
}

void sim_reset_control(struct sim *s, uint32_t node)
{
    sim_log(s, "! reset control connection of n%u", node);
    if (s->agent[node].conn != 0) {
        conn_close(s, s->agent[node].conn, true, true);
    }
}

void sim_reset_data(struct sim *s, uint32_t a, uint32_t b)
{
    sim_log(s, "! reset data connection %u-%u", a, b);
    uint32_t pair[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        struct sim_exec *e = &s->exec[pair[i]];
        const struct sim_run *runs[2] = {&e->cur, &e->next};
        for (int k = 0; e->alive && k < 2; k++) {
            for (uint32_t p = 0; runs[k]->epoch != 0 && p < runs[k]->p.n_peers; p++) {
                if (runs[k]->p.exec[p] == pair[1 - i] && pair[0] != pair[1]) {
                    struct sim_data d = {.kind = SIM_D_BREAK,
                                         .to = pair[i],
                                         .to_gen = e->gen,
                                         .rank = p,
                                         .job = runs[k]->job,
                                         .epoch = runs[k]->epoch};
                    sim_push(s, s->now + latency(s),
                             (struct sim_ev){
                                 .type = SIM_E_X_DATA, .who = pair[i], .gen = e->gen, .data = d});
                }
            }
        }
    }
}

void sim_cut(struct sim *s, uint32_t node, uint64_t ms)
{
    sim_log(s, "! cut control network of n%u for %llu ms", node, (unsigned long long)ms);
    if (!s->agent[node].cut) {
        s->agent[node].cut = true;
        sim_push(s, s->now + ms, (struct sim_ev){.type = SIM_E_HEAL_CUT, .who = node});
    }
}

void sim_leave(struct sim *s, uint32_t node)
{
    struct sim_agent *a = &s->agent[node];
    sim_log(s, "! SIGTERM to n%u", node);
    if (a->alive && !a->paused && !a->leaving) {
        a->leaving = true;
        a_step(s, node, (struct hsp_agent_event){.type = HSP_AEV_LEAVE, .text = "SIGTERM"});
    }
}

void sim_admin(struct sim *s, struct hsp_admin_event a)
{
    a.actor = "test";
    if (s->d_alive) {
        struct hsp_event ev = {.now_ms = s->now, .type = HSP_EV_ADMIN, .u.admin = a};
        sim_d_step(s, &ev);
    }
}

void sim_submit(struct sim *s, const char *name, int32_t prio, uint32_t min, uint32_t max,
                uint64_t steps, uint64_t ckpt_every)
{
    sim_admin(s, (struct hsp_admin_event){.verb = HSP_ADMIN_SUBMIT,
                                          .spec = {.name = name,
                                                   .priority = prio,
                                                   .min = min,
                                                   .max = max,
                                                   .copies = 2,
                                                   .steps = steps,
                                                   .checkpoint_every = ckpt_every}});
}

/* ---- the loop ---- */

static bool stopped(struct sim *s, const struct sim_ev *e)
{
    const struct sim_agent *a = NULL;
    switch (e->type) {
    case SIM_E_A_TICK:
    case SIM_E_A_MSG:
    case SIM_E_A_UP:
    case SIM_E_A_DOWN:
    case SIM_E_A_SCANNED: a = &s->agent[e->who]; break;
    case SIM_E_A_EXEC:
    case SIM_E_A_EXIT: a = &s->agent[e->who / SIM_DEVS]; break;
    case SIM_E_X_MSG:
    case SIM_E_X_DATA:
    case SIM_E_X_TIMER:
    case SIM_E_X_BEAT:
        return s->exec[e->who].alive && s->exec[e->who].paused && s->exec[e->who].gen == e->gen;
    default: return false;
    }
    return a->alive && a->paused && a->gen == e->gen;
}

static void dispatch(struct sim *s, const struct sim_ev *e);

static void resume(struct sim *s)
{
    uint32_t n = s->n_inbox;
    struct sim_ev *all = s->inbox;
    s->inbox = NULL;
    s->n_inbox = 0;
    s->cap_inbox = 0;
    for (uint32_t i = 0; i < n; i++) {
        dispatch(s, &all[i]); /* those of processes still stopped go back in */
    }
    free(all);
}

static void d_msg(struct sim *s, const struct sim_ev *e)
{
    if (!s->conn_open[e->conn] || s->agent[s->conn_node[e->conn]].cut) {
        return;
    }
    log_msg(s, "daemon <- conn", e->conn, e->ptr);
    struct hsp_event ev = {.now_ms = s->now, .type = HSP_EV_MSG, .conn = e->conn, .u.msg = e->ptr};
    sim_d_step(s, &ev);
}

static void of_daemon(struct sim *s, const struct sim_ev *e)
{
    struct hsp_event ev = {.now_ms = s->now, .conn = e->conn};
    if (e->gen != s->d_gen) {
        return;
    }
    switch (e->type) {
    case SIM_E_D_START: d_start(s); return;
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
        ev.type = HSP_EV_CONN_OPENED;
        break;
    case SIM_E_D_STORED: store_done(s, e->ptr); return;
    case SIM_E_D_PLAN: sim_plan_answer(s, e->num, e->who); return;
    case SIM_E_D_SEND:
        if (s->conn_open[e->conn]) {
            uint32_t node = s->conn_node[e->conn];
            sim_push(s, arrive(s, &s->conn_last[e->conn][1], s->now),
                     (struct sim_ev){.type = SIM_E_A_MSG,
                                     .who = node,
                                     .gen = s->agent[node].gen,
                                     .conn = e->conn,
                                     .ptr = e->ptr});
        }
        return;
    case SIM_E_D_CLOSE:
        /* what was sent before arrives before */
        if (s->conn_open[e->conn]) {
            uint32_t node = s->conn_node[e->conn];
            s->conn_open[e->conn] = false;
            ev.type = HSP_EV_CONN_CLOSED;
            if (!s->agent[node].cut && s->agent[node].conn == e->conn) {
                sim_push(s, arrive(s, &s->conn_last[e->conn][1], s->now),
                         (struct sim_ev){.type = SIM_E_A_DOWN,
                                         .who = node,
                                         .gen = s->agent[node].gen,
                                         .conn = e->conn});
            }
            break;
        }
        return;
    default: return;
    }
    sim_d_step(s, &ev);
}

static void of_agent(struct sim *s, const struct sim_ev *e)
{
    bool exec = e->type == SIM_E_A_EXEC || e->type == SIM_E_A_EXIT;
    uint32_t node = exec ? e->who / SIM_DEVS : e->who;
    struct sim_agent *a = &s->agent[node];
    struct hsp_agent_event ev = {.device = e->who % SIM_DEVS, .msg = e->ptr};
    if (e->gen != a->gen) {
        return;
    }
    switch (e->type) {
    case SIM_E_A_START:
        if (!a->alive) {
            sim_start_node(s, node);
        }
        return;
    case SIM_E_A_TICK:
        ev.type = HSP_AEV_TICK;
        a->timer = 0;
        break;
    case SIM_E_A_MSG:
        if (a->conn != e->conn || a->cut) {
            return;
        }
        log_msg(s, "agent", node, e->ptr);
        ev.type = HSP_AEV_DAEMON_MSG;
        break;
    case SIM_E_A_UP:
        if (a->conn != e->conn) {
            return;
        }
        ev.type = HSP_AEV_CONN_UP;
        break;
    case SIM_E_A_DOWN:
        if (e->conn != 0 && a->conn == e->conn) {
            a->conn = 0;
        }
        ev.type = HSP_AEV_CONN_DOWN;
        break;
    case SIM_E_A_EXEC:
        log_msg(s, "agent <- exec", e->who, e->ptr);
        ev.type = HSP_AEV_EXEC_MSG;
        break;
    case SIM_E_A_EXIT:
        ev.type = HSP_AEV_EXEC_EXIT;
        ev.text = "signal 9";
        break;
    case SIM_E_A_SCANNED: a_scan(s, node, e->num); return;
    default: return;
    }
    a_step(s, node, ev);
}

static void of_exec(struct sim *s, const struct sim_ev *e)
{
    struct sim_exec *x = &s->exec[e->who];
    if (e->gen != x->gen || !x->alive) {
        if (e->type == SIM_E_X_DATA && e->data.kind == SIM_D_CONN) {
            /* nobody listens there any more: the caller sees it, if its node answers at all */
            struct sim_exec *from = &s->exec[e->data.from];
            for (uint32_t i = 0; from->next.epoch == e->data.epoch && i < from->next.p.n_peers;
                 i++) {
                if (from->next.p.exec[i] == e->who && s->agent[e->who / SIM_DEVS].alive) {
                    struct sim_data d = {
                        .kind = SIM_D_BREAK, .rank = i, .job = e->data.job, .epoch = e->data.epoch};
                    sim_push(s, s->now + latency(s),
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
    case SIM_E_X_START: sim_x_start(s, e->who); break;
    case SIM_E_X_MSG:
        if (((const struct hsp_msg *)e->ptr)->type == HSP_MSG_SEAL && e->num == 0 &&
            sim_below(s, 2) == 0) { /* threads and streams take their time to stop */
            struct sim_ev later = *e;
            later.num = 1;
            sim_push(s, s->now + 1 + sim_below(s, 10), later);
        } else if (x->up) {
            sim_x_msg(s, e->who, e->ptr);
        }
        break;
    case SIM_E_X_DATA:
        if (x->up) {
            sim_x_data(s, e->who, &e->data);
        }
        break;
    case SIM_E_X_TIMER: sim_x_timer(s, e->who, e->num); break;
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

/* What was sent meanwhile is lost, so the connection is reset. */
static void heal_cut(struct sim *s, uint32_t node)
{
    struct sim_agent *a = &s->agent[node];
    a->cut = false;
    if (a->conn != 0 && s->conn_open[a->conn]) {
        conn_close(s, a->conn, true, true);
    } else if (a->conn != 0 && a->alive) {
        sim_push(
            s, s->now + 1,
            (struct sim_ev){.type = SIM_E_A_DOWN, .who = node, .gen = a->gen, .conn = a->conn});
    }
}

static void dispatch(struct sim *s, const struct sim_ev *e)
{
    if (stopped(s, e)) {
        if (!hsp_grow(&s->inbox, &s->cap_inbox, (size_t)s->n_inbox + 1, sizeof(*s->inbox),
                      1u << 20)) {
            sim_fail(s, "the inbox is full");
            return;
        }
        s->inbox[s->n_inbox++] = *e;
        return;
    }
    switch (e->type) {
    case SIM_E_D_TICK:
    case SIM_E_D_MSG:
    case SIM_E_D_CLOSED:
    case SIM_E_D_OPENED:
    case SIM_E_D_STORED:
    case SIM_E_D_PLAN:
    case SIM_E_D_SEND:
    case SIM_E_D_CLOSE:
    case SIM_E_D_START: of_daemon(s, e); break;
    case SIM_E_A_TICK:
    case SIM_E_A_MSG:
    case SIM_E_A_UP:
    case SIM_E_A_DOWN:
    case SIM_E_A_START:
    case SIM_E_A_EXEC:
    case SIM_E_A_EXIT:
    case SIM_E_A_SCANNED: of_agent(s, e); break;
    case SIM_E_X_START:
    case SIM_E_X_MSG:
    case SIM_E_X_DATA:
    case SIM_E_X_TIMER:
    case SIM_E_X_BEAT: of_exec(s, e); break;
    case SIM_E_RESUME_A:
        if (s->agent[e->who].gen == e->gen) {
            s->agent[e->who].paused = false;
            resume(s);
        }
        break;
    case SIM_E_RESUME_X:
        if (s->exec[e->who].gen == e->gen) {
            s->exec[e->who].paused = false;
            resume(s);
        }
        break;
    case SIM_E_HEAL_CUT: heal_cut(s, e->who); break;
    case SIM_E_FAULT:
    case SIM_E_CALL:
        if (s->call != NULL) {
            s->call(s, e->type == SIM_E_FAULT ? UINT64_MAX : e->num);
        }
        break;
    }
}

bool sim_run(struct sim *s, uint64_t until, bool (*pred)(struct sim *))
{
    while (!s->failed && s->n_heap > 0 && s->heap[0].at <= until) {
        if (pred != NULL && pred(s)) {
            return true;
        }
        struct sim_ev e = pop(s);
        s->now = e.at > s->now ? e.at : s->now;
        s->events++;
        dispatch(s, &e);
    }
    if (!s->failed && s->now < until && pred == NULL) {
        s->now = until;
    }
    return !s->failed && (pred == NULL || pred(s));
}

void sim_init(struct sim *s, uint64_t seed, uint32_t n_nodes, uint32_t n_devs)
{
    struct hsp_arena *arena = s->arena;
    struct sim_ev *heap = s->heap;
    size_t cap = s->cap_heap;
    memset(s, 0, sizeof(*s));
    s->arena = arena != NULL ? arena : hsp_arena_new((size_t)1 << 32);
    hsp_arena_reset(s->arena);
    s->heap = heap;
    s->cap_heap = cap;
    s->seed = seed;
    s->rng = hsp_mix64(seed + 77);
    s->n_nodes = n_nodes;
    s->n_devs = n_devs;
    hsp_cluster_defaults(3000, &s->cfg);
    s->cfg.prepare_ms = 5000;
    s->cfg.state_wait_ms = 30000;
    s->cfg.max_failures = 200;
    hsp_buf_init(&s->trace, 1u << 20);
    d_start(s);
    for (uint32_t i = 0; i < n_nodes; i++) {
        sim_push(s, sim_below(s, 50), (struct sim_ev){.type = SIM_E_A_START, .who = i});
    }
}

void sim_fini(struct sim *s)
{
    s->d = hsp_cluster_free(s->d);
    for (uint32_t i = 0; i < SIM_NODES; i++) {
        s->agent[i].core = hsp_agent_free(s->agent[i].core);
    }
    for (uint32_t i = 0; i < s->n_rows; i++) {
        free(s->rows[i].value);
    }
    free(s->inbox);
    s->inbox = NULL;
    hsp_buf_fini(&s->trace);
}
