/* Plays random event sequences: two jobs at once, losses in every phase, lost and late messages,
 * stopped and killed processes, coordinator restarts. After the faults everything heals, and every
 * job must end.
 *
 *   random [N] [--seed S] [--verbose]    N sequences from seed S (default 300 from 1; 100 with
 *   sanitizers) */
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_check.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/spread.h"
#include "proto/base/arena.h"
#include "proto/base/check.h"
#include "proto/base/str.h"
#include "tests/sim/sim.h"

static void note(struct sim *s, const char *what, uint64_t a, uint64_t b)
{
    size_t n = strlen(s->faults);
    (void)snprintf(s->faults + n, sizeof(s->faults) - n, "  [%6llu] %s %llu %llu\n",
                   (unsigned long long)s->now, what, (unsigned long long)a, (unsigned long long)b);
}

static uint32_t device(struct sim *s)
{
    return (uint32_t)(sim_below(s, s->n_nodes) * SIM_DEVS + sim_below(s, s->n_devs + s->n_keep));
}

/* Tries to resume a job: only a suspended one is resumed, a job that is over stays so. Of wishes
 * that are not fulfilled yet few are taken back. */
enum { RESUMES = 20 };
static void resume_job(struct sim *s, const struct hsp_job *j)
{
    if (s->d_alive && j != NULL &&
        (j->state == HSP_JOB_SUSPENDED || (j->suspending && sim_below(s, RESUMES) == 0))) {
        sim_admin(s, (struct hsp_admin_event){.verb = HSP_ADMIN_RESUME, .job = j->id});
    }
}

enum { /* calls at random times; of a job: with its number in the lower bits */
       CALL_SECOND = 1,
       CALL_FAULT,
       CALL_KILL = SIM_CALL_KILL,
       CALL_CHECK,
       CALL_CHECK_STOP,
       CALL_CHECK_AGAIN,
       CALL_RESTART, /* of the coordinator */
       CALL_DRAIN_WRITER,
       CALL_FORGE,
       CALL_ALLOW, /* all nodes, before or after they have joined */
       CALL_SUSPEND = 16,
       CALL_RESUME = 32,
       CALL_SPOIL = 48
};

static void suspend_job(struct sim *s, uint32_t job)
{
    note(s, "suspend job", job, 0);
    sim_admin(s, (struct hsp_admin_event){.verb = HSP_ADMIN_SUSPEND, .job = job});
}

static void check_nodes(struct sim *s)
{
    bool busy = sim_below(s, 2) == 0;
    uint32_t names = sim_below(s, 3) == 0 ? 2 : 0;
    note(s, "check of nodes, busy ones; so many", busy, names);
    sim_check_ask(s, busy, names);
}

static void admin_fault(struct sim *s, uint32_t node)
{
    static char names[SIM_NODES][8];
    (void)snprintf(names[node], sizeof(names[node]), "n%u", node);
    switch (sim_below(s, 12)) {
    case 11:
        note(s, "remove n", node, 0);
        sim_admin(s, (struct hsp_admin_event){.verb = HSP_ADMIN_REMOVE, .node = names[node]});
        break;
    case 9:
    case 10: {
        bool on = sim_below(s, 2) == 0;
        note(s, on ? "allow n" : "deny n", node, 0);
        sim_admin(s, (struct hsp_admin_event){.verb = on ? HSP_ADMIN_ALLOW : HSP_ADMIN_DENY,
                                              .node = names[node]});
        break;
    }
    case 7: suspend_job(s, 1 + (uint32_t)sim_below(s, 2)); break;
    case 8: {
        uint32_t job = 1 + (uint32_t)sim_below(s, 2);
        note(s, "resume job", job, 0);
        resume_job(s, s->d_alive ? hsp_cluster_job(s->d, job) : NULL);
        break;
    }
    case 5: check_nodes(s); break;
    case 6: sim_check_stop(s); break;
    case 0:
        note(s, "drain n", node, 0);
        sim_admin(s, (struct hsp_admin_event){
                         .verb = HSP_ADMIN_DRAIN, .node = names[node], .reason = "maintenance"});
        break;
    case 1:
        note(s, "undrain n", node, 0);
        sim_admin(s, (struct hsp_admin_event){.verb = HSP_ADMIN_UNDRAIN, .node = names[node]});
        break;
    case 2: {
        uint32_t max = 1 + (uint32_t)sim_below(s, 8);
        note(s, "scale to max", max, 0);
        sim_admin(s, (struct hsp_admin_event){.verb = HSP_ADMIN_SCALE,
                                              .job = 1 + (uint32_t)sim_below(s, 2),
                                              .min = 1,
                                              .max = max});
        break;
    }
    case 3:
        note(s, "SIGTERM n", node, 0);
        sim_leave(s, node);
        break;
    default:
        sim_admin(s, (struct hsp_admin_event){.verb = HSP_ADMIN_CHECKPOINT,
                                              .job = 1 + (uint32_t)sim_below(s, 2)});
        break;
    }
}

