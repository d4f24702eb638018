#include "proto/op/op.h"
#include "tests/lib/testlib.h"

static struct hsp_axes axes_of(enum hsp_op op, struct hsp_attrs at, uint8_t rank)
{
    struct hsp_axes ax;
    struct hsp_err err = {0};
    assert_ok(hsp_op_axes(op, &at, rank, &ax, &err), &err);
    return ax;
}

static void every_op_has_a_name_and_axes(void **state)
{
    (void)state;
    for (int i = 0; i < HSP_N_OPS; i++) {
        enum hsp_op op = (enum hsp_op)i, found;
        assert_true(hsp_op_find(hsp_op_name(op), &found));
        assert_int_equal(found, op);
        struct hsp_axes ax = axes_of(op, (struct hsp_attrs){.i = {2, 1, 3}}, 2);
        assert_int_equal(ax.n_in, hsp_op_n_in(op));
        assert_int_equal(ax.n_out, hsp_op_n_out(op));
        for (int l = 0; l < 2; l++) {
            assert_int_equal(ax.linear[l] >> ax.n_in, 0);
        }
        assert_int_equal(ax.linear[0] & ax.linear[1], 0);
    }
    enum hsp_op none;
    assert_false(hsp_op_find("convolution", &none));
}

static void types_of_every_op(void **state)
{
    (void)state;
    static const enum hsp_dtype reals[] = {HSP_F32, HSP_F64, HSP_BF16};
    for (int i = 0; i < HSP_N_OPS; i++) {
        enum hsp_op op = (enum hsp_op)i;
        const char *types = hsp_op_types(op);
        uint8_t n = (uint8_t)(hsp_op_n_in(op) + hsp_op_n_out(op)), wrong = 0;
        assert_int_equal(strlen(types), n + 1);
        assert_int_equal(strspn(types, "twdi"), hsp_op_n_in(op));
        assert_int_equal(types[hsp_op_n_in(op)], ':');
        for (size_t r = 0; r < 3; r++) {
            uint8_t dtype[HSP_MAX_IN + HSP_MAX_OUT];
            enum hsp_dtype real = HSP_I32;
            for (uint8_t k = 0; k < n; k++) {
                dtype[k] = (uint8_t)hsp_op_dtype(op, k, reals[r]);
            }
            assert_true(hsp_op_real(op, dtype, &real, &wrong));
            for (uint8_t k = 0; k < n; k++) { /* an op all in fp32 is one of fp32 */
                assert_int_equal(hsp_op_dtype(op, k, real), dtype[k]);
            }
        }
    }
    assert_string_equal(hsp_op_types((enum hsp_op)HSP_N_OPS), "");
}

/* Sums, statistics and gradients of parameters are fp32 where the data are bf16. */
static void types_that_do_not_fit(void **state)
{
    (void)state;
    enum hsp_dtype real;
    uint8_t wrong = 9;
    assert_int_equal(hsp_op_dtype(HSP_OP_LINEAR_DW, 2, HSP_BF16), HSP_F32);
    assert_int_equal(hsp_op_dtype(HSP_OP_LINEAR_DX, 2, HSP_BF16), HSP_BF16);
    assert_false(
        hsp_op_real(HSP_OP_LINEAR, (uint8_t[]){HSP_BF16, HSP_F32, HSP_BF16}, &real, &wrong));
    assert_int_equal(wrong, 1);
    assert_false(
        hsp_op_real(HSP_OP_LINEAR_DW, (uint8_t[]){HSP_BF16, HSP_BF16, HSP_BF16}, &real, &wrong));
    assert_int_equal(wrong, 2);
    assert_false(hsp_op_real(HSP_OP_ADD, (uint8_t[]){HSP_I32, HSP_I32, HSP_I32}, &real, &wrong));
    assert_int_equal(wrong, 0);
    uint8_t update[7];
    memset(update, HSP_BF16, sizeof update); /* state is never bf16 */
    assert_false(hsp_op_real(HSP_OP_ADAMW, update, &real, &wrong));
    assert_true(hsp_op_real(HSP_OP_NARROW, (uint8_t[]){HSP_F32, HSP_BF16}, &real, &wrong));
    assert_int_equal(real, HSP_BF16);
    assert_false(hsp_op_real(HSP_OP_NARROW, (uint8_t[]){HSP_F64, HSP_BF16}, &real, &wrong));
    assert_true(hsp_op_real(HSP_OP_WIDEN, (uint8_t[]){HSP_BF16, HSP_F32}, &real, &wrong));
    assert_int_equal(real, HSP_BF16);
}

