/* Checks that the control thread sends heartbeats while a helper thread works, and stops them after
 * a time limit. */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/testlib.h"
#include "worker/executor/heartbeat.h"

#define EVERY_MS 20u

struct world {
    struct hsp_chan mine, agent;
    struct hsp_heartbeat h;
    struct hsp_arena *arena;
    pthread_t control;
    bool beside; /* a helper thread did the work */
};

static void begin(struct world *w)
{
    struct hsp_err err = {0};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    hsp_chan_init(&w->mine, pair[0]);
    hsp_chan_init(&w->agent, pair[1]);
    w->arena = hsp_arena_new(1 << 20);
    w->control = pthread_self();
    w->beside = false;
    assert_ok(hsp_heartbeat_open(&w->h, &w->mine, EVERY_MS, NULL, &err), &err);
}

static void end(struct world *w)
{
    hsp_heartbeat_close(&w->h);
    hsp_chan_fini(&w->mine);
    hsp_chan_fini(&w->agent);
    (void)hsp_arena_free(w->arena);
}

/* Returns the number of heartbeats that the agent has received. Asserts that the first one has
 * number @first. */
static uint32_t beats(struct world *w, uint64_t first)
{
    struct hsp_err err = {0};
    for (uint32_t n = 0;; n++) {
        struct hsp_frame frame;
        struct hsp_msg m;
        hsp_arena_reset(w->arena);
        enum hsp_status st = hsp_chan_recv(&w->agent, w->arena, &frame, &m, &err);
        if (st == HSP_AGAIN) {
            return n;
        }
        assert_ok(st, &err);
        assert_int_equal(m.type, HSP_MSG_HEARTBEAT);
        assert_int_equal(m.u.beat.seq, first + n);
        hsp_frame_fini(&frame);
    }
}

static void work(void *on)
{
    struct world *w = on;
    (void)usleep(400000);
    w->beside = !pthread_equal(pthread_self(), w->control);
}

static void it_beats_while_another_thread_works(void **state)
{
    static struct world w;
    (void)state;
    begin(&w);
    hsp_heartbeat_during(&w.h, work, &w);
    assert_true(w.beside);
    uint32_t n = beats(&w, 1);
    assert_true(n >= 2);
    w.beside = false;
    hsp_heartbeat_during(&w.h, work, &w); /* a second time */
    assert_true(w.beside && beats(&w, n + 1) >= 2);
    end(&w);
}

/* If the work hangs, heartbeats end, so that the agent kills the process. */
static void it_does_not_beat_for_ever(void **state)
{
    static struct world w;
    (void)state;
    begin(&w);
    w.h.long_ms = 2 * EVERY_MS;
    hsp_heartbeat_during(&w.h, work, &w);
    assert_true(w.beside && beats(&w, 1) <= 4);
    end(&w);
}

/* A shorter period begins at once, not after the next heartbeat of the old period. */
static void another_pace_begins_at_once(void **state)
{
    static struct world w;
    (void)state;
    begin(&w);
    w.h.every_ms = 60000;
    hsp_heartbeat_beat(&w.h);
    assert_true(hsp_heartbeat_wait_ms(&w.h) > 1000 && beats(&w, 1) == 1);
    hsp_heartbeat_pace(&w.h, 50000);
    assert_int_equal(hsp_heartbeat_wait_ms(&w.h), 0);
    hsp_heartbeat_beat(&w.h);
    assert_true(hsp_heartbeat_wait_ms(&w.h) <= 50000 && beats(&w, 2) == 1);
    end(&w);
}

HSP_TEST_FILE(heartbeat_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_beats_while_another_thread_works),
        cmocka_unit_test(it_does_not_beat_for_ever),
        cmocka_unit_test(another_pace_begins_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
