/* Tests the measurement of a link. On a real link between two threads both ends get plausible
 * figures, and an abort ends both. On a simulated link with a simulated peer and clock, the figures
 * are those of the link, and the messages are counted. */
#include "tests/lib/testlib.h"

#include <math.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/size.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/probe/probe_link.h"

struct end {
    struct hsp_comm *comm;
    struct hsp_link_figures figures;
    enum hsp_status st;
    struct hsp_err err;
};

static void *run(void *arg)
{
    struct end *e = arg;
    e->st = hsp_link_test(e->comm, &e->figures, &e->err);
    return NULL;
}

static void both_ends_get_figures(void **state)
{
    (void)state;
    struct hsp_comm *comm[2];
    struct hsp_err err = {0};
    pthread_t t;
    assert_ok(hsp_loop_open(2, comm, &err), &err);
    struct end e[2] = {{.comm = comm[0]}, {.comm = comm[1]}};
    assert_int_equal(pthread_create(&t, NULL, run, &e[1]), 0);
    (void)run(&e[0]);
    assert_int_equal(pthread_join(t, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_ok(e[i].st, &e[i].err);
        assert_true(e[i].figures.latency_s > 1e-8 && e[i].figures.latency_s < 1);
        assert_true(e[i].figures.bytes_per_s > 1e6 && e[i].figures.bytes_per_s < 1e13);
        comm[i]->ops->close(comm[i]);
    }
}

static void an_abort_ends_it(void **state)
{
    (void)state;
    struct hsp_comm *comm[2];
    struct hsp_err err = {0};
    pthread_t t;
    assert_ok(hsp_loop_open(2, comm, &err), &err);
    struct end e = {.comm = comm[0]}; /* the other end never comes */
    assert_int_equal(pthread_create(&t, NULL, run, &e), 0);
    (void)usleep(20000);
    comm[0]->ops->abort(comm[0]);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_status(e.st, HSP_ECANCELED);
    comm[0]->ops->close(comm[0]);
    comm[1]->ops->close(comm[1]);
}

/* ---- a link that is played ---- */

#define PING  64u
#define PINGS 101u
#define KIB   ((uint64_t)1 << 10)
#define MIB   ((uint64_t)1 << 20)

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

/* A simulated link. The end under test is @base, and the peer is simulated. Only one end sends at a
 * time. */
static struct link {
    struct hsp_comm base;
    double latency_s, bytes_per_s;
    double late_s[2];   /* every fifth ping, and the ping after it, take so much longer */
    uint32_t slow_from; /* from the n-th message on messages take twice as long, 0: none does */
    const uint64_t
        *says; /* the peer's announcements in its turn, 0 the last; NULL: nothing but that */
    uint32_t breaks_at; /* which operation fails, 0: none */
    /* so far */
    bool on;
    double now_s;
    uint32_t n_ops, n_asked, n_sizes, n_said, n_answered;
    uint64_t size[32], announced;
    bool answering; /* the turn of the peer */
} l;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (!l.on) {
        return __real_clock_gettime(clock, ret);
    }
    ret->tv_sec = (time_t)l.now_s;
    ret->tv_nsec = (long)(1e9 * (l.now_s - floor(l.now_s)));
    return 0;
}

static enum hsp_status op(struct hsp_err *err)
{
    return ++l.n_ops == l.breaks_at ? hsp_err_set(err, HSP_EPEER, 0, "broken") : HSP_OK;
}

static enum hsp_status play_send(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                                 const void *buf, size_t bytes, struct hsp_err *err)
{
    (void)channel;
    assert_int_equal(peer, !c->rank);
    if (op(err) != HSP_OK) {
        return HSP_EPEER;
    }
    if (l.answering) { /* to a ping, or to a message */
        assert_int_equal(bytes, l.n_answered < PINGS ? PING : 1);
        l.n_answered++;
    } else if (l.n_asked < PINGS) {
        assert_int_equal(bytes, PING);
    } else if (l.announced == 0) {
        assert_int_equal(bytes, sizeof l.announced);
        memcpy(&l.announced, buf, sizeof l.announced);
        l.answering = l.announced == 0;
    } else {
        assert_int_equal(bytes, l.announced);
        assert_true(l.n_sizes < HSP_ARRAY_LEN(l.size));
        l.size[l.n_sizes++] = bytes;
    }
    return HSP_OK;
}

/* Receives the next bytes: answers in our turn, the peer's pings and messages in the turn of the
 * peer. */
static enum hsp_status play_recv(struct hsp_comm *c, uint32_t peer, uint32_t channel, void *buf,
                                 size_t bytes, struct hsp_err *err)
{
    static const uint64_t nothing = 0;
    (void)channel;
    assert_int_equal(peer, !c->rank);
    if (op(err) != HSP_OK) {
        return HSP_EPEER;
    }
    if (l.answering && l.n_answered >= PINGS && bytes == sizeof nothing) {
        memcpy(buf, l.says != NULL ? &l.says[l.n_said] : &nothing, sizeof nothing);
        l.answering = l.says != NULL && l.says[l.n_said++] != 0;
    } else if (l.answering) {
        assert_int_equal(bytes, l.n_answered < PINGS ? PING : l.says[l.n_said - 1]);
    } else if (l.n_asked < PINGS) {
        uint32_t k = l.n_asked++ % 5;
        l.now_s += 2 * l.latency_s + (k < 2 ? l.late_s[k] : 0);
    } else {
        assert_int_equal(bytes, 1);
        double moving = (double)l.announced / l.bytes_per_s;
        l.now_s +=
            2 * l.latency_s + (l.slow_from != 0 && l.n_sizes >= l.slow_from ? 2 * moving : moving);
        l.announced = 0;
    }
    return HSP_OK;
}

