#include "proto/host/sdnotify.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/testlib.h"

static void test_no_manager(void **state)
{
    (void)state;
    struct hsp_err err;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    assert_ok(hsp_sd_notify(&err, "READY=1"), &err);
    assert_true(hsp_sd_watchdog_ms() == 0);
}

static void test_datagram(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), got[256];
    struct hsp_err err;
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)snprintf(sa.sun_path, sizeof sa.sun_path, "%s/notify", dir);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    setenv("NOTIFY_SOCKET", sa.sun_path, 1);
    assert_ok(hsp_sd_notify(&err, "READY=1\nSTATUS=epoch %d", 3), &err);
    ssize_t n = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    assert_true(n > 0);
    got[n] = 0;
    assert_string_equal(got, "READY=1\nSTATUS=epoch 3");
    close(fd);
    assert_status(hsp_sd_notify(&err, "READY=1"), HSP_EIO); /* nobody reads it any more */
    unsetenv("NOTIFY_SOCKET");
    hsp_test_rmdir(dir);
    free(dir);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_manager),
        cmocka_unit_test(test_datagram),
        cmocka_unit_test(test_watchdog),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
