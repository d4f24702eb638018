/* Makes faults: kills and stops processes, crashes nodes, resets and cuts connections. */
#include <string.h>

#include "tests/sim/sim.h"

void sim_kill_exec(struct sim *s, uint32_t x)
{
    sim_log(s, "! kill executor %u", x);
    if (s->exec[x].alive) {
        sim_x_die(s, x, false);
        sim_exec_gone(s, x);
    }
}

void sim_sign(struct sim *s, uint32_t x, enum hsp_gpu_sign_kind kind, uint64_t value)
{
    const struct sim_agent *a = &s->agent[x / SIM_DEVS];
    const struct hsp_gpu_sign sign = {kind, value};
    sim_log(s, "! sign %d of device %u: %llu", (int)kind, x, (unsigned long long)value);
    if (a->alive && !a->paused) {
        sim_a_step(
            s, x / SIM_DEVS,
            (struct hsp_agent_event){.type = HSP_AEV_SIGN, .device = x % SIM_DEVS, .sign = &sign});
    }
}

static void drop_inbox(struct sim *s, uint32_t node)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_inbox; i++) {
        const struct sim_ev *e = &s->inbox[i];
        bool of_exec = e->type == SIM_E_X_MSG || e->type == SIM_E_X_DATA ||
                       e->type == SIM_E_X_TIMER || e->type == SIM_E_X_CKPT ||
                       e->type == SIM_E_X_LATE || e->type == SIM_E_X_DEAF ||
                       e->type == SIM_E_X_BUILT || e->type == SIM_E_X_BEAT ||
                       e->type == SIM_E_A_EXEC || e->type == SIM_E_A_EXIT;
        bool of_daemon = e->type <= SIM_E_D_START;
        if (of_daemon || (of_exec ? e->who / SIM_DEVS : e->who) != node) {
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
    for (uint32_t d = 0; d < s->n_devs + s->n_keep; d++) {
        sim_x_die(s, node * SIM_DEVS + d, silent);
    }
    sim_a_written(s, node);
    a->alive = false;
    a->paused = false;
    a->gen++;
    drop_inbox(s, node);
    if (a->conn != 0) {
        sim_conn_close(s, a->conn, !silent && !a->cut, false);
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
    s->agent[node].was = s->agent[node].writes = (struct hsp_digest){0, 0};
    sim_node_lost(s, node);
}

bool sim_damage(struct sim *s, uint32_t exec)
{
    struct sim_exec *e = &s->exec[exec];
    if (e->n_seg == 0) {
        return false;
    }
    struct sim_seg *g = &e->seg[sim_below(s, e->n_seg)], *h = &e->seg[sim_below(s, e->n_seg)];
    g = h->version > g->version ? h : g; /* the newer, which is wanted first */
    struct sim_job_truth *t = &s->job[g->job];
    sim_log(s, "! damage version %llu of job %u on executor %u", (unsigned long long)g->version,
            g->job, exec);
    g->damaged = true;
    t->lost |= 1u << (exec / SIM_DEVS);
    t->excess = t->excess || (uint32_t)__builtin_popcount(t->lost) > t->tolerance;
    return true;
}

void sim_kill_daemon(struct sim *s, uint64_t restart_ms)
{
    sim_log(s, "! kill the coordinator");
    if (!s->d_alive) {
        return;
    }
    s->d_alive = s->d_paused = false;
    s->checks.open = false; /* the administrator has lost its connection */
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
        sim_store_done(s, pending[i]->ptr);
    }
    for (uint32_t j = 1; j <= SIM_JOBS; j++) { /* its knowledge is that of the disk */
        s->job[j].told = keep == n ? s->job[j].told : 0;
        s->job[j].wished = s->job[j].wished && keep == n;
    }
    s->d_gen++;
    for (uint32_t i = 0; i < SIM_PLANS; i++) {
        s->plans[i].used = s->plans[i].used && s->plans[i].durable;
        s->plans[i].ticket = 0; /* tickets are of one process */
    }
    for (uint32_t i = 1; i <= s->n_conns; i++) {
        sim_conn_close(s, i, false, !s->agent[s->conn_node[i]].cut);
    }
    sim_push(s, s->now + restart_ms, (struct sim_ev){.type = SIM_E_D_START, .gen = s->d_gen});
}

void sim_pause_daemon(struct sim *s, uint64_t ms)
{
    sim_log(s, "! stop the coordinator for %llu ms", (unsigned long long)ms);
    if (s->d_alive && !s->d_paused) {
        s->d_paused = true;
        s->d_stopped_ms = s->now;
        sim_push(s, s->now + ms, (struct sim_ev){.type = SIM_E_RESUME_D, .gen = s->d_gen});
    }
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
        sim_conn_close(s, s->agent[node].conn, true, true);
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
                                         .epoch = runs[k]->epoch,
                                         .local = true};
                    sim_push(s, s->now + sim_latency(s),
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
        sim_a_step(s, node, (struct hsp_agent_event){.type = HSP_AEV_LEAVE, .text = "SIGTERM"});
    }
}

void sim_admin(struct sim *s, struct hsp_admin_event a)
{
    a.actor = "test";
    if (s->d_alive && !s->d_paused) {
        struct hsp_event ev = {.now_ms = s->now, .type = HSP_EV_ADMIN, .u.admin = a};
        sim_d_step(s, &ev);
    }
}

bool sim_unwritable(const struct sim *s, uint32_t job, uint32_t writer)
{
    return (s->job[job].unwritable >> writer / SIM_DEVS & 1) != 0;
}

bool sim_unwritten(struct sim *s, uint32_t exec, uint64_t timer)
{
    const struct sim_run *r = &s->exec[exec].cur;
    struct hsp_msg m = {.type = HSP_MSG_CHECKPOINTED,
                        .epoch = r->epoch,
                        .u.ckpt = {.job = r->job, .step = r->step, .reason = "no space left"}};
    if (!sim_unwritable(s, r->job, exec)) {
        return false;
    }
    sim_to_agent(s, exec, &m);
    sim_push(s, s->now + 1000,
             (struct sim_ev){
                 .type = SIM_E_X_TIMER, .who = exec, .gen = s->exec[exec].gen, .num = timer});
    return true;
}

void sim_submit(struct sim *s, const char *name, int32_t prio, uint32_t min, uint32_t max,
                uint64_t steps, uint64_t ckpt_every)
{
    sim_admin(s, (struct hsp_admin_event){.verb = HSP_ADMIN_SUBMIT,
                                          .spec = {.name = name,
                                                   .priority = prio,
                                                   .min = min,
                                                   .max = max,
                                                   .copies = s->copies != 0 ? s->copies : 2,
                                                   .steps = steps,
                                                   .checkpoint_path = "/c",
                                                   .checkpoint_keep = s->ckpt_keep,
                                                   .checkpoint_every = ckpt_every}});
}
