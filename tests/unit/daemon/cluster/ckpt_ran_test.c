/* Tests that a job waits for the nodes that have run it, since they may have its checkpoints. */
#include "daemon/cluster/ckpt_look.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"

#define EIO_ON_N1 "n1: input or output error"

/* The row says that the job had not begun, and may be of before: the job waits for nobody until a
 * node shows the file of its begin. */
static void a_node_shows_that_the_job_had_begun(void **state)
{
    (void)state;
    for (uint32_t begun = 0; begun < 2; begun++) {
        struct cw_world w;
        char told[400];
        cw_begin(&w, 2, 1);
        wc_submit(&w, (struct hsp_job_terms){0});
        w.asks = true;
        w.begun = begun != 0;
        w.lack = HSP_LACK_PATH;
        cw_restart_nodes(&w, 2);
        assert_int_equal(w.find_job, 1);
        cw_ckpts(&w, NULL, 0, "n1: nothing there");
        assert_int_equal(w.find_job, begun);
        if (begun) {
            w.lack = HSP_LACK_AWAY;
            assert_true(wc_answered(&w, NULL, 0, "n2: it is not connected", 120000, told) >=
                        120000);
            assert_non_null(strstr(cw_job(&w, 1)->reason, "not known: n2: it is not connected"));
            cw_restart_nodes(&w, 2); /* the fact is on record */
            assert_true(cw_job(&w, 1)->ran_unknown);
        } else {
            assert_null(cw_fact(&w, "ckpt.not_seen")); /* none of a new job is missed */
            cw_plan(&w, 1);
            wc_prepare_means(&w, HSP_MODE_FRESH, 0, 0, 0);
        }
        cw_end(&w);
    }
}

/* Then no earlier checkpoint counts, and the job waits for no node that may have one. */
static void an_administrator_may_choose_step_0(void **state)
{
    (void)state;
    for (uint32_t restarts = 0; restarts < 2; restarts++) {
        struct cw_world w;
        wc_with_three(&w, 3, false);
        wc_sees(&w, 60, 1, 1060);
        w.asks = true;
        assert_int_equal(wc_resume_from(&w, 0), HSP_OK);
        assert_true(!cw_job(&w, 1)->has_ckpt && cw_job(&w, 1)->stable == 0);
        assert_int_equal(w.find_job, 0);
        w.asks = false;
        if (restarts) {
            cw_restart_nodes(&w, 2);
        }
        cw_plan(&w, 1);
        wc_prepare_means(&w, HSP_MODE_FRESH, 0, 0, 0);
        wc_begins(&w, 1);
        wc_sees(&w, 20, 2, 7); /* written anew */
        wc_cancelled(&w);
        wc_resumed(&w);
        wc_prepare_means(&w, HSP_MODE_RESTORE, 20, 2, 7);
        cw_end(&w);
    }
}

