/* Tests the agent's machine, event by event; its link to hspmdd: agent_link_test.c. Every pair of
 * state and event is in agent_pairs_test.c; together with the coordinator it runs in tests/sim. */
#include "tests/unit/worker/agent/agent_world.h"

#include <stdio.h>

#include "proto/base/size.h"
#include "proto/base/str.h"

static void executors_restart(void **state)
{
    (void)state;
    static const uint32_t pauses[] = {0, 0, 50, 100, 200, 400};
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    for (uint32_t i = 0; i < HSP_ARRAY_LEN(pauses); i++) {
        aw_exit_of(&w, 1);
        const struct hsp_msg *m = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_EXECUTOR_DEAD);
        assert_int_equal(m->u.dead.device, 1);
        assert_int_equal(m->u.dead.restart_ms, pauses[i]);
        assert_string_equal(m->u.dead.reason, "signal 9");
        if (pauses[i] != 0) {
            assert_null(aw_find(&w, HSP_AACT_SPAWN));
            w.now += pauses[i];
            aw_beats(&w);
            aw_tick(&w);
        }
        assert_int_equal(hsp_agent_device_at(w.a, 1)->state, HSP_EXEC_STARTING);
        aw_from_exec(&w, 1,
                     (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.address = "b"}});
        assert_non_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_EXECUTOR_UP));
    }
    /* one that is silent is killed */
    aw_beats(&w);
    for (uint32_t i = 0; i < 6; i++) {
        assert_null(aw_find(&w, HSP_AACT_KILL));
        w.now += 500;
        aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    }
    assert_int_equal(aw_find(&w, HSP_AACT_KILL)->device, 1);
    /* and a message that no executor sends */
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_WELCOME});
    assert_int_equal(aw_find(&w, HSP_AACT_KILL)->device, 0);
    /* the death of the silent one is told with the reason of the kill */
    aw_exit_of(&w, 1);
    assert_non_null(strstr(aw_find(&w, HSP_AACT_LOG)->text, ": killed by its agent: silent"));
    hsp_agent_free(w.a);
}

static void seal_waits(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    aw_run_job(&w, 0, 4, 2);
    aw_run_job(&w, 1, 4, 2);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_SEAL, .epoch = 3, .u.jobref = {.job = 4}});
    assert_int_equal(aw_count(&w, HSP_AACT_SEND_EXEC), 2);
    assert_null(aw_find(&w, HSP_AACT_SCAN));
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_SEALED, .epoch = 3, .u.sealed.job = 4});
    assert_null(aw_find(&w, HSP_AACT_SCAN)); /* the other may still write */
    w.now += 999;
    aw_beats(&w);
    assert_null(aw_find(&w, HSP_AACT_KILL));
    w.now += 1;
    aw_tick(&w);
    assert_int_equal(aw_find(&w, HSP_AACT_KILL)->device, 1);
    assert_null(aw_find(&w, HSP_AACT_SCAN)); /* killed is not gone */
    aw_exit_of(&w, 1);
    struct hsp_m_holding h[3] = {{.job = 4, .version = 1}, {.job = 5}, {.job = 4, .version = 2}};
    aw_scanned(&w, h, 3);
    const struct hsp_msg *m = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_SEALED);
    assert_int_equal(m->epoch, 3);
    assert_int_equal(m->u.sealed.n_holdings, 2); /* of this job */
    assert_int_equal(m->u.sealed.holdings[1].version, 2);
    /* two jobs at once, with nothing that runs */
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_SEAL, .epoch = 4, .u.jobref = {.job = 4}});
    uint64_t first = aw_find(&w, HSP_AACT_SCAN)->scan;
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_SEAL, .epoch = 9, .u.jobref = {.job = 5}});
    aw_scanned(&w, h, 3);
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_SEALED)->u.sealed.job, 5);
    aw_step(&w, (struct hsp_agent_event){
                    .type = HSP_AEV_SCANNED, .scan = first, .n = 3, .holdings = h});
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_SEALED)->u.sealed.job, 4);
    hsp_agent_free(w.a);
}

/* The SEAL of hspmdd says that sealing takes longer, since the executors have much state to
 * seal. */
