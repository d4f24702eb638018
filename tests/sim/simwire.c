/* Cuts the network between executors: pairs of nodes do not reach each other, one way or both,
 * while both reach the coordinator. Data sent over such a pair comes when the pair passes again, if
 * anybody still wants it: a connection over which nothing came for dead_ms is lost at both ends. A
 * one-way cut stops both, as nothing is acknowledged. */
#include <string.h>

#include "tests/sim/sim.h"

static bool stuck(const struct sim *s, uint32_t a, uint32_t b)
{
    return a != b && (s->wire[a][b].cut || s->wire[b][a].cut);
}

/* Since when; both ways are cut at once. */
static uint64_t since(const struct sim *s, uint32_t a, uint32_t b)
{
    const struct sim_wire *w = s->wire[a][b].cut ? &s->wire[a][b] : &s->wire[b][a];
    return w->since;
}

static void cut(struct sim *s, uint32_t a, uint32_t b, uint64_t ms)
{
    struct sim_wire *w = &s->wire[a][b];
    w->since = stuck(s, a, b) ? since(s, a, b) : s->now;
    w->until = s->now + ms > w->until ? s->now + ms : w->until;
    w->cut = true;
    sim_push(s, w->until, (struct sim_ev){.type = SIM_E_HEAL_PAIR, .who = a, .num = b});
}

void sim_cut_pair(struct sim *s, uint32_t a, uint32_t b, bool both, uint64_t ms)
{
    sim_log(s, "! cut n%u -> n%u%s for %llu ms", a, b, both ? " and back" : "",
            (unsigned long long)ms);
    if (a == b) {
        return;
    }
    s->cuts++;
    cut(s, a, b, ms);
    if (both) {
        cut(s, b, a, ms);
    }
    uint64_t after = s->cfg.dead_ms - s->cfg.dead_ms / 4;
    for (uint32_t k = 0; k < 2; k++) { /* each end finds it by itself */
        struct sim_data d = {.from = k == 0 ? b : a, .to = k == 0 ? a : b, .step = since(s, a, b)};
        sim_push(s, s->now + after + sim_below(s, s->cfg.dead_ms / 4),
                 (struct sim_ev){.type = SIM_E_SILENT, .who = d.to, .data = d});
    }
}

void sim_slow_pair(struct sim *s, uint32_t a, uint32_t b, uint64_t ms)
{
    sim_log(s, "! n%u - n%u is slow for %llu ms", a, b, (unsigned long long)ms);
    cut(s, a, b, ms);
    cut(s, b, a, ms);
    s->wire[a][b].slow = s->wire[b][a].slow = true;
}

bool sim_wire_slow(const struct sim *s, uint32_t a, uint32_t b)
{
    return stuck(s, a, b) && s->wire[a][b].slow;
}

void sim_wire_heal(struct sim *s, const struct sim_ev *e)
{
    struct sim_wire *w = &s->wire[e->who][e->num];
    if (w->cut && s->now >= w->until) {
        w->cut = w->slow = false;
        sim_log(s, "! n%u -> n%u passes again", e->who, (uint32_t)e->num);
    }
}

/* True: the data comes later. */
bool sim_wire_holds(struct sim *s, const struct sim_ev *e)
{
    uint32_t a = e->data.from / SIM_DEVS, b = e->who / SIM_DEVS;
    if (e->type != SIM_E_X_DATA || e->data.local || !stuck(s, a, b)) {
        return false;
    }
    uint64_t ab = s->wire[a][b].cut ? s->wire[a][b].until : 0;
    uint64_t ba = s->wire[b][a].cut ? s->wire[b][a].until : 0, at = ab > ba ? ab : ba;
    uint64_t *last = &s->data_last[e->data.from][e->who];
    *last = *last > at ? *last : at + 1;
    sim_push(s, *last, *e);
    return true;
}

