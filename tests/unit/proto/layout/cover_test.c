#include "proto/layout/box.h"
#include "proto/layout/cover.h"
#include "tests/lib/testlib.h"

static struct hsp_box box2(int64_t lo0, int64_t hi0, int64_t lo1, int64_t hi1)
{
    return (struct hsp_box){.rank = 2, .lo = {lo0, lo1}, .hi = {hi0, hi1}};
}

static bool has_point(const struct hsp_box *b, int64_t i, int64_t j)
{
    return i >= b->lo[0] && i < b->hi[0] && j >= b->lo[1] && j < b->hi[1];
}

/* All boxes with bounds in 0..3: 100 of them, 10000 pairs, each against its points. */
enum { SIDE = 3, N_BOXES = 100 };

static void all_boxes(struct hsp_box *ret)
{
    int n = 0;
    for (int a = 0; a <= SIDE; a++) {
        for (int b = a; b <= SIDE; b++) {
            for (int c = 0; c <= SIDE; c++) {
                for (int d = c; d <= SIDE; d++) {
                    ret[n++] = box2(a, b, c, d);
                }
            }
        }
    }
    assert_int_equal(n, N_BOXES);
}

static void box_algebra_by_points(void **state)
{
    (void)state;
    struct hsp_box all[N_BOXES];
    all_boxes(all);
    for (int x = 0; x < N_BOXES; x++) {
        for (int y = 0; y < N_BOXES; y++) {
            int64_t in_x = 0, both = 0;
            for (int p = 0; p < SIDE * SIDE; p++) {
                bool a = has_point(&all[x], p / SIDE, p % SIDE);
                in_x += a;
                both += a && has_point(&all[y], p / SIDE, p % SIDE);
            }
            struct hsp_box cut;
            assert_int_equal(hsp_box_count(&all[x]), in_x);
            assert_int_equal(hsp_box_empty(&all[x]), in_x == 0);
            assert_int_equal(hsp_box_inside(&all[x], &all[y]), both == in_x);
            assert_int_equal(hsp_box_cut(&all[x], &all[y], &cut), both > 0);
            assert_true(both == 0 || hsp_box_count(&cut) == both);
            assert_int_equal(hsp_box_equal(&all[x], &all[y]), x == y);
        }
    }
}

static void a_scalar_is_one_element(void **state)
{
    (void)state;
    struct hsp_box s = hsp_box_whole(0, NULL), cut;
    assert_int_equal(hsp_box_count(&s), 1);
    assert_false(hsp_box_empty(&s));
    assert_true(hsp_box_cut(&s, &s, &cut));
    struct hsp_cover c;
    hsp_cover_init(&c, 0, NULL);
    assert_false(hsp_cover_is_complete(&c));
    assert_status(hsp_cover_add(&c, 4, 0, &s), HSP_OK);
    assert_true(hsp_cover_is_complete(&c));
    hsp_cover_fini(&c);
}

/* A random cover of a 4 x 4 tensor on up to 4 ranks. */
enum { EDGE = 4 };

static struct hsp_cover random_cover(uint64_t k)
{
    struct hsp_cover c;
    int64_t extent[2] = {EDGE, EDGE};
    hsp_cover_init(&c, 2, extent);
    int64_t n = hsp_test_range("n", k, 0, 5);
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = hsp_test_rand("cover", k * 8 + (uint64_t)i);
        int64_t a = (int64_t)(r % 4), b = (int64_t)(r >> 8) % 4 + 1, d = (int64_t)(r >> 16 & 3),
                e = (int64_t)(r >> 24 & 3) + 1;
        struct hsp_box box = box2(a < b ? a : 0, b, d < e ? d : 0, e);
        if ((r >> 48 & 1) != 0) { /* slabs, so that some covers are whole */
            box.lo[0] = 0;
            box.hi[0] = EDGE;
        }
        assert_status(hsp_cover_add(&c, r >> 32 & 3, r >> 40 & 1, &box), HSP_OK);
    }
    return c;
}

/* Distinct addends of one point. */
static uint32_t addends_at(const struct hsp_cover *c, int64_t x, int64_t y)
{
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        bool fresh = has_point(&c->items[i].box, x, y);
        for (uint32_t j = 0; j < i && fresh; j++) {
            fresh =
                !(has_point(&c->items[j].box, x, y) && c->items[j].addend == c->items[i].addend);
        }
        distinct += fresh;
    }
    return distinct;
}