static void seal_takes_longer(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    aw_run_job(&w, 1, 4, 2);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_SEAL, .epoch = 3, .u.jobref = {4, 2500}});
    for (int i = 0; i < 7; i++) {
        w.now += i < 6 ? 500 : 499;
        aw_beats(&w);
        assert_null(aw_find(&w, HSP_AACT_KILL));
    }
    w.now += 1;
    aw_tick(&w);
    assert_int_equal(aw_find(&w, HSP_AACT_KILL)->device, 1);
    hsp_agent_free(w.a);
}

static void stop_and_release(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    /* no executor is there: the agent deletes */
    aw_exit_of(&w, 1);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_RELEASE,
                                        .u.release = {.job = 9, .device = 1, .keep_plan = 5}});
    const struct hsp_agent_action *x = aw_find(&w, HSP_AACT_DISCARD);
    assert_true(x->device == 1 && x->job == 9 && x->keep_plan == 5);
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_RELEASED)->u.devref.job, 9);
    aw_from_exec(&w, 1, (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.address = "a:1"}});
    aw_run_job(&w, 0, 4, 2);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_STOP, .epoch = 2, .u.devref = {4, 0}});
    assert_non_null(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_STOP));
    assert_null(aw_find(&w, HSP_AACT_DISCARD));
    assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STOPPED));
    aw_exit_of(&w, 0); /* the executor died over it */
    assert_int_equal(aw_find(&w, HSP_AACT_DISCARD)->job, 4);
    assert_non_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STOPPED));
    /* one job at a time on a device */
    aw_run_job(&w, 1, 4, 3);
    aw_prepare(&w, 1, 5, 1);
    assert_string_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_PREPARE_FAILED)->u.failed.reason,
                        "the device works for another job");
    hsp_agent_free(w.a);
}

/* Device 0 runs job 4. It still has state of job 9, which failed on this device earlier. */
static void a_release_of_another_job_answers_no_stop(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    aw_run_job(&w, 0, 4, 2);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_STOP, .epoch = 2, .u.devref = {4, 0}});
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_RELEASE, .u.release = {9, 0, 5, 1}});
    assert_int_equal(aw_find(&w, HSP_AACT_DISCARD)->job, 9);
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_RELEASED)->u.devref.job, 9);
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_STOPPED, .epoch = 2, .u.devref = {4, 0}});
    const struct hsp_msg *m = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STOPPED);
    assert_non_null(m);
    assert_int_equal(m->u.devref.job, 4);
    /* idle, and the answer of another is owed: the same */
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_STOP, .epoch = 2, .u.devref = {4, 0}});
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_RELEASE, .u.release = {9, 0, 5, 1}});
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_RELEASED)->u.devref.job, 9);
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_STOPPED, .epoch = 2, .u.devref = {4, 0}});
    assert_non_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STOPPED));
    /* idle, and given work before it has answered: an executor that works is stopped */
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_RELEASE, .u.release = {9, 0, 5, 1}});
    aw_run_job(&w, 0, 4, 3);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_STOP, .epoch = 3, .u.devref = {4, 0}});
    assert_non_null(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_STOP));
    hsp_agent_free(w.a);
}

/* Lets @ms pass while both executors send heartbeats. Returns true if the agent kills one of them
 * meanwhile. */
