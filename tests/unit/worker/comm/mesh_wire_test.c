/* Tests the bytes on the wire of a mesh, seen and changed by a relay between two ranks. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "tests/unit/worker/comm/mesh_world.h"
#include "worker/comm/mesh/mesh_join.h"

#define SEEN (4u << 20)

/* Takes one connection after the other for rank 1 and copies both ways. */
struct relay {
    int listen_fd, stop_fd[2];
    uint16_t to;
    char address[32];
    pthread_t th;
    size_t change_at[2]; /* by direction (0: to the server): flip a bit of this byte; 0: none */
    unsigned hold_ms;    /* later bytes of the server than its first come so much later, at once */
    size_t n[2];         /* bytes seen of the last connection */
    uint8_t *seen[2];
};

static int listen_any(uint16_t *ret_port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    *ret_port = ntohs(sa.sin_port);
    return fd;
}

static bool carry(struct relay *r, int dir, int from, int to)
{
    uint8_t buf[16384];
    if (dir == 1 && r->n[1] > 0) {
        (void)usleep(1000 * r->hold_ms);
    }
    ssize_t n = recv(from, buf, sizeof buf, 0);
    if (n <= 0) {
        return false;
    }
    size_t at = r->change_at[dir];
    if (at != 0 && at >= r->n[dir] && at < r->n[dir] + (size_t)n) {
        buf[at - r->n[dir]] ^= 4;
    }
    for (ssize_t i = 0; i < n && r->n[dir] + (size_t)i < SEEN; i++) {
        r->seen[dir][r->n[dir] + (size_t)i] = buf[i];
    }
    r->n[dir] += (size_t)n;
    return send(to, buf, (size_t)n, MSG_NOSIGNAL) == n;
}

static void *relay_main(void *arg)
{
    struct relay *r = arg;
    int a = -1, b = -1;
    for (;;) {
        struct pollfd p[3] = {{.fd = r->stop_fd[0], .events = POLLIN},
                              {.fd = a < 0 ? r->listen_fd : a, .events = POLLIN},
                              {.fd = b, .events = POLLIN}};
        if (poll(p, 3, -1) < 0 || p[0].revents != 0) {
            break;
        }
        if (a < 0) {
            struct sockaddr_in sa = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                     .sin_port = htons(r->to)};
            a = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC);
            b = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            r->n[0] = r->n[1] = 0;
            if (connect(b, (struct sockaddr *)&sa, sizeof sa) == 0) {
                continue;
            }
        } else if ((p[1].revents == 0 || carry(r, 0, a, b)) &&
                   (p[2].revents == 0 || carry(r, 1, b, a))) {
            continue;
        }
        close(a);
        close(b);
        a = b = -1;
    }
    close(a);
    close(b);
    return NULL;
}

static void relay_open(struct relay *r, const char *address)
{
    uint16_t port = 0;
    char text[8] = "";
    int64_t v = 0;
    (void)snprintf(text, sizeof text, "%s", strrchr(address, ':') + 1);
    assert_true(hsp_parse_i64(text, &v));
    *r = (struct relay){.to = (uint16_t)v, .seen = {malloc(SEEN), malloc(SEEN)}};
    r->listen_fd = listen_any(&port);
    (void)snprintf(r->address, sizeof r->address, "127.0.0.1:%u", port);
    assert_int_equal(pipe(r->stop_fd), 0);
}

static void relay_start(struct relay *r)
{
    assert_int_equal(pthread_create(&r->th, NULL, relay_main, r), 0);
}

/* After it nothing is written to `seen`. */
static void relay_stop(struct relay *r)
{
    assert_int_equal(write(r->stop_fd[1], "x", 1), 1);
    pthread_join(r->th, NULL);
    close(r->stop_fd[0]);
    close(r->stop_fd[1]);
    close(r->listen_fd);
}

static void relay_free(struct relay *r)
{
    free(r->seen[0]);
    free(r->seen[1]);
}

static bool shows(const struct relay *r, int dir, const void *what, size_t n)
{
    return memmem(r->seen[dir], r->n[dir] < SEEN ? r->n[dir] : SEEN, what, n) != NULL;
}

/* Numbers as a model has them, sent both ways, short and long. */
static void exchange(struct hsp_comm **c, const uint8_t *data, size_t bytes)
{
    struct hsp_err err;
    uint8_t *got = malloc(bytes);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(c[i]->ops->send(c[i], 1 - i, 3, data, bytes, &err), &err);
        assert_ok(c[i]->ops->send(c[i], 1 - i, 4, data, 64, &err), &err);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(c[i]->ops->recv(c[i], 1 - i, 3, got, bytes, &err), &err);
        assert_memory_equal(got, data, bytes);
        assert_ok(c[i]->ops->recv(c[i], 1 - i, 4, got, 64, &err), &err);
        assert_memory_equal(got, data, 64);
    }
    free(got);
}

