/* Tests the canonical form of covers: covers have the same form if and only if they have the same
 * meaning. */
#include "proto/layout/box.h"
#include "proto/layout/canon.h"
#include "tests/lib/covers.h"
#include "tests/lib/testlib.h"

enum { ROWS = 4, COLS = 3, RANKS = 4, LABELS = 3 };

/* Index [row][col][rank] of `who`: the addend a rank holds there, 0: nothing. */
struct meaning {
    uint8_t who[ROWS][COLS][RANKS];
};

static int64_t draw(uint64_t *k, int64_t lo, int64_t hi)
{
    return hsp_test_range("canon", (*k)++, lo, hi);
}

static struct hsp_box box2(int64_t lo0, int64_t hi0, int64_t lo1, int64_t hi1)
{
    return (struct hsp_box){.rank = 2, .lo = {lo0, lo1}, .hi = {hi0, hi1}};
}

static void put(struct hsp_cover *c, uint32_t rank, uint32_t addend, struct hsp_box b)
{
    assert_status(hsp_cover_add(c, rank, addend, &b), HSP_OK);
}

/* Makes a cover with the meaning @m: joins equal neighbours of a rank to boxes, cuts the boxes at
 * random, and names addends at random. */
static void write(const struct meaning *m, uint64_t *k, struct hsp_cover *c)
{
    int64_t extent[2] = {ROWS, COLS};
    uint32_t name = (uint32_t)draw(k, 0, 7), empty = (uint32_t)draw(k, 0, RANKS);
    hsp_cover_init(c, 2, extent);
    for (uint32_t r = 0; r < RANKS; r++) {
        bool done[ROWS][COLS] = {{false}};
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < COLS; j++) {
                int rows = 1, cols = 1;
                uint8_t w = m->who[i][j][r];
                if (w == 0 || done[i][j]) {
                    continue;
                }
                while (j + cols < COLS && m->who[i][j + cols][r] == w && !done[i][j + cols] &&
                       draw(k, 0, 2) > 0) {
                    cols++;
                }
                for (bool more = draw(k, 0, 1) == 1; more && i + rows < ROWS; rows += more) {
                    for (int x = 0; x < cols; x++) {
                        more = more && m->who[i + rows][j + x][r] == w && !done[i + rows][j + x];
                    }
                }
                for (int x = 0; x < rows * cols; x++) {
                    done[i + x / cols][j + x % cols] = true;
                }
                put(c, r, (w + name) % 8, box2(i, i + rows, j, j + cols));
            }
        }
        if (r < empty) {
            put(c, r, 0, box2(1, 1, 0, COLS));
        }
    }
    if (draw(k, 0, 1) == 1) { /* an item once more */
        struct hsp_held h = c->n > 0 ? c->items[0] : (struct hsp_held){.box = box2(0, 0, 0, 0)};
        put(c, h.rank, h.addend, h.box);
    }
}

static void random_meaning(uint64_t *k, struct meaning *m)
{
    int64_t plain = draw(k, 0, 3);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLS; j++) {
            for (int r = 0; r < RANKS; r++) {
                bool as_before = j > 0 && draw(k, 0, 3) > 0;
                m->who[i][j][r] = as_before    ? m->who[i][j - 1][r]
                                  : plain == 0 ? (uint8_t)draw(k, 0, 1)
                                               : (uint8_t)draw(k, 0, LABELS);
            }
        }
    }
}

/* At every index the same ranks hold, and the same pairs of them hold the same addend. */
static bool same_meaning(const struct meaning *a, const struct meaning *b)
{
    for (int i = 0; i < ROWS * COLS; i++) {
        const uint8_t *x = a->who[i / COLS][i % COLS], *y = b->who[i / COLS][i % COLS];
        for (int r = 0; r < RANKS; r++) {
            for (int s = 0; s < RANKS; s++) {
                if ((x[r] == 0) != (y[r] == 0) || (x[r] == x[s]) != (y[r] == y[s])) {
                    return false;
                }
            }
        }
    }
    return true;
}

static void one_form_for_each_meaning(void **state)
{
    (void)state;
    uint64_t k = 0;
    uint32_t rounds = hsp_test_rounds(1500), other = 0;
    for (uint32_t n = 0; n < rounds; n++) {
        struct meaning m, changed;
        struct hsp_cover a, b, d;
        bool same = false;
        random_meaning(&k, &m);
        changed = m;
        changed.who[draw(&k, 0, ROWS - 1)][draw(&k, 0, COLS - 1)][draw(&k, 0, RANKS - 1)] =
            (uint8_t)draw(&k, 0, LABELS);
        write(&m, &k, &a);
        write(&m, &k, &b);
        write(&changed, &k, &d);
        assert_status(hsp_cover_same(&a, &b, &same), HSP_OK);
        assert_true(same);
        assert_status(hsp_cover_same(&a, &d, &same), HSP_OK);
        assert_int_equal(same, same_meaning(&m, &changed));
        other += !same;
        assert_status(hsp_cover_canonical(&a), HSP_OK);
        assert_status(hsp_cover_canonical(&b), HSP_OK);
        assert_true(hsp_cover_equal(&a, &b));
        hsp_cover_fini(&a);
        hsp_cover_fini(&b);
        hsp_cover_fini(&d);
    }
    assert_true(other > rounds / 4);
}

