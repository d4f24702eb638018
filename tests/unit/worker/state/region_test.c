/* Tests walks, copies, cuts and hashes of regions of dense arrays. */
#include "proto/base/element_hash.h"
#include "proto/layout/box.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/box_hash.h"

static const int64_t shapes[][HSP_MAX_RANK] = {{17}, {9, 13}, {5, 1, 11}, {3, 4, 5, 6}, {1, 64}};
static const uint8_t ranks[] = {1, 2, 3, 4, 2};
#define N_SHAPES     5
#define MAX_ELEMENTS 400

static void copying_between_layouts_keeps_every_element(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 400; i++) {
        const int64_t *full = shapes[i % N_SHAPES];
        struct hsp_box whole = hsp_box_whole(ranks[i % N_SHAPES], full);
        struct hsp_box a = random_inside(&whole, "a", i), b = random_inside(&whole, "b", i), cut;
        float x[MAX_ELEMENTS], y[MAX_ELEMENTS];
        fill_box(HSP_F32, 1, 0, 0, full, &a, x);
        for (int j = 0; j < MAX_ELEMENTS; j++) {
            y[j] = -5.0F;
        }
        if (!hsp_box_cut(&a, &b, &cut)) {
            continue;
        }
        hsp_region_copy(4, &cut, &a, x, &b, y);
        assert_int_equal(wrong_in_box(HSP_F32, 1, 0, 0, full, &cut, &b, y), 0);
        int64_t touched = 0;
        for (int j = 0; j < MAX_ELEMENTS; j++) {
            touched += y[j] != -5.0F;
        }
        assert_int_equal(touched, hsp_box_count(&cut)); /* and nothing else */
    }
}

static void runs_are_as_long_as_can_be(void **state)
{
    (void)state;
    int64_t full[] = {4, 6, 8}, at, index;
    struct hsp_box whole = hsp_box_whole(3, full), rows = whole, cols = whole;
    struct hsp_walk w;
    rows.lo[0] = 1;
    hsp_walk_init(&w, &rows, &rows, &whole);
    assert_true(hsp_walk_next(&w, &at, &index));
    assert_int_equal(w.run, 3 * 6 * 8);
    assert_true(at == 0 && index == 48);
    assert_false(hsp_walk_next(&w, &at, &index));
    cols.hi[1] = 2;
    hsp_walk_init(&w, &cols, &cols, &whole);
    assert_int_equal(w.run, 2 * 8);
    struct hsp_box scalar = hsp_box_whole(0, NULL);
    hsp_walk_init(&w, &scalar, &scalar, &scalar);
    assert_true(hsp_walk_next(&w, &at, &index));
    assert_int_equal(w.run, 1);
    assert_false(hsp_walk_next(&w, &at, &index));
}

/* A box as a message has the bytes of its copy; only a box whose runs are not at one distance is no
 * message. */
static void a_box_is_a_message_where_its_runs_are_even(void **state)
{
    (void)state;
    size_t refused = 0, strided = 0;
    for (uint64_t i = 0; i < 3000; i++) {
        const int64_t *full = shapes[i % N_SHAPES];
        struct hsp_box whole = hsp_box_whole(ranks[i % N_SHAPES], full);
        struct hsp_box held = random_inside(&whole, "a", i), r = random_inside(&held, "b", i);
        float x[MAX_ELEMENTS], dense[MAX_ELEMENTS], y[MAX_ELEMENTS];
        struct hsp_runs runs;
        fill_box(HSP_F32, 1, 0, 0, full, &held, x);
        if (!hsp_region_runs(4, &r, &held, x, &runs)) {
            assert_true(r.rank > 2); /* two dims have one distance */
            refused++;
            continue;
        }
        assert_int_equal(runs.run * runs.n, 4 * hsp_box_count(&r));
        hsp_region_copy(4, &r, &held, x, &r, dense);
        hsp_runs_gather(&runs, 0, y, runs.run * runs.n);
        assert_memory_equal(y, dense, runs.run * runs.n);
        strided += runs.n > 1;
    }
    assert_true(refused > 0 && strided > 100);
}

static void minus_leaves_exactly_the_rest(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 300; i++) {
        struct hsp_box whole = hsp_box_whole(ranks[i % N_SHAPES], shapes[i % N_SHAPES]);
        struct hsp_box a = random_inside(&whole, "ma", i), b = random_inside(&whole, "mb", i);
        struct hsp_box rest[HSP_MAX_REST], cut;
        uint32_t n = hsp_box_minus(&a, &b, rest);
        int64_t sum = hsp_box_cut(&a, &b, &cut) ? hsp_box_count(&cut) : 0;
        for (uint32_t j = 0; j < n; j++) {
            assert_false(hsp_box_empty(&rest[j]));
            assert_true(hsp_box_inside(&rest[j], &a));
            assert_false(hsp_box_cut(&rest[j], &b, &cut));
            for (uint32_t k = 0; k < j; k++) {
                assert_false(hsp_box_cut(&rest[j], &rest[k], &cut));
            }
            sum += hsp_box_count(&rest[j]);
        }
        assert_int_equal(sum, hsp_box_empty(&a) ? 0 : hsp_box_count(&a));
    }
}

