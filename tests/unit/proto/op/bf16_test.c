/* Tests bf16 against its definition: a number becomes the nearest of all 65,536 bf16 numbers, and
 * the even one of two equally near. */
#include "proto/op/bf16.h"

#include <math.h>

#include "proto/op/dtype.h"
#include "tests/lib/testlib.h"

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void every_number_is_itself(void **state)
{
    (void)state;
    for (uint32_t x = 0; x <= 0xffff; x++) {
        float f = hsp_bf16_float((uint16_t)x);
        uint16_t back = hsp_bf16_of(f);
        if (isnan(f)) {
            assert_true(isnan(hsp_bf16_float(back)));
            assert_int_equal(back, x | 0x40); /* quiet, the sign stays */
        } else {
            assert_int_equal(back, x);
        }
    }
}

/* Compares the rounding of the fp32 number @bits with its two bf16 neighbours: the largest bf16
 * number not above it, and the next one. @bits is not negative; the neighbour after the largest
 * finite number is 2^128. */
static void expect_nearest(uint32_t bits)
{
    double x = (double)float_of(bits), lo = (double)hsp_bf16_float((uint16_t)(bits >> 16));
    uint16_t up = (uint16_t)((bits >> 16) + 1);
    double hi = up == 0x7f80 ? ldexp(1, 128) : (double)hsp_bf16_float(up);
    bool even = ((bits >> 16) & 1) == 0;
    uint16_t want = x - lo < hi - x || (x - lo == hi - x && even) ? (uint16_t)(bits >> 16) : up;
    assert_int_equal(hsp_bf16_of((float)x), want);
    assert_int_equal(hsp_bf16_of(-(float)x), want | 0x8000);
}

static void rounding_is_to_the_nearest_even(void **state)
{
    (void)state;
    static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1234, 0xabcd};
    for (uint32_t high = 0; high < 0x7f80; high++) { /* subnormals, too */
        for (size_t i = 0; i < sizeof low / sizeof low[0]; i++) {
            expect_nearest(high << 16 | low[i]);
        }
        expect_nearest(high << 16 | (uint32_t)(hsp_test_rand("bf16", high) & 0xffff));
    }
    assert_int_equal(hsp_bf16_of(INFINITY), 0x7f80);
    assert_int_equal(hsp_bf16_of(-INFINITY), 0xff80);
}

static void a_nan_stays_one(void **state)
{
    (void)state;
    static const uint32_t bits[] = {0x7f800001, 0x7fffffff, 0xff800001, 0xffffffff, 0x7fc00000};
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        uint16_t x = hsp_bf16_of(float_of(bits[i]));
        assert_true(isnan(hsp_bf16_float(x)));
        assert_int_equal(x >> 15, bits[i] >> 31);
    }
}

static void sizes_and_names(void **state)
{
    (void)state;
    static const struct {
        enum hsp_dtype t, wide;
        size_t size;
        const char *name;
    } want[HSP_N_DTYPES] = {{HSP_F32, HSP_F32, 4, "fp32"},
                            {HSP_F64, HSP_F64, 8, "fp64"},
                            {HSP_I32, HSP_I32, 4, "i32"},
                            {HSP_BF16, HSP_F32, 2, "bf16"}};
    for (int i = 0; i < HSP_N_DTYPES; i++) {
        assert_int_equal(want[i].t, i); /* numbers in files */
        assert_int_equal(hsp_dtype_size(want[i].t), want[i].size);
        assert_int_equal(hsp_dtype_wide(want[i].t), want[i].wide);
        assert_int_equal(hsp_dtype_real(want[i].t), want[i].t != HSP_I32);
        assert_string_equal(hsp_dtype_name(want[i].t), want[i].name);
    }
}

HSP_TEST_FILE(bf16_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_itself),
        cmocka_unit_test(rounding_is_to_the_nearest_even),
        cmocka_unit_test(a_nan_stays_one),
        cmocka_unit_test(sizes_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
