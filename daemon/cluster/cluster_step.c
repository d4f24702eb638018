#include "daemon/cluster/cluster_step.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/admin.h"
#include "daemon/cluster/attempt_end.h"
#include "daemon/cluster/behind.h"
#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/ckpt_look.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_check.h"
#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/doubt.h"
#include "daemon/cluster/epoch_messages.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/forget.h"
#include "daemon/cluster/health.h"
#include "daemon/cluster/standing.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/kept_state.h"
#include "daemon/cluster/job_list.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/jobs.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/link_probe.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/measure.h"
#include "daemon/cluster/membership.h"
#include "daemon/cluster/node_check.h"
#include "daemon/cluster/node_fault.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/past_epochs.h"
#include "daemon/cluster/plan_requests.h"
#include "daemon/cluster/plan_results.h"
#include "daemon/cluster/progress.h"
#include "daemon/cluster/reach_rounds.h"
#include "daemon/cluster/row_load.h"
#include "daemon/cluster/row_read.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/slow.h"
#include "daemon/cluster/stall.h"
#include "daemon/cluster/state_damage.h"
#include "proto/base/arena.h"
#include "proto/base/check.h"
#include "proto/base/str.h"

/* Everything one step may allocate: rows of one job with 4096 ranks are under 1 MiB, and a death of
 * a node touches at most HSP_NODE_DEVICES jobs. */
#define STEP_ARENA (256u << 20)

void hsp_cluster_defaults(uint32_t detect_ms, struct hsp_cluster_config *ret)
{
    *ret = (struct hsp_cluster_config){.heartbeat_ms = detect_ms / 6 > 0 ? detect_ms / 6 : 1,
                                       .suspect_ms = detect_ms / 4,
                                       .dead_ms = detect_ms,
                                       .seal_ms = 2 * detect_ms,
                                       .prepare_ms = 20 * detect_ms,
                                       .up_ms = detect_ms,
                                       .state_wait_ms = 20 * detect_ms,
                                       .retune_ms = 60000,
                                       .slow_steps = 20,
                                       .slow_ratio = 1.3,
                                       .max_failures = 30,
                                       .backoff_ms = 100,
                                       .measures = 4,
                                       .measure_ms = 10000,
                                       .forget_s = 7 * 86400,
                                       .max_parked = HSP_MAX_PARKED,
                                       .data_tls = true};
}

struct hsp_cluster *hsp_cluster_new(const struct hsp_cluster_config *cfg)
{
    struct hsp_cluster *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    c->cfg = *cfg;
    c->next_job = 1;
    c->next_incarnation = 1;
    c->next_ticket = 1;
    c->forget_ms = c->answers_ms = HSP_NEVER;
    hsp_ci_index_init(c);
    c->arena = hsp_arena_new(STEP_ARENA);
    return c->arena != NULL ? c : hsp_cluster_free(c);
}

struct hsp_cluster *hsp_cluster_free(struct hsp_cluster *c)
{
    if (c == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        hsp_ci_job_free(c->jobs[i]);
    }
    hsp_ci_index_fini(c);
    hsp_ci_parked_free(c);
    hsp_ci_check_fini(c);
    free(c->ended);
    hsp_ci_rounds_fini(c);
    hsp_ci_pairs_fini(c);
    free(c->nodes);
    free(c->actions);
    hsp_arena_free(c->arena);
    free(c);
    return NULL;
}

static void begin(struct hsp_cluster *c, hsp_msec now)
{
    HSP_ASSERT(now >= c->now_ms);
    c->now_ms = now;
    c->n_actions = 0;
    hsp_arena_reset(c->arena);
}

/* True when a look at everything does nothing more: no mark was missed. */
static bool all_done(struct hsp_cluster *c)
{
    uint32_t n = c->n_actions;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        hsp_ci_node_dirty(c, &c->nodes[i]);
    }
    hsp_ci_jobs_dirty(c);
    hsp_ci_advance(c);
    return c->n_actions == n;
}

static enum hsp_status finish(struct hsp_cluster *c, struct hsp_actions *ret, struct hsp_err *err)
{
    if (c->failed) {
        return hsp_err_nomem(err, "the coordinator");
    }
    HSP_DASSERT((hsp_cluster_check(c), true));
    HSP_DASSERT(all_done(c));
    ret->n = c->n_actions;
    ret->item = c->actions;
    return HSP_OK;
}

/* Makes the deadline @t at the latest. A time that has passed was looked at just now, so it is left
 * out. */
