/* Tests the start of executors. The test is its own fake executor: called with --executor it acts
 * by its node's name. */
#include "worker/app/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/testlib.h"
#include "worker/executor/executor_args.h"

/* This program; valgrind answers for the link, but cannot be told to execute it. */
static char self[4096];

static struct hsp_spawn_opts opts(const char *what)
{
    return (struct hsp_spawn_opts){.exe = self,
                                   .name = "spawn_test",
                                   .device = 3,
                                   .node = what,
                                   .state_dir = "/tmp/a b",
                                   .listen = "127.0.0.1",
                                   .advertise = "",
                                   .speed = 0.15,
                                   .mem_bytes = UINT64_C(5) << 32,
                                   .gpu_index = -1,
                                   .threads = 2,
                                   .heartbeat_ms = 500,
                                   .audit_dir = NULL,
                                   .log_level = "warn"};
}

/* ---- the fake ---- */

static int fake(int argc, char **argv)
{
    struct hsp_executor_opts o;
    enum hsp_log_level level;
    struct hsp_err err = {0};
    char text[512];
    sigset_t mask;
    if (hsp_execargs_parse(argc, argv, &o, &level, &err) != HSP_OK) {
        return 99;
    }
    if (strcmp(o.node, "exits") == 0) {
        return 7;
    }
    if (strcmp(o.node, "fails") == 0) {
        return HSP_EXIT_DEVICE;
    }
    if (strcmp(o.node, "hangs") == 0) {
        return write(o.fd, "up", 2) == 2 ? pause() : 98;
    }
    if (strcmp(o.node, "env") == 0) { /* prints its environment */
        const char *v = getenv("HSPMD_TEST_SPAWN"), *home = getenv("HOME");
        return 10 + (v != NULL ? 1 : 0) + (v != NULL && strcmp(v, "=eth0") == 0 ? 2 : 0) +
               (home != NULL ? 4 : 0);
    }
    /* "tells": prints its arguments and its state as a process */
    int death = 0, open_fds = 0;
    (void)prctl(PR_GET_PDEATHSIG, &death);
    (void)sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int fd = 3; fd < 64; fd++) {
        open_fds += fd != o.fd && fcntl(fd, F_GETFD) >= 0;
    }
    int n = snprintf(text, sizeof text,
                     "%u %d %s %s %s %g %llu %u %u %d %s %s %s %s %d %d|%d %d %d %d %d", o.device,
                     o.gpu_index, o.node, o.state_dir, o.listen, o.speed,
                     (unsigned long long)o.mem_bytes, o.threads, o.heartbeat_ms, (int)level,
                     o.advertise == NULL ? "-" : o.advertise,
                     o.audit_dir == NULL ? "-" : o.audit_dir, o.kill_dir == NULL ? "-" : o.kill_dir,
                     o.bare_file == NULL ? "-" : o.bare_file, (int)o.transport, o.nccl_unknown,
                     death, open_fds, getpgrp() == getpid(), sigismember(&mask, SIGTERM),
                     signal(SIGUSR2, SIG_DFL) == SIG_DFL && signal(SIGTERM, SIG_DFL) == SIG_DFL);
    return write(o.fd, text, (size_t)n) == n ? 0 : 98;
}

/* ---- helpers ---- */

/* Reads until end of file or @n bytes; 10 s at most. */
static size_t hear(int fd, char *buf, size_t n)
{
    size_t at = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (at < n && poll(&p, 1, 10000) == 1) {
        ssize_t k = read(fd, buf + at, n - at);
        if (k <= 0) {
            break;
        }
        at += (size_t)k;
    }
    return at;
}

static void wait_end(pid_t pid, char text[HSP_EXIT_TEXT])
{
    for (int i = 0; i < 2000; i++) {
        if (hsp_spawn_ended(pid, text)) {
            return;
        }
        (void)usleep(5000);
    }
    (void)kill(pid, SIGKILL);
    fail_msg("process %ld does not end", (long)pid);
}

