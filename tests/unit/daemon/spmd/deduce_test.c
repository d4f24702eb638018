/* Tests deduction on single ops: which operands stay, are gathered, completed or sliced, and which
 * ranks hold each addend. compile_test checks the values. */
#include "daemon/spmd/sharding/deduce.h"
#include "proto/base/check.h"
#include "tests/lib/testlib.h"

enum { B = 2, S = 4, K = 6, N = 8 };

static struct hsp_arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = hsp_arena_new((size_t)16 << 20);
    return arena == NULL;
}

static int teardown(void **state)
{
    (void)state;
    arena = hsp_arena_free(arena);
    return 0;
}

static struct hsp_layout whole(uint8_t rank, const int64_t *ext, uint32_t n)
{
    struct hsp_layout l;
    struct hsp_err err = {0};
    assert_ok(hsp_layout_whole(rank, ext, n, arena, &l, &err), &err);
    return l;
}

static struct hsp_layout cut(uint8_t rank, const int64_t *ext, uint32_t n, uint8_t dim,
                             const int64_t *at)
{
    struct hsp_layout l = whole(rank, ext, n);
    l.cut[dim] = 1;
    for (uint32_t j = 0; j < n; j++) {
        l.box[j].lo[dim] = at[j];
        l.box[j].hi[dim] = at[j + 1];
    }
    return l;
}

static struct hsp_layout partial(uint8_t rank, const int64_t *ext, uint32_t n)
{
    struct hsp_layout l = whole(rank, ext, n), sum;
    struct hsp_err err = {0};
    struct hsp_tiers tiers = {.n = n, .n_groups = 1};
    assert_ok(hsp_layout_sum(&l, HSP_IN_GROUPS, &tiers, arena, &sum, &err), &err);
    return sum;
}

static struct hsp_deduced deduce(enum hsp_op op, const struct hsp_layout *in,
                                 const struct hsp_layout *want)
{
    struct hsp_deduced d;
    struct hsp_err err = {0};
    struct hsp_attrs at = {.i = {op == HSP_OP_EMBED_DW ? N : 2, 1, 1}};
    struct hsp_question q = {.op = op,
                             .at = &at,
                             .n_in = hsp_op_n_in(op),
                             .n_out = hsp_op_n_out(op),
                             .in = in,
                             .want = want,
                             .tiers = {.n = in[0].n, .n_groups = 1}};
    assert_ok(hsp_deduce(&q, arena, &d, &err), &err);
    return d;
}

static const int64_t x_ext[] = {B, S, K}, y_ext[] = {B, S, N}, w_ext[] = {N, K};
static const int64_t n_cut[] = {0, 5, 5, N}, k_cut[] = {0, 0, 0, K};

/* In a column-parallel product the operands stay, and the output is cut like the weight. */
static void test_column(void **state)
{
    (void)state;
    struct hsp_layout in[] = {whole(3, x_ext, 3), cut(2, w_ext, 3, 0, n_cut)};
    struct hsp_deduced d = deduce(HSP_OP_LINEAR, in, NULL);
    assert_true(hsp_layout_equal(&d.need[0], &in[0]));
    assert_true(hsp_layout_equal(&d.need[1], &in[1]));
    struct hsp_layout y = cut(3, y_ext, 3, 2, n_cut);
    assert_true(hsp_layout_equal(&d.out[0], &y));
    assert_int_equal(d.out[0].cut[2], 1);
    assert_false(hsp_layout_partial(&d.out[0]));
}

/* In a row-parallel product the input is sliced, and the output is a partial sum; members without a
 * part of the sum do not take part. */
static void test_row(void **state)
{
    (void)state;
    struct hsp_layout in[] = {whole(3, x_ext, 3), cut(2, w_ext, 3, 1, k_cut)};
    struct hsp_deduced d = deduce(HSP_OP_LINEAR, in, NULL);
    struct hsp_layout x = cut(3, x_ext, 3, 2, k_cut), y = partial(3, y_ext, 3);
    assert_true(hsp_layout_equal(&d.need[0], &x));
    assert_true(hsp_layout_inside(&d.need[0], &in[0]));
    assert_true(hsp_layout_equal(&d.out[0], &y));
}

/* A partial gradient passes through ops that are linear in it alone; adding it to a complete
 * gradient is no such op. */
