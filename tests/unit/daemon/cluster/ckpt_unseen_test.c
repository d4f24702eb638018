/* Tests incomplete answers about checkpoints: the job waits for a node that could not look, or
 * tells of it. */
#include "daemon/cluster/ckpt_marks.h"
#include "tests/unit/daemon/cluster/ckpt_world.h"

#define EIO_ON_N1 "n1: input or output error"
#define UNKNOWN                                                                               \
    "the checkpoints on disk are not known: " EIO_ON_N1                                       \
    ": looks again; fix checkpoint.path of a node that cannot look; remove a lost node with " \
    "hspmdctl node remove; to start again: hspmdctl cancel j, then resume j --from 0"

/* Answers each question with the @n of @seen for three times as long as state is waited for, and
 * nothing is planned. Returns how often the job has told that it waits. */
static uint32_t nobody_can_look(struct cw_world *w, const struct hsp_m_seen *seen, uint32_t n)
{
    const hsp_msec until = w->now + 3u * w->c->cfg.state_wait_ms;
    uint32_t asked = 0, told = 0;
    for (uint32_t i = 0; w->now < until; i++) {
        struct hsp_msg beat = {.type = HSP_MSG_HEARTBEAT};
        cw_step(w, i % 3 == 2
                       ? (struct hsp_event){.type = HSP_EV_TICK}
                       : (struct hsp_event){.type = HSP_EV_MSG, .conn = i % 3 + 1, .u.msg = &beat});
        w->now += i % 3 == 2 ? 500 : 0;
        if (w->find_job != 0) {
            cw_ckpts(w, seen, n, EIO_ON_N1);
            told += cw_fact(w, "job.blocked") != NULL;
            asked++;
        }
        assert_true(w->find_job == 0 && cw_job(w, 1)->ticket == 0);
        assert_int_equal(cw_job(w, 1)->state, HSP_JOB_PENDING);
        assert_string_equal(asked > 0 ? cw_job(w, 1)->reason : UNKNOWN, UNKNOWN);
    }
    assert_true(asked > 2 && asked < 200);
    return told;
}

/* A job has begun, and no checkpoint of it is on record: one may be on disk all the same. */
static void it_does_not_begin_anew_as_nobody_can_look(void **state)
{
    (void)state;
    const struct hsp_m_seen late = {40, WC_TERM, 1, 77};
    for (uint32_t is_there = 0; is_there < 2; is_there++) {
        struct cw_world w;
        wc_running(&w);
        wc_cancelled(&w);
        w.asks = true;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        assert_string_equal(cw_job(&w, 1)->reason, "looking for checkpoints on disk");
        uint32_t told = nobody_can_look(&w, NULL, 0);
        assert_int_equal(told, 1);
        while (w.find_job == 0) {
            wc_beats(&w, 500);
        }
        cw_ckpts(&w, &late, is_there, "");
        cw_plan(&w, 1);
        wc_prepare_means(&w, is_there ? HSP_MODE_RESTORE : HSP_MODE_FRESH, is_there ? 40 : 0,
                         is_there, is_there ? 77 : 0);
        cw_end(&w);
    }
}

/* Neither does it fail, and a checkpoint of another history does not count. */
static void it_does_not_fail_as_nobody_can_look(void **state)
{
    (void)state;
    struct cw_world w;
    const struct hsp_m_seen other = {80, WC_TERM, 1, 1080}, seen = {20, WC_TERM, 1, 1020};
    wc_with_three(&w, 3, true);
    assert_int_equal(wc_resume_from(&w, 20), HSP_OK);
    wc_cancelled(&w);
    w.asks = true;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_int_equal(nobody_can_look(&w, &other, 1), 1);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    cw_ckpts(&w, &seen, 1, ""); /* too late */
    assert_string_equal(cw_job(&w, 1)->reason, "cancelled");
    cw_end(&w);
}

/* A node that could not look may have a newer checkpoint, and new steps would replace it: the job
 * waits for the node, though an older checkpoint is seen. */
