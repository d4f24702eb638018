/* Every state of a job or node with every event, valid or not: what the coordinator does is what stands in
 * tests/golden/sm/cluster.txt (style guide 2.9), whatever stands there obeys the rules below, and the machine
 * goes on from there.
 *
 * Rules: an id nobody has, epoch 0, and an epoch that was never given are answered by nothing. A job that has
 * ended is changed by `resume` only. What is said twice moves a job at most once. */
#include "tests/unit/cluster/clusterworld.h"

#include <math.h>
#include <stdio.h>

#include "daemon/cluster/clusterint.h"
#include "proto/base/size.h"
#include "tests/lib/golden.h"

#define NODES   3
#define ODD_JOB 99u

/* ---- stories: how a state is reached. The job has two devices of three; n2 is left. ---- */

static void said(struct cw_world *w, uint32_t node, uint16_t type, uint64_t epoch)
{
    struct hsp_msg m = {.type = type, .epoch = epoch};
    m.u.devref.job = 1; /* all of these begin with the job */
    cw_msg(w, node + 1, m);
}

static void sealed(struct cw_world *w, uint32_t node, uint64_t version, bool holds)
{
    const struct hsp_job *j = cw_job(w, 1);
    struct hsp_m_holding h = {
        .job = 1, .plan = j->cur.plan, .version = version, .rank = node, .owner = node};
    struct hsp_msg m = {.type = HSP_MSG_SEALED,
                        .epoch = j->seal_upto,
                        .u.sealed = {.job = 1, .n_holdings = holds, .holdings = &h}};
    cw_msg(w, node + 1, m);
}

static void of_node(struct cw_world *w, uint32_t node, uint16_t type)
{
    struct hsp_msg m = {.type = type};
    if (type == HSP_MSG_EXECUTOR_DEAD) {
        m.u.dead.reason = "signal 9";
    } else if (type == HSP_MSG_EXECUTOR_UP) {
        m.u.up.address = "y";
    } else if (type == HSP_MSG_LEAVE) {
        m.u.leave.reason = "SIGTERM";
    }
    cw_msg(w, node + 1, m);
}

static void no_job(struct cw_world *w)
{
    cw_begin(w, NODES, 1);
}

static void pending(struct cw_world *w)
{
    no_job(w);
    (void)cw_submit(w, "j", 0, 9, 9);
}

static void planning(struct cw_world *w)
{
    no_job(w);
    (void)cw_submit(w, "j", 0, 1, 2);
}

static void preparing(struct cw_world *w)
{
    planning(w);
    cw_plan(w, 1);
    said(w, 0, HSP_MSG_PREPARE_FAILED, 1); /* so that there is an old epoch */
    cw_plan(w, 1);
}

static void going(struct cw_world *w)
{
    preparing(w);
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
}

static void unsettled(struct cw_world *w)
{
    going(w);
    said(w, 0, HSP_MSG_STARTED, 2);
    said(w, 1, HSP_MSG_STARTED, 2);
}

static void running(struct cw_world *w)
{
    going(w);
    cw_pass(w, 1, 3, cw_even, 2);
    cw_let_go(w, 1, 2);
}

static void drain(struct cw_world *w, const char *node)
{
    (void)cw_admin(
        w, (struct hsp_admin_event){.verb = HSP_ADMIN_DRAIN, .node = node, .reason = "test"});
}

static void running_planning(struct cw_world *w)
{
    running(w);
    drain(w, "n1");
}

static void switching(struct cw_world *w)
{
    running_planning(w);
    cw_plan(w, 1);
}

static void armed(struct cw_world *w)
{
    switching(w);
    for (uint32_t i = 0; i < NODES; i++) {
        cw_ready(w, 1, i, 5);
    }
}

static void sealing(struct cw_world *w)
{
    running(w);
    of_node(w, 1, HSP_MSG_EXECUTOR_DEAD);
}

static void waits_up(struct cw_world *w)
{
    sealing(w);
    sealed(w, 0, 3, true);
    sealed(w, 1, 3, true);
}

static void recovering(struct cw_world *w)
{
    waits_up(w);
    of_node(w, 1, HSP_MSG_EXECUTOR_UP);
}

static void recovering_going(struct cw_world *w)
{
    recovering(w);
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
}