static void axes_of_linear(void **state)
{
    (void)state;
    struct hsp_axes ax = axes_of(HSP_OP_LINEAR, (struct hsp_attrs){0}, 0);
    assert_int_equal(ax.n_axes, 4);
    assert_int_equal(ax.axis[2].name, 'k');
    assert_int_equal(ax.axis[2].cls, HSP_AXIS_CONTRACTED);
    assert_int_equal(ax.axis[3].name, 'n');
    assert_int_equal(ax.axis[3].cls, HSP_AXIS_FREE);
    assert_int_equal(ax.in[1].rank, 2);
    assert_int_equal(ax.in[1].dim[0].axis, 3);
    assert_int_equal(ax.in[1].dim[1].axis, 2);
    assert_int_equal(ax.linear[0], 1);
    assert_int_equal(ax.linear[1], 2);
}

static void axes_of_attention(void **state)
{
    (void)state;
    struct hsp_axes ax = axes_of(HSP_OP_ATTENTION, (struct hsp_attrs){.i = {16, 1, 3}}, 0);
    assert_int_equal(ax.n_axes, 4); /* b s h t */
    assert_true(ax.in[0].dim[1].origin);
    assert_true(ax.in[1].dim[1].origin);
    assert_false(ax.in[2].dim[1].origin);
    assert_int_equal(ax.in[0].dim[2].unit, 48);
    assert_int_equal(ax.in[1].dim[2].unit, 16);
    assert_int_equal(ax.out[1].dim[2].unit, 3);
    assert_int_equal(ax.axis[ax.in[1].dim[1].axis].cls, HSP_AXIS_WHOLE);
    assert_int_equal(ax.axis[ax.in[0].dim[2].axis].cls, HSP_AXIS_FREE);
}

static void axes_of_lookup_and_dots(void **state)
{
    (void)state;
    struct hsp_axes ax = axes_of(HSP_OP_EMBED, (struct hsp_attrs){0}, 0);
    assert_int_equal(ax.axis[ax.in[1].dim[0].axis].cls, HSP_AXIS_LOOKUP);
    assert_true(ax.in[1].dim[0].origin);
    ax = axes_of(HSP_OP_BROADCAST, (struct hsp_attrs){0}, 3);
    assert_int_equal(ax.in[0].rank, 0);
    assert_int_equal(ax.in[1].rank, 3);
    assert_int_equal(ax.out[0].rank, 3);
    assert_int_equal(ax.axis[2].name, '2');
    ax = axes_of(HSP_OP_SUM, (struct hsp_attrs){0}, 2);
    assert_int_equal(ax.out[0].rank, 0);
    assert_int_equal(ax.axis[0].cls, HSP_AXIS_CONTRACTED);
    ax = axes_of(HSP_OP_ADAMW, (struct hsp_attrs){0}, 4);
    assert_int_equal(ax.n_axes, 4);
    assert_int_equal(ax.out[2].rank, 4);
}

