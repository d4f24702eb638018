/* Carries messages: over control connections, between executors, and through pipes between an agent
 * and its executors. Each keeps order; connections have their own delays. */
#include "tests/sim/sim.h"

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

void sim_to_node(struct sim *s, uint32_t conn, enum sim_ev_type type, const struct hsp_msg *m)
{
    uint32_t node = s->conn_node[conn];
    uint64_t *last = &s->conn_last[conn][1];
    bool early =
        m != NULL && m->type == HSP_MSG_PAPERS; /* nothing waits for it: no chance is used up */
    *last = early && *last < s->now ? s->now : *last;
    sim_push(s, early ? *last : arrive(s, last, s->now),
             (struct sim_ev){
                 .type = type, .who = node, .gen = s->agent[node].gen, .conn = conn, .ptr = m});
}

void sim_conn_up(struct sim *s, uint32_t conn)
{
    s->agent[s->conn_node[conn]].dialing = false;
    sim_to_node(s, conn, SIM_E_A_UP, NULL);
}

void sim_connect(struct sim *s, uint32_t node)
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
        sim_conn_up(s, conn);
    }
}

void sim_to_daemon(struct sim *s, uint32_t node, const struct hsp_msg *m)
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

void sim_pipe_to_exec(struct sim *s, uint32_t x, const struct hsp_msg *m)
{
    uint64_t at = s->now + sim_below(s, 2);
    at = at < s->pipe_last[x][1] ? s->pipe_last[x][1] : at;
    s->pipe_last[x][1] = at;
    sim_push(s, at,
             (struct sim_ev){
                 .type = SIM_E_X_MSG, .who = x, .gen = s->exec[x].gen, .ptr = sim_clone(s, m)});
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