static void test_linear_sets(void **state)
{
    (void)state;
    struct hsp_layout dx[] = {partial(3, y_ext, 2), whole(2, w_ext, 2)};
    struct hsp_deduced d = deduce(HSP_OP_LINEAR_DX, dx, NULL);
    assert_true(hsp_layout_equal(&d.need[0], &dx[0]));
    assert_true(hsp_layout_partial(&d.out[0]));
    struct hsp_layout both[] = {partial(3, y_ext, 2), partial(3, y_ext, 2)};
    d = deduce(HSP_OP_ADD, both, NULL);
    assert_true(hsp_layout_partial(&d.out[0]));
    struct hsp_layout one[] = {partial(3, y_ext, 2), whole(3, y_ext, 2)};
    d = deduce(HSP_OP_ADD, one, NULL);
    assert_true(hsp_layout_equal(&d.need[0], &one[1]));
    assert_false(hsp_layout_partial(&d.out[0]));
    d = deduce(HSP_OP_GELU, one, NULL); /* linear in nothing */
    assert_false(hsp_layout_partial(&d.need[0]));
}

/* A partial operand meets a cut weight, and must be summed first: an addend would be multiplied by
 * only a part of the weight. */
static void test_partial_meets_cut(void **state)
{
    (void)state;
    static const int64_t half[] = {0, 3, K};
    struct hsp_layout in[] = {partial(3, y_ext, 2), cut(2, w_ext, 2, 1, half)};
    struct hsp_deduced d = deduce(HSP_OP_LINEAR_DX, in, NULL);
    assert_false(hsp_layout_partial(&d.need[0]));
    assert_true(hsp_layout_equal(&d.need[1], &in[1]));
    assert_false(hsp_layout_partial(&d.out[0]));
    assert_int_equal(d.out[0].box[1].lo[2], 3);
}

/* Two operands cut along different axes would leave blocks of the product uncomputed, so one
 * operand is gathered. */
static void test_two_cuts(void **state)
{
    (void)state;
    static const int64_t s_cut[] = {0, 2, S}, half[] = {0, 4, N};
    struct hsp_layout in[] = {cut(3, x_ext, 2, 1, s_cut), cut(2, w_ext, 2, 0, half)};
    in[1].cut[0] = 2;
    struct hsp_deduced d = deduce(HSP_OP_LINEAR, in, NULL);
    assert_true(hsp_layout_equal(&d.need[0], &in[0]));
    assert_int_equal(d.need[1].cut[0], 0);
    assert_int_equal(d.out[0].box[1].lo[1], 2);
    assert_int_equal(d.out[0].box[1].lo[2], 0);
}

/* A cut operand of a whole axis is needed whole, so it is gathered. A cut lookup axis gives partial
 * sums. The gradient of a lookup table is cut like the table, if its layout is given. */
static void test_classes(void **state)
{
    (void)state;
    static const int64_t ids_ext[] = {B, S}, t_ext[] = {N, K}, half[] = {0, 4, N};
    struct hsp_layout loss[] = {cut(3, y_ext, 2, 2, half), whole(2, ids_ext, 2)};
    struct hsp_deduced d = deduce(HSP_OP_XENT, loss, NULL);
    assert_int_equal(d.need[0].cut[2], 0);
    struct hsp_layout look[] = {whole(2, ids_ext, 2), cut(2, t_ext, 2, 0, half)};
    d = deduce(HSP_OP_EMBED, look, NULL);
    assert_true(hsp_layout_equal(&d.need[1], &look[1]));
    assert_true(hsp_layout_partial(&d.out[0]));
    struct hsp_layout back[] = {whole(2, ids_ext, 2), whole(3, x_ext, 2)};
    d = deduce(HSP_OP_EMBED_DW, back, &look[1]);
    assert_true(hsp_layout_equal(&d.out[0], &look[1]));
    d = deduce(HSP_OP_EMBED_DW, back, NULL);
    assert_int_equal(d.out[0].cut[0], 0);
}

static void test_wrong_rank(void **state)
{
    (void)state;
    struct hsp_layout in[] = {whole(2, x_ext, 2), whole(2, w_ext, 2)};
    struct hsp_deduced d;
    struct hsp_err err = {0};
    struct hsp_attrs at = {0};
    struct hsp_question q = {.op = HSP_OP_LINEAR,
                             .at = &at,
                             .n_in = 2,
                             .n_out = 1,
                             .in = in,
                             .tiers = {.n = 2, .n_groups = 1}};
    assert_status(hsp_deduce(&q, arena, &d, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "linear: operand 0 has rank 2, not 3");
}

HSP_TEST_FILE(deduce_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_column),      cmocka_unit_test(test_row),
        cmocka_unit_test(test_linear_sets), cmocka_unit_test(test_partial_meets_cut),
        cmocka_unit_test(test_two_cuts),    cmocka_unit_test(test_classes),
        cmocka_unit_test(test_wrong_rank),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