/* Checks the canonical form: it has the values of the cover, in few boxes. */
static void the_form_keeps_the_meaning(void **state)
{
    (void)state;
    uint64_t k = 1u << 20;
    for (uint32_t n = 0; n < hsp_test_rounds(500); n++) {
        struct meaning m, back = {{{{0}}}};
        struct hsp_cover c;
        random_meaning(&k, &m);
        write(&m, &k, &c);
        assert_status(hsp_cover_canonical(&c), HSP_OK);
        for (uint32_t x = 0; x < c.n; x++) {
            const struct hsp_held *h = &c.items[x];
            assert_false(hsp_box_empty(&h->box));
            for (int64_t i = h->box.lo[0]; i < h->box.hi[0]; i++) {
                for (int64_t j = h->box.lo[1]; j < h->box.hi[1]; j++) {
                    assert_int_equal(back.who[i][j][h->rank], 0);
                    back.who[i][j][h->rank] = (uint8_t)(1 + h->addend % 16);
                }
            }
        }
        assert_true(same_meaning(&m, &back));
        hsp_cover_fini(&c);
    }
}

static void joined_boxes_and_kinds_of_sums(void **state)
{
    (void)state;
    int64_t extent[2] = {4, 4};
    struct hsp_cover c, d;
    bool same = true;
    hsp_cover_init(&c, 2, extent);
    for (int i = 0; i < 4; i++) { /* rows in any order, quarters of columns */
        put(&c, 5, (uint32_t)i, box2((i + 2) % 4, (i + 2) % 4 + 1, 0, 3));
        put(&c, 5, 9, box2(i, i + 1, 3, 4));
    }
    assert_status(hsp_cover_canonical(&c), HSP_OK);
    assert_int_equal(c.n, 1);
    assert_int_equal(hsp_box_count(&c.items[0].box), 16);
    assert_int_equal(c.items[0].addend, 5);
    hsp_cover_fini(&c);
    hsp_cover_init(&c, 2, extent);
    hsp_cover_init(&d, 2, extent);
    c.reduce = HSP_REDUCE_MAX;
    put(&c, 0, 0, box2(0, 4, 0, 2));
    put(&c, 1, 1, box2(0, 4, 2, 4));
    put(&d, 0, 0, box2(0, 4, 0, 2));
    put(&d, 1, 0, box2(0, 4, 2, 4));
    assert_status(hsp_cover_same(&c, &d, &same), HSP_OK);
    assert_true(same); /* one addend everywhere: of no sum */
    put(&c, 2, 2, box2(0, 1, 0, 1));
    put(&d, 2, 2, box2(0, 1, 0, 1));
    assert_status(hsp_cover_same(&c, &d, &same), HSP_OK);
    assert_false(same);
    hsp_cover_fini(&c);
    hsp_cover_fini(&d);
}

static void scalars_have_one_cell(void **state)
{
    (void)state;
    struct hsp_cover a, b;
    struct hsp_box one = hsp_box_whole(0, NULL);
    bool same = false;
    hsp_cover_init(&a, 0, NULL);
    hsp_cover_init(&b, 0, NULL);
    put(&a, 3, 7, one);
    put(&a, 1, 7, one);
    put(&a, 2, 4, one);
    put(&b, 1, 1, one);
    put(&b, 2, 2, one);
    put(&b, 3, 1, one);
    assert_status(hsp_cover_same(&a, &b, &same), HSP_OK);
    assert_true(same);
    put(&b, 2, 1, one);
    assert_status(hsp_cover_same(&a, &b, &same), HSP_OK);
    assert_false(same);
    hsp_cover_fini(&a);
    hsp_cover_fini(&b);
}

HSP_TEST_FILE(canon_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_form_for_each_meaning),
        cmocka_unit_test(the_form_keeps_the_meaning),
        cmocka_unit_test(joined_boxes_and_kinds_of_sums),
        cmocka_unit_test(scalars_have_one_cell),
    };
    return cmocka_run_group_tests_name("canon", tests, NULL, NULL);
}