/* The device of executor @x is lost, not to be trusted any more, or worth a warning. */
static void xid(struct sim *s, uint32_t x)
{
    static const uint64_t kinds[] = {79, 79, 74, 48, 31};
    uint64_t n = kinds[sim_below(s, 5)];
    note(s, "XID, of device", n, x);
    sim_sign(s, x, HSP_SIGN_XID, n);
}

/* Two nodes do not reach each other, or hardly. */
static void wire_fault(struct sim *s, uint32_t node, uint32_t other, uint64_t ms)
{
    other = (node + 1 + other % (s->n_nodes - 1)) % s->n_nodes;
    ms = ms < 300 ? 2 * ms : 3000 + 2 * ms;
    if (sim_below(s, 3) == 0) {
        note(s, "slow down the connection of nodes", node, other);
        sim_slow_pair(s, node, other, 5000 + 2 * ms);
        return;
    }
    note(s, ms / 2 % 2 == 0 ? "cut nodes from each other" : "cut node from another's words", node,
         other);
    sim_cut_pair(s, node, other, ms / 2 % 2 == 0, ms);
}

/* A process stops and goes on after @ms, with connections as they are, or loses one. */
static void stop_fault(struct sim *s, uint64_t kind, uint32_t node, const uint32_t x[2],
                       uint64_t ms)
{
    switch (kind) {
    case 9:
        note(s, "stop agent", node, ms);
        sim_pause_agent(s, node, ms);
        break;
    case 10:
        note(s, "stop executor", x[0], ms);
        sim_pause_exec(s, x[0], ms);
        break;
    case 11:
        note(s, "reset control", node, 0);
        sim_reset_control(s, node);
        break;
    case 12:
    case 13:
        note(s, "reset data", x[0], x[1]);
        sim_reset_data(s, x[0], x[1]);
        break;
    case 14:
        note(s, "cut control", node, ms);
        sim_cut(s, node, ms);
        break;
    default:
        note(s, "stop coordinator", ms, 0);
        sim_pause_daemon(s, ms);
        break;
    }
}

static void fault(struct sim *s)
{
    uint32_t node = (uint32_t)sim_below(s, s->n_nodes), x[2];
    x[0] = device(s);
    x[1] = device(s);
    uint64_t ms = 1 + sim_below(s, sim_below(s, 2) == 0 ? 300 : 6000), kind = sim_below(s, 24);
    switch (kind) {
    case 0:
    case 1:
    case 2:
        note(s, "kill executor", x[0], 0);
        sim_kill_exec(s, x[0]);
        break;
    case 3:
    case 4:
        note(s, "kill agent, restart after", node, ms);
        sim_kill_agent(s, node, ms);
        break;
    case 5:
    case 6:
        note(s, "crash node, restart after", node, ms);
        sim_crash_node(s, node, ms);
        break;
    case 7:
    case 8:
        note(s, "kill coordinator, restart after", ms, 0);
        sim_kill_daemon(s, ms);
        break;
    case 9:
    case 10:
    case 11:
    case 12:
    case 13:
    case 14:
    case 15: stop_fault(s, kind, node, x, ms); break;
    case 17:
    case 18:
    case 19: xid(s, node * SIM_DEVS + (uint32_t)sim_below(s, s->n_devs)); break;
    case 20:
    case 21:
        note(s, "damage state of executor", x[0], sim_damage(s, x[0]));
        sim_kill_exec(s, x[0]); /* so that it is wanted */
        break;
    case 22:
    case 23: wire_fault(s, node, x[1], ms); break;
    default: admin_fault(s, node); break;
    }
}