static void one_that_could_not_look_is_waited_for(void **state)
{
    (void)state;
    const struct hsp_m_seen seen[] = {{60, WC_TERM, 1, 1060}, {80, WC_TERM, 1, 1080}};
    for (uint32_t comes = 0; comes < 2; comes++) {
        struct cw_world w;
        char told[400];
        wc_with_three(&w, 3, false);
        w.asks = true;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        hsp_msec ms = wc_answered(&w, seen, 1, EIO_ON_N1, comes ? 5000 : 120000, told);
        if (comes) {
            assert_string_equal(cw_job(&w, 1)->reason,
                                "not all could look for a newer checkpoint: " EIO_ON_N1
                                ": asks again for state_wait, then resumes from checkpoint 60");
            (void)wc_answered(&w, seen, 2, "", 5000, told);
            assert_string_equal(told, "");
        } else {
            assert_true(ms >= w.c->cfg.state_wait_ms && ms < w.c->cfg.state_wait_ms + 3000u);
            assert_string_equal(told, "the job resumes from checkpoint 60; there may be a newer "
                                      "one, as not all could look: " EIO_ON_N1);
        }
        cw_plan(&w, 1);
        wc_prepare_means(&w, HSP_MODE_RESTORE, comes ? 80 : 60, 1, comes ? 1080 : 1060);
        cw_end(&w);
    }
}

/* Any node on which the job never ran, and any stranger with the worker key, can answer so. */
static void what_others_cannot_do_is_told_alone(void **state)
{
    (void)state;
    const struct hsp_m_seen seen = {20, WC_TERM, 1, 1020};
    for (uint32_t n = 0; n < 2; n++) {
        struct cw_world w;
        char told[400];
        wc_running(&w);
        wc_cancelled(&w);
        w.asks = true;
        w.lack = HSP_LACK_OTHERS;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        assert_int_equal(wc_answered(&w, &seen, n, EIO_ON_N1, 5000, told), 0);
        assert_non_null(strstr(told, n ? "resumes from checkpoint 20; there may be a newer one"
                                       : "begins at step 0; there may be a checkpoint"));
        cw_plan(&w, 1);
        wc_prepare_means(&w, n ? HSP_MODE_RESTORE : HSP_MODE_FRESH, n ? 20 : 0, n, n ? 1020 : 0);
        cw_end(&w);
    }
}

/* n1 says hello again, and the nodes are asked anew. Returns whether @why, their answer, is
 * told. */
static bool told_anew(struct cw_world *w, const struct hsp_m_seen *seen, const char *why)
{
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    cw_hello(w, 2, "n1", w->c->nodes[1].incarnation, 1);
    assert_int_equal(w->find_job, 1);
    cw_ckpts(w, seen, 1, why);
    const char *fact = cw_fact(w, "ckpt.not_seen");
    return fact != NULL && strstr(fact, why) != NULL;
}

/* A node that could not look may say hello as often as it likes. */
static void who_could_not_look_is_told_once(void **state)
{
    (void)state;
    const struct hsp_m_seen seen = {20, WC_TERM, 1, 1020};
    struct cw_world w;
    char told[400];
    wc_running(&w);
    wc_cancelled(&w);
    w.asks = true;
    w.lack = HSP_LACK_OTHERS;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    (void)wc_answered(&w, &seen, 1, EIO_ON_N1, 5000, told);
    assert_non_null(strstr(told, EIO_ON_N1));
    assert_false(told_anew(&w, &seen, EIO_ON_N1));
    assert_true(told_anew(&w, &seen, "n0: no answer"));
    assert_false(told_anew(&w, &seen, "n0: no answer"));
    assert_false(told_anew(&w, &seen, "")); /* all have looked */
    assert_true(told_anew(&w, &seen, "n0: no answer"));
    wc_cancelled(&w);
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    (void)wc_answered(&w, &seen, 1, "n0: no answer", 5000, told);
    assert_non_null(strstr(told, "n0: no answer"));
    cw_end(&w);
}

