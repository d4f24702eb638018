/* Fails allocations of proto/layout. */
#include "proto/layout/annot.h"
#include "proto/layout/annot_text.h"
#include "proto/layout/canon.h"
#include "proto/text/yaml.h"
#include "proto/text/yaml_parse.h"
#include "tests/lib/oom.h"
#include "tests/lib/testlib.h"

#define ARENA ((size_t)16 << 20)

static enum hsp_status start(struct hsp_arena **ret, struct hsp_err *err)
{
    *ret = hsp_arena_new(ARENA);
    return *ret != NULL ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "no arena");
}

static void put(const struct hsp_cover *c, struct hsp_buf *out)
{
    for (uint32_t i = 0; i < c->n; i++) {
        hsp_buf_printf(out, "%u:%d-%d:%u ", c->items[i].rank, (int)c->items[i].box.lo[0],
                       (int)c->items[i].box.hi[0], c->items[i].addend);
    }
}

/* A tree with an interleaved split: read, laid out, made canonical, written. */
static enum hsp_status use_tree(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const char *text = ctx;
    const int64_t extent[2] = {12, 4};
    const struct hsp_yaml *y = NULL;
    struct hsp_arena *arena = NULL;
    struct hsp_annot *a = NULL;
    struct hsp_cover c = {0};
    enum hsp_status st = start(&arena, err);
    st = st == HSP_OK ? hsp_yaml_parse("t", text, strlen(text), arena, &y, err) : st;
    st = st == HSP_OK ? hsp_annot_parse(y, arena, &a, err) : st;
    st = st == HSP_OK ? hsp_annot_cover(a, 2, extent, NULL, &c, err) : st;
    if (st == HSP_OK) {
        uint32_t n = c.n;
        st = hsp_cover_canonical(&c);
        assert_true(st == HSP_OK || c.n == n);
        st = st == HSP_OK ? st : hsp_err_set(err, st, 0, "canonical form");
        put(&c, out);
        hsp_cover_fini(&c);
        hsp_annot_dump(a, out);
    }
    hsp_arena_free(arena);
    return st;
}

static void trees_mean_all_or_nothing(void **state)
{
    (void)state;
    static char text[] = "{split: 0, pattern: interleaved, shares: [2, 1], of: [{split: 0, cuts: "
                         "[0, 4, 12], of: [{partial: [0, 1]}, 2]}, {dup: [3, 4]}]}";
    hsp_oom_loop("tree", use_tree, text, 2000);
    struct hsp_annot leaf = {.rank = 3};
    struct hsp_buf b;
    hsp_oom_empty(&b);
    hsp_annot_dump(&leaf, &b);
    hsp_oom_nothing(&b);
}

HSP_TEST_FILE(oom_layout_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_mean_all_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
