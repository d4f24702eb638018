/* Tests nodes whose state folder cannot be used: they are out for a while, for all jobs, and at no
 * job's cost. */
#include <string.h>

#include "daemon/cluster/index.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"

#define MINUTE 60000u

/* The node on connection 2 cannot prepare epoch @epoch of job 1. */
static void refuse(struct cw_world *w, uint64_t epoch, uint32_t fact, uint64_t amount)
{
    cw_msg(w, 2,
           (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = epoch,
                            .u.failed = {.job = 1,
                                         .fact = fact,
                                         .amount = amount,
                                         .peer = HSP_MSG_RANKS,
                                         .reason = "No space left on device"}});
}

/* A job is prepared on n0 and n1. */
static void preparing(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    (void)cw_submit(w, "j", 0, 1, 8);
    cw_plan(w, 1);
    assert_int_equal(cw_job(w, 1)->att.n_ranks, 2);
}

static const struct hsp_node_fault *fault(const struct cw_world *w)
{
    return &hsp_cluster_node_by_name(w->c, "n1")->fault;
}

/* Time passes while both nodes are heard. */
static void wait(struct cw_world *w, hsp_msec ms)
{
    for (hsp_msec end = w->now + ms; w->now < end;) {
        w->now += end - w->now < 500 ? end - w->now : 500;
        cw_msg(w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_msg(w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
}

/* Also a folder that is full, as executors below protocol 16 told it; one that has too little room
 * is a fact about its plan. */
static void the_next_plan_does_without_it(void **state)
{
    (void)state;
    static const struct {
        uint32_t fact;
        uint64_t amount;
        bool out;
    } cases[] = {{HSP_FACT_STATE_FOLDER, 0, true},
                 {HSP_FACT_OUT_OF_MEMORY, UINT64_MAX, true},
                 {HSP_FACT_OUT_OF_MEMORY, 4096, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cw_world w;
        preparing(&w);
        refuse(&w, 1, cases[i].fact, cases[i].amount);
        const struct hsp_job *j = cw_job(&w, 1);
        assert_true((fault(&w)->until_ms != 0) == cases[i].out);
        assert_int_equal(j->failures, !cases[i].out);
        assert_int_equal(j->n_facts, !cases[i].out);
        assert_int_equal(w.n_asked, cases[i].out ? 1 : 2);
        if (cases[i].out) {
            assert_true(fault(&w)->since_ms == w.now && fault(&w)->until_ms == w.now + MINUTE);
            assert_string_equal(fault(&w)->why, "n1/0: No space left on device");
        }
        cw_end(&w);
    }
}

/* Each time for longer, up to sixteen minutes. */
static void it_is_tried_again(void **state)
{
    (void)state;
    struct cw_world w;
    preparing(&w);
    const struct hsp_job *j = cw_job(&w, 1);
    hsp_msec out = MINUTE;
    for (uint32_t k = 0; k < 6; k++) {
        refuse(&w, j->att.epoch, HSP_FACT_STATE_FOLDER, 0);
        assert_true(fault(&w)->until_ms == w.now + out);
        cw_plan(&w, 1); /* on n0 alone */
        cw_ready(&w, 1, 0, 5);
        cw_pass(&w, 1, k, cw_even, 1);
        cw_let_go(&w, 1, 1);
        wait(&w, out - 1);
        assert_true(fault(&w)->until_ms != 0);
        assert_int_equal(w.n_asked, 1);
        wait(&w, 1);
        assert_true(fault(&w)->until_ms == 0);
        assert_int_equal(w.n_asked, 2); /* a join */
        cw_plan(&w, 1);
        assert_int_equal(j->att.n_ranks, 2);
        out = out < 16 * MINUTE ? 2 * out : out;
    }
    assert_int_equal(j->failures, 0);
    cw_end(&w);
}

/* Of a node that was of use again for long the last fault counts no more. */
static void a_fault_of_long_ago_counts_no_more(void **state)
{
    (void)state;
    static const struct {
        hsp_msec out, then;
    } faults[] = {{MINUTE, MINUTE}, {2 * MINUTE, 32 * MINUTE}, {MINUTE, 0}};
    struct cw_world w;
    preparing(&w);
    for (uint32_t k = 0; k < 3; k++) {
        refuse(&w, cw_job(&w, 1)->att.epoch, HSP_FACT_STATE_FOLDER, 0);
        assert_true(fault(&w)->until_ms == w.now + faults[k].out);
        cw_plan(&w, 1); /* on n0 alone */
        cw_ready(&w, 1, 0, 5);
        cw_pass(&w, 1, k, cw_even, 1);
        cw_let_go(&w, 1, 1);
        if (faults[k].then > 0) {
            wait(&w, faults[k].then);
            cw_plan(&w, 1);
            assert_int_equal(cw_job(&w, 1)->att.n_ranks, 2);
        }
    }
    cw_end(&w);
}

/* A peer told first that the attempt broke, which counted; it does not when the cause is heard. */
static void an_attempt_that_it_ended_does_not_count(void **state)
{
    (void)state;
    struct cw_world w;
    preparing(&w);
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                            .epoch = 1,
                            .u.failed = {.job = 1,
                                         .fact = HSP_FACT_CANNOT_CONNECT,
                                         .peer = 1,
                                         .by = 0,
                                         .reason = "refused"}});
    assert_int_equal(cw_job(&w, 1)->failures, 1);
    refuse(&w, 1, HSP_FACT_STATE_FOLDER, 0);
    assert_int_equal(cw_job(&w, 1)->failures, 0);
    refuse(&w, 1, HSP_FACT_STATE_FOLDER, 0); /* said again */
    assert_int_equal(cw_job(&w, 1)->failures, 0);
    assert_int_equal(fault(&w)->times, 1);
    cw_end(&w);
}

/* An administrator, and another process of the node, take it back at once. */
static void it_ends_early(void **state)
{
    (void)state;
    struct cw_world w;
    preparing(&w);
    refuse(&w, 1, HSP_FACT_STATE_FOLDER, 0);
    assert_int_equal(w.n_asked, 1);
    assert_int_equal(
        cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_UNDRAIN, .node = "n1"}), HSP_OK);
    assert_true(fault(&w)->until_ms == 0 && fault(&w)->times == 0);
    assert_int_equal(w.c->n_faults, 0);
    cw_plan(&w, 1);
    refuse(&w, cw_job(&w, 1)->att.epoch, HSP_FACT_STATE_FOLDER, 0);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    cw_hello(&w, 7, "n1", 0, 1);
    assert_int_equal(hsp_cluster_node_by_name(w.c, "n1")->conn, 7);
    assert_true(fault(&w)->until_ms == 0 && fault(&w)->times == 0);
    cw_end(&w);
}

