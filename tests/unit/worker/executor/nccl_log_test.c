/* Checks the lines of NCCL in the executor's log: with lines as the library writes them, and with
 * the library itself if it is installed. */
#include "worker/executor/nccl_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/testlib.h"
#include "worker/comm/nccl/nccl_lib.h"

static struct hsp_logger *log_to;
static FILE *written; /* log of the test */

static int setup(void **state)
{
    (void)state;
    written = tmpfile();
    log_to = written != NULL ? hsp_log_new(fileno(written), HSP_LOG_INFO) : NULL;
    (void)unsetenv("NCCL_DEBUG");
    (void)unsetenv("NCCL_DEBUG_SUBSYS");
    (void)unsetenv("NCCL_DEBUG_FILE");
    return log_to == NULL;
}

static int teardown(void **state)
{
    (void)state;
    log_to = hsp_log_free(log_to);
    (void)fclose(written);
    return 0;
}

/* Returns the text of the log so far. */
static const char *logged(void)
{
    static char text[1 << 16];
    ssize_t n = pread(fileno(written), text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    return text;
}

static unsigned count(const char *part)
{
    unsigned n = 0;
    for (const char *s = logged(); (s = strstr(s, part)) != NULL; s += strlen(part)) {
        n++;
    }
    return n;
}

/* Opens NCCL_DEBUG_FILE as the library does. */
static FILE *library_opens(void)
{
    assert_string_equal(getenv("NCCL_DEBUG"), "INFO");
    assert_string_equal(getenv("NCCL_DEBUG_SUBSYS"), "INIT,BOOTSTRAP,NET");
    FILE *f = fopen(getenv("NCCL_DEBUG_FILE"), "w");
    assert_non_null(f);
    return f;
}

static void lines_that_say_what_was_chosen(void **state)
{
    static const struct {
        const char *line, *want;
        bool warns;
    } c[] = {
        {"n1:9:9 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>",
         "Bootstrap: Using eth0:10.0.0.1<0>", false},
        {"n1:9:9 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
         "Bootstrap : Using eth0:10.0.0.1<0>", false},
        {"n1:9:12 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
         "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>", false},
        {"n1:9:12 [1] NCCL INFO NET/IB : No device found.", "NET/IB : No device found.", false},
        {"n1:9:12 [1] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>",
         "NET/Socket : Using [0]eth0:10.0.0.1<0>", false},
        {"n1:9:12 [1] NCCL INFO Using network Socket", "Using network Socket", false},
        {"n1:9:12 [1] misc/socket.cc:99 NCCL WARN Call to connect failed : x",
         "Call to connect failed : x", true},
        {"n1:9:12 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0", NULL, false},
        {"n1:9:12 [1] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0", NULL, false},
        {"n1:9:12 [1] NCCL INFO ENV/Plugin: Could not find: libnccl-env.so", NULL, false},
        {"", NULL, false},
        {"Using network Socket", NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        bool warns = false;
        const char *got = hsp_nccllog_line(c[i].line, &warns);
        assert_int_equal(got == NULL, c[i].want == NULL);
        if (got != NULL) {
            assert_string_equal(got, c[i].want);
            assert_int_equal(warns, c[i].warns);
        }
    }
}

static void each_line_once_when_it_is_whole(void **state)
{
    struct hsp_nccllog *l = hsp_nccllog_open();
    (void)state;
    assert_non_null(l);
    hsp_nccllog_tell(l, log_to);
    FILE *f = library_opens();
    (void)fputs(
        "n1:9:9 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\nn1:9:9 [0] NCCL INFO Using net",
        f);
    (void)fflush(f);
    hsp_nccllog_tell(l, log_to);
    assert_int_equal(count("nccl: Bootstrap: Using eth0:10.0.0.1<0>\n"), 1);
    assert_int_equal(count("Using network"), 0);
    (void)fputs("work IB\nn1:9:9 [0] NCCL INFO Using network IB\n", f);
    (void)fflush(f);
    hsp_nccllog_tell(l, log_to);
    hsp_nccllog_tell(l, log_to);
    assert_int_equal(count("nccl: Using network IB\n"), 1);
    assert_int_equal(count("Bootstrap"), 1);
    assert_int_equal(fclose(f), 0);
    assert_null(hsp_nccllog_close(l));
}

static void lines_and_memory_are_bounded(void **state)
{
    struct hsp_nccllog *l = hsp_nccllog_open();
    struct stat st;
    (void)state;
    assert_non_null(l);
    FILE *f = library_opens();
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 4000; k++) {
            (void)fprintf(f, "n1:9:9 [0] x.cc:1 NCCL WARN trouble %d.%d\n", i, k);
        }
        (void)fprintf(f, "%0*d\n", 100000, 7); /* longer than one read */
        (void)fflush(f);
        hsp_nccllog_tell(l, log_to);
    }
    assert_int_equal(count("nccl: trouble "), 3 * HSP_NCCLLOG_LINES);
    assert_int_equal(count("nccl: trouble 2.31\n"), 1);
    assert_int_equal(count("nccl: 3968 more lines are not logged\n"), 3);
    assert_int_equal(fstat(fileno(f), &st), 0);
    assert_true(st.st_size > 400000 && st.st_blocks * 512 <= 128 << 10); /* lines read are gone */
    assert_int_equal(fclose(f), 0);
    assert_null(hsp_nccllog_close(l));
}

static void an_administrator_s_choice_stands(void **state)
{
    static const char *const names[] = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(setenv(names[i], "WARN", 1), 0);
        assert_null(hsp_nccllog_open());
        for (int k = 0; k < 3; k++) {
            assert_int_equal(getenv(names[k]) != NULL, k == i);
        }
        assert_int_equal(unsetenv(names[i]), 0);
    }
    hsp_nccllog_tell(NULL, log_to); /* NULL: no log */
    assert_string_equal(logged(), "");
}

/* Runs the library in a process of its own, because its thread waits for peers. Returns 77 if there
 * is no library. */
static int ask_the_library(void)
{
    struct hsp_nccllog *l = hsp_nccllog_open();
    struct hsp_nccl_lib lib;
    struct hsp_err err = {0};
    struct nccl_id id;
    if (hsp_nccl_lib_open(NULL, &lib, &err) != HSP_OK) {
        return 77;
    }
    enum nccl_result r = lib.GetUniqueId(&id);
    hsp_nccllog_tell(l, log_to);
    return r == NCCL_SUCCESS && l != NULL ? 0 : 1;
}

static void the_library_says_its_interface(void **state)
{
    int status = 0;
    (void)state;
    if (getenv("HSPMD_VALGRIND") != NULL) {
        print_message("not under valgrind: it takes a thread of the library for a leak\n");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        _exit(ask_the_library());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("not without NCCL\n");
        return;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(count("nccl: Bootstrap: Using ") + count("nccl: Bootstrap : Using "), 1);
}

HSP_TEST_FILE(nccl_log_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_that_say_what_was_chosen),
        cmocka_unit_test_setup_teardown(each_line_once_when_it_is_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(lines_and_memory_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(an_administrator_s_choice_stands, setup, teardown),
        cmocka_unit_test_setup_teardown(the_library_says_its_interface, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
