/* Parses YAML: an accepted text gives a tree inside the bounds; printed on one line it reads back
 * as an equal tree. */
#include <string.h>

#include "proto/text/yaml.h"
#include "proto/text/yaml_parse.h"
#include "proto/text/yaml_read.h"
#include "proto/text/yaml_write.h"
#include "tests/fuzz/fuzz.h"

enum { LINE_MAX_BYTES = 32 << 20 };

static size_t check_tree(const struct hsp_yaml *y, unsigned depth)
{
    size_t n = 1;
    HSP_ASSERT(depth <= HSP_YAML_MAX_DEPTH);
    HSP_ASSERT(y->line > 0 && y->column > 0);
    HSP_ASSERT((y->text != NULL) == (y->kind == HSP_YAML_SCALAR));
    HSP_ASSERT(y->n == 0 || y->kind == HSP_YAML_SEQ || y->kind == HSP_YAML_MAP);
    for (size_t i = 0; i < y->n; i++) {
        HSP_ASSERT((y->items[i].key != NULL) == (y->kind == HSP_YAML_MAP));
        n += check_tree(&y->items[i], depth + 1);
        if (y->kind == HSP_YAML_MAP) { /* keys are unique */
            HSP_ASSERT(hsp_yaml_get(y, y->items[i].key) == &y->items[i]);
        }
    }
    return n;
}

/* Every reader takes any node: it reads it, or says where it stands. */
static void read_all(const struct hsp_yaml *y)
{
    struct hsp_err err = {0};
    const char *s;
    int64_t i;
    uint64_t u;
    double d;
    bool b;
    (void)hsp_yaml_str(y, &s, &err);
    (void)hsp_yaml_i64(y, INT64_MIN, INT64_MAX, &i, &err);
    if (hsp_yaml_u64(y, 1, 10, &u, &err) == HSP_OK) {
        HSP_ASSERT(u >= 1 && u <= 10);
    }
    if (hsp_yaml_f64(y, -1.0, 1.0, &d, &err) == HSP_OK) {
        HSP_ASSERT(d >= -1.0 && d <= 1.0);
    }
    (void)hsp_yaml_bool(y, &b, &err);
    if (hsp_yaml_bytes(y, &u, &err) != HSP_OK) {
        HSP_ASSERT(strncmp(err.msg, "fuzz:", 5) == 0);
    }
    (void)hsp_yaml_ms(y, &u, &err);
    for (size_t k = 0; k < y->n && k < 64; k++) {
        read_all(&y->items[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_arena *arena = hsp_fuzz_arena();
    struct hsp_err err = {0};
    const struct hsp_yaml *y = NULL, *back = NULL;
    enum hsp_status st = hsp_yaml_parse("fuzz", data, len, arena, &y, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(st == HSP_EPARSE || st == HSP_ELIMIT || st == HSP_ENOMEM);
        HSP_ASSERT(st == HSP_ENOMEM || strncmp(err.msg, "fuzz:", 5) == 0);
        HSP_ASSERT(strchr(err.msg, '\n') == NULL);
        return 0;
    }
    HSP_ASSERT(check_tree(y, 0) <= HSP_YAML_MAX_NODES);
    read_all(y);
    struct hsp_buf line;
    hsp_buf_init(&line, LINE_MAX_BYTES);
    hsp_yaml_put_flow(&line, y);
    HSP_ASSERT(!line.failed);
    HSP_ASSERT(memchr(hsp_buf_cstr(&line), '\n', line.len) == NULL);
    if (hsp_yaml_parse("fuzz", line.data, line.len, arena, &back, &err) != HSP_OK) {
        hsp_assert_fail(err.msg, __FILE__, __LINE__);
    }
    HSP_ASSERT(hsp_yaml_equal(y, back));
    hsp_buf_fini(&line);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    static const char *const text[] = {
        "",
        "~",
        "a: 1\nb: [x, 'y', \"z\\n\", ~, {}]\nc:\n  - 1.5e3\n  - 512MiB\n  - 3s\n  - true\n",
        "{\"a\": \"\\u00e4\\ud83d\\ude00\", \"b\": [], \"c\": {\"d\": null}}",
        "t: |\n  two\n  lines\nf: >-\n  one\n  line\n",
        "? a\n: b\n# comment\n...\n",
        "a: &x 1\nb: *x\n",
        "- - - - []\n- ? []\n",
        "a: 1\na: 2\n",
    };
    if (i < sizeof text / sizeof text[0]) {
        hsp_buf_puts(out, text[i]);
        return true;
    }
    return false;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "yaml", .folder = "conf/jobs", .seed = seed};