static void paused(struct cw_world *w)
{
    sealing(w);
    sealed(w, 0, 2, false);
    sealed(w, 1, 2, false);
}

static void finishing(struct cw_world *w)
{
    running(w);
    struct hsp_msg m = {
        .type = HSP_MSG_STEP, .epoch = 2, .u.step = {.job = 1, .step = 100, .final = true}};
    cw_msg(w, 1, m);
}

static void done(struct cw_world *w)
{
    finishing(w);
    said(w, 0, HSP_MSG_FINISHED, 2);
}

static void stopped(struct cw_world *w)
{
    said(w, 0, HSP_MSG_STOPPED, 2);
    said(w, 1, HSP_MSG_STOPPED, 2);
}

static void done_stopped(struct cw_world *w)
{
    done(w);
    stopped(w);
}

static void failed(struct cw_world *w)
{
    running(w);
    struct hsp_msg m = {
        .type = HSP_MSG_JOB_FAILED, .epoch = 2, .u.jobfail = {.job = 1, .reason = "diverged"}};
    cw_msg(w, 1, m);
    stopped(w);
}

static void suspended(struct cw_world *w)
{
    planning(w);
    (void)cw_admin(w, (struct hsp_admin_event){.verb = HSP_ADMIN_SUSPEND, .job = 1});
}

static void cancelled(struct cw_world *w)
{
    running(w);
    (void)cw_admin(w, (struct hsp_admin_event){.verb = HSP_ADMIN_CANCEL, .job = 1});
}

static void suspect(struct cw_world *w)
{
    running(w);
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
}

static void leaving(struct cw_world *w)
{
    running(w);
    of_node(w, 2, HSP_MSG_LEAVE);
}

static void left(struct cw_world *w)
{
    leaving(w);
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 3});
}

static void dead(struct cw_world *w)
{
    suspect(w);
    cw_hello(w, 7, "n1", 0, 1); /* in its place */
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 7});
}

static void restarted(struct cw_world *w)
{
    struct hsp_err err = {0};
    struct hsp_cluster_row rows[256];
    running(w);
    for (uint32_t i = 0; i < w->n_rows; i++) {
        rows[i] = (struct hsp_cluster_row){w->rows[i].key, w->rows[i].value, w->rows[i].len};
    }
    struct hsp_cluster_config cfg = w->c->cfg;
    hsp_cluster_free(w->c);
    w->c = hsp_cluster_new(&cfg);
    assert_ok(hsp_cluster_load(w->c, rows, w->n_rows, w->now, &w->a, &err), &err);
    cw_look(w);
    cw_hello_running(w, 1, "n0", w->c->nodes[0].incarnation, 1, 2);
    cw_hello(w, 3, "n2", w->c->nodes[2].incarnation, 1);
}

static void measuring(struct cw_world *w)
{
    no_job(w);
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    cw_hello(w, 2, "n1", 0, 1);
}