static void call_at(struct sim *s, uint64_t at, uint64_t num)
{
    sim_push(s, at, (struct sim_ev){.type = SIM_E_CALL, .num = num});
}

/* As soon as the final model of the first job cannot be written: of the node that tries. */
static void drain_writer(struct sim *s)
{
    const struct hsp_job *j = s->d_alive ? hsp_cluster_job(s->d, 1) : NULL;
    if (j == NULL || j->state != HSP_JOB_FINISHING || j->unwritten != j->cur.epoch) {
        call_at(s, s->now + 100, CALL_DRAIN_WRITER);
    } else {
        uint32_t node = HSP_DEVICE_NODE(j->cur.peers[0].device);
        note(s, "drain who writes, node", node, 0);
        sim_admin(s, (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN,
                                              .node = s->d->nodes[node].name,
                                              .reason = "its disk is full"});
    }
}

/* Half of them when @some. */
static void allow(struct sim *s, bool some)
{
    static char names[SIM_NODES][8];
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "n%u", i);
        if (!some || sim_below(s, 2) == 0) {
            sim_admin(s, (struct hsp_admin_event){.verb = HSP_ADMIN_ALLOW, .node = names[i]});
        }
    }
}

/* @num: CALL_, or a fault within a switch. */
static void call(struct sim *s, uint64_t num)
{
    if (num == CALL_SECOND) {
        sim_submit(s, "second", 1, 1 + (uint32_t)sim_below(s, 2), 4, 40 + sim_below(s, 200), 20);
    } else if (!s->chaos) {
        return;
    } else if (num == CALL_KILL) {
        note(s, "kill coordinator while it writes", 0, 0);
        sim_kill_daemon(s, 1 + sim_below(s, 300));
    } else if (num == CALL_CHECK) {
        check_nodes(s);
    } else if (num == CALL_CHECK_STOP || num == CALL_CHECK_AGAIN) {
        note(s, "stop the check, and again", num == CALL_CHECK_AGAIN, 0);
        sim_check_stop(s);
        if (num == CALL_CHECK_AGAIN) { /* answers to the first are on their way */
            check_nodes(s);
        }
    } else if (num == CALL_RESTART) {
        note(s, "kill coordinator in a check", 0, 0);
        sim_kill_daemon(s, 1 + sim_below(s, 20));
    } else if (num == CALL_DRAIN_WRITER) {
        drain_writer(s);
    } else if (num == CALL_FORGE) {
        sim_forge(s);
    } else if (num == CALL_ALLOW) {
        allow(s, true);
    } else if (num > CALL_SUSPEND && num < CALL_RESUME) {
        suspend_job(s, (uint32_t)num % CALL_SUSPEND);
    } else if (num > CALL_SPOIL && num < CALL_SPOIL + CALL_SUSPEND) {
        note(s, "damage the newest checkpoint of job", num % CALL_SUSPEND, 0);
        sim_ckpt_spoil(s, (uint32_t)num % CALL_SUSPEND);
    } else if (num > CALL_RESUME && num < CALL_RESUME + CALL_SUSPEND) {
        note(s, "resume job", num % CALL_SUSPEND, 0);
        resume_job(s, s->d_alive ? hsp_cluster_job(s->d, (uint32_t)num % CALL_SUSPEND) : NULL);
    } else {
        fault(s);
    }
}

