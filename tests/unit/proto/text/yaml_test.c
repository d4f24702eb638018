#include "tests/lib/testlib.h"

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/size.h"
#include "proto/text/yaml.h"
#include "proto/text/yaml_parse.h"
#include "proto/text/yaml_read.h"
#include "proto/text/yaml_write.h"

static const struct hsp_yaml *parse(void **state, const char *text)
{
    struct hsp_err err = {0};
    const struct hsp_yaml *root = NULL;
    assert_ok(hsp_yaml_parse("f.yaml", text, strlen(text), *state, &root, &err), &err);
    return root;
}

static void expect_error(void **state, const char *text, enum hsp_status code, const char *msg)
{
    struct hsp_err err = {0};
    const struct hsp_yaml *root = NULL;
    assert_status(hsp_yaml_parse("f.yaml", text, strlen(text), *state, &root, &err), code);
    assert_err(&err, code, msg);
    assert_null(root);
}

static void a_tree_with_positions(void **state)
{
    const struct hsp_yaml *r = parse(state, "name: kjv\n"
                                            "model: {layers: 4, tied: true}\n"
                                            "list:\n"
                                            "  - 1.5\n"
                                            "  - \"two\"\n"
                                            "empty:\n");
    assert_int_equal(r->kind, HSP_YAML_MAP);
    assert_int_equal(r->n, 4);
    const struct hsp_yaml *layers = hsp_yaml_find(r, "model.layers");
    assert_non_null(layers);
    assert_int_equal(layers->line, 2);
    assert_int_equal(layers->column, 17);
    assert_int_equal(layers->key_column, 9);
    const struct hsp_yaml *list = hsp_yaml_get(r, "list");
    assert_int_equal(list->kind, HSP_YAML_SEQ);
    assert_int_equal(list->n, 2);
    assert_string_equal(list->items[1].text, "two");
    assert_true(list->items[1].quoted);
    assert_int_equal(list->items[1].line, 5);
    assert_int_equal(hsp_yaml_get(r, "empty")->kind, HSP_YAML_NULL);
    assert_null(hsp_yaml_get(r, "nothing"));
    assert_null(hsp_yaml_get(list, "x"));
    assert_null(hsp_yaml_find(r, "name.x"));
    assert_null(hsp_yaml_find(NULL, "x"));
}

static void json_is_yaml(void **state)
{
    const struct hsp_yaml *r = parse(state, "{\"a\": [1, -2.5e3, true, null, \"x\\u0041\\n\"]}");
    const struct hsp_yaml *a = hsp_yaml_get(r, "a");
    double d = 0;
    bool yes = false;
    const char *s = NULL;
    assert_status(hsp_yaml_f64(&a->items[1], -1e9, 1e9, &d, NULL), HSP_OK);
    assert_near(d, -2500, 0);
    assert_status(hsp_yaml_bool(&a->items[2], &yes, NULL), HSP_OK);
    assert_true(yes);
    assert_int_equal(a->items[3].kind, HSP_YAML_NULL);
    assert_status(hsp_yaml_str(&a->items[4], &s, NULL), HSP_OK);
    assert_string_equal(s, "xA\n");
}

static void empty_texts_are_null(void **state)
{
    assert_int_equal(parse(state, "")->kind, HSP_YAML_NULL);
    assert_int_equal(parse(state, "# only a comment\n")->kind, HSP_YAML_NULL);
    assert_int_equal(parse(state, "---\n...\n")->kind, HSP_YAML_NULL);
    const struct hsp_yaml *root = NULL;
    assert_status(hsp_yaml_parse("f", NULL, 0, *state, &root, NULL), HSP_OK);
}

