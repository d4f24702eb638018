/* Tests the emulation of kernels on the host: the functions of the device, and the faults that it
 * finds. Each test runs twice, with threads and blocks in both orders. */
#include <stdio.h>

#include "proto/base/size.h"
#include "proto/op/bf16.h"
#include "tests/lib/fakecuda/emulate.h"
#include "tests/lib/fakecuda/memshadow.h"
#include "tests/lib/testlib.h"
#include "tests/unit/worker/cuda/wrong_kernels.h"

/* A range of memory that the emulation takes for memory of the device. */
static _Alignas(4096) uint8_t device[16 * 4096];

static void right(enum right_kernel k, void *a, void *b, void *c, void *d)
{
    const char *wrong = run_right(k, a, b, c, d);
    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
}

static void functions_of_the_device(void)
{
    float *x = (float *)(void *)device, *y = x + 256;
    for (int i = 0; i < 150; i++) {
        x[i] = (float)i;
    }
    right(RIGHT_REVERSE, x, y, NULL, NULL);
    for (int i = 0; i < 150; i++) {
        int from = i / 64 * 64 + 63 - i % 64;
        assert_true(y[i] == (from < 150 ? (float)from : 0));
    }
    int *n = (int *)(void *)device;
    memset(device, 0, sizeof(device));
    right(RIGHT_WARP, n, NULL, NULL, NULL);
    assert_int_equal(n[0], 0);
    right(RIGHT_ATOMICS, n, n + 1, n + 2, n + 3);
    assert_int_equal(n[0], 2 * 7 * 96);
    assert_int_equal(n[1], 95);
    assert_int_equal(n[2], -1);
    assert_int_equal(n[3], 77);
    right(RIGHT_INDICES, n, NULL, NULL, NULL);
    for (int i = 0; i < 12 * 30; i++) {
        assert_int_equal(n[i], i / 30 * 1000 + i % 30);
    }
    right(RIGHT_ENDS, n, NULL, NULL, NULL);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(n[i], 5);
    }
}

static void conversions_are_those_of_the_project(void)
{
    static const uint32_t bits[16] = {0,          0x80000000, 0x3f800000, 0x3f808000,
                                      0x3f818000, 0x3f808001, 0x7f7fffff, 0x7f800000,
                                      0xff800000, 0x00000001, 0x00008001, 0x33333333,
                                      0xc2f6e979, 0x7f7f7fff, 0x7f7f8000, 0x42280000};
    float *x = (float *)(void *)device, *z = x + 64;
    uint16_t *y = (uint16_t *)(void *)(x + 32);
    memcpy(x, bits, sizeof(bits));
    right(RIGHT_BF16, x, y, z, NULL);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(y[i], hsp_bf16_of(x[i]));
        assert_true(z[i] == hsp_bf16_float(y[i]));
    }
}

static void in_both_orders(void **state)
{
    (void)state;
    hsp_fake_shadow_init(device, sizeof(device));
    for (int i = 0; i < 2; i++) {
        hsp_fake_run_backwards(i == 1);
        functions_of_the_device();
        conversions_are_those_of_the_project();
    }
    hsp_fake_run_backwards(false);
}

static void wrong(enum wrong_kernel k, const char *what)
{
    memset(device, 0, sizeof(device));
    for (int i = 0; i < 2; i++) {
        hsp_fake_run_backwards(i == 1);
        const char *found = run_wrong(k, device);
        if (found == NULL || strstr(found, what) == NULL) {
            fail_msg("found \"%s\", not \"%s\"", found != NULL ? found : "nothing", what);
        }
    }
    hsp_fake_run_backwards(false);
    in_both_orders(NULL); /* the next kernel is not affected */
}

static void kernels_that_hang_are_found(void **state)
{
    (void)state;
    hsp_fake_shadow_init(device, sizeof(device));
    wrong(WRONG_BARRIER, "divergence: of 64 threads 32 wait at a barrier, 32 at __ballot_sync");
    wrong(WRONG_WARP, "while others are at");
    wrong(WRONG_MASK, "__syncwarp of lanes 000000f7 by lane 3");
    wrong(WRONG_STACK, "stack overflows");
    wrong(WRONG_GRID, "no such grid");
    wrong(WRONG_SMEM, "no such grid");
    wrong(WRONG_ALIGNED, "misaligned: 16 bytes");
}

static void a_lane_that_ended_is_missed(void **state)
{
    (void)state;
    hsp_fake_shadow_init(device, sizeof(device));
    /* a thread ends before others reach the barrier, or while they wait at it */
    for (int i = 0; i < 2; i++) {
        hsp_fake_run_backwards(i == 1);
        const char *found = run_wrong(WRONG_ENDED, NULL);
        assert_non_null(found);
        assert_true(strstr(found, "have ended") != NULL || strstr(found, "divergence") != NULL);
    }
    hsp_fake_run_backwards(false);
}

#ifdef HSP_FAKE_WATCHED
static void races_are_found(void **state)
{
    (void)state;
    hsp_fake_shadow_init(device, sizeof(device));
    wrong(WRONG_SHARED, "with no barrier between");
    wrong(WRONG_WARP_ORDER, "with no barrier between");
    wrong(WRONG_ALL_WRITE, "with no barrier between");
    wrong(WRONG_BLOCKS, "which another block wrote");
    wrong(WRONG_BLOCK_READS, "which another block");
}

struct seen {
    int n;
    size_t at[8], bytes[8];
    bool write[8];
};

static void note(void *ctx, void *p, size_t n, bool write)
{
    struct seen *s = ctx;
    assert_true(s->n < 8);
    s->at[s->n] = (size_t)((uint8_t *)p - device);
    s->bytes[s->n] = n;
    s->write[s->n++] = write;
}

/* The accesses of a kernel are known to the byte, and forgotten when the next kernel starts. */
static void bytes_that_are_touched(void **state)
{
    (void)state;
    struct seen s = {0};
    hsp_fake_shadow_init(device, sizeof(device));
    /* the accesses cross the end of a page */
    right(RIGHT_REVERSE, device, device + 8192 - 300, NULL, NULL);
    hsp_fake_shadow_touched(note, &s);
    assert_int_equal(s.n, 2);
    assert_true(s.at[0] == 0 && s.bytes[0] == 600 && !s.write[0]);
    assert_true(s.at[1] == 8192 - 300 && s.bytes[1] == 600 && s.write[1]);
    s = (struct seen){0};
    right(RIGHT_ENDS, device + 4, NULL, NULL, NULL);
    hsp_fake_shadow_touched(note, &s);
    assert_int_equal(s.n, 1);
    assert_true(s.at[0] == 4 && s.bytes[0] == 160 && s.write[0]);
    s = (struct seen){0};
    right(RIGHT_ATOMICS, device, device + 4, device + 8, device + 12);
    hsp_fake_shadow_touched(note, &s); /* the same bytes are read, then written */
    assert_int_equal(s.n, 2);
    assert_true(s.bytes[0] == 16 && !s.write[0] && s.bytes[1] == 16 && s.write[1]);
}
#endif

HSP_TEST_FILE(emulate_test)
{
    if (!hsp_fake_can_run()) {
        (void)puts("1..0 # SKIP threads of a block have stacks of their own, which this tool does "
                   "not follow");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_both_orders),
        cmocka_unit_test(kernels_that_hang_are_found),
        cmocka_unit_test(a_lane_that_ended_is_missed),
#ifdef HSP_FAKE_WATCHED
        cmocka_unit_test(races_are_found),
        cmocka_unit_test(bytes_that_are_touched),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
