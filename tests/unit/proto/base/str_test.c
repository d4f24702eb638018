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

static void shows(const char *in, size_t len, bool lines, const char *out)
{
    char dst[200];
    assert_int_equal(hsp_str_show(NULL, 0, in, len, lines), strlen(out));
    assert_int_equal(hsp_str_show(dst, sizeof dst, in, len, lines), strlen(out));
    assert_string_equal(dst, out);
}

static void what_a_terminal_would_obey_is_shown(void **state)
{
    (void)state;
    static const char in[] = "a\x1b[2Jb\r\n\tc\x7f\xc2\x9b" /* C1 */
                             "\xe2\x80\xae"                 /* right to left */
                             "\xe2\x80\xa8"                 /* a line separator */
                             "\xc3\xa9\xe2\x82\xac\\ \xff\xe2\x82";
    shows(in, sizeof in - 1, false,
          "a\\u001b[2Jb\\u000d\\u000a\\u0009c\\u007f\\u009b\\u202e\\u2028"
          "\xc3\xa9\xe2\x82\xac\\ \\ufffd\\ufffd\\ufffd");
    shows("a\n\tb\x1b", 5, true, "a\n\tb\\u001b");
    shows("a\0b", 3, true, "a\\u0000b");
    shows("", 0, false, "");
    char dst[9];
    memset(dst, 'x', sizeof dst);
    assert_int_equal(hsp_str_show(dst, 8,
                                  "ab\x1b"
                                  "c",
                                  4, false),
                     9); /* whole codes alone */
    assert_string_equal(dst, "ab");
    assert_int_equal(hsp_str_show(dst, sizeof dst,
                                  "ab\x1b"
                                  "c",
                                  4, false),
                     9);
    assert_string_equal(dst, "ab\\u001b");
    assert_int_equal(hsp_str_show(dst, 3, "a\xe2\x82\xac", 4, false), 4);
    assert_string_equal(dst, "a");
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
    assert_true(hsp_parse_ms("7d", &v) && v == 604800000);
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

/* One character each of 1, 2, 3 and 4 bytes. */
static const char all[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9d\x84\x9e";

static void a_cut_text_ends_with_a_whole_character(void **state)
{
    (void)state;
    static const size_t kept[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};
    for (size_t n = 0; n <= 10; n++) {
        char s[16];
        memcpy(s, all, n);
        s[n] = '\0';
        hsp_utf8_mend(s);
        assert_int_equal(strlen(s), kept[n]);
        assert_memory_equal(s, all, kept[n]);
        memset(s, 'x', sizeof(s));
        hsp_str_printf(s, n + 1, "%s", all);
        assert_int_equal(strlen(s), kept[n]);
        assert_memory_equal(s, all, kept[n]);
        assert_int_equal(s[n + 1], 'x');
    }
}

static void a_cut_text_for_people_ends_with_dots(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        const char *text;
    } cases[] = {{1, ""},
                 {4, "a\xc3\xa4"},
                 {5, "a..."},
                 {6, "a..."},
                 {7, "a\xc3\xa4..."},
                 {10, "a\xc3\xa4\xe2\x82\xac..."},
                 {11, all},
                 {16, all}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        char s[17];
        memset(s, 'x', sizeof(s));
        hsp_str_tell(s, cases[i].size, "%s", all);
        assert_string_equal(s, cases[i].text);
        assert_int_equal(s[cases[i].size], 'x');
    }
}

static void what_is_no_character_becomes_a_question_mark(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"\xff\xc3\xa4\x80", "?\xc3\xa4?"},
        {"\xc3z", "?z"},                        /* cut before something else */
        {"\xe2\x82z", "??z"},                   /* the same */
        {"\xc0\xaf\xed\xa0\x80.", "?????."},    /* overlong; a surrogate */
        {"\xf4\x90\x80\x80", "????"},           /* above U+10FFFF */
        {"a\xf0\x9d\x84", "a"},                 /* cut at the end */
        {"\xc3\xa4\xc3", "\xc3\xa4"},           /* the same */
        {"caf\xe9 r\xe9sum\xe9", "caf? r?sum"}, /* Latin-1: the last one looks like a cut */
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(pairs); i++) {
        char s[32];
        hsp_str_printf(s, sizeof(s), "%s", pairs[i][0]);
        assert_string_equal(s, pairs[i][1]);
        assert_true(hsp_utf8_valid((const uint8_t *)s, strlen(s)));
    }
}

HSP_TEST_FILE(str_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edit_distance_counts_edits),
        cmocka_unit_test(nearest_word_or_none),
        cmocka_unit_test(what_a_terminal_would_obey_is_shown),
        cmocka_unit_test(integers),
        cmocka_unit_test(reals),
        cmocka_unit_test(sizes),
        cmocka_unit_test(durations),
        cmocka_unit_test(names),
        cmocka_unit_test(utf8),
        cmocka_unit_test(a_cut_text_ends_with_a_whole_character),
        cmocka_unit_test(a_cut_text_for_people_ends_with_dots),
        cmocka_unit_test(what_is_no_character_becomes_a_question_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
