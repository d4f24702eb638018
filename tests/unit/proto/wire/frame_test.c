#include "proto/wire/frame.h"

#include <stdbool.h>
#include <stdio.h>

#include "proto/base/rng.h"
#include "proto/wire/protocol.h"
#include "tests/lib/testlib.h"

static const struct hsp_frame_limits normal = {HSP_FRAME_BODY_MAX, HSP_FRAME_BLOB_MAX};

/* The bytes of one frame, as README.md gives them. A change needs a new version. */
static const uint8_t golden[] = {
    'h',
    's',
    'p',
    'm',               /* magic */
    HSP_PROTO_VERSION, /* version */
    HSP_PROTO_OLDEST,  /* oldest */
    0x05,
    0x00, /* type 5 */
    0x08,
    0x07,
    0x06,
    0x05,
    0x04,
    0x03,
    0x02,
    0x01, /* request 0x0102030405060708 */
    0x11,
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x80, /* epoch 0x8000000000000011 */
    0x02,
    0x00,
    0x00,
    0x00, /* body 2 bytes */
    0x03,
    0x00,
    0x00,
    0x00, /* blob 3 bytes */
    '{',
    '}', /* body */
    0xff,
    0x00,
    0x7f, /* blob */
};

static void test_golden(void **state)
{
    (void)state;
    struct hsp_frame_header h = {.version = HSP_PROTO_VERSION,
                                 .oldest = HSP_PROTO_OLDEST,
                                 .type = 5,
                                 .request = UINT64_C(0x0102030405060708),
                                 .epoch = UINT64_C(0x8000000000000011),
                                 .body_len = 2,
                                 .blob_len = 3};
    uint8_t raw[HSP_FRAME_HEADER];
    hsp_frame_header_encode(&h, raw);
    assert_memory_equal(raw, golden, sizeof raw);

    struct hsp_frame_parser p;
    struct hsp_frame f;
    struct hsp_err err;
    size_t used;
    hsp_frame_parser_init(&p, &normal);
    assert_ok(hsp_frame_feed(&p, golden, sizeof golden, &used, &f, &err), &err);
    assert_int_equal(used, sizeof golden);
    assert_int_equal(f.head.type, 5);
    assert_true(f.head.request == h.request && f.head.epoch == h.epoch);
    assert_int_equal(f.head.body_len, 2);
    assert_string_equal((char *)f.body, "{}");
    assert_memory_equal(f.blob, "\xff\0\x7f", 3);
    hsp_frame_fini(&f);
    hsp_frame_parser_fini(&p);
}

/* Frames of many sizes, in pieces of many sizes, come out as they went in. */
static void test_any_pieces(void **state)
{
    (void)state;
    enum { N = 200 };
    size_t cap = 8u << 20, len = 0;
    uint8_t *wire = malloc(cap);
    uint32_t body[N], blob[N];
    for (uint32_t i = 0; i < N; i++) {
        body[i] = i % 5 == 0 ? 0 : (uint32_t)hsp_test_range("body", i, 0, 9000);
        blob[i] = i % 3 == 0 ? (uint32_t)hsp_test_range("blob", i, 0, 60000) : 0;
        struct hsp_frame_header h = {.version = HSP_PROTO_VERSION,
                                     .type = (uint16_t)i,
                                     .request = i,
                                     .body_len = body[i],
                                     .blob_len = blob[i]};
        hsp_frame_header_encode(&h, wire + len);
        len += HSP_FRAME_HEADER;
        memset(wire + len, (int)(i + 1), body[i] + blob[i]);
        len += body[i] + blob[i];
        assert_true(len < cap - 70000);
    }
    for (uint64_t round = 0; round < 4; round++) {
        struct hsp_frame_parser p;
        struct hsp_err err;
        uint32_t got = 0;
        uint64_t draw = 0;
        hsp_frame_parser_init(&p, &normal);
        for (size_t at = 0; at < len;) {
            static const int64_t most[] = {1, 40, 5000, 1 << 20};
            size_t n = (size_t)hsp_test_range("piece", 1000 * round + draw++, 1, most[round]);
            n = n < len - at ? n : len - at;
            size_t used;
            struct hsp_frame f;
            enum hsp_status st = hsp_frame_feed(&p, wire + at, n, &used, &f, &err);
            at += used;
            if (st == HSP_AGAIN) {
                assert_int_equal(used, n);
                continue;
            }
            assert_ok(st, &err);
            assert_int_equal(f.head.type, got);
            assert_int_equal(f.head.body_len, body[got]);
            assert_int_equal(f.head.blob_len, blob[got]);
            assert_int_equal(f.body[body[got]], 0);
            assert_true(body[got] == 0 || f.body[body[got] - 1] == (uint8_t)(got + 1));
            assert_true(blob[got] == 0 || f.blob[blob[got] - 1] == (uint8_t)(got + 1));
            hsp_frame_fini(&f);
            got++;
        }
        assert_int_equal(got, N);
        hsp_frame_parser_fini(&p);
    }
    free(wire);
}

