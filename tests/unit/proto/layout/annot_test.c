#include "proto/layout/annot.h"
#include "proto/layout/annot_text.h"
#include "proto/layout/box.h"
#include "proto/layout/cut_shares.h"
#include "proto/text/yaml.h"
#include "proto/text/yaml_parse.h"
#include "tests/lib/testlib.h"
#include "tests/lib/trees.h"

#include <stdio.h>

static struct hsp_annot *parse(struct hsp_arena *arena, const char *text, struct hsp_err *err)
{
    const struct hsp_yaml *y;
    struct hsp_annot *a = NULL;
    assert_ok(hsp_yaml_parse("t", text, strlen(text), arena, &y, err), err);
    return hsp_annot_parse(y, arena, &a, err) == HSP_OK ? a : NULL;
}

static void assert_cover(const char *text, int64_t rows, int64_t cols, const int64_t *grain,
                         const char *want)
{
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_err err = {0};
    struct hsp_annot *a = parse(arena, text, &err);
    assert_non_null(a);
    struct hsp_cover c;
    int64_t extent[2] = {rows, cols};
    struct hsp_buf b;
    hsp_buf_init(&b, 4096);
    if (hsp_annot_cover(a, 2, extent, grain, &c, &err) == HSP_OK) {
        for (uint32_t i = 0; i < c.n; i++) {
            const struct hsp_held *h = &c.items[i];
            hsp_buf_printf(&b, "%s%u:%d-%d,%d-%d:%u", i > 0 ? " " : "", h->rank, (int)h->box.lo[0],
                           (int)h->box.hi[0], (int)h->box.lo[1], (int)h->box.hi[1], h->addend);
        }
        hsp_cover_fini(&c);
    } else {
        hsp_buf_puts(&b, err.msg);
    }
    assert_string_equal(hsp_buf_cstr(&b), want);
    hsp_buf_fini(&b);
    hsp_arena_free(arena);
}

static void covers_of_single_tiers(void **state)
{
    (void)state;
    assert_cover("3", 4, 6, NULL, "3:0-4,0-6:3");
    assert_cover("{dup: [1, 0]}", 4, 6, NULL, "0:0-4,0-6:0 1:0-4,0-6:0");
    assert_cover("{partial: [0, 1]}", 4, 6, NULL, "0:0-4,0-6:0 1:0-4,0-6:1");
    assert_cover("{split: 1, cuts: [0, 5, 5, 6], of: [0, 1, 2]}", 4, 6, NULL,
                 "0:0-4,0-5:0 1:0-4,5-5:1 2:0-4,5-6:2");
    assert_cover("{split: 0, shares: [3, 1], of: [0, 1]}", 8, 2, NULL, "0:0-6,0-2:0 1:6-8,0-2:1");
}

static void covers_of_nested_tiers(void **state)
{
    (void)state;
    assert_cover("{split: 0, cuts: [0, 2, 4], of: [{split: 1, cuts: [0, 5, 6], of: [0, 1]}, 2]}", 4,
                 6, NULL, "0:0-2,0-5:0 1:0-2,5-6:1 2:2-4,0-6:2");
    assert_cover("{dup: [{partial: [0, 1]}, {partial: [2, 3]}]}", 1, 1, NULL,
                 "0:0-1,0-1:0 1:0-1,0-1:1 2:0-1,0-1:0 3:0-1,0-1:1");
    assert_cover("{dup: [{partial: [{partial: [0, 1]}, 2]}, {partial: [3, 4, 5]}]}", 1, 1, NULL,
                 "0:0-1,0-1:0 1:0-1,0-1:1 2:0-1,0-1:2 3:0-1,0-1:0 4:0-1,0-1:1 5:0-1,0-1:2");
    /* halves split differently, but every index has the same two addends */
    assert_cover(
        "{dup: [{partial: [0, {split: 1, cuts: [0, 1, 2], of: [1, 2]}]}, {partial: [3, 4]}]}", 1, 2,
        NULL, "0:0-1,0-2:0 1:0-1,0-1:1 2:0-1,1-2:1 3:0-1,0-2:0 4:0-1,0-2:1");
}

