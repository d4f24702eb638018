#include "proto/host/uv_signal.h"

#include <signal.h>
#include <unistd.h>

#include "tests/lib/testlib.h"

struct seen {
    uv_loop_t *loop;
    int last, n, closed;
};

static void on_signal(void *ctx, int signum)
{
    struct seen *s = ctx;
    s->last = signum;
    s->n++;
    uv_stop(s->loop);
}

static void on_closed(void *ctx)
{
    ((struct seen *)ctx)->closed++;
}

static void on_timer(uv_timer_t *t)
{
    uv_stop(t->loop); /* the signal did not come: the assertions below say so */
}

static void test_signals(void **state)
{
    (void)state;
    static const int sig[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    uv_loop_t loop;
    uv_timer_t timer;
    struct hsp_signals s;
    struct hsp_err err;
    struct seen seen = {.loop = &loop};
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_ok(hsp_signals_open(&s, &loop, on_signal, &seen, &err), &err);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0); /* signals do not keep the loop alive */
    uv_timer_init(&loop, &timer);
    for (int i = 0; i < 4; i++) {
        uv_timer_start(&timer, on_timer, 5000, 0);
        kill(getpid(), sig[i]);
        uv_run(&loop, UV_RUN_DEFAULT);
        assert_int_equal(seen.last, sig[i]);
        assert_int_equal(seen.n, i + 1);
    }
    kill(getpid(), SIGPIPE); /* ignored */
    hsp_signals_close(&s, on_closed);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(seen.closed, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

HSP_TEST_FILE(uv_signal_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_signals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
