/* Tests how a mesh is made, the failures of that, and the death of a peer. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "tests/unit/worker/comm/mesh_world.h"
#include "worker/comm/mesh/mesh_join.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/reduce.h"

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void close_all(struct hsp_comm **c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (c[i] != NULL) {
            c[i]->ops->close(c[i]);
        }
    }
}

static void ping(struct hsp_comm *a, struct hsp_comm *b, int v)
{
    struct hsp_err err;
    int got = 0;
    assert_ok(a->ops->send(a, b->rank, 1, &v, sizeof v, &err), &err);
    assert_ok(b->ops->recv(b, a->rank, 1, &got, sizeof got, &err), &err);
    assert_int_equal(got, v);
}

/* ---- making ---- */

/* Connecting fails and says @text. The first time limit is short; a loaded machine may need more to
 * get as far as @text. */
static void connect_fails(struct hsp_mesh_listener *l, struct hsp_mesh_params p, const char *text)
{
    struct hsp_comm *c = NULL;
    struct hsp_err err;
    for (p.timeout_ms = 200; p.timeout_ms < 60000; p.timeout_ms *= 5) {
        assert_status(hsp_mesh_connect(l, &p, &c, &err), HSP_EPEER);
        if (strstr(err.msg, text) != NULL) {
            return;
        }
    }
    fail_msg("\"%s\" does not say \"%s\"", err.msg, text);
}

/* The time for a handshake that must fail by its own reason: under valgrind TLS is slow. */
static uint32_t patience_ms(uint32_t ms)
{
    return getenv("HSPMD_VALGRIND") == NULL ? ms : 5 * ms;
}

static void wrong_key(enum world_kind kind)
{
    struct mesh_world w;
    struct hsp_mesh_params p[2];
    struct hsp_comm *c[2];
    struct hsp_err err[2];
    world_open(&w, 2, kind);
    for (uint32_t i = 0; i < 2; i++) {
        p[i] = world_params(&w, i, 1);
        p[i].timeout_ms = patience_ms(3000);
    }
    p[1].key[31] ^= 1;
    world_try(&w, p, c, err);
    /* the client sees it at once, and the server only that nobody came */
    assert_int_equal(err[0].code, HSP_EAUTH);
    assert_non_null(strstr(err[0].msg, "rank 1 (a/1, "));
    assert_int_equal(err[1].code, HSP_EPEER);
    assert_non_null(strstr(err[1].msg, "did not reach rank 1 (a/1)"));
    if (kind == WORLD_TLS) { /* here the server is the first to see it */
        assert_non_null(strstr(err[1].msg, "callers were refused"));
    }
    world_close(&w);
}

static void test_wrong_key(void **state)
{
    (void)state;
    for (int k = 0; k < WORLD_KINDS; k++) {
        wrong_key((enum world_kind)k);
    }
}

/* Ranks that do not agree on TLS do not meet, whichever of them wants it. */
static void test_no_downgrade(void **state)
{
    (void)state;
    struct mesh_world w;
    struct hsp_mesh_params p[2];
    struct hsp_comm *c[2];
    struct hsp_err err[2];
    world_open(&w, 2, WORLD_TCP);
    for (uint32_t with = 0; with < 2; with++) {
        for (uint32_t i = 0; i < 2; i++) {
            p[i] = world_params(&w, i, 1 + with);
            p[i].timeout_ms = patience_ms(1500);
            p[i].tls = i == with;
        }
        world_try(&w, p, c, err);
        assert_int_equal(err[0].code, HSP_EPEER);
        assert_int_equal(err[1].code, HSP_EPEER);
        assert_non_null(strstr(err[1].msg, "with another data_plane"));
    }
    world_close(&w);
}

static void test_unreachable(void **state)
{
    (void)state;
    struct mesh_world w;
    world_open(&w, 2, WORLD_TCP);
    char address[HSP_MESH_ADDRESS];
    (void)snprintf(address, sizeof address, "%.*s", (int)strcspn(w.peer[1].address, ","),
                   w.peer[1].address);
    hsp_mesh_listener_close(w.listener[1]);
    w.peer[1].address = address;
    struct hsp_mesh_params p = world_params(&w, 0, 1);
    char want[300];
    (void)snprintf(want, sizeof want,
                   "rank 0 (a/0) cannot reach rank 1 (a/1, %s): Connection refused", address);
    double t0 = now_s();
    connect_fails(w.listener[0], p, want);
    assert_true(now_s() - t0 > 0.15); /* tried until the time was over */
    w.n = 1;
    world_close(&w);
}

