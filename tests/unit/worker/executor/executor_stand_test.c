/* Checks the reports of a rank on its progress to hspmdd. */
#include "tests/unit/worker/executor/executor_world.h"

#include <signal.h>

static void ask(struct xw_world *w, int dev, uint32_t round)
{
    struct hsp_err err = {0};
    struct hsp_msg m = {.type = HSP_MSG_WHERE, .epoch = 11, .u.where = {1, (uint32_t)dev, round}};
    assert_ok(hsp_chan_send(&w->ex[dev].chan, &m, &err), &err);
    xw_await(w, dev, HSP_MSG_STANDS);
    assert_int_equal(w->last.u.stands.round, round);
    assert_int_equal(w->last.u.stands.job, 1);
    assert_int_equal(w->last.epoch, 11);
}

/* Returns the thread that waits for a peer: the run thread, or the replication thread if the run
 * thread waits for copies. */
static const struct hsp_m_thread *waiting(const struct hsp_m_stands *s)
{
    assert_int_equal(s->n_threads, 2);
    return s->threads[0].doing == HSP_DOING_COPY ? &s->threads[1] : &s->threads[0];
}

static void test_a_rank_says_whom_it_waits_for(void **state)
{
    struct xw_world *w = *state;
    struct hsp_epoch_plan *dp = xw_make_plan(w, xw_plan_dp);
    struct xw_epoch first = {
        .epoch = 11, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = dp, .n_peers = 2};
    w->steps = 100000;
    xw_start_executor(w, 0);
    xw_start_executor(w, 1);
    xw_prepare(w, &first);
    ask(w, 0, 1); /* the epoch is prepared, and has not begun */
    assert_int_equal(w->last.u.stands.threads[0].doing, HSP_DOING_PREPARE);
    xw_send_start(w, 0, 11, 0);
    xw_send_start(w, 1, 11, 0);
    xw_await_step(w, 0, 5);
    assert_int_equal(kill(w->ex[1].pid, SIGSTOP), 0);
    xw_await_standstill(w, 0);
    ask(w, 0, 2);
    const struct hsp_m_stands *s = &w->last.u.stands;
    uint64_t step = s->step, moved = s->moved, since = waiting(s)->since_ms;
    assert_true(step >= 5 && s->stable + 1 >= step && s->stable <= step);
    assert_int_equal(waiting(s)->doing, HSP_DOING_RECEIVE);
    assert_int_equal(waiting(s)->peer, 1);
    assert_true(since >= 300);
    ask(w, 0, 3);
    s = &w->last.u.stands;
    assert_int_equal(s->step, step);
    assert_int_equal(s->moved, moved); /* no byte was moved since */
    assert_true(waiting(s)->since_ms >= since);
    assert_int_equal(kill(w->ex[1].pid, SIGCONT), 0);
    xw_await_step(w, 0, step + 5);
    ask(w, 0, 4);
    assert_true(w->last.u.stands.moved > moved);
    assert_true(w->last.u.stands.stable >= step + 5);
    (void)hsp_epoch_plan_free(dp);
}

HSP_TEST_FILE(executor_stand_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_rank_says_whom_it_waits_for, xw_setup, xw_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