/* Executor @x hears no more of the executors on node @of. */
static void notice(struct sim *s, uint32_t x, uint32_t of)
{
    struct sim_exec *e = &s->exec[x];
    const struct sim_run *run[2] = {&e->cur, &e->next};
    for (int k = 0; k < 2; k++) {
        const struct sim_run *r = run[k];
        for (uint32_t p = 0; r->epoch != 0 && p < r->p.n_peers; p++) {
            bool joined = r == &e->cur || (r->conn >> p & 1) != 0;
            if (r->p.exec[p] / SIM_DEVS == of && joined && (r->p.apart[r->rank] >> p & 1) == 0) {
                struct sim_data d = {.kind = SIM_D_BREAK,
                                     .rank = p,
                                     .by = r->rank,
                                     .job = r->job,
                                     .epoch = r->epoch,
                                     .silent = true,
                                     .local = true};
                sim_x_data(s, x, &d);
                break;
            }
        }
    }
}

void sim_wire_silent(struct sim *s, const struct sim_ev *e)
{
    uint32_t of = e->data.from, here = e->data.to;
    for (uint32_t x = here * SIM_DEVS; x < (here + 1) * SIM_DEVS; x++) {
        if (stuck(s, of, here) && since(s, of, here) == e->data.step && s->exec[x].up &&
            !s->exec[x].paused) {
            notice(s, x, of);
        }
    }
}

void sim_x_deaf(struct sim *s, uint32_t x, uint32_t job, uint64_t epoch)
{
    struct sim_run *r = &s->exec[x].next;
    uint32_t peer = 0;
    if (r->job != job || r->epoch != epoch || r->phase != SIM_PREPARING) {
        return;
    }
    while (peer < r->p.n_peers &&
           ((r->conn >> peer & 1) != 0 || !stuck(s, r->p.exec[peer] / SIM_DEVS, x / SIM_DEVS) ||
            sim_wire_slow(s, r->p.exec[peer] / SIM_DEVS, x / SIM_DEVS))) {
        peer++;
    }
    if (peer < r->p.n_peers) {
        struct hsp_msg f = {.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = epoch,
                            .u.failed = {.job = job,
                                         .device = x % SIM_DEVS,
                                         .fact = HSP_FACT_CANNOT_CONNECT,
                                         .peer = peer,
                                         .by = r->rank,
                                         .silent = true,
                                         .reason = "a peer does not answer"}};
        sim_x_clear(s, x, r, true);
        sim_to_agent(s, x, &f);
    }
}

/* ---- where a rank stands ---- */

static bool is_slow(const struct sim *s, uint32_t x, const struct sim_run *r, uint32_t peer)
{
    return sim_wire_slow(s, r->p.exec[peer] / SIM_DEVS, x / SIM_DEVS);
}

/* The peer that it waits for; HSP_MSG_RANKS: none. */
static uint32_t waits_for(const struct sim *s, uint32_t x, const struct sim_run *r)
{
    uint32_t slot = r->step & 1, who = HSP_MSG_RANKS;
    bool votes = r->phase == SIM_VOTING;
    for (uint32_t i = 0; i < r->n_ranks && votes && who == HSP_MSG_RANKS; i++) {
        who = i != r->rank && (r->votes[slot] >> i & 1) == 0 ? i : who;
    }
    for (uint32_t i = 0; i < r->p.n_peers && !votes && who == HSP_MSG_RANKS; i++) {
        who = r->phase != SIM_COMPUTE && is_slow(s, x, r, i) ? i : who;
    }
    return who;
}