static void malformed_texts_are_refused_with_their_place(void **state)
{
    expect_error(state, "a: [1, 2\nb: 3\n", HSP_EPARSE,
                 "f.yaml:2:2: did not find expected ',' or ']'");
    expect_error(state, "a: 1\n\tb: 2\n", HSP_EPARSE,
                 "f.yaml:2:1: found a tab character that violates indentation; indent with blanks, "
                 "not with tabs");
    expect_error(state, "a:\n\tb: 2\n", HSP_EPARSE,
                 "f.yaml:2:1: found character that cannot start any token; indent with blanks, not "
                 "with tabs");
    expect_error(state, "# \u00e4\u20ac\na:\n\tb: 2\n", HSP_EPARSE,
                 "f.yaml:3:1: found character that cannot start any token; indent with blanks, not "
                 "with tabs");
    expect_error(state, "\ufeffa:\n\tb: 2\n", HSP_EPARSE,
                 "f.yaml:2:1: found character that cannot start any token; indent with blanks, not "
                 "with tabs");
    expect_error(state, "a: 1\nb: c: d\n", HSP_EPARSE,
                 "f.yaml:2:5: mapping values are not allowed in this context; a value that holds "
                 "\": \" stands in quotes");
    expect_error(state, "a: @1\n", HSP_EPARSE,
                 "f.yaml:1:4: found character that cannot start any token");
    expect_error(state, "a:\n  b 2\n  c: 3\n", HSP_EPARSE,
                 "f.yaml:3:4: mapping values are not allowed in this context; the line above may "
                 "lack the \": \" behind its key, or be indented otherwise");
    expect_error(state, "a: 1\nb: 2\na: 3\n", HSP_EPARSE, "f.yaml:3:1: key \"a\" appears twice");
    expect_error(state, "[1]: 2\n", HSP_EPARSE, "f.yaml:1:1: a key must be a scalar");
    expect_error(state, "a: &x 1\nb: *x\n", HSP_EPARSE,
                 "f.yaml:1:4: anchors and tags are not supported");
    expect_error(state, "a: &x [1]\n", HSP_EPARSE,
                 "f.yaml:1:4: anchors and tags are not supported");
    expect_error(state, "a: *x\n", HSP_EPARSE, "f.yaml:1:4: aliases are not supported");
    expect_error(state, "*x : 1\n", HSP_EPARSE, "f.yaml:1:1: aliases are not supported");
    expect_error(state, "a: !!int 1\n", HSP_EPARSE,
                 "f.yaml:1:4: anchors and tags are not supported");
    expect_error(state, "a: 1\n---\nb: 2\n", HSP_EPARSE, "f.yaml:2:1: more than one document");
    expect_error(state, "a: \"\\0\"\n", HSP_EPARSE, "f.yaml:1:4: text contains a NUL character");
    expect_error(state, "a: \xff\n", HSP_EPARSE, "f.yaml:1:1: invalid leading UTF-8 octet");
}

static void limits_are_enforced(void **state)
{
    char deep[2 * HSP_YAML_MAX_DEPTH + 3];
    memset(deep, '[', HSP_YAML_MAX_DEPTH + 1);
    memset(deep + HSP_YAML_MAX_DEPTH + 1, ']', HSP_YAML_MAX_DEPTH + 1);
    deep[2 * HSP_YAML_MAX_DEPTH + 2] = '\0';
    expect_error(state, deep, HSP_ELIMIT, "f.yaml:1:33: nested too deeply");
    deep[2 * HSP_YAML_MAX_DEPTH + 1] = '\0';
    (void)parse(state, deep + 1);

    struct hsp_err err = {0};
    const struct hsp_yaml *root = NULL;
    assert_status(hsp_yaml_parse("f", "", (size_t)HSP_YAML_MAX_BYTES + 1, *state, &root, &err),
                  HSP_ELIMIT);
    assert_err(&err, HSP_ELIMIT, "f: 16777217 bytes, the limit is 16777216");

    struct hsp_buf b;
    hsp_buf_init(&b, HSP_YAML_MAX_BYTES);
    hsp_buf_puts(&b, "[");
    for (int i = 0; i < HSP_YAML_MAX_NODES; i++) {
        hsp_buf_puts(&b, "1,");
    }
    hsp_buf_puts(&b, "]");
    struct hsp_arena *big = hsp_arena_new((size_t)1 << 30);
    assert_status(hsp_yaml_parse("f", b.data, b.len, big, &root, &err), HSP_ELIMIT);
    assert_non_null(strstr(err.msg, "too many values"));
    hsp_arena_free(big);
    hsp_buf_fini(&b);
}

/* Parses a text with every memory limit. Each time the parser succeeds or reports "out of memory",
 * and leaks nothing (ASan). */
