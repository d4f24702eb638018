/* Tests that ended epochs leave nothing on a device, and that an agent delivers the messages that
 * it held back. */
#include "tests/unit/worker/agent/agent_world.h"

/* Job 4 runs on device 0 in the layout 1. */
static void running(struct aw_world *w, uint64_t epoch)
{
    aw_begin(w);
    aw_link_up(w, 1, 1);
    aw_run_job(w, 0, 4, epoch);
}

/* The agent refuses a PREPARE of an epoch that is older than the running or the prepared one.
 * Without an answer hspmdd would wait for the whole prepare_timeout, again and again. */
static void an_epoch_of_the_past_is_refused(void **state)
{
    (void)state;
    struct aw_world w;
    running(&w, 9);
    aw_prepare(&w, 0, 4, 9); /* begun, and STARTED has said so */
    assert_int_equal(w.acts.n, 0);
    aw_prepare(&w, 0, 4, 3);
    const struct hsp_msg *m = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_PREPARE_FAILED);
    assert_non_null(m);
    assert_true(m->epoch == 3 && m->u.failed.job == 4);
    assert_string_equal(m->u.failed.reason,
                        "this node has seen epoch 9 of the job, which is newer than 3");
    aw_prepare(&w, 0, 4, 12);
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_READY, .epoch = 12, .u.ready.job = 4});
    aw_prepare(&w, 0, 4, 11);
    assert_non_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_PREPARE_FAILED));
    assert_null(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_PREPARE));
    assert_int_equal(hsp_agent_device_at(w.a, 0)->run.running, 9);
    hsp_agent_free(w.a);
}

/* Device 0 has reported that it no longer runs job 5. So an order for the job is dropped with a
 * line in the log, and hspmdd needs no answer. */
static void an_order_for_a_job_that_is_not_there_is_dropped_aloud(void **state)
{
    (void)state;
    struct aw_world w;
    running(&w, 9);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_START, .epoch = 7, .u.start = {.job = 5}});
    assert_string_equal(aw_find(&w, HSP_AACT_LOG)->text,
                        "start for epoch 7 of job 5 is dropped: device 0 does not work for it");
    assert_int_equal(w.acts.n, 1);
    hsp_agent_free(w.a);
}

static void keep_papers(struct aw_world *w, uint64_t epoch)
{
    static const uint8_t blob[] = "papers";
    aw_from_daemon(w,
                   (struct hsp_msg){.type = HSP_MSG_PAPERS,
                                    .epoch = epoch,
                                    .blob = blob,
                                    .blob_len = 6,
                                    .u.papers = {.job = 4, .what = HSP_PAPERS_KEEP, .reason = ""}});
}

/* hspmdd releases all layouts below @layouts, and the executor obeys. */
static void released(struct aw_world *w, uint64_t layouts)
{
    aw_from_daemon(w, (struct hsp_msg){.type = HSP_MSG_RELEASE,
                                       .u.release = {.job = 4, .keep_plan = layouts, .known = 9}});
    assert_non_null(aw_sent(w, HSP_AACT_SEND_EXEC, HSP_MSG_RELEASE));
    aw_from_exec(w, 0, (struct hsp_msg){.type = HSP_MSG_RELEASED, .u.devref.job = 4});
    assert_non_null(aw_sent(w, HSP_AACT_SEND, HSP_MSG_RELEASED));
}

/* A RELEASE of the layout of the running epoch ends that epoch. The device is free then, also for
 * another job. */
static void a_release_of_its_layout_ends_the_work(void **state)
{
    (void)state;
    struct aw_world w;
    running(&w, 9);
    keep_papers(&w, 9);
    released(&w, 1); /* layout 1 stays */
    assert_int_equal(hsp_agent_device_at(w.a, 0)->run.running, 9);
    assert_null(aw_find(&w, HSP_AACT_DROP_PAPERS));
    released(&w, 2);
    assert_int_equal(hsp_agent_device_at(w.a, 0)->run.job, 0);
    assert_int_equal(aw_find(&w, HSP_AACT_DROP_PAPERS)->job, 4);
    aw_prepare(&w, 0, 5, 1);
    assert_non_null(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_PREPARE));
    hsp_agent_free(w.a);
}

/* A RELEASE ends the running epoch in a layout that is deleted. The prepared epoch in a layout that
 * stays is not ended. */