static void earlier(struct hsp_cluster *c, hsp_msec t)
{
    if (t > c->now_ms && t < c->due_ms) {
        c->due_ms = t;
    }
}

static void earlier_of_job(struct hsp_cluster *c, const struct hsp_job *j)
{
    if (hsp_job_terminal(j->state)) {
        return;
    }
    if (j->att.epoch != 0) {
        earlier(c, j->att.deadline_ms);
    }
    earlier(c, j->retry_ms);
    earlier(c, j->plan_retry_ms);
    earlier(c, j->switch_retry_ms);
    earlier(c, j->data_retry_ms);
    earlier(c, j->keep_retry_ms);
    earlier(c, j->room_retry_ms);
    earlier(c, hsp_ci_learnt_due(j));
    earlier(c, j->state_deadline_ms);
    earlier(c, j->claim_ms);
    earlier(c, hsp_ci_progress_due(j));
}

/* Does all that the facts allow, and finds out when time allows more. Most messages mark no job and
 * no node (index.h): then nothing is looked at. */
static void look_around(struct hsp_cluster *c)
{
    if (c->now_ms >= c->due_ms) {
        hsp_ci_jobs_dirty(c);
    }
    if (!c->dirty || c->behind) {
        return;
    }
    hsp_ci_advance(c);
    c->due_ms = c->n_away > 0 ? c->grace_ms : HSP_NEVER;
    earlier(c, hsp_ci_measure_due(c));
    earlier(c, hsp_ci_check_due(c));
    earlier(c, hsp_ci_await_due(c));
    earlier(c, c->forget_ms);
    earlier(c, hsp_ci_rounds_due(c));
    earlier(c, hsp_ci_node_faults_due(c));
    earlier(c, hsp_ci_probe_due(c));
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        earlier_of_job(c, c->jobs[i]);
    }
}

/* A row says which devices its job held when it was written; the epochs of live jobs are the
 * truth. */
static void claim(struct hsp_cluster *c, const struct hsp_job *j, const struct hsp_cl_epoch *e,
                  uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct hsp_node_device *d = hsp_ci_device(c, e->peers[i].device);
        if (d->job != j->id && !hsp_ci_node_gone(hsp_ci_node(c, e->peers[i].device))) {
            hsp_ci_lease(c, e->peers[i].device, j->id);
            d->ask = HSP_ASK_NONE;
        }
    }
}

/* A node's death may be on disk without the loss it meant: the process ended between the two
 * rows. */
static bool member_gone(const struct hsp_cluster *c, const struct hsp_cl_epoch *e, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_cluster_node *node = hsp_ci_node(c, e->peers[i].device);
        if (hsp_ci_node_gone(node) || node->incarnation != e->peers[i].incarnation) {
            return true;
        }
    }
    return false;
}

/* Takes up the work of a job that was under way when the last process ended. Attempts before GO
 * burn their number; attempts past GO are waited for; everything else is sealed and asked again. */
static void resume_job(struct hsp_cluster *c, struct hsp_job *j)
{
    if (j->state == HSP_JOB_BEHIND) {
        return;
    }
    bool gone = j->att.epoch != 0 && j->att.phase == HSP_ATT_GO;
    if (j->att.epoch != 0 && !gone) {
        hsp_ci_epoch_over(j, &j->att);
    }
    for (uint32_t i = j->n_plans; i-- > 0;) { /* not needed, only not yet erased; numbers burn */
        uint64_t plan = j->plans[i].plan;
        j->next_plan = plan >= j->next_plan ? plan + 1 : j->next_plan;
        bool used = plan == j->cur.plan || plan == j->att.plan;
        bool left = j->cur.epoch != 0 && j->cur.settled && plan < j->cur.plan;
        if ((hsp_ci_at_rest(j) && j->state != HSP_JOB_FAILED) || left ||
            (!j->plans[i].started && !used)) {
            hsp_ci_drop_plan(c, j, plan);
        }
    }
    if (hsp_ci_keeps_state(j)) {
        hsp_ci_seal_leases(c, j);
    }
    if (hsp_job_terminal(j->state)) {
        return;
    }
    switch (j->state) {
    case HSP_JOB_RUNNING:
    case HSP_JOB_FINISHING: break;
    case HSP_JOB_SWITCHING:
        if (!gone) {
            hsp_ci_job_move(c, j, HSP_JOB_RUNNING);
        }
        break;
    case HSP_JOB_STARTING:
        if (!gone) {
            hsp_ci_job_move(c, j, HSP_JOB_PENDING);
        }
        break;
    case HSP_JOB_RECOVERING:
        if (!gone) {
            hsp_ci_job_loss(c, j, "coordinator restarted");
        }
        break;
    case HSP_JOB_SEALING:
    case HSP_JOB_PAUSED: hsp_ci_job_loss(c, j, "coordinator restarted"); break;
    case HSP_JOB_PENDING:
    case HSP_JOB_DONE:
    case HSP_JOB_FAILED:
    case HSP_JOB_CANCELLED:
    case HSP_JOB_SUSPENDED:
    case HSP_JOB_BEHIND: break;
    }
    bool runs = j->state == HSP_JOB_RUNNING || j->state == HSP_JOB_SWITCHING ||
                j->state == HSP_JOB_FINISHING;
    if ((runs &&
         member_gone(c, &j->cur, j->cur.settled ? hsp_ci_participants(&j->cur) : j->cur.n_peers)) ||
        (gone && member_gone(c, &j->att, j->att.n_peers))) {
        hsp_ci_job_loss(c, j, "a member was lost as the coordinator ended");
    }
    hsp_ci_free_leases(c, j);
}

