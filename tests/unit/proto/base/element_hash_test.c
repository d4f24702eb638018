#include "tests/lib/testlib.h"

#include "proto/base/element_hash.h"

enum { MOST = 4096, PLACES = 64 }; /* more bytes than a kernel looks ahead, and then some */

static uint8_t buffer[8 * MOST + PLACES];

/* Drawn bytes, or the words whose products and sums carry most. */
static void fill(uint64_t k)
{
    static const uint8_t edge[] = {0x00, 0xff, 0x80, 0x7f};
    for (size_t i = 0; i < sizeof buffer; i++) {
        uint64_t r = hsp_test_rand("contents", k * sizeof buffer + i);
        buffer[i] = k % 3 == 0 ? edge[k / 3 % 4] : (uint8_t)r;
    }
}

static void check(int64_t n, size_t place, uint64_t key)
{
    const uint8_t *x = buffer + place;
    uint64_t want_32 = hsp_hash_run_32(x, n, key), want_64 = hsp_hash_run_64(x, n, key);
    const struct hsp_hash_kernel *kernel;
    for (unsigned i = 0; (kernel = hsp_hash_kernel_at(i)) != NULL; i++) {
        if (kernel->run_32(x, n, key) != want_32 || kernel->run_64(x, n, key) != want_64) {
            fail_msg("%s: %d elements at %zu with key %llx", kernel->name, (int)n, place,
                     (unsigned long long)key);
        }
    }
    assert_true(hsp_hash_32(x, n, key) == want_32);
    assert_true(hsp_hash_64(x, n, key) == want_64);
}

static void every_kernel_gives_the_hash_of_the_definition(void **state)
{
    (void)state;
    uint64_t draw = 0;
    for (uint64_t k = 0; k < 12; k++) {
        fill(k);
        for (size_t place = 0; place < PLACES; place++) {
            for (int64_t n = 0; n < 80; n++) {
                check(n, place, k % 4 == 0 ? k * HSP_HASH_STEP : hsp_test_rand("key", draw++));
            }
            check(hsp_test_range("length", draw, 80, MOST), place, hsp_test_rand("key", draw));
            draw++;
        }
    }
}

/* The last kernel is the reference that defines the hash, so every other kernel can be compared
 * with it. */
static void kernels_have_names(void **state)
{
    (void)state;
    unsigned n = 0;
    while (hsp_hash_kernel_at(n) != NULL) {
        n++;
    }
    assert_true(n >= 1);
    assert_string_equal(hsp_hash_kernel_at(n - 1)->name, "plain");
    assert_null(hsp_hash_kernel_at(n + 1));
}

HSP_TEST_FILE(element_hash_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_gives_the_hash_of_the_definition),
        cmocka_unit_test(kernels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
