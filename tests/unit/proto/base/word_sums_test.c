#include "tests/lib/testlib.h"

#include "proto/base/word_sums.h"

enum { WORDS = 3000, PLACES = 9 };

static uint8_t buffer[4 * WORDS + PLACES];

/* Drawn bytes, or the words that carry most. */
static void fill(uint64_t k)
{
    for (size_t i = 0; i < sizeof buffer; i++) {
        buffer[i] = k % 3 == 0 ? 0xff : (uint8_t)hsp_test_rand("contents", k * sizeof buffer + i);
    }
}

/* As the definition says. */
static struct hsp_word_sums sums_of(const uint8_t *x, int64_t n, int64_t first)
{
    struct hsp_word_sums s = {0, 0};
    for (int64_t i = 0; i < n; i++) {
        uint32_t w;
        memcpy(&w, x + 4 * i, sizeof w);
        s.sum += w;
        s.places += (uint64_t)(first + i) * w;
    }
    return s;
}

static void check(const uint8_t *x, int64_t n, int64_t first)
{
    struct hsp_word_sums want = sums_of(x, n, first), got = {3, 5};
    hsp_word_sums_add(&got, x, n, first);
    want.sum += 3;
    want.places += 5;
    assert_true(hsp_word_sums_equal(&got, &want));
}

static void vectors_give_the_sums_of_the_definition(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 30; k++) {
        fill(k);
        int64_t first = k % 2 == 0 ? 0 : hsp_test_range("first", k, 0, INT64_C(1) << 40);
        for (int64_t n = 0; n < 70; n++) {
            check(buffer + k % PLACES, n, first);
        }
        check(buffer + k % PLACES, hsp_test_range("length", k, 70, WORDS), first);
    }
}

/* A range in two parts, in any order; lanes over blocks. */
static void parts_add_up(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 40; k++) {
        fill(k);
        int64_t cut = hsp_test_range("cut", k, 0, WORDS);
        struct hsp_word_sums got = {0, 0}, want = sums_of(buffer, WORDS, 7);
        hsp_word_sums_add(&got, buffer + 4 * cut, WORDS - cut, 7 + cut);
        hsp_word_sums_add(&got, buffer, cut, 7);
        assert_true(hsp_word_sums_equal(&got, &want));
        struct hsp_sum_lanes l = {.n = 0};
        int64_t blocks = cut / HSP_SUM_WORDS;
        hsp_sum_lanes_add(&l, buffer, blocks / 3);
        hsp_sum_lanes_add(&l, buffer + 4 * HSP_SUM_WORDS * (blocks / 3), blocks - blocks / 3);
        got = (struct hsp_word_sums){0, 0};
        hsp_sum_lanes_end(&l, 7, &got);
        want = sums_of(buffer, blocks * HSP_SUM_WORDS, 7);
        assert_true(hsp_word_sums_equal(&got, &want));
    }
}

/* One flipped bit; one in each of two words, also those of the most weight; two words exchanged. */
static void damage_changes_the_sums(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 300; k++) {
        fill(k % 5 * 3 + 1);
        const struct hsp_word_sums was = sums_of(buffer, WORDS, 0);
        int64_t i = hsp_test_range("word", 2 * k, 0, WORDS - 2);
        int64_t j = hsp_test_range("word", 2 * k + 1, i + 1, WORDS - 1);
        uint32_t x, y, bit = k % 2 == 0 ? 1u << 31 : 1u << hsp_test_rand("bit", k) % 32;
        memcpy(&x, buffer + 4 * i, 4);
        memcpy(&y, buffer + 4 * j, 4);
        const uint32_t harm[3][2] = {{x ^ bit, y}, {x ^ bit, y ^ bit}, {y, x}};
        for (int h = 0; h < 3; h++) {
            struct hsp_word_sums is = {0, 0};
            memcpy(buffer + 4 * i, &harm[h][0], 4);
            memcpy(buffer + 4 * j, &harm[h][1], 4);
            hsp_word_sums_add(&is, buffer, WORDS, 0);
            assert_int_equal(hsp_word_sums_equal(&is, &was), h == 2 && x == y);
        }
    }
}

HSP_TEST_FILE(word_sums_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_give_the_sums_of_the_definition),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(damage_changes_the_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
