/* Tests a rank's judgement of the silence of a peer. Times are set, not waited for. */
#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/testlib.h"
#include "worker/comm/mesh/mesh_beat.h"
#include "worker/comm/mesh/mesh_listen.h"

#define SILENT_MS 3000
#define NS        UINT64_C(1000000)

/* Rank 0 of two, with a link whose other end the test has. */
struct world {
    struct hsp_mesh m;
    struct mesh_link link[2];
    char names[2][80];
    int other;
};

static void open_world(struct world *w)
{
    int fd[2];
    *w = (struct world){.m = {.base = {.n_ranks = 2},
                              .silent_ms = SILENT_MS,
                              .n_tcp = 1,
                              .loss.rank = UINT32_MAX,
                              .seg.fd = -1}};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    w->m.link = w->link;
    w->m.names = w->names;
    w->m.wake_fd = eventfd(0, EFD_NONBLOCK);
    w->m.epoll_fd = epoll_create1(0);
    pthread_mutex_init(&w->m.lock, NULL);
    pthread_cond_init(&w->m.cond, NULL);
    pthread_cond_init(&w->m.io_cond, NULL);
    w->link[0].fd = -1;
    w->link[1] = (struct mesh_link){.fd = fd[0], .tcp = true, .talks = true};
    w->link[1].out_last = &w->link[1].out;
    w->other = fd[1];
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = 1};
    assert_int_equal(epoll_ctl(w->m.epoll_fd, EPOLL_CTL_ADD, fd[0], &ev), 0);
}

static void close_world(struct world *w)
{
    free(w->link[1].out);
    close(w->link[1].fd);
    close(w->other);
    close(w->m.wake_fd);
    close(w->m.epoll_fd);
}

/* Looks @ms after the last look, when nothing has been noted for @silent of them. */
static void look(struct world *w, uint64_t ms, uint64_t silent)
{
    uint64_t now = hsp_mesh_now_ns();
    w->m.looked_ns = now - ms * NS;
    w->link[1].heard_ns = now - silent * NS;
    hsp_mesh_beat(&w->m);
}

static bool lives(const struct world *w)
{
    return w->m.dead.code == HSP_OK;
}

static void it_is_lost_after_the_time(void **state)
{
    struct world w;
    (void)state;
    open_world(&w);
    look(&w, 250, SILENT_MS - 100);
    assert_true(lives(&w));
    look(&w, 250, SILENT_MS);
    assert_err(&w.m.dead, HSP_EPEER, w.m.dead.msg);
    assert_non_null(strstr(w.m.dead.msg, "lost rank 1 (): nothing came from it for 300"));
    assert_true(w.m.loss.rank == 1 && w.m.loss.by == 0 && w.m.loss.silent);
    close_world(&w);
}

/* Each of these is no silence of the peer. */
static void other_reasons_are_none(void **state)
{
    struct world w;
    (void)state;
    open_world(&w);
    atomic_store(&w.link[1].heard, true);
    look(&w, 250, SILENT_MS);
    assert_true(lives(&w));
    look(&w, 1001, SILENT_MS); /* this process has not run */
    assert_true(lives(&w));
    w.link[1].in_off = true; /* nobody reads */
    look(&w, 250, SILENT_MS);
    assert_true(lives(&w));
    w.link[1].in_off = false;
    w.link[1].talks = false; /* the peer may still make its mesh */
    look(&w, 250, SILENT_MS);
    assert_true(lives(&w));
    w.link[1].talks = true;
    assert_int_equal(write(w.other, "x", 1), 1); /* the byte has come, and is not read yet */
    look(&w, 250, SILENT_MS);
    assert_true(lives(&w));
    look(&w, 100, SILENT_MS); /* not yet time to look */
    assert_true(lives(&w));
    close_world(&w);
}

static void to_who_closes_it_is_no_loss(void **state)
{
    struct world w;
    (void)state;
    open_world(&w);
    w.m.closing = true;
    look(&w, 250, SILENT_MS);
    assert_true(lives(&w) && w.link[1].closed);
    close_world(&w);
}

static void who_has_nothing_to_say_says_so(void **state)
{
    struct world w;
    (void)state;
    open_world(&w);
    w.link[1].said = true;
    look(&w, 250, 0);
    assert_null(w.link[1].out);
    w.link[1].said_at_ns -= 999 * NS;
    look(&w, 250, 0);
    assert_null(w.link[1].out); /* not yet */
    w.link[1].said_at_ns -= 2 * NS;
    look(&w, 250, 0);
    assert_non_null(w.link[1].out);
    assert_int_equal(w.link[1].out->head[5], MESH_BEAT);
    assert_true(w.link[1].out_armed);
    w.link[1].said_at_ns -= 1001 * NS;
    look(&w, 250, 0);
    assert_null(w.link[1].out->next); /* the first is still to go */
    close_world(&w);
}

/* The link of @w over TCP. */
static void take_tcp(struct world *w)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof sa;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&sa, &n), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    close(w->link[1].fd);
    close(w->other);
    w->other = accept(listener, NULL, NULL);
    assert_true(w->other >= 0);
    close(listener);
    w->link[1].fd = fd;
    w->link[1].talks = false;
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = 1};
    assert_int_equal(epoll_ctl(w->m.epoll_fd, EPOLL_CTL_ADD, fd, &ev), 0);
    hsp_mesh_watch(fd, SILENT_MS, false);
}

/* From now on the other end gets nothing, and so acknowledges nothing. */
static void cut(const struct world *w)
{
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog f = {1, &drop};
    assert_int_equal(setsockopt(w->other, SOL_SOCKET, SO_ATTACH_FILTER, &f, sizeof f), 0);
}

/* Looks each 25 ms for @ms at a link that is lost after 300 ms. */
static bool lives_for(struct world *w, unsigned ms)
{
    w->m.silent_ms = 300;
    for (unsigned i = 0; i < ms / 25 && lives(w); i++) {
        (void)usleep(25000);
        w->m.looked_ns = hsp_mesh_now_ns() - 26 * NS;
        hsp_mesh_beat(&w->m);
    }
    return lives(w);
}

/* A keeper that is cut off before its first message must not hold the epoch until TCP gives up. */
static void a_peer_that_never_spoke_is_judged_by_its_kernel(void **state)
{
    static char bytes[1 << 20];
    (void)state;
    for (int full = 0; full < 2; full++) { /* its buffers are, since it does not read yet */
        struct world w;
        open_world(&w);
        take_tcp(&w);
        assert_int_equal(send(w.link[1].fd, "x", 1, 0), 1);
        while (full && send(w.link[1].fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
        }
        assert_true(lives_for(&w, 1500)); /* the peer makes its mesh, and answers as it must */
        cut(&w);
        (void)send(w.link[1].fd, "x", 1, MSG_DONTWAIT); /* has no room, or is never acknowledged */
        assert_false(lives_for(&w, full ? 20000 : 3000));
        assert_true(w.m.loss.rank == 1 && w.m.loss.silent);
        close_world(&w);
    }
}

HSP_TEST_FILE(mesh_beat_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_lost_after_the_time),
        cmocka_unit_test(other_reasons_are_none),
        cmocka_unit_test(a_peer_that_never_spoke_is_judged_by_its_kernel),
        cmocka_unit_test(to_who_closes_it_is_no_loss),
        cmocka_unit_test(who_has_nothing_to_say_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