#define NO_JOB (-1)
static const struct story {
    const char *name;
    void (*tell)(struct cw_world *w);
    int state; /* enum hsp_job_state of job 1 */
    enum hsp_attempt_phase phase;
    bool asks; /* the planner is at it */
} stories[] = {
    {"no job", no_job, NO_JOB, HSP_ATT_NONE, false},
    {"no job, n1 measures its link", measuring, NO_JOB, HSP_ATT_NONE, false},
    {"pending: too few devices", pending, HSP_JOB_PENDING, HSP_ATT_NONE, false},
    {"pending: planning", planning, HSP_JOB_PENDING, HSP_ATT_NONE, true},
    {"starting: prepares", preparing, HSP_JOB_STARTING, HSP_ATT_PREPARING, false},
    {"starting: goes", going, HSP_JOB_STARTING, HSP_ATT_GO, false},
    {"running: no vote yet", unsettled, HSP_JOB_RUNNING, HSP_ATT_NONE, false},
    {"running", running, HSP_JOB_RUNNING, HSP_ATT_NONE, false},
    {"running: planning, n1 drains", running_planning, HSP_JOB_RUNNING, HSP_ATT_NONE, true},
    {"switching: prepares", switching, HSP_JOB_SWITCHING, HSP_ATT_PREPARING, false},
    {"switching: armed", armed, HSP_JOB_SWITCHING, HSP_ATT_GO, false},
    {"sealing", sealing, HSP_JOB_SEALING, HSP_ATT_NONE, false},
    {"recovering: waits for n1/0", waits_up, HSP_JOB_RECOVERING, HSP_ATT_WAIT_UP, false},
    {"recovering: prepares", recovering, HSP_JOB_RECOVERING, HSP_ATT_PREPARING, false},
    {"recovering: goes", recovering_going, HSP_JOB_RECOVERING, HSP_ATT_GO, false},
    {"paused: state is missing", paused, HSP_JOB_PAUSED, HSP_ATT_NONE, false},
    {"finishing", finishing, HSP_JOB_FINISHING, HSP_ATT_NONE, false},
    {"done: stopping", done, HSP_JOB_DONE, HSP_ATT_NONE, false},
    {"done", done_stopped, HSP_JOB_DONE, HSP_ATT_NONE, false},
    {"failed", failed, HSP_JOB_FAILED, HSP_ATT_NONE, false},
    {"suspended", suspended, HSP_JOB_SUSPENDED, HSP_ATT_NONE, false},
    {"cancelled: stopping", cancelled, HSP_JOB_CANCELLED, HSP_ATT_NONE, false},
    {"running, n1 suspect", suspect, HSP_JOB_RUNNING, HSP_ATT_NONE, false},
    {"running, n2 leaves", leaving, HSP_JOB_RUNNING, HSP_ATT_NONE, false},
    {"running, n2 left", left, HSP_JOB_RUNNING, HSP_ATT_NONE, false},
    {"n1 came back as another", dead, HSP_JOB_SEALING, HSP_ATT_NONE, true},
    {"running, hspmdd restarted", restarted, HSP_JOB_RUNNING, HSP_ATT_NONE, false},
};

/* ---- events ---- */

/* Of what a message speaks. */
enum variant {
    V_CUR,    /* the epoch that runs, or ran last */
    V_NEXT,   /* the attempt */
    V_SEAL,   /* what SEAL asked for */
    V_OLD,    /* an epoch that is over */
    V_FUTURE, /* one that was never given */
    V_ZERO,   /* none */
    V_NO_JOB, /* a job nobody knows */
    V_OTHER,  /* of the running or next epoch, by n2, which may have no part */
    V_DEVICE, /* of a device that n1 does not have; peer and rank out of range */
    V_TWICE   /* as CUR or NEXT, after it was said once */
};
static const char *const variants[] = {"cur",  "next",   "seal",  "old",    "future",
                                       "zero", "no job", "by n2", "no dev", "twice"};
#define N_VARIANTS HSP_ARRAY_LEN(variants)

static const uint16_t of_job[] = {HSP_MSG_READY,    HSP_MSG_PREPARE_FAILED, HSP_MSG_STARTED,
                                  HSP_MSG_SEALED,   HSP_MSG_STEP,           HSP_MSG_PEER_LOST,
                                  HSP_MSG_STOPPED,  HSP_MSG_RELEASED,       HSP_MSG_CHECKPOINTED,
                                  HSP_MSG_FINISHED, HSP_MSG_JOB_FAILED};

/* 0: there is none in this state. */
static uint64_t epoch_of(const struct hsp_job *j, enum variant v)
{
    uint64_t cur = j->cur.epoch, next = j->att.epoch;
    switch (v) {
    case V_CUR: return cur;
    case V_NEXT: return next;
    case V_SEAL: return j->state == HSP_JOB_SEALING && j->seal_upto != cur ? j->seal_upto : 0;
    case V_OLD: return cur > 1 ? cur - 1 : cur == 0 && next > 1 ? next - 1 : 0;
    case V_FUTURE: return j->next_epoch + 5;
    case V_ZERO: return 0;
    case V_NO_JOB:
    case V_OTHER:
    case V_DEVICE:
    case V_TWICE: return next != 0 ? next : cur != 0 ? cur : 1;
    }
    return 0;
}