/* Its checkpoints are on record. Where the record is of before, the job waits for the node once. */
static void one_that_is_away_may_have_one(void **state)
{
    (void)state;
    const struct hsp_m_seen seen = {20, WC_TERM, 1, 1020};
    for (uint32_t restored = 0; restored < 2; restored++) {
        struct cw_world w;
        char told[400];
        wc_running(&w);
        wc_cancelled(&w);
        w.asks = true;
        w.lack = HSP_LACK_AWAY;
        w.c->jobs[0]->ran_unknown = restored != 0;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        if (!restored) {
            assert_true(wc_answered(&w, NULL, 0, "n1: it is not connected", 120000, told) >=
                        120000);
            assert_non_null(
                strstr(cw_job(&w, 1)->reason, "not known: n1: it is not connected: looks again"));
        }
        hsp_msec ms = wc_answered(&w, &seen, 1, "n1: it is not connected", 120000, told);
        assert_true(!restored || ms >= w.c->cfg.state_wait_ms);
        assert_true(ms <= (restored ? w.c->cfg.state_wait_ms : 0u) + HSP_CKPT_SLOW_MS + 1000);
        assert_non_null(strstr(told, "n1: it is not connected"));
        cw_plan(&w, 1);
        wc_prepare_means(&w, HSP_MODE_RESTORE, 20, 1, 1020);
        cw_end(&w);
    }
}

/* The halves of a job that has done step 40 are on n0 and n1. n1 is dead, and has been waited for
 * with the state. */
static void half_of_it_is_lost(struct cw_world *w, bool restored)
{
    cw_begin(w, 2, 1);
    wc_submit(w, (struct hsp_job_terms){0});
    cw_plan_in_halves(w);
    wc_begins(w, 1);
    cw_pass(w, 1, 40, cw_even, 2);
    w->c->jobs[0]->ran_unknown = restored;
    w->asks = true;
    w->lack = HSP_LACK_AWAY;
    cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
    for (uint32_t i = 0; i < 7; i++) {
        w->now += 500;
        cw_msg(w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    assert_int_equal(w->c->nodes[1].state, HSP_NODE_DEAD);
    cw_plan(w, 1); /* on n0, asked for as it sealed */
    cw_sealed(w, 0, 1, 40);
    assert_non_null(strstr(cw_job(w, 1)->reason, "waiting for more, on n1"));
}

/* n0 sees @n checkpoints, and n1 is away, until an epoch is prepared or 200 s are over. Returns how
 * long it took. */
static hsp_msec without_n1(struct cw_world *w, const struct hsp_m_seen *seen, uint32_t n)
{
    const hsp_msec from = w->now;
    while (cw_job(w, 1)->att.epoch == 0 && w->now < from + 200000) {
        if (w->find_job != 0) {
            cw_ckpts(w, seen, n, "n1: it is not connected");
            continue;
        }
        w->now += 500;
        cw_msg(w, 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
    return w->now - from;
}

/* A node that was waited for with the state is not waited for once more with the checkpoints. */
static void one_that_was_waited_for_with_the_state(void **state)
{
    (void)state;
    const struct hsp_m_seen seen = {20, WC_TERM, 1, 1020};
    for (uint32_t restored = 0; restored < 2; restored++) {
        struct cw_world w;
        half_of_it_is_lost(&w, restored);
        hsp_msec ms = without_n1(&w, &seen, 1);
        assert_true(ms >= w.c->cfg.state_wait_ms - 1000 && ms < w.c->cfg.state_wait_ms + 5000u);
        assert_int_equal(cw_job(&w, 1)->att.mode, HSP_MODE_RESTORE);
        assert_int_equal(cw_job(&w, 1)->att.step, 20);
        cw_end(&w);
    }
}

/* The end of the wait for state: a job that may have a checkpoint does not fail while a node that
 * may have it is away. */
static void the_end_of_the_wait_is_told(void **state)
{
    (void)state;
    struct cw_world w;
    half_of_it_is_lost(&w, false);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "then it looks for a checkpoint on disk"));
    assert_int_equal(without_n1(&w, NULL, 0), 200000);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_PAUSED);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "the checkpoints on disk are not known"));
    cw_end(&w);
}

/* A job that has not written yet has no folder either. So the job begins in the end, and says
 * why. */