/* The golden frame with @v at @at, and @oldest in its place. */
static void refuse_of(size_t at, uint8_t v, uint8_t oldest, enum hsp_status want, const char *text)
{
    uint8_t raw[sizeof golden];
    struct hsp_frame_parser p;
    struct hsp_frame_limits lim = {100, 200};
    struct hsp_frame f;
    struct hsp_err err;
    size_t used;
    memcpy(raw, golden, sizeof raw);
    raw[5] = oldest;
    raw[at] = v;
    hsp_frame_parser_init(&p, &lim);
    assert_status(hsp_frame_feed(&p, raw, sizeof raw, &used, &f, &err), want);
    assert_err(&err, want, text);
    assert_null(p.frame.body); /* nothing was allocated for it */
    assert_status(hsp_frame_feed(&p, golden, sizeof golden, &used, &f, &err), want); /* F1 */
    assert_int_equal(used, 0);
    hsp_frame_parser_fini(&p);
}

static void refuse(size_t at, uint8_t v, enum hsp_status want, const char *text)
{
    refuse_of(at, v, HSP_PROTO_OLDEST, want, text);
}

static void test_refuses(void **state)
{
    (void)state;
    refuse(0, 'G', HSP_EPROTO, "frame magic 0x6d707347, want 0x6d707368");
    refuse(5, 19, HSP_EPROTO, "a frame of protocol 19 to 18");
    /* Before version 14 the byte was 0. */
    refuse_of(4, 13, 0, HSP_EVERSION,
              "the program there speaks protocol 13, the program here protocol 14 to 18: upgrade "
              "the program there");
    refuse_of(4, 20, 19, HSP_EVERSION,
              "the program there speaks protocol 19 to 20, the program here protocol 14 to 18: "
              "upgrade the program here");
    refuse(24, 101, HSP_ELIMIT, "frame body 101 bytes above limit 100");
    refuse(31, 0x80, HSP_ELIMIT, "frame blob 2147483651 bytes above limit 200");
}

/* A sender whose range has ours in it is heard, and its range is given on. */
static void test_other_versions(void **state)
{
    (void)state;
    static const uint8_t range[][3] = {{14, 14, 14}, {0, 14, 14}, {13, 14, 13}, {12, 20, 12}};
    for (size_t i = 0; i < sizeof range / sizeof range[0]; i++) {
        uint8_t raw[HSP_FRAME_HEADER];
        struct hsp_frame_header h;
        struct hsp_err err;
        memcpy(raw, golden, sizeof raw);
        raw[5] = range[i][0];
        raw[4] = range[i][1];
        assert_ok(hsp_frame_header_decode(raw, &normal, &h, &err), &err);
        assert_int_equal(h.version, range[i][1]);
        assert_int_equal(h.oldest, range[i][2]);
    }
}

/* A header that claims much gets memory only for the bytes that follow. */
static void test_memory_follows_bytes(void **state)
{
    (void)state;
    struct hsp_frame_header h = {
        .version = HSP_PROTO_VERSION, .body_len = 10, .blob_len = HSP_FRAME_BLOB_MAX};
    struct hsp_frame_parser p;
    struct hsp_frame f;
    struct hsp_err err;
    uint8_t raw[HSP_FRAME_HEADER + 1000] = {0};
    size_t used;
    hsp_frame_header_encode(&h, raw);
    hsp_frame_parser_init(&p, &normal);
    assert_status(hsp_frame_feed(&p, raw, sizeof raw, &used, &f, &err), HSP_AGAIN);
    assert_true(p.cap_blob <= 4096);
    assert_int_equal(p.n_blob, 990);
    hsp_frame_parser_fini(&p);
}

/* Any bytes: never more than asked is used, a failure is final. */
static void test_noise(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 3000; i++) {
        uint8_t raw[96];
        memcpy(raw, golden, sizeof golden);
        for (size_t k = sizeof golden; k < sizeof raw; k++) {
            raw[k] = (uint8_t)hsp_test_rand("noise", i * 128 + k);
        }
        for (uint64_t k = 0; k < 3; k++) {
            size_t at = (size_t)hsp_test_range("at", i * 3 + k, 0, sizeof raw - 1);
            raw[at] = (uint8_t)hsp_test_rand("bits", i * 3 + k);
        }
        struct hsp_frame_parser p;
        struct hsp_frame_limits lim = {64, 64};
        hsp_frame_parser_init(&p, &lim);
        for (size_t at = 0; at < sizeof raw;) {
            struct hsp_frame f;
            struct hsp_err err;
            size_t used = 0;
            enum hsp_status st = hsp_frame_feed(&p, raw + at, sizeof raw - at, &used, &f, &err);
            assert_true(used <= sizeof raw - at);
            at += used;
            if (st != HSP_OK) {
                break;
            }
            hsp_frame_fini(&f);
        }
        hsp_frame_parser_fini(&p);
    }
}

HSP_TEST_FILE(frame_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_any_pieces),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_other_versions),
        cmocka_unit_test(test_memory_follows_bytes),
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
