/* The loop's connections against the blocking client and against raw sockets that misbehave. */
#include "proto/net/net.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/net/frameclient.h"
#include "tests/lib/testlib.h"

/* ---- a server on the test's loop ---- */

struct shell {
    uv_loop_t loop;
    uv_timer_t guard;
    struct hsp_net *net;
    bool echo, done;
    unsigned n_open, n_frames, n_close, n_refuse;
    uint32_t conn; /* last opened or closed */
    enum hsp_net_role role;
    uid_t uid;
    struct hsp_err why; /* of the last close or refusal */
    size_t last_body, last_blob;
    char text[64];
    uint16_t type;
    uint32_t last_listener;
    char port[200]; /* name of the listener */
};

static void on_open(void *ctx, uint32_t conn, const struct hsp_net_peer *peer)
{
    struct shell *s = ctx;
    s->n_open++;
    s->conn = conn;
    s->role = peer->role;
    s->uid = peer->uid;
    s->last_listener = peer->listener;
}

static void on_frame(void *ctx, uint32_t conn, struct hsp_frame *f)
{
    struct shell *s = ctx;
    struct hsp_err err;
    s->n_frames++;
    s->conn = conn;
    s->type = f->head.type;
    s->last_body = f->head.body_len;
    s->last_blob = f->head.blob_len;
    (void)snprintf(s->text, sizeof s->text, "%s", (char *)f->body);
    if (s->echo) {
        assert_ok(hsp_net_send(s->net, conn, &f->head, f->body, f->head.body_len, f->blob,
                               f->head.blob_len, &err),
                  &err);
    }
}

static void on_close(void *ctx, uint32_t conn, const struct hsp_err *why)
{
    struct shell *s = ctx;
    s->n_close++;
    s->conn = conn;
    s->why = *why;
}

static void on_refuse(void *ctx, const char *name, const struct hsp_err *why)
{
    struct shell *s = ctx;
    assert_true(name[0] != 0);
    s->n_refuse++;
    s->why = *why;
}

static void on_net_closed(void *ctx)
{
    ((struct shell *)ctx)->done = true;
}

static void on_guard(uv_timer_t *t)
{
    (void)t;
    fail_msg("nothing happened for 20 s");
}

static const struct hsp_net_calls calls = {
    .on_open = on_open, .on_frame = on_frame, .on_close = on_close, .on_refuse = on_refuse};

static void shell_open(struct shell *s, const struct hsp_net_config *cfg)
{
    struct hsp_err err;
    *s = (struct shell){.echo = true};
    assert_int_equal(uv_loop_init(&s->loop), 0);
    uv_timer_init(&s->loop, &s->guard);
    uv_timer_start(&s->guard, on_guard, 20000, 0);
    assert_ok(hsp_net_new(&s->loop, cfg, &calls, s, &s->net, &err), &err);
}

static void shell_listen(struct shell *s, const char *address)
{
    struct hsp_err err;
    uint32_t l = 99;
    assert_ok(hsp_net_listen(s->net, address, &l, &err), &err);
    (void)snprintf(s->port, sizeof s->port, "%s", hsp_net_listener_name(s->net, l));
}

/* Runs the loop until a counter has a value. */
#define RUN_UNTIL(s, cond)                   \
    do {                                     \
        while (!(cond)) {                    \
            uv_run(&(s)->loop, UV_RUN_ONCE); \
        }                                    \
    } while (0)

static void run_ms(struct shell *s, uint64_t ms)
{
    uint64_t until = uv_hrtime() + ms * 1000000;
    while (uv_hrtime() < until) {
        uv_run(&s->loop, UV_RUN_ONCE); /* the net's timer ticks */
    }
}

static void shell_close(struct shell *s)
{
    hsp_net_close(s->net, on_net_closed);
    RUN_UNTIL(s, s->done);
    uv_close((uv_handle_t *)&s->guard, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->loop), 0);
}

static struct hsp_net_config config(void)
{
    struct hsp_net_config c;
    hsp_net_defaults(&c);
    c.flush_ms = 300;
    return c;
}

