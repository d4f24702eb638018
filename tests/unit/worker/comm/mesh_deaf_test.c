/* A listener without a descriptor for those who call: it waits, and takes them when there is one. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "tests/lib/testlib.h"
#include "worker/comm/mesh/mesh.h"
#include "worker/comm/mesh/mesh_listen.h"

static atomic_uint tries;

int __wrap_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags);
int __real_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags);

int __wrap_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
    (void)atomic_fetch_add(&tries, 1);
    return __real_accept4(fd, sa, len, flags);
}

static void without_descriptors_it_waits(void **state)
{
    struct hsp_mesh_listener *l = NULL;
    struct hsp_err err = {0};
    struct rlimit old, none;
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char byte = 0;
    uint64_t port = 0;
    (void)state;
    assert_ok(hsp_mesh_listener_open("127.0.0.1", NULL, HSP_MESH_TCP, &l, &err), &err);
    assert_true(hsp_parse_u64(strrchr(hsp_mesh_listener_address(l), ':') + 1, &port));
    sa.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){.rlim_cur = (rlim_t)fd + 1, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int spare[64], n_spare = 0; /* numbers below it that are free */
    while (n_spare < 64 && (spare[n_spare] = dup(fd)) >= 0) {
        n_spare++;
    }
    assert_true(n_spare < 64);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    (void)usleep(500000);
    unsigned n = atomic_load(&tries);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    while (n_spare > 0) {
        (void)close(spare[--n_spare]);
    }
    assert_in_range(n, 1, 10);
    /* Now it is heard: what is no hello is hung up on. */
    char nonsense[256];
    memset(nonsense, 'x', sizeof nonsense);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(send(fd, nonsense, sizeof nonsense, MSG_NOSIGNAL), sizeof nonsense);
    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    (void)close(fd);
    hsp_mesh_listener_close(l);
}

HSP_TEST_FILE(mesh_deaf_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_descriptors_it_waits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