/* The commands that administrators give meanwhile. */
static void wishes(struct sim *s, uint64_t until)
{
    if (s->job[1].unwritable != 0) {
        call_at(s, 0, CALL_DRAIN_WRITER);
    }
    for (uint64_t n = sim_below(s, 4); n > 0; n--) {
        uint64_t at = sim_below(s, until), job = 1 + sim_below(s, 2);
        call_at(s, at, CALL_SUSPEND + job);
        if (sim_below(s, 3) == 0) {
            call_at(s, at + sim_below(s, 3000), CALL_SPOIL + job);
        }
        if (sim_below(s, 2) == 0) { /* jobs that stay suspended are resumed in the end */
            at += sim_below(s, 3000);
            for (uint64_t i = 0; i < RESUMES; i++) { /* also while it stops */
                call_at(s, at + i * (1 + sim_below(s, 40)), CALL_RESUME + job);
            }
        }
    }
    for (uint64_t n = sim_below(s, 4); n > 0; n--) {
        uint64_t at = sim_below(s, until), end = sim_below(s, 4);
        call_at(s, at, CALL_CHECK);
        if (end < 2) {
            call_at(s, at + sim_below(s, 1000), end == 0 ? CALL_CHECK_STOP : CALL_CHECK_AGAIN);
        } else if (end == 2 && sim_below(s, 4) == 0) { /* orders of the one before are under way */
            at += 10 + sim_below(s, 200);
            call_at(s, at, CALL_RESTART);
            call_at(s, at + 100 + sim_below(s, 300), CALL_CHECK);
        }
    }
}

/* When nothing has changed for a while and nobody was refused, the state of a running job is on as
 * many nodes as were promised, or on all there are. */
static void check_calm(struct sim *s, const struct hsp_job *j)
{
    struct sim_job_truth *t = &s->job[j->id];
    bool calm = j->state == HSP_JOB_RUNNING && !j->suspending && j->cur.settled &&
                j->att.epoch == 0 && j->ticket == 0 && !j->have_result && j->keep_retry_ms == 0 &&
                s->now >= j->switch_retry_ms && s->n_keep == 1 && s->d->n_broken == 0;
    uint32_t live = 0, free = 0;
    for (uint32_t i = 0; i < s->d->n_nodes; i++) {
        const struct hsp_cluster_node *n = &s->d->nodes[i];
        bool here =
            n->state == HSP_NODE_LIVE && !n->draining && !n->leaving && n->fault.until_ms == 0;
        live += here;
        const struct hsp_node_device *k = &n->dev[s->n_devs];
        free += here && n->holder && k->up && (k->job == 0 || k->job == j->id);
        for (uint32_t d = 0; d < SIM_DEVS; d++) { /* the device still gives something back */
            calm = calm && (n->dev[d].job != j->id || n->dev[d].ask == HSP_ASK_NONE);
        }
        calm = calm && (here || n->fault.until_ms != 0 || hsp_ci_node_gone(n));
    }
    calm = calm && s->now >= s->d_resumed_ms + 1500;
    t->calm_ms = !calm ? 0 : t->calm_ms == 0 || free != t->calm_free ? s->now : t->calm_ms;
    t->calm_free = free;
    struct hsp_spread spread;
    if (!calm || s->now < t->calm_ms + 1500 || free < live ||
        !hsp_cluster_spread(s->d, j, &spread)) {
        return;
    }
    t->was_calm = true;
    uint32_t want = j->copies < live ? j->copies : live;
    if (spread.min_nodes < want) {
        sim_fail(s, "job %u: its state is on %u nodes, %u are live and %u copies promised", j->id,
                 spread.min_nodes, live, j->copies);
    }
}

/* Device @x does something for the job, or has something of it. */
static bool serves(const struct sim *s, uint32_t x, uint32_t job)
{
    const struct sim_exec *e = &s->exec[x];
    bool any =
        (e->cur.epoch != 0 && e->cur.job == job) || (e->next.epoch != 0 && e->next.job == job);
    for (uint32_t i = 0; i < e->n_seg; i++) {
        any = any || e->seg[i].job == job;
    }
    return any;
}

/* A job that is suspended holds nothing, when nothing goes wrong any more and all have had the time
 * to be told. */