static void shares_fall_on_grains(void **state)
{
    (void)state;
    int64_t grain[2] = {4, 1};
    assert_cover("{split: 0, shares: [2, 1], of: [0, 1]}", 16, 1, grain,
                 "0:0-12,0-1:0 1:12-16,0-1:1");
    assert_cover("{split: 0, shares: [1, 1], of: [0, 1]}", 10, 1, grain,
                 "0:0-8,0-1:0 1:8-10,0-1:1");
    assert_cover("{split: 0, shares: [1, 0, 1], of: [0, 1, 2]}", 8, 1, grain,
                 "0:0-4,0-1:0 1:4-4,0-1:1 2:4-8,0-1:2");
    assert_cover("{split: 0, cuts: [0, 6, 16], of: [0, 1]}", 16, 1, grain,
                 "cut 6 of dim 0 is not a multiple of 4");
}

static void broken_trees_are_named(void **state)
{
    (void)state;
    assert_cover("{dup: [1, 1]}", 2, 2, NULL, "rank 1 stands twice in an annotation");
    assert_cover("{split: 2, shares: [1], of: [1]}", 2, 2, NULL,
                 "split of dim 2 of a tensor with 2 dims");
    assert_cover("{split: 0, cuts: [0, 3], of: [1]}", 2, 2, NULL,
                 "cuts of dim 0 go from 0 to 3, not 0 to 2");
    assert_cover("{split: 0, cuts: [0, 2, 1, 2], of: [1, 2, 3]}", 2, 2, NULL,
                 "cuts of dim 0 do not ascend: 2, 1");
    assert_cover("{split: 0, shares: [0, 0], of: [1, 2]}", 2, 2, NULL, "shares of dim 0 are all 0");
    assert_cover("{dup: [{partial: [0, 1]}, 2]}", 2, 2, NULL,
                 "child 1 of dup is another sum than child 0");
    assert_cover("{dup: [{partial: [0, 1]}, {partial: [2, 3]}, {partial: [4, 5, 6]}]}", 2, 2, NULL,
                 "child 2 of dup is another sum than child 0");
}

static void maxima_are_sums_of_another_kind(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_err err = {0};
    static const char *const text[] = {"{max: [0, 1]}", "{partial: [0, 1]}",
                                       "{max: [{split: 0, shares: [1, 1], of: [0, 1]}]}",
                                       "{split: 0, shares: [1, 1], of: [0, 1]}"};
    struct hsp_cover c[4];
    int64_t extent[1] = {4};
    for (int i = 0; i < 4; i++) {
        struct hsp_annot *a = parse(arena, text[i], &err);
        assert_ok(hsp_annot_cover(a, 1, extent, NULL, &c[i], &err), &err);
    }
    assert_int_equal(c[0].reduce, HSP_REDUCE_MAX);
    assert_true(hsp_cover_has_partial(&c[0]));
    assert_false(hsp_cover_equal(&c[0], &c[1]));
    assert_true(hsp_cover_equal(&c[2], &c[3])); /* of one addend */
    for (int i = 0; i < 4; i++) {
        hsp_cover_fini(&c[i]);
    }
    assert_cover("{split: 0, shares: [1, 1], of: [{max: [0, 1]}, {partial: [2, 3]}]}", 2, 2, NULL,
                 "partial and max in one annotation");
    assert_cover("{dup: [{max: [0, 1]}, 2]}", 2, 2, NULL,
                 "child 1 of dup is another sum than child 0");
    hsp_arena_free(arena);
}

static void assert_refused(const char *text, const char *want)
{
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_err err = {0};
    assert_null(parse(arena, text, &err));
    assert_err(&err, HSP_EPARSE, want);
    hsp_arena_free(arena);
}

static void malformed_text_is_refused(void **state)
{
    (void)state;
    assert_refused("{dup: [0], partial: [1]}", "t:1:1: a tier is one of split, dup, partial, max");
    assert_refused("{split: 0, shares: [1], of: 3}", "t:1:29: of: wanted a list, found \"3\"");
    assert_refused("{split: 0, of: [1]}", "t:1:1: split needs of, and either cuts or shares");
    assert_refused("{dup: [0], shares: [1]}",
                   "t:1:1: of, cuts, shares and pattern belong to split");
    assert_refused("{max: [0], pattern: interleaved}",
                   "t:1:1: of, cuts, shares and pattern belong to split");
    assert_refused("{split: 0, pattern: spiral, shares: [1], of: [1]}",
                   "t:1:21: pattern: wanted contiguous or interleaved, found \"spiral\"");
    assert_refused("{split: 0, pattern: interleaved, cuts: [0, 1], of: [1]}",
                   "t:1:40: cuts: an interleaved split has shares, no cuts");
    assert_refused("{dup: []}", "t:1:7: dup: 0 children (1 to 1024)");
    assert_refused("{split: 0, cuts: [0, 1], of: [1, 2]}", "t:1:18: cuts: 2 cuts, not 3");
    assert_refused("{dup: [{dup: [{dup: [{dup: [{dup: [1]}]}]}]}]}",
                   "t:1:29: annotation deeper than 4 tiers");
    assert_refused("2000", "t:1:1: 2000 is outside 0 to 1023");
}