/* ---- tests ---- */

static void test_exit_status_is_told(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_child c;
    struct hsp_spawn_opts o = opts("exits");
    char text[HSP_EXIT_TEXT], buf[8];
    assert_ok(hsp_spawn_executor(&o, &c, &err), &err);
    assert_int_equal(hear(c.fd, buf, sizeof buf), 0); /* end of file: nobody else holds its end */
    wait_end(c.pid, text);
    assert_string_equal(text, "exit 7");
    (void)close(c.fd);
}

static void test_a_kill_is_told(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_child c;
    struct hsp_spawn_opts o = opts("hangs");
    char text[HSP_EXIT_TEXT], buf[8];
    assert_ok(hsp_spawn_executor(&o, &c, &err), &err);
    assert_int_equal(hear(c.fd, buf, 2), 2);
    assert_false(hsp_spawn_ended(c.pid, text));
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    wait_end(c.pid, text);
    assert_string_equal(text, "signal 9");
    (void)close(c.fd);
}

static void test_a_program_that_is_not_there(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_child c;
    struct hsp_spawn_opts o = opts("exits");
    char text[HSP_EXIT_TEXT];
    o.exe = "/nonexistent/program";
    assert_ok(hsp_spawn_executor(&o, &c, &err), &err);
    wait_end(c.pid, text);
    assert_string_equal(text, "exit 127");
    (void)close(c.fd);
}

static void test_what_it_is_given(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_child c;
    struct hsp_spawn_opts o = opts("tells");
    char text[HSP_EXIT_TEXT], buf[512] = {0}, want[512];
    sigset_t block, before;
    (void)sigemptyset(&block);
    (void)sigaddset(&block, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &block, &before); /* ours, not the child's */
    (void)signal(SIGUSR2, SIG_IGN);
    o.advertise = "10.0.0.9";
    o.audit_dir = "/tmp/audit";
    o.kill_dir = "/tmp/kills";
    o.bare_file = "/tmp/bare";
    o.transport = "tcp";
    o.nccl_unknown = true;
    o.gpu_index = 5;
    assert_ok(hsp_spawn_executor(&o, &c, &err), &err);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)signal(SIGUSR2, SIG_DFL);
    assert_int_equal(fcntl(c.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fcntl(c.fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    (void)hear(c.fd, buf, sizeof buf - 1);
    wait_end(c.pid, text);
    assert_string_equal(text, "exit 0");
    (void)snprintf(want, sizeof want,
                   "3 5 tells /tmp/a b 127.0.0.1 0.15 %llu 2 500 %d 10.0.0.9 /tmp/audit /tmp/kills "
                   "/tmp/bare 2 1|%d 0 1 0 1",
                   (unsigned long long)o.mem_bytes, (int)HSP_LOG_WARN, SIGKILL);
    assert_string_equal(buf, want);
    (void)close(c.fd);
}

static void test_its_environment(void **state)
{
    (void)state;
    static char set[] = "HSPMD_TEST_SPAWN==eth0";
    char *const env[] = {set, NULL};
    struct hsp_err err = {0};
    struct hsp_child c;
    struct hsp_spawn_opts o = opts("env");
    char text[HSP_EXIT_TEXT];
    assert_int_equal(setenv("HOME", "/", 1), 0);
    for (int ours = 0; ours < 2; ours++) {
        o.env = ours == 1 ? NULL : env;
        assert_ok(hsp_spawn_executor(&o, &c, &err), &err);
        wait_end(c.pid, text);
        assert_string_equal(text, ours == 1 ? "exit 14" : "exit 13");
        (void)close(c.fd);
    }
}

/* A parent that is killed takes its executor with it. */
static void test_it_dies_with_its_parent(void **state)
{
    (void)state;
    int out[2];
    struct hsp_spawn_opts o = opts("hangs");
    pid_t grandchild = 0;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        struct hsp_child c;
        char buf[2];
        if (hsp_spawn_executor(&o, &c, NULL) != HSP_OK || hear(c.fd, buf, 2) != 2) {
            _exit(1);
        }
        _exit(write(out[1], &c.pid, sizeof c.pid) == sizeof c.pid ? pause() : 1);
    }
    assert_int_equal(hear(out[0], (char *)&grandchild, sizeof grandchild), sizeof grandchild);
    assert_int_equal(kill(grandchild, 0), 0);
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    int i = 0;
    char path[64], stat[256] = {0}; /* until somebody waits for it, it is a zombie */
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)grandchild);
    for (; i < 2000; i++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, stat, sizeof stat - 1) : -1;
        if (fd >= 0) {
            (void)close(fd);
        }
        if (n <= 0 || strstr(stat, ") Z ") != NULL || strstr(stat, ") X ") != NULL) {
            break;
        }
        (void)usleep(5000);
    }
    assert_true(i < 2000);
    (void)close(out[0]);
    (void)close(out[1]);
}