static const struct hsp_comm_ops play_ops = {.name = "play", .send = play_send, .recv = play_recv};

static enum hsp_status play(uint32_t rank, struct hsp_link_figures *ret, struct hsp_err *err)
{
    l.base = (struct hsp_comm){.ops = &play_ops, .rank = rank, .n_ranks = 2};
    l.answering = rank == 1;
    l.on = true;
    enum hsp_status st = hsp_link_test(&l.base, ret, err);
    l.on = false;
    return st;
}

static void the_figures_are_those_of_the_link(void **state)
{
    (void)state;
    static const struct {
        double latency_s, bytes_per_s;
        uint64_t last; /* the size that takes long enough, or the largest */
        uint32_t n;    /* messages */
    } cases[] = {{1e-3, 1e8, 4 * MIB, 7},
                 {1e-4, 1e6, 64 * KIB, 4},
                 {1e-5, 1e10, 16 * MIB, 8},
                 {0, 1e9, 16 * MIB, 8}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        for (uint32_t rank = 0; rank < 2; rank++) {
            struct hsp_err err = {0};
            struct hsp_link_figures f = {0};
            l = (struct link){.latency_s = cases[i].latency_s, .bytes_per_s = cases[i].bytes_per_s};
            assert_ok(play(rank, &f, &err), &err);
            assert_near(f.latency_s, cases[i].latency_s, 1e-8);
            assert_near(f.bytes_per_s / cases[i].bytes_per_s, 1, 1e-3);
            assert_int_equal(l.n_answered, PINGS);
            assert_int_equal(l.n_sizes, cases[i].n);
            for (uint32_t k = 0; k < l.n_sizes; k++) { /* four times the last one */
                uint64_t want = 64 * KIB << 2 * k;
                assert_int_equal(l.size[k], want < cases[i].last ? want : cases[i].last);
            }
        }
    }
}

/* When a message takes less than two round trips, the latency hides the rate of the link. Then half
 * of the measured time is attributed to the bytes. */
static void a_rate_that_the_latency_hides_is_not_made_up(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_link_figures f = {0};
    l = (struct link){.latency_s = 0.02, .bytes_per_s = 1e12};
    assert_ok(play(0, &f, &err), &err);
    assert_near(f.latency_s, 0.02, 1e-8);
    assert_near(f.bytes_per_s, 64 * 1024 / 0.02, 10);
    l = (struct link){.bytes_per_s = (double)INFINITY}; /* a clock that stands */
    assert_ok(play(0, &f, &err), &err);
    assert_true(f.latency_s == 0 && isfinite(f.bytes_per_s));
}

static void what_comes_in_between_does_not_count(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_link_figures f = {0};
    l = (struct link){
        .latency_s = 1e-3, .bytes_per_s = 1e8, .late_s = {0.5, -1e-3}, .slow_from = 5};
    assert_ok(play(0, &f, &err), &err);
    assert_near(f.latency_s, 1e-3, 1e-8);
    assert_near(f.bytes_per_s, 1e8, 1e5);
}

static void every_message_of_the_peer_is_answered(void **state)
{
    (void)state;
    static const uint64_t says[] = {1, 64 * KIB, 16 * MIB, 0}, much[] = {16 * MIB + 1, 0};
    struct hsp_err err = {0};
    struct hsp_link_figures f = {0};
    for (uint32_t rank = 0; rank < 2; rank++) {
        l = (struct link){.latency_s = 1e-3, .bytes_per_s = 1e8, .says = says};
        assert_ok(play(rank, &f, &err), &err);
        assert_int_equal(l.n_answered, PINGS + 3);
        l = (struct link){.latency_s = 1e-3, .bytes_per_s = 1e8, .says = much};
        assert_status(play(rank, &f, &err), HSP_EPROTO);
        assert_err(&err, HSP_EPROTO, "the peer announces 16777217 bytes");
        assert_int_equal(l.n_answered, PINGS);
    }
}

static void a_link_that_breaks_anywhere_ends_it(void **state)
{
    (void)state;
    static const uint64_t says[] = {1, 0};
    struct hsp_link_figures f = {0};
    for (uint32_t rank = 0; rank < 2; rank++) {
        uint32_t k = 0;
        enum hsp_status st = HSP_EPEER;
        while (st == HSP_EPEER) {
            struct hsp_err err = {0};
            l = (struct link){
                .latency_s = 1e-3, .bytes_per_s = 1e8, .says = says, .breaks_at = ++k};
            st = play(rank, &f, &err);
            assert_true(st == HSP_OK || (st == HSP_EPEER && l.n_ops == k));
        }
        assert_int_equal(l.n_ops, k - 1);
        assert_true(k > 4 * PINGS);
    }
}

HSP_TEST_FILE(probe_link_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_get_figures),
        cmocka_unit_test(an_abort_ends_it),
        cmocka_unit_test(the_figures_are_those_of_the_link),
        cmocka_unit_test(a_rate_that_the_latency_hides_is_not_made_up),
        cmocka_unit_test(what_comes_in_between_does_not_count),
        cmocka_unit_test(every_message_of_the_peer_is_answered),
        cmocka_unit_test(a_link_that_breaks_anywhere_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
