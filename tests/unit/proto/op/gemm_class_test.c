/* Tests the shape classes of matrix products: examples by hand, and the rules for all products. */
#include "proto/op/gemm_class.h"
#include "tests/lib/testlib.h"

static void shapes_of_a_transformer(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n, k;
        enum hsp_gemm_class want;
    } c[] = {
        {1024, 768, 768, HSP_GEMM_EVEN},   /* 124M: a projection of 1024 tokens */
        {1024, 3072, 768, HSP_GEMM_EVEN},  /* up */
        {1024, 768, 3072, HSP_GEMM_EVEN},  /* down */
        {8192, 768, 768, HSP_GEMM_EVEN},   /* more tokens are more of the same */
        {1024, 50257, 768, HSP_GEMM_EVEN}, /* its head, on few tokens */
        {8192, 50257, 768, HSP_GEMM_WIDE}, /* of many tokens it writes */
        {1024, 768, 50257, HSP_GEMM_LONG}, /* and back */
        {50257, 768, 8192, HSP_GEMM_EVEN}, /* gradients of weights: the head's, */
        {768, 768, 1024, HSP_GEMM_EVEN},   /* a projection's over 1024 tokens */
        {768, 768, 8192, HSP_GEMM_LONG},   /* and over 8 sequences */
        {1024, 10, 768, HSP_GEMM_FEW},     /* ten classes */
        {16, 4096, 4096, HSP_GEMM_FEW},    /* 16 tokens */
        {4096, 4096, 16, HSP_GEMM_WIDE},   /* rank 16 */
        {0, 4, 4, HSP_GEMM_FEW},
        {64, 64, 0, HSP_GEMM_WIDE},
        {64, 64, 16, HSP_GEMM_EVEN}, /* at the borders */
        {64, 64, 15, HSP_GEMM_WIDE},
        {64, 64, 259, HSP_GEMM_EVEN},
        {64, 64, 260, HSP_GEMM_LONG},
        {63, 64, 64, HSP_GEMM_FEW},
        {INT64_MAX, INT64_MAX, 1, HSP_GEMM_WIDE},
        {64, 64, INT64_MAX, HSP_GEMM_LONG},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        assert_int_equal(hsp_gemm_class_of(c[i].m, c[i].n, c[i].k), c[i].want);
        assert_int_equal(hsp_gemm_class_of(c[i].n, c[i].m, c[i].k), c[i].want);
    }
}

static enum hsp_gemm_class class_of(enum hsp_op op, struct hsp_attrs at, const int64_t a[3],
                                    const int64_t b[3])
{
    int64_t in[HSP_MAX_IN][HSP_MAX_RANK] = {{0}}, axis[HSP_MAX_AXES];
    struct hsp_axes ax;
    struct hsp_err err = {0};
    for (int d = 0; d < 3; d++) {
        in[0][d] = a[d];
        in[1][d] = in[2][d] = b[d];
    }
    assert_ok(hsp_op_axes(op, &at, 3, &ax, &err), &err);
    assert_ok(hsp_op_extents(op, &at, &ax, in, axis, &err), &err);
    return hsp_op_gemm_class(op, &ax, axis);
}

/* Classifies products by their extents m, n, k. A linear layer of 512 inputs and 8 times as many
 * outputs is wide in its forward product; the products for the gradients of its input and its
 * weight are even. */
static void ops_are_of_their_shape(void **state)
{
    (void)state;
    const struct hsp_attrs none = {.i = {0}}, heads = {.i = {64, 1, 1}};
    const int64_t x[3] = {2, 2048, 512}, y[3] = {2, 2048, 4096}, w[3] = {4096, 512};
    assert_int_equal(class_of(HSP_OP_LINEAR, none, x, w), HSP_GEMM_WIDE);    /* 4096 4096 512 */
    assert_int_equal(class_of(HSP_OP_LINEAR_DX, none, y, w), HSP_GEMM_EVEN); /* 4096 512 4096 */
    assert_int_equal(class_of(HSP_OP_LINEAR_DW, none, y, x), HSP_GEMM_EVEN); /* 4096 512 4096 */
    const int64_t few[3] = {1, 8, 512}, many[3] = {16, 2048, 512};
    assert_int_equal(class_of(HSP_OP_LINEAR, none, few, w), HSP_GEMM_FEW);
    assert_int_equal(class_of(HSP_OP_LINEAR_DW, none, many, many), HSP_GEMM_LONG);
    assert_int_equal(class_of(HSP_OP_ATTENTION, heads, x, x), HSP_GEMM_ATTENTION);
}

static void parts_are_believed_within_bounds(void **state)
{
    (void)state;
    static const double bad[] = {0, -1, (double)NAN, (double)INFINITY, -(double)INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_near(hsp_gemm_part(bad[i]), 0, 0);
    }
    assert_near(hsp_gemm_part(0.25), 0.25, 0);
    assert_near(hsp_gemm_part(1e-9), HSP_GEMM_PART_LEAST, 0);
    assert_near(hsp_gemm_part(1e9), HSP_GEMM_PART_MOST, 0);
    assert_string_equal(hsp_gemm_class_name(HSP_GEMM_EVEN), "even");
    assert_string_equal(hsp_gemm_class_name(HSP_GEMM_ATTENTION), "attention");
}

HSP_TEST_FILE(gemm_class_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_of_a_transformer),
        cmocka_unit_test(ops_are_of_their_shape),
        cmocka_unit_test(parts_are_believed_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