static void check_rest(struct sim *s, const struct hsp_job *j)
{
    struct sim_job_truth *t = &s->job[j->id];
    t->rest_ms = j->state != HSP_JOB_SUSPENDED ? 0 : t->rest_ms == 0 ? s->now : t->rest_ms;
    t->rested = t->rested && t->rest_ms != 0;
    uint64_t since = t->rest_ms > s->healed_ms ? t->rest_ms : s->healed_ms;
    if (t->rest_ms == 0 || t->rested || s->healed_ms == 0 || s->now < since + 12000) {
        return;
    }
    t->rested = true;
    if (j->n_leases != 0) {
        sim_fail(s, "job %u is suspended and holds %u devices", j->id, j->n_leases);
    }
    for (uint32_t x = 0; x < s->n_nodes * SIM_DEVS; x++) {
        if (serves(s, x, j->id)) {
            sim_fail(s, "job %u is suspended and executor %u has something of it", j->id, x);
        }
    }
}

/* The agent and the executor of rank 0 could obey. */
static bool first_is_there(const struct sim *s, const struct hsp_job *j, uint32_t *ret_conn)
{
    const struct hsp_cluster_node *n = &s->d->nodes[HSP_DEVICE_NODE(j->cur.peers[0].device)];
    uint32_t node = (uint32_t)(n->name[1] - '0');
    const struct sim_agent *a = &s->agent[node];
    const struct sim_exec *x = &s->exec[node * SIM_DEVS + HSP_DEVICE_INDEX(j->cur.peers[0].device)];
    *ret_conn = n->conn;
    return n->conn != 0 && s->conn_open[n->conn] && a->conn == n->conn && a->alive && !a->paused &&
           !a->cut && x->up && !x->paused;
}

/* A job that makes steps is suspended when that is wished. */
static void check_wish(struct sim *s, const struct hsp_job *j)
{
    struct sim_job_truth *t = &s->job[j->id];
    uint32_t conn = 0;
    bool waits = j->suspending && j->state == HSP_JOB_RUNNING && first_is_there(s, j, &conn);
    if (!waits || t->wish_epoch != j->cur.epoch || t->wish_conn != conn) {
        t->wish_ms = waits ? s->now : UINT64_MAX - 1000;
        t->wish_epoch = j->cur.epoch;
        t->wish_conn = conn;
        t->wish_commits = t->commits;
    } else if (s->now > t->wish_ms + 1000 && t->commits > t->wish_commits + 20) {
        sim_fail(s, "job %u makes steps and is not suspended", j->id);
    }
}

/* Each prepared epoch has a member, when nothing goes wrong any more. */
static void check_prepared(struct sim *s)
{
    for (uint32_t x = 0; s->healed_ms != 0 && x < s->n_nodes * SIM_DEVS; x++) {
        struct sim_exec *e = &s->exec[x];
        const struct hsp_job *j = e->next.epoch != 0 ? hsp_cluster_job(s->d, e->next.job) : NULL;
        bool orphan = j != NULL && e->next.epoch != j->att.epoch && e->next.epoch != j->cur.epoch;
        e->orphan_ms = !orphan ? 0 : e->orphan_ms == 0 ? s->now : e->orphan_ms;
        if (orphan && s->now > e->orphan_ms + SIM_CONNECT_MS + 5000) {
            sim_fail(s, "executor %u is prepared for epoch %llu of job %u, which nobody begins", x,
                     (unsigned long long)e->next.epoch, e->next.job);
        }
    }
}

/* Looks on; never ends the run. */
static bool watch(struct sim *s)
{
    for (size_t i = 0; s->d_paused && i < sizeof s->job / sizeof s->job[0]; i++) {
        s->job[i].wish_epoch = 0; /* hspmdd had no time to obey */
    }
    for (uint32_t i = 0; s->d_alive && !s->d_paused && i < s->d->n_jobs; i++) {
        check_calm(s, s->d->jobs[i]);
        check_rest(s, s->d->jobs[i]);
        check_wish(s, s->d->jobs[i]);
    }
    if (s->d_alive) {
        check_prepared(s);
        sim_check_watch(s);
    }
    return false;
}

/* True where the reason of the job leaves it to an administrator to begin anew, and the
 * administrator does: the job has lost its state, and it is not known how far it had come, or its
 * only checkpoint is damaged. */
