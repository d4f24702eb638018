#include "tests/lib/testlib.h"

#include "proto/layout/box.h"
#include "worker/backend/cells.h"
#include "worker/exec/state_init.h"

enum { MAX_ELEMS = 6 * 6 * 6 * 6 };

static struct hsp_box random_box(uint8_t rank, const struct hsp_box *in, uint64_t *n)
{
    struct hsp_box b = {.rank = rank};
    for (uint8_t d = 0; d < rank; d++) {
        int64_t lo = in ? in->lo[d] : 0, hi = in ? in->hi[d] : 6;
        b.lo[d] = hsp_test_range("box", (*n)++, lo, hi);
        b.hi[d] = hsp_test_range("box", (*n)++, b.lo[d], hi);
    }
    return b;
}

static int64_t index_in(const struct hsp_box *held, const int64_t *at)
{
    int64_t k = 0;
    for (uint8_t d = 0; d < held->rank; d++) {
        k = k * (held->hi[d] - held->lo[d]) + at[d] - held->lo[d];
    }
    return k;
}

static bool in_box(const struct hsp_box *b, const int64_t *at)
{
    for (uint8_t d = 0; d < b->rank; d++) {
        if (at[d] < b->lo[d] || at[d] >= b->hi[d]) {
            return false;
        }
    }
    return true;
}

/* Compares copies and reductions of cells with the definition, element by element, for random boxes
 * of every rank. */
static void copies_and_adds_follow_the_definition(void **state)
{
    (void)state;
    static double src[MAX_ELEMS], dst[MAX_ELEMS], was[MAX_ELEMS];
    uint64_t n = 0;
    for (int trial = 0; trial < 3000; trial++) {
        uint8_t rank = (uint8_t)(trial % 5);
        struct hsp_box a = random_box(rank, NULL, &n), b = random_box(rank, NULL, &n), both;
        if (!hsp_box_cut(&a, &b, &both)) {
            continue;
        }
        struct hsp_box cell = random_box(rank, &both, &n);
        for (int k = 0; k < MAX_ELEMS; k++) {
            src[k] = (double)(k % 2 == 0 ? 1000 + k : -1000 - k);
            dst[k] = was[k] = (double)-k;
        }
        struct hsp_cell_view to = {.data = dst, .box = a, .dtype = HSP_F64};
        struct hsp_cell_view from = {.data = src, .box = b, .dtype = HSP_F64};
        bool add = trial % 3 == 0, max = trial % 3 == 1;
        if (add || max) {
            hsp_cell_reduce(&to, &from, &cell, max ? HSP_REDUCE_MAX : HSP_REDUCE_SUM);
        } else {
            hsp_cell_copy(&to, &from, &cell);
        }
        int64_t at[4] = {0}, size = 1;
        for (uint8_t d = 0; d < rank; d++) {
            size *= 6;
        }
        for (int64_t k = 0; k < size; k++) {
            int64_t rest = k;
            for (uint8_t d = 0; d < rank; d++, rest /= 6) {
                at[d] = rest % 6;
            }
            if (!in_box(&a, at)) {
                continue;
            }
            int64_t i = index_in(&a, at);
            double want = was[i];
            if (in_box(&cell, at)) {
                double x = src[index_in(&b, at)];
                want = max && was[i] > x ? was[i] : x + (add ? was[i] : 0.0);
            }
            assert_near(dst[i], want, 0.0);
        }
    }
}

static void runs_are_found_where_they_are(void **state)
{
    (void)state;
    double x[24] = {0};
    struct hsp_cell_view v = {
        .data = x, .box = {.rank = 2, .lo = {2, 0}, .hi = {6, 6}}, .dtype = HSP_F64};
    struct hsp_box rows = {.rank = 2, .lo = {3, 0}, .hi = {5, 6}};
    struct hsp_box cols = {.rank = 2, .lo = {2, 1}, .hi = {6, 3}};
    struct hsp_box part = {.rank = 2, .lo = {4, 1}, .hi = {5, 3}};
    assert_ptr_equal(hsp_cell_run(&v, &rows), x + 6);
    assert_null(hsp_cell_run(&v, &cols));
    assert_ptr_equal(hsp_cell_run(&v, &part), x + 13);
    struct hsp_cell_view scalar = {.data = x, .dtype = HSP_F64};
    struct hsp_box one = {.rank = 0};
    assert_ptr_equal(hsp_cell_run(&scalar, &one), x);
}

struct seen {
    uint8_t hit[216];
    int64_t next_local;
    const struct hsp_box *held, *full;
};

static enum hsp_status see(void *ctx, uint64_t g, int64_t l, int64_t n, struct hsp_err *err)
{
    struct seen *s = ctx;
    (void)err;
    assert_int_equal(l, s->next_local);
    s->next_local += n;
    for (int64_t k = 0; k < n; k++) {
        int64_t at[4], rest = (int64_t)g + k;
        for (int d = (int)s->full->rank - 1; d >= 0; d--) {
            at[d] = rest % s->full->hi[d];
            rest /= s->full->hi[d];
        }
        assert_true(in_box(s->held, at));
        assert_int_equal(index_in(s->held, at), l + k);
    }
    return HSP_OK;
}

static void global_indices_of_a_box(void **state)
{
    (void)state;
    uint64_t n = 0;
    for (int trial = 0; trial < 500; trial++) {
        struct hsp_box full = {.rank = (uint8_t)(trial % 4), .hi = {6, 6, 6, 0}};
        struct hsp_box held = random_box(full.rank, NULL, &n);
        struct seen s = {.held = &held, .full = &full};
        assert_int_equal(hsp_box_runs(&held, &full, see, &s, NULL), HSP_OK);
        assert_int_equal(s.next_local, hsp_box_count(&held));
    }
}

HSP_TEST_FILE(cells_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_and_adds_follow_the_definition),
        cmocka_unit_test(runs_are_found_where_they_are),
        cmocka_unit_test(global_indices_of_a_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
