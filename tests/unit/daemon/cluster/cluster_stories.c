#include "tests/unit/daemon/cluster/cluster_stories.h"

#include "proto/base/size.h"

void cw_said(struct cw_world *w, uint32_t node, uint16_t type, uint64_t epoch)
{
    struct hsp_msg m = {.type = type, .epoch = epoch};
    m.u.devref.job = 1; /* all of these begin with the job */
    cw_msg(w, node + 1, m);
}

void cw_of_node(struct cw_world *w, uint32_t node, uint16_t type)
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
    cw_begin(w, CW_NODES, 1);
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
    cw_said(w, 0, HSP_MSG_PREPARE_FAILED, 1); /* so that there is an old epoch */
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
    cw_said(w, 0, HSP_MSG_STARTED, 2);
    cw_said(w, 1, HSP_MSG_STARTED, 2);
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
    for (uint32_t i = 0; i < CW_NODES; i++) {
        cw_ready(w, 1, i, 5);
    }
}

static void sealing(struct cw_world *w)
{
    running(w);
    cw_of_node(w, 1, HSP_MSG_EXECUTOR_DEAD);
}

static void waits_up(struct cw_world *w)
{
    sealing(w);
    cw_sealed(w, 0, cw_job(w, 1)->cur.plan, 3);
    cw_sealed(w, 1, cw_job(w, 1)->cur.plan, 3);
}

static void recovering(struct cw_world *w)
{
    waits_up(w);
    cw_of_node(w, 1, HSP_MSG_EXECUTOR_UP);
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
    cw_sealed(w, 0, 0, 0);
    cw_sealed(w, 1, 0, 0);
}

static void finishing(struct cw_world *w)
{
    running(w);
    struct hsp_msg m = {
        .type = HSP_MSG_STEP, .epoch = 2, .u.step = {.job = 1, .step = 100, .final = true}};
    cw_msg(w, 1, m);
}

static void finishing_planning(struct cw_world *w)
{
    finishing(w);
    struct hsp_msg m = {.type = HSP_MSG_CHECKPOINTED,
                        .epoch = 2,
                        .u.ckpt = {.job = 1, .step = 100, .reason = "no space"}};
    cw_msg(w, 1, m);
    drain(w, "n1");
}

static void finishing_preparing(struct cw_world *w)
{
    finishing_planning(w);
    cw_plan(w, 1);
}

static void finishing_armed(struct cw_world *w)
{
    finishing_preparing(w);
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
}

static void done(struct cw_world *w)
{
    finishing(w);
    struct hsp_msg m = {
        .type = HSP_MSG_FINISHED, .epoch = 2, .u.finished = {.job = 1, .step = 100}};
    cw_msg(w, 1, m);
}

static void stopped(struct cw_world *w)
{
    cw_said(w, 0, HSP_MSG_STOPPED, 2);
    cw_said(w, 1, HSP_MSG_STOPPED, 2);
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
}

static void failed_sealed(struct cw_world *w)
{
    failed(w);
    cw_sealed(w, 0, 0, 0);
    cw_sealed(w, 1, 0, 0);
    assert_int_equal(cw_job(w, 1)->n_leases, 0);
}

static void suspended(struct cw_world *w)
{
    planning(w);
    (void)cw_order(w, HSP_ADMIN_SUSPEND, 1);
}

static void saved(struct cw_world *w, uint64_t step)
{
    cw_msg(
        w, 1,
        (struct hsp_msg){
            .type = HSP_MSG_CHECKPOINTED,
            .epoch = 2,
            .u.ckpt = {.job = 1, .step = step, .complete = true, .content = step, .reason = ""}});
}

/* From the newer of two checkpoints. */
static void resuming(struct cw_world *w)
{
    running(w);
    saved(w, 2);
    saved(w, 3);
    (void)cw_order(w, HSP_ADMIN_CANCEL, 1);
    stopped(w);
    (void)cw_order(w, HSP_ADMIN_RESUME, 1);
    cw_plan(w, 1);
    cw_ready(w, 1, 0, 5);
    cw_ready(w, 1, 1, 5);
}

static void cancelled(struct cw_world *w)
{
    running(w);
    (void)cw_order(w, HSP_ADMIN_CANCEL, 1);
}