static bool begin_anew(struct sim *s, const struct hsp_job *j)
{
    const uint32_t job = j->id;
    if (strstr(j->reason, "resume --from 0, starts again") == NULL &&
        strstr(j->reason, "to start again: resume it with --from 0") == NULL) {
        return false;
    }
    sim_admin(s, (struct hsp_admin_event){.verb = HSP_ADMIN_CANCEL, .job = job});
    sim_admin(s, (struct hsp_admin_event){
                     .verb = HSP_ADMIN_RESUME, .job = job, .has_step = true, .looked = true});
    return true;
}

static bool all_over(struct sim *s)
{
    (void)watch(s);
    if (!s->d_alive || s->d->n_jobs < 2 || s->d->check.active) {
        return false;
    }
    for (uint32_t i = 0; i < s->d->n_jobs; i++) {
        const struct hsp_job *j = s->d->jobs[i];
        if (j->state == HSP_JOB_SUSPENDED && s->job[j->id].rested) {
            resume_job(s, j);
        }
        if (begin_anew(s, j) || !hsp_job_terminal(j->state)) {
            return false;
        }
    }
    return true;
}

/* Agents begin anew with GPUs that were reset. */
static void reset_gpus(struct sim *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        bool unwell = false;
        for (uint32_t d = 0; s->agent[i].alive && d < s->n_devs; d++) {
            unwell =
                unwell || hsp_agent_device_at(s->agent[i].core, d)->health.verdict > HSP_GPU_WARN;
        }
        if (unwell) {
            sim_kill_agent(s, i, 100 + 1000 * i);
        }
    }
}

static void heal(struct sim *s)
{
    s->chaos = false;
    reset_gpus(s);
    s->job[1].unwritable = 0;
    s->healed_ms = s->now;
    sim_log(s, "--- healed");
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        static char names[SIM_NODES][8];
        (void)snprintf(names[i], sizeof(names[i]), "n%u", i);
        sim_admin(s, (struct hsp_admin_event){.verb = HSP_ADMIN_UNDRAIN, .node = names[i]});
    }
    allow(s, false);
    for (uint32_t j = 1; j <= 2; j++) {
        sim_admin(s,
                  (struct hsp_admin_event){.verb = HSP_ADMIN_SCALE, .job = j, .min = 1, .max = 6});
    }
}

/* A checkpoint that its job may begin with, and can. */
static bool has_any(const struct sim_job_truth *t)
{
    bool any = false;
    for (uint32_t v = 0; v < SIM_STEPS; v++) {
        any = any || (t->disk[v] != 0 && !t->spoiled[v] && !t->given_up[v]);
    }
    return any;
}

static void judge(struct sim *s)
{
    for (uint32_t i = 0; i < s->d->n_jobs && !s->failed; i++) {
        const struct hsp_job *j = s->d->jobs[i];
        const struct sim_job_truth *t = &s->job[j->id];
        bool done = j->state == HSP_JOB_DONE && t->committed == j->steps;
        bool nothing = !j->has_ckpt || t->spoiled[j->origin_step] || !has_any(t);
        bool lost = j->state == HSP_JOB_FAILED && t->excess && nothing;
        if (!done && !lost) {
            sim_fail(s, "job %u ends %s at version %llu of %llu: %s", j->id,
                     hsp_job_state_name(j->state), (unsigned long long)t->committed,
                     (unsigned long long)j->steps, j->reason);
        }
    }
}