static bool is_killed_within(struct aw_world *w, uint64_t ms)
{
    bool killed = false;
    for (uint64_t until = w->now + ms; w->now < until;) {
        w->now += 500;
        for (uint32_t i = 0; i < 2; i++) {
            aw_from_exec(w, i, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
            killed = killed || aw_find(w, HSP_AACT_KILL) != NULL;
        }
        aw_from_daemon(w, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    }
    return killed;
}

/* The agent kills an executor that sends heartbeats but does not obey an order for obey_ms. */
static void who_does_not_obey_is_killed(void **state)
{
    (void)state;
    static const uint16_t answers[] = {
        [HSP_MSG_STOP] = HSP_MSG_STOPPED,
        [HSP_MSG_RELEASE] = HSP_MSG_RELEASED,
        [HSP_MSG_DROP] = HSP_MSG_DROPPED,
    };
    static const uint16_t orders[] = {HSP_MSG_STOP, HSP_MSG_RELEASE, HSP_MSG_DROP};
    for (uint32_t k = 0; k < HSP_ARRAY_LEN(orders); k++) {
        struct aw_world w;
        struct hsp_msg order = {.type = orders[k], .epoch = 3, .u.devref = {4, 0}};
        if (order.type == HSP_MSG_RELEASE) {
            order.u.release.known = 3;
        }
        aw_begin(&w);
        aw_link_up(&w, 1, 1);
        aw_prepare(&w, 0, 4, 3);
        aw_from_daemon(&w, order);
        aw_from_exec(&w, 0,
                     (struct hsp_msg){.type = answers[order.type], .epoch = 3, .u.devref = {4, 0}});
        assert_false(is_killed_within(&w, 20000));
        aw_from_daemon(&w, order); /* the executor may hold an epoch that has failed */
        assert_non_null(aw_sent(&w, HSP_AACT_SEND_EXEC, order.type));
        assert_false(is_killed_within(&w, 9500));
        assert_true(is_killed_within(&w, 500));
        aw_exit_of(&w, 0);
        bool deletes = order.type != HSP_MSG_DROP;
        assert_int_equal(aw_count(&w, HSP_AACT_DISCARD), deletes);
        assert_int_equal(aw_sent(&w, HSP_AACT_SEND, answers[order.type]) != NULL, deletes);
        hsp_agent_free(w.a);
    }
}

/* A second DROP, of the same job or of another job, does not extend the time that an executor has
 * to obey the first. */
static void a_second_drop_gives_no_time(void **state)
{
    (void)state;
    for (uint32_t job = 4; job < 6; job++) {
        struct aw_world w;
        aw_begin(&w);
        aw_link_up(&w, 1, 1);
        aw_prepare(&w, 0, 4, 3);
        aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_DROP, .epoch = 3, .u.devref = {4, 0}});
        assert_false(is_killed_within(&w, 9500));
        aw_from_daemon(&w,
                       (struct hsp_msg){.type = HSP_MSG_DROP, .epoch = 3, .u.devref = {job, 0}});
        assert_true(is_killed_within(&w, 500));
        hsp_agent_free(w.a);
    }
}

/* An executor that has obeyed the first of two orders has the whole time for the second order. */
static void each_drop_that_is_obeyed_gives_time(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    for (uint64_t epoch = 3; epoch < 5; epoch++) {
        aw_prepare(&w, 0, 4, epoch);
        aw_from_daemon(&w,
                       (struct hsp_msg){.type = HSP_MSG_DROP, .epoch = epoch, .u.devref = {4, 0}});
        assert_false(is_killed_within(&w, 4500));
    }
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_DROPPED, .epoch = 3, .u.devref = {4, 0}});
    assert_false(is_killed_within(&w, 9500));
    assert_true(is_killed_within(&w, 500));
    hsp_agent_free(w.a);
}

/* hspmdd waits for SEALED for twice dead_ms, the time after which silence counts as death. An
 * executor gets less time for SEAL, also if dead_ms is short. It gets more time for other orders if
 * dead_ms is long. */
static void bounds_follow_the_one_of_silence(void **state)
{
    (void)state;
    static const struct {
        uint32_t dead_ms;
        uint64_t seal_ms, obey_ms;
    } c[] = {{300, 100, 10000}, {3000, 1000, 10000}, {30000, 1000, 60000}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(c); i++) {
        for (int seal = 0; seal < 2; seal++) {
            struct aw_world w;
            uint64_t bound = seal != 0 ? c[i].seal_ms : c[i].obey_ms, step = bound / 100;
            assert_true(6 * c[i].seal_ms <= 2 * c[i].dead_ms);
            aw_begin(&w);
            aw_link_up(&w, 1, 1);
            aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                                .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                                              .term = 1,
                                                              .incarnation = {1, 1},
                                                              .heartbeat_ms = 50,
                                                              .dead_ms = c[i].dead_ms}});
            aw_run_job(&w, 0, 4, 2);
            aw_from_daemon(&w, (struct hsp_msg){.type = seal != 0 ? HSP_MSG_SEAL : HSP_MSG_STOP,
                                                .epoch = 3,
                                                .u.devref = {4, 0}});
            for (uint64_t ms = step; ms <= bound; ms += step) {
                w.now += step;
                aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
                bool killed = aw_find(&w, HSP_AACT_KILL) != NULL;
                for (uint32_t d = 0; d < 2; d++) {
                    aw_from_exec(&w, d, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
                    killed = killed || aw_find(&w, HSP_AACT_KILL) != NULL;
                }
                assert_int_equal(killed, ms == bound);
            }
            hsp_agent_free(w.a);
        }
    }
}

/* After a broken attempt the device counts as idle, but the agent still passes the DROP of that
 * attempt on, since DROP frees its memory. */