static void what_is_prepared_outlives_a_release(void **state)
{
    (void)state;
    struct aw_world w;
    running(&w, 8);
    aw_from_daemon(
        &w, (struct hsp_msg){.type = HSP_MSG_PREPARE,
                             .epoch = 9,
                             .u.prepare = {.job = 4, .n_ranks = 2, .n_peers = 2, .plan = 2}});
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_READY, .epoch = 9, .u.ready.job = 4});
    released(&w, 2);
    const struct hsp_m_run *r = &hsp_agent_device_at(w.a, 0)->run;
    assert_true(r->job == 4 && r->running == 0 && r->prepared == 9);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_START, .epoch = 9, .u.start = {.job = 4}});
    released(&w, 2);
    assert_int_equal(hsp_agent_device_at(w.a, 0)->run.running, 9);
    hsp_agent_free(w.a);
}

/* An executor dies before it has obeyed DROP, or before DROP comes. When it starts again its
 * unsealed state is deleted, and after that the papers of the dropped epoch. */
static void papers_of_an_epoch_go_though_its_executor_died(void **state)
{
    (void)state;
    const struct hsp_msg drop = {.type = HSP_MSG_DROP, .epoch = 3, .u.devref = {4, 0}};
    for (uint64_t late = 0; late < 2; late++) {
        for (uint64_t next = 0; next < 2; next++) {
            struct aw_world w;
            aw_begin(&w);
            aw_link_up(&w, 1, 1);
            keep_papers(&w, 3);
            aw_prepare(&w, 0, 4, 3);
            if (late == 0) {
                aw_from_daemon(&w, drop);
            }
            aw_exit_of(&w, 0);
            assert_null(aw_find(&w, HSP_AACT_DROP_PAPERS));
            if (late == 1) {
                aw_from_daemon(&w, drop);
            }
            if (next == 1) {
                keep_papers(&w, 4); /* of the next attempt */
            }
            w.now += 1000;
            aw_from_exec(&w, 0,
                         (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.address = "b"}});
            const struct hsp_agent_action *x = aw_find(&w, HSP_AACT_DROP_PAPERS);
            assert_int_equal(x == NULL, next == 1);
            assert_true(x == NULL || x->job == 4);
            hsp_agent_free(w.a);
        }
    }
}

/* The agent reports steps in order, also the steps that were done while hspmdd was away. So the
 * record that hspmdd keeps of a job never has a gap. */
static void steps_are_told_in_their_order(void **state)
{
    (void)state;
    struct aw_world w;
    running(&w, 9);
    for (uint64_t step = 1; step <= 6; step++) {
        if (step == 3) {
            aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
        } else if (step == 5) { /* HELLO is sent, WELCOME has not come */
            w.now += 100;
            aw_beats(&w);
            aw_tick(&w);
            aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
            aw_scanned(&w, NULL, 0);
            assert_non_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_HELLO));
        }
        aw_from_exec(
            &w, 0,
            (struct hsp_msg){.type = HSP_MSG_STEP, .epoch = 9, .u.step = {.job = 4, .step = step}});
        assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STEP) != NULL, step < 3);
    }
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                        .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                                      .term = 2,
                                                      .incarnation = {1, 1},
                                                      .heartbeat_ms = 500,
                                                      .dead_ms = 3000}});
    uint64_t told = 0;
    for (uint32_t i = 0; i < w.acts.n; i++) {
        const struct hsp_agent_action *t = &w.acts.item[i];
        if (t->type == HSP_AACT_SEND && t->msg->type == HSP_MSG_STEP) {
            assert_int_equal(t->msg->u.step.step, ++told);
        }
    }
    assert_int_equal(told, 6);
    hsp_agent_free(w.a);
}

/* Breaks the connection and restores it. Returns the number of steps that the agent reports again;
 * all must be of @job. */
static uint32_t steps_again(struct aw_world *w, uint32_t job)
{
    uint32_t told = 0;
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    w->now += 100;
    aw_beats(w);
    aw_tick(w);
    aw_link_up(w, 1, 1);
    for (uint32_t i = 0; i < w->acts.n; i++) {
        const struct hsp_agent_action *t = &w->acts.item[i];
        if (t->type == HSP_AACT_SEND && t->msg->type == HSP_MSG_STEP) {
            assert_int_equal(t->msg->u.step.job, job);
            told++;
        }
    }
    return told;
}

/* Begins a new connection up to its HELLO. */
static void say_hello(struct aw_world *w)
{
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    w->now += 100;
    aw_beats(w);
    aw_tick(w);
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_scanned(w, NULL, 0);
    assert_non_null(aw_sent(w, HSP_AACT_SEND, HSP_MSG_HELLO));
}