static void run(struct sim *s, uint64_t seed, FILE *log)
{
    sim_init(s, seed, 0, 0);
    s->log = log;
    s->n_nodes = 3 + (uint32_t)sim_below(s, 3);
    s->n_devs = 1 + (uint32_t)sim_below(s, SIM_DEVS - 1);
    s->n_keep = sim_below(s, 8) != 0;
    s->copies = sim_below(s, 4) == 0 ? 3 : 2;
    s->ckpt_keep = 1 + (uint32_t)sim_below(s, 2);
    s->d->cfg.forget_s = s->cfg.forget_s = sim_below(s, 2) * (1 + sim_below(s, 4));
    s->two_a_host = sim_below(s, 4) == 0;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        sim_push(s, sim_below(s, i == 0 ? 10 : 3000),
                 (struct sim_ev){.type = SIM_E_A_START, .who = i});
    }
    s->call = call;
    s->chaos = s->few_due = true;
    s->permille = (uint32_t[]){0, 5, 20, 60}[sim_below(s, 4)];
    sim_submit(s, "first", 0, 1 + (uint32_t)sim_below(s, 2), 8, 60 + sim_below(s, 300),
               sim_below(s, 2) * 25);
    if (sim_below(s, 4) == 0) { /* until heal() */
        s->job[1].unwritable = sim_below(s, 2) == 0 ? UINT32_MAX : (uint32_t)sim_below(s, 64);
    }
    call_at(s, sim_below(s, 4000), CALL_SECOND);
    uint64_t n = sim_below(s, 12), until = 4000 + sim_below(s, 14000);
    for (uint64_t i = 0; i < n; i++) {
        call_at(s, sim_below(s, until), CALL_FAULT);
    }
    for (uint64_t k = sim_below(s, 6); k > 0; k--) {
        call_at(s, sim_below(s, until), CALL_FORGE);
    }
    call_at(s, sim_below(s, 3500), CALL_ALLOW);
    wishes(s, until);
    sim_run(s, until, watch);
    s->chaos = false;
    sim_run(s, until + 8000, watch); /* the stopped go on, the killed come back */
    if (!s->failed && s->d_alive && s->d->n_jobs < 2) {
        sim_submit(s, "late", 0, 1, 2, 20, 0); /* the submission met a dead coordinator */
        if (s->d->n_jobs < 2) {
            sim_submit(s, "later", 0, 1, 2, 20, 0);
        }
    }
    heal(s);
    if (!sim_run(s, until + 300000, all_over) && !s->failed) {
        sim_fail(s, "a job neither runs to its end nor fails, or a check does not end, within 5 "
                    "minutes after the network healed");
    }
    if (!s->failed) {
        judge(s);
    }
}

static void report(struct sim *s)
{
    struct hsp_buf b;
    hsp_buf_init(&b, 1u << 20);
    printf("# seed %llu at %llu ms: %s\n%s", (unsigned long long)s->seed,
           (unsigned long long)s->now, s->why, s->faults);
    if (s->d != NULL) {
        hsp_cluster_dump(s->d, &b);
    }
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (s->agent[i].core != NULL) {
            hsp_agent_dump(s->agent[i].core, &b);
        }
    }
    for (uint32_t i = 0; i < SIM_EXECS; i++) {
        const struct sim_exec *e = &s->exec[i];
        if (e->alive && (e->cur.epoch != 0 || e->next.epoch != 0)) {
            hsp_buf_printf(&b,
                           "executor %u: job %u epoch %llu rank %u phase %d step %llu rows %u of "
                           "%u, next %llu phase %d\n",
                           i, e->cur.job, (unsigned long long)e->cur.epoch, e->cur.rank,
                           (int)e->cur.phase, (unsigned long long)e->cur.step, e->cur.got,
                           e->cur.need, (unsigned long long)e->next.epoch, (int)e->next.phase);
        }
    }
    printf("%s", hsp_buf_cstr(&b));
    hsp_buf_fini(&b);
}

/* Sums of the events in all sequences. */
struct sums {
    uint64_t sequences, failures, events, commits, calm, suspends, resumes, checks, measured, moves;
    uint64_t forged, inherited, forgotten, fallbacks, damaged, cuts, relayed, given_up, live;
};