static void test_wrong_arguments_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *replace, *with, *want;
    } cases[] = {{"--speed", "1.5", "--speed 1.5 is out of range"},
                 {"--executor", "1", "--executor 1 is out of range"},
                 {"--node", "No Name", "--node No Name is out of range"},
                 {"--memory", "x", "--memory x is out of range"},
                 {"--threads", "0", "--threads 0 is out of range"},
                 {"--log-level", "loud", "--log-level loud is out of range"}};
    for (size_t k = 0; k <= sizeof cases / sizeof cases[0]; k++) {
        const char *v[] = {"w", "--executor",  "5",    "--device",  "0", "--node",
                           "a", "--state-dir", "/d",   "--listen",  "h", "--speed",
                           "1", "--memory",    "1",    "--threads", "1", "--heartbeat-ms",
                           "5", "--log-level", "info", NULL};
        int n = (int)(sizeof v / sizeof v[0]) - 1;
        struct hsp_executor_opts o;
        enum hsp_log_level level;
        struct hsp_err err = {0};
        if (k == sizeof cases / sizeof cases[0]) {
            assert_ok(hsp_execargs_parse(n, (char **)(uintptr_t)v, &o, &level, &err), &err);
            assert_int_equal(o.gpu_index, -1);
            n -= 2;
            v[n] = NULL;
            assert_status(hsp_execargs_parse(n, (char **)(uintptr_t)v, &o, &level, &err),
                          HSP_EINVAL);
            assert_err(&err, HSP_EINVAL, "--log-level is missing");
            continue;
        }
        for (int i = 1; i < n; i += 2) {
            v[i + 1] = strcmp(v[i], cases[k].replace) == 0 ? cases[k].with : v[i + 1];
        }
        assert_status(hsp_execargs_parse(n, (char **)(uintptr_t)v, &o, &level, &err), HSP_EINVAL);
        assert_err(&err, HSP_EINVAL, cases[k].want);
    }
}

static void test_a_failed_device_is_told(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_child c;
    struct hsp_spawn_opts o = opts("fails");
    char text[HSP_EXIT_TEXT];
    assert_ok(hsp_spawn_executor(&o, &c, &err), &err);
    wait_end(c.pid, text);
    assert_string_equal(text, "its GPU failed (exit 4)");
    (void)close(c.fd);
}

HSP_TEST_FILE(spawn_test)
{
    if (hsp_test_argc > 1 && strcmp(hsp_test_argv[1], "--executor") == 0) {
        return fake(hsp_test_argc, hsp_test_argv);
    }
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
        perror("/proc/self/exe");
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exit_status_is_told),
                                       cmocka_unit_test(test_a_kill_is_told),
                                       cmocka_unit_test(test_a_program_that_is_not_there),
                                       cmocka_unit_test(test_what_it_is_given),
                                       cmocka_unit_test(test_a_failed_device_is_told),
                                       cmocka_unit_test(test_its_environment),
                                       cmocka_unit_test(test_it_dies_with_its_parent),
                                       cmocka_unit_test(test_wrong_arguments_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
