#include "tests/lib/testlib.h"

#include "proto/base/size.h"
#include "proto/base/str.h"

static void edit_distance_counts_edits(void **state)
{
    (void)state;
    assert_int_equal(hsp_edit_distance("", ""), 0);
    assert_int_equal(hsp_edit_distance("", "abc"), 3);
    assert_int_equal(hsp_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(hsp_edit_distance("sitting", "kitten"), 3);
    char big[100];
    memset(big, 'x', sizeof(big) - 1);
    big[99] = '\0';
    assert_true(hsp_edit_distance(big, "x") == SIZE_MAX);
}

static void nearest_word_or_none(void **state)
{
    (void)state;
    static const char *const words[] = {"layers", "hidden", "heads", "vocab"};
    assert_string_equal(hsp_str_nearest("layer", words, 4), "layers");
    assert_string_equal(hsp_str_nearest("hiden", words, 4), "hidden");
    assert_null(hsp_str_nearest("optimizer", words, 4));
    assert_null(hsp_str_nearest("xy", words, 4));
    assert_null(hsp_str_nearest("x", words, 0));
}

static void integers(void **state)
{
    (void)state;
    int64_t i = 5;
    uint64_t u = 5;
    assert_true(hsp_parse_i64("-9223372036854775808", &i) && i == INT64_MIN);
    assert_true(hsp_parse_i64("9223372036854775807", &i) && i == INT64_MAX);
    assert_true(hsp_parse_u64("18446744073709551615", &u) && u == UINT64_MAX);
    static const char *const bad[] = {"",    "-",   "+1",  " 1",  "1 ",
                                      "0x1", "1.0", "1e3", "--1", "99999999999999999999"};
    for (size_t k = 0; k < HSP_ARRAY_LEN(bad); k++) {
        assert_false(hsp_parse_i64(bad[k], &i));
        assert_false(hsp_parse_u64(bad[k], &u));
    }
    assert_false(hsp_parse_i64("9223372036854775808", &i));
    assert_false(hsp_parse_u64("-1", &u));
    assert_false(hsp_parse_u64("18446744073709551616", &u));
    assert_true(i == INT64_MAX && u == UINT64_MAX);
}

static void reals(void **state)
{
    (void)state;
    double d = 0;
    assert_true(hsp_parse_f64("1e-3", &d));
    assert_near(d, 1e-3, 0);
    assert_true(hsp_parse_f64("-2.5", &d));
    assert_near(d, -2.5, 0);
    assert_true(hsp_parse_f64("1e-310", &d) && d > 0);
    static const char *const bad[] = {"",   "nan", "inf", "0x1p3", "1e999", "1..2",
                                      "1e", "e5",  "+1",  " 1",    "1,5"};
    for (size_t k = 0; k < HSP_ARRAY_LEN(bad); k++) {
        assert_false(hsp_parse_f64(bad[k], &d));
    }
}

static void sizes(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        uint64_t v;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"1KiB", 1024},
        {"512MiB", 512ULL << 20},
        {"1GiB", 1ULL << 30},
        {"80G", 80ULL << 30},
        {"1.5GiB", 3ULL << 29},
        {"0.5K", 512},
        {"2TB", 2ULL << 40},
        {"16777215TiB", 16777215ULL << 40},
    };
    for (size_t k = 0; k < HSP_ARRAY_LEN(good); k++) {
        uint64_t v = 1;
        assert_true(hsp_parse_bytes(good[k].s, &v));
        assert_true(v == good[k].v);
    }
    static const char *const bad[] = {"",
                                      "GiB",
                                      "1gib",
                                      "1 GiB",
                                      "-1G",
                                      "1.G",
                                      "1.2345G",
                                      ".5G",
                                      "1GiBB",
                                      "16777216TiB",
                                      "99999999999999999999"};
    uint64_t v = 1;
    for (size_t k = 0; k < HSP_ARRAY_LEN(bad); k++) {
        assert_false(hsp_parse_bytes(bad[k], &v));
    }
    assert_true(v == 1);
}

static void durations(void **state)
{
    (void)state;
    uint64_t v = 0;
    assert_true(hsp_parse_ms("500ms", &v) && v == 500);
    assert_true(hsp_parse_ms("3s", &v) && v == 3000);
    assert_true(hsp_parse_ms("0.25s", &v) && v == 250);
    assert_true(hsp_parse_ms("2m", &v) && v == 120000);
    assert_true(hsp_parse_ms("1h", &v) && v == 3600000);
    static const char *const bad[] = {"", "3", "s", "3 s", "-3s", "3sec", "1e3s"};
    for (size_t k = 0; k < HSP_ARRAY_LEN(bad); k++) {
        assert_false(hsp_parse_ms(bad[k], &v));
    }
}

static void names(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "node-1", "gpu0.rack2", "0"};
    for (size_t k = 0; k < HSP_ARRAY_LEN(good); k++) {
        assert_true(hsp_name_valid(good[k]));
    }
    static const char *const bad[] = {
        "",    "-a",  "a-",
        ".a",  "A",   "a_b",
        "a/b", "a b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", /* 64 */
    };
    for (size_t k = 0; k < HSP_ARRAY_LEN(bad); k++) {
        assert_false(hsp_name_valid(bad[k]));
    }
}

static void utf8(void **state)
{
    (void)state;
    static const char *const good[] = {
        "", "a\nb", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf"};
    for (size_t k = 0; k < HSP_ARRAY_LEN(good); k++) {
        assert_true(hsp_utf8_valid((const uint8_t *)good[k], strlen(good[k])));
    }
    static const char *const bad[] = {
        "\x80",             /* continues nothing */
        "a\xc2",            /* ends too early */
        "\xc2\x41",         /* continued by a letter */
        "\xc1\xbf",         /* overlong */
        "\xe0\x9f\xbf",     /* overlong */
        "\xf0\x8f\xbf\xbf", /* overlong */
        "\xed\xa0\x80",     /* surrogate */
        "\xf4\x90\x80\x80", /* above U+10FFFF */
        "\xff",
    };
    for (size_t k = 0; k < HSP_ARRAY_LEN(bad); k++) {
        assert_false(hsp_utf8_valid((const uint8_t *)bad[k], strlen(bad[k])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edit_distance_counts_edits),
        cmocka_unit_test(nearest_word_or_none),
        cmocka_unit_test(integers),
        cmocka_unit_test(reals),
        cmocka_unit_test(sizes),
        cmocka_unit_test(durations),
        cmocka_unit_test(names),
        cmocka_unit_test(utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
