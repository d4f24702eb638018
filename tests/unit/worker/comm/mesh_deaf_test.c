/* Tests a listener that cannot hear: without a descriptor for callers, without memory to wait for
 * them, and when a wait fails for good. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
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

/* Of the waits of a listener: those that fail, with this error; it knows no other of 3 descriptors
 * or more. */
static atomic_int failures, error;
static atomic_uint waits;

int __wrap_poll(struct pollfd *p, nfds_t n, int timeout_ms);
int __real_poll(struct pollfd *p, nfds_t n, int timeout_ms);

int __wrap_poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
    if (n >= 3 && atomic_load(&failures) > 0) {
        (void)atomic_fetch_add(&waits, 1); /* before the count that the test waits for */
        (void)atomic_fetch_sub(&failures, 1);
        errno = atomic_load(&error);
        return -1;
    }
    return __real_poll(p, n, timeout_ms);
}

/* Calls the listener. */
static int call(struct hsp_mesh_listener *l)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint64_t port = 0;
    assert_true(hsp_parse_u64(strrchr(hsp_mesh_listener_address(l), ':') + 1, &port));
    sa.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    return fd;
}

/* A listener that hears hangs up on anything but a hello. */
static void assert_heard(int fd)
{
    char nonsense[256], byte = 0;
    memset(nonsense, 'x', sizeof nonsense);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(send(fd, nonsense, sizeof nonsense, MSG_NOSIGNAL), sizeof nonsense);
    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_true(recv(fd, &byte, 1, 0) <= 0);
}

/* The kernel may lack memory for a moment. */
static void without_memory_it_tries_again(void **state)
{
    struct hsp_mesh_listener *l = NULL;
    struct hsp_err err = {0};
    (void)state;
    assert_ok(hsp_mesh_listener_open("127.0.0.1", NULL, HSP_MESH_TCP, &l, &err), &err);
    atomic_store(&waits, 0);
    atomic_store(&error, ENOMEM);
    atomic_store(&failures, 4);
    uint64_t begin = hsp_mesh_now_ms();
    int first = call(l);
    while (atomic_load(&failures) > 0 && hsp_mesh_now_ms() - begin < 20000) {
        (void)usleep(10000);
    }
    assert_int_equal(atomic_load(&waits), 4);
    assert_true(hsp_mesh_now_ms() - begin >= 200); /* naps in between */
    int second = call(l);
    assert_heard(second);
    (void)close(first);
    (void)close(second);
    hsp_mesh_listener_close(l);
}

/* Nobody would answer at its address: peers would be blamed for it. */
static void a_wait_that_fails_for_good_ends_the_process(void **state)
{
    char said[400] = "";
    int pipe_fd[2], status = 0;
    (void)state;
    assert_int_equal(pipe(pipe_fd), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct hsp_mesh_listener *l = NULL;
        (void)dup2(pipe_fd[1], STDERR_FILENO);
        atomic_store(&error, EINVAL);
        atomic_store(&failures, 1);
        (void)hsp_mesh_listener_open("127.0.0.1", NULL, HSP_MESH_TCP, &l, NULL);
        (void)sleep(20);
        _exit(0);
    }
    (void)close(pipe_fd[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(read(pipe_fd[0], said, sizeof said - 1) > 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    assert_non_null(strstr(said, "no wait for peers at 127.0.0.1:"));
    assert_non_null(strstr(said, "Invalid argument; this process ends"));
    (void)close(pipe_fd[0]);
}

static void without_descriptors_it_waits(void **state)
{
    struct hsp_mesh_listener *l = NULL;
    struct hsp_err err = {0};
    struct rlimit old, none;
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
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
    assert_heard(fd);
    (void)close(fd);
    hsp_mesh_listener_close(l);
}

HSP_TEST_FILE(mesh_deaf_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_descriptors_it_waits),
        cmocka_unit_test(without_memory_it_tries_again),
        cmocka_unit_test(a_wait_that_fails_for_good_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
