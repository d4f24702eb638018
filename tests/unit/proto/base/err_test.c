#include "tests/lib/testlib.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/base/size.h"
#include "proto/base/str.h"

static void set_formats_and_returns_the_code(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    assert_status(hsp_err_set(&err, HSP_EPROTO, 0, "frame length %u above limit %u", 9U, 8U),
                  HSP_EPROTO);
    assert_err(&err, HSP_EPROTO, "frame length 9 above limit 8");
    assert_int_equal(err.sys, 0);
    assert_status(hsp_err_set(NULL, HSP_EIO, EIO, "x"), HSP_EIO);
}

static void errno_text_is_appended(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    assert_status(hsp_err_set(&err, HSP_EIO, ENOENT, "open %s", "a"), HSP_EIO);
    assert_err(&err, HSP_EIO, "open a: No such file or directory");
    assert_int_equal(err.sys, ENOENT);
}

static void wrap_puts_context_in_front(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    hsp_err_set(&err, HSP_EPROTO, 0, "frame length 9");
    assert_status(hsp_err_wrap(&err, "hello from %s", "10.0.0.1:7000"), HSP_EPROTO);
    assert_err(&err, HSP_EPROTO, "hello from 10.0.0.1:7000: frame length 9");
    assert_status(hsp_err_wrap(NULL, "x"), HSP_EINVAL);
}

static void a_lack_of_memory_says_for_what(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    assert_status(hsp_err_nomem(&err, "%u rows of %s", 3, "w"), HSP_ENOMEM);
    assert_err(&err, HSP_ENOMEM, "out of memory for 3 rows of w");
    assert_status(hsp_err_nomem(&err, "(%s)", err.msg), HSP_ENOMEM);
    assert_err(&err, HSP_ENOMEM, "out of memory for (out of memory for 3 rows of w)");
    assert_status(hsp_err_nomem(NULL, "x"), HSP_ENOMEM);
    assert_status(hsp_err_about(&err, HSP_ELIMIT, "node %d", 5), HSP_ELIMIT);
    assert_err(&err, HSP_ELIMIT, "limit exceeded for node 5");
}

static void set_may_quote_its_own_message(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    hsp_err_set(&err, HSP_EPARSE, 0, "inner");
    hsp_err_set(&err, HSP_EINVAL, 0, "outer (%s)", err.msg);
    assert_err(&err, HSP_EINVAL, "outer (inner)");
}

static void a_quoted_text_cannot_break_the_line(void **state)
{
    (void)state;
    struct hsp_err e;
    hsp_err_set(&e, HSP_EPARSE, 0, "key \"%s\"", "a\nb\x1b[2J\x7f\xc3\xa4");
    assert_string_equal(e.msg, "key \"a?b?[2J?\xc3\xa4\"");
    hsp_err_wrap(&e, "file %s", "x\r\n");
    assert_string_equal(e.msg, "file x??: key \"a?b?[2J?\xc3\xa4\"");
}

static void long_texts_are_cut_not_overrun(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    char big[600];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    hsp_err_set(&err, HSP_EIO, ENOENT, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
    hsp_err_wrap(&err, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
    hsp_err_wrap(&err, "near");
    assert_memory_equal(err.msg, "near: xxx", 9);
}

/* A receiver of it in a message refuses invalid UTF-8. */
static void a_text_is_cut_between_characters(void **state)
{
    (void)state;
    char big[600];
    for (size_t shift = 0; shift < 4; shift++) {
        struct hsp_err err = {0};
        memset(big, 'x', shift);
        for (size_t i = shift; i + 4 < sizeof(big); i += 4) {
            memcpy(big + i, "\xf0\x9d\x84\x9e", 5);
        }
        hsp_err_set(&err, HSP_EIO, ENOENT, "%s", big);
        assert_true(hsp_utf8_valid((const uint8_t *)err.msg, strlen(err.msg)));
        assert_in_range(strlen(err.msg), sizeof(err.msg) - 4, sizeof(err.msg) - 1);
        hsp_err_wrap(&err, "near");
        assert_true(hsp_utf8_valid((const uint8_t *)err.msg, strlen(err.msg)));
        assert_in_range(strlen(err.msg), sizeof(err.msg) - 4, sizeof(err.msg) - 1);
        hsp_err_set(&err, HSP_EPARSE, 0, "key %.10s: what", big + shift);
        assert_string_equal(err.msg, "key \xf0\x9d\x84\x9e\xf0\x9d\x84\x9e??: what");
    }
}

static void every_status_has_name_and_text(void **state)
{
    (void)state;
    struct hsp_err err = {0};
#define CHECK(name, value, text)                            \
    assert_string_equal(hsp_test_status_name(name), #name); \
    assert_status(hsp_err_about(&err, name, "x"), name);    \
    assert_err(&err, name, text " for x");
    HSP_STATUS_MAP(CHECK)
#undef CHECK
    assert_string_equal(hsp_test_status_name((enum hsp_status) - 77), "HSP_UNKNOWN");
    (void)hsp_err_about(&err, (enum hsp_status) - 77, "x");
    assert_string_equal(err.msg, "unknown status for x");
}

static void hook(const char *expr, const char *file, int line)
{
    (void)file;
    (void)line;
    _exit(strcmp(expr, "1 == 2") == 0 ? 42 : 43);
}

static void failing_assertion_calls_the_hook_then_aborts(void **state)
{
    (void)state;
    for (int with_hook = 0; with_hook < 2; with_hook++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            signal(SIGABRT, SIG_DFL);
            (void)close(2); /* the message is not part of this test */
            hsp_assert_set_hook(with_hook ? hook : NULL);
            HSP_ASSERT(1 == 2);
            _exit(0);
        }
        int st;
        assert_int_equal(waitpid(pid, &st, 0), pid);
        if (with_hook) {
            assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 42);
        } else {
            assert_true(WIFSIGNALED(st) && WTERMSIG(st) == SIGABRT);
        }
    }
}

static void size_helpers_refuse_overflow(void **state)
{
    (void)state;
    size_t r = 7;
    assert_true(hsp_mul_size(3, 4, &r) && r == 12);
    assert_false(hsp_mul_size(SIZE_MAX / 2, 3, &r));
    assert_int_equal(r, 12);
    assert_true(hsp_add_size(SIZE_MAX - 1, 1, &r));
    assert_false(hsp_add_size(SIZE_MAX, 1, &r));
    int64_t i = 0;
    assert_true(hsp_mul_i64(-5, 6, &i) && i == -30);
    assert_false(hsp_mul_i64(INT64_MIN, -1, &i));
    assert_true(hsp_add_i64(-5, 6, &i) && i == 1);
    assert_false(hsp_add_i64(INT64_MAX, 1, &i));
    assert_int_equal(i, 1);
    assert_int_equal(hsp_min_i64(-1, 2), -1);
    assert_int_equal(hsp_max_i64(-1, 2), 2);
}

HSP_TEST_FILE(err_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_formats_and_returns_the_code),
        cmocka_unit_test(errno_text_is_appended),
        cmocka_unit_test(wrap_puts_context_in_front),
        cmocka_unit_test(a_lack_of_memory_says_for_what),
        cmocka_unit_test(set_may_quote_its_own_message),
        cmocka_unit_test(a_quoted_text_cannot_break_the_line),
        cmocka_unit_test(long_texts_are_cut_not_overrun),
        cmocka_unit_test(a_text_is_cut_between_characters),
        cmocka_unit_test(every_status_has_name_and_text),
        cmocka_unit_test(failing_assertion_calls_the_hook_then_aborts),
        cmocka_unit_test(size_helpers_refuse_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