static struct hsp_net_config config_keys(void)
{
    struct hsp_net_config c = config();
    c.keys.have_worker = c.keys.have_admin = true;
    memset(c.keys.worker, 0x21, sizeof c.keys.worker);
    memset(c.keys.admin, 0x42, sizeof c.keys.admin);
    return c;
}

/* ---- a blocking client in a thread of its own ---- */

struct talk {
    char address[200];
    const struct hsp_net_keys *keys;
    enum hsp_net_role role;
    size_t body, blob;
    int rounds;
    enum hsp_status st;
    struct hsp_err err;
    atomic_bool over;
};

static enum hsp_status converse(struct talk *t, struct hsp_client *c)
{
    uint8_t *body = malloc(t->body + 1), *blob = malloc(t->blob + 1);
    enum hsp_status st = HSP_OK;
    for (int i = 0; i < t->rounds && st == HSP_OK; i++) {
        struct hsp_frame_header h = {.type = 7, .request = (uint64_t)i, .epoch = UINT64_C(1) << 60};
        struct hsp_frame f = {.body = NULL};
        memset(body, 'a' + i % 26, t->body);
        memset(blob, 'A' + i % 26, t->blob);
        st = hsp_client_send(c, &h, body, t->body, blob, t->blob, 10000, &t->err);
        if (st == HSP_OK) {
            st = hsp_client_recv(c, 10000, &f, &t->err);
        }
        bool same = st == HSP_OK && f.head.type == 7 && f.head.request == (uint64_t)i &&
                    f.head.epoch == h.epoch && f.head.body_len == t->body &&
                    f.head.blob_len == t->blob && memcmp(f.body, body, t->body) == 0 &&
                    (t->blob == 0 || memcmp(f.blob, blob, t->blob) == 0);
        if (st == HSP_OK && !same) {
            st = hsp_err_set(&t->err, HSP_EDIGEST, 0, "round %d came back changed", i);
        }
        hsp_frame_fini(&f);
    }
    free(body);
    free(blob);
    return st;
}

static void *talk_main(void *arg)
{
    struct talk *t = arg;
    struct hsp_client *c = NULL;
    t->st = hsp_client_open(t->address, t->keys, t->role, 10000, &c, &t->err);
    if (t->st == HSP_OK) {
        t->st = converse(t, c);
        hsp_client_close(c);
    }
    atomic_store(&t->over, true);
    return NULL;
}

static void run_talk(struct shell *s, struct talk *t)
{
    pthread_t th;
    atomic_store(&t->over, false);
    assert_int_equal(pthread_create(&th, NULL, talk_main, t), 0);
    RUN_UNTIL(s, atomic_load(&t->over));
    pthread_join(th, NULL);
}

static void talk_over(struct shell *s, const struct hsp_net_keys *keys, enum hsp_net_role role)
{
    static const size_t sizes[][3] = {
        {0, 0, 3}, {2, 0, 50}, {100000, 70000, 4}, {10, 30u << 20, 1}};
    for (size_t i = 0; i < 4; i++) {
        struct talk t = {.keys = keys,
                         .role = role,
                         .body = sizes[i][0],
                         .blob = sizes[i][1],
                         .rounds = (int)sizes[i][2]};
        unsigned closed = s->n_close;
        (void)snprintf(t.address, sizeof t.address, "%s", s->port);
        run_talk(s, &t);
        assert_ok(t.st, &t.err);
        RUN_UNTIL(s, s->n_close == closed + 1);
        assert_int_equal(s->why.code, HSP_ECLOSED);
    }
}

static void test_plain_tcp(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config();
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    talk_over(&s, NULL, HSP_ROLE_NONE);
    assert_int_equal(s.role, HSP_ROLE_OPEN);
    assert_int_equal(s.n_open, 4);
    shell_close(&s);
}

static void test_tls(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config_keys();
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    talk_over(&s, &c.keys, HSP_ROLE_WORKER);
    assert_int_equal(s.role, HSP_ROLE_WORKER);
    talk_over(&s, &c.keys, HSP_ROLE_ADMIN);
    assert_int_equal(s.role, HSP_ROLE_ADMIN);
    shell_close(&s);
}