/* Nodes before jobs before plans, for any order of the rows. */
static enum hsp_status load_rows(struct hsp_cluster *c, const struct hsp_cluster_row *rows,
                                 uint32_t n, struct hsp_err *err)
{
    static const char *const kinds[] = {"cluster", HSP_RESTORED_ROW, "ended", "adopted",
                                        "term",    "node/",          "job/",  "plan/"};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (uint32_t i = 0; i < n; i++) {
            if (strncmp(rows[i].key, kinds[k], strlen(kinds[k])) == 0) {
                enum hsp_status st = hsp_ci_load_row(c, &rows[i], err);
                if (st != HSP_OK) {
                    return st;
                }
            }
        }
    }
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        c->n_vacant += c->nodes[i].name[0] == '\0';
    }
    return HSP_OK;
}

/* The term, and the generation behind a restore. */
static void take_office(struct hsp_cluster *c)
{
    if (!c->founded) {
        hsp_ci_found(c);
        hsp_ci_store_cluster(c);
    }
    c->term++;
    if (c->restored) {
        hsp_ci_raise(c, c->restored_over);
        hsp_ci_doubt_all(c);
        hsp_ci_emit(c, HSP_ACT_ERASE)->key = HSP_RESTORED_ROW;
        hsp_ci_fact(c, "coordinator.restored", HSP_SEV_WARN, NULL, NULL,
                    "an older store is put back: generation %u; jobs that have gone further are "
                    "behind",
                    hsp_generation_number(c->generation));
    }
    hsp_ci_forget_later(c);
    c->next_round = (uint32_t)c->term << 12; /* late answers are of no round of this process */
    c->grace_ms = c->now_ms + c->cfg.dead_ms;
    c->found_below =
        c->next_job < UINT32_MAX - HSP_LOST_JOBS ? c->next_job + HSP_LOST_JOBS : UINT32_MAX;
    hsp_ci_store_term(c);
    const uint32_t n_nodes = c->n_nodes - c->n_vacant;
    hsp_ci_fact(c, "coordinator.started", HSP_SEV_NOTICE, NULL, NULL,
                "term %llu, %u node%s, %u job%s", (unsigned long long)c->term, n_nodes,
                hsp_s(n_nodes), c->n_jobs, hsp_s(c->n_jobs));
    if (c->behind) {
        hsp_ci_fact(c, "coordinator.behind", HSP_SEV_ERROR, NULL, NULL, "%s", c->behind_why);
    }
}

static void take_up_jobs(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        struct hsp_job *j = c->jobs[i];
        if (j->state == HSP_JOB_RUNNING || j->state == HSP_JOB_SWITCHING ||
            j->state == HSP_JOB_FINISHING) {
            claim(c, j, &j->cur, j->cur.settled ? hsp_ci_participants(&j->cur) : j->cur.n_peers);
        }
        claim(c, j, &j->att, j->att.phase == HSP_ATT_GO ? j->att.n_peers : 0);
    }
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        hsp_ci_watch_restore(c, c->jobs[i]);
        resume_job(c, c->jobs[i]);
    }
}

/* A node that is to be drained and has nothing left was told as drained before the restart. */
static void take_up_drains(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        struct hsp_cluster_node *n = &c->nodes[i];
        n->drained_told = n->draining && hsp_cluster_left_on(c, n) == NULL;
    }
}

