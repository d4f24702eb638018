/* Runs the loop of events, with chance, the queue and stopped processes. Device ids of the cluster
 * use HSP_NODE_DEVICES per node; executors here are node * SIM_DEVS + device, where node is the
 * number in the name "nK". */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_step.h"
#include "proto/base/arena.h"
#include "proto/base/hash.h"
#include "proto/base/vec.h"
#include "tests/sim/sim.h"
#include "tests/unit/proto/wire/msg_dump.h"

uint64_t sim_rand(struct sim *s)
{
    s->rng += 0x9e3779b97f4a7c15ull;
    return hsp_mix64(s->rng);
}

uint64_t sim_below(struct sim *s, uint64_t n)
{
    return sim_rand(s) % n;
}

struct hsp_digest sim_digest(struct sim *s)
{
    return (struct hsp_digest){s->seed + 1, ++s->drawn};
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

void sim_log_msg(struct sim *s, const char *what, uint32_t who, const struct hsp_msg *m)
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

/* ---- the loop ---- */

static bool stopped(struct sim *s, const struct sim_ev *e)
{
    const struct sim_agent *a = NULL;
    switch (e->type) {
    case SIM_E_D_TICK: /* a write under way ends all the same */
    case SIM_E_D_MSG:
    case SIM_E_D_CLOSED:
    case SIM_E_D_OPENED:
    case SIM_E_D_PLAN:
    case SIM_E_D_CKPTS:
    case SIM_E_D_SEND:
    case SIM_E_D_CLOSE: return s->d_paused && s->d_gen == e->gen;
    case SIM_E_A_TICK:
    case SIM_E_A_MSG:
    case SIM_E_A_UP:
    case SIM_E_A_DOWN:
    case SIM_E_A_CHECKED:
    case SIM_E_A_REACHED:
    case SIM_E_A_PAPERS:
    case SIM_E_A_SCANNED: a = &s->agent[e->who]; break;
    case SIM_E_A_EXEC:
    case SIM_E_A_EXIT: a = &s->agent[e->who / SIM_DEVS]; break;
    case SIM_E_X_MSG:
    case SIM_E_X_DATA:
    case SIM_E_X_TIMER:
    case SIM_E_X_CKPT:
    case SIM_E_X_LATE:
    case SIM_E_X_DEAF:
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

/* Messages sent meanwhile are lost, so the connection is reset. */
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

/* @same: it has not died since it was paused. */
static void go_on(struct sim *s, bool *paused, bool same)
{
    if (same) {
        *paused = false;
        resume(s);
    }
}

/* For one that is stopped. A tick comes behind all that has arrived (W7). */
static void keep(struct sim *s, const struct sim_ev *e)
{
    if (e->type == SIM_E_D_TICK) {
        return;
    }
    if (!hsp_grow(&s->inbox, &s->cap_inbox, (size_t)s->n_inbox + 1, sizeof(*s->inbox), 1u << 20)) {
        sim_fail(s, "the inbox is full");
        return;
    }
    s->inbox[s->n_inbox++] = *e;
}

static void dispatch(struct sim *s, const struct sim_ev *e)
{
    if (stopped(s, e)) {
        keep(s, e);
        return;
    }
    switch (e->type) {
    case SIM_E_D_TICK:
    case SIM_E_D_MSG:
    case SIM_E_D_CLOSED:
    case SIM_E_D_OPENED:
    case SIM_E_D_STORED:
    case SIM_E_D_PLAN:
    case SIM_E_D_CKPTS:
    case SIM_E_D_SEND:
    case SIM_E_D_CLOSE:
    case SIM_E_D_START: sim_d_event(s, e); break;
    case SIM_E_A_TICK:
    case SIM_E_A_MSG:
    case SIM_E_A_UP:
    case SIM_E_A_DOWN:
    case SIM_E_A_START:
    case SIM_E_A_EXEC:
    case SIM_E_A_EXIT:
    case SIM_E_A_CHECKED:
    case SIM_E_A_REACHED:
    case SIM_E_A_PAPERS:
    case SIM_E_A_SCANNED: sim_a_event(s, e); break;
    case SIM_E_X_START:
    case SIM_E_X_MSG:
    case SIM_E_X_DATA:
    case SIM_E_X_TIMER:
    case SIM_E_X_CKPT:
    case SIM_E_X_LATE:
    case SIM_E_X_DEAF:
    case SIM_E_X_BUILT:
    case SIM_E_X_BEAT: sim_x_event(s, e); break;
    case SIM_E_RESUME_A: go_on(s, &s->agent[e->who].paused, s->agent[e->who].gen == e->gen); break;
    case SIM_E_RESUME_X: go_on(s, &s->exec[e->who].paused, s->exec[e->who].gen == e->gen); break;
    case SIM_E_RESUME_D:
        if (s->d_gen == e->gen) {
            daemon_goes_on(s);
        }
        break;
    case SIM_E_HEAL_CUT: heal_cut(s, e->who); break;
    case SIM_E_HEAL_PAIR: sim_wire_heal(s, e); break;
    case SIM_E_SILENT: sim_wire_silent(s, e); break;
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