static void test_unix_socket(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[300];
    struct shell s, t;
    struct stat st;
    struct hsp_err err;
    uint32_t l;
    struct hsp_net_config c = config_keys(); /* keys do not matter here */
    (void)snprintf(path, sizeof path, "unix:%s/s", dir);
    shell_open(&s, &c);
    shell_listen(&s, path);
    assert_int_equal(stat(path + 5, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    talk_over(&s, NULL, HSP_ROLE_NONE);
    assert_int_equal(s.role, HSP_ROLE_LOCAL);
    assert_int_equal(s.uid, getuid());
    /* somebody serves it: not taken over */
    shell_open(&t, &c);
    assert_status(hsp_net_listen(t.net, path, &l, &err), HSP_EEXIST);
    shell_close(&s);
    assert_int_not_equal(stat(path + 5, &st), 0); /* removed with the listener */
    /* a stale one is replaced */
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    (void)snprintf(sa.sun_path, sizeof sa.sun_path, "%s", path + 5);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    close(fd);
    shell_listen(&t, path);
    shell_close(&t);
    hsp_test_rmdir(dir);
    free(dir);
}

static void test_wrong_key(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config_keys();
    struct hsp_net_keys other = c.keys;
    other.worker[0] ^= 1;
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    struct talk t = {.keys = &other, .role = HSP_ROLE_WORKER, .rounds = 1};
    (void)snprintf(t.address, sizeof t.address, "%s", s.port);
    run_talk(&s, &t);
    assert_int_equal(t.st, HSP_EAUTH);
    assert_non_null(strstr(t.err.msg, "127.0.0.1:"));
    RUN_UNTIL(&s, s.n_refuse == 1);
    assert_int_equal(s.why.code, HSP_EAUTH);
    /* no TLS at all */
    struct talk u = {.rounds = 1};
    (void)snprintf(u.address, sizeof u.address, "%s", s.port);
    run_talk(&s, &u);
    assert_int_not_equal(u.st, HSP_OK);
    RUN_UNTIL(&s, s.n_refuse == 2);
    assert_int_equal(s.n_open, 0);
    shell_close(&s);
    assert_int_equal(s.n_close, 0);
}

static void test_loopback_only_without_keys(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config();
    struct hsp_err err;
    struct hsp_client *cl = NULL;
    uint32_t x;
    shell_open(&s, &c);
    assert_status(hsp_net_listen(s.net, "0.0.0.0:0", &x, &err), HSP_EPERM);
    assert_err(&err, HSP_EPERM,
               "0.0.0.0 is not loopback, and there are no keys (worker.key, admin.key)");
    struct hsp_net_dial d = {.address = "192.0.2.1:7071", .role = HSP_ROLE_WORKER};
    assert_status(hsp_net_dial(s.net, &d, &x, &err), HSP_EPERM);
    assert_status(hsp_client_open("192.0.2.1:7071", NULL, HSP_ROLE_ADMIN, 100, &cl, &err),
                  HSP_EPERM);
    assert_status(hsp_net_listen(s.net, "nonsense:", &x, &err), HSP_EINVAL);
    shell_listen(&s, "localhost:0");
    assert_status(hsp_net_listen(s.net, s.port, &x, &err), HSP_EEXIST);
    shell_close(&s);
}

/* ---- raw sockets that misbehave ---- */

static int raw_to(const char *name)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sa.sin_port = htons((uint16_t)atoi(strchr(name, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    return fd;
}

static void header(uint8_t raw[HSP_FRAME_HEADER], uint32_t body, uint32_t blob)
{
    struct hsp_frame_header h = {
        .version = HSP_FRAME_VERSION, .type = 3, .body_len = body, .blob_len = blob};
    hsp_frame_header_encode(&h, raw);
}

static void misbehave(struct shell *s, const void *bytes, size_t n, enum hsp_status want,
                      const char *text)
{
    unsigned closed = s->n_close;
    int fd = raw_to(s->port);
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
    RUN_UNTIL(s, s->n_close == closed + 1);
    assert_err(&s->why, want, text);
    char b;
    assert_true(recv(fd, &b, 1, 0) <= 0);
    close(fd);
}

static void test_bad_frames(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config();
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    uint8_t raw[HSP_FRAME_HEADER];
    c.limits = (struct hsp_frame_limits){1000, 2000};
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    misbehave(&s, http, sizeof http - 1, HSP_EPROTO, "frame magic 0x20544547, want 0x6d707368");
    header(raw, 1001, 0);
    misbehave(&s, raw, sizeof raw, HSP_ELIMIT, "frame body 1001 bytes above limit 1000");
    header(raw, 1000, 2001);
    misbehave(&s, raw, sizeof raw, HSP_ELIMIT, "frame blob 2001 bytes above limit 2000");
    raw[4] = 9;
    misbehave(&s, raw, sizeof raw, HSP_EVERSION, "frame version 9, want 1");
    /* gone in the middle of a frame */
    unsigned closed = s.n_close;
    header(raw, 10, 0);
    int fd = raw_to(s.port);
    assert_int_equal(send(fd, raw, 20, MSG_NOSIGNAL), 20);
    close(fd);
    RUN_UNTIL(&s, s.n_close == closed + 1);
    assert_err(&s.why, HSP_EPROTO, "closed by the peer in the middle of a frame");
    assert_int_equal(s.n_frames, 0);
    shell_close(&s);
}

static void test_slow_peers(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config();
    uint8_t raw[HSP_FRAME_HEADER + 2] = {0};
    c.handshake_ms = 150;
    c.frame_ms = 250;
    c.idle_ms = 400;
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    /* says nothing */
    int a = raw_to(s.port);
    RUN_UNTIL(&s, s.n_close == 1);
    assert_err(&s.why, HSP_ETIMEDOUT, "no frame in 150 ms");
    /* half a header, a byte at a time */
    int b = raw_to(s.port);
    header(raw, 2, 0);
    for (size_t i = 0; i < sizeof raw && s.n_close == 1; i++) {
        assert_int_equal(send(b, raw + i, 1, MSG_NOSIGNAL), 1);
        run_ms(&s, 30);
    }
    RUN_UNTIL(&s, s.n_close == 2);
    assert_int_equal(s.why.code, HSP_ETIMEDOUT);
    /* a good frame, then a dripping one */
    int d = raw_to(s.port);
    assert_int_equal(send(d, raw, sizeof raw, MSG_NOSIGNAL), sizeof raw);
    RUN_UNTIL(&s, s.n_frames == 1);
    uint64_t t0 = uv_hrtime();
    for (size_t i = 0; i < 20 && s.n_close == 2; i++) {
        assert_int_equal(send(d, raw + i, 1, MSG_NOSIGNAL), 1);
        run_ms(&s, 30);
    }
    RUN_UNTIL(&s, s.n_close == 3);
    assert_err(&s.why, HSP_ETIMEDOUT, "a frame was not complete in 250 ms");
    assert_true(uv_hrtime() - t0 < 5000000000u);
    /* a good frame, then nothing; but not when it may idle */
    int e = raw_to(s.port);
    assert_int_equal(send(e, raw, sizeof raw, MSG_NOSIGNAL), sizeof raw);
    RUN_UNTIL(&s, s.n_close == 4);
    assert_err(&s.why, HSP_ETIMEDOUT, "nothing received in 400 ms");
    int f = raw_to(s.port);
    assert_int_equal(send(f, raw, sizeof raw, MSG_NOSIGNAL), sizeof raw);
    RUN_UNTIL(&s, s.n_frames == 3);
    hsp_net_set_idle(s.net, s.conn, 0);
    run_ms(&s, 600);
    assert_int_equal(s.n_close, 4);
    close(a);
    close(b);
    close(d);
    close(e);
    close(f);
    shell_close(&s);
}

static void test_slow_tls(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config_keys();
    c.handshake_ms = 150;
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    int a = raw_to(s.port);
    assert_int_equal(send(a, "\x16\x03\x01", 3, MSG_NOSIGNAL), 3); /* a ClientHello begins */
    RUN_UNTIL(&s, s.n_refuse == 1);
    assert_err(&s.why, HSP_ETIMEDOUT, "no handshake in 150 ms");
    close(a);
    shell_close(&s);
    assert_int_equal(s.n_open + s.n_close, 0);
}

/* A peer that does not read: the queue fills, sending says so, nothing is lost. */
static void test_queue_is_bounded(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config();
    struct hsp_err err;
    struct hsp_frame_header h = {.type = 5};
    uint8_t raw[HSP_FRAME_HEADER];
    size_t len = 1u << 20, n = 0;
    uint8_t *blob = malloc(len);
    c.queue_bytes = 8u << 20;
    shell_open(&s, &c);
    s.echo = false;
    shell_listen(&s, "127.0.0.1:0");
    int fd = raw_to(s.port);
    header(raw, 0, 0);
    assert_int_equal(send(fd, raw, sizeof raw, MSG_NOSIGNAL), sizeof raw);
    RUN_UNTIL(&s, s.n_frames == 1);
    enum hsp_status st = HSP_OK;
    for (; st == HSP_OK && n < 1000; n++) {
        memset(blob, (int)n, len);
        st = hsp_net_send(s.net, s.conn, &h, NULL, 0, blob, len, &err);
        uv_run(&s.loop, UV_RUN_NOWAIT);
    }
    n--;
    assert_int_equal(st, HSP_AGAIN);
    assert_true(n >= 7 && n < 100);
    assert_true(hsp_net_queued(s.net, s.conn) > 7u << 20);
    assert_int_equal(s.n_close, 0);
    /* the peer wakes up: all frames come whole and in order */
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    struct hsp_frame_parser p;
    struct hsp_frame_limits lim = {1000, 2u << 20};
    hsp_frame_parser_init(&p, &lim);
    uint8_t *in = malloc(len);
    size_t got = 0;
    while (got < n) {
        uv_run(&s.loop, UV_RUN_NOWAIT);
        ssize_t k = recv(fd, in, len, 0);
        for (size_t at = 0; k > 0 && at < (size_t)k;) {
            struct hsp_frame f;
            size_t used;
            if (hsp_frame_feed(&p, in + at, (size_t)k - at, &used, &f, &err) == HSP_OK) {
                assert_int_equal(f.blob[0], (uint8_t)got);
                assert_int_equal(f.blob[len - 1], (uint8_t)got);
                hsp_frame_fini(&f);
                got++;
            }
            at += used;
        }
    }
    hsp_frame_parser_fini(&p);
    assert_ok(hsp_net_send(s.net, s.conn, &h, NULL, 0, blob, len, &err), &err);
    /* many small frames: their number is bounded too */
    for (st = HSP_OK, n = 0; st == HSP_OK; n++) {
        st = hsp_net_send(s.net, s.conn, &h, NULL, 0, NULL, 0, &err);
    }
    assert_int_equal(st, HSP_AGAIN);
    assert_true(n <= c.queue_frames + 1u);
    close(fd);
    free(blob);
    free(in);
    shell_close(&s);
    assert_int_equal(s.n_close, 1);
}

/* What was sent before a drop with flush arrives, though the peer goes on sending. */
static void test_drop_flushes(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config();
    struct hsp_err err;
    struct hsp_frame_header h = {.type = 9};
    uint8_t raw[HSP_FRAME_HEADER];
    size_t len = 3u << 20, got = 0;
    uint8_t *blob = calloc(1, len);
    shell_open(&s, &c);
    s.echo = false;
    shell_listen(&s, "127.0.0.1:0");
    int fd = raw_to(s.port);
    header(raw, 0, 0);
    assert_int_equal(send(fd, raw, sizeof raw, MSG_NOSIGNAL), sizeof raw);
    RUN_UNTIL(&s, s.n_frames == 1);
    assert_ok(hsp_net_send(s.net, s.conn, &h, "{}", 2, blob, len, &err), &err);
    hsp_net_drop(s.net, s.conn, true, "bye");
    assert_status(hsp_net_send(s.net, s.conn, &h, "{}", 2, NULL, 0, &err), HSP_ECLOSED);
    assert_int_equal(send(fd, raw, sizeof raw, MSG_NOSIGNAL), sizeof raw);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    for (ssize_t k = 1; k != 0;) {
        uv_run(&s.loop, UV_RUN_NOWAIT);
        k = recv(fd, blob, len, 0);
        got += k > 0 ? (size_t)k : 0;
    }
    assert_int_equal(got, HSP_FRAME_HEADER + 2 + len);
    close(fd);
    RUN_UNTIL(&s, s.n_close == 1);
    assert_err(&s.why, HSP_ECANCELED, "bye");
    assert_int_equal(s.n_frames, 1); /* nothing comes up after a drop */
    assert_string_equal(hsp_net_name(s.net, s.conn), "closed");
    hsp_net_drop(s.net, s.conn, true, "again"); /* harmless */
    free(blob);
    shell_close(&s);
}

static void test_too_many(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config();
    int fd[4];
    char b;
    c.max_conns = 2;
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    for (int i = 0; i < 4; i++) {
        fd[i] = raw_to(s.port);
    }
    RUN_UNTIL(&s, s.n_open == 2 && s.n_refuse == 2);
    assert_int_equal(s.why.code, HSP_ELIMIT);
    assert_true(recv(fd[3], &b, 1, 0) <= 0);
    uint32_t before = s.conn;
    close(fd[0]);
    RUN_UNTIL(&s, s.n_close == 1);
    int again = raw_to(s.port);
    RUN_UNTIL(&s, s.n_open == 3);
    assert_int_not_equal(s.conn, before); /* a slot is used again, a number is not */
    for (int i = 1; i < 4; i++) {
        close(fd[i]);
    }
    close(again);
    shell_close(&s);
    assert_int_equal(s.n_close, 3);
}

/* ---- dialling ---- */

static void test_dial(void **state)
{
    (void)state;
    struct shell s, d;
    struct hsp_net_config c = config_keys();
    struct hsp_err err;
    struct hsp_frame_header h = {.type = 11};
    uint32_t conn = 0;
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    shell_open(&d, &c);
    d.echo = false;
    struct hsp_net_dial dial = {.address = s.port, .role = HSP_ROLE_WORKER};
    assert_ok(hsp_net_dial(d.net, &dial, &conn, &err), &err);
    assert_true(conn != 0);
    assert_int_equal(d.n_open, 0); /* never inside the call */
    assert_status(hsp_net_send(d.net, conn, &h, "x", 1, NULL, 0, &err), HSP_ECLOSED);
    while (d.n_open == 0 || s.n_open == 0) {
        uv_run(&d.loop, UV_RUN_NOWAIT);
        uv_run(&s.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(d.conn, conn);
    assert_int_equal(s.role, HSP_ROLE_WORKER);
    assert_ok(hsp_net_send(d.net, conn, &h, "ping", 4, NULL, 0, &err), &err);
    while (d.n_frames == 0) {
        uv_run(&d.loop, UV_RUN_NOWAIT);
        uv_run(&s.loop, UV_RUN_NOWAIT);
    }
    assert_string_equal(d.text, "ping");
    assert_int_equal(d.type, 11);
    hsp_net_drop(s.net, s.conn, false, "enough");
    while (d.n_close == 0 || s.n_close == 0) {
        uv_run(&d.loop, UV_RUN_NOWAIT);
        uv_run(&s.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(d.why.code, HSP_ECLOSED);
    shell_close(&d);
    shell_close(&s);
}

static void test_dial_fails(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config_keys();
    struct hsp_err err;
    uint32_t conn = 0;
    char port[200];
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    (void)snprintf(port, sizeof port, "%s", s.port);
    shell_close(&s);
    /* nobody there: once, and with retries until the time is up */
    shell_open(&s, &c);
    struct hsp_net_dial once = {.address = port, .role = HSP_ROLE_WORKER};
    assert_ok(hsp_net_dial(s.net, &once, &conn, &err), &err);
    RUN_UNTIL(&s, s.n_close == 1);
    assert_int_equal(s.conn, conn);
    assert_non_null(strstr(s.why.msg, "cannot connect: Connection refused"));
    assert_int_equal(strncmp(s.why.msg, "127.0.0.1:", 10), 0);
    struct hsp_net_dial often = once;
    often.pause_ms = 20;
    often.pause_max_ms = 50;
    often.give_up_ms = 300;
    uint64_t t0 = uv_hrtime();
    assert_ok(hsp_net_dial(s.net, &often, &conn, &err), &err);
    RUN_UNTIL(&s, s.n_close == 2);
    assert_true(uv_hrtime() - t0 >= 200000000u);
    /* dropped while it retries */
    often.give_up_ms = 0;
    assert_ok(hsp_net_dial(s.net, &often, &conn, &err), &err);
    run_ms(&s, 100);
    hsp_net_drop(s.net, conn, true, "no more");
    assert_int_equal(s.n_close, 2); /* never inside the call */
    RUN_UNTIL(&s, s.n_close == 3);
    assert_err(&s.why, HSP_ECANCELED, "no more");
    /* no such socket, no such key */
    struct hsp_net_dial local = {.address = "/nonexistent/socket"};
    assert_ok(hsp_net_dial(s.net, &local, &conn, &err), &err);
    RUN_UNTIL(&s, s.n_close == 4);
    assert_non_null(strstr(s.why.msg, "No such file or directory"));
    once.role = HSP_ROLE_NONE;
    assert_status(hsp_net_dial(s.net, &once, &conn, &err), HSP_EINVAL);
    /* a server that accepts and says nothing */
    struct shell mute;
    struct hsp_net_config plain = config();
    shell_open(&mute, &plain);
    shell_listen(&mute, "127.0.0.1:0");
    struct hsp_net_dial slow = {.address = mute.port, .role = HSP_ROLE_ADMIN, .attempt_ms = 100};
    assert_ok(hsp_net_dial(s.net, &slow, &conn, &err), &err);
    RUN_UNTIL(&s, s.n_close == 5);
    assert_non_null(strstr(s.why.msg, "no handshake in 100 ms"));
    shell_close(&mute);
    shell_close(&s);
}

/* The server comes up while somebody dials. */
static void test_dial_retries(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[300];
    struct shell s, d;
    struct hsp_net_config c = config();
    struct hsp_err err;
    uint32_t conn = 0;
    (void)snprintf(path, sizeof path, "%s/s", dir);
    shell_open(&d, &c);
    struct hsp_net_dial dial = {.address = path, .pause_ms = 10, .pause_max_ms = 40};
    assert_ok(hsp_net_dial(d.net, &dial, &conn, &err), &err);
    run_ms(&d, 150);
    assert_int_equal(d.n_open + d.n_close, 0);
    shell_open(&s, &c);
    shell_listen(&s, path);
    while (d.n_open == 0 || s.n_open == 0) {
        uv_run(&d.loop, UV_RUN_NOWAIT);
        uv_run(&s.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(d.conn, conn);
    shell_close(&d);
    RUN_UNTIL(&s, s.n_close == 1);
    shell_close(&s);
    hsp_test_rmdir(dir);
    free(dir);
}

/* ---- a descriptor handed over: agent and executor ---- */

static void *child_main(void *arg)
{
    struct hsp_client *c = arg;
    struct hsp_frame f;
    struct hsp_err err;
    /* a timeout loses nothing */
    while (hsp_client_recv(c, 5, &f, &err) == HSP_OK) {
        assert_ok(hsp_client_send(c, &f.head, f.body, f.head.body_len, f.blob, f.head.blob_len,
                                  1000, &err),
                  &err);
        hsp_frame_fini(&f);
    }
    return NULL;
}

static void test_socketpair(void **state)
{
    (void)state;
    int sv[2];
    struct shell s;
    struct hsp_net_config c = config();
    struct hsp_client *cl = NULL;
    struct hsp_frame f;
    struct hsp_frame_header h = {.type = 2, .request = 77};
    struct hsp_err err;
    uint32_t conn = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
    shell_open(&s, &c);
    s.echo = false;
    assert_ok(hsp_net_adopt(s.net, sv[0], "executor 0", &conn, &err), &err);
    assert_string_equal(hsp_net_name(s.net, conn), "executor 0");
    assert_ok(hsp_client_adopt(sv[1], &cl, &err), &err);
    assert_status(hsp_client_recv(cl, 20, &f, &err), HSP_ETIMEDOUT);
    assert_ok(hsp_net_send(s.net, conn, &h, "{}", 2, "blob", 4, &err), &err);
    uv_run(&s.loop, UV_RUN_NOWAIT);
    assert_ok(hsp_client_recv(cl, 1000, &f, &err), &err);
    assert_int_equal(f.head.request, 77);
    assert_memory_equal(f.blob, "blob", 4);
    hsp_frame_fini(&f);
    assert_ok(hsp_client_send(cl, &h, "{\"a\":1}", 7, NULL, 0, 1000, &err), &err);
    RUN_UNTIL(&s, s.n_frames == 1);
    assert_string_equal(s.text, "{\"a\":1}");
    /* a thread of the executor at work while the loop runs */
    pthread_t th;
    assert_ok(hsp_net_send(s.net, conn, &h, "go", 2, NULL, 0, &err), &err);
    assert_int_equal(pthread_create(&th, NULL, child_main, cl), 0);
    RUN_UNTIL(&s, s.n_frames == 2);
    pthread_join(th, NULL); /* its 5 ms are over */
    hsp_client_close(cl);   /* the executor dies */
    RUN_UNTIL(&s, s.n_close == 1);
    assert_int_equal(s.conn, conn);
    assert_int_equal(s.why.code, HSP_ECLOSED);
    shell_close(&s);
}

static void test_client_errors(void **state)
{
    (void)state;
    int sv[2];
    struct hsp_client *c = NULL;
    struct hsp_frame f;
    struct hsp_err err;
    uint8_t raw[HSP_FRAME_HEADER];
    struct hsp_frame_header h = {.type = 1};
    assert_status(hsp_client_open("/nonexistent/socket", NULL, HSP_ROLE_NONE, 100, &c, &err),
                  HSP_ENOENT);
    assert_non_null(strstr(err.msg, "cannot connect to /nonexistent/socket"));
    assert_status(hsp_client_adopt(-1, &c, &err), HSP_EINVAL);
    /* closed between frames, and within one */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
    assert_ok(hsp_client_adopt(sv[0], &c, &err), &err);
    header(raw, 0, 0);
    assert_int_equal(write(sv[1], raw, sizeof raw), sizeof raw);
    close(sv[1]);
    assert_ok(hsp_client_recv(c, 1000, &f, &err), &err);
    hsp_frame_fini(&f);
    assert_status(hsp_client_recv(c, 1000, &f, &err), HSP_ECLOSED);
    assert_status(hsp_client_send(c, &h, "x", 1, NULL, 0, 1000, &err), HSP_ECLOSED);
    hsp_client_close(c);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
    assert_ok(hsp_client_adopt(sv[0], &c, &err), &err);
    assert_int_equal(write(sv[1], raw, 10), 10);
    close(sv[1]);
    assert_status(hsp_client_recv(c, 1000, &f, &err), HSP_EPROTO);
    hsp_client_close(c);
    /* nobody reads */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
    assert_ok(hsp_client_adopt(sv[0], &c, &err), &err);
    uint8_t *blob = calloc(1, 8u << 20);
    assert_status(hsp_client_send(c, &h, NULL, 0, blob, 8u << 20, 100, &err), HSP_ETIMEDOUT);
    free(blob);
    hsp_client_close(c);
    close(sv[1]);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as every main does */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_tcp),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_loopback_only_without_keys),
        cmocka_unit_test(test_bad_frames),
        cmocka_unit_test(test_slow_peers),
        cmocka_unit_test(test_slow_tls),
        cmocka_unit_test(test_queue_is_bounded),
        cmocka_unit_test(test_drop_flushes),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_dial),
        cmocka_unit_test(test_dial_fails),
        cmocka_unit_test(test_dial_retries),
        cmocka_unit_test(test_socketpair),
        cmocka_unit_test(test_client_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
