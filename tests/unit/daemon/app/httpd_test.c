/* Tests the HTTP side beside callers that say nothing. */
#include "daemon/app/http/httpd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "tests/lib/testlib.h"

static void metrics(void *ctx, struct hsp_buf *out)
{
    (void)ctx;
    hsp_buf_puts(out, "figures\n");
}

static const char *health(void *ctx)
{
    (void)ctx;
    return NULL;
}

static int call_from(const char *host, const char *name)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(host)};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int64_t port = 0;
    assert_true(hsp_parse_i64(strchr(name, ':') + 1, &port));
    to.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static bool ended(int fd)
{
    char b;
    return recv(fd, &b, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

/* 300 callers of one address and 100 of others: /healthz is answered before the first of them has
 * been silent for too long, from that address too. */
static void silent_callers(void **state)
{
    (void)state;
    enum { SAME = 300, OTHER = 100, IDLE_NS = 1000000000 };
    static const char ask[] = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    static const struct hsp_httpd_calls calls = {metrics, health};
    uv_loop_t loop;
    struct hsp_httpd *h = NULL;
    struct hsp_err err = {0};
    int fd[SAME + OTHER];
    char host[32], text[1000];
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_ok(hsp_httpd_open(&loop, "127.0.0.1:0", &calls, NULL, &h, &err), &err);
    uint64_t t0 = uv_hrtime();
    for (unsigned i = 0; i < SAME + OTHER; i++) {
        (void)snprintf(host, sizeof host, "127.0.1.%u", i < SAME ? 0 : i - SAME + 1);
        fd[i] = call_from(host, hsp_httpd_name(h));
    }
    for (unsigned k = 0; k < 2; k++) {
        size_t n = 0;
        int good = call_from(k == 0 ? "127.0.1.0" : "127.0.2.0", hsp_httpd_name(h));
        assert_int_equal(send(good, ask, sizeof ask - 1, 0), sizeof ask - 1);
        for (ssize_t got = 1; got != 0 && n < sizeof text - 1;) {
            uv_run(&loop, UV_RUN_NOWAIT);
            got = recv(good, text + n, sizeof text - 1 - n, MSG_DONTWAIT);
            assert_true(got >= 0 || errno == EAGAIN);
            n += got > 0 ? (size_t)got : 0;
        }
        text[n] = '\0';
        assert_int_equal(strncmp(text, "HTTP/1.1 200", 12), 0);
        assert_non_null(strstr(text, "ok\n"));
        close(good);
    }
    assert_true(uv_hrtime() - t0 < (uint64_t)10 * IDLE_NS); /* IDLE_S of httpd.c */
    unsigned left = 0;
    for (unsigned i = 0; i < SAME + OTHER; i++) {
        left += !ended(fd[i]);
        close(fd[i]);
    }
    assert_true(left > 0 && left <= 64);
    hsp_httpd_close(h, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

HSP_TEST_FILE(httpd_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(silent_callers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
