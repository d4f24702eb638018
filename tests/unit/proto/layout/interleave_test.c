/* Tests interleaved splits against their definition, index by index. */
#include "proto/layout/annot.h"
#include "proto/layout/annot_text.h"
#include "proto/layout/box.h"
#include "proto/layout/cut_shares.h"
#include "proto/text/yaml.h"
#include "proto/text/yaml_parse.h"
#include "tests/lib/testlib.h"
#include "tests/lib/trees.h"

enum { ROWS = 5, COLS = 3, MAX_SIDE = 6 };

static struct hsp_annot *parse(struct hsp_arena *arena, const char *text)
{
    const struct hsp_yaml *y;
    struct hsp_annot *a = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_yaml_parse("t", text, strlen(text), arena, &y, &err), &err);
    assert_ok(hsp_annot_parse(y, arena, &a, &err), &err);
    return a;
}

/* Boxes of dim 0 of a tensor of @extent elements, or the message. */
static void assert_rows(const char *text, int64_t extent, const int64_t *grain, const char *want)
{
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_err err = {0};
    struct hsp_cover c;
    struct hsp_buf b;
    hsp_buf_init(&b, 4096);
    if (hsp_annot_cover(parse(arena, text), 1, &extent, grain, &c, &err) == HSP_OK) {
        for (uint32_t i = 0; i < c.n; i++) {
            hsp_buf_printf(&b, "%s%u:%d-%d", i > 0 ? " " : "", c.items[i].rank,
                           (int)c.items[i].box.lo[0], (int)c.items[i].box.hi[0]);
        }
        hsp_cover_fini(&c);
    } else {
        hsp_buf_puts(&b, err.msg);
    }
    assert_string_equal(hsp_buf_cstr(&b), want);
    hsp_buf_fini(&b);
    hsp_arena_free(arena);
}

static void cells_are_cut_inside(void **state)
{
    (void)state;
    /* two holders of two halves and one of all: the vector of the paper's pattern, and the other */
    assert_rows("{split: 0, pattern: interleaved, shares: [1, 1], of: [{split: 0, shares: [1, 1], "
                "of: [0, 1]}, 2]}",
                24, NULL, "0:0-6 1:12-18 2:6-12 2:18-24");
    assert_rows("{split: 0, shares: [1, 1], of: [{split: 0, shares: [1, 1], of: [0, 1]}, 2]}", 24,
                NULL, "0:0-6 1:6-12 2:12-24");
    /* uneven shares, uneven cells */
    assert_rows(
        "{split: 0, pattern: interleaved, shares: [2, 1], of: [{split: 0, cuts: [0, 6, 24], "
        "of: [0, 1]}, 2]}",
        24, NULL, "0:0-4 1:6-18 2:4-6 2:18-24");
    /* a child with a share of 0 has one empty box; the rest is one piece */
    assert_rows(
        "{split: 0, pattern: interleaved, shares: [0, 1], of: [{split: 0, cuts: [0, 6, 24], "
        "of: [0, 1]}, 2]}",
        24, NULL, "0:0-0 1:6-6 2:0-24");
    /* cells of the finest child */
    assert_rows("{split: 0, pattern: interleaved, shares: [1, 1], of: [{split: 0, cuts: [0, 2, 8], "
                "of: [0, 1]}, {split: 0, cuts: [0, 4, 8], of: [2, 3]}]}",
                8, NULL, "0:0-1 1:2-3 1:4-6 2:1-2 2:3-4 3:6-8");
    /* copies stay copies */
    assert_rows("{split: 0, pattern: interleaved, shares: [1, 1], of: [{dup: [0, 1]}, 2]}", 8, NULL,
                "0:0-4 1:0-4 2:4-8");
}