/* A listener gets the weights without TLS, and not with it; nor any header. */
static void test_listening(void **state)
{
    (void)state;
    enum { BYTES = 300000 };
    uint8_t *data = malloc(BYTES);
    for (int i = 0; i < BYTES; i++) {
        data[i] = (uint8_t)(i * 31 + i / 251);
    }
    for (int tls = 0; tls < 2; tls++) {
        struct mesh_world w;
        struct relay r;
        struct hsp_comm *c[2];
        world_open(&w, 2, tls != 0 ? WORLD_TLS : WORLD_TCP);
        relay_open(&r, w.peer[1].address);
        w.peer[1].address = r.address;
        relay_start(&r);
        world_connect(&w, 1, c);
        exchange(c, data, BYTES);
        c[0]->ops->close(c[0]);
        c[1]->ops->close(c[1]);
        relay_stop(&r);
        for (int dir = 0; dir < 2; dir++) {
            assert_true(r.n[dir] > BYTES);
            assert_true(shows(&r, dir, data, 48) == (tls == 0));
            assert_true(shows(&r, dir, data + BYTES - 48, 48) == (tls == 0));
            assert_true(shows(&r, dir, "hspM\2\0", 6) == (tls == 0 || dir == 0)); /* the hello */
        }
        relay_free(&r);
        world_close(&w);
    }
    free(data);
}

/* One bit changed on the way: with TLS the mesh ends and names the peer, and nobody gets the
 * bytes. */
static void test_changing(void **state)
{
    (void)state;
    static uint8_t data[300000];
    for (int dir = 0; dir < 2; dir++) {
        struct mesh_world w;
        struct relay r;
        struct hsp_comm *c[2];
        struct hsp_err err;
        static uint8_t got[sizeof data];
        world_open(&w, 2, WORLD_TLS);
        relay_open(&r, w.peer[1].address);
        r.change_at[dir] = 200000;
        w.peer[1].address = r.address;
        relay_start(&r);
        world_connect(&w, 1, c);
        struct hsp_comm *from = c[dir], *to = c[1 - dir];
        (void)from->ops->send(from, to->rank, 3, data, sizeof data, &err);
        assert_status(to->ops->recv(to, from->rank, 3, got, sizeof got, &err), HSP_EPEER);
        assert_non_null(strstr(err.msg, dir == 0 ? "lost rank 0 (a/0)" : "lost rank 1 (a/1)"));
        assert_non_null(strstr(err.msg, "TLS broken"));
        c[0]->ops->close(c[0]);
        c[1]->ops->close(c[1]);
        relay_stop(&r);
        relay_free(&r);
        world_close(&w);
    }
}

/* A hello changed on its way: the wish for TLS taken out of it, another number of ranks or
 * nonce. */
static void test_changed_hello(void **state)
{
    (void)state;
    static const size_t at[] = {36, 32, 40};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        struct mesh_world w;
        struct relay r;
        struct hsp_mesh_params p[2];
        struct hsp_comm *c[2];
        struct hsp_err err[2];
        world_open(&w, 2, WORLD_TLS);
        relay_open(&r, w.peer[1].address);
        r.change_at[0] = at[i];
        w.peer[1].address = r.address;
        relay_start(&r);
        for (uint32_t k = 0; k < 2; k++) {
            p[k] = world_params(&w, k, 1);
            p[k].timeout_ms = 1000;
        }
        world_try(&w, p, c, err);
        assert_true(err[0].code == HSP_EPEER || err[0].code == HSP_EAUTH);
        assert_int_equal(err[1].code, HSP_EPEER);
        relay_stop(&r);
        relay_free(&r);
        world_close(&w);
    }
}

struct early {
    struct mesh_world *w;
    struct hsp_comm *c;
    struct hsp_err err;
};

static void *early_main(void *arg)
{
    struct early *e = arg;
    struct hsp_mesh_params p = world_params(e->w, 1, 1);
    static const char text[64] = "early";
    enum hsp_status st = hsp_mesh_connect(e->w->listener[1], &p, &e->c, &e->err);
    return st == HSP_OK && e->c->ops->send(e->c, 0, 5, text, sizeof text, &e->err) == HSP_OK ? e
                                                                                             : NULL;
}

/* The last word of the handshake and the first message arrive together: nothing more will come that
 * could wake the reader. */
static void test_first_message_with_the_handshake(void **state)
{
    (void)state;
    struct mesh_world w;
    struct relay r;
    struct hsp_comm *c = NULL;
    struct hsp_err err;
    pthread_t th;
    void *sent = NULL;
    char got[64] = "";
    world_open(&w, 2, WORLD_TLS);
    relay_open(&r, w.peer[1].address);
    r.hold_ms = 300;
    w.peer[1].address = r.address;
    relay_start(&r);
    struct early e = {.w = &w};
    struct hsp_mesh_params p = world_params(&w, 0, 1);
    assert_int_equal(pthread_create(&th, NULL, early_main, &e), 0);
    assert_ok(hsp_mesh_connect(w.listener[0], &p, &c, &err), &err);
    pthread_join(th, &sent);
    assert_non_null(sent);
    (void)alarm(30); /* a fault would wait for ever */
    assert_ok(c->ops->recv(c, 1, 5, got, sizeof got, &err), &err);
    (void)alarm(0);
    assert_string_equal(got, "early");
    c->ops->close(c);
    e.c->ops->close(e.c);
    relay_stop(&r);
    relay_free(&r);
    world_close(&w);
}

HSP_TEST_FILE(mesh_wire_test)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listening),
        cmocka_unit_test(test_changing),
        cmocka_unit_test(test_changed_hello),
        cmocka_unit_test(test_first_message_with_the_handshake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