enum hsp_status hsp_cluster_found(struct hsp_cluster *c, struct hsp_actions *ret,
                                  struct hsp_err *err)
{
    HSP_ASSERT(!c->loaded);
    begin(c, c->now_ms);
    hsp_ci_found(c);
    hsp_ci_store_cluster(c);
    hsp_ci_store_term(c);
    return finish(c, ret, err);
}

enum hsp_status hsp_cluster_load(struct hsp_cluster *c, const struct hsp_cluster_row *rows,
                                 uint32_t n, hsp_msec now_ms, struct hsp_actions *ret,
                                 struct hsp_err *err)
{
    HSP_ASSERT(!c->loaded);
    begin(c, now_ms);
    c->looked_ms = now_ms;
    enum hsp_status st = load_rows(c, rows, n, err);
    if (st != HSP_OK) {
        return st;
    }
    c->loaded = true;
    take_office(c);
    take_up_jobs(c);
    take_up_drains(c);
    hsp_ci_jobs_dirty(c);
    look_around(c);
    return finish(c, ret, err);
}

/* ---- messages of agents ---- */

typedef void agent_call(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m);

static void beat(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    hsp_ci_folder_free(c, n, m->u.beat.folder_free);
    hsp_ci_send(c, n->conn, m); /* the same number back */
}

static void echo(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    (void)c; /* W6: answered outside */
    (void)n;
    (void)m;
}

static void uplink(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    hsp_ci_uplink(c, n, &m->u.uplink);
}

static void checked(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    hsp_ci_checked(c, n, &m->u.checked);
    hsp_ci_probe_answer(c, n, &m->u.checked);
}

static void health(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    hsp_ci_health(c, n, &m->u.health);
}

static void executor_dead(struct hsp_cluster *c, struct hsp_cluster_node *n,
                          const struct hsp_msg *m)
{
    hsp_ci_executor_dead(c, n, &m->u.dead);
}

static void executor_up(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    hsp_ci_executor_up(c, n, &m->u.up);
}

static void leave(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    n->leaving = true;
    hsp_ci_node_dirty(c, n);
    hsp_ci_all_switches_anew(c);
    hsp_ci_node_reason(n, m->u.leave.reason);
    hsp_ci_fact(c, "node.leaving", HSP_SEV_NOTICE, NULL, n, "%s", m->u.leave.reason);
}

static void damaged(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    hsp_ci_state_damaged(c, n, &m->u.damaged);
}

static void reached(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    hsp_ci_reached(c, n, &m->u.reached);
}

/* The shell collects traces (W8), papers (W9) and lists of checkpoints (FIND_CKPTS). */
static void of_the_shell(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    (void)c;
    (void)n;
    (void)m;
}

/* By type; no agent sends types that have no place here. */
static agent_call *const agent_calls[] = {
    [HSP_MSG_HEARTBEAT] = beat,
    [HSP_MSG_READY] = hsp_ci_job_msg,
    [HSP_MSG_PREPARE_FAILED] = hsp_ci_job_msg,
    [HSP_MSG_STARTED] = hsp_ci_job_msg,
    [HSP_MSG_SEALED] = hsp_ci_job_msg,
    [HSP_MSG_STEP] = hsp_ci_job_msg,
    [HSP_MSG_PEER_LOST] = hsp_ci_job_msg,
    [HSP_MSG_EXECUTOR_DEAD] = executor_dead,
    [HSP_MSG_EXECUTOR_UP] = executor_up,
    [HSP_MSG_STOPPED] = hsp_ci_job_msg,
    [HSP_MSG_RELEASED] = hsp_ci_job_msg,
    [HSP_MSG_CHECKPOINTED] = hsp_ci_job_msg,
    [HSP_MSG_FINISHED] = hsp_ci_job_msg,
    [HSP_MSG_JOB_FAILED] = hsp_ci_job_msg,
    [HSP_MSG_CKPT_REFUSED] = hsp_ci_job_msg,
    [HSP_MSG_LEAVE] = leave,
    [HSP_MSG_ECHO] = echo,
    [HSP_MSG_UPLINK] = uplink,
    [HSP_MSG_CHECKED] = checked,
    [HSP_MSG_DEVICE_HEALTH] = health,
    [HSP_MSG_TRACED] = of_the_shell,
    [HSP_MSG_PAPERS] = of_the_shell,
    [HSP_MSG_CKPTS] = of_the_shell,
    [HSP_MSG_STATE_DAMAGED] = damaged,
    [HSP_MSG_REACHED] = reached,
    [HSP_MSG_STANDS] = hsp_ci_job_msg,
};