/* hspmdd answers a heartbeat @ms later. */
static void answers(struct aw_world *w, uint64_t ms)
{
    w->now += ms;
    aw_tick(w);
    const struct hsp_msg *m = aw_sent(w, HSP_AACT_SEND, HSP_MSG_HEARTBEAT);
    assert_non_null(m);
    aw_from_daemon(w,
                   (struct hsp_msg){.type = HSP_MSG_HEARTBEAT, .u.beat = {.seq = m->u.beat.seq}});
    aw_beats(w);
}

/* hspmdd may be killed before it has written a message, even twice. So the agent reports the last
 * steps of a stopped job again, until answers to later heartbeats show that hspmdd has written
 * them. */
static void steps_of_a_job_that_is_stopped_are_told_until_they_are_written(void **state)
{
    (void)state;
    for (uint32_t away = 0; away < 2; away++) {
        struct aw_world w;
        running(&w, 9);
        struct hsp_msg stop = {.type = HSP_MSG_STOP, .epoch = 9, .u.devref = {.job = 4}};
        aw_from_daemon(&w, stop);
        if (away == 1) {
            aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
        }
        aw_from_exec(
            &w, 0,
            (struct hsp_msg){.type = HSP_MSG_STEP, .epoch = 9, .u.step = {.job = 4, .step = 7}});
        stop.type = HSP_MSG_STOPPED;
        aw_from_exec(&w, 0, stop);
        assert_int_equal(steps_again(&w, 4), 1);
        answers(&w, 500);
        assert_int_equal(steps_again(&w, 4), 1);
        answers(&w, 1500);
        answers(&w, 1500);
        assert_int_equal(steps_again(&w, 4), 0);
        hsp_agent_free(w.a);
    }
}

/* An hspmdd that has lost its store begins another cluster, or restores a backup. Job 4 there may
 * be another job, so the agent does not report the steps of the stopped job. */
static void steps_of_a_job_that_is_stopped_are_no_business_of_another_cluster(void **state)
{
    (void)state;
    for (uint32_t other = 0; other < 2; other++) {
        struct aw_world w;
        running(&w, 9);
        aw_from_exec(
            &w, 0,
            (struct hsp_msg){.type = HSP_MSG_STEP, .epoch = 9, .u.step = {.job = 4, .step = 7}});
        struct hsp_msg stop = {.type = HSP_MSG_STOP, .epoch = 9, .u.devref = {.job = 4}};
        aw_from_daemon(&w, stop);
        stop.type = HSP_MSG_STOPPED;
        aw_from_exec(&w, 0, stop);
        say_hello(&w);
        aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                            .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                                          .cluster = {other, 0},
                                                          .generation = 1 - other,
                                                          .term = 2,
                                                          .incarnation = {1, 1},
                                                          .heartbeat_ms = 500,
                                                          .dead_ms = 3000}});
        assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STEP));
        hsp_agent_free(w.a);
    }
}

/* The agent does not report the steps of a job that has ended long ago when hspmdd comes back. */
static void steps_of_a_job_that_is_stopped_are_forgotten(void **state)
{
    (void)state;
    struct aw_world w;
    running(&w, 9);
    for (uint64_t step = 1; step <= 5000; step++) { /* more than are kept */
        aw_from_exec(
            &w, 0,
            (struct hsp_msg){.type = HSP_MSG_STEP, .epoch = 9, .u.step = {.job = 4, .step = step}});
    }
    aw_run_job(&w, 1, 5, 2);
    aw_from_exec(&w, 1, (struct hsp_msg){.type = HSP_MSG_STEP, .epoch = 2, .u.step = {.job = 5}});
    struct hsp_msg stop = {.type = HSP_MSG_STOP, .epoch = 9, .u.devref = {.job = 4}};
    aw_from_daemon(&w, stop);
    stop.type = HSP_MSG_STOPPED;
    aw_from_exec(&w, 0, stop);
    answers(&w, 1500);
    answers(&w, 1500);
    assert_int_equal(steps_again(&w, 5), 1);
    aw_from_exec(
        &w, 1, (struct hsp_msg){.type = HSP_MSG_STEP, .epoch = 2, .u.step = {.job = 5, .step = 1}});
    stop = (struct hsp_msg){.type = HSP_MSG_STOP, .epoch = 2, .u.devref = {.job = 5, .device = 0}};
    aw_from_daemon(&w, stop); /* device 1 goes on */
    assert_int_equal(steps_again(&w, 5), 2);
    hsp_agent_free(w.a);
}