static void suspect(struct cw_world *w)
{
    running(w);
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
}

static void leaving(struct cw_world *w)
{
    running(w);
    cw_of_node(w, 2, HSP_MSG_LEAVE);
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
    running(w);
    cw_restart(w, NULL);
    cw_hello_running(w, 1, "n0", w->c->nodes[0].incarnation, 1, 2);
    cw_hello(w, 3, "n2", w->c->nodes[2].incarnation, 1);
}

static void measuring(struct cw_world *w)
{
    no_job(w);
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    cw_hello(w, 2, "n1", 0, 1);
}

/* n1 has seen more of job @job than is on record. */
static void knows_more(struct cw_world *w, uint32_t job, uint64_t term)
{
    struct hsp_m_kept kept = {.job = job, .name = "j", .epoch = 9, .plan = 4};
    struct hsp_m_run run = {.job = job, .running = 9};
    cw_restart(w, NULL);
    cw_hello_running(w, 1, "n0", w->c->nodes[0].incarnation, 1,
                     cw_job(w, 1) != NULL ? cw_job(w, 1)->cur.epoch : 0);
    cw_hello(w, 3, "n2", w->c->nodes[2].incarnation, 1);
    cw_say_hello(w, 2,
                 (struct hsp_m_hello){.node = "n1",
                                      .address = "a",
                                      .term = term,
                                      .incarnation = w->c->nodes[1].secret,
                                      .n_kept = 1,
                                      .kept = &kept,
                                      .n_runs = 1,
                                      .runs = &run});
}

static void behind(struct cw_world *w)
{
    running(w);
    knows_more(w, 1, 1);
}

static void found(struct cw_world *w)
{
    no_job(w);
    knows_more(w, 1, 1);
}

static void all_behind(struct cw_world *w)
{
    running(w);
    knows_more(w, 1, 9);
}

const struct cw_scenario cw_scenarios[] = {
    {"no job", no_job, CW_NO_JOB, HSP_ATT_NONE, false},
    {"no job, n1 measures its link", measuring, CW_NO_JOB, HSP_ATT_NONE, false},
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
    {"finishing: unwritten, planning, n1 drains", finishing_planning, HSP_JOB_FINISHING,
     HSP_ATT_NONE, true},
    {"finishing: prepares", finishing_preparing, HSP_JOB_FINISHING, HSP_ATT_PREPARING, false},
    {"finishing: armed", finishing_armed, HSP_JOB_FINISHING, HSP_ATT_GO, false},
    {"done: stopping", done, HSP_JOB_DONE, HSP_ATT_NONE, false},
    {"done", done_stopped, HSP_JOB_DONE, HSP_ATT_NONE, false},
    {"failed: is sealed", failed, HSP_JOB_FAILED, HSP_ATT_NONE, false},
    {"failed, keeps its state", failed_sealed, HSP_JOB_FAILED, HSP_ATT_NONE, false},
    {"suspended", suspended, HSP_JOB_SUSPENDED, HSP_ATT_NONE, false},
    {"resuming: goes", resuming, HSP_JOB_STARTING, HSP_ATT_GO, false},
    {"cancelled: stopping", cancelled, HSP_JOB_CANCELLED, HSP_ATT_NONE, false},
    {"running, n1 suspect", suspect, HSP_JOB_RUNNING, HSP_ATT_NONE, false},
    {"running, n2 leaves", leaving, HSP_JOB_RUNNING, HSP_ATT_NONE, false},
    {"running, n2 left", left, HSP_JOB_RUNNING, HSP_ATT_NONE, false},
    {"n1 came back as another", dead, HSP_JOB_SEALING, HSP_ATT_NONE, true},
    {"behind", behind, HSP_JOB_BEHIND, HSP_ATT_NONE, false},
    {"behind: not on record", found, HSP_JOB_BEHIND, HSP_ATT_NONE, false},
    {"running, hspmdd behind for all", all_behind, HSP_JOB_RUNNING, HSP_ATT_NONE, false},
    {"running, hspmdd restarted", restarted, HSP_JOB_RUNNING, HSP_ATT_NONE, false},
};
const size_t cw_n_scenarios = HSP_ARRAY_LEN(cw_scenarios);
