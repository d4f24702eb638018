#include "proto/host/log.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "tests/lib/testlib.h"

static void read_back(int fd, char *out, size_t cap)
{
    ssize_t n = pread(fd, out, cap - 1, 0);
    assert_true(n >= 0);
    out[n] = 0;
}

static void test_levels_and_escape(void **state)
{
    (void)state;
    FILE *f = tmpfile();
    struct hsp_logger *l = hsp_log_new(fileno(f), HSP_LOG_NOTICE);
    char text[4096];
    hsp_log(l, HSP_LOG_INFO, "net", "not shown");
    hsp_log(l, HSP_LOG_WARN, "net", "peer %s said %s", "a", "x\n<0>evil\x7f");
    hsp_log_set_level(l, HSP_LOG_INFO);
    hsp_log(l, HSP_LOG_INFO, "net", "shown");
    read_back(fileno(f), text, sizeof text);
    assert_null(strstr(text, "not shown"));
    assert_non_null(strstr(text, "Z warn net: peer a said x\\u000a<0>evil\\u007f\n"));
    assert_non_null(strstr(text, "Z info net: shown\n"));
    hsp_log(NULL, HSP_LOG_ERROR, "net", "nowhere");
    hsp_log_free(l);
    (void)fclose(f);
}

static void test_journal_prefix(void **state)
{
    (void)state;
    FILE *f = tmpfile();
    struct stat st;
    char id[64], text[512];
    assert_int_equal(fstat(fileno(f), &st), 0);
    (void)snprintf(id, sizeof id, "%llu:%llu", (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", id, 1);
    struct hsp_logger *l = hsp_log_new(fileno(f), HSP_LOG_TRACE);
    unsetenv("JOURNAL_STREAM");
    hsp_log(l, HSP_LOG_ERROR, "store", "disk full");
    hsp_log(l, HSP_LOG_TRACE, "net", "frame 3");
    read_back(fileno(f), text, sizeof text);
    assert_string_equal(text, "<3>store: disk full\n<7>net: frame 3\n");
    hsp_log_free(l);
    (void)fclose(f);
}

static void test_ring(void **state)
{
    (void)state;
    FILE *f = tmpfile();
    struct hsp_logger *l = hsp_log_new(fileno(f), HSP_LOG_ERROR);
    static char text[1 << 20];
    for (int i = 0; i < HSP_LOG_RING + 10; i++) {
        hsp_log(l, HSP_LOG_DEBUG, "m", "line %d.", i);
        hsp_log(l, HSP_LOG_TRACE, "m", "trace");
    }
    hsp_log_dump(l, 2, fileno(f));
    read_back(fileno(f), text, sizeof text);
    assert_non_null(strstr(text, "line 4104.\n"));
    assert_non_null(strstr(text, "line 4105.\n"));
    assert_null(strstr(text, "line 4103."));
    assert_int_equal(ftruncate(fileno(f), 0), 0);
    assert_int_equal(lseek(fileno(f), 0, SEEK_SET), 0);
    hsp_log_dump(l, SIZE_MAX, fileno(f));
    read_back(fileno(f), text, sizeof text);
    assert_non_null(strstr(text, "line 10.\n"));
    assert_null(strstr(text, "line 9.\n"));
    assert_null(strstr(text, "trace m"));
    hsp_log_free(l);
    (void)fclose(f);
}

/* Runs in a child process: logs 300 lines below the log level, so that none is written, then fails
 * an assertion. The failed assertion writes the last of these lines to @fd, unless the logger was
 * @freed before. */
static void die(int fd, bool freed)
{
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)dup2(fd, STDERR_FILENO);
    struct hsp_logger *l = hsp_log_new(STDERR_FILENO, HSP_LOG_WARN);
    hsp_log_on_assert(l);
    for (int i = 0; i < 300; i++) {
        hsp_log(l, HSP_LOG_DEBUG, "m", "line %d.", i);
    }
    l = freed ? hsp_log_free(l) : l;
    HSP_ASSERT(l == NULL && !freed);
}

static void last_words(bool freed, char *ret, size_t size)
{
    int status = 0;
    FILE *f = tmpfile();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        die(fileno(f), freed);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    read_back(fileno(f), ret, size);
    (void)fclose(f);
}

static void a_failed_assertion_shows_the_last_lines(void **state)
{
    (void)state;
    static char text[1 << 16];
    last_words(false, text, sizeof text);
    const char *what = strstr(text, "assertion failed: l == NULL && !freed (");
    assert_non_null(what);
    const char *first = strstr(what, ")\nthe last lines of the log:\n"), *at = first;
    assert_non_null(first);
    assert_null(strstr(text, " debug m: line 99.\n"));
    for (int i = 100; i < 300; i++) {
        char want[64];
        (void)snprintf(want, sizeof want, "Z debug m: line %d.\n", i);
        at = strstr(at, want);
        assert_non_null(at);
    }
    last_words(true, text, sizeof text);
    assert_non_null(strstr(text, "assertion failed: "));
    assert_null(strstr(text, "the last lines"));
}

static void test_names(void **state)
{
    (void)state;
    enum hsp_log_level v = HSP_LOG_ERROR;
    assert_true(hsp_log_parse_level("debug", &v));
    assert_int_equal(v, HSP_LOG_DEBUG);
    assert_false(hsp_log_parse_level("loud", &v));
    assert_string_equal(hsp_log_level_name(HSP_LOG_NOTICE), "notice");
}

HSP_TEST_FILE(log_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_and_escape),
        cmocka_unit_test(test_journal_prefix),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(a_failed_assertion_shows_the_last_lines),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