static void say(struct cw_world *w, uint16_t type, enum variant v, uint64_t epoch)
{
    static double compute[2] = {1, 1};
    struct hsp_m_holding h = {.job = 1, .plan = 1, .version = 3, .rank = 1, .owner = 1};
    uint32_t job = v == V_NO_JOB ? ODD_JOB : 1, device = v == V_DEVICE ? HSP_NODE_DEVICES - 1 : 0;
    uint32_t peer = v == V_DEVICE ? HSP_MSG_RANKS : 0;
    uint32_t conn = v == V_OTHER ? 3 : w->c->nodes[1].conn == 2 ? 2 : 1;
    struct hsp_msg m = {.type = type, .epoch = epoch};
    switch (type) {
    case HSP_MSG_READY:
        m.u.ready = (struct hsp_m_ready){
            .job = job, .device = device, .data_bytes = 7, .data_digest = {5, 1}};
        break;
    case HSP_MSG_PREPARE_FAILED:
        m.u.failed = (struct hsp_m_failed){
            .job = job, .device = device, .fact = HSP_FACT_OTHER, .peer = peer, .reason = "no"};
        break;
    case HSP_MSG_STARTED:
        m.u.started = (struct hsp_m_started){.job = job, .device = device, .step = 4};
        break;
    case HSP_MSG_SEALED:
        h.job = job;
        h.device = device;
        h.rank = h.owner = v == V_DEVICE ? HSP_MSG_RANKS : 1;
        m.u.sealed = (struct hsp_m_sealed){.job = job, .n_holdings = 1, .holdings = &h};
        break;
    case HSP_MSG_STEP:
        m.u.step = (struct hsp_m_step){
            .job = job, .step = 4, .n_compute = v == V_DEVICE ? 1 : 2, .compute_s = compute};
        break;
    case HSP_MSG_PEER_LOST:
        m.u.lost =
            (struct hsp_m_lost){.job = job, .device = device, .peer = peer, .reason = "broke"};
        break;
    case HSP_MSG_CHECKPOINTED:
        m.u.ckpt = (struct hsp_m_ckpt){.job = job, .step = 3, .complete = true, .reason = ""};
        break;
    case HSP_MSG_FINISHED: m.u.finished = (struct hsp_m_finished){.job = job, .step = 100}; break;
    case HSP_MSG_JOB_FAILED:
        m.u.jobfail = (struct hsp_m_jobfail){.job = job, .device = device, .reason = "diverged"};
        break;
    default: m.u.devref = (struct hsp_m_devref){.job = job, .device = device}; break;
    }
    cw_msg(w, conn, m);
}

static void hello_of(struct cw_world *w, uint32_t conn, uint64_t incarnation, uint64_t term,
                     uint64_t runs)
{
    struct hsp_m_device dev = {
        .kind = "cpu", .speed = 1, .mem_bytes = 1, .up = true, .address = "x"};
    struct hsp_m_run run = {.job = 1, .running = runs};
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = HSP_PROTO_VERSION,
                                    .node = "n1",
                                    .address = "a",
                                    .term = term,
                                    .incarnation = incarnation,
                                    .n_devices = 1,
                                    .devices = &dev,
                                    .n_runs = runs != 0,
                                    .runs = &run}};
    cw_msg(w, conn, m);
}

static uint64_t cur_epoch(const struct cw_world *w)
{
    return cw_job(w, 1) != NULL ? cw_job(w, 1)->cur.epoch : 1;
}

