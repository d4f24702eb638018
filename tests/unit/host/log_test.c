#include "proto/host/log.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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
    struct hsp_log *l = hsp_log_new(fileno(f), HSP_LOG_NOTICE);
    char text[4096];
    hsp_log(l, HSP_LOG_INFO, "net", "not shown");
    hsp_log(l, HSP_LOG_WARN, "net", "peer %s said %s", "a", "x\n<0>evil\x7f");
    hsp_log_set_level(l, HSP_LOG_INFO);
    hsp_log(l, HSP_LOG_INFO, "net", "shown");
    read_back(fileno(f), text, sizeof text);
    assert_null(strstr(text, "not shown"));
    assert_non_null(strstr(text, "Z warn net: peer a said x\\x0a<0>evil\\x7f\n"));
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
    struct hsp_log *l = hsp_log_new(fileno(f), HSP_LOG_TRACE);
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
    struct hsp_log *l = hsp_log_new(fileno(f), HSP_LOG_ERROR);
    struct hsp_buf out;
    for (int i = 0; i < HSP_LOG_RING + 10; i++) {
        hsp_log(l, HSP_LOG_DEBUG, "m", "line %d.", i);
        hsp_log(l, HSP_LOG_TRACE, "m", "trace");
    }
    hsp_buf_init(&out, 1 << 20);
    hsp_log_tail(l, 2, &out);
    const char *s = hsp_buf_cstr(&out);
    assert_non_null(strstr(s, "line 4104.\n"));
    assert_non_null(strstr(s, "line 4105.\n"));
    assert_null(strstr(s, "line 4103."));
    hsp_buf_reset(&out);
    hsp_log_tail(l, SIZE_MAX, &out);
    s = hsp_buf_cstr(&out);
    assert_non_null(strstr(s, "line 10.\n"));
    assert_null(strstr(s, "line 9.\n"));
    assert_null(strstr(s, "trace m"));
    size_t all = out.len;
    hsp_buf_fini(&out);
    hsp_log_dump(l, fileno(f));
    assert_int_equal(lseek(fileno(f), 0, SEEK_END), all);
    hsp_log_free(l);
    (void)fclose(f);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_and_escape),
        cmocka_unit_test(test_journal_prefix),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