static uint64_t hash_of(enum hsp_dtype t, uint32_t tensor, uint8_t kind, const int64_t *full,
                        const struct hsp_box *box, const void *data)
{
    struct hsp_box_id id = {tensor, kind, t, full};
    return hsp_box_hash(&id, box, box, data);
}

/* The result that a backend must return for a call: the sum of the terms of its elements. */
static uint64_t hash_by_definition(const struct hsp_hash_call *c)
{
    uint64_t sum = 0;
    int64_t n = 1;
    for (uint8_t d = 0; d < c->rank; d++) {
        n *= c->ext[d];
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t number = 0, at = i;
        for (int d = (int)c->rank - 1; d >= 0; d--) {
            number += at % c->ext[d] * c->stride[d];
            at /= c->ext[d];
        }
        uint64_t key = c->key + (uint64_t)number * HSP_HASH_STEP;
        const uint8_t *x = (const uint8_t *)c->data + i * (int64_t)hsp_dtype_size(c->dtype);
        sum += c->dtype == HSP_F64 ? hsp_hash_run_64(x, 1, key) : hsp_hash_run_32(x, 1, key);
    }
    return sum;
}

static void hashes_of_disjoint_boxes_add_up(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        const int64_t *full = shapes[i % N_SHAPES];
        struct hsp_box whole = hsp_box_whole(ranks[i % N_SHAPES], full), part[12];
        enum hsp_dtype t = i % 2 ? HSP_F32 : HSP_F64;
        double all[MAX_ELEMENTS], some[MAX_ELEMENTS];
        fill_box(t, 7, 2, 3, full, &whole, all);
        struct hsp_box_id id = {7, 2, t, full};
        uint64_t want = hash_of(t, 7, 2, full, &whole, all), dense = 0, view = 0;
        size_t n = random_cuts(&whole, 12, "cuts", i, part);
        for (size_t j = 0; j < n; j++) {
            fill_box(t, 7, 2, 3, full, &part[j], some);
            dense += hash_of(t, 7, 2, full, &part[j], some);
            view += hsp_box_hash(&id, &part[j], &whole, all);
            struct hsp_hash_call c;
            hsp_box_hash_call(&id, &part[j], some, &c);
            assert_true(hash_by_definition(&c) == hash_of(t, 7, 2, full, &part[j], some));
        }
        assert_true(dense == want);
        assert_true(view == want);
        struct hsp_box empty = whole;
        empty.hi[0] = 0;
        assert_true(hash_of(t, 7, 2, full, &empty, NULL) == 0);
    }
}

/* Parts of a matrix that lie strided in a larger part of it, in rows long and short. */
static void strided_parts_have_the_hash_of_dense_ones(void **state)
{
    (void)state;
    enum { ROWS = 24, COLS = 210 };
    static double held[ROWS * COLS], dense[ROWS * COLS], copy[ROWS * COLS];
    int64_t full[] = {ROWS + 9, COLS + 13};
    struct hsp_box all = {.rank = 2, .lo = {5, 7}, .hi = {5 + ROWS, 7 + COLS}};
    for (uint64_t i = 0; i < 200; i++) {
        enum hsp_dtype t = i % 2 ? HSP_F32 : HSP_F64;
        struct hsp_box part = random_inside(&all, "strided", i);
        struct hsp_box_id id = {9, 1, t, full};
        struct hsp_hash_call c;
        fill_box(t, 9, 1, i, full, &all, held);
        hsp_region_copy(hsp_dtype_size(t), &part, &all, held, &part, dense);
        hsp_box_hash_call(&id, &part, dense, &c);
        uint64_t want = hash_by_definition(&c);
        assert_true(hsp_box_hash(&id, &part, &all, held) == want);
        memset(copy, 0x55, sizeof copy);
        assert_true(hsp_box_hash_copy(&id, &part, &all, held, copy) == want);
        size_t bytes = hsp_dtype_size(t) * (size_t)hsp_box_count(&part);
        assert_memory_equal(copy, dense, bytes);
        for (size_t k = bytes; k < sizeof copy; k++) {
            assert_int_equal(((const uint8_t *)copy)[k], 0x55);
        }
    }
}