static void a_path_that_is_not_mounted_is_waited_for(void **state)
{
    (void)state;
    const struct hsp_m_seen seen = {20, WC_TERM, 1, 1020};
    for (uint32_t n = 0; n < 2; n++) {
        struct cw_world w;
        char told[400];
        wc_running(&w);
        wc_cancelled(&w);
        w.asks = true;
        w.lack = HSP_LACK_PATH;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        hsp_msec ms = wc_answered(&w, &seen, n, "n1: no path", 120000, told);
        if (n == 0) {
            assert_true(ms >= w.c->cfg.state_wait_ms && ms < w.c->cfg.state_wait_ms + 3000u);
            assert_string_equal(told, "the job begins at step 0; there may be a checkpoint, as not "
                                      "all could look: n1: no path");
        } else {
            assert_true(ms == 0 && told[0] == '\0');
        }
        cw_plan(&w, 1);
        wc_prepare_means(&w, n ? HSP_MODE_RESTORE : HSP_MODE_FRESH, n ? 20 : 0, n, n ? 1020 : 0);
        cw_end(&w);
    }
}

/* A wait before a begin does not count for the next loss: the job waits as long again for a
 * checkpoint that is away then. */
static void each_loss_has_its_own_wait(void **state)
{
    (void)state;
    struct cw_world w;
    char told[400];
    wc_running(&w);
    wc_cancelled(&w);
    w.asks = true;
    w.lack = HSP_LACK_PATH;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    (void)wc_answered(&w, NULL, 0, "n1: no path", 120000, told);
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_FRESH, 0, 0, 0);
    wc_begins(&w, 1);
    wc_saved_in(&w, 2, 40, 77);
    cw_pass(&w, 1, 47, cw_even, 2);
    w.asks = false;
    w.has_disk = true;
    for (uint32_t i = 0; i < 2; i++) {
        cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = i + 1});
        cw_hello(&w, i + 1, i == 0 ? "n0" : "n1", 0, 1);
    }
    const struct hsp_job *j = cw_job(&w, 1);
    for (hsp_msec until = w.now + 60000; w.now < until && strstr(j->reason, "40") == NULL;) {
        wc_beats(&w, 500);
    }
    assert_non_null(strstr(j->reason, "checkpoint 40 cannot be used: no connected node has it"));
    wc_beats(&w, w.c->cfg.state_wait_ms / 2);
    assert_int_not_equal(j->state, HSP_JOB_FAILED);
    cw_end(&w);
}

/* n0 is too slow for its answer, and n1 says hello each 5 s. Time goes on until n0's look is over,
 * after 10 s, and nothing else waits for @for_ms. Returns how long that was. */
static hsp_msec restarts_while_looks_last(struct cw_world *w, const struct hsp_m_seen *seen,
                                          const char *why, hsp_msec for_ms)
{
    const hsp_msec from = w->now;
    hsp_msec begun = from;
    uint64_t find = w->find;
    for (uint32_t i = 1; cw_job(w, 1)->ticket == 0 && w->now - from < for_ms; i++) {
        wc_beats(w, 500);
        if (i % 10 == 0) {
            cw_step(w, (struct hsp_event){.type = HSP_EV_CONN_CLOSED, .conn = 2});
            cw_hello(w, 2, "n1", w->c->nodes[1].incarnation, 1);
        }
        begun = w->find != find ? w->now : begun;
        find = w->find;
        if (w->find_job != 0 && w->now - begun >= 10000) {
            cw_ckpts(w, seen, 1, why);
        }
    }
    return w->now - from;
}

/* Its HELLOs begin looks anew for a while, and prolong no wait that they cannot shorten. */
static void an_agent_that_restarts_ever_again_holds_no_job_up(void **state)
{
    (void)state;
    const struct hsp_m_seen seen = {20, WC_TERM, 1, 1020};
    for (uint32_t mute = 0; mute < 2; mute++) {
        struct cw_world w;
        wc_running(&w);
        wc_cancelled(&w);
        w.asks = true;
        w.lack = mute ? HSP_LACK_LOOK : HSP_LACK_OTHERS;
        assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
        hsp_msec ms = restarts_while_looks_last(&w, &seen, mute ? "n0: no answer" : "", 600000);
        assert_true(ms > 20000 && ms <= 45000u + (mute ? w.c->cfg.state_wait_ms + 45000u : 0u));
        cw_plan(&w, 1);
        wc_prepare_means(&w, HSP_MODE_RESTORE, 20, 1, 1020);
        cw_end(&w);
    }
}

