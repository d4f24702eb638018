/* Tests the writer of a final model that cannot be written, where nodes are to go. The stories of
 * tests/sim show the way of such a job to its end. */
#include "tests/unit/daemon/cluster/cluster_world.h"

#define CANNOT "drain of n0/0: the final model cannot be written elsewhere: "
#define REMEDY ": let another node join, or undrain n0"

static void tries(struct cw_world *w)
{
    cw_msg(w, 1,
           (struct hsp_msg){.type = HSP_MSG_CHECKPOINTED,
                            .epoch = cw_job(w, 1)->cur.epoch,
                            .u.ckpt = {.job = 1, .step = 100, .reason = "no space"}});
}

/* A job on @n nodes has made its last step. */
static void finishing(struct cw_world *w, uint32_t n)
{
    cw_begin(w, n, 1);
    cw_run_job(w, n);
    cw_msg(w, 1,
           (struct hsp_msg){.type = HSP_MSG_STEP,
                            .epoch = cw_job(w, 1)->cur.epoch,
                            .u.step = {.job = 1, .step = 100, .final = true}});
    assert_int_equal(cw_job(w, 1)->state, HSP_JOB_FINISHING);
}

static void drain(struct cw_world *w, const char *node, bool on)
{
    assert_int_equal(
        cw_admin(w, (struct hsp_admin_event){.verb = on ? HSP_ADMIN_DRAIN : HSP_ADMIN_UNDRAIN,
                                             .node = node,
                                             .reason = on ? "full" : ""}),
        HSP_OK);
}

static void no_plan(struct cw_world *w, const char *why)
{
    cw_step(w, (struct hsp_event){
                   .type = HSP_EV_PLAN_DONE,
                   .u.plan = {
                       .job = 1, .ticket = w->ticket, .status = HSP_EINFEASIBLE, .reason = why}});
}

static void beats(struct cw_world *w, uint32_t n_nodes, hsp_msec ms)
{
    for (hsp_msec end = w->now + ms; w->now < end;) {
        w->now += 1000;
        for (uint32_t i = 0; i < n_nodes; i++) {
            cw_msg(w, i + 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        }
    }
}

/* While it is being written nothing is moved: it will be done soon. */
static void only_what_cannot_be_written_moves(void **state)
{
    (void)state;
    struct cw_world w;
    finishing(&w, 2);
    drain(&w, "n0", true);
    assert_null(cw_find(&w, HSP_ACT_START_PLAN));
    tries(&w);
    assert_non_null(cw_find(&w, HSP_ACT_START_PLAN));
    assert_int_equal(w.n_asked, 1);
    assert_int_equal(w.asked[0], HSP_DEVICE(1, 0));
    drain(&w, "n0", false); /* the node may stay */
    assert_non_null(cw_find(&w, HSP_ACT_CANCEL_PLAN));
    drain(&w, "n1", true); /* a node that only helps goes too */
    assert_int_equal(w.n_asked, 1);
    assert_int_equal(w.asked[0], HSP_DEVICE(0, 0));
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FINISHING);
    assert_int_equal(cw_job(&w, 1)->att.mode, HSP_MODE_SWITCH);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_PREPARE), 2);
    cw_end(&w);
}

/* The planner's no stands until the devices change; the remedy is said once. */
static void no_plan_for_it(void **state)
{
    (void)state;
    struct cw_world w;
    finishing(&w, 2);
    tries(&w);
    drain(&w, "n0", true);
    no_plan(&w, "no room");
    assert_string_equal(cw_job(&w, 1)->reason, CANNOT "no room" REMEDY);
    assert_string_equal(cw_fact(&w, "job.blocked"), CANNOT "no room" REMEDY);
    uint64_t ticket = w.ticket;
    for (int i = 0; i < 10; i++) {
        beats(&w, 2, 10000);
        tries(&w);
    }
    assert_true(w.ticket == ticket);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FINISHING);
    cw_hello(&w, 3, "n2", 0, 1); /* one more than the job's min is not needed */
    assert_true(w.ticket == ticket);
    drain(&w, "n1", true);
    assert_true(w.ticket != ticket);
    assert_int_equal(w.n_asked, 1);
    assert_int_equal(w.asked[0], HSP_DEVICE(2, 0));
    drain(&w, "n0", false);
    drain(&w, "n1", false);
    assert_string_equal(cw_job(&w, 1)->reason, "");
    cw_end(&w);
}