static void test_not_prepared(void **state)
{
    (void)state;
    struct mesh_world w;
    struct hsp_comm *c = NULL;
    struct hsp_err err;
    world_open(&w, 3, WORLD_TCP);
    struct hsp_mesh_params p = world_params(&w, 1, 1);
    p.timeout_ms = 200;
    assert_status(hsp_mesh_connect(w.listener[1], &p, &c, &err), HSP_EPEER);
    assert_non_null(strstr(err.msg, "rank 0 (a/0, 127.0.0.1:"));
    assert_non_null(strstr(err.msg, "did not reach rank 1 (a/1) (and 1 more)"));
    p = world_params(&w, 0, 2);
    connect_fails(w.listener[0], p, "it has not prepared the epoch");
    p.n = 0;
    assert_status(hsp_mesh_connect(w.listener[0], &p, &c, &err), HSP_EINVAL);
    world_close(&w);
}

static void *cancel_main(void *arg)
{
    nap_ms(100);
    uint64_t one = 1;
    assert_int_equal(write(*(int *)arg, &one, sizeof one), sizeof one);
    return NULL;
}

static void test_cancel(void **state)
{
    (void)state;
    struct mesh_world w;
    struct hsp_comm *c = NULL;
    struct hsp_err err;
    pthread_t th;
    int fd = eventfd(0, EFD_CLOEXEC);
    world_open(&w, 2, WORLD_TCP);
    struct hsp_mesh_params p = world_params(&w, 1, 4);
    p.cancel_fd = fd;
    assert_int_equal(pthread_create(&th, NULL, cancel_main, &fd), 0);
    double t0 = now_s();
    assert_status(hsp_mesh_connect(w.listener[1], &p, &c, &err), HSP_ECANCELED);
    assert_true(now_s() - t0 < 15);
    pthread_join(th, NULL);
    close(fd);
    world_close(&w);
}

struct later {
    struct mesh_world *w;
    struct hsp_mesh_params p;
    struct hsp_comm *c;
    struct hsp_err err;
};

static void *later_main(void *arg)
{
    struct later *l = arg;
    l->err.code = HSP_OK;
    (void)hsp_mesh_connect(l->w->listener[l->p.rank], &l->p, &l->c, &l->err);
    return NULL;
}

/* An early peer is kept until its epoch is prepared here; both epochs then run side by side. */
static void epochs_side_by_side(enum world_kind kind)
{
    struct mesh_world w;
    struct hsp_comm *old[2];
    world_open(&w, 2, kind);
    world_connect(&w, 5, old);
    struct later a = {.w = &w, .p = world_params(&w, 0, 6)};
    pthread_t th;
    assert_int_equal(pthread_create(&th, NULL, later_main, &a), 0);
    nap_ms(150); /* its hello waits at rank 1's listener */
    ping(old[0], old[1], 55);
    struct hsp_mesh_params p = world_params(&w, 1, 6);
    struct hsp_comm *b = NULL;
    struct hsp_err err;
    double t0 = now_s();
    assert_ok(hsp_mesh_connect(w.listener[1], &p, &b, &err), &err);
    assert_true(now_s() - t0 < 15);
    pthread_join(th, NULL);
    assert_ok(a.err.code, &a.err);
    ping(a.c, b, 66);
    ping(old[1], old[0], 56);
    /* the new one's end is nothing to the old one */
    b->ops->abort(b);
    int got;
    assert_true(a.c->ops->recv(a.c, 1, 1, &got, 4, &err) != HSP_OK);
    ping(old[0], old[1], 57);
    a.c->ops->close(a.c);
    b->ops->close(b);
    close_all(old, 2);
    /* epochs only grow: a late caller of an old one is turned away */
    struct hsp_mesh_params stale = world_params(&w, 0, 5);
    connect_fails(w.listener[0], stale, "it closes the connection");
    world_close(&w);
}

static void test_epochs_side_by_side(void **state)
{
    (void)state;
    for (int k = 0; k < WORLD_KINDS; k++) {
        epochs_side_by_side((enum world_kind)k);
    }
}

static int raw_connect(const char *address)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char port[8] = "";
    int64_t v = 0;
    (void)snprintf(port, sizeof port, "%.*s", (int)strcspn(strchr(address, ':') + 1, ","),
                   strchr(address, ':') + 1);
    assert_true(hsp_parse_i64(port, &v));
    sa.sin_port = htons((uint16_t)v);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    return fd;
}

