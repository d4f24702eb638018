/* Fails allocations of proto/text: trees, tables, layers and their writers. */
#include "tests/lib/testlib.h"

#include "proto/base/arena.h"
#include "proto/base/size.h"
#include "proto/text/layers.h"
#include "proto/text/yaml_parse.h"
#include "proto/text/yaml_read.h"
#include "proto/text/yaml_write.h"
#include "tests/lib/oom.h"

enum { ARENA = 4 << 20 };

static enum hsp_status no_arena(struct hsp_err *err)
{
    return hsp_err_set(err, HSP_ENOMEM, 0, "no arena");
}

static const char tree[] = "# a comment\n"
                           "name: \"w\\x41lker \\u00e9\"\n"
                           "list: [1, 2.5e-3, true, {a: 512MiB, b: 3s}, [], {}]\n"
                           "block: |\n  two\n  lines\n"
                           "deep:\n  - - x\n    - ~\n  - k1: v\n    k2: \"quoted: yes\"\n"
                           "'a key in quotes': plain text with blanks\n";

/* Parses a text, reads values by path and type, writes the tree as one line, parses that line, and
 * compares the trees. */
static enum hsp_status use_tree(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    (void)ctx;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return no_arena(err);
    }
    const struct hsp_yaml *y = NULL, *again = NULL;
    enum hsp_status st = hsp_yaml_parse("t.yaml", tree, sizeof tree - 1, a, &y, err);
    if (st == HSP_OK) {
        struct hsp_buf b;
        hsp_buf_init(&b, 1 << 16);
        hsp_yaml_put_flow(&b, y);
        st = b.failed ? hsp_err_set(err, HSP_ENOMEM, 0, "flow text")
                      : hsp_yaml_parse("flow", b.data, b.len, a, &again, err);
        assert_true(st != HSP_OK || hsp_yaml_equal(y, again));
        hsp_buf_append(out, b.data, b.len);
        hsp_buf_fini(&b);
    }
    if (st == HSP_OK) {
        const struct hsp_yaml *list = hsp_yaml_get(y, "list");
        uint64_t bytes = 0;
        assert_ok(hsp_yaml_bytes(hsp_yaml_get(&list->items[3], "a"), &bytes, err), err);
        hsp_yaml_put_bytes(out, bytes);
        hsp_yaml_put_ms(out, 1500);
        hsp_yaml_put_f64(out, 0.1);
        hsp_yaml_put_json_str(out, "a \"quote\"\n");
        hsp_yaml_put_str(out, "yes");
    }
    hsp_arena_free(a);
    return st;
}

static void a_tree_is_read_whole_or_there_was_no_memory(void **state)
{
    (void)state;
    hsp_oom_loop("yaml", use_tree, NULL, 2000);
}

/* A malformed text is never accepted: the parser returns the error of the text, or HSP_ENOMEM. */
static void a_malformed_text_is_never_taken(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "a: [1, 2", "a: 1\na: 2", "x: &a 1\ny: *a", "a: \"\\q\"", "- {a: b}\n- {a: b, a: c}",
        "\t- a",    "a: b: c"};
    for (size_t i = 0; i < HSP_ARRAY_LEN(bad); i++) {
        for (uint64_t n = 0, hit = 1; hit != 0; n++) {
            int64_t before = hsp_oom_live();
            struct hsp_err err = {0};
            const struct hsp_yaml *y;
            hsp_oom_arm(n, false);
            struct hsp_arena *a = hsp_arena_new(ARENA);
            enum hsp_status st = HSP_ENOMEM;
            if (a != NULL) {
                st = hsp_yaml_parse("t", bad[i], strlen(bad[i]), a, &y, &err);
                hsp_arena_free(a);
            }
            hit = hsp_oom_disarm() || n == 0;
            assert_true(st == HSP_EPARSE || (st == HSP_ENOMEM && hit && n > 0));
            assert_int_equal(hsp_oom_live(), before);
        }
    }
}

static void every_writer_of_values_says_that_memory_ran_out(void **state)
{
    (void)state;
    struct hsp_buf b;
    hsp_oom_empty(&b);
    hsp_yaml_put_bytes(&b, 1024);
    hsp_oom_nothing(&b);
    hsp_oom_empty(&b);
    hsp_yaml_put_ms(&b, 1500);
    hsp_oom_nothing(&b);
    hsp_oom_empty(&b);
    hsp_yaml_put_f64(&b, 0.5);
    hsp_oom_nothing(&b);
    hsp_oom_empty(&b);
    hsp_yaml_put_str(&b, "text");
    hsp_oom_nothing(&b);
    hsp_oom_empty(&b);
    hsp_yaml_put_json_str(&b, "text");
    hsp_oom_nothing(&b);
}

struct config {
    const char *name, *note;
    int64_t layers;
    double betas[2];
    uint64_t memory, timeout_ms;
    bool tied;
    int optimizer;
    struct hsp_strs plans;
    const struct hsp_yaml *devices;
};