/* A job needs n0 and n1. Its state fills the folder of n1, so that no other layout can begin. When
 * an executor ends it goes on at once in the layout that it has, which needs no room. If it cannot,
 * it waits. */
static void it_goes_on_in_the_layout_that_it_has(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 2, 8), HSP_OK);
    cw_plan(&w, 1);
    wc_begins(&w, 3);
    const struct hsp_job *j = cw_job(&w, 1);
    uint64_t plan = j->cur.plan;
    w.c->jobs[0]->retune = true;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONFIG, .u.config = &w.c->cfg});
    cw_plan(&w, 1);
    assert_int_equal(j->state, HSP_JOB_SWITCHING);
    refuse(&w, j->att.epoch, HSP_FACT_STATE_FOLDER, 0);
    assert_true(fault(&w)->times == 1 && j->state == HSP_JOB_RUNNING && j->att.epoch == 0);
    cw_msg(&w, 1,
           (struct hsp_msg){.type = HSP_MSG_EXECUTOR_DEAD, .u.dead = {.reason = "signal 9"}});
    assert_int_equal(j->state, HSP_JOB_SEALING);
    cw_sealed(&w, 0, j->cur.plan, 3);
    assert_true(fault(&w)->until_ms != 0);
    cw_sealed(&w, 1, j->cur.plan, 3);
    assert_true(fault(&w)->until_ms == 0 && fault(&w)->times == 1);
    assert_string_equal(cw_fact(&w, "node.usable"), "it is tried again, as job j has state there");
    cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.address = "y"}});
    assert_true(j->att.epoch != 0 && j->att.plan == plan && j->att.mode == HSP_MODE_RECOVER);
    refuse(&w, j->att.epoch, HSP_FACT_STATE_FOLDER, 0);
    assert_true(fault(&w)->until_ms == w.now + 2 * MINUTE);
    assert_true(j->state == HSP_JOB_PAUSED && j->att.epoch == 0);
    wait(&w, MINUTE);
    assert_true(j->state == HSP_JOB_PAUSED && j->att.epoch == 0);
    cw_end(&w);
}

HSP_TEST_FILE(node_fault_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_plan_does_without_it),
        cmocka_unit_test(it_is_tried_again),
        cmocka_unit_test(a_fault_of_long_ago_counts_no_more),
        cmocka_unit_test(an_attempt_that_it_ended_does_not_count),
        cmocka_unit_test(it_ends_early),
        cmocka_unit_test(it_goes_on_in_the_layout_that_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