static void other_event(struct cw_world *w, uint32_t k)
{
    const struct hsp_cluster_node *n1 = &w->c->nodes[1];
    struct hsp_admin_event a = {.job = 1, .node = "n1", .reason = "test"};
    switch (k) {
    case 0: hello_of(w, 8, n1->incarnation, 1, cur_epoch(w)); return;
    case 1: hello_of(w, 8, n1->incarnation, 1, 0); return;
    case 2: hello_of(w, 8, 0, 1, 0); return;
    case 3: hello_of(w, 8, 77, 1, 0); return;
    case 4: hello_of(w, 8, n1->incarnation, 9, 0); return;
    case 5: hello_of(w, 2, n1->incarnation, 1, cur_epoch(w)); return;
    case 6: of_node(w, 1, HSP_MSG_HEARTBEAT); return;
    case 7: of_node(w, 1, HSP_MSG_EXECUTOR_DEAD); return;
    case 8: of_node(w, 1, HSP_MSG_EXECUTOR_UP); return;
    case 9: of_node(w, 1, HSP_MSG_LEAVE); return;
    case 10: said(w, 1, HSP_MSG_SEAL, 1); return;
    case 11: said(w, 1, HSP_MSG_CANCEL, 0); return;
    case 12: said(w, 30, HSP_MSG_STOPPED, 1); return;
    case 13: cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_OPENED, .conn = 9}); return;
    case 14: cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2}); return;
    case 15: cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 31}); return;
    case 16: cw_step(w, (struct hsp_event){.type = HSP_EV_TICK}); return;
    case 17:
        a.verb = HSP_ADMIN_SUBMIT;
        a.spec = (struct hsp_job_terms){.name = "j", .min = 1, .max = 1, .steps = 9};
        break;
    case 18: a.verb = HSP_ADMIN_CANCEL; break;
    case 19:
        a.verb = HSP_ADMIN_SCALE;
        a.min = 1;
        a.max = 3;
        break;
    case 20:
        a.verb = HSP_ADMIN_SCALE;
        a.min = 2;
        a.max = 1;
        break;
    case 21: a.verb = HSP_ADMIN_DRAIN; break;
    case 22: a.verb = HSP_ADMIN_UNDRAIN; break;
    case 23: a.verb = HSP_ADMIN_CHECKPOINT; break;
    case 24: a.verb = HSP_ADMIN_RESUME; break;
    case 25:
        a.verb = HSP_ADMIN_CANCEL;
        a.job = ODD_JOB;
        break;
    case 26:
        a.verb = HSP_ADMIN_DRAIN;
        a.node = "n9";
        break;
    case 27: cw_uplink(w, 2, 1e-3, 1e7); return;
    case 28: cw_uplink(w, 2, (double)NAN, 1e7); return;
    case 29: cw_msg(w, 2, (struct hsp_msg){.type = HSP_MSG_ECHO}); return;
    case 30: cw_msg(w, 2, (struct hsp_msg){.type = HSP_MSG_MEASURE}); return;
    case 31: cw_plan(w, 1); return;
    case 36: a.verb = HSP_ADMIN_SUSPEND; break;
    case 37:
    case 38:
        cw_step(w, (struct hsp_event){
                       .type = HSP_EV_ADMIN,
                       .u.admin = {.verb = k == 37 ? HSP_ADMIN_CHECK : HSP_ADMIN_CHECK_STOP}});
        return;
    case 39:
        cw_msg(w, 2,
               (struct hsp_msg){.type = HSP_MSG_CHECKED,
                                .u.checked = {.check = 1, .seq = 2, .fault = "", .address = ""}});
        return;
    default: {
        struct hsp_event ev = {.type = HSP_EV_PLAN_DONE,
                               .u.plan = {.job = 1, .ticket = w->ticket, .reason = "test"}};
        ev.u.plan.keep = k == 32;
        ev.u.plan.status = k == 33 ? HSP_EINFEASIBLE : HSP_OK; /* 34: no plan at all */
        ev.u.plan.ticket += k == 35;
        cw_step(w, ev);
        return;
    }
    }
    (void)cw_admin(w, a);
}

static const char *const others[] = {
    "hello of n1, as it was",
    "hello of n1, runs nothing",
    "hello of n1, anew",
    "hello of n1, other incarnation",
    "hello of n1, newer term",
    "hello of n1, twice on one connection",
    "heartbeat",
    "executor-dead",
    "executor-up",
    "leave",
    "seal, which no agent says",
    "cancel, which no agent says",
    "before hello",
    "conn opened",
    "conn of n1 closed",
    "conn of nobody closed",
    "tick",
    "admin submit, the same name",
    "admin cancel",
    "admin scale",
    "admin scale, wrong",
    "admin drain n1",
    "admin undrain n1",
    "admin checkpoint",
    "admin resume",
    "admin cancel, no job",
    "admin drain, no node",
    "uplink",
    "uplink, no number",
    "echo",
    "measure, which no agent says",
    "plan done",
    "plan done: keep",
    "plan done: infeasible",
    "plan done: empty",
    "plan done: old ticket",
    "admin suspend",
    "admin check",
    "admin check, stop: none is under way",
    "checked: nobody asked",
};

/* ---- the reaction, in words ---- */

struct before {
    int job;
    enum hsp_node_state node[NODES];
    uint32_t n_nodes;
};