/* Noise, half a hello, and a recorded hello without the key do not keep the mesh from being made.
 */
static void test_noise_at_listener(void **state)
{
    (void)state;
    struct mesh_world w;
    struct hsp_comm *c[2];
    world_open(&w, 2, WORLD_TCP);
    int fd[3];
    for (int i = 0; i < 3; i++) {
        fd[i] = raw_connect(w.peer[1].address);
    }
    uint8_t junk[200];
    memset(junk, 'x', sizeof junk);
    assert_int_equal(send(fd[0], junk, sizeof junk, MSG_NOSIGNAL), sizeof junk);
    assert_int_equal(send(fd[1], junk, 10, MSG_NOSIGNAL), 10);
    uint8_t hello[72] = {'h', 's', 'p', 'M', 1, 0, 0, 0, 7};
    hello[16] = 9; /* epoch */
    hello[28] = 1; /* to */
    hello[32] = 2; /* n */
    assert_int_equal(send(fd[2], hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    world_connect(&w, 9, c);
    ping(c[0], c[1], 3);
    /* the noise was dropped, the one without the key was challenged and got no further */
    assert_true(recv(fd[0], junk, sizeof junk, 0) <= 0);
    close_all(c, 2);
    for (int i = 0; i < 3; i++) {
        close(fd[i]);
    }
    world_close(&w);
}

static void test_listener_errors(void **state)
{
    (void)state;
    struct hsp_mesh_listener *l = NULL;
    struct hsp_err err;
    assert_status(hsp_mesh_listener_open("0.0.0.0", NULL, HSP_MESH_AUTO, &l, &err), HSP_EINVAL);
    assert_non_null(strstr(err.msg, "needs an address to advertise"));
    assert_status(hsp_mesh_listener_open("not an address", NULL, HSP_MESH_AUTO, &l, &err),
                  HSP_EINVAL);
    assert_ok(hsp_mesh_listener_open("0.0.0.0", "node7", HSP_MESH_AUTO, &l, &err), &err);
    assert_int_equal(strncmp(hsp_mesh_listener_address(l), "node7:", 6), 0);
    assert_non_null(strstr(hsp_mesh_listener_address(l), ",unix:hspmd-mesh."));
    hsp_mesh_listener_close(l);
    assert_ok(hsp_mesh_listener_open("127.0.0.1", NULL, HSP_MESH_TCP, &l, &err), &err);
    assert_null(strchr(hsp_mesh_listener_address(l), ','));
    hsp_mesh_listener_close(l);
}

/* ---- standing ---- */

/* More than the buffer comes before it is asked for: the connection waits, nothing is lost, and a
 * receive of the last message first still gets it. */
static void test_held_back(void **state)
{
    (void)state;
    enum { N = 12 };
    struct mesh_world w;
    struct hsp_comm *c[2];
    struct hsp_err err;
    size_t bytes = 10u << 20;
    uint8_t *buf = malloc(bytes);
    for (int k = 0; k < WORLD_KINDS; k++) {
        world_open(&w, 2, (enum world_kind)k);
        world_connect(&w, 1, c);
        for (int i = 0; i < N; i++) {
            memset(buf, i + 1, bytes);
            assert_ok(c[0]->ops->send(c[0], 1, (uint32_t)i, buf, bytes, &err), &err);
        }
        nap_ms(200);
        for (int i = N; i-- > 0;) {
            assert_ok(c[1]->ops->recv(c[1], 0, (uint32_t)i, buf, bytes, &err), &err);
            assert_int_equal(buf[0], i + 1);
            assert_int_equal(buf[bytes - 1], i + 1);
        }
        ping(c[1], c[0], 4);
        close_all(c, 2);
        world_close(&w);
    }
    free(buf);
}

struct lost {
    struct hsp_mesh_loss loss;
    atomic_uint n;
};

static void on_lost(void *ctx, const struct hsp_mesh_loss *loss, const char *why)
{
    struct lost *l = ctx;
    (void)why;
    l->loss = *loss;
    atomic_fetch_add(&l->n, 1);
}

/* ---- death: ranks as processes ---- */

struct child {
    pid_t pid;
    int to, from; /* pipes */
};

static void read_exact(int fd, void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t k = read(fd, (char *)p + at, n - at);
        if (k <= 0) {
            _exit(90);
        }
        at += (size_t)k;
    }
}

/* The report of a child when its collective has ended. */
struct verdict {
    int status;
    struct hsp_mesh_loss lost;
    uint32_t n_lost;
    double at_s;
    char msg[240];
};

static void write_exact(int fd, const void *p, size_t n)
{
    if (write(fd, p, n) != (ssize_t)n) {
        _exit(91);
    }
}

/* How the victim ends. */
struct end {
    enum world_kind kind;
    int signal;
    uint32_t silent_ms;
};

/* Joins the mesh, reports, then runs all-reduces for ever (rank 2 without: it only waits for rank
 * 0). */
static void child_main(uint32_t rank, uint32_t n, const struct end *end, int in, int out)
{
    char address[WORLD_MAX][HSP_MESH_ADDRESS] = {{0}};
    struct hsp_mesh_peer peer[WORLD_MAX];
    struct hsp_mesh_listener *l = NULL;
    struct hsp_comm *c = NULL;
    struct lost lost = {.loss.rank = UINT32_MAX};
    struct verdict v = {.status = 0};
    struct hsp_err err = {.code = HSP_OK};
    if (hsp_mesh_listener_open("127.0.0.1", NULL, world_transport(end->kind, rank), &l, &err) !=
        HSP_OK) {
        _exit(92);
    }
    (void)snprintf(address[rank], HSP_MESH_ADDRESS, "%s", hsp_mesh_listener_address(l));
    write_exact(out, address[rank], HSP_MESH_ADDRESS);
    read_exact(in, address, n * sizeof address[0]);
    for (uint32_t i = 0; i < n; i++) {
        peer[i] = (struct hsp_mesh_peer){.name = "node", .address = address[i]};
    }
    struct hsp_mesh_params p = {.job = 1,
                                .epoch = 1,
                                .rank = rank,
                                .n = n,
                                .peers = peer,
                                .timeout_ms = 20000,
                                .cancel_fd = -1,
                                .tls = end->kind == WORLD_TLS,
                                .silent_ms = end->silent_ms,
                                .on_peer_lost = on_lost,
                                .ctx = &lost};
    if (hsp_mesh_connect(l, &p, &c, &err) != HSP_OK) {
        _exit(93);
    }
    static const uint32_t all[WORLD_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct hsp_group g = {.n = n - 1, .ranks = all, .me = rank};
    size_t count = 3000000;
    float *buf = calloc(count, sizeof *buf);
    enum hsp_status st = HSP_OK;
    if (rank + 1 < n) { /* a peer that has never sent a byte is not judged by its silence */
        st = hsp_comm_all_reduce(c, &g, 1, HSP_F32, HSP_REDUCE_SUM, buf, 1, &err);
    }
    write_exact(out, "c", 1);
    while (st == HSP_OK && buf != NULL) {
        st = rank + 1 == n
                 ? c->ops->recv(c, 0, 9, buf, 4, &err)
                 : hsp_comm_all_reduce(c, &g, 1, HSP_F32, HSP_REDUCE_SUM, buf, count, &err);
    }
    v.status = st;
    v.at_s = now_s();
    (void)snprintf(v.msg, sizeof v.msg, "%s", err.msg);
    c->ops->close(c);
    v.lost = lost.loss;
    v.n_lost = atomic_load(&lost.n);
    write_exact(out, &v, sizeof v);
    hsp_mesh_listener_close(l);
    free(buf);
    _exit(0);
}

static void spawn(struct child *ch, uint32_t rank, uint32_t n, const struct end *end)
{
    int down[2], up[2];
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    ch->pid = fork();
    assert_true(ch->pid >= 0);
    if (ch->pid == 0) {
        close(down[1]);
        close(up[0]);
        child_main(rank, n, end, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    ch->to = down[1];
    ch->from = up[0];
}

/* A rank ends in the middle of a collective: all others end and name it. One that is stopped keeps
 * its connections, and says no more. */
static void end_one(uint32_t victim, const struct end *end)
{
    enum { N = 4 }; /* rank 3 is in no collective with the victim */
    struct child ch[N];
    char address[N][HSP_MESH_ADDRESS], c;
    for (uint32_t i = 0; i < N; i++) {
        spawn(&ch[i], i, N, end);
        read_exact(ch[i].from, address[i], sizeof address[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        write_exact(ch[i].to, address, sizeof address);
    }
    for (uint32_t i = 0; i < N; i++) {
        read_exact(ch[i].from, &c, 1);
    }
    nap_ms(30 + 10 * victim);
    double t0 = now_s();
    kill(ch[victim].pid, end->signal);
    for (uint32_t i = 0; i < N; i++) {
        if (i != victim) {
            struct verdict v;
            read_exact(ch[i].from, &v, sizeof v);
            char want[40];
            (void)snprintf(want, sizeof want, "lost rank %u", victim);
            assert_int_equal(v.status, HSP_EPEER);
            assert_true(strncmp(v.msg, want, strlen(want)) == 0);
            assert_int_equal(v.lost.rank, victim);
            assert_true(v.lost.by < N && v.lost.by != victim);
            assert_int_equal(v.lost.silent, end->signal == SIGSTOP);
            assert_int_equal(v.n_lost, 1);
            assert_true(v.at_s - t0 < 15.0);
        }
    }
    kill(ch[victim].pid, SIGKILL);
    for (uint32_t i = 0; i < N; i++) {
        int st;
        assert_int_equal(waitpid(ch[i].pid, &st, 0), ch[i].pid);
        assert_true(i == victim ? WIFSIGNALED(st) : WIFEXITED(st) && WEXITSTATUS(st) == 0);
        close(ch[i].to);
        close(ch[i].from);
    }
}

static void test_killed_peer(void **state)
{
    (void)state;
    for (uint32_t victim = 0; victim < 3; victim++) {
        for (int k = 0; k < WORLD_KINDS; k++) {
            end_one(victim, &(struct end){.kind = (enum world_kind)k, .signal = SIGKILL});
        }
    }
}

static void test_silent_peer(void **state)
{
    (void)state;
    end_one(1, &(struct end){.kind = WORLD_TLS, .signal = SIGSTOP, .silent_ms = 1500});
}

/* ---- pairs that cannot connect ---- */

/* A listener that nobody accepts from, and whose queue is full: the kernel drops calls, as a
 * firewall does. */
static void test_deaf_host(void **state)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    struct mesh_world w;
    struct hsp_comm *c = NULL;
    struct hsp_err err;
    struct hsp_mesh_loss loss = {.rank = 9};
    char address[64];
    int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), call[4];
    (void)state;
    assert_int_equal(bind(deaf, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(deaf, 0), 0);
    assert_int_equal(getsockname(deaf, (struct sockaddr *)&sa, &len), 0);
    for (int i = 0; i < 4; i++) {
        call[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(call[i], (struct sockaddr *)&sa, sizeof sa);
    }
    world_open(&w, 2, WORLD_TCP);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(sa.sin_port));
    w.peer[1].address = address;
    struct hsp_mesh_params p = world_params(&w, 0, 1);
    p.silent_ms = 300;
    p.timeout_ms = 60000;
    p.ret_loss = &loss;
    assert_status(hsp_mesh_connect(w.listener[0], &p, &c, &err), HSP_EPEER);
    assert_non_null(strstr(err.msg, "rank 0 (a/0) cannot reach rank 1 (a/1, 127.0.0.1:"));
    assert_non_null(strstr(err.msg, "): its host has not answered for 300 ms"));
    assert_true(loss.rank == 1 && loss.by == 0 && loss.silent);
    for (int i = 0; i < 4; i++) {
        close(call[i]);
    }
    close(deaf);
    world_close(&w);
}

/* Two ranks that are to do without a connection do; the third reaches both. */
static void test_apart(void **state)
{
    (void)state;
    for (int k = 0; k < WORLD_KINDS; k++) {
        struct mesh_world w;
        struct hsp_mesh_params p[3];
        struct hsp_mesh_peer peer[3][3];
        struct hsp_comm *c[3];
        struct hsp_err err[3];
        world_open(&w, 3, (enum world_kind)k);
        for (uint32_t i = 0; i < 3; i++) {
            p[i] = world_params(&w, i, 1);
            memcpy(peer[i], w.peer, sizeof peer[i]);
            peer[i][2 - i].apart = i != 1;
            p[i].peers = peer[i];
        }
        world_try(&w, p, c, err);
        for (uint32_t i = 0; i < 3; i++) {
            assert_ok(err[i].code, &err[i]);
        }
        ping(c[0], c[1], 1);
        ping(c[2], c[1], 2);
        assert_status(c[0]->ops->send(c[0], 2, 1, &k, sizeof k, &err[0]), HSP_EINVAL);
        assert_err(&err[0], HSP_EINVAL, "rank 2 is not a peer of rank 0 among 3");
        close_all(c, 3);
        world_close(&w);
    }
}

/* Bytes that are no continuation of the stream kill the mesh, they are not guessed at. */
static void wait_after_death(enum world_kind kind)
{
    struct mesh_world w;
    struct hsp_comm *c[2];
    struct hsp_err err;
    struct hsp_comm_req req[3];
    uint8_t buf[64], *big = calloc(1, 20u << 20);
    world_open(&w, 2, kind);
    world_connect(&w, 1, c);
    /* requests under way when the mesh dies: a receive, a partly sent message, a queued one */
    assert_ok(c[0]->ops->irecv(c[0], 1, 5, hsp_run(buf, sizeof buf), &req[0], &err), &err);
    assert_ok(c[0]->ops->isend(c[0], 1, 6, hsp_run(big, 20u << 20), &req[1], &err), &err);
    assert_ok(c[0]->ops->isend(c[0], 1, 7, hsp_run(buf, sizeof buf), &req[2], &err), &err);
    c[1]->ops->abort(c[1]);
    enum hsp_status st = c[0]->ops->wait(c[0], &req[0], &err);
    assert_true(st == HSP_ECANCELED || st == HSP_EPEER);
    (void)c[0]->ops->wait(c[0], &req[1], &err); /* may have been taken by the kernel before */
    (void)c[0]->ops->wait(c[0], &req[2], &err);
    assert_true(c[0]->ops->isend(c[0], 1, 7, hsp_run(buf, sizeof buf), &req[2], &err) == st);
    assert_ok(c[0]->ops->wait(c[0], &req[2], &err), &err); /* idle */
    close_all(c, 2);
    world_close(&w);
    free(big);
}

static void test_wait_after_death(void **state)
{
    (void)state;
    for (int k = 0; k < WORLD_KINDS; k++) {
        wait_after_death((enum world_kind)k);
    }
}

static void *close_main(void *comm)
{
    struct hsp_comm *c = comm;
    c->ops->close(c);
    return NULL;
}

/* Rank 0 is long in closing: rank 2 has not taken its message. Rank 1 is gone by then, without a
 * word to a rank that is closed to it. Nobody has lost anything. */
static void slow_close(enum world_kind kind)
{
    const size_t bytes = HSP_MESH_BUFFER + (1u << 20);
    struct mesh_world w;
    struct hsp_comm *c[3];
    struct hsp_err err;
    uint8_t word, *big = malloc(bytes);
    pthread_t th;
    assert_non_null(big);
    memset(big, 7, bytes);
    world_open(&w, 3, kind);
    world_connect(&w, 1, c);
    assert_ok(c[0]->ops->send(c[0], 2, 1, big, bytes, &err), &err);
    assert_int_equal(pthread_create(&th, NULL, close_main, c[0]), 0);
    assert_status(c[1]->ops->recv(c[1], 0, 1, &word, sizeof word, &err), HSP_EPEER);
    assert_non_null(strstr(err.msg, "has closed"));
    c[1]->ops->close(c[1]);
    nap_ms(50); /* rank 0 sees that rank 1 is gone */
    memset(big, 0, bytes);
    assert_ok(c[2]->ops->recv(c[2], 0, 1, big, bytes, &err), &err);
    assert_true(big[0] == 7 && big[bytes / 2] == 7 && big[bytes - 1] == 7);
    assert_int_equal(pthread_join(th, NULL), 0);
    c[2]->ops->close(c[2]);
    world_close(&w);
    free(big);
}

static void test_slow_close(void **state)
{
    (void)state;
    for (int k = 0; k < WORLD_KINDS; k++) {
        slow_close((enum world_kind)k);
    }
}

HSP_TEST_FILE(mesh_fail_test)
{
    (void)signal(SIGPIPE, SIG_DFL); /* the mesh itself must not raise it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_peer), /* first: they fork, before there are threads */
        cmocka_unit_test(test_silent_peer),
        cmocka_unit_test(test_deaf_host),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_not_prepared),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_epochs_side_by_side),
        cmocka_unit_test(test_noise_at_listener),
        cmocka_unit_test(test_listener_errors),
        cmocka_unit_test(test_held_back),
        cmocka_unit_test(test_wait_after_death),
        cmocka_unit_test(test_no_downgrade),
        cmocka_unit_test(test_slow_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