static void who_has_lost_a_peer_is_told_to_drop(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    aw_prepare(&w, 0, 4, 2);
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_READY, .epoch = 2, .u.ready = {.job = 4}});
    aw_from_exec(
        &w, 0,
        (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                         .epoch = 2,
                         .u.lost = {.job = 4, .peer = 1, .before_start = true, .reason = ""}});
    assert_int_equal(hsp_agent_device_at(w.a, 0)->run.job, 0);
    struct hsp_msg drop = {.type = HSP_MSG_DROP, .epoch = 2, .u.devref = {4, 0}};
    aw_from_daemon(&w, drop);
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_DROP)->epoch, 2);
    aw_prepare(&w, 0, 5, 1); /* which ends the work of other jobs */
    aw_from_daemon(&w, drop);
    assert_null(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_DROP));
    hsp_agent_free(w.a);
}

/* PEER_LOST, which ends an attempt, may come between a STOP and its answer. The agent passes the
 * answer on all the same. */
static void a_stop_is_answered_behind_a_lost_peer(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    aw_prepare(&w, 0, 4, 2);
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_READY, .epoch = 2, .u.ready = {.job = 4}});
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_STOP, .epoch = 2, .u.devref = {4, 0}});
    aw_from_exec(
        &w, 0,
        (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                         .epoch = 2,
                         .u.lost = {.job = 4, .peer = 1, .before_start = true, .reason = ""}});
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_STOPPED, .epoch = 2, .u.devref = {4, 0}});
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STOPPED)->u.devref.job, 4);
    aw_prepare(&w, 0, 5, 3);
    assert_non_null(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_PREPARE));
    hsp_agent_free(w.a);
}

/* The agent reports damage once, under the device that found it. Without a connection it reports
 * when the next connection is up. */
static void damage_is_told(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_msg m = {.type = HSP_MSG_STATE_DAMAGED,
                        .u.damaged = {.job = 4, .device = 7, .plan = 3, .version = 9}};
    aw_begin(&w);
    m.u.damaged.part = "one";
    aw_from_exec(&w, 1, m); /* not yet connected */
    assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STATE_DAMAGED));
    aw_link_up(&w, 1, 1);
    const struct hsp_msg *told = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STATE_DAMAGED);
    assert_true(told->u.damaged.device == 1 && told->u.damaged.version == 9);
    assert_string_equal(told->u.damaged.part, "one");
    m.u.damaged.part = "two";
    aw_from_exec(&w, 0, m);
    told = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STATE_DAMAGED);
    assert_true(told->u.damaged.device == 0 && told->u.damaged.plan == 3);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    for (uint32_t i = 0; i < 2 * 64; i++) { /* HSP_AGENT_UNTOLD */
        aw_from_exec(&w, 0, m);
    }
    w.now += 50;
    aw_tick(&w);
    aw_link_up(&w, 1, 1);
    uint32_t n = 0;
    const char *last = NULL;
    for (uint32_t i = 0; i < w.acts.n; i++) {
        if (w.acts.item[i].type == HSP_AACT_SEND &&
            w.acts.item[i].msg->type == HSP_MSG_STATE_DAMAGED) {
            last = w.acts.item[i].msg->u.damaged.part;
            n++;
        }
    }
    assert_int_equal(n, 64);
    assert_string_equal(last, "two (64 more damaged pieces of this node are in its log alone)");
    hsp_agent_free(w.a);
}

/* The agent reports a version that was given up after each WELCOME, since hspmdd may have died
 * before it could store the report. The report does not say which memory is bad, so no device gets
 * a health event. */
static void a_version_given_up_is_told_after_each_welcome(void **state)
{
    (void)state;
    struct aw_world w;
    char part[] = "differ";
    struct hsp_msg m = {
        .type = HSP_MSG_STATE_DAMAGED,
        .u.damaged = {
            .job = 4, .plan = 3, .version = 9, .live = true, .given_up_in = 7, .part = part}};
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STATE_DAMAGED));
    for (int i = 0; i < 2; i++) {
        aw_from_exec(&w, 1, m);
        assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STATE_DAMAGED)->u.damaged.given_up_in,
                         7);
        assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_DEVICE_HEALTH));
    }
    part[0] = '?'; /* not ours any more */
    for (int i = 0; i < 2; i++) {
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
        w.now += 50;
        aw_tick(&w);
        aw_link_up(&w, 1, 1);
        const struct hsp_msg *told = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STATE_DAMAGED);
        assert_true(told->u.damaged.device == 1 && told->u.damaged.given_up_in == 7);
        assert_string_equal(told->u.damaged.part, "differ");
    }
    hsp_agent_free(w.a);
}