/* A move that fails on the way is tried again, and costs the job nothing. */
static void attempts_that_fail(void **state)
{
    (void)state;
    struct cw_world w;
    finishing(&w, 2);
    tries(&w);
    drain(&w, "n0", true);
    for (int i = 0; i < 50; i++) {
        cw_plan(&w, 1);
        assert_true(cw_job(&w, 1)->att.epoch != 0);
        cw_msg(&w, 2,
               (struct hsp_msg){
                   .type = HSP_MSG_PEER_LOST,
                   .epoch = cw_job(&w, 1)->att.epoch,
                   .u.lost = {.job = 1, .peer = 1, .before_start = true, .reason = "no"}});
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FINISHING);
        assert_int_equal(cw_job(&w, 1)->failures, 0);
        assert_string_equal(cw_job(&w, 1)->reason, CANNOT "n1/0 lost peer 1 on n0: no" REMEDY);
        assert_null(cw_find(&w, HSP_ACT_START_PLAN));
        uint64_t ticket = w.ticket;
        beats(&w, 2, 6000);
        assert_true(w.ticket != ticket);
    }
    cw_end(&w);
}

/* A report of an epoch that was left is of no account, and its trouble is forgotten. */
static void another_writes(void **state)
{
    (void)state;
    struct cw_world w;
    finishing(&w, 2);
    uint64_t old = cw_job(&w, 1)->cur.epoch;
    tries(&w);
    drain(&w, "n0", true);
    cw_plan(&w, 1);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_ARM), 2);
    for (uint32_t i = 0; i < 2; i++) {
        cw_msg(&w, i + 1,
               (struct hsp_msg){.type = HSP_MSG_STARTED,
                                .epoch = cw_job(&w, 1)->att.epoch,
                                .u.started = {.job = 1, .step = 100}});
    }
    assert_true(cw_job(&w, 1)->cur.epoch > old);
    assert_string_equal(cw_job(&w, 1)->problem, "");
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_CHECKPOINTED,
                            .epoch = old,
                            .u.ckpt = {.job = 1, .step = 100, .reason = "no space"}});
    assert_string_equal(cw_job(&w, 1)->problem, "");
    cw_msg(&w, 2,
           (struct hsp_msg){.type = HSP_MSG_STEP,
                            .epoch = cw_job(&w, 1)->cur.epoch,
                            .u.step = {.job = 1, .step = 100, .final = true}});
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FINISHING);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_RELEASE), 2);
    cw_end(&w);
}

/* A leave is a drain that cannot be taken back. */
static void a_node_that_leaves(void **state)
{
    (void)state;
    struct cw_world w;
    finishing(&w, 1);
    tries(&w);
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_LEAVE,
                            .u.leave = {.reason = "SIGTERM", .deadline_ms = 60000}});
    assert_string_equal(cw_job(&w, 1)->reason,
                        "planned leave of n0/0: the final model cannot be written elsewhere: no "
                        "other device is available: let another node join");
    cw_hello(&w, 2, "n1", 0, 1);
    assert_int_equal(w.n_asked, 1);
    assert_int_equal(w.asked[0], HSP_DEVICE(1, 0));
    cw_end(&w);
}

/* A switch is armed, and the running epoch makes the last step instead. With a loss then, exactly
 * the steps of the job count as made. */
static void a_loss_behind_the_last_step(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    drain(&w, "n1", true);
    cw_plan(&w, 1);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_STEP,
                            .epoch = cw_job(&w, 1)->cur.epoch,
                            .u.step = {.job = 1, .step = 100, .final = true}});
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SWITCHING);
    cw_msg(&w, 2, (struct hsp_msg){.type = HSP_MSG_EXECUTOR_DEAD, .u.dead.reason = "signal 9"});
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    assert_int_equal(cw_job(&w, 1)->lost_from, 100);
    cw_end(&w);
}

HSP_TEST_FILE(finishing_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_what_cannot_be_written_moves),
                                       cmocka_unit_test(no_plan_for_it),
                                       cmocka_unit_test(attempts_that_fail),
                                       cmocka_unit_test(another_writes),
                                       cmocka_unit_test(a_node_that_leaves),
                                       cmocka_unit_test(a_loss_behind_the_last_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