static struct before look_at(const struct cw_world *w)
{
    struct before b = {.job = cw_job(w, 1) != NULL ? (int)cw_job(w, 1)->state : NO_JOB};
    for (b.n_nodes = 0; b.n_nodes < NODES; b.n_nodes++) {
        b.node[b.n_nodes] = w->c->nodes[b.n_nodes].state;
    }
    return b;
}

static void put_action(const struct cw_world *w, const struct hsp_action *a, struct hsp_buf *out)
{
    const struct hsp_cluster_node *n = hsp_ci_node_of_conn(w->c, a->conn);
    switch (a->type) {
    case HSP_ACT_SEND:
    case HSP_ACT_PREPARE:
    case HSP_ACT_CHECK:
        hsp_buf_printf(out, " %s>%s", hsp_msg_name(a->msg->type), n != NULL ? n->name : "-");
        break;
    case HSP_ACT_CLOSE: hsp_buf_puts(out, " close"); break;
    case HSP_ACT_STORE:
    case HSP_ACT_ERASE: break;
    case HSP_ACT_START_PLAN: hsp_buf_puts(out, " ask-plan"); break;
    case HSP_ACT_CANCEL_PLAN: hsp_buf_puts(out, " cancel-plan"); break;
    case HSP_ACT_KEEP_PLAN: hsp_buf_puts(out, " keep-plan"); break;
    case HSP_ACT_COPY_PLAN: hsp_buf_puts(out, " copy-plan"); break;
    case HSP_ACT_DROP_PLAN: hsp_buf_puts(out, " drop-plan"); break;
    case HSP_ACT_REPLY: hsp_buf_printf(out, " reply=%s", hsp_status_name(a->status)); break;
    case HSP_ACT_FACT:
        if (strncmp(a->u.fact->type, "job.", 4) != 0 ||
            strcmp(a->u.fact->type, "job.blocked") == 0) {
            hsp_buf_printf(out, " (%s)", a->u.fact->type);
        }
        break;
    case HSP_ACT_METRIC: hsp_buf_puts(out, " metric"); break;
    }
}

/* "" when nothing happened. */
static void reaction(const struct cw_world *w, const struct before *b, struct hsp_buf *out)
{
    int now = cw_job(w, 1) != NULL ? (int)cw_job(w, 1)->state : NO_JOB;
    if (now != b->job) {
        hsp_buf_printf(out, " job:%s",
                       now == NO_JOB ? "forgotten" : hsp_job_state_name((enum hsp_job_state)now));
    }
    for (uint32_t i = 0; i < NODES; i++) {
        if (w->c->nodes[i].state != b->node[i]) {
            hsp_buf_printf(out, " n%u:%s", i, hsp_node_state_name(w->c->nodes[i].state));
        }
    }
    for (uint32_t i = 0; i < w->a.n; i++) {
        put_action(w, &w->a.item[i], out);
    }
}

/* ---- the walk ---- */

struct walk {
    const struct story *story;
    struct cw_world w;
    struct before before;
    struct hsp_buf table, quiet; /* lines of the table; events of this state that do nothing */
    uint32_t n;
};

static void arrive(struct walk *k)
{
    k->story->tell(&k->w);
    const struct hsp_job *j = cw_job(&k->w, 1);
    int at = j != NULL ? (int)j->state : NO_JOB;
    enum hsp_attempt_phase phase = j != NULL ? j->att.phase : HSP_ATT_NONE;
    bool asks = j != NULL && j->ticket != 0;
    if (at != k->story->state || phase != k->story->phase || asks != k->story->asks) {
        fail_msg("%s: state %d, phase %d, planning %d", k->story->name, at, (int)phase, asks);
    }
    k->before = look_at(&k->w);
}