#define TOO_OLD "old: its hspmd-worker is too old to list checkpoints: upgrade it"

/* Any agent may say that it is of protocol 14: the record may be older than the disk, and the
 * others are asked. */
static void an_older_agent_hides_nothing(void **state)
{
    (void)state;
    struct cw_world w;
    wc_running(&w);
    wc_saved_in(&w, 1, 20, 55);
    wc_cancelled(&w);
    cw_msg(&w, 3,
           (struct hsp_msg){.type = HSP_MSG_HELLO,
                            .u.hello = {.protocol = 14, .node = "old", .address = ""}});
    assert_int_equal(cw_find(&w, HSP_ACT_SEND)->msg->u.welcome.protocol, 14);
    wc_sees(&w, 20, 1, 55);
    wc_sees(&w, 60, 1, 77);
    wc_resumed(&w);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 60, 1, 77);
    cw_end(&w);
}

/* A node that has run the job may have the checkpoint on record: a member that then finds none
 * refuses the attempt. */
static void an_older_agent_may_have_what_is_on_record(void **state)
{
    (void)state;
    struct cw_world w;
    char told[400];
    wc_running(&w);
    wc_saved_in(&w, 1, 20, 55);
    wc_saved_in(&w, 1, 40, 77);
    wc_cancelled(&w);
    w.asks = w.mute = true;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_true(wc_answered(&w, NULL, 0, TOO_OLD, 120000, told) >= w.c->cfg.state_wait_ms);
    assert_non_null(strstr(
        told,
        "resumes from checkpoint 40; there may be a newer one, as not all could look: " TOO_OLD));
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_RESTORE, 40, 1, 77);
    wc_cancelled(&w);
    assert_int_equal(wc_resume_from(&w, 20), HSP_OK); /* by the record */
    assert_int_equal(cw_job(&w, 1)->origin_step, 20);
    cw_end(&w);
}

/* Nor does it begin anew where nothing is on record: one may be there. */
static void an_older_agent_is_upgraded_first(void **state)
{
    (void)state;
    struct cw_world w;
    char told[400];
    wc_running(&w);
    wc_cancelled(&w);
    w.asks = w.mute = true;
    assert_int_equal(cw_order(&w, HSP_ADMIN_RESUME, 1), HSP_OK);
    assert_true(wc_answered(&w, NULL, 0, TOO_OLD, 120000, told) >= 120000);
    assert_non_null(strstr(cw_job(&w, 1)->reason, "not known: " TOO_OLD ": looks again"));
    (void)wc_answered(&w, NULL, 0, "", 120000, told);
    cw_plan(&w, 1);
    wc_prepare_means(&w, HSP_MODE_FRESH, 0, 0, 0);
    cw_end(&w);
}

HSP_TEST_FILE(ckpt_unseen_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_does_not_begin_anew_as_nobody_can_look),
        cmocka_unit_test(it_does_not_fail_as_nobody_can_look),
        cmocka_unit_test(one_that_could_not_look_is_waited_for),
        cmocka_unit_test(what_others_cannot_do_is_told_alone),
        cmocka_unit_test(who_could_not_look_is_told_once),
        cmocka_unit_test(one_that_is_away_may_have_one),
        cmocka_unit_test(one_that_was_waited_for_with_the_state),
        cmocka_unit_test(the_end_of_the_wait_is_told),
        cmocka_unit_test(a_path_that_is_not_mounted_is_waited_for),
        cmocka_unit_test(an_agent_that_restarts_ever_again_holds_no_job_up),
        cmocka_unit_test(each_loss_has_its_own_wait),
        cmocka_unit_test(an_older_agent_hides_nothing),
        cmocka_unit_test(an_older_agent_may_have_what_is_on_record),
        cmocka_unit_test(an_older_agent_is_upgraded_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
