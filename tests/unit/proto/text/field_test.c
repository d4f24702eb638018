#include "tests/lib/testlib.h"

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/size.h"
#include "proto/text/field.h"
#include "proto/text/yaml_parse.h"

enum optimizer { ADAMW, SGD };
static const char *const optimizers[] = {"adamw", "sgd", NULL};

struct config {
    const char *name;
    const char *note;
    int64_t layers;
    uint32_t port;
    uint64_t seed;
    double lr;
    double betas[2];
    bool tied;
    uint64_t memory;
    uint64_t timeout_ms;
    int optimizer;
    struct hsp_strs plans;
    const struct hsp_yaml *devices;
};

#define AT(member) .offset = offsetof(struct config, member)
static const struct hsp_cfg_field fields[] = {
    {.path = "name", .type = HSP_FIELD_STR, AT(name), .required = true, .help = "of the job"},
    {.path = "note", .type = HSP_FIELD_STR, AT(note)},
    {.path = "model.layers", .type = HSP_FIELD_I64, AT(layers), .dflt = "2", .min = 1, .max = 99},
    {.path = "model.tied", .type = HSP_FIELD_BOOL, AT(tied), .dflt = "true"},
    {.path = "train.seed", .type = HSP_FIELD_U64, AT(seed), .dflt = "1"},
    {.path = "train.optimizer.name",
     .type = HSP_FIELD_CHOICE,
     AT(optimizer),
     .dflt = "adamw",
     .choices = optimizers,
     .help = "adamw or sgd"},
    {.path = "train.optimizer.lr", .type = HSP_FIELD_F64, AT(lr), .dflt = "1e-3", .max = 1},
    {.path = "train.optimizer.betas",
     .type = HSP_FIELD_F64,
     AT(betas),
     .dflt = "[0.9, 0.95]",
     .count = 2,
     .max = 0.9999},
    {.path = "port", .type = HSP_FIELD_U32, AT(port), .dflt = "7071", .min = 1, .max = 65535},
    {.path = "memory",
     .type = HSP_FIELD_BYTES,
     AT(memory),
     .dflt = "1GiB",
     .min = 1 << 20,
     .max = (double)(1ULL << 40)},
    {.path = "timeout",
     .type = HSP_FIELD_MS,
     AT(timeout_ms),
     .dflt = "3s",
     .min = 100,
     .max = 60000},
    {.path = "annotations", .type = HSP_FIELD_STRS, AT(plans)},
    {.path = "devices", .type = HSP_FIELD_NODE, AT(devices)},
};
#undef AT
enum { N = HSP_ARRAY_LEN(fields) };

static enum hsp_status load(void **state, const char *text, struct config *c, bool *set,
                            struct hsp_err *err)
{
    const struct hsp_yaml *root = NULL;
    assert_ok(hsp_yaml_parse("c.yaml", text, strlen(text), *state, &root, err), err);
    return hsp_fields_load(fields, N, root, *state, c, set, err);
}

static void defaults_fill_what_the_file_leaves_out(void **state)
{
    struct config c;
    struct hsp_err err = {0};
    bool set[N];
    memset(&c, 0xAA, sizeof(c));
    assert_ok(load(state, "name: x\ntrain:\n", &c, set, &err), &err);
    assert_string_equal(c.name, "x");
    assert_null(c.note);
    assert_int_equal(c.layers, 2);
    assert_int_equal(c.port, 7071);
    assert_true(c.tied && c.seed == 1 && c.memory == 1ULL << 30 && c.timeout_ms == 3000);
    assert_near(c.lr, 1e-3, 0);
    assert_near(c.betas[1], 0.95, 0);
    assert_int_equal(c.optimizer, ADAMW);
    assert_int_equal(c.plans.n, 0);
    assert_null(c.devices);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(set[i], i == 0);
    }
}

static void the_file_wins(void **state)
{
    struct config c;
    struct hsp_err err = {0};
    assert_ok(load(state,
                   "name: x\nnote: hello there\nmodel: {layers: 4, tied: false}\n"
                   "train: {seed: 18446744073709551615, optimizer: {name: sgd, lr: 0.5, "
                   "betas: [0.1, 0.2]}}\nport: 1\nmemory: 512MiB\ntimeout: 250ms\n"
                   "annotations: [a.yaml, b.yaml]\ndevices: [{kind: cpu}]\n",
                   &c, NULL, &err),
              &err);
    assert_string_equal(c.note, "hello there");
    assert_int_equal(c.layers, 4);
    assert_false(c.tied);
    assert_true(c.seed == UINT64_MAX && c.port == 1 && c.memory == 512ULL << 20);
    assert_int_equal(c.timeout_ms, 250);
    assert_int_equal(c.optimizer, SGD);
    assert_near(c.betas[0], 0.1, 0);
    assert_int_equal(c.plans.n, 2);
    assert_string_equal(c.plans.items[1], "b.yaml");
    assert_int_equal(c.devices->n, 1);
    assert_ok(load(state, "{name: x, annotations: a.yaml, devices: }", &c, NULL, &err), &err);
    assert_int_equal(c.plans.n, 1);
    assert_null(c.devices);
}