/* ---- random trees: meaning, round trip ---- */

/* The meaning of a leaf, straight from the tree: value of an index = sum over partial children, any
 * child of dup, the child of the split that has it. Fills how often each rank's copy is in it. */
static bool tree_holds(const struct hsp_annot *a, uint32_t rank, struct hsp_box box,
                       const int64_t *at)
{
    if (a->tier == HSP_TIER_RANK) {
        return a->rank == rank;
    }
    int64_t cuts[8], extent = box.hi[a->dim] - box.lo[a->dim], lo = box.lo[a->dim];
    if (a->tier == HSP_TIER_SPLIT) {
        hsp_cut_shares(extent, a->n, a->shares, cuts);
    }
    for (uint32_t i = 0; i < a->n; i++) {
        struct hsp_box part = box;
        if (a->tier == HSP_TIER_SPLIT) {
            part.lo[a->dim] = lo + cuts[i];
            part.hi[a->dim] = lo + cuts[i + 1];
            if (at[a->dim] < part.lo[a->dim] || at[a->dim] >= part.hi[a->dim]) {
                continue;
            }
        }
        if (tree_holds(a->of[i], rank, part, at)) {
            return true;
        }
    }
    return false;
}

/* Number of addends of one index, from the tree. */
static uint32_t tree_addends(const struct hsp_annot *a, struct hsp_box box, const int64_t *at)
{
    if (a->tier == HSP_TIER_RANK) {
        return 1;
    }
    uint32_t sum = 0;
    int64_t cuts[8], lo = box.lo[a->dim];
    if (a->tier == HSP_TIER_SPLIT) {
        hsp_cut_shares(box.hi[a->dim] - lo, a->n, a->shares, cuts);
    }
    for (uint32_t i = 0; i < a->n; i++) {
        struct hsp_box part = box;
        if (a->tier == HSP_TIER_SPLIT) {
            part.lo[a->dim] = lo + cuts[i];
            part.hi[a->dim] = lo + cuts[i + 1];
            if (at[a->dim] < part.lo[a->dim] || at[a->dim] >= part.hi[a->dim]) {
                continue;
            }
        }
        sum += tree_addends(a->of[i], part, at);
        if (a->tier == HSP_TIER_DUP) {
            break;
        }
    }
    return sum;
}

static void random_trees_mean_what_they_say(void **state)
{
    (void)state;
    uint32_t deep = 0, sums = 0;
    for (uint64_t k = 0; k < 3000; k++) {
        struct hsp_tree_gen g = {.stream = "annot", .seed = k, .arena = hsp_arena_new(1 << 20)};
        struct hsp_annot *a = hsp_tree_random(&g, HSP_MAX_TIERS, true);
        int64_t extent[2] = {hsp_test_range("rows", k, 0, 5), hsp_test_range("cols", k, 1, 4)};
        struct hsp_cover c;
        struct hsp_err err = {0};
        assert_ok(hsp_annot_cover(a, 2, extent, NULL, &c, &err), &err);
        assert_int_equal(c.n, g.next_rank); /* one box per rank, empty ones too */
        struct hsp_box whole = hsp_box_whole(2, extent);
        assert_true(hsp_cover_covers(&c, &whole, HSP_ANY_ADDEND));
        bool partial = false;
        for (int64_t p = 0; p < extent[0] * extent[1]; p++) {
            int64_t at[2] = {p / extent[1], p % extent[1]};
            uint32_t labels[128] = {0}, distinct = 0;
            for (uint32_t i = 0; i < c.n; i++) {
                struct hsp_box *b = &c.items[i].box;
                bool in =
                    at[0] >= b->lo[0] && at[0] < b->hi[0] && at[1] >= b->lo[1] && at[1] < b->hi[1];
                assert_int_equal(in, tree_holds(a, c.items[i].rank, whole, at));
                if (in) {
                    distinct += labels[c.items[i].addend]++ == 0;
                }
            }
            assert_int_equal(distinct, tree_addends(a, whole, at));
            partial = partial || distinct > 1;
        }
        assert_int_equal(hsp_cover_has_partial(&c), partial);
        assert_int_equal(hsp_cover_is_complete(&c), !partial);
        sums += partial;
        deep += g.next_rank > 8;
        hsp_cover_fini(&c);
        hsp_arena_free(g.arena);
    }
    assert_true(sums > 100);
    assert_true(deep > 100);
}