static void bad_attributes_are_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_axes ax;
    struct hsp_attrs at = {.i = {0, 1, 1}};
    assert_status(hsp_op_axes(HSP_OP_ATTENTION, &at, 0, &ax, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "attention: unit 0 below 1 or too large");
    assert_status(hsp_op_axes(HSP_OP_ADD, &at, 5, &ax, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "add: rank 5 above limit 4");
    assert_status(hsp_op_axes((enum hsp_op)99, &at, 0, &ax, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "no op has number 99");
}

static void extents_agree_or_are_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_attrs at = {.i = {4, 1, 1}};
    struct hsp_axes ax = axes_of(HSP_OP_ATTENTION, at, 0);
    int64_t ext[HSP_MAX_AXES];
    int64_t good[3][HSP_MAX_RANK] = {{2, 3, 12}, {2, 5, 12}, {2, 5, 12}};
    assert_ok(hsp_op_extents(HSP_OP_ATTENTION, &at, &ax, good, ext, &err), &err);
    assert_int_equal(ext[2], 3); /* h */
    assert_int_equal(ext[3], 5); /* t */
    int64_t odd[3][HSP_MAX_RANK] = {{2, 3, 13}, {2, 5, 12}, {2, 5, 12}};
    assert_status(hsp_op_extents(HSP_OP_ATTENTION, &at, &ax, odd, ext, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "attention: extent 13 of operand 0 dim 2 is not a multiple of 4");
    int64_t bad[3][HSP_MAX_RANK] = {{2, 3, 12}, {2, 5, 12}, {2, 6, 12}};
    assert_status(hsp_op_extents(HSP_OP_ATTENTION, &at, &ax, bad, ext, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "attention: axis t is 6 in operand 2 dim 1 but 5 before");
}

static void output_only_axes_come_from_attributes(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_attrs at = {.i = {7, 0}};
    struct hsp_axes ax = axes_of(HSP_OP_EMBED_DW, at, 0);
    int64_t ext[HSP_MAX_AXES];
    int64_t in[2][HSP_MAX_RANK] = {{2, 3}, {2, 3, 4}};
    assert_ok(hsp_op_extents(HSP_OP_EMBED_DW, &at, &ax, in, ext, &err), &err);
    assert_int_equal(ext[ax.out[0].dim[0].axis], 7);
    ax = axes_of(HSP_OP_FLATTEN, at, 0);
    int64_t x[1][HSP_MAX_RANK] = {{2, 3, 7}};
    assert_ok(hsp_op_extents(HSP_OP_FLATTEN, &at, &ax, x, ext, &err), &err);
    assert_int_equal(ext[ax.out[0].dim[1].axis], 1);
    assert_int_equal(ax.out[0].dim[2].unit, 7);
}

/* Pairs counted one by one; blocks of a cut sequence add up to the whole. */
static void causal_pairs(void **state)
{
    (void)state;
    for (int64_t q0 = 0; q0 <= 6; q0++) {
        for (int64_t q1 = q0; q1 <= 6; q1++) {
            for (int64_t k = 0; k < 7 * 7; k++) {
                int64_t k0 = k / 7, k1 = k % 7, n = 0;
                for (int64_t i = 0; i < 7 * 7; i++) {
                    bool both = i / 7 >= q0 && i / 7 < q1 && i % 7 >= k0 && i % 7 < k1;
                    n += both && i % 7 <= i / 7;
                }
                if (k1 >= k0) {
                    assert_near(hsp_causal_pairs(q0, q1, k0, k1), (double)n, 0);
                }
            }
        }
    }
    struct hsp_attrs at = {.i = {4, 1, 3}};
    struct hsp_axes ax = axes_of(HSP_OP_ATTENTION_BWD, at, 0);
    int64_t whole[HSP_MAX_AXES] = {2, 9, 5, 9}; /* b s h t */
    double sum = 0;
    for (int64_t i = 0; i < 3; i++) {
        for (int64_t j = 0; j < 2; j++) {
            static const int64_t q[] = {0, 2, 2, 9}, k[] = {0, 7, 9};
            int64_t block[HSP_MAX_AXES] = {2, q[i + 1] - q[i], 5, k[j + 1] - k[j]};
            sum += hsp_op_flops_at(HSP_OP_ATTENTION_BWD, &at, block, &ax, (int64_t[]){q[i], k[j]});
        }
    }
    assert_near(sum, hsp_op_flops(HSP_OP_ATTENTION_BWD, &at, whole, &ax), 1e-9 * sum);
}

static void costs(void **state)
{
    (void)state;
    struct hsp_attrs at = {.i = {4, 0, 1}};
    struct hsp_axes ax = axes_of(HSP_OP_LINEAR, at, 0);
    int64_t ext[HSP_MAX_AXES] = {2, 3, 5, 7}; /* b s k n */
    assert_near(hsp_op_flops(HSP_OP_LINEAR, &at, ext, &ax), 2. * 2 * 3 * 5 * 7, 0);
    assert_near(hsp_op_bytes(HSP_OP_LINEAR, &ax, ext, HSP_F32), 4. * (30 + 35 + 42), 0);
    ax = axes_of(HSP_OP_ATTENTION, at, 0);
    int64_t full[HSP_MAX_AXES] = {2, 6, 3, 6}; /* b s h t */
    double all = hsp_op_flops(HSP_OP_ATTENTION, &at, full, &ax);
    at.i[1] = 1;
    assert_near(hsp_op_flops(HSP_OP_ATTENTION, &at, full, &ax), all * 21 / 36, 1e-9);
    ax = axes_of(HSP_OP_EMBED, at, 0);
    ax = axes_of(HSP_OP_LINEAR_DW, at, 0);   /* dw stays fp32 */
    int64_t dw[HSP_MAX_AXES] = {2, 3, 7, 5}; /* b s n k */
    assert_near(hsp_op_bytes(HSP_OP_LINEAR_DW, &ax, dw, HSP_BF16), 2. * (42 + 30) + 4. * 35, 0);
    ax = axes_of(HSP_OP_EMBED, at, 0);
    int64_t table[HSP_MAX_AXES] = {2, 3, 1000, 5}; /* b s v e: 6 rows read, not 1000 */
    assert_near(hsp_op_bytes(HSP_OP_EMBED, &ax, table, HSP_F32), 4. * (6 + 30 + 30), 0);
    for (int i = 0; i < HSP_N_OPS; i++) {
        ax = axes_of((enum hsp_op)i, (struct hsp_attrs){.i = {2, 1, 3}}, 2);
        int64_t zero[HSP_MAX_AXES] = {0};
        assert_near(hsp_op_flops((enum hsp_op)i, &at, zero, &ax), 0, 0);
    }
}

HSP_TEST_FILE(op_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_name_and_axes),
        cmocka_unit_test(types_of_every_op),
        cmocka_unit_test(types_that_do_not_fit),
        cmocka_unit_test(axes_of_linear),
        cmocka_unit_test(axes_of_attention),
        cmocka_unit_test(axes_of_lookup_and_dots),
        cmocka_unit_test(bad_attributes_are_refused),
        cmocka_unit_test(extents_agree_or_are_refused),
        cmocka_unit_test(output_only_axes_come_from_attributes),
        cmocka_unit_test(causal_pairs),
        cmocka_unit_test(costs),
    };
    return cmocka_run_group_tests_name("op", tests, NULL, NULL);
}