static const char *const optimizers[] = {"adamw", "sgd", NULL};
#define AT(member) .offset = offsetof(struct config, member)
static const struct hsp_cfg_field fields[] = {
    {.path = "name", .type = HSP_FIELD_STR, AT(name), .required = true, .help = "of the job"},
    {.path = "note", .type = HSP_FIELD_STR, AT(note)},
    {.path = "model.layers", .type = HSP_FIELD_I64, AT(layers), .dflt = "2", .min = 1, .max = 99},
    {.path = "model.tied", .type = HSP_FIELD_BOOL, AT(tied), .dflt = "true"},
    {.path = "optimizer",
     .type = HSP_FIELD_CHOICE,
     AT(optimizer),
     .dflt = "adamw",
     .choices = optimizers,
     .live = true},
    {.path = "betas",
     .type = HSP_FIELD_F64,
     AT(betas),
     .dflt = "[0.9, 0.95]",
     .count = 2,
     .max = 0.9999,
     .live = true},
    {.path = "memory", .type = HSP_FIELD_BYTES, AT(memory), .dflt = "1GiB", .live = true},
    {.path = "timeout", .type = HSP_FIELD_MS, AT(timeout_ms), .dflt = "3s", .live = true},
    {.path = "plans", .type = HSP_FIELD_STRS, AT(plans), .dflt = "[]"},
    {.path = "devices", .type = HSP_FIELD_NODE, AT(devices)},
};
enum { N_FIELDS = HSP_ARRAY_LEN(fields) };

static const char file[] =
    "name: n\nmodel: {layers: 7}\nbetas: [0.5, 0.25]\nplans: [a, b]\ndevices: [{mem: 1}]\n";

/* Writes a value to a buffer of its own, so that each write needs memory. */
static void put_alone(const struct hsp_cfg_field *f, const struct config *c, struct hsp_buf *out)
{
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 10);
    hsp_field_put(f, c, &b);
    hsp_buf_append(out, b.data, b.len);
    out->failed = out->failed || b.failed;
    hsp_buf_fini(&b);
}

static enum hsp_status use_fields(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    (void)ctx;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return no_arena(err);
    }
    const struct hsp_yaml *y = NULL;
    struct config c = {0};
    bool set[N_FIELDS];
    enum hsp_status st = hsp_yaml_parse("f", file, sizeof file - 1, a, &y, err);
    if (st == HSP_OK) {
        st = hsp_fields_load(fields, N_FIELDS, y, a, &c, set, err);
    }
    if (st == HSP_OK) {
        hsp_fields_print(fields, N_FIELDS, &c, set, true, out);
        for (size_t i = 0; i < N_FIELDS; i++) {
            if (!hsp_field_absent(&fields[i], &c)) {
                put_alone(&fields[i], &c, out);
            }
        }
    }
    hsp_arena_free(a);
    return st;
}

static enum hsp_status use_layers(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    (void)ctx;
    static char first[] = "APP_NAME=by the environment", second[] = "APP_MEMORY=2GiB";
    char *env[] = {first, second, NULL};
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return no_arena(err);
    }
    struct config c = {0}, d = {0};
    const char *origin[N_FIELDS] = {0};
    struct hsp_layers l = {.name = "f", .text = file, .len = sizeof file - 1};
    enum hsp_status st = hsp_layers_env(&l, "APP_", env, a, err);
    st = st != HSP_OK ? st : hsp_layers_load(&l, fields, N_FIELDS, a, &c, origin, err);
    st = st != HSP_OK ? st : hsp_layers_arg(&l, "timeout=9s", a, err);
    st = st != HSP_OK ? st : hsp_layers_arg(&l, "note=other", a, err);
    st = st != HSP_OK ? st : hsp_layers_load(&l, fields, N_FIELDS, a, &d, NULL, err);
    if (st == HSP_OK) {
        struct hsp_buf rest;
        hsp_buf_init(&rest, 1 << 16);
        hsp_layers_print(fields, N_FIELDS, &c, origin, out);
        hsp_layers_apply(fields, N_FIELDS, &c, &d, out, &rest);
        hsp_layers_example(fields, N_FIELDS, "what it is\n", out);
        hsp_buf_puts(out, hsp_buf_cstr(&rest));
        out->failed = out->failed || rest.failed;
        assert_int_equal(c.timeout_ms, 9000);
        assert_null(c.note);
        hsp_buf_fini(&rest);
    }
    hsp_arena_free(a);
    return st;
}

static void a_table_is_filled_whole_or_there_was_no_memory(void **state)
{
    (void)state;
    hsp_oom_loop("fields", use_fields, NULL, 2000);
    hsp_oom_loop("layers", use_layers, NULL, 2000);
}

HSP_TEST_FILE(oom_text_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_is_read_whole_or_there_was_no_memory),
        cmocka_unit_test(a_malformed_text_is_never_taken),
        cmocka_unit_test(every_writer_of_values_says_that_memory_ran_out),
        cmocka_unit_test(a_table_is_filled_whole_or_there_was_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
