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
    if (s->log == NULL || m->type == HSP_MSG_HEARTBEAT || m->type == HSP_MSG_ECHO) {
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

const struct hsp_msg *sim_clone(struct sim *s, const struct hsp_msg *m)
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

uint64_t sim_latency(struct sim *s)
{
    return s->chaos && sim_below(s, 20) == 0 ? 1 + sim_below(s, 60) : 1 + sim_below(s, 3);
}

/* Arrival on a connection that keeps order. */
static uint64_t arrive(struct sim *s, uint64_t *last, uint64_t from)
{
    uint64_t at = from + sim_latency(s);
    at = at < *last ? *last : at;
    *last = at;
    return at;
}

/* ---- control connections ---- */

void sim_conn_close(struct sim *s, uint32_t conn, bool tell_d, bool tell_a)
{
    uint32_t node = s->conn_node[conn];
    if (!s->conn_open[conn]) {
        return;
    }
    s->conn_open[conn] = false;
    if (tell_d && s->d_alive) {
        sim_push(s, s->now + sim_latency(s),
                 (struct sim_ev){.type = SIM_E_D_CLOSED, .conn = conn, .gen = s->d_gen});
    }
    struct sim_agent *a = &s->agent[node];
    if (a->conn == conn) {
        a->conn = 0;
        if ((tell_a || a->dialing) && a->alive) { /* a handshake has a time limit */
            sim_push(
                s, s->now + sim_latency(s),
                (struct sim_ev){.type = SIM_E_A_DOWN, .who = node, .gen = a->gen, .conn = conn});
        }
    }
}

static void a_up(struct sim *s, uint32_t conn)
{
    uint32_t node = s->conn_node[conn];
    s->agent[node].dialing = false;
    sim_push(
        s, arrive(s, &s->conn_last[conn][1], s->now),
        (struct sim_ev){.type = SIM_E_A_UP, .who = node, .gen = s->agent[node].gen, .conn = conn});
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
    sim_push(
        s, arrive(s, &s->conn_last[conn][0], s->now),
        (struct sim_ev){.type = SIM_E_D_OPENED, .conn = conn, .gen = s->d_gen, .num = s->d_paused});
    a->dialing = s->d_paused;
    if (!a->dialing) {
        a_up(s, conn);
    }
}

static void to_daemon(struct sim *s, uint32_t node, const struct hsp_msg *m)
{
    struct sim_agent *a = &s->agent[node];
    if (a->conn == 0 || !s->conn_open[a->conn]) {
        return;
    }
    sim_push(s, arrive(s, &s->conn_last[a->conn][0], s->now),
             (struct sim_ev){
                 .type = SIM_E_D_MSG, .conn = a->conn, .gen = s->d_gen, .ptr = sim_clone(s, m)});
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
                             .ptr = sim_clone(s, m)});
}

void sim_to_exec(struct sim *s, uint32_t x, struct sim_data d)
{
    sim_push(s, arrive(s, &s->data_last[x][d.to], s->now),
             (struct sim_ev){.type = SIM_E_X_DATA, .who = d.to, .gen = d.to_gen, .data = d});
}

void sim_exec_gone(struct sim *s, uint32_t x)
{
    uint64_t at = s->now + 1 < s->pipe_last[x][0] ? s->pipe_last[x][0] : s->now + 1;
    sim_push(s, at,
             (struct sim_ev){.type = SIM_E_A_EXIT, .who = x, .gen = s->agent[x / SIM_DEVS].gen});
}

/* ---- agents ---- */

static void a_scan(struct sim *s, uint32_t node, uint64_t scan)
{
    struct hsp_m_holding h[SIM_DEVS * SIM_SEGS];
    uint32_t n = 0;
    for (uint32_t d = 0; d < s->n_devs + s->n_keep; d++) {
        const struct sim_exec *e = &s->exec[node * SIM_DEVS + d];
        for (uint32_t i = 0; i < e->n_seg; i++) {
            const struct sim_seg *g = &e->seg[i];
            h[n++] = (struct hsp_m_holding){g->job, d, g->plan, g->rank, g->owner, g->version};
        }
    }
    struct hsp_agent_event ev = {.type = HSP_AEV_SCANNED, .scan = scan, .n = n, .holdings = h};
    sim_a_step(s, node, ev);
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
                sim_conn_close(s, a->conn, !a->cut, true);
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
                                     .ptr = sim_clone(s, x->msg)});
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
                sim_exec_gone(s, id);
            }
            break;
        case HSP_AACT_SCAN:
            sim_push(s, s->now + 1,
                     (struct sim_ev){
                         .type = SIM_E_A_SCANNED, .who = node, .gen = a->gen, .num = x->scan});
            break;
        case HSP_AACT_DISCARD: sim_x_discard(s, id, x->job, x->keep_plan); break;
        case HSP_AACT_CHECK: sim_shell_order(s, node, &x->msg->u.check); break;
        case HSP_AACT_CHECK_STOP: sim_shell_stop(s, node); break;
        case HSP_AACT_LOG: sim_log(s, "  n%u: %s", node, x->text); break;
        case HSP_AACT_EXIT:
            sim_log(s, "  n%u exits: %s", node, x->text);
            a->alive = false;
            a->gen++;
            if (a->conn != 0) {
                sim_conn_close(s, a->conn, true, false);
            }
            sim_push(s, s->now + 2000 + sim_below(s, 3000),
                     (struct sim_ev){.type = SIM_E_A_START, .who = node, .gen = a->gen});
            break;
        }
    }
}