/* A device gets no more work after its state was damaged for the second time while a job ran. */
static void a_device_whose_state_goes_bad_is_cordoned(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_msg m = {.type = HSP_MSG_STATE_DAMAGED,
                        .u.damaged = {.job = 4, .plan = 3, .version = 9, .part = "x"}};
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    for (uint32_t i = 0; i < 3; i++) { /* at rest: anybody may have done that */
        aw_from_exec(&w, 1, m);
        assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_DEVICE_HEALTH));
    }
    m.u.damaged.live = true;
    aw_from_exec(&w, 1, m);
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_DEVICE_HEALTH)->u.health.health,
                     HSP_HEALTH_WARN);
    aw_from_exec(&w, 0, m); /* another device */
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_DEVICE_HEALTH)->u.health.health,
                     HSP_HEALTH_WARN);
    aw_from_exec(&w, 1, m);
    const struct hsp_msg *told = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_DEVICE_HEALTH);
    assert_true(told->u.health.device == 1 && told->u.health.health == HSP_HEALTH_CORDON);
    assert_non_null(strstr(told->u.health.reason, "again"));
    hsp_agent_free(w.a);
}

/* The agent reports damage that it found itself before it began. */
static void damage_found_at_the_start_is_told(void **state)
{
    (void)state;
    struct hsp_agent_config cfg;
    const struct hsp_m_damaged found = {.job = 4, .device = 3, .version = 9, .part = "the head"};
    hsp_agent_defaults(&cfg);
    cfg.node = "n1";
    cfg.n_damaged = 1;
    cfg.damaged = &found;
    struct aw_world w = {.a = hsp_agent_new(&cfg), .now = 100};
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_START});
    aw_link_up(&w, 1, 1);
    const struct hsp_msg *told = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STATE_DAMAGED);
    assert_true(told->u.damaged.job == 4 && told->u.damaged.device == 3);
    assert_string_equal(told->u.damaged.part, "the head");
    hsp_agent_free(w.a);
}

/* Epochs are numbered per job: a late message of the executor on the job before does not count for
 * the same epoch of this job. */
static void jobs_do_not_mix(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 3);
    aw_prepare(&w, 0, 7, 1);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_DROP, .epoch = 1, .u.devref = {7, 0}});
    aw_prepare(&w, 0, 8, 1);
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_READY, .epoch = 1, .u.ready.job = 7});
    assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_READY));
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_READY, .epoch = 1, .u.ready.job = 8});
    assert_non_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_READY));
    hsp_agent_free(w.a);
}

/* Returns a line of the log that is more urgent than @severity (a smaller number, as in syslog). */
static const char *log_above(const struct aw_world *w, int severity)
{
    for (uint32_t i = 0; i < w->acts.n; i++) {
        const struct hsp_agent_action *x = &w->acts.item[i];
        if (x->type == HSP_AACT_LOG && x->severity < severity) {
            return x->text;
        }
    }
    return NULL;
}

/* hspmdd refuses invalid UTF-8. */
static void a_long_reason_to_leave_is_cut_between_characters(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 2; shift++) {
        struct aw_world w;
        char text[400];
        memset(text, 'x', shift);
        for (size_t i = shift; i + 2 < sizeof(text); i += 2) {
            memcpy(text + i, "\xc3\xa4", 3);
        }
        aw_begin(&w);
        aw_link_up(&w, 1, 1);
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_LEAVE, .text = text});
        const char *said = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_LEAVE)->u.leave.reason;
        assert_true(strlen(said) > 100 && hsp_utf8_valid((const uint8_t *)said, strlen(said)));
        hsp_agent_free(w.a);
    }
}