/* Nobody answers any more, then all is told to stop: the machine comes to an end it knows. */
static void go_on(struct cw_world *w)
{
    for (uint32_t i = 0; i < 12; i++) {
        hsp_msec at = hsp_cluster_deadline(w->c);
        assert_true(at >= 1000);
        w->now = at == HSP_NEVER || at < w->now ? w->now + 100 : at;
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    if (cw_job(w, 1) != NULL && !hsp_job_terminal(cw_job(w, 1)->state)) {
        assert_int_equal(cw_admin(w, (struct hsp_admin_event){.verb = HSP_ADMIN_CANCEL, .job = 1}),
                         HSP_OK);
        assert_int_equal(cw_job(w, 1)->state, HSP_JOB_CANCELLED);
    }
}

/* @must_ignore: by the rules. */
static void leave(struct walk *k, const char *event, const char *variant, bool must_ignore)
{
    struct hsp_buf r;
    hsp_buf_init(&r, 1u << 16);
    reaction(&k->w, &k->before, &r);
    const char *text = hsp_buf_cstr(&r);
    bool unheard = strcmp(text, " close") == 0; /* its connection is not that of a node any more */
    if (must_ignore && text[0] != '\0' && !unheard) {
        fail_msg("%s, %s %s:%s", k->story->name, event, variant, text);
    }
    bool resumed = strcmp(event, "admin resume") == 0;
    if (k->story->state != NO_JOB && hsp_job_terminal((enum hsp_job_state)k->story->state) &&
        cw_job(&k->w, 1) != NULL && !resumed) {
        assert_int_equal(cw_job(&k->w, 1)->state, k->story->state);
    }
    if (text[0] == '\0') {
        hsp_buf_printf(&k->quiet, "%s%s%s%s", k->quiet.len == 0 ? "" : "; ", event,
                       variant[0] != '\0' ? " " : "", variant);
    } else {
        hsp_buf_printf(&k->table, "  %s%s%s ->%s\n", event, variant[0] != '\0' ? " " : "", variant,
                       text);
    }
    hsp_buf_fini(&r);
    go_on(&k->w);
    cw_end(&k->w);
    k->n++;
}

static void walk_message(struct walk *k, uint16_t type, enum variant v)
{
    arrive(k);
    const struct hsp_job *j = cw_job(&k->w, 1);
    uint64_t epoch = j != NULL ? epoch_of(j, v) : v == V_ZERO ? 0 : 1;
    if ((epoch == 0 && v != V_ZERO) || (j == NULL && v != V_CUR && v != V_ZERO)) {
        cw_end(&k->w); /* no such case here */
        return;
    }
    if (v == V_TWICE) {
        say(&k->w, type, v, epoch);
        k->before = look_at(&k->w);
    }
    say(&k->w, type, v, epoch);
    bool by_ask =
        type == HSP_MSG_STOPPED || type == HSP_MSG_RELEASED; /* the lease counts, not the epoch */
    leave(k, hsp_msg_name(type), variants[v],
          v == V_NO_JOB || ((v == V_FUTURE || v == V_ZERO) && !by_ask));
}

static void every_pair(void **state)
{
    (void)state;
    struct walk k = {.n = 0};
    hsp_buf_init(&k.table, 4u << 20);
    hsp_buf_puts(&k.table,
                 "# What the coordinator does, by state and event; made by clusterpairs_test.c.\n"
                 "# Job 1 has n0/0 and n1/0; messages come from n1, from n0 where n1 is away.\n"
                 "# job:STATE nK:STATE = moves; NAME>NODE = sent; (type) = told as an event.\n");
    for (size_t s = 0; s < HSP_ARRAY_LEN(stories); s++) {
        k.story = &stories[s];
        hsp_buf_init(&k.quiet, 1u << 20);
        hsp_buf_printf(&k.table, "\n== %s\n", k.story->name);
        for (size_t t = 0; t < HSP_ARRAY_LEN(of_job); t++) {
            for (size_t v = 0; v < N_VARIANTS; v++) {
                walk_message(&k, of_job[t], (enum variant)v);
            }
        }
        for (uint32_t e = 0; e < HSP_ARRAY_LEN(others); e++) {
            bool no_plan = k.story->state == NO_JOB && e == 31;
            if (!no_plan) {
                arrive(&k);
                other_event(&k.w, e);
                leave(&k, others[e], "", false);
            }
        }
        hsp_buf_printf(&k.table, "  nothing: %s\n", hsp_buf_cstr(&k.quiet));
        assert_false(k.quiet.failed);
        hsp_buf_fini(&k.quiet);
    }
    (void)fprintf(stderr, "# %zu states, %u pairs\n", HSP_ARRAY_LEN(stories), k.n);
    hsp_golden_check("sm/cluster.txt", &k.table);
    hsp_buf_fini(&k.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pair)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