static void every_error_has_its_place(void **state)
{
    static const struct {
        const char *text, *msg;
    } cases[] = {
        {"port: 1\n", "c.yaml:1:1: key \"name\" is missing"},
        {"", "c.yaml:1:1: key \"name\" is missing"},
        {"[1]", "c.yaml:1:1: wanted a map, found a list"},
        {"name: x\nmodle: {}\n", "c.yaml:2:1: unknown key \"modle\", did you mean \"model\"?"},
        {"name: x\nmodel:\n  layer: 3\n",
         "c.yaml:3:3: unknown key \"layer\", did you mean \"layers\"?"},
        {"name: x\ntrain: {optimizer: {learning_rate: 1}}",
         "c.yaml:2:21: unknown key \"learning_rate\"; there are name, lr and betas"},
        {"name: x\nmodel.layers: 3\n",
         "c.yaml:2:1: unknown key \"model.layers\", did you mean \"model\"?"},
        {"name: x\nmodel: 3\n", "c.yaml:2:8: model: wanted a map, found \"3\""},
        {"name: x\nmodel: {layers: 0}\n", "c.yaml:2:17: layers: 0 is outside 1 to 99"},
        {"name: x\nmodel: {layers: }\n", "c.yaml:2:17: layers: wanted an integer, found nothing"},
        {"name: x\ntrain: {optimizer: {name: adam}}",
         "c.yaml:2:27: name: wanted adamw or sgd, found \"adam\""},
        {"name: x\ntrain: {optimizer: {betas: [1]}}",
         "c.yaml:2:28: betas: wanted a list of 2 numbers"},
        {"name: x\ntrain: {optimizer: {betas: [0.5, 1]}}",
         "c.yaml:2:34: betas: 1 is outside 0 to 0.9999"},
        {"name: x\nport: 70000\n", "c.yaml:2:7: port: 70000 is outside 1 to 65535"},
        {"name: x\nmemory: 1K\n", "c.yaml:2:9: memory: 1K is outside 1MiB to 1TiB"},
        {"name: x\ntimeout: 2h\n", "c.yaml:2:10: timeout: 2h is outside 100ms to 1m"},
        {"name: x\nannotations: [a, [b]]\n",
         "c.yaml:2:18: annotations: wanted a text, found a list"},
        {"name: [x]\n", "c.yaml:1:7: name: wanted a text, found a list"},
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        struct config c;
        struct hsp_err err = {0};
        assert_status(load(state, cases[i].text, &c, NULL, &err), HSP_EPARSE);
        assert_err(&err, HSP_EPARSE, cases[i].msg);
    }
}

/* The line of an error about a missing key is that of the innermost map that the file has, where
 * the key can be added. */
static void a_missing_key_is_told_at_its_map(void **state)
{
    static const struct hsp_cfg_field inner[] = {
        {.path = "train.optimizer.lr", .type = HSP_FIELD_F64, .required = true}};
    static const struct {
        const char *text, *msg;
    } cases[] = {
        {"# a job\ntrain:\n", "c.yaml:2:1: key \"train.optimizer.lr\" is missing"},
        {"# a job\ntrain:\n  optimizer:\n", "c.yaml:3:3: key \"train.optimizer.lr\" is missing"},
        {"{}", "c.yaml:1:1: key \"train.optimizer.lr\" is missing"},
        {"train: {optimizer: {}}", "c.yaml:1:9: key \"train.optimizer.lr\" is missing"},
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        double lr;
        struct hsp_err err = {0};
        const struct hsp_yaml *root = NULL;
        assert_ok(
            hsp_yaml_parse("c.yaml", cases[i].text, strlen(cases[i].text), *state, &root, &err),
            &err);
        assert_status(hsp_fields_load(inner, 1, root, *state, &lr, NULL, &err), HSP_EPARSE);
        assert_err(&err, HSP_EPARSE, cases[i].msg);
    }
}

static void print_marks_defaults_and_reads_back(void **state)
{
    struct config c, again;
    struct hsp_err err = {0};
    bool set[N];
    assert_ok(
        load(state, "name: x y\ntrain: {optimizer: {lr: 0.25}}\nannotations: [p]\n", &c, set, &err),
        &err);
    struct hsp_buf b;
    hsp_buf_init(&b, 10000);
    hsp_fields_print(fields, N, &c, set, true, &b);
    assert_string_equal(hsp_buf_cstr(&b), "# of the job\n"
                                          "name: \"x y\"\n"
                                          "model:\n"
                                          "  layers: 2  # default\n"
                                          "  tied: true  # default\n"
                                          "train:\n"
                                          "  seed: 1  # default\n"
                                          "  optimizer:\n"
                                          "    # adamw or sgd\n"
                                          "    name: adamw  # default\n"
                                          "    lr: 0.25\n"
                                          "    betas: [0.9, 0.95]  # default\n"
                                          "port: 7071  # default\n"
                                          "memory: 1GiB  # default\n"
                                          "timeout: 3s  # default\n"
                                          "annotations: [p]\n");
    assert_ok(load(state, hsp_buf_cstr(&b), &again, NULL, &err), &err);
    assert_string_equal(again.name, "x y");
    assert_near(again.lr, 0.25, 0);
    assert_true(again.memory == c.memory && again.timeout_ms == c.timeout_ms);
    hsp_buf_fini(&b);
}

HSP_TEST_FILE(field_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_fill_what_the_file_leaves_out),
        cmocka_unit_test(the_file_wins),
        cmocka_unit_test(every_error_has_its_place),
        cmocka_unit_test(a_missing_key_is_told_at_its_map),
        cmocka_unit_test(print_marks_defaults_and_reads_back),
    };
    return cmocka_run_group_tests(tests, hsp_test_arena_begin, hsp_test_arena_end);
}
