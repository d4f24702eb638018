/* Tests which listeners answer: one that listens, one that is gone, one that answers nothing. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/testlib.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/probe/reach.h"

enum { FULL = 8 };

/* A port whose queue is full: the kernel drops calls. @ret: the calls that fill it. */
static int deaf_port(char address[64], int ret[FULL])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    for (int i = 0; i < FULL; i++) {
        ret[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(ret[i], (struct sockaddr *)&a, sizeof a);
    }
    (void)snprintf(address, 64, "127.0.0.1:%u", ntohs(a.sin_port));
    return fd;
}

static void each_as_it_is(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_mesh_listener *here, *gone;
    enum hsp_reach_answer answer[5];
    char left[HSP_MESH_ADDRESS], deaf[64];
    int filled[FULL];
    int fd = deaf_port(deaf, filled);
    assert_ok(hsp_mesh_listener_open("127.0.0.1", NULL, HSP_MESH_AUTO, &here, &err), &err);
    assert_ok(hsp_mesh_listener_open("127.0.0.1", NULL, HSP_MESH_TCP, &gone, &err), &err);
    (void)snprintf(left, sizeof left, "%s", hsp_mesh_listener_address(gone));
    hsp_mesh_listener_close(gone);
    const char *address[5] = {hsp_mesh_listener_address(here), left, deaf, left,
                              hsp_mesh_listener_address(here)};
    hsp_reach(address, 5, 300, answer);
    assert_int_equal(answer[0], HSP_REACH_YES);
    assert_int_equal(answer[1], HSP_REACH_REFUSED);
    assert_int_equal(answer[2], HSP_REACH_NO);
    assert_int_equal(answer[3], HSP_REACH_REFUSED);
    assert_int_equal(answer[4], HSP_REACH_YES);
    hsp_reach(address, 2, UINT32_MAX, answer); /* returns when all is known */
    assert_int_equal(answer[1], HSP_REACH_REFUSED);
    hsp_reach(address, 0, 300, answer);
    for (int i = 0; i < FULL; i++) {
        (void)close(filled[i]);
    }
    (void)close(fd);
    hsp_mesh_listener_close(here);
}

HSP_TEST_FILE(reach_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_as_it_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
