#include "tests/lib/testlib.h"

#include "proto/base/hash.h"

static void known_answers(void **state)
{
    (void)state;
    /* XXH3 of the empty input, from the xxHash specification. */
    assert_true(hsp_hash64("", 0, 0) == 0x2d06800538d394c2ULL);
    struct hsp_digest d = hsp_hash128("", 0);
    assert_true(d.hi == 0x99aa06d3014798d8ULL && d.lo == 0x6001c324468d497fULL);
    assert_true(hsp_hash_str("abc") == hsp_hash64("abc", 3, 0));
    assert_true(hsp_hash64("abc", 3, 1) != hsp_hash64("abc", 3, 0));
}

static void digest_text_round_trips(void **state)
{
    (void)state;
    char hex[HSP_DIGEST_HEX];
    hsp_digest_hex(hsp_hash128("", 0), hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
    struct hsp_digest d = {0, 0};
    assert_true(hsp_digest_parse(hex, &d));
    assert_true(hsp_digest_equal(d, hsp_hash128("", 0)));
    assert_false(hsp_digest_equal(d, hsp_hash128("x", 1)));
    assert_false(hsp_digest_parse("99aa06d3014798d86001c324468d497", &d));
    assert_false(hsp_digest_parse("99aa06d3014798d86001c324468d497ff", &d));
    assert_false(hsp_digest_parse("99AA06d3014798d86001c324468d497f", &d));
    assert_false(hsp_digest_parse("", &d));
}

static void pieces_hash_like_the_whole(void **state)
{
    (void)state;
    uint8_t data[5000];
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)hsp_test_rand("hash", i);
    }
    for (uint64_t trial = 0; trial < 20; trial++) {
        struct hsp_hasher *h = hsp_hasher_new();
        assert_non_null(h);
        size_t pos = 0;
        for (uint64_t i = 0; pos < sizeof(data); i++) {
            size_t n = (size_t)hsp_test_range("piece", trial * 1000 + i, 0, 900);
            n = n < sizeof(data) - pos ? n : sizeof(data) - pos;
            hsp_hasher_update(h, data + pos, n);
            pos += n;
        }
        assert_true(hsp_digest_equal(hsp_hasher_digest(h), hsp_hash128(data, sizeof(data))));
        assert_null(hsp_hasher_free(h));
    }
}

static void mix_is_the_splitmix_finaliser(void **state)
{
    (void)state;
    /* First output of splitmix64 seeded with 0 is mix(0x9e3779b97f4a7c15). */
    assert_true(hsp_mix64(0x9e3779b97f4a7c15ULL) == 0xe220a8397b1dcdafULL);
    assert_true(hsp_mix64(0) == 0);
}

HSP_TEST_FILE(hash_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(digest_text_round_trips),
        cmocka_unit_test(pieces_hash_like_the_whole),
        cmocka_unit_test(mix_is_the_splitmix_finaliser),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