static void text_round_trip(void **state)
{
    (void)state;
    struct hsp_buf one, two;
    hsp_buf_init(&one, 1 << 16);
    hsp_buf_init(&two, 1 << 16);
    for (uint64_t k = 0; k < 1000; k++) {
        struct hsp_tree_gen g = {.stream = "annot", .seed = k, .arena = hsp_arena_new(1 << 20)};
        struct hsp_annot *a = hsp_tree_random(&g, HSP_MAX_TIERS, true), *b;
        struct hsp_err err = {0};
        hsp_buf_reset(&one);
        hsp_buf_reset(&two);
        hsp_annot_dump(a, &one);
        b = parse(g.arena, hsp_buf_cstr(&one), &err);
        assert_string_equal(err.msg, "");
        hsp_annot_dump(b, &two);
        assert_string_equal(hsp_buf_cstr(&one), hsp_buf_cstr(&two));
        struct hsp_cover ca, cb;
        int64_t extent[2] = {7, 5};
        assert_ok(hsp_annot_cover(a, 2, extent, NULL, &ca, &err), &err);
        assert_ok(hsp_annot_cover(b, 2, extent, NULL, &cb, &err), &err);
        assert_true(hsp_cover_equal(&ca, &cb));
        hsp_cover_fini(&ca);
        hsp_cover_fini(&cb);
        hsp_arena_free(g.arena);
    }
    hsp_buf_fini(&one);
    hsp_buf_fini(&two);
}

/* Every total to 12 and every triple of weights to 4: the sizes add up, none is further than one
 * unit from its exact part, and a heavier weight never gets less. */
static void cut_shares_by_enumeration(void **state)
{
    (void)state;
    for (int64_t total = 0; total <= 12; total++) {
        for (int code = 1; code < 125; code++) {
            int64_t w[3] = {code % 5, code / 5 % 5, code / 25}, cuts[4];
            int64_t sum = w[0] + w[1] + w[2];
            hsp_cut_shares(total, 3, w, cuts);
            assert_int_equal(cuts[0], 0);
            assert_int_equal(cuts[3], total);
            for (int i = 0; i < 3; i++) {
                int64_t off = (cuts[i + 1] - cuts[i]) * sum - total * w[i];
                assert_true(off > -sum && off < sum);
                for (int j = 0; j < i; j++) {
                    int64_t a = cuts[i + 1] - cuts[i], b = cuts[j + 1] - cuts[j];
                    assert_true(w[i] == w[j] ? a <= b : (w[i] < w[j] ? a <= b : a >= b));
                }
            }
        }
    }
    int64_t zero[3] = {0, 0, 0}, big[2] = {INT32_MAX, 1}, cuts[4];
    hsp_cut_shares(7, 3, zero, cuts);
    assert_int_equal(cuts[1], 7);
    hsp_cut_shares(INT64_MAX / 2, 2, big, cuts);
    assert_int_equal(cuts[2], INT64_MAX / 2);
    assert_int_equal(cuts[2] - cuts[1], 1LL << 31);
}

HSP_TEST_FILE(annot_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covers_of_single_tiers),
        cmocka_unit_test(covers_of_nested_tiers),
        cmocka_unit_test(shares_fall_on_grains),
        cmocka_unit_test(broken_trees_are_named),
        cmocka_unit_test(maxima_are_sums_of_another_kind),
        cmocka_unit_test(malformed_text_is_refused),
        cmocka_unit_test(random_trees_mean_what_they_say),
        cmocka_unit_test(text_round_trip),
        cmocka_unit_test(cut_shares_by_enumeration),
    };
    return cmocka_run_group_tests_name("annot", tests, NULL, NULL);
}