static void agent_hello(struct hsp_cluster *c, const struct hsp_event *ev,
                        const struct hsp_cluster_node *n)
{
    const struct hsp_m_hello *m = &ev->u.msg->u.hello;
    if (n != NULL && strcmp(m->node, n->name) != 0) { /* I3 */
        hsp_ci_close(c, ev->conn, "it said hello as another node");
    } else {
        hsp_ci_hello(c, ev);
    }
}

/* A parked agent says that it is there, and nothing else that counts. */
static void parked_msg(struct hsp_cluster *c, uint32_t conn, const struct hsp_msg *m)
{
    if (m->type == HSP_MSG_HEARTBEAT) {
        hsp_ci_send(c, conn, m);
    }
}

static void agent_msg(struct hsp_cluster *c, const struct hsp_event *ev)
{
    const struct hsp_msg *m = ev->u.msg;
    uint32_t conn = ev->conn;
    struct hsp_cluster_node *n = hsp_ci_node_of_conn(c, conn);
    if (m->type == HSP_MSG_HELLO) {
        agent_hello(c, ev, n);
        return;
    }
    if (hsp_ci_parked_of(c, conn) != NULL || c->behind) {
        parked_msg(c, conn, m);
        return;
    }
    if (n == NULL) {
        hsp_ci_close(c, conn, "a message before hello");
        return;
    }
    bool again = n->state == HSP_NODE_SUSPECT;
    hsp_ci_node_heard(c, n);
    if (again) {
        hsp_ci_fact(c, "node.live", HSP_SEV_INFO, NULL, n, "heard again");
        hsp_ci_node_dirty(c, n);
    }
    if (m->type < sizeof(agent_calls) / sizeof(agent_calls[0]) && agent_calls[m->type] != NULL) {
        agent_calls[m->type](c, n, m);
    } else {
        hsp_ci_close(c, conn, "a message no agent sends");
    }
}

enum hsp_status hsp_cluster_step(struct hsp_cluster *c, const struct hsp_event *ev,
                                 struct hsp_actions *ret, struct hsp_err *err)
{
    if (!c->loaded || c->failed || ev->now_ms < c->now_ms) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "event before load, after a failure or from the past");
    }
    if (ev->type == HSP_EV_MSG && ev->u.msg->type == HSP_MSG_HELLO &&
        hsp_digest_is_zero(ev->random)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "hello without random bits");
    }
    begin(c, ev->now_ms);
    c->unix_s = ev->unix_s != 0 ? ev->unix_s : c->unix_s;
    hsp_ci_forgive_stall(c);
    c->looked_ms = c->now_ms;
    switch (ev->type) {
    case HSP_EV_CONN_OPENED: break; /* nothing is known of it before its hello */
    case HSP_EV_MSG: agent_msg(c, ev); break;
    case HSP_EV_CONN_CLOSED: hsp_ci_conn_closed(c, ev->conn); break;
    case HSP_EV_TICK:
        hsp_ci_nodes_tick(c); /* W7: only now is silence silence */
        if (hsp_ci_forget_tick(c)) {
            hsp_ci_behind_tidy(c);
        }
        break;
    case HSP_EV_ADMIN: hsp_ci_admin(c, &ev->u.admin); break;
    case HSP_EV_PLAN_DONE: hsp_ci_plan_done(c, &ev->u.plan); break;
    case HSP_EV_CONFIG: hsp_ci_reconfigure(c, ev->u.config); break;
    case HSP_EV_UNREADABLE: hsp_ci_job_unreadable(c, &ev->u.unreadable); break;
    case HSP_EV_CKPTS: hsp_ci_ckpts(c, &ev->u.ckpts); break;
    }
    if (ev->type >= HSP_EV_ADMIN) { /* rare, and may touch anything */
        hsp_ci_jobs_dirty(c);
    }
    look_around(c);
    return finish(c, ret, err);
}

hsp_msec hsp_cluster_deadline(const struct hsp_cluster *c)
{
    if (c->behind) {
        return HSP_NEVER;
    }
    hsp_msec due = hsp_ci_silence_due(c);
    due = c->answers_ms < due ? c->answers_ms : due;
    return c->due_ms < due ? c->due_ms : due;
}