void sim_a_step(struct sim *s, uint32_t node, struct hsp_agent_event ev)
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
    for (uint32_t i = 0; i < s->n_devs + s->n_keep; i++) {
        dev[i] = (struct hsp_m_device){.index = i,
                                       .kind = i < s->n_devs ? "cpu" : HSP_KIND_KEEPER,
                                       .speed = 1,
                                       .mem_bytes = 1u << 30,
                                       .address = ""};
    }
    cfg.node = name;
    cfg.address = name;
    cfg.devices = dev;
    cfg.n_devices = s->n_devs + s->n_keep;
    hsp_agent_free(a->core);
    a->core = hsp_agent_new(&cfg);
    a->alive = true;
    a->paused = false;
    a->leaving = a->dialing = false;
    a->conn = 0;
    a->timer = 0;
    a->check = (struct sim_shell){0};
    sim_a_step(s, node, (struct hsp_agent_event){.type = HSP_AEV_START});
}

/* ---- the loop ---- */

static bool stopped(struct sim *s, const struct sim_ev *e)
{
    const struct sim_agent *a = NULL;
    switch (e->type) {
    case SIM_E_D_TICK: /* what is being written will be */
    case SIM_E_D_MSG:
    case SIM_E_D_CLOSED:
    case SIM_E_D_OPENED:
    case SIM_E_D_PLAN:
    case SIM_E_D_SEND:
    case SIM_E_D_CLOSE: return s->d_paused && s->d_gen == e->gen;
    case SIM_E_A_TICK:
    case SIM_E_A_MSG:
    case SIM_E_A_UP:
    case SIM_E_A_DOWN:
    case SIM_E_A_CHECKED:
    case SIM_E_A_SCANNED: a = &s->agent[e->who]; break;
    case SIM_E_A_EXEC:
    case SIM_E_A_EXIT: a = &s->agent[e->who / SIM_DEVS]; break;
    case SIM_E_X_MSG:
    case SIM_E_X_DATA:
    case SIM_E_X_TIMER:
    case SIM_E_X_CKPT:
    case SIM_E_X_LATE:
    case SIM_E_X_BUILT:
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

static void daemon_goes_on(struct sim *s)
{
    s->d_paused = false;
    s->d_resumed_ms = s->now;
    s->checks.until += s->now - s->d_stopped_ms;
    resume(s);
    s->d_timer = s->now;
    sim_push(s, s->now, (struct sim_ev){.type = SIM_E_D_TICK, .gen = s->d_gen});
}

/* Contract W6 of cluster.h. */
static void d_echo(struct sim *s, uint32_t conn, const struct hsp_m_echo *m)
{
    static const uint8_t piece[HSP_ECHO_CHUNK];
    struct hsp_msg r = {.type = HSP_MSG_ECHO, .blob = piece, .u.echo.seq = m->seq};
    uint32_t left = m->back, node = s->conn_node[conn];
    do {
        r.blob_len = left < HSP_ECHO_CHUNK ? left : HSP_ECHO_CHUNK;
        left -= r.blob_len;
        r.u.echo.more = left != 0;
        sim_push(s, arrive(s, &s->conn_last[conn][1], s->now),
                 (struct sim_ev){.type = SIM_E_A_MSG,
                                 .who = node,
                                 .gen = s->agent[node].gen,
                                 .conn = conn,
                                 .ptr = sim_clone(s, &r)});
    } while (left != 0);
}

static void d_msg(struct sim *s, const struct sim_ev *e)
{
    if (!s->conn_open[e->conn] || s->agent[s->conn_node[e->conn]].cut) {
        return;
    }
    const struct hsp_msg *m = e->ptr;
    s->agent[s->conn_node[e->conn]].heard_gen = s->agent[s->conn_node[e->conn]].gen;
    log_msg(s, "daemon <- conn", e->conn, m);
    if (m->type == HSP_MSG_ECHO && !m->u.echo.more && hsp_cluster_measures(s->d, e->conn)) {
        d_echo(s, e->conn, &m->u.echo);
    }
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
            a_up(s, e->conn);
        }
        ev.type = HSP_EV_CONN_OPENED;
        break;
    case SIM_E_D_STORED: sim_store_done(s, e->ptr); return;
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
    case SIM_E_A_CHECKED: sim_shell_done(s, node, e->num); return;
    default: return;
    }
    sim_a_step(s, node, ev);
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
    case SIM_E_X_CKPT: sim_ckpt_done(s, e->who, &e->data); break;
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

/* What was sent meanwhile is lost, so the connection is reset. */
static void heal_cut(struct sim *s, uint32_t node)
{
    struct sim_agent *a = &s->agent[node];
    a->cut = false;
    if (a->conn != 0 && s->conn_open[a->conn]) {
        sim_conn_close(s, a->conn, true, true);
    } else if (a->conn != 0 && a->alive) {
        sim_push(
            s, s->now + 1,
            (struct sim_ev){.type = SIM_E_A_DOWN, .who = node, .gen = a->gen, .conn = a->conn});
    }
}

static void dispatch(struct sim *s, const struct sim_ev *e)
{
    if (stopped(s, e)) {
        if (e->type == SIM_E_D_TICK) {
            return; /* one comes behind all that has arrived (W7) */
        }
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
    case SIM_E_A_CHECKED:
    case SIM_E_A_SCANNED: of_agent(s, e); break;
    case SIM_E_X_START:
    case SIM_E_X_MSG:
    case SIM_E_X_DATA:
    case SIM_E_X_TIMER:
    case SIM_E_X_CKPT:
    case SIM_E_X_LATE:
    case SIM_E_X_BUILT:
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
    case SIM_E_RESUME_D:
        if (s->d_gen == e->gen) {
            daemon_goes_on(s);
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
    s->ckpt_keep = 2;
    hsp_buf_init(&s->trace, 1u << 20);
    sim_d_start(s);
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