/* On record over cancel, resume and a start of hspmdd, until the node is gone for good. */
static void who_has_run_it_is_on_record(void **state)
{
    (void)state;
    struct cw_world w;
    wc_running(&w);
    wc_cancelled(&w);
    cw_hello(&w, 3, "n2", 0, 1); /* has not */
    cw_restart_nodes(&w, 2);
    assert_int_equal(cw_ran_bytes(cw_job(&w, 1)), 1 + 4 + 2 * 4);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    for (hsp_msec until = w.now + 3u * w.c->cfg.dead_ms; w.now < until; w.now += 500) {
        cw_msg(&w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    assert_int_equal(cw_admin(&w, (struct hsp_admin_event){.verb = HSP_ADMIN_REMOVE, .node = "n1"}),
                     HSP_OK);
    assert_int_equal(cw_ran_bytes(cw_job(&w, 1)), 1 + 4 + 4);
    cw_restart(&w, NULL);
    assert_int_equal(cw_ran_bytes(cw_job(&w, 1)), 1 + 4 + 4);
    cw_end(&w);
}

/* Time goes on for the node of @conn alone, for three times as long as state is waited for. */
static void one_answers(struct cw_world *w, uint32_t conn, const struct hsp_m_seen *seen,
                        uint32_t n, const char *why)
{
    for (hsp_msec until = w->now + 3u * w->c->cfg.state_wait_ms; w->now < until; w->now += 500) {
        cw_msg(w, conn, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
        if (w->find_job != 0) {
            cw_ckpts(w, seen, n, why);
        }
    }
}

/* Each node has half of the state of a job without a checkpoint on record, and n0 dies for good.
 * The reason says how the job can go on without n0, and that works. */
static void one_that_is_gone_for_good_is_removed(void **state)
{
    (void)state;
    const struct hsp_m_seen seen = {20, WC_TERM, 1, 1020};
    const struct hsp_admin_event remove = {.verb = HSP_ADMIN_REMOVE, .node = "n0"};
    for (uint32_t k = 0; k < 4; k++) {
        struct cw_world w;
        cw_begin(&w, 2, 1);
        wc_submit(&w, (struct hsp_job_terms){0});
        cw_plan_in_halves(&w);
        wc_begins(&w, 1);
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
        cw_msg(&w, 2,
               (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                                .epoch = 1,
                                .u.lost = {.job = 1, .peer = 0, .reason = "broke"}});
        assert_int_equal(w.c->nodes[0].state, HSP_NODE_DEAD);
        struct hsp_m_holding h = {.job = 1, .plan = 1, .rank = 1, .version = 3};
        struct hsp_msg sealed = {.type = HSP_MSG_SEALED,
                                 .epoch = cw_job(&w, 1)->seal_upto,
                                 .u.sealed = {.job = 1, .n_holdings = 1, .holdings = &h}};
        cw_msg(&w, 2, sealed);
        assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PAUSED);
        w.asks = true;
        w.lack = HSP_LACK_AWAY;
        assert_int_equal(cw_admin(&w, remove), HSP_ESTATE); /* its state may come back */
        one_answers(&w, 2, NULL, 0, "n0: it is not connected");
        assert_non_null(
            strstr(cw_job(&w, 1)->reason, "remove a lost node with hspmdctl node remove"));
        assert_int_equal(cw_job(&w, 1)->n_plans, 1);
        assert_int_equal(cw_admin(&w, remove), HSP_OK);
        assert_true(cw_job(&w, 1)->n_plans == 0 && cw_job(&w, 1)->cur.epoch == 0);
        if (k >= 2) { /* its loss is on record */
            cw_restart(&w, NULL);
            cw_hello(&w, 2, "n1", w.c->nodes[1].incarnation, 1);
            sealed.epoch = cw_job(&w, 1)->seal_upto;
            cw_msg(&w, 2, sealed);
        }
        one_answers(&w, 2, &seen, k % 2, "");
        if (k % 2 == 0) {
            assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_FAILED);
            assert_string_equal(cw_job(&w, 1)->reason,
                                "the state of version 3 is lost and there is no checkpoint");
        } else {
            cw_plan(&w, 1);
            assert_int_equal(cw_job(&w, 1)->att.mode, HSP_MODE_RESTORE);
            assert_int_equal(cw_job(&w, 1)->att.step, 20);
        }
        cw_end(&w);
    }
}

/* n1 comes back, as conn 4, with all of the state. */
static void n1_brings_it(struct cw_world *w)
{
    struct hsp_m_holding h = {.job = 1, .plan = 1, .rank = 1, .owner = 1, .version = 1};
    cw_say_hello(w, 4,
                 (struct hsp_m_hello){
                     .node = "n1", .was = cw_last(w, "n1"), .n_holdings = 1, .holdings = &h});
    for (hsp_msec until = w->now + 60000; cw_job(w, 1)->ticket == 0; w->now += 500) {
        assert_true(w->now < until);
        cw_msg(w, 3, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_msg(w, 4, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
}

/* n0 and n1, which are away, have all of the state each, and n0 is gone for good. Removed now, n0
 * would take with it the state that n1 brings. */
static void one_that_is_gone_takes_no_state_of_others(void **state)
{
    (void)state;
    const struct hsp_admin_event remove = {.verb = HSP_ADMIN_REMOVE, .node = "n0"};
    for (uint32_t comes = 0; comes < 2; comes++) {
        struct cw_world w;
        cw_begin(&w, 3, 1);
        wc_submit(&w, (struct hsp_job_terms){.max = 2});
        cw_plan(&w, 1);
        wc_begins(&w, 1);
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
        w.asks = true;
        w.lack = HSP_LACK_AWAY;
        one_answers(&w, 3, NULL, 0, "n0, n1: they are not connected");
        assert_non_null(
            strstr(cw_job(&w, 1)->reason, "remove a lost node with hspmdctl node remove"));
        assert_int_equal(cw_admin(&w, remove), HSP_ESTATE);
        assert_string_equal(
            cw_find(&w, HSP_ACT_REPLY)->text,
            "node n0 stays: job j may resume from state that n1 brings, which the removal would "
            "discard; to give that state up: hspmdctl cancel j, then remove the node, and resume");
        if (comes) {
            n1_brings_it(&w);
            cw_plan(&w, 1);
            assert_int_equal(cw_job(&w, 1)->att.mode, HSP_MODE_RECOVER);
        } else {
            assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
            assert_int_equal(cw_admin(&w, remove), HSP_OK);
        }
        cw_end(&w);
    }
}

/* No node has anything of a job that is to begin anew before it has begun, also after failed
 * attempts. */
static void an_attempt_that_fails_is_no_begin(void **state)
{
    (void)state;
    for (uint32_t restarts = 0; restarts < 3; restarts++) {
        struct cw_world w;
        char told[400];
        wc_running(&w);
        wc_cancelled(&w);
        w.asks = true;
        assert_int_equal(wc_resume_from(&w, 0), HSP_OK);
        cw_plan(&w, 1);
        uint64_t tried = cw_job(&w, 1)->att.epoch;
        assert_int_not_equal(tried, 0);
        cw_msg(&w, 1,
               (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                                .epoch = tried,
                                .u.failed = {.job = 1, .reason = "no memory"}});
        assert_true(cw_job(&w, 1)->att.epoch == 0 && cw_job(&w, 1)->next_epoch > tried);
        if (restarts > 0) {
            w.lack = HSP_LACK_LOOK;
            cw_restart_nodes(&w, 2);
        }
        if (restarts > 1) {
            cw_restart_nodes(&w, 2); /* from a row that was read */
        }
        assert_false(hsp_ci_ckpt_may_have(cw_job(&w, 1)));
        (void)wc_answered(&w, NULL, 0, EIO_ON_N1, 120000, told);
        cw_plan(&w, 1);
        wc_prepare_means(&w, HSP_MODE_FRESH, 0, 0, 0);
        cw_ready(&w, 1, 0, 5);
        cw_ready(&w, 1, 1, 5);
        assert_int_equal(cw_job(&w, 1)->att.phase, HSP_ATT_GO);
        assert_true(hsp_ci_ckpt_may_have(cw_job(&w, 1)));
        cw_end(&w);
    }
}

/* n0 dies for good before the first vote: nothing is committed, so no node has anything of the job,
 * and the job waits for none. */
static void who_dies_before_the_first_vote_is_not_waited_for(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    wc_submit(&w, (struct hsp_job_terms){0});
    cw_plan(&w, 1);
    for (uint32_t i = 0; i < 2; i++) {
        cw_ready(&w, 1, i, 5);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cw_msg(&w, i + 1,
               (struct hsp_msg){.type = HSP_MSG_STARTED, .epoch = 1, .u.started = {.job = 1}});
    }
    assert_true(cw_job(&w, 1)->state == HSP_JOB_RUNNING && cw_job(&w, 1)->begun == 1);
    w.asks = true;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 1});
    cw_msg(&w, 2,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = 1,
                            .u.lost = {.job = 1, .peer = 0, .reason = "broke"}});
    assert_int_equal(w.c->nodes[0].state, HSP_NODE_DEAD);
    cw_sealed(&w, 1, 0, 0);
    assert_int_equal(w.find_job, 0);
    cw_plan(&w, 1);
    assert_true(cw_job(&w, 1)->att.mode == HSP_MODE_FRESH && cw_job(&w, 1)->att.n_ranks == 1);
    cw_ready(&w, 1, 1, 5);
    assert_int_equal(cw_job(&w, 1)->att.phase, HSP_ATT_GO);
    assert_int_equal(cw_ran_bytes(cw_job(&w, 1)), 1 + 4 + 4);
    assert_true(hsp_ci_ckpt_may_have(cw_job(&w, 1)));
    cw_end(&w);
}

/* Rows of form 14 do not name the nodes that have run a job: ranks of an attempt that may be
 * running count already. */
static void an_attempt_of_an_older_row_may_have_run(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    wc_submit(&w, (struct hsp_job_terms){0});
    cw_plan(&w, 1);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    assert_int_equal(cw_job(&w, 1)->att.phase, HSP_ATT_GO);
    cw_form_14(&w);
    cw_restart(&w, NULL);
    assert_int_equal(cw_ran_bytes(cw_job(&w, 1)), 1 + 4 + 2 * 4);
    cw_end(&w);
}

static void its_end_says_what_resume_does(void **state)
{
    (void)state;
    struct cw_world w;
    wc_running(&w);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    assert_non_null(strstr(cw_find(&w, HSP_ACT_REPLY)->text,
                           "no checkpoint of it is known: resume looks for one on disk, and waits "
                           "for a node that may have one"));
    for (uint32_t i = 0; i < 2; i++) {
        cw_msg(&w, i + 1, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref.job = 1});
    }
    const struct hsp_admin_event drain = {.verb = HSP_ADMIN_DRAIN, .node = "n0", .reason = "test"};
    assert_int_equal(cw_admin(&w, drain), HSP_OK);
    assert_string_equal(cw_find(&w, HSP_ACT_REPLY)->text,
                        "it has no state and is drained: its agent may be stopped; checkpoints of "
                        "job j may be on its disk alone: keep that disk");
    cw_end(&w);
}

HSP_TEST_FILE(ckpt_ran_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_shows_that_the_job_had_begun),
        cmocka_unit_test(an_administrator_may_choose_step_0),
        cmocka_unit_test(who_has_run_it_is_on_record),
        cmocka_unit_test(one_that_is_gone_for_good_is_removed),
        cmocka_unit_test(one_that_is_gone_takes_no_state_of_others),
        cmocka_unit_test(an_attempt_that_fails_is_no_begin),
        cmocka_unit_test(who_dies_before_the_first_vote_is_not_waited_for),
        cmocka_unit_test(an_attempt_of_an_older_row_may_have_run),
        cmocka_unit_test(its_end_says_what_resume_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