static void welcome(struct aw_world *w, uint32_t heartbeat_ms, uint32_t dead_ms)
{
    aw_from_daemon(w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                       .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                                     .term = 1,
                                                     .incarnation = {1, 1},
                                                     .heartbeat_ms = heartbeat_ms,
                                                     .dead_ms = dead_ms}});
}

/* The agent forgets the checkpoint of a stopped job. An hspmdd that has lost its store begins
 * another cluster, which may have an epoch 9 of another job 4. */
static void a_checkpoint_of_a_job_that_is_stopped_is_forgotten(void **state)
{
    (void)state;
    struct aw_world w;
    running(&w, 9);
    aw_from_exec(
        &w, 0,
        (struct hsp_msg){.type = HSP_MSG_CHECKPOINTED,
                         .epoch = 9,
                         .u.ckpt = {.job = 4, .step = 40, .complete = true, .reason = ""}});
    say_hello(&w);
    const struct hsp_msg *m = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_CHECKPOINTED);
    assert_true(m != NULL && m->u.ckpt.job == 4 && m->u.ckpt.step == 40);
    welcome(&w, 500, 3000);
    struct hsp_msg stop = {.type = HSP_MSG_STOP, .epoch = 9, .u.devref = {.job = 4}};
    aw_from_daemon(&w, stop);
    stop.type = HSP_MSG_STOPPED;
    aw_from_exec(&w, 0, stop);
    say_hello(&w);
    assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_CHECKPOINTED));
    hsp_agent_free(w.a);
}

/* Returns the heartbeat interval that the last step sent to @n executors; 0 if @n is 0. */
static uint32_t told_beat(const struct aw_world *w, uint32_t n)
{
    uint32_t told = 0, ms = 0;
    for (uint32_t i = 0; i < w->acts.n; i++) {
        const struct hsp_agent_action *x = &w->acts.item[i];
        if (x->type == HSP_AACT_SEND_EXEC && x->msg->type == HSP_MSG_WELCOME) {
            ms = x->msg->u.welcome.heartbeat_ms;
            told++;
        }
    }
    assert_int_equal(told, n);
    return ms;
}

/* By default an executor sends a heartbeat every 500 ms. With a failure_detection of 400 ms it
 * would count as silent, so the agent passes a shorter interval on. */
static void executors_beat_as_often_as_hspmdd_wants(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    w.now += 450; /* since they have beaten */
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_scanned(&w, NULL, 0);
    welcome(&w, 100, 400);
    assert_int_equal(told_beat(&w, 2), 100);
    assert_null(aw_find(&w, HSP_AACT_KILL));
    aw_exit_of(&w, 1);
    aw_from_exec(&w, 1, (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.address = "b"}});
    assert_int_equal(told_beat(&w, 1), 100);
    welcome(&w, 60000, 150000); /* a reload; they wake up by their beats, too */
    assert_int_equal(told_beat(&w, 2), 500);
    welcome(&w, 60000, 3000); /* calls of NCCL have as long as before the first */
    assert_int_equal(told_beat(&w, 2), 500);
    welcome(&w, 59999, 3000);
    assert_int_equal(told_beat(&w, 0), 0);
    aw_exit_of(&w, 0);
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.address = "b"}});
    assert_int_equal(told_beat(&w, 0), 0);
    hsp_agent_free(w.a);
}

HSP_TEST_FILE(relay_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_of_the_past_is_refused),
        cmocka_unit_test(an_order_for_a_job_that_is_not_there_is_dropped_aloud),
        cmocka_unit_test(steps_are_told_in_their_order),
        cmocka_unit_test(steps_of_a_job_that_is_stopped_are_told_until_they_are_written),
        cmocka_unit_test(steps_of_a_job_that_is_stopped_are_no_business_of_another_cluster),
        cmocka_unit_test(steps_of_a_job_that_is_stopped_are_forgotten),
        cmocka_unit_test(a_checkpoint_of_a_job_that_is_stopped_is_forgotten),
        cmocka_unit_test(executors_beat_as_often_as_hspmdd_wants),
        cmocka_unit_test(a_release_of_its_layout_ends_the_work),
        cmocka_unit_test(what_is_prepared_outlives_a_release),
        cmocka_unit_test(papers_of_an_epoch_go_though_its_executor_died),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