/* The run is longer than the block that is copied at once. */
static void a_long_run_has_the_same_hash_when_it_is_copied(void **state)
{
    (void)state;
    enum { N = 70001 };
    static double x[N], y[N];
    int64_t full[] = {2 * N};
    for (uint64_t i = 0; i < 6; i++) {
        enum hsp_dtype t = i % 2 ? HSP_F32 : HSP_F64;
        struct hsp_box box = {.rank = 1, .lo = {3}, .hi = {3 + (t == HSP_F32 ? 2 * N - 3 : N)}};
        struct hsp_box_id id = {9, 1, t, full};
        for (uint64_t k = 0; k < N; k++) {
            uint64_t r = hsp_test_rand("long", i * N + k);
            memcpy(&x[k], &r, sizeof r);
        }
        memset(y, 0, sizeof y);
        assert_true(hsp_box_hash_copy(&id, &box, &box, x, y) == hsp_box_hash(&id, &box, &box, x));
        assert_memory_equal(y, x, hsp_dtype_size(t) * (size_t)hsp_box_count(&box));
    }
}

static void hashes_are_part_of_formats(void **state)
{
    (void)state;
    int64_t full[] = {2, 3};
    struct hsp_box whole = hsp_box_whole(2, full);
    float f[] = {0, 1, -1, 0.5F, 3e8F, -0.0F};
    double d[] = {0, 1, -1, 0.5, 3e8, -0.0};
    assert_int_equal(hash_of(HSP_F32, 3, 1, full, &whole, f), 0xf3a6771defe343bfULL);
    assert_int_equal(hash_of(HSP_F64, 3, 1, full, &whole, d), 0x7d0bc78bda74aacaULL);
}

static void every_change_changes_the_hash(void **state)
{
    (void)state;
    enum { N = 200 };
    int64_t full[] = {N}, other[] = {10, N};
    struct hsp_box whole = hsp_box_whole(1, full);
    for (int type = 0; type < 2; type++) {
        enum hsp_dtype t = type ? HSP_F64 : HSP_F32;
        int bits = 8 * (int)hsp_dtype_size(t);
        double data[N];
        uint8_t *byte = (uint8_t *)data;
        memset(data, 0, sizeof(data)); /* the hardest: all elements equal */
        uint64_t h = hash_of(t, 5, 0, full, &whole, data);
        assert_true(h != hash_of(t, 6, 0, full, &whole, data));
        assert_true(h != hash_of(t, 5, 1, full, &whole, data));
        for (int i = 0; i < N * bits;
             i++) { /* each bit, then each pair with the bit's next copies */
            byte[i / 8] ^= (uint8_t)(1 << i % 8);
            assert_true(hash_of(t, 5, 0, full, &whole, data) != h);
            for (int j = i + bits; j < N * bits && j < i + 20 * bits; j += bits) {
                byte[j / 8] ^= (uint8_t)(1 << j % 8);
                assert_true(hash_of(t, 5, 0, full, &whole, data) != h);
                byte[j / 8] ^= (uint8_t)(1 << j % 8);
            }
            byte[i / 8] ^= (uint8_t)(1 << i % 8);
        }
        fill_box(t, 1, 0, 0, full, &whole, data);
        h = hash_of(t, 5, 0, full, &whole, data);
        size_t e = hsp_dtype_size(t);
        for (size_t i = 0; i < N; i++) { /* two elements change places */
            for (size_t j = i + 1; j < N; j += 7) {
                uint8_t tmp[8];
                memcpy(tmp, byte + i * e, e);
                memcpy(byte + i * e, byte + j * e, e);
                memcpy(byte + j * e, tmp, e);
                assert_true(hash_of(t, 5, 0, full, &whole, data) != h);
                memcpy(tmp, byte + i * e, e);
                memcpy(byte + i * e, byte + j * e, e);
                memcpy(byte + j * e, tmp, e);
            }
        }
        /* the right bytes at the wrong place of the tensor */
        struct hsp_box row0 = hsp_box_whole(2, other), row1;
        row0.hi[0] = 1;
        row1 = row0;
        row1.lo[0] = 1;
        row1.hi[0] = 2;
        assert_true(hash_of(t, 5, 0, other, &row0, data) != hash_of(t, 5, 0, other, &row1, data));
    }
}

HSP_TEST_FILE(region_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copying_between_layouts_keeps_every_element),
        cmocka_unit_test(runs_are_as_long_as_can_be),
        cmocka_unit_test(a_box_is_a_message_where_its_runs_are_even),
        cmocka_unit_test(minus_leaves_exactly_the_rest),
        cmocka_unit_test(hashes_of_disjoint_boxes_add_up),
        cmocka_unit_test(strided_parts_have_the_hash_of_dense_ones),
        cmocka_unit_test(a_long_run_has_the_same_hash_when_it_is_copied),
        cmocka_unit_test(hashes_are_part_of_formats),
        cmocka_unit_test(every_change_changes_the_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
