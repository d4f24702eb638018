/* Tests an hspmdd that does not run for a while: a suspended machine, SIGSTOP. Messages of its
 * nodes from that time are unread. */
#include "daemon/cluster/stall.h"

#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/marks.h"
#include "proto/base/size.h"
#include "tests/unit/daemon/cluster/cluster_world.h"

#define STALL_MS 120000u /* longer than every bound but the patience for state */

static void beat(struct cw_world *w, uint32_t node)
{
    cw_msg(w, node + 1, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
}

/* All is as it should be for so long. */
static void goes_on(struct cw_world *w, uint32_t n_nodes, hsp_msec ms)
{
    for (hsp_msec until = w->now + ms; w->now < until;) {
        w->now += 500;
        for (uint32_t i = 0; i < n_nodes; i++) {
            beat(w, i);
        }
        cw_step(w, (struct hsp_event){.type = HSP_EV_TICK});
    }
}

/* hspmdd runs again, and the first that it reads is a beat of n0. */
static void stall(struct cw_world *w)
{
    w->now += STALL_MS;
    beat(w, 0);
    assert_non_null(cw_fact(w, "coordinator.stalled"));
}

static void assert_live(const struct cw_world *w)
{
    for (uint32_t i = 0; i < w->c->n_nodes; i++) {
        assert_int_not_equal(w->c->nodes[i].state, HSP_NODE_DEAD);
    }
}

static void stopped(struct cw_world *w, uint32_t node)
{
    cw_msg(w, node + 1, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref = {.job = 1}});
}

/* Two nodes are to give back the state that they hold, and have had 10 s of their 60 s. */
static void giving_back(struct cw_world *w)
{
    cw_begin(w, 2, 1);
    cw_run_job(w, 2);
    assert_int_equal(cw_order(w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    assert_int_equal(cw_count_sent(w, HSP_MSG_STOP), 2);
    goes_on(w, 2, 10000);
    stall(w);
    assert_live(w);
}

static void what_they_gave_back_is_read(void **state)
{
    (void)state;
    struct cw_world w;
    giving_back(&w);
    stopped(&w, 0);
    stopped(&w, 1);
    assert_int_equal(cw_job(&w, 1)->n_leases, 0);
    goes_on(&w, 2, 60000);
    assert_live(&w);
    cw_end(&w);
}

static void what_they_do_not_give_back_has_a_bound(void **state)
{
    (void)state;
    struct cw_world w;
    giving_back(&w);
    stopped(&w, 0);
    goes_on(&w, 2, 49000);
    assert_live(&w);
    goes_on(&w, 2, 2000);
    assert_int_equal(w.c->nodes[1].state, HSP_NODE_DEAD);
    assert_int_equal(w.c->nodes[0].state, HSP_NODE_LIVE);
    assert_int_equal(cw_job(&w, 1)->n_leases, 0);
    cw_end(&w);
}

/* Not by a message that is read first: the answer may be the next one. */
static void a_bound_is_judged_by_ticks_alone(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    assert_int_equal(cw_order(&w, HSP_ADMIN_CANCEL, 1), HSP_OK);
    hsp_msec due = w.now + 60000;
    goes_on(&w, 2, 59500);
    w.now = due + 300; /* too short for a stall */
    beat(&w, 0);
    assert_null(cw_fact(&w, "coordinator.stalled"));
    assert_live(&w);
    assert_true(hsp_cluster_deadline(w.c) <= w.now); /* that tick comes at once */
    stopped(&w, 1);
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_int_equal(w.c->nodes[0].state, HSP_NODE_DEAD);
    assert_int_equal(w.c->nodes[1].state, HSP_NODE_LIVE);
    cw_end(&w);
}

static void what_they_sealed_is_read(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    cw_msg(&w, 2,
           (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                            .epoch = cw_job(&w, 1)->cur.epoch,
                            .u.lost = {.job = 1, .peer = HSP_MSG_RANKS, .reason = "aborted"}});
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    assert_int_equal(cw_count_sent(&w, HSP_MSG_SEAL), 2);
    stall(&w);
    assert_live(&w);
    assert_int_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    cw_sealed(&w, 0, 0, 0);
    cw_sealed(&w, 1, 0, 0);
    assert_int_not_equal(cw_job(&w, 1)->state, HSP_JOB_SEALING);
    assert_live(&w);
    cw_end(&w);
}

static void who_got_ready_is_read(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    assert_int_equal(cw_submit(&w, "j", 0, 1, 8), HSP_OK);
    cw_plan(&w, 1);
    assert_int_equal(cw_job(&w, 1)->att.phase, HSP_ATT_PREPARING);
    stall(&w);
    assert_int_equal(cw_job(&w, 1)->failures, 0);
    cw_ready(&w, 1, 0, 5);
    cw_ready(&w, 1, 1, 5);
    assert_int_equal(cw_job(&w, 1)->att.phase, HSP_ATT_GO);
    cw_end(&w);
}

/* Stopped before the first node has said hello again: none of them is late. */
static void who_comes_back_is_read(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    uint64_t incarnation = w.c->nodes[1].incarnation;
    cw_restart(&w, NULL);
    w.now += STALL_MS;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_TICK});
    assert_live(&w);
    cw_hello_running(&w, 2, "n1", incarnation, 1, cw_job(&w, 1)->cur.epoch);
    assert_int_equal(w.c->nodes[1].state, HSP_NODE_LIVE);
    goes_on(&w, 0, w.c->cfg.dead_ms + 2000);
    assert_int_equal(w.c->nodes[0].state, HSP_NODE_DEAD); /* in the end */
    cw_end(&w);
}