static void add(struct sums *sum, const struct sim *s)
{
    sum->sequences++;
    sum->failures += s->failed;
    sum->events += s->events;
    sum->checks += s->checks.n_ended;
    sum->damaged += s->n_damaged;
    sum->given_up += s->n_given_up;
    sum->live += s->n_live;
    sum->measured += s->checks.n_measured;
    sum->forged += s->forged;
    sum->inherited += s->inherited;
    sum->forgotten += s->forgotten;
    sum->cuts += s->cuts;
    sum->relayed += s->relayed;
    for (uint32_t j = 1; j <= SIM_JOBS; j++) {
        sum->commits += s->job[j].commits;
        sum->calm += s->job[j].was_calm;
        sum->suspends += s->job[j].suspends;
        sum->resumes += s->job[j].resumes;
        sum->moves += s->job[j].moves;
        sum->fallbacks += s->job[j].fallbacks;
    }
}

/* False: it failed, or hardly tried its events. */
static bool conclude(const struct sums *sum, uint64_t n)
{
    bool tried = sum->suspends >= n / 4 && sum->resumes >= n / 4 && sum->checks >= n / 4 &&
                 sum->measured >= n / 4 && sum->forged >= n && sum->damaged >= n / 20 &&
                 sum->cuts >= n / 4 && sum->given_up >= n / 10 && sum->live >= n / 10;
    if (n >= 300) { /* rare events */
        tried = tried && sum->moves > 0 && sum->fallbacks > 0 && (sum->relayed > 0 || n < 1000) &&
                sum->forgotten >= n / 300 && sum->inherited >= n / 30;
    }
    bool ok = sum->failures == 0 && (tried || n < 100);
    printf("%s 1 - %llu random sequences, %llu events, %llu committed versions, %llu failures, "
           "%llu jobs seen at rest, %llu suspended, %llu resumed, %llu times from an older "
           "checkpoint, %llu that write elsewhere, %llu checks of %llu nodes, %llu forged "
           "messages, %llu names of dead nodes taken, %llu nodes forgotten, %llu pieces of state "
           "found damaged, %llu versions given up, %llu sealed at a loss, %llu pairs cut, "
           "%llu rows relayed%s\n",
           ok ? "ok" : "not ok", (unsigned long long)n, (unsigned long long)sum->events,
           (unsigned long long)sum->commits, (unsigned long long)sum->failures,
           (unsigned long long)sum->calm, (unsigned long long)sum->suspends,
           (unsigned long long)sum->resumes, (unsigned long long)sum->fallbacks,
           (unsigned long long)sum->moves, (unsigned long long)sum->checks,
           (unsigned long long)sum->measured, (unsigned long long)sum->forged,
           (unsigned long long)sum->inherited, (unsigned long long)sum->forgotten,
           (unsigned long long)sum->damaged, (unsigned long long)sum->given_up,
           (unsigned long long)sum->live, (unsigned long long)sum->cuts,
           (unsigned long long)sum->relayed, tried || n < 100 ? "" : ": too few of them");
    return ok;
}

static struct sim *current; /* an assertion has no other way to say which sequence it was */
static void on_assert(const char *expr, const char *file, int line)
{
    (void)snprintf(current->why, sizeof(current->why), "assertion %s at %s:%d", expr, file, line);
    report(current);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
#ifdef HSP_SANITIZE
    uint64_t n = 100; /* slower */
#else
    uint64_t n = 300;
#endif
    uint64_t seed = 1;
    struct sums sum = {0};
    const char *env = getenv("HSPMD_SEED");
    bool verbose = false;
    if (env != NULL) {
        (void)hsp_parse_u64(env, &seed);
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            (void)hsp_parse_u64(argv[++i], &seed);
        } else if (strcmp(argv[i], "--verbose") == 0) {
            verbose = true;
        } else if (!hsp_parse_u64(argv[i], &n)) {
            fprintf(stderr, "usage: %s [N] [--seed S] [--verbose]\n", argv[0]);
            return 2;
        }
    }
    struct sim *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return 1;
    }
    current = s;
    hsp_assert_set_hook(on_assert);
    printf("# HSPMD_SEED=%llu\n1..1\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < n && sum.failures < 5; i++) {
        run(s, seed + i, verbose ? stdout : NULL);
        add(&sum, s);
        if (s->failed) {
            report(s);
        }
        sim_fini(s);
    }
    free(s->heap);
    hsp_arena_free(s->arena);
    free(s);
    return conclude(&sum, n) ? 0 : 1;
}