static void leaves(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    aw_step(&w, (struct hsp_agent_event){
                    .type = HSP_AEV_LEAVE, .text = "SIGTERM", .deadline_ms = 5000});
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_LEAVE)->u.leave.deadline_ms, 5000);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_BYE, .u.text.reason = ""});
    assert_int_equal(aw_count(&w, HSP_AACT_KILL), 2);
    assert_null(aw_find(&w, HSP_AACT_EXIT));
    assert_null(log_above(&w, 5)); /* nothing failed, and nothing says so */
    aw_exit_of(&w, 0);
    assert_null(log_above(&w, 5));
    assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_EXECUTOR_DEAD));
    aw_exit_of(&w, 1);
    assert_string_equal(aw_find(&w, HSP_AACT_EXIT)->text, "left as planned");
    hsp_agent_free(w.a);
    aw_begin(&w); /* nobody answers: at the deadline */
    aw_link_up(&w, 1, 1);
    aw_run_job(&w, 0, 4, 2);
    aw_step(&w,
            (struct hsp_agent_event){.type = HSP_AEV_LEAVE, .text = "notice", .deadline_ms = 1000});
    assert_null(aw_find(&w, HSP_AACT_KILL));
    w.now += 1000;
    aw_tick(&w);
    assert_int_equal(aw_count(&w, HSP_AACT_KILL), 2);
    assert_non_null(log_above(&w, 5)); /* with work and state on it: that is a loss */
    aw_exit_of(&w, 0);
    assert_non_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_EXECUTOR_DEAD));
    hsp_agent_free(w.a);
}

/* hspmdd ended before the node could leave. A node without state to hand over waits for hspmdd for
 * dead_ms only. */
static void leaves_alone(void **state)
{
    (void)state;
    const struct hsp_m_holding held = {.job = 4};
    struct hsp_agent_event told = {.type = HSP_AEV_LEAVE, .text = "SIGTERM", .deadline_ms = 90000};
    for (uint32_t n = 0; n < 2; n++) { /* n: pieces of state in its folder */
        struct aw_world w;
        aw_begin(&w);
        aw_link_up(&w, 1, 1);
        aw_step(&w, told);
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "closed"});
        assert_null(aw_find(&w, HSP_AACT_SCAN));
        w.now += 2000;
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "refused"});
        assert_null(aw_find(&w, HSP_AACT_SCAN));
        aw_beats(&w);
        uint64_t due = w.now + 1000;
        while (hsp_agent_deadline(w.a) < due) {
            w.now = hsp_agent_deadline(w.a);
            aw_tick(&w);
            assert_null(aw_find(&w, HSP_AACT_SCAN));
        }
        assert_int_equal(hsp_agent_deadline(w.a), due);
        w.now = due;
        aw_tick(&w);
        aw_scanned(&w, &held, n);
        assert_int_equal(aw_count(&w, HSP_AACT_KILL), n == 0 ? 2 : 0);
        if (n == 0) {
            aw_exit_of(&w, 0);
            aw_exit_of(&w, 1);
            assert_string_equal(aw_find(&w, HSP_AACT_EXIT)->text, "left as planned");
        } else { /* held state may be wanted: until the deadline */
            aw_beats(&w);
            w.now += 500;
            aw_tick(&w);
            assert_null(aw_find(&w, HSP_AACT_SCAN));
        }
        hsp_agent_free(w.a);
    }
}

static uint32_t below(uint64_t *k, uint64_t n)
{
    return (uint32_t)(hsp_test_rand("any", (*k)++) % n);
}

/* Job and device come first in every message that has them. */
static struct hsp_msg any_msg(uint64_t *k, uint16_t type, struct hsp_m_devref of, uint64_t step)
{
    struct hsp_msg m = {.type = type};
    m.u.devref = of;
    if (m.type == HSP_MSG_WELCOME) {
        m.u.welcome = (struct hsp_m_welcome){.protocol = HSP_PROTO_VERSION,
                                             .cluster = {.lo = below(k, 2)},
                                             .generation = below(k, 2),
                                             .term = below(k, 3),
                                             .incarnation = {0, below(k, 3)},
                                             .heartbeat_ms = 500,
                                             .dead_ms = 3000,
                                             .address = ""};
    } else if (m.type == HSP_MSG_PARKED) {
        m.u.parked =
            (struct hsp_m_parked){.heartbeat_ms = 500, .dead_ms = 3000, .reason = "foreign"};
    } else if (m.type == HSP_MSG_FENCED) {
        m.u.fenced = (struct hsp_m_fenced){.reason = "because"};
    } else if (m.type == HSP_MSG_EXECUTOR_UP) {
        m.u.up = (struct hsp_m_up){of.device, "z"};
    } else if (m.type == HSP_MSG_BYE) {
        m.u.text.reason = "because";
    } else if (m.type == HSP_MSG_SEALED) {
        m.u.sealed = (struct hsp_m_sealed){.job = of.job};
    } else if (m.type == HSP_MSG_STEP) {
        m.u.step = (struct hsp_m_step){.job = of.job, .step = step};
    }
    return m;
}

