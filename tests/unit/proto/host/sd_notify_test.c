#include "proto/host/sd_notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/testlib.h"

static void test_no_manager(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_notices n = {0};
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    assert_ok(hsp_sd_notify(&n, &err, "READY=1"), &err);
    assert_true(hsp_sd_watchdog_ms() == 0);
}

/* Opens the socket of a service manager at @name ("@..." is an abstract one), and sets
 * NOTIFY_SOCKET. */
static int manager(const char *name)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(n <= sizeof sa.sun_path);
    memcpy(sa.sun_path, name, n);
    if (name[0] == '@') {
        sa.sun_path[0] = 0;
    }
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

static void hear(int fd, const char *want)
{
    char got[4096];
    ssize_t n = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    assert_true(n > 0);
    got[n] = 0;
    assert_string_equal(got, want);
}

static void test_datagram(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[100];
    struct hsp_err err;
    struct hsp_notices n = {0};
    (void)snprintf(path, sizeof path, "%s/notify", dir);
    int fd = manager(path);
    assert_ok(hsp_sd_notify(&n, &err, "READY=1\nSTATUS=epoch %d", 3), &err);
    hear(fd, "READY=1\nSTATUS=epoch 3");
    close(fd);
    assert_status(hsp_sd_notify(&n, &err, "READY=1"), HSP_EIO); /* nobody reads it any more */
    unsetenv("NOTIFY_SOCKET");
    hsp_test_rmdir(dir);
    free(dir);
}

static void test_an_abstract_name_of_any_length(void **state)
{
    (void)state;
    char name[sizeof((struct sockaddr_un *)0)->sun_path + 2];
    struct hsp_err err;
    struct hsp_notices n = {0};
    (void)snprintf(name, sizeof name, "@hspmd-test-%d-%0200d", (int)getpid(), 0);
    setenv("NOTIFY_SOCKET", name, 1);
    assert_status(hsp_sd_notify(&n, &err, "READY=1"), HSP_EIO); /* one byte too long */
    name[sizeof name - 2] = 0;
    int fd = manager(name);
    assert_ok(hsp_sd_notify(&n, &err, "STATUS=1"), &err);
    hear(fd, "STATUS=1\nREADY=1");
    close(fd);
    unsetenv("NOTIFY_SOCKET");
}

/* systemd does not read its socket. hsp_sd_notify does not block, and systemd later gets the newest
 * line of each kind. */
static void test_a_full_queue_is_not_waited_for(void **state)
{
    (void)state;
    char name[64];
    struct hsp_err err;
    struct hsp_notices n = {0};
    unsigned taken = 0;
    (void)snprintf(name, sizeof name, "@hspmd-test-%d", (int)getpid());
    int fd = manager(name);
    (void)alarm(20); /* a call that blocks would block for ever */
    while (hsp_sd_notify(&n, &err, "RELOADING=1\nMONOTONIC_USEC=5") == HSP_OK) {
        taken++;
    }
    assert_true(taken > 0 && err.sys == EAGAIN);
    assert_status(hsp_sd_notify(&n, &err, "STATUS=old\nREADY=1"), HSP_EIO);
    assert_status(hsp_sd_notify(&n, &err, "WATCHDOG=1"), HSP_EIO);
    assert_status(hsp_sd_notify(&n, &err, "STATUS=new"), HSP_EIO);
    (void)alarm(0);
    for (; taken > 0; taken--) {
        hear(fd, "RELOADING=1\nMONOTONIC_USEC=5");
    }
    assert_ok(hsp_sd_notify(&n, &err, "WATCHDOG=1"), &err);
    hear(fd, "WATCHDOG=1\nSTATUS=new\nREADY=1\nMONOTONIC_USEC=5");
    assert_ok(hsp_sd_notify(&n, &err, "WATCHDOG=1"), &err);
    hear(fd, "WATCHDOG=1"); /* nothing is owed any more */
    close(fd);
    unsetenv("NOTIFY_SOCKET");
}

/* Lines that systemd could not take yet are kept up to a bound. A line is kept whole or not at
 * all. */
static void test_owed_lines_that_have_no_room(void **state)
{
    (void)state;
    char name[64], want[1200], got[4096];
    struct hsp_err err;
    struct hsp_notices n = {0};
    (void)snprintf(name, sizeof name, "@hspmd-test-%d", (int)getpid());
    setenv("NOTIFY_SOCKET", name, 1);
    assert_status(hsp_sd_notify(&n, &err, "READY=1\nSTATUS=%0900d", 0), HSP_EIO);
    assert_status(hsp_sd_notify(&n, &err, "X_LONG=%0200d", 0), HSP_EIO);
    int fd = manager(name);
    assert_ok(hsp_sd_notify(&n, &err, "%01500d", 0), &err);
    ssize_t len = recv(fd, got, sizeof got, MSG_DONTWAIT);
    assert_true(len == (ssize_t)sizeof n.owed - 1);
    assert_status(hsp_sd_notify(&n, &err, "WATCHDOG=1"), HSP_OK);
    hear(fd, "WATCHDOG=1");
    (void)snprintf(n.owed, sizeof n.owed, "STATUS=%0900d\nREADY=1", 0);
    assert_ok(hsp_sd_notify(&n, &err, "X_LONG=%0200d", 0), &err);
    (void)snprintf(want, sizeof want, "X_LONG=%0200d\nREADY=1", 0);
    hear(fd, want);
    close(fd);
    unsetenv("NOTIFY_SOCKET");
}

static void test_watchdog(void **state)
{
    (void)state;
    char pid[32];
    setenv("WATCHDOG_USEC", "30000000", 1);
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    assert_true(hsp_sd_watchdog_ms() == 15000);
    setenv("WATCHDOG_PID", "1", 1);
    assert_true(hsp_sd_watchdog_ms() == 0);
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
}

HSP_TEST_FILE(sd_notify_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_manager),
        cmocka_unit_test(test_datagram),
        cmocka_unit_test(test_an_abstract_name_of_any_length),
        cmocka_unit_test(test_a_full_queue_is_not_waited_for),
        cmocka_unit_test(test_owed_lines_that_have_no_room),
        cmocka_unit_test(test_watchdog),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
