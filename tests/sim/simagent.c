/* Plays the shell of the agents: performs their actions, and delivers events to them. */
#include <string.h>

#include "proto/base/arena.h"
#include "proto/wire/papers.h"
#include "tests/sim/sim.h"

void sim_a_written(struct sim *s, uint32_t node)
{
    struct sim_agent *a = &s->agent[node];
    if (s->now >= a->written_ms) {
        a->was = a->writes;
    } else {
        a->writes = a->was; /* an agent killed meanwhile leaves the one before */
    }
}

/* Notes the facts that the papers of a job tell of it. */
static void look_at_papers(struct sim *s, const struct sim_papers *f, struct hsp_m_kept *k)
{
    struct hsp_papers p;
    if (f->data != NULL && hsp_papers_read(f->data, f->len, s->arena, &p, NULL) == HSP_OK) {
        k->name = p.name;
        k->cluster = p.whose.cluster;
        k->generation = p.whose.generation;
        k->epoch = p.epoch;
    }
}

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
    struct hsp_m_kept kept[SIM_JOBS];
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; i++) { /* files say no more of a job than its number and layout */
        uint32_t k = 0;
        while (k < n_kept && kept[k].job != h[i].job) {
            k++;
        }
        if (k == n_kept) {
            kept[n_kept++] = (struct hsp_m_kept){.job = h[i].job, .name = ""};
        }
        kept[k].plan = h[i].plan > kept[k].plan ? h[i].plan : kept[k].plan;
    }
    for (uint32_t i = 0; i < n_kept; i++) {
        look_at_papers(s, &s->agent[node].papers[kept[i].job], &kept[i]);
    }
    struct hsp_agent_event ev = {.type = HSP_AEV_SCANNED,
                                 .scan = scan,
                                 .n = n,
                                 .holdings = h,
                                 .n_kept = n_kept,
                                 .kept = kept};
    sim_a_step(s, node, ev);
}

static void keep_papers(struct sim *s, uint32_t node, const struct hsp_msg *m)
{
    s->agent[node].papers[m->u.papers.job] =
        (struct sim_papers){hsp_arena_memdup(s->arena, m->blob, m->blob_len), m->blob_len};
}

static void drop_papers(struct sim *s, uint32_t node, uint32_t job)
{
    bool has = false;
    for (uint32_t d = 0; d < s->n_devs + s->n_keep; d++) {
        const struct sim_exec *e = &s->exec[node * SIM_DEVS + d];
        for (uint32_t i = 0; i < e->n_seg; i++) {
            has = has || e->seg[i].job == job;
        }
    }
    if (!has) {
        s->agent[node].papers[job] = (struct sim_papers){0};
    }
}

static void read_papers(struct sim *s, uint32_t node, uint32_t job)
{
    const struct sim_papers *f = &s->agent[node].papers[job];
    struct hsp_msg m = {.type = HSP_MSG_PAPERS,
                        .blob = f->data,
                        .blob_len = f->len,
                        .u.papers = {.job = job,
                                     .what = f->data != NULL ? HSP_PAPERS_TOLD : HSP_PAPERS_NONE,
                                     .reason = f->data != NULL ? "" : "there are none"}};
    sim_push(s, s->now + 1,
             (struct sim_ev){.type = SIM_E_A_PAPERS,
                             .who = node,
                             .gen = s->agent[node].gen,
                             .ptr = sim_clone(s, &m)});
}

static void a_actions(struct sim *s, uint32_t node, const struct hsp_agent_actions *acts)
{
    struct sim_agent *a = &s->agent[node];
    for (uint32_t i = 0; i < acts->n && a->alive; i++) {
        const struct hsp_agent_action *x = &acts->item[i];
        uint32_t id = node * SIM_DEVS + x->device;
        switch (x->type) {
        case HSP_AACT_CONNECT: sim_connect(s, node); break;
        case HSP_AACT_DISCONNECT:
            if (a->conn != 0) {
                sim_conn_close(s, a->conn, !a->cut, true);
            } else {
                sim_push(s, s->now,
                         (struct sim_ev){.type = SIM_E_A_DOWN, .who = node, .gen = a->gen});
            }
            break;
        case HSP_AACT_SEND: sim_to_daemon(s, node, x->msg); break;
        case HSP_AACT_SEND_EXEC: sim_pipe_to_exec(s, id, x->msg); break;
        case HSP_AACT_SPAWN:
            if (s->exec[id].alive) {
                sim_fail(s, "executor %u is spawned while it lives", id);
                break;
            }
            s->exec[id].alive = true;
            s->exec[id].bare = x->bare;
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
        case HSP_AACT_REMEMBER:
            sim_a_written(s, node);
            a->writes = x->incarnation;
            a->written_ms = s->now + (s->chaos ? sim_below(s, 5) : 0);
            break;
        case HSP_AACT_CHECK: sim_shell_order(s, node, &x->msg->u.check); break;
        case HSP_AACT_CHECK_STOP: sim_shell_stop(s, node); break;
        case HSP_AACT_REACH: sim_reach(s, node, &x->msg->u.reach); break;
        case HSP_AACT_KEEP_PAPERS: keep_papers(s, node, x->msg); break;
        case HSP_AACT_FIND_CKPTS: break; /* simdaemon.c knows them */
        case HSP_AACT_DROP_PAPERS: drop_papers(s, node, x->job); break;
        case HSP_AACT_READ_PAPERS: read_papers(s, node, x->msg->u.papers.job); break;
        case HSP_AACT_LOG: sim_log(s, "  n%u: %s", node, x->text); break;
        case HSP_AACT_EXIT:
            sim_log(s, "  n%u exits: %s", node, x->text);
            sim_a_written(s, node);
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
                                       .kind = i < s->n_devs ? "cpu" : HSP_KIND_REPLICA_HOLDER,
                                       .speed = 1,
                                       .mem_bytes = 1u << 30,
                                       .address = ""};
    }
    cfg.node = name;
    cfg.was = a->was;
    cfg.cross_us_per_byte = 1e-3;
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

void sim_a_event(struct sim *s, const struct sim_ev *e)
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
        sim_log_msg(s, "agent", node, e->ptr);
        ev.type = HSP_AEV_DAEMON_MSG;
        if (ev.msg->type == HSP_MSG_STOP) { /* the agent obeys for an executor that is dead */
            sim_given_up(s, ev.msg->u.devref.job, ev.msg->epoch);
        }
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
        sim_log_msg(s, "agent <- exec", e->who, e->ptr);
        ev.type = HSP_AEV_EXEC_MSG;
        break;
    case SIM_E_A_EXIT:
        ev.type = HSP_AEV_EXEC_EXIT;
        ev.text = "signal 9";
        break;
    case SIM_E_A_SCANNED: a_scan(s, node, e->num); return;
    case SIM_E_A_PAPERS: ev.type = HSP_AEV_PAPERS; break;
    case SIM_E_A_REACHED: ev.type = HSP_AEV_REACHED; break;
    case SIM_E_A_CHECKED:
        if (e->ptr == NULL) {
            sim_shell_done(s, node, e->num);
            return;
        }
        ev.type = HSP_AEV_CHECKED;
        break;
    default: return;
    }
    sim_a_step(s, node, ev);
}