static void grains_and_rules(void **state)
{
    (void)state;
    int64_t grain = 4;
    assert_rows("{split: 0, pattern: interleaved, shares: [1, 1], of: [{split: 0, shares: [1, 1], "
                "of: [0, 1]}, 2]}",
                24, &grain, "0:0-8 1:12-20 2:8-12 2:20-24");
    assert_rows("{split: 0, pattern: interleaved, shares: [0, 0], of: [0, 1]}", 4, NULL,
                "shares of dim 0 are all 0");
    assert_rows("{split: 0, pattern: interleaved, shares: [1, 1], of: [0, 0]}", 4, NULL,
                "rank 0 stands twice in an annotation");
    assert_rows("{split: 1, pattern: interleaved, shares: [1], of: [0]}", 4, NULL,
                "split of dim 1 of a tensor with 1 dims");
    struct hsp_annot *of[1], leaf = {.rank = 0};
    int64_t cuts[2] = {0, 4}, extent = 4;
    struct hsp_annot a = {
        .tier = HSP_TIER_SPLIT, .interleaved = true, .n = 1, .of = of, .cuts = cuts};
    struct hsp_cover c;
    struct hsp_err err = {0};
    of[0] = &leaf;
    assert_status(hsp_annot_cover(&a, 1, &extent, NULL, &c, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "an interleaved split of dim 0 has cuts, no shares");
}

/* ---- random trees against the definition ---- */

/* Returns the part of @box that child @i of a plain split has. */
static struct hsp_box part_of_split(const struct hsp_annot *a, uint32_t i, struct hsp_box box)
{
    int64_t cuts[8], lo = box.lo[a->dim];
    hsp_cut_shares(box.hi[a->dim] - lo, a->n, a->shares, cuts);
    box.lo[a->dim] = lo + cuts[i];
    box.hi[a->dim] = lo + cuts[i + 1];
    return box;
}

static void cell_around(const struct hsp_annot *a, struct hsp_box box, int64_t at, int64_t *ret_lo,
                        int64_t *ret_hi);

/* Returns true if some tier of the tree cuts @dim at position @p of @box. A cut counts even if the
 * part that it cuts is empty in the other dim. */
static bool is_cut(const struct hsp_annot *a, uint8_t dim, struct hsp_box box, int64_t p)
{
    if (p <= box.lo[dim] || p >= box.hi[dim]) {
        return p == box.lo[dim] || p == box.hi[dim];
    }
    for (uint32_t i = 0; i < a->n; i++) {
        bool plain = a->tier == HSP_TIER_SPLIT && !a->interleaved;
        if (is_cut(a->of[i], dim, plain ? part_of_split(a, i, box) : box, p)) {
            return true;
        }
    }
    if (a->tier == HSP_TIER_SPLIT && a->interleaved && a->dim == dim) {
        int64_t lo, hi, cuts[8];
        cell_around(a, box, p, &lo, &hi);
        hsp_cut_shares(hi - lo, a->n, a->shares, cuts);
        for (uint32_t i = 0; i <= a->n; i++) {
            if (p == lo + cuts[i]) {
                return true;
            }
        }
    }
    return false;
}

/* Returns the cell of an interleaved tier that contains position @at of its dim. */
static void cell_around(const struct hsp_annot *a, struct hsp_box box, int64_t at, int64_t *ret_lo,
                        int64_t *ret_hi)
{
    bool low = false, high = false;
    for (*ret_lo = at; !low; *ret_lo -= !low) {
        for (uint32_t k = 0; k < a->n; k++) {
            low = low || is_cut(a->of[k], a->dim, box, *ret_lo);
        }
    }
    for (*ret_hi = at + 1; !high; *ret_hi += !high) {
        for (uint32_t k = 0; k < a->n; k++) {
            high = high || is_cut(a->of[k], a->dim, box, *ret_hi);
        }
    }
}

/* Returns true if @rank holds the index, computed from the tree without boxes. */
static bool holds(const struct hsp_annot *a, uint32_t rank, struct hsp_box box, const int64_t *at)
{
    if (a->tier == HSP_TIER_RANK) {
        return a->rank == rank;
    }
    for (uint32_t i = 0; i < a->n; i++) {
        struct hsp_box part = box;
        if (a->tier == HSP_TIER_SPLIT && !a->interleaved) {
            part = part_of_split(a, i, box);
            if (at[a->dim] < part.lo[a->dim] || at[a->dim] >= part.hi[a->dim]) {
                continue;
            }
        }
        if (!holds(a->of[i], rank, part, at)) {
            continue;
        }
        if (a->tier != HSP_TIER_SPLIT || !a->interleaved) {
            return true;
        }
        int64_t lo, hi, cuts[8], p = at[a->dim]; /* a rank stands in one child */
        cell_around(a, box, p, &lo, &hi);
        hsp_cut_shares(hi - lo, a->n, a->shares, cuts);
        return p >= lo + cuts[i] && p < lo + cuts[i + 1];
    }
    return false;
}

static void random_trees_mean_what_they_say(void **state)
{
    (void)state;
    uint32_t inside = 0, several = 0;
    uint32_t rounds = hsp_test_rounds(300);
    /* Only one tree in a hundred gives a rank several boxes, so the test draws trees until it has
     * such a tree. */
    for (uint64_t k = 0; k < rounds || (several == 0 && k < 100 * rounds); k++) {
        struct hsp_tree_gen g = {.stream = "interleave",
                                 .seed = k,
                                 .max_interleaved = 2,
                                 .arena = hsp_arena_new(1 << 20)};
        struct hsp_annot *a = hsp_tree_random(&g, 3, true);
        int64_t extent[2] = {hsp_tree_draw(&g, 1, ROWS), hsp_tree_draw(&g, 1, COLS)};
        struct hsp_cover c;
        struct hsp_err err = {0};
        assert_ok(hsp_annot_cover(a, 2, extent, NULL, &c, &err), &err);
        struct hsp_box whole = hsp_box_whole(2, extent);
        assert_true(hsp_cover_covers(&c, &whole, HSP_ANY_ADDEND));
        for (uint32_t rank = 0; rank < g.next_rank; rank++) {
            uint32_t boxes = 0;
            for (uint32_t i = 0; i < c.n; i++) {
                boxes += c.items[i].rank == rank;
            }
            assert_true(boxes > 0);
            several += boxes > 1;
            for (int64_t p = 0; p < extent[0] * extent[1]; p++) {
                int64_t at[2] = {p / extent[1], p % extent[1]};
                uint32_t in = 0;
                for (uint32_t i = 0; i < c.n; i++) {
                    const struct hsp_box *b = &c.items[i].box;
                    in += c.items[i].rank == rank && at[0] >= b->lo[0] && at[0] < b->hi[0] &&
                          at[1] >= b->lo[1] && at[1] < b->hi[1];
                }
                assert_int_equal(in, holds(a, rank, whole, at));
            }
        }
        inside += g.interleaved;
        hsp_cover_fini(&c);
        hsp_arena_free(g.arena);
    }
    assert_true(inside > rounds / 4);
    assert_true(several > 0);
}

static void text_round_trip(void **state)
{
    (void)state;
    struct hsp_buf one, two;
    hsp_buf_init(&one, 1 << 16);
    hsp_buf_init(&two, 1 << 16);
    for (uint64_t k = 0; k < 500; k++) {
        struct hsp_tree_gen g = {.stream = "interleave",
                                 .seed = k,
                                 .max_interleaved = 2,
                                 .arena = hsp_arena_new(1 << 20)};
        hsp_buf_reset(&one);
        hsp_buf_reset(&two);
        hsp_annot_dump(hsp_tree_random(&g, HSP_MAX_TIERS, true), &one);
        hsp_annot_dump(parse(g.arena, hsp_buf_cstr(&one)), &two);
        assert_string_equal(hsp_buf_cstr(&one), hsp_buf_cstr(&two));
        hsp_arena_free(g.arena);
    }
    hsp_buf_reset(&one);
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    hsp_annot_dump(parse(arena, "{max: [{dup: [0]}, 1]}"), &one);
    assert_string_equal(hsp_buf_cstr(&one), "{max: [{dup: [0]}, 1]}");
    hsp_arena_free(arena);
    hsp_buf_fini(&one);
    hsp_buf_fini(&two);
}

HSP_TEST_FILE(interleave_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_cut_inside),
        cmocka_unit_test(grains_and_rules),
        cmocka_unit_test(random_trees_mean_what_they_say),
        cmocka_unit_test(text_round_trip),
    };
    return cmocka_run_group_tests_name("interleave", tests, NULL, NULL);
}
