#include "tests/lib/testlib.h"

#include "proto/base/place.h"

static int ascending(const void *key, const void *item)
{
    const uint64_t *a = key, *b = item;
    return (*a > *b) - (*a < *b);
}

static size_t place(uint64_t value, const uint64_t *list, size_t n)
{
    return hsp_place(&value, list, n, sizeof(*list), ascending);
}

/* Compares hsp_place with a linear search, on lists of all lengths up to 9 with equal values in
 * them. */
static void it_is_the_first_that_is_not_before(void **state)
{
    (void)state;
    const uint64_t list[] = {3, 7, 7, 9, 9, 9, 12, UINT64_MAX - 1, UINT64_MAX};
    assert_int_equal(place(5, NULL, 0), 0);
    for (size_t n = 0; n <= 9; n++) {
        for (uint64_t v = 0; v < 16; v++) {
            uint64_t value = v < 14 ? v : UINT64_MAX - 15 + v;
            size_t want = 0;
            while (want < n && list[want] < value) {
                want++;
            }
            assert_int_equal(place(value, list, n), want);
        }
    }
}

HSP_TEST_FILE(place_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_the_first_that_is_not_before)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
