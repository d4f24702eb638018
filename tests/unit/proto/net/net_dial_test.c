/* Tests outgoing connections, descriptors handed over, and the blocking client's errors. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/net/frame_client.h"
#include "proto/net/net_dial.h"
#include "tests/unit/proto/net/net_shell.h"

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
    assert_ok(hsp_net_dial_start(d.net, &dial, &conn, &err), &err);
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
    assert_ok(hsp_net_dial_start(s.net, &once, &conn, &err), &err);
    RUN_UNTIL(&s, s.n_close == 1);
    assert_int_equal(s.conn, conn);
    assert_non_null(strstr(s.why.msg, "cannot connect: Connection refused"));
    assert_int_equal(strncmp(s.why.msg, "127.0.0.1:", 10), 0);
    struct hsp_net_dial often = once;
    often.pause_ms = 20;
    often.pause_max_ms = 50;
    often.give_up_ms = 300;
    uint64_t t0 = uv_hrtime();
    assert_ok(hsp_net_dial_start(s.net, &often, &conn, &err), &err);
    RUN_UNTIL(&s, s.n_close == 2);
    assert_true(uv_hrtime() - t0 >= 200000000u);
    /* dropped while it retries */
    often.give_up_ms = 0;
    assert_ok(hsp_net_dial_start(s.net, &often, &conn, &err), &err);
    run_ms(&s, 100);
    hsp_net_drop(s.net, conn, true, "no more");
    assert_int_equal(s.n_close, 2); /* never inside the call */
    RUN_UNTIL(&s, s.n_close == 3);
    assert_err(&s.why, HSP_ECANCELED, "no more");
    /* no such socket, no such key */
    struct hsp_net_dial local = {.address = "/nonexistent/socket"};
    assert_ok(hsp_net_dial_start(s.net, &local, &conn, &err), &err);
    RUN_UNTIL(&s, s.n_close == 4);
    assert_non_null(strstr(s.why.msg, "No such file or directory"));
    once.role = HSP_ROLE_NONE;
    assert_status(hsp_net_dial_start(s.net, &once, &conn, &err), HSP_EINVAL);
    /* a server that accepts and says nothing */
    struct shell mute;
    struct hsp_net_config plain = config();
    shell_open(&mute, &plain);
    shell_listen(&mute, "127.0.0.1:0");
    struct hsp_net_dial slow = {.address = mute.port, .role = HSP_ROLE_ADMIN, .attempt_ms = 100};
    assert_ok(hsp_net_dial_start(s.net, &slow, &conn, &err), &err);
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
    assert_ok(hsp_net_dial_start(d.net, &dial, &conn, &err), &err);
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
    struct hsp_frame_header h = {.version = HSP_PROTO_VERSION, .type = 1};
    assert_status(hsp_client_open("/nonexistent/socket", NULL, HSP_ROLE_NONE, 100, &c, &err),
                  HSP_ENOENT);
    assert_non_null(strstr(err.msg, "cannot connect to /nonexistent/socket"));
    assert_status(hsp_client_adopt(-1, &c, &err), HSP_EINVAL);
    /* closed between frames, and within one */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
    assert_ok(hsp_client_adopt(sv[0], &c, &err), &err);
    hsp_frame_header_encode(&h, raw);
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

HSP_TEST_FILE(net_dial_test)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as every main does */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dial),          cmocka_unit_test(test_dial_fails),
        cmocka_unit_test(test_dial_retries),  cmocka_unit_test(test_socketpair),
        cmocka_unit_test(test_client_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
