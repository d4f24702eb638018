/* Tests accepted connections against the blocking client and raw sockets that misbehave. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "proto/net/frame_client.h"
#include "proto/net/net_dial.h"
#include "proto/net/net_listen.h"
#include "tests/unit/proto/net/net_shell.h"

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

/* Waits of tests are bounds for a hang: far above the need of a loaded machine. */
enum { TALK_MS = 100000 };

static enum hsp_status converse(struct talk *t, struct hsp_client *c)
{
    uint8_t *body = malloc(t->body + 1), *blob = malloc(t->blob + 1);
    enum hsp_status st = HSP_OK;
    for (int i = 0; i < t->rounds && st == HSP_OK; i++) {
        struct hsp_frame_header h = {.type = 7, .request = (uint64_t)i, .epoch = UINT64_C(1) << 60};
        struct hsp_frame f = {.body = NULL};
        memset(body, 'a' + i % 26, t->body);
        memset(blob, 'A' + i % 26, t->blob);
        st = hsp_client_send(c, &h, body, t->body, blob, t->blob, TALK_MS, &t->err);
        if (st == HSP_OK) {
            st = hsp_client_recv(c, TALK_MS, &f, &t->err);
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
    t->st = hsp_client_open(t->address, t->keys, t->role, TALK_MS, &c, &t->err);
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
    c.handshake_ms = c.frame_ms = c.idle_ms = TALK_MS; /* 30 MiB take a while under valgrind */
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
    c.handshake_ms = c.frame_ms = c.idle_ms = TALK_MS; /* 30 MiB take a while under valgrind */
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
    struct hsp_net_config c = config_keys();           /* keys do not matter here */
    c.handshake_ms = c.frame_ms = c.idle_ms = TALK_MS; /* 30 MiB take a while under valgrind */
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
    (void)snprintf(path, sizeof path, "unix:%s/none/s", dir);
    assert_false(hsp_net_listen(t.net, path, &l, &err) == HSP_OK);
    assert_non_null(strstr(err.msg, "No such file"));
    (void)snprintf(path, sizeof path, "unix:%s/s", dir);
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
    assert_int_equal(s.claimed, HSP_ROLE_WORKER);
    /* no TLS at all */
    struct talk u = {.rounds = 1};
    (void)snprintf(u.address, sizeof u.address, "%s", s.port);
    run_talk(&s, &u);
    assert_int_not_equal(u.st, HSP_OK);
    RUN_UNTIL(&s, s.n_refuse == 2);
    assert_int_equal(s.claimed, HSP_ROLE_NONE);
    assert_int_equal(s.n_open, 0);
    shell_close(&s);
    assert_int_equal(s.n_close, 0);
}

/* Without keys a server has Unix sockets, and loopback ports if configured. */
static void test_no_clear_text_that_nobody_asked_for(void **state)
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
    assert_status(hsp_net_dial_start(s.net, &d, &x, &err), HSP_EPERM);
    assert_status(hsp_client_open("192.0.2.1:7071", NULL, HSP_ROLE_ADMIN, 100, &cl, &err),
                  HSP_EPERM);
    assert_status(hsp_net_listen(s.net, "nonsense:", &x, &err), HSP_EINVAL);
    shell_listen(&s, "localhost:0");
    assert_status(hsp_net_listen(s.net, s.port, &x, &err), HSP_EEXIST);
    shell_close(&s);
    c.clear_loopback = false;
    shell_open(&s, &c);
    assert_status(hsp_net_listen(s.net, "127.0.0.1:0", &x, &err), HSP_EPERM);
    assert_err(&err, HSP_EPERM,
               "127.0.0.1 is open to every user of this host, and there are no keys (worker.key, "
               "admin.key)");
    d.address = "localhost:7071";
    assert_status(hsp_net_dial_start(s.net, &d, &x, &err), HSP_EPERM);
    shell_close(&s);
}

/* ---- raw sockets that misbehave ---- */

static void connect_raw(int fd, const char *name)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int64_t port = 0;
    assert_true(hsp_parse_i64(strchr(name, ':') + 1, &port));
    sa.sin_port = htons((uint16_t)port);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
}