static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    static const char text[] = "a: {b: [1, 2, {c: d}], e: \"f\"}\ng: h\n";
    bool passed = false;
    for (size_t cap = 0; cap < 4096 && !passed; cap += 16) {
        struct hsp_arena *a = hsp_arena_new(cap);
        const struct hsp_yaml *root = NULL;
        struct hsp_err err = {0};
        enum hsp_status rc = hsp_yaml_parse("f", text, strlen(text), a, &root, &err);
        assert_true(rc == HSP_OK || rc == HSP_ENOMEM);
        passed = rc == HSP_OK;
        hsp_arena_free(a);
    }
    assert_true(passed);
}

struct scalar_case {
    const char *text;
    const char *msg; /* behind "f.yaml:1:4: " */
};

static void typed_errors_name_key_and_value(void **state)
{
    static const struct scalar_case ints[] = {
        {"k: four", "k: wanted an integer, found \"four\""},
        {"k: 1.5", "k: wanted an integer, found \"1.5\""},
        {"k: \"4\"", "k: wanted an integer, found \"4\" in quotes"},
        {"k: [1]", "k: wanted an integer, found a list"},
        {"k: {a: 1}", "k: wanted an integer, found a map"},
        {"k: 11", "k: 11 is outside -10 to 10"},
        {"k: -11", "k: -11 is outside -10 to 10"},
        {"k: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "k: wanted an integer, found \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\""},
        {"k: \"a\\e[2Jb\"", "k: wanted an integer, found \"a?[2Jb\" in quotes"},
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(ints); i++) {
        const struct hsp_yaml *k = hsp_yaml_get(parse(state, ints[i].text), "k");
        struct hsp_err err = {0};
        int64_t v = 7;
        assert_status(hsp_yaml_i64(k, -10, 10, &v, &err), HSP_EPARSE);
        assert_memory_equal(err.msg, "f.yaml:1:4: ", 12);
        assert_string_equal(err.msg + 12, ints[i].msg);
        assert_int_equal(v, 7);
    }
}

