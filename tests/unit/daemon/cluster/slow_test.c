/* Tests devices that give less than they were measured to, event by event. */
#include "tests/unit/daemon/cluster/cluster_world.h"

#include <math.h>
#include <stdio.h>

#include "daemon/cluster/lookup.h"
#include "proto/base/size.h"

static void beat(struct cw_world *w, uint32_t n_nodes)
{
    for (uint32_t i = 0; i < n_nodes; i++) {
        cw_msg(w, i + 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    }
}

static void slow_device(void **state)
{
    (void)state;
    static const double slow[2] = {1, 2};
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    w.c->jobs[0]->steps = 1000;
    uint64_t ticket = w.ticket, at = 1;
    for (uint32_t i = 0; i < 100; i++, at++) { /* every other step: noise */
        cw_pass(&w, 1, at, i % 2 == 0 ? slow : cw_even, 2);
    }
    for (uint32_t i = 0; i < 19; i++, at++) {
        cw_pass(&w, 1, at, slow, 2);
    }
    cw_pass(&w, 1, at++, cw_even, 2); /* one good step takes two away */
    cw_pass(&w, 1, at++, slow, 2);
    cw_pass(&w, 1, at++, slow, 2);
    assert_int_equal(w.ticket, ticket);
    cw_pass(&w, 1, at++, slow, 2);
    assert_true(w.ticket > ticket);
    assert_string_equal(cw_fact(&w, "node.slow"),
                        "slow: n1/0 takes 0.66 of the time, 0.50 planned");
    assert_near(w.speed[0], 1, 1e-12); /* the fastest keeps its profile */
    assert_near(w.speed[1], (22.0 / 3 + 0.5) / (44.0 / 3 + 0.5), 1e-12);
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SWITCHING);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_ARM), 2);
    cw_pass(&w, 1, at++, cw_even, 2);
    cw_let_go(&w, 1, 2);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_RUNNING);
    ticket = w.ticket;
    for (uint32_t i = 0; i < 40; i++, at++) {
        cw_pass(&w, 1, at, slow, 2);
    }
    assert_int_equal(w.ticket, ticket); /* at most once a minute */
    w.now += 2000;
    for (uint32_t i = 0; i < 32; i++, at++, w.now += 1900) {
        cw_msg(&w, 2, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        cw_pass(&w, 1, at, slow, 2);
    }
    assert_true(w.ticket > ticket);
    cw_end(&w);
}

/* Observed speeds are averaged over the window, do not count twice when the plan is kept, survive a
 * restart, and are forgotten when the device is fast again. */
static void slow_device_again(void **state)
{
    (void)state;
    static const double one[2] = {1, 2}, two[2] = {1, 4};
    struct cw_world w;
    uint64_t at = 1;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    w.c->jobs[0]->steps = 1000;
    for (uint32_t minute = 0; minute < 3; minute++) {
        uint64_t ticket = w.ticket;
        for (uint32_t i = 0; i < 20; i++) {
            assert_int_equal(w.ticket, ticket);
            cw_pass(&w, 1, at++, i % 2 == 0 ? one : two, 2);
        }
        assert_true(w.ticket > ticket);
        /* 0.2667 : 0.7333 on average */
        assert_near(w.speed[0], 1, 1e-12);
        assert_near(w.speed[1], (1.0 / 3 + 0.2) / (2.0 / 3 + 0.8), 1e-12);
        cw_step(&w, (struct hsp_event){.type = HSP_EV_PLAN_DONE,
                                       .u.plan = {.job = 1, .ticket = w.ticket, .keep = true}});
        for (uint32_t i = 0; i < 61; i++) {
            w.now += 1000;
            beat(&w, 2);
        }
    }
    /* planned anew with it; hspmdd restarts */
    for (uint32_t i = 0; i < 20; i++) {
        cw_pass(&w, 1, at++, one, 2);
    }
    assert_near(w.speed[1], 0.5, 1e-12);
    cw_plan(&w, 1);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    cw_pass(&w, 1, at++, cw_even, 2);
    cw_let_go(&w, 1, 2);
    cw_restart(&w, NULL);
    assert_near(hsp_ci_device(w.c, HSP_DEVICE(1, 0))->speed, 0.5, 1e-12);
    assert_near(hsp_ci_device(w.c, HSP_DEVICE(0, 0))->speed, 1, 1e-12);
    cw_hello_running(&w, 1, "n0", 1, 1, 2);
    cw_hello_running(&w, 2, "n1", 2, 1, 2);
    cw_let_go(&w, 1, 2);
    /* twice as fast as thought: it is the other one that is slow */
    for (uint32_t i = 0; i < 20; i++) {
        cw_pass(&w, 1, at++, (const double[2]){2, 1}, 2);
    }
    assert_string_equal(cw_fact(&w, "node.slow"),
                        "slow: n0/0 takes 0.67 of the time, 0.50 planned");
    assert_near(w.speed[0], 1, 1e-12);
    assert_near(w.speed[1], 1, 1e-12);
    cw_end(&w);
}

HSP_TEST_FILE(slow_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slow_device),
                                       cmocka_unit_test(slow_device_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