static void cover_properties_by_points(void **state)
{
    (void)state;
    uint32_t complete = 0, partial = 0;
    for (uint64_t k = 0; k < 20000; k++) {
        struct hsp_cover c = random_cover(k);
        bool full = true, sums = false;
        uint32_t before[EDGE * EDGE];
        for (int p = 0; p < EDGE * EDGE; p++) {
            before[p] = addends_at(&c, p / EDGE, p % EDGE);
            full = full && before[p] > 0;
            sums = sums || before[p] > 1;
        }
        for (int round = 0; round < 2; round++) { /* as added, then normalised */
            assert_int_equal(hsp_cover_has_partial(&c), sums);
            assert_int_equal(hsp_cover_is_complete(&c), full && !sums);
            for (int p = 0; p < EDGE * EDGE; p++) {
                assert_int_equal(addends_at(&c, p / EDGE, p % EDGE), before[p]);
            }
            hsp_cover_normalise(&c);
        }
        complete += full && !sums;
        partial += sums;
        hsp_cover_fini(&c);
    }
    assert_true(complete > 100); /* the seeds reach every case */
    assert_true(partial > 1000);
}

/* Renaming the labels and shuffling the items changes nothing. */
static void normal_form_forgets_labels_and_order(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 5000; k++) {
        struct hsp_cover a = random_cover(k), b;
        hsp_cover_init(&b, 2, a.extent);
        for (uint32_t i = a.n; i-- > 0;) {
            assert_status(
                hsp_cover_add(&b, a.items[i].rank, 7 - a.items[i].addend, &a.items[i].box), HSP_OK);
        }
        hsp_cover_normalise(&a);
        hsp_cover_normalise(&b);
        bool one_each = true; /* ranks with two addends keep the order of labels */
        for (uint32_t i = 1; i < a.n; i++) {
            one_each = one_each && a.items[i].rank != a.items[i - 1].rank;
        }
        assert_true(!one_each || hsp_cover_equal(&a, &b));
        hsp_cover_normalise(&b);
        assert_int_equal(a.n, b.n);
        hsp_cover_fini(&a);
        hsp_cover_fini(&b);
    }
}

static void labels_are_smallest_ranks(void **state)
{
    (void)state;
    int64_t extent[2] = {4, 4};
    struct hsp_box left = box2(0, 4, 0, 2), right = box2(0, 4, 2, 4), none = box2(4, 4, 0, 4);
    struct hsp_cover c;
    hsp_cover_init(&c, 2, extent);
    assert_status(hsp_cover_add(&c, 3, 9, &right), HSP_OK);
    assert_status(hsp_cover_add(&c, 1, 9, &left), HSP_OK);
    assert_status(hsp_cover_add(&c, 2, 9, &left), HSP_OK);
    assert_status(hsp_cover_add(&c, 2, 9, &left), HSP_OK);
    assert_status(hsp_cover_add(&c, 0, 9, &none), HSP_OK);
    hsp_cover_normalise(&c);
    assert_int_equal(c.n, 4);
    assert_int_equal(c.items[0].addend, 0);
    assert_int_equal(c.items[1].addend, 1);
    assert_int_equal(c.items[2].addend, 1);
    assert_int_equal(c.items[3].addend, 3);
    hsp_cover_fini(&c);
    for (uint32_t r = 0; r < 4; r++) { /* ranks 0 and 3 share one half, 1 and 2 the other */
        assert_status(hsp_cover_add(&c, r, 9, r == 0 || r == 3 ? &left : &right), HSP_OK);
    }
    hsp_cover_normalise(&c);
    assert_int_equal(c.items[1].addend, 1);
    assert_int_equal(c.items[2].addend, 1);
    assert_int_equal(c.items[3].addend, 0);
    hsp_cover_fini(&c);
}

HSP_TEST_FILE(cover_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(box_algebra_by_points),
        cmocka_unit_test(a_scalar_is_one_element),
        cmocka_unit_test(cover_properties_by_points),
        cmocka_unit_test(normal_form_forgets_labels_and_order),
        cmocka_unit_test(labels_are_smallest_ranks),
    };
    return cmocka_run_group_tests_name("cover", tests, NULL, NULL);
}