static void every_type_refuses_what_it_is_not(void **state)
{
    const struct hsp_yaml *r = parse(state, "k: no\n");
    const struct hsp_yaml *k = hsp_yaml_get(r, "k");
    struct hsp_err err = {0};
    uint64_t u;
    double d;
    bool b;
    const char *s;
    size_t i;
    static const char *const names[] = {"adamw", "sgd", "none"};
    assert_status(hsp_yaml_u64(k, 0, 5, &u, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:4: k: wanted a non-negative integer, found \"no\"");
    assert_status(hsp_yaml_f64(k, 0, 5, &d, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:4: k: wanted a number, found \"no\"");
    assert_status(hsp_yaml_bool(k, &b, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:4: k: wanted true or false, found \"no\"");
    assert_status(hsp_yaml_bytes(k, &u, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:4: k: wanted a size such as 512MiB, found \"no\"");
    assert_status(hsp_yaml_ms(k, &u, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:4: k: wanted a duration such as 3s, found \"no\"");
    assert_status(hsp_yaml_choice(k, names, 3, &i, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:4: k: wanted adamw, sgd or none, found \"no\"");
    assert_status(hsp_yaml_str(r, &s, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:1: wanted a text, found a map");
    assert_status(hsp_yaml_expect(k, HSP_YAML_SEQ, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:4: k: wanted a list, found \"no\"");
    assert_status(hsp_yaml_expect(k, HSP_YAML_MAP, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:4: k: wanted a map, found \"no\"");
    k = hsp_yaml_get(parse(state, "k: 7"), "k");
    assert_status(hsp_yaml_u64(k, 0, 5, &u, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:4: k: 7 is outside 0 to 5");
    assert_status(hsp_yaml_f64(k, 0, 0.5, &d, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:4: k: 7 is outside 0 to 0.5");
    k = hsp_yaml_get(parse(state, "k:"), "k");
    assert_status(hsp_yaml_str(k, &s, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:3: k: wanted a text, found nothing");
    k = hsp_yaml_get(parse(state, "{\"k\": \"2GiB\"}"), "k");
    assert_status(hsp_yaml_bytes(k, &u, &err), HSP_OK);
    assert_true(u == 2ULL << 30);
}

static void unknown_keys_come_with_the_nearest(void **state)
{
    static const char *const known[] = {"layers", "hidden"};
    struct hsp_err err = {0};
    assert_status(hsp_yaml_check_keys(parse(state, "hidden: 1\nlayer: 2"), known, 2, &err),
                  HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:2:1: unknown key \"layer\", did you mean \"layers\"?");
    assert_status(hsp_yaml_check_keys(parse(state, "optimizer: 1"), known, 2, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE,
               "f.yaml:1:1: unknown key \"optimizer\"; there are layers and hidden");
#define LONG "-key-of-fifty-characters-01234567890123456789012345"
    static const char *const many[] = {"a" LONG, "optimum" LONG, "b" LONG, "opt" LONG,
                                       "optics" LONG};
    assert_status(hsp_yaml_check_keys(parse(state, "optimizer: 1"), many, 5, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE,
               "f.yaml:1:1: unknown key \"optimizer\"; the nearest of 5 are a" LONG ", b" LONG
               " and opt" LONG);
    static const char *const model[] = {"family",     "layers",       "hidden",         "heads",
                                        "kv_heads",   "intermediate", "vocab",          "sequence",
                                        "rope_theta", "rms_norm_eps", "vocab_parallel", "tied_head",
                                        "dropout"};
    assert_status(hsp_yaml_check_keys(parse(state, "seq_len: 1"), model, 13, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE,
               "f.yaml:1:1: unknown key \"seq_len\"; there are family, layers, hidden, heads, "
               "kv_heads, intermediate, vocab, sequence, rope_theta, rms_norm_eps, vocab_parallel, "
               "tied_head and dropout");
    assert_status(hsp_yaml_check_keys(parse(state, "hidden_size: 1"), known, 2, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE,
               "f.yaml:1:1: unknown key \"hidden_size\", did you mean \"hidden\"?");
    assert_status(hsp_yaml_check_keys(parse(state, "head: 1"), model, 13, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:1: unknown key \"head\", did you mean \"heads\"?");
    assert_status(hsp_yaml_check_keys(parse(state, "rope: 1"), model, 13, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, "f.yaml:1:1: unknown key \"rope\", did you mean \"rope_theta\"?");
    assert_status(hsp_yaml_check_keys(parse(state, "layers: 1"), known, 2, &err), HSP_OK);
}

static void scalars_written_read_back_the_same(void **state)
{
    static const char *const texts[] = {"plain",
                                        "a b",
                                        "",
                                        "null",
                                        "~",
                                        "true",
                                        "12",
                                        "-x",
                                        "a:b",
                                        "a\"b\\c",
                                        "#x",
                                        "tab\there",
                                        "line\nbreak",
                                        "\x01\x7f",
                                        "/srv/a-b_c.txt",
                                        "\xc3\xa9t\xc3\xa9",
                                        "y",
                                        "1e3",
                                        ".5"};
    for (size_t i = 0; i < HSP_ARRAY_LEN(texts); i++) {
        struct hsp_buf b;
        hsp_buf_init(&b, 1000);
        hsp_buf_puts(&b, "{k: ");
        hsp_yaml_put_str(&b, texts[i]);
        hsp_buf_puts(&b, "}");
        const char *s = NULL;
        struct hsp_err err = {0};
        assert_ok(hsp_yaml_str(hsp_yaml_get(parse(state, hsp_buf_cstr(&b)), "k"), &s, &err), &err);
        assert_string_equal(s, texts[i]);
        hsp_buf_fini(&b);
    }
}

static void numbers_written_are_short_and_exact(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *text;
    } cases[] = {{0.1, "0.1"}, {1e-3, "0.001"},  {3, "3"}, {1.0 / 3, "0.333333333333333315"},
                 {-0.0, "-0"}, {1e300, "1e+300"}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        struct hsp_buf b;
        hsp_buf_init(&b, 100);
        hsp_yaml_put_f64(&b, cases[i].v);
        if (i != 3) {
            assert_string_equal(hsp_buf_cstr(&b), cases[i].text);
        }
        assert_true(strtod(hsp_buf_cstr(&b), NULL) == cases[i].v);
        hsp_buf_fini(&b);
    }
    struct hsp_buf b;
    hsp_buf_init(&b, 200);
    hsp_yaml_put_bytes(&b, 3ULL << 29);
    hsp_buf_puts(&b, " ");
    hsp_yaml_put_bytes(&b, 1000);
    hsp_buf_puts(&b, " ");
    hsp_yaml_put_bytes(&b, 0);
    hsp_buf_puts(&b, " ");
    hsp_yaml_put_ms(&b, 1500);
    hsp_buf_puts(&b, " ");
    hsp_yaml_put_ms(&b, 3000);
    hsp_buf_puts(&b, " ");
    hsp_yaml_put_ms(&b, 120000);
    hsp_buf_puts(&b, " ");
    hsp_yaml_put_ms(&b, 7200000);
    assert_string_equal(hsp_buf_cstr(&b), "1536MiB 1000 0 1500ms 3s 2m 2h");
    hsp_buf_fini(&b);
}

/* A random tree as text, depth bounded. */
static void random_tree(struct hsp_buf *b, uint64_t *i, int depth)
{
    int64_t kind = hsp_test_range("kind", (*i)++, 0, depth > 3 ? 3 : 5);
    int64_t n = hsp_test_range("n", (*i)++, 0, 4);
    static const char *const leaves[] = {"null", "12", "-1.5e3", "\"q: x\"", "word", "true"};
    if (kind <= 3) {
        hsp_buf_puts(b, leaves[hsp_test_range("leaf", (*i)++, 0, 5)]);
        return;
    }
    hsp_buf_puts(b, kind == 4 ? "[" : "{");
    for (int64_t k = 0; k < n; k++) {
        hsp_buf_puts(b, k > 0 ? ", " : "");
        if (kind == 5) {
            hsp_buf_printf(b, "\"key %lld\": ", (long long)k);
        }
        random_tree(b, i, depth + 1);
    }
    hsp_buf_puts(b, kind == 4 ? "]" : "}");
}

static void dumped_trees_parse_to_equal_trees(void **state)
{
    uint64_t draw = 0;
    for (int trial = 0; trial < 200; trial++) {
        struct hsp_buf in, out;
        hsp_buf_init(&in, 1 << 20);
        hsp_buf_init(&out, 1 << 20);
        hsp_buf_puts(&in, "[");
        random_tree(&in, &draw, 0);
        hsp_buf_puts(&in, "]");
        const struct hsp_yaml *a = parse(state, hsp_buf_cstr(&in));
        hsp_yaml_put_flow(&out, a);
        const struct hsp_yaml *b = parse(state, hsp_buf_cstr(&out));
        assert_true(hsp_yaml_equal(a, b));
        hsp_buf_fini(&in);
        hsp_buf_fini(&out);
    }
    assert_false(hsp_yaml_equal(parse(state, "[a, b]"), parse(state, "[a, c]")));
    assert_false(hsp_yaml_equal(parse(state, "{a: b}"), parse(state, "{c: b}")));
    assert_false(hsp_yaml_equal(parse(state, "[a]"), parse(state, "[a, a]")));
}

/* The parser ends with a status on any bytes. */
static void random_bytes_never_crash(void **state)
{
    (void)state;
    static const char alphabet[] = "abc:{}[],\"'\\ \n\t-#&*!|>%@0?\x80";
    for (uint64_t trial = 0; trial < 3000; trial++) {
        char text[64];
        size_t n = (size_t)hsp_test_range("len", trial, 0, sizeof(text));
        for (size_t i = 0; i < n; i++) {
            text[i] = alphabet[hsp_test_rand("byte", trial * 64 + i) % (sizeof(alphabet) - 1)];
        }
        struct hsp_arena *a = hsp_arena_new(1 << 16);
        const struct hsp_yaml *root = NULL;
        struct hsp_err err = {0};
        enum hsp_status rc = hsp_yaml_parse("f", text, n, a, &root, &err);
        assert_true(rc == HSP_OK || rc == HSP_EPARSE);
        assert_true((rc == HSP_OK) == (root != NULL));
        hsp_arena_free(a);
    }
}

HSP_TEST_FILE(yaml_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_with_positions),
        cmocka_unit_test(json_is_yaml),
        cmocka_unit_test(empty_texts_are_null),
        cmocka_unit_test(malformed_texts_are_refused_with_their_place),
        cmocka_unit_test(limits_are_enforced),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(typed_errors_name_key_and_value),
        cmocka_unit_test(every_type_refuses_what_it_is_not),
        cmocka_unit_test(unknown_keys_come_with_the_nearest),
        cmocka_unit_test(scalars_written_read_back_the_same),
        cmocka_unit_test(numbers_written_are_short_and_exact),
        cmocka_unit_test(dumped_trees_parse_to_equal_trees),
        cmocka_unit_test(random_bytes_never_crash),
    };
    return cmocka_run_group_tests(tests, hsp_test_arena_begin, hsp_test_arena_end);
}