/* Sends random messages and events at any time: the invariants of the machine hold. The shell keeps
 * its contract. */
static void anything(void **state)
{
    (void)state;
    static const uint16_t types[] = {
        HSP_MSG_PREPARE,      HSP_MSG_ARM,         HSP_MSG_START,       HSP_MSG_DROP,
        HSP_MSG_SEAL,         HSP_MSG_STOP,        HSP_MSG_RELEASE,     HSP_MSG_CHECKPOINT,
        HSP_MSG_WELCOME,      HSP_MSG_FENCED,      HSP_MSG_BYE,         HSP_MSG_HEARTBEAT,
        HSP_MSG_PARKED,       HSP_MSG_READY,       HSP_MSG_STARTED,     HSP_MSG_SEALED,
        HSP_MSG_STEP,         HSP_MSG_PEER_LOST,   HSP_MSG_STOPPED,     HSP_MSG_RELEASED,
        HSP_MSG_CHECKPOINTED, HSP_MSG_EXECUTOR_UP, HSP_MSG_EXECUTOR_UP, HSP_MSG_PREPARE_FAILED,
        HSP_MSG_CKPT_REFUSED, HSP_MSG_DROPPED};
    for (uint64_t round = 0; round < 60; round++) {
        struct aw_world w;
        uint64_t k = round * 100000;
        aw_begin(&w);
        for (uint32_t i = 0; i < 2000; i++) {
            uint16_t type = types[below(&k, HSP_ARRAY_LEN(types))];
            uint64_t epoch = below(&k, 5);
            uint32_t device = below(&k, 2), job = 1 + below(&k, 2);
            bool mine = hsp_agent_device_at(w.a, device)->state != HSP_EXEC_DOWN;
            struct hsp_msg m = any_msg(&k, type, (struct hsp_m_devref){job, device}, i);
            m.epoch = epoch;
            w.now += below(&k, 6) == 0 ? below(&k, 700) : 0;
            switch (below(&k, 12)) {
            case 0: aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP}); break;
            case 1: aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN}); break;
            case 2:
                aw_step(&w,
                        (struct hsp_agent_event){.type = HSP_AEV_SCANNED, .scan = below(&k, 40)});
                break;
            case 3:
                if (mine) {
                    aw_exit_of(&w, device);
                }
                break;
            case 4: aw_tick(&w); break;
            case 5:
            case 6:
            case 7: aw_from_daemon(&w, m); break;
            default: aw_from_exec(&w, device, m); break;
            }
            assert_true(hsp_agent_deadline(w.a) > 0);
        }
        struct hsp_buf b;
        hsp_buf_init(&b, 1u << 16);
        hsp_agent_dump(w.a, &b);
        assert_false(b.failed);
        hsp_buf_fini(&b);
        hsp_agent_free(w.a);
    }
}

HSP_TEST_FILE(agent_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(executors_restart),
        cmocka_unit_test(seal_waits),
        cmocka_unit_test(seal_takes_longer),
        cmocka_unit_test(a_second_drop_gives_no_time),
        cmocka_unit_test(each_drop_that_is_obeyed_gives_time),
        cmocka_unit_test(bounds_follow_the_one_of_silence),
        cmocka_unit_test(stop_and_release),
        cmocka_unit_test(a_release_of_another_job_answers_no_stop),
        cmocka_unit_test(who_does_not_obey_is_killed),
        cmocka_unit_test(who_has_lost_a_peer_is_told_to_drop),
        cmocka_unit_test(a_stop_is_answered_behind_a_lost_peer),
        cmocka_unit_test(damage_is_told),
        cmocka_unit_test(damage_found_at_the_start_is_told),
        cmocka_unit_test(a_version_given_up_is_told_after_each_welcome),
        cmocka_unit_test(a_device_whose_state_goes_bad_is_cordoned),
        cmocka_unit_test(jobs_do_not_mix),
        cmocka_unit_test(leaves),
        cmocka_unit_test(leaves_alone),
        cmocka_unit_test(a_long_reason_to_leave_is_cut_between_characters),
        cmocka_unit_test(anything)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