/* The power goes, and all nodes are dead. hspmdd's own machine stands still until the wait for the
 * state is over. */
static void who_comes_back_from_the_dead_is_read(void **state)
{
    (void)state;
    struct cw_world w;
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    cw_pass(&w, 1, 8, cw_even, 2);
    goes_on(&w, 0, w.c->cfg.dead_ms + 2000);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(w.c->nodes[i].state, HSP_NODE_DEAD);
    }
    const struct hsp_job *j = cw_job(&w, 1);
    const hsp_msec left = j->state_deadline_ms - w.now;
    assert_true(j->state_deadline_ms > w.now && left <= w.c->cfg.state_wait_ms);
    w.now += 5u * w.c->cfg.state_wait_ms;
    cw_step(&w, (struct hsp_event){.type = HSP_EV_CONN_OPENED, .conn = 3});
    assert_non_null(cw_fact(&w, "coordinator.stalled"));
    assert_int_equal(cw_job(&w, 1)->state_deadline_ms - w.now, left);
    assert_true(j->stable == 8 && j->cur.epoch != 0);
    cw_end(&w);
}

/* All messages that end a wait; a wait that is over, or was none, stays as it is. */
static void every_wait_is_longer(void **state)
{
    (void)state;
    struct cw_world w;
    struct hsp_reach_round round = {.n = 0};
    struct hsp_check_pair pair = {.a = 0};
    cw_begin(&w, 2, 1);
    cw_run_job(&w, 2);
    struct hsp_cluster *c = w.c;
    struct hsp_job *j = c->jobs[0];
    struct hsp_cluster_node *n = &c->nodes[1];
    c->round[3] = &round;
    c->check.pairs = &pair;
    c->check.n_pairs = 1;
    struct hsp_job_mark *mark = hsp_ci_mark(c, j, 1);
    hsp_msec *const ends[] = {&c->grace_ms,          &c->answers_ms,
                              &c->probe.deadline_ms, &c->check.deadline_ms[HSP_CHECK_NODES - 1],
                              &pair.deadline_ms,     &round.deadline_ms,
                              &n->claim_ms,          &n->measure_ms,
                              &n->dev[0].let_go_ms,  &mark->seal_by_ms,
                              &j->state_deadline_ms, &j->ckpt_deadline_ms,
                              &j->claim_ms,          &j->att.deadline_ms,
                              &j->progress.due_ms,   &j->progress.look_ms,
                              &j->progress.answer_ms};
    const struct {
        hsp_msec before,
            after; /* how long each still lasts, when hspmdd is stopped and when it runs again */
    } some[] = {{5000, 5000}, {1, c->cfg.heartbeat_ms + c->cfg.suspect_ms}};
    for (size_t k = 0; k < HSP_ARRAY_LEN(some); k++) {
        for (size_t i = 0; i < HSP_ARRAY_LEN(ends); i++) {
            *ends[i] = c->looked_ms + some[k].before;
        }
        j->progress.since_ms = n->dev[0].restart_ms = c->looked_ms - 1;
        j->state_until_s = j->ckpt_until_s = 1700000000; /* as the deadlines */
        c->now_ms = c->looked_ms + STALL_MS;
        hsp_ci_forgive_stall(c);
        for (size_t i = 0; i < HSP_ARRAY_LEN(ends); i++) {
            assert_int_equal(*ends[i] - c->now_ms, some[k].after);
        }
        assert_int_equal(j->state_until_s,
                         1700000000 + (STALL_MS + some[k].after - some[k].before) / 1000);
        assert_int_equal(j->ckpt_until_s, j->state_until_s);
        assert_int_equal(j->progress.since_ms, c->now_ms - 1);
        assert_int_equal(n->dev[0].restart_ms, c->now_ms - 1);
        c->looked_ms = c->now_ms;
    }
    j->state_deadline_ms = c->looked_ms; /* the wait was over */
    j->ckpt_deadline_ms = n->dev[0].restart_ms = 0;
    j->att.deadline_ms = HSP_NEVER;
    c->now_ms += STALL_MS;
    hsp_ci_forgive_stall(c);
    assert_true(j->state_deadline_ms <= c->now_ms);
    assert_int_equal(j->ckpt_deadline_ms | n->dev[0].restart_ms, 0);
    assert_true(j->att.deadline_ms == HSP_NEVER);
    c->round[3] = NULL;
    c->check.pairs = NULL;
    cw_end(&w);
}

HSP_TEST_FILE(stall_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_they_gave_back_is_read),
        cmocka_unit_test(what_they_do_not_give_back_has_a_bound),
        cmocka_unit_test(a_bound_is_judged_by_ticks_alone),
        cmocka_unit_test(what_they_sealed_is_read),
        cmocka_unit_test(who_got_ready_is_read),
        cmocka_unit_test(who_comes_back_is_read),
        cmocka_unit_test(who_comes_back_from_the_dead_is_read),
        cmocka_unit_test(every_wait_is_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