static int raw_to(const char *name)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connect_raw(fd, name);
    return fd;
}

static int raw_from(const char *host, const char *name)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(host)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    connect_raw(fd, name);
    return fd;
}

static int local_to(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    (void)snprintf(sa.sun_path, sizeof sa.sun_path, "%s", path + strlen("unix:"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    return fd;
}

static void header(uint8_t raw[HSP_FRAME_HEADER], uint32_t body, uint32_t blob)
{
    struct hsp_frame_header h = {
        .version = HSP_PROTO_VERSION, .type = 3, .body_len = body, .blob_len = blob};
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

/* A caller with another version gets a frame from which it can tell. */
static void test_other_version(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config();
    uint8_t raw[HSP_FRAME_HEADER];
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    header(raw, 1000, 0);
    raw[4] = HSP_PROTO_VERSION + 1;
    raw[5] = HSP_PROTO_VERSION + 1;
    int fd = raw_to(s.port);
    assert_int_equal(send(fd, raw, sizeof raw, MSG_NOSIGNAL), sizeof raw);
    RUN_UNTIL(&s, recv(fd, raw, sizeof raw, MSG_DONTWAIT | MSG_PEEK) == (ssize_t)sizeof raw);
    assert_int_equal(recv(fd, raw, sizeof raw, 0), sizeof raw);
    assert_int_equal(raw[4], HSP_PROTO_VERSION);
    assert_int_equal(raw[5], HSP_PROTO_OLDEST);
    close(fd);
    RUN_UNTIL(&s, s.n_close == 1);
    assert_err(&s.why, HSP_EVERSION,
               "the program there speaks protocol 19, the program here protocol 14 to 18: upgrade "
               "the program here");
    assert_int_equal(s.n_frames, 0);
    shell_close(&s);
}

static void test_slow_peers(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config();
    uint8_t raw[HSP_FRAME_HEADER + 2] = {0};
    c.handshake_ms = 400;
    c.frame_ms = 600;
    c.idle_ms = 900;
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    /* says nothing */
    int a = raw_to(s.port);
    RUN_UNTIL(&s, s.n_close == 1);
    assert_err(&s.why, HSP_ETIMEDOUT, "no frame in 400 ms");
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
    for (size_t i = 0; i < 20 && s.n_close == 2; i++) {
        assert_int_equal(send(d, raw + i, 1, MSG_NOSIGNAL), 1);
        run_ms(&s, 30);
    }
    RUN_UNTIL(&s, s.n_close == 3);
    assert_err(&s.why, HSP_ETIMEDOUT, "a frame was not complete in 600 ms");
    /* a good frame, then nothing */
    int e = raw_to(s.port);
    assert_int_equal(send(e, raw, sizeof raw, MSG_NOSIGNAL), sizeof raw);
    RUN_UNTIL(&s, s.n_close == 4);
    assert_err(&s.why, HSP_ETIMEDOUT, "nothing received in 900 ms");
    close(a);
    close(b);
    close(d);
    close(e);
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

/* Receives @n frames, whole and in order: the blob of frame k is @len bytes of k. */
static void read_frames(struct shell *s, int fd, size_t n, size_t len)
{
    struct hsp_err err;
    struct hsp_frame_parser p;
    struct hsp_frame_limits lim = {1000, 2u << 20};
    hsp_frame_parser_init(&p, &lim);
    uint8_t *in = malloc(len);
    size_t got = 0;
    while (got < n) {
        uv_run(&s->loop, UV_RUN_NOWAIT);
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
    free(in);
}

/* A peer does not read: the queue fills, sending returns an error, no accepted frame is lost. */
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
    c.queue_frames = 100;
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
    assert_int_equal(s.n_close, 0);
    /* the peer wakes up: all frames come whole and in order */
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    read_frames(&s, fd, n, len);
    /* many small frames: their number is bounded too */
    for (st = HSP_OK, n = 0; st == HSP_OK && n < 1000; n++) {
        st = hsp_net_send(s.net, s.conn, &h, NULL, 0, blob, len, &err); /* the kernel is full */
    }
    for (st = HSP_OK, n = 0; st == HSP_OK && n <= c.queue_frames; n++) {
        st = hsp_net_send(s.net, s.conn, &h, NULL, 0, NULL, 0, &err);
    }
    assert_int_equal(st, HSP_AGAIN);
    unsigned frames = 0;
    size_t bytes = 0;
    const char *wait = strstr(err.msg, " is slow: ");
    assert_non_null(wait);
    assert_int_equal(sscanf(wait, " is slow: %zu bytes in %u frames", &bytes, &frames), 2);
    /* the kernel may have left less room than that */
    assert_true(frames == c.queue_frames || bytes + HSP_FRAME_HEADER > c.queue_bytes);
    close(fd);
    free(blob);
    shell_close(&s);
    assert_int_equal(s.n_close, 1);
}

/* Data sent before a drop with flush arrives, though the peer goes on sending. */
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
    run_ms(&s, 50);
    assert_int_equal(s.n_close, 0); /* our end is awaited: no reset can overtake the data */
    close(fd);
    RUN_UNTIL(&s, s.n_close == 1);
    assert_err(&s.why, HSP_ECANCELED, "bye");
    assert_int_equal(s.n_frames, 1); /* nothing comes up after a drop */
    assert_string_equal(hsp_net_name(s.net, s.conn), "closed");
    hsp_net_drop(s.net, s.conn, true, "again"); /* harmless */
    free(blob);
    shell_close(&s);
}

static bool ended(int fd)
{
    char b;
    return recv(fd, &b, 1, MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR);
}

/* Admitted callers stay when others come. Of silent callers the oldest are closed first, those of
 * an address that has used up its share of places before all others. */
static void test_strangers(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config();
    struct hsp_err err;
    int fd[20], other;
    c.places[HSP_POOL_STRANGERS] = 16;
    c.places[HSP_POOL_AGENTS] = 2;
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    uint32_t in[2];
    for (int i = 0; i < 3; i++) {
        fd[i] = raw_to(s.port);
        RUN_UNTIL(&s, s.n_open == (unsigned)i + 1);
        if (i < 2) {
            in[i] = s.conn;
            assert_ok(hsp_net_admit(s.net, s.conn, HSP_POOL_AGENTS, &err), &err);
        }
    }
    assert_status(hsp_net_admit(s.net, s.conn, HSP_POOL_AGENTS, &err), HSP_ELIMIT);
    assert_err(&err, HSP_ELIMIT, "2 connections are the limit");
    other = raw_from("127.0.0.2", s.port);
    RUN_UNTIL(&s, s.n_open == 4);
    for (int i = 3; i < 20; i++) {
        fd[i] = raw_to(s.port);
    }
    RUN_UNTIL(&s, s.n_open == 21 && s.n_close == 14); /* 18 came, 4 of one address stay */
    assert_err(&s.why, HSP_ELIMIT,
               "a newer caller takes its place: 16 callers at most, 4 from one address, may be "
               "silent");
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ended(fd[i]), i >= 2 && i < 16);
    }
    assert_false(ended(other));
    assert_string_not_equal(hsp_net_name(s.net, in[0]), "closed");
    assert_string_not_equal(hsp_net_name(s.net, in[1]), "closed");
    /* a place that becomes free is used again, a number is not */
    close(fd[0]);
    RUN_UNTIL(&s, s.n_close == 15);
    assert_ok(hsp_net_admit(s.net, s.opened, HSP_POOL_AGENTS, &err), &err);
    assert_int_not_equal(s.opened, in[0]);
    for (int i = 1; i < 20; i++) {
        close(fd[i]);
    }
    close(other);
    shell_close(&s);
    assert_int_equal(s.n_close, s.n_open);
}

/* With keys a caller that disconnects before it has sent a byte causes no event. */
static void test_unheard(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config_keys();
    const struct linger reset = {.l_onoff = 1};
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    int silent = raw_to(s.port), loud = raw_to(s.port);
    assert_int_equal(setsockopt(silent, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    close(silent);
    assert_int_equal(send(loud, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    RUN_UNTIL(&s, s.n_refuse > 0);
    assert_int_equal(s.n_refuse, 1);
    assert_int_equal(s.why.code, HSP_EAUTH);
    close(loud);
    shell_close(&s);
}

/* Begins a handshake with the worker's key at @name, and says no more. */
static int begin_tls(struct hsp_tls_ctx *x, const char *name)
{
    struct hsp_tls *t;
    struct hsp_err err;
    uint8_t buf[4096];
    int fd = raw_to(name);
    assert_ok(hsp_tls_new(x, false, HSP_ROLE_WORKER, &t, &err), &err);
    assert_status(hsp_tls_handshake(t, &err), HSP_AGAIN);
    size_t n = hsp_tls_output(t, buf, sizeof buf);
    assert_int_equal(send(fd, buf, n, MSG_NOSIGNAL), (ssize_t)n);
    hsp_tls_free(t);
    return fd;
}

/* Returns true if the peer has closed @fd after all that it sent. */
static bool closed(int fd)
{
    char b[4096];
    ssize_t n;
    while ((n = recv(fd, b, sizeof b, MSG_DONTWAIT)) > 0) {
    }
    return n == 0 || (errno != EAGAIN && errno != EINTR);
}

static bool answered(int fd)
{
    char b;
    return recv(fd, &b, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

/* A caller that has proved a key is not closed during its handshake: the next caller is sent away.
 * Callers that have only sent bytes are closed. */
static void test_begun_handshakes(void **state)
{
    (void)state;
    struct shell s;
    struct hsp_net_config c = config_keys();
    struct hsp_tls_ctx *x;
    struct hsp_err err;
    int loud[4], begun[4];
    c.places[HSP_POOL_STRANGERS] = 16;
    c.kept_ms = 60000;
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    assert_ok(hsp_tls_ctx_new(&c.keys, &x, &err), &err);
    for (int i = 0; i < 4; i++) {
        loud[i] = raw_to(s.port);
        assert_int_equal(send(loud[i], "\x16", 1, MSG_NOSIGNAL), 1);
    }
    for (int i = 0; i < 4; i++) {
        begun[i] = begin_tls(x, s.port);
        RUN_UNTIL(&s, answered(begun[i]));
        assert_true(closed(loud[i]));
    }
    int late = begin_tls(x, s.port);
    RUN_UNTIL(&s, s.n_refuse == 5);
    assert_err(&s.why, HSP_ELIMIT,
               "all places are taken by callers that have just proved a key; it may call again: 16 "
               "callers at most, 4 from one address, may wait");
    assert_true(closed(late));
    for (int i = 0; i < 4; i++) {
        assert_false(closed(begun[i]));
        close(begun[i]);
        close(loud[i]);
    }
    close(late);
    hsp_tls_ctx_free(x);
    shell_close(&s);
}

/* Many more callers than places send a byte at most. A caller that sends a frame is served, by TCP
 * with a key and on the socket. */
static void test_crowd(void **state)
{
    (void)state;
    enum { CROWD = 300 };
    char *dir = hsp_test_tmpdir(), path[300];
    struct shell s;
    struct hsp_net_config c = config_keys();
    int fd[CROWD], more[CROWD];
    (void)snprintf(path, sizeof path, "unix:%s/s", dir);
    shell_open(&s, &c);
    shell_listen(&s, path);
    struct talk local = {.rounds = 1};
    (void)snprintf(local.address, sizeof local.address, "%s", s.port);
    shell_listen(&s, "127.0.0.1:0");
    struct talk tls = {.rounds = 1, .keys = &c.keys, .role = HSP_ROLE_WORKER};
    (void)snprintf(tls.address, sizeof tls.address, "%s", s.port);
    for (int i = 0; i < CROWD; i++) {
        fd[i] = raw_to(s.port);
        assert_int_equal(send(fd[i], "\x16", 1, MSG_NOSIGNAL), 1);
        more[i] = local_to(path);
    }
    run_talk(&s, &tls);
    assert_ok(tls.st, &tls.err);
    run_talk(&s, &local);
    assert_ok(local.st, &local.err);
    assert_true(s.n_refuse >= CROWD - 9); /* TLS: never open */
    for (int i = 0; i < CROWD; i++) {
        close(fd[i]);
        close(more[i]);
    }
    shell_close(&s);
    hsp_test_rmdir(dir);
    free(dir);
}

/* Without a free descriptor a stranger is closed for a newcomer; without a stranger newcomers are
 * closed. libuv accepts until no caller waits, so each newcomer must be closed. */
static void test_no_descriptors(void **state)
{
    (void)state;
    enum { N = 4 };
    struct shell s;
    struct hsp_net_config c = config();
    struct rlimit old, few;
    struct hsp_err err;
    int fd[2 * N];
    if (getenv("HSPMD_VALGRIND") != NULL) {
        print_message("not under valgrind: its limit takes the caller out of the backlog\n");
        return;
    }
    c.places[HSP_POOL_AGENTS] = 1;
    shell_open(&s, &c);
    shell_listen(&s, "127.0.0.1:0");
    for (int i = 0; i < 2 * N; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    close(s.loop.emfile_fd); /* with it libuv sends callers away by itself, and does not ask */
    s.loop.emfile_fd = -1;
    int next = dup(0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = (struct rlimit){(rlim_t)next + 1, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int i = 0; i < N; i++) {
        connect_raw(fd[i], s.port);
    }
    /* The last one too: the kernel reports EMFILE before it looks whether a caller waits. */
    RUN_UNTIL(&s, s.n_open == N && s.n_close == N);
    assert_err(&s.why, HSP_EIO, "a descriptor was needed: Too many open files");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    close(fd[0]);
    fd[0] = raw_to(s.port);
    RUN_UNTIL(&s, s.n_open == N + 1);
    assert_ok(hsp_net_admit(s.net, s.opened, HSP_POOL_AGENTS, &err), &err);
    close(s.loop.emfile_fd);
    s.loop.emfile_fd = -1;
    next = dup(0);
    close(next);
    few.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int i = N; i < 2 * N; i++) {
        connect_raw(fd[i], s.port);
    }
    RUN_UNTIL(&s, s.n_refuse == N);
    assert_err(&s.why, HSP_ELIMIT, "no descriptors are left; raise LimitNOFILE= or ulimit -n");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    int again = raw_to(s.port);
    RUN_UNTIL(&s, s.n_open == N + 2);
    for (int i = 0; i < 2 * N; i++) {
        assert_int_equal(ended(fd[i]), i != 0);
        close(fd[i]);
    }
    close(again);
    shell_close(&s);
}

HSP_TEST_FILE(net_test)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as every main does */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_tcp),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_no_clear_text_that_nobody_asked_for),
        cmocka_unit_test(test_bad_frames),
        cmocka_unit_test(test_other_version),
        cmocka_unit_test(test_slow_peers),
        cmocka_unit_test(test_slow_tls),
        cmocka_unit_test(test_queue_is_bounded),
        cmocka_unit_test(test_drop_flushes),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_unheard),
        cmocka_unit_test(test_begun_handshakes),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_no_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