void sim_x_where(struct sim *s, uint32_t x, const struct hsp_m_where *m)
{
    const struct sim_exec *e = &s->exec[x];
    const struct sim_run *r = e->cur.epoch != 0 ? &e->cur : &e->next;
    struct hsp_m_link links[SIM_EXECS];
    if (r->epoch == 0 || r->job != m->job) {
        return;
    }
    uint32_t peer = waits_for(s, x, r), n = 0;
    struct hsp_m_thread t = {peer < r->p.n_peers ? HSP_DOING_RECEIVE : HSP_DOING_COMPUTE, peer, 0};
    for (uint32_t i = 0; i < r->p.n_peers; i++) {
        if (is_slow(s, x, r, i)) {
            links[n++] = (struct hsp_m_link){.peer = i, .unsent = 1000};
        }
    }
    struct hsp_msg said = {.type = HSP_MSG_STANDS,
                           .epoch = r->epoch,
                           .u.stands = {.job = r->job,
                                        .device = x % SIM_DEVS,
                                        .round = m->round,
                                        .step = r->step,
                                        .stable = r->voted_once ? r->step - 1 : 0,
                                        .instruction = UINT32_MAX,
                                        .n_threads = 1,
                                        .threads = &t,
                                        .n_links = n,
                                        .links = links}};
    sim_to_agent(s, x, &said);
}

/* ---- calls for the coordinator ---- */

static struct hsp_m_deaf call(struct sim *s, uint32_t node, const char *address, uint32_t at)
{
    unsigned x = 0, gen = 0;
    if (sscanf(address, "h%*u:%u#%u", &x, &gen) != 2 || x >= SIM_EXECS) {
        sim_fail(s, "n%u is to call %s", node, address);
        return (struct hsp_m_deaf){UINT32_MAX, false};
    }
    const struct sim_exec *e = &s->exec[x];
    bool stopped = stuck(s, node, x / SIM_DEVS) && !sim_wire_slow(s, node, x / SIM_DEVS);
    bool deaf = stopped || !s->agent[x / SIM_DEVS].alive;
    bool gone = !e->up || e->gen != gen;
    return (struct hsp_m_deaf){deaf || gone ? at : UINT32_MAX, !deaf};
}

/* A node measures the link to another, or says where it listens. */
void sim_probe(struct sim *s, uint32_t node, const struct hsp_m_check *m)
{
    unsigned peer = node;
    if (m->what != HSP_CHECK_OPEN && m->what != HSP_CHECK_LINK) {
        return;
    }
    if (m->what == HSP_CHECK_LINK && sscanf(m->peer, "n%u", &peer) != 1) {
        sim_fail(s, "n%u is to measure the link to %s", node, m->peer);
    }
    bool cut_off = stuck(s, node, peer) && !sim_wire_slow(s, node, peer);
    struct hsp_msg r = {.type = HSP_MSG_CHECKED,
                        .u.checked = {.check = m->check,
                                      .seq = m->seq,
                                      .fault = cut_off ? "no answer" : "",
                                      .address = "x",
                                      .transport = m->what == HSP_CHECK_LINK ? "tls" : "",
                                      .bytes_per_s = sim_wire_slow(s, node, peer) ? 2.5e5 : 9e8}};
    sim_push(s, s->now + (m->what == HSP_CHECK_LINK ? 1200 : 3),
             (struct sim_ev){.type = SIM_E_A_CHECKED,
                             .who = node,
                             .gen = s->agent[node].gen,
                             .ptr = sim_clone(s, &r)});
}

void sim_reach(struct sim *s, uint32_t node, const struct hsp_m_reach *m)
{
    struct hsp_m_deaf deaf[HSP_REACH_TARGETS];
    struct hsp_msg r = {.type = HSP_MSG_REACHED, .u.reached = {.round = m->round, .deaf = deaf}};
    bool waits = false;
    for (uint32_t i = 0; i < m->n_targets; i++) {
        struct hsp_m_deaf *d = &deaf[r.u.reached.n_deaf];
        *d = call(s, node, m->targets[i].address, i);
        r.u.reached.n_deaf += d->target != UINT32_MAX;
        waits = waits || (d->target != UINT32_MAX && !d->refused);
    }
    if (s->chaos && sim_below(s, 30) == 0) {
        return; /* the node has too much to do */
    }
    sim_push(s, s->now + (waits ? m->within_ms : 1 + sim_below(s, 4)),
             (struct sim_ev){.type = SIM_E_A_REACHED,
                             .who = node,
                             .gen = s->agent[node].gen,
                             .ptr = sim_clone(s, &r)});
}
