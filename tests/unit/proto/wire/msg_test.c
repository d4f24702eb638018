/* Tests messages: decode(encode(x)) == x for random values of every type, and every way a body can
 * be wrong. */
#include "tests/lib/testlib.h"

#include <math.h>
#include <stdio.h>

#include "proto/base/size.h"
#include "proto/wire/msg_encode.h"
#include "proto/wire/msg_frame.h"
#include "proto/wire/msg_table.h"
#include "tests/unit/proto/wire/msg_dump.h"

static const uint16_t all_types[] = {
#define TYPE(n, v, s, w) HSP_MSG_##n,
    HSP_MSG_MAP(TYPE)
#undef TYPE
};

static uint64_t counter;
static uint64_t rnd(void)
{
    return hsp_test_rand("msg", counter++);
}

static char *random_text(struct hsp_arena *a, uint32_t limit)
{
    static const char chars[] = "abc\"\\\n/:.-{}[]\t 09\x01";
    size_t n = rnd() % (limit < 24 ? limit + 1 : 24);
    char *s = hsp_arena_alloc(a, n + 1);
    for (size_t i = 0; i < n; i++) {
        s[i] = chars[rnd() % (sizeof(chars) - 1)];
    }
    return s;
}

static double random_f64(void)
{
    switch (rnd() % 8) {
    case 0: return (double)NAN;
    case 1: return -(double)INFINITY;
    case 2: return 0.1;
    default: return ldexp((double)(int64_t)rnd(), (int)(rnd() % 200) - 160);
    }
}

static void fill(const struct hsp_wire_field *f, uint32_t n, char *base, struct hsp_arena *a)
{
    for (uint32_t i = 0; i < n; i++) {
        char *at = base + f[i].offset;
        uint64_t r = rnd();
        if (f[i].type == HSP_F_U32 || f[i].type == HSP_F_ENUM) {
            uint64_t most = f[i].type == HSP_F_ENUM
                                ? f[i].limit
                                : (f[i].limit != 0 ? f[i].limit + 1ull : 1ull << 32);
            uint32_t v = (uint32_t)(r % most);
            memcpy(at, &v, sizeof(v));
        } else if (f[i].type == HSP_F_U64) {
            memcpy(at, &r, sizeof(r));
        } else if (f[i].type == HSP_F_F64) {
            double v = random_f64();
            memcpy(at, &v, sizeof(v));
        } else if (f[i].type == HSP_F_BOOL) {
            bool v = (r & 1) != 0;
            memcpy(at, &v, sizeof(v));
        } else if (f[i].type == HSP_F_STR) {
            char *v = random_text(a, f[i].limit);
            memcpy(at, &v, sizeof(v));
        } else if (f[i].type == HSP_F_DIGEST) {
            struct hsp_digest v = {r, rnd()};
            memcpy(at, &v, sizeof(v));
        } else if (f[i].type == HSP_F_KEY) {
            memset(at, (int)(r & 255), HSP_KEY_BYTES);
        } else {
            uint32_t count = (uint32_t)(r % 5);
            size_t size = f[i].type == HSP_F_LIST ? f[i].sub_size : sizeof(double);
            char *items = hsp_arena_array(a, count, size);
            for (uint32_t k = 0; k < count; k++) {
                if (f[i].type == HSP_F_LIST) {
                    fill(f[i].sub, f[i].n_sub, items + k * size, a);
                } else {
                    double v = random_f64();
                    memcpy(items + k * size, &v, sizeof(v));
                }
            }
            memcpy(at, &items, sizeof(items));
            memcpy(base + f[i].count_offset, &count, sizeof(count));
        }
    }
}

static struct hsp_msg random_msg(uint16_t type, struct hsp_arena *a)
{
    struct hsp_msg m = {.type = type, .request = rnd(), .epoch = rnd()};
    const struct hsp_msg_desc *d = hsp_msg_desc_of(type);
    fill(d->fields, d->n_fields, (char *)&m.u, a);
    return m;
}

static void round_trip(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(64u << 20);
    for (size_t k = 0; k < 40 * HSP_ARRAY_LEN(all_types); k++) {
        struct hsp_err err = {0};
        struct hsp_msg m = random_msg(all_types[k % HSP_ARRAY_LEN(all_types)], a), back, copy;
        struct hsp_buf one, two, three;
        hsp_buf_init(&one, HSP_MSG_BODY_MAX);
        hsp_buf_init(&two, HSP_MSG_BODY_MAX);
        hsp_buf_init(&three, HSP_MSG_BODY_MAX);
        assert_ok(hsp_msg_encode(&m, &one, &err), &err);
        assert_ok(hsp_msg_decode(&m, one.data, one.len, a, &back, &err), &err);
        assert_true(back.epoch == m.epoch && back.request == m.request && back.type == m.type);
        assert_ok(hsp_msg_encode(&back, &two, &err), &err);
        assert_string_equal(hsp_buf_cstr(&one), hsp_buf_cstr(&two));
        assert_ok(hsp_msg_clone(&back, a, &copy, &err), &err);
        assert_ok(hsp_msg_encode(&copy, &three, &err), &err);
        assert_string_equal(hsp_buf_cstr(&one), hsp_buf_cstr(&three));
        /* values, not only text: a dump is made from the structs */
        hsp_buf_reset(&one);
        hsp_buf_reset(&two);
        hsp_msg_dump(&m, &one);
        hsp_msg_dump(&copy, &two);
        assert_string_equal(hsp_buf_cstr(&one), hsp_buf_cstr(&two));
        hsp_buf_fini(&one);
        hsp_buf_fini(&two);
        hsp_buf_fini(&three);
        hsp_arena_reset(a);
    }
    hsp_arena_free(a);
}

/* After any change of any byte the decoder returns a message or a protocol error. */
static void damaged(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(64u << 20);
    for (size_t k = 0; k < 20000; k++) {
        struct hsp_msg m = random_msg(all_types[k % HSP_ARRAY_LEN(all_types)], a), back;
        struct hsp_buf b;
        hsp_buf_init(&b, HSP_MSG_BODY_MAX);
        assert_status(hsp_msg_encode(&m, &b, NULL), HSP_OK);
        size_t n = b.len;
        if (rnd() % 3 == 0) {
            n = rnd() % b.len;
        }
        for (uint64_t c = rnd() % 3; n > 0 && c > 0; c--) {
            b.data[rnd() % n] = rnd() % 2 == 0 ? (uint8_t)rnd() : (uint8_t) "\"{}[],:0-"[rnd() % 9];
        }
        enum hsp_status st = hsp_msg_decode(&m, b.data, n, a, &back, NULL);
        assert_true(st == HSP_OK || st == HSP_EPROTO);
        hsp_buf_fini(&b);
        hsp_arena_reset(a);
    }
    hsp_arena_free(a);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        uint16_t type;
        const char *body, *message;
    } cases[] = {
        {999, "{}", "unknown message type 999"},
        {HSP_MSG_SEAL, "{\"job\":1}x", "seal: 1 bytes behind the body"},
        {HSP_MSG_SEAL, "{\"job\":1", "seal: malformed JSON"},
        {HSP_MSG_SEAL, "{\"job\xff\":1}", "seal: not UTF-8"},
        {HSP_MSG_SEAL, "[]", "seal.: not an object"},
        {HSP_MSG_SEAL, "{}", "seal.job: missing"},
        {HSP_MSG_SEAL, "{\"job\":1,\"job\":1}", "seal.job: given twice"},
        {HSP_MSG_SEAL, "{\"job\":1,\"x\":1}", "seal.x: unknown field"},
        {HSP_MSG_SEAL, "{\"job\":\"1\"}", "seal.job: not a 32-bit unsigned integer"},
        {HSP_MSG_SEAL, "{\"job\":-1}", "seal.job: not a 32-bit unsigned integer"},
        {HSP_MSG_SEAL, "{\"job\":1.5}", "seal.job: not a 32-bit unsigned integer"},
        {HSP_MSG_SEAL, "{\"job\":4294967296}", "seal.job: not a 32-bit unsigned integer"},
        {HSP_MSG_START, "{\"job\":1,\"device\":0,\"step\":3}", "start.step: not a string"},
        {HSP_MSG_START, "{\"job\":1,\"device\":0,\"step\":\"-3\"}",
         "start.step: not an unsigned integer"},
        {HSP_MSG_STOPPED, "{\"job\":1,\"device\":16}", "stopped.device: above its limit"},
        {HSP_MSG_HEARTBEAT, "{\"seq\":\"18446744073709551616\"}",
         "heartbeat.seq: not an unsigned integer"},
        {HSP_MSG_SEALED, "{\"job\":1,\"holdings\":[{\"job\":1}]}", "sealed.device: missing"},
        {HSP_MSG_SEALED, "{\"job\":1,\"holdings\":{}}", "sealed.holdings: not an array"},
        {HSP_MSG_ECHO, "{\"seq\":1,\"back\":1048577,\"more\":false}", "echo.back: above its limit"},
        {HSP_MSG_MEASURE, "{\"echoes\":65}", "measure.echoes: above its limit"},
        {HSP_MSG_UPLINK, "{\"latency_s\":0.1}", "uplink.bytes_per_s: missing"},
        {HSP_MSG_DEVICE_HEALTH, "{\"device\":16,\"health\":\"lost\",\"reason\":\"\"}",
         "device-health.device: above its limit"},
        {HSP_MSG_DEVICE_HEALTH, "{\"device\":1,\"health\":\"ill\",\"reason\":\"\"}",
         "device-health.health: unknown value"},
        {HSP_MSG_DRAIN,
         "{\"name\":"
         "\"0123456789012345678901234567890123456789012345678901234567890123\","
         "\"reason\":\"\"}",
         "drain.name: too long"},
    };
    struct hsp_arena *a = hsp_arena_new(1u << 20);
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        struct hsp_err err = {0};
        struct hsp_msg head = {.type = cases[i].type}, m;
        (void)hsp_msg_decode(&head, cases[i].body, strlen(cases[i].body), a, &m, &err);
        assert_err(&err, HSP_EPROTO, cases[i].message);
    }
    struct hsp_err err = {0};
    struct hsp_msg head = {.type = HSP_MSG_SEAL, .blob = (const uint8_t *)"x", .blob_len = 1}, m;
    assert_status(hsp_msg_decode(&head, "{\"job\":1}", 9, a, &m, &err), HSP_EPROTO);
    struct hsp_buf b;
    hsp_buf_init(&b, 100);
    head.type = HSP_MSG_STOPPED;
    head.blob_len = 0;
    struct hsp_msg echo = {.type = HSP_MSG_ECHO, .blob = (const uint8_t *)"", .blob_len = 32769};
    assert_status(hsp_msg_decode(&echo, "{\"seq\":1,\"back\":0,\"more\":true}", 30, a, &m, &err),
                  HSP_EPROTO);
    echo.blob_len--;
    assert_status(hsp_msg_decode(&echo, "{\"seq\":1,\"back\":0,\"more\":true}", 30, a, &m, &err),
                  HSP_OK);
    head.u.devref.device = 16;
    assert_status(hsp_msg_encode(&head, &b, &err), HSP_ELIMIT);
    assert_err(&err, HSP_ELIMIT, "stopped.device: 16 above limit 15");
    hsp_buf_fini(&b);
    hsp_arena_free(a);
}

/* Reads a body of a sender of @version, or expects the refusal @refused. */
static void said(uint8_t version, uint16_t type, const char *body, const char *refused)
{
    struct hsp_arena *a = hsp_arena_new(1u << 20);
    struct hsp_err err = {0};
    struct hsp_msg head = {.type = type, .version = version}, m;
    enum hsp_status st = hsp_msg_decode(&head, body, strlen(body), a, &m, &err);
    if (refused == NULL) {
        assert_ok(st, &err);
    } else {
        assert_err(&err, type == 999 ? HSP_EVERSION : HSP_EPROTO, refused);
    }
    if (st == HSP_OK && type == HSP_MSG_MEASURE) {
        assert_int_equal(m.u.measure.echoes, 1);
    }
    hsp_arena_free(a);
}

/* An object of a newer sender may have unknown fields. All other rules stay strict. */
static void newer_senders(void **state)
{
    (void)state;
    enum { OURS = HSP_PROTO_VERSION, NEWER = OURS + 1 };
    static const char more[] = "{\"x\":{\"y\":[1,null]},\"echoes\":1,\"z\":\"\"}";
    said(NEWER, HSP_MSG_MEASURE, more, NULL);
    said(OURS, HSP_MSG_MEASURE, more, "measure.x: unknown field");
    said(0, HSP_MSG_MEASURE, more, "measure.x: unknown field");
    said(NEWER, HSP_MSG_SEALED,
         "{\"job\":1,\"holdings\":[{\"job\":1,\"device\":0,\"plan\":\"1\",\"rank\":0,\"owner\":0,"
         "\"version\":\"2\",\"hash\":7}]}",
         NULL);
    said(NEWER, HSP_MSG_MEASURE, "{\"echoes\":1,\"echoes\":1}", "measure.echoes: given twice");
    said(NEWER, HSP_MSG_MEASURE, "{\"x\":1,\"echoes\":1,\"x\":1}", "measure.x: given twice");
    said(NEWER, HSP_MSG_MEASURE, "{\"x\":1}", "measure.echoes: missing");
    said(NEWER, HSP_MSG_MEASURE, "{\"echoes\":\"1\"}",
         "measure.echoes: not a 32-bit unsigned integer");
    said(NEWER, HSP_MSG_MEASURE, "{\"echoes\":1}x", "measure: 1 bytes behind the body");
    said(NEWER, HSP_MSG_DEVICE_HEALTH, "{\"device\":1,\"health\":\"ill\",\"reason\":\"\"}",
         "device-health.health: unknown value");
    said(NEWER, 999, "{}", "unknown message type 999");
    /* as many as an object may have */
    struct hsp_buf b;
    hsp_buf_init(&b, 4096);
    hsp_buf_puts(&b, "{\"echoes\":1");
    for (uint32_t i = 0; i < HSP_WIRE_FIELDS; i++) {
        hsp_buf_printf(&b, ",\"f%u\":0", i);
    }
    size_t len = b.len;
    hsp_buf_puts(&b, "}");
    said(NEWER, HSP_MSG_MEASURE, hsp_buf_cstr(&b), NULL);
    b.len = len;
    hsp_buf_puts(&b, ",\"last\":0}");
    said(NEWER, HSP_MSG_MEASURE, hsp_buf_cstr(&b), "measure.last: unknown field");
    hsp_buf_fini(&b);
}

/* A field that a protocol version has added may be missing in messages of older versions only. */
static void older_senders(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(64u << 20);
    struct hsp_msg m = random_msg(HSP_MSG_HELLO, a), back;
    struct hsp_buf b;
    struct hsp_err err = {0};
    m.u.hello.protocol_oldest = 12345;
    hsp_buf_init(&b, HSP_MSG_BODY_MAX);
    assert_ok(hsp_msg_encode(&m, &b, &err), &err);
    char *at = strstr(hsp_buf_cstr(&b), "\"protocol_oldest\":12345,");
    assert_non_null(at);
    memset(at, ' ', strlen("\"protocol_oldest\":12345,"));
    m.version = 13;
    assert_ok(hsp_msg_decode(&m, b.data, b.len, a, &back, &err), &err);
    assert_int_equal(back.u.hello.protocol_oldest, 0);
    assert_string_equal(back.u.hello.node, m.u.hello.node);
    m.version = 14;
    (void)hsp_msg_decode(&m, b.data, b.len, a, &back, &err);
    assert_err(&err, HSP_EPROTO, "hello.protocol_oldest: missing");
    hsp_buf_fini(&b);
    hsp_arena_free(a);
}

/* @m as a sender before protocol @since says it: without @text. */
static void before(uint8_t since, struct hsp_msg m, const char *text, struct hsp_arena *a,
                   struct hsp_msg *ret, const char *missing)
{
    struct hsp_buf b;
    struct hsp_err err = {0};
    hsp_buf_init(&b, HSP_MSG_BODY_MAX);
    assert_ok(hsp_msg_encode(&m, &b, &err), &err);
    char *at = strstr(hsp_buf_cstr(&b), text);
    assert_non_null(at);
    memset(at, ' ', strlen(text));
    m.version = since;
    (void)hsp_msg_decode(&m, b.data, b.len, a, ret, &err);
    assert_err(&err, HSP_EPROTO, missing);
    m.version = since - 1;
    assert_ok(hsp_msg_decode(&m, b.data, b.len, a, ret, &err), &err);
    hsp_buf_fini(&b);
}

static void senders_of_14_to_17(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(64u << 20);
    struct hsp_m_kept kept = {.job = 4, .name = "j", .epoch = 9, .papers_damaged = true};
    struct hsp_msg m = random_msg(HSP_MSG_HELLO, a), back;
    m.u.hello.n_kept = 1;
    m.u.hello.kept = &kept;
    before(15, m, ",\"papers_damaged\":true", a, &back, "hello.papers_damaged: missing");
    assert_false(back.u.hello.kept[0].papers_damaged);
    assert_int_equal(back.u.hello.kept[0].epoch, 9);
    m = random_msg(HSP_MSG_PREPARE, a);
    struct hsp_m_cut cut = {2, 3, 40};
    m.u.prepare.n_cuts = 1;
    m.u.prepare.cuts = &cut;
    m.u.prepare.ckpt_old_name = true;
    before(16, m,
           ",\"cuts\":[{\"from\":\"2\",\"epoch\":\"3\",\"step\":\"40\"}],\"ckpt_old_name\":true", a,
           &back, "prepare.cuts: missing");
    assert_true(back.u.prepare.n_cuts == 0 && !back.u.prepare.ckpt_old_name);
    m.u.prepare.ckpt_cluster = (struct hsp_digest){1, 2};
    before(15, m, ",\"ckpt_cluster\":\"00000000000000010000000000000002\"", a, &back,
           "prepare.ckpt_cluster: missing");
    assert_true(hsp_digest_is_zero(back.u.prepare.ckpt_cluster));
    m = random_msg(HSP_MSG_FINISHED, a);
    m.u.finished.damage = "line 3";
    before(15, m, ",\"damage\":\"line 3\"", a, &back, "finished.damage: missing");
    assert_string_equal(back.u.finished.damage, "");
    m.u.finished.lacking = "7";
    before(16, m, ",\"lacking\":\"7\"", a, &back, "finished.lacking: missing");
    assert_string_equal(back.u.finished.lacking, "");
    m = random_msg(HSP_MSG_PREPARE, a);
    m.u.prepare.share_notes = true;
    before(16, m, ",\"share_notes\":true", a, &back, "prepare.share_notes: missing");
    assert_false(back.u.prepare.share_notes);
    m.u.prepare.due_every = 4;
    m.u.prepare.due_overhead = 0.5;
    m.u.prepare.due_recompute_s = 30;
    before(17, m, ",\"due_every\":4,\"due_overhead\":0.5,\"due_recompute_s\":30", a, &back,
           "prepare.due_every: missing");
    assert_int_equal(back.u.prepare.due_every, 0);
    m.u.prepare.live = m.u.prepare.keeps = true;
    m.u.prepare.keep = 12;
    before(18, m, ",\"live\":true,\"keeps\":true,\"keep\":\"12\"", a, &back,
           "prepare.live: missing");
    assert_false(back.u.prepare.live || back.u.prepare.keeps);
    m = random_msg(HSP_MSG_SEAL, a);
    m.u.jobref.more_ms = 700;
    before(18, m, ",\"more_ms\":700", a, &back, "seal.more_ms: missing");
    assert_int_equal(back.u.jobref.more_ms, 0);
    m = random_msg(HSP_MSG_STEP, a);
    m.u.step.ahead = 3;
    before(17, m, ",\"ahead\":\"3\"", a, &back, "step.ahead: missing");
    assert_int_equal(back.u.step.ahead, 0);
    m = random_msg(HSP_MSG_HEARTBEAT, a);
    m.u.beat.folder_free = 77;
    before(17, m, ",\"folder_free\":\"77\"", a, &back, "heartbeat.folder_free: missing");
    assert_true(back.u.beat.folder_free == 0 && back.u.beat.seq == m.u.beat.seq);
    m = random_msg(HSP_MSG_HELLO, a);
    m.u.hello.folder_free = 77;
    before(17, m, ",\"folder_free\":\"77\"", a, &back, "hello.folder_free: missing");
    assert_true(back.u.hello.folder_free == 0);
    hsp_arena_free(a);
}

/* The bytes of one message of version 1: a change here is a change of the protocol version. */
static void golden(void **state)
{
    (void)state;
    double compute[] = {0.25, 0.5};
    struct hsp_msg m = {.type = HSP_MSG_STEP,
                        .epoch = 7,
                        .u.step = {.job = 3,
                                   .step = 12034567890123456789ull,
                                   .loss = 2.5,
                                   .val_loss = (double)NAN,
                                   .grad_norm = 1,
                                   .lr = 0.001,
                                   .tokens = 2048,
                                   .seconds = 0.75,
                                   .sequence = 512,
                                   .n_compute = 2,
                                   .compute_s = compute}};
    struct hsp_buf b;
    hsp_buf_init(&b, 1000);
    assert_status(hsp_msg_encode(&m, &b, NULL), HSP_OK);
    assert_string_equal(hsp_buf_cstr(&b),
                        "{\"job\":3,\"step\":\"12034567890123456789\",\"loss\":2.5,"
                        "\"val_loss\":\"nan\",\"grad_norm\":1,\"lr\":0.001,\"tokens\":\"2048\","
                        "\"seconds\":0.75,\"sequence\":512,\"final\":false,\"compute_s\":[0.25,0.5]"
                        ",\"ahead\":\"0\"}");
    hsp_buf_fini(&b);
}

static void field_text(const struct hsp_wire_field *f, uint32_t n, struct hsp_buf *b)
{
    static const char *const types[] = {"u32",  "u64",    "f64", "bool", "text",
                                        "name", "digest", "key", "list", "f64 list"};
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(b, "%s%s %s", i == 0 ? "" : ", ", f[i].name, types[f[i].type]);
        if (f[i].type == HSP_F_ENUM) {
            for (uint32_t k = 0; k < f[i].limit; k++) {
                hsp_buf_printf(b, "%s%s", k == 0 ? " (" : " ", f[i].names[k]);
            }
            hsp_buf_puts(b, ")");
        } else if (f[i].limit != 0) {
            hsp_buf_printf(b, " <= %u", f[i].limit);
        }
        if (f[i].since != 0) {
            hsp_buf_printf(b, " since %u", f[i].since);
        }
        if (f[i].type == HSP_F_LIST) {
            hsp_buf_puts(b, " of {");
            field_text(f[i].sub, f[i].n_sub, b);
            hsp_buf_puts(b, "}");
        }
    }
}

static void text_of_any_character(void **state)
{
    (void)state;
    struct hsp_msg m = {.type = HSP_MSG_DRAIN,
                        .u.drain = {"n", "a\"b\\c\b\f\n\r\t\x01\x1f/\x7f\xc3\xa9"}};
    struct hsp_buf b;
    hsp_buf_init(&b, 1000);
    assert_status(hsp_msg_encode(&m, &b, NULL), HSP_OK);
    assert_string_equal(hsp_buf_cstr(&b),
                        "{\"name\":\"n\",\"reason\":\"a\\\"b\\\\c\\b\\f\\n\\r\\t\\u0001\\u001f/"
                        "\x7f\xc3\xa9\"}");
    hsp_buf_fini(&b);
}

/* Decodes the message of an error that quotes a long path, truncated at every byte. */
static void a_cut_reason_arrives(void **state)
{
    (void)state;
    char path[600];
    for (size_t shift = 0; shift < 3; shift++) {
        struct hsp_err why = {0}, err = {0};
        struct hsp_arena *a = hsp_arena_new(1 << 20);
        struct hsp_buf b;
        memset(path, '/', shift);
        for (size_t i = shift; i + 4 < sizeof(path); i += 3) {
            memcpy(path + i, "\xe2\x82\xac", 4);
        }
        hsp_err_set(&why, HSP_EIO, 0, "cannot read %s", path);
        struct hsp_msg m = {.type = HSP_MSG_JOB_FAILED, .u.jobfail = {.job = 1, .reason = why.msg}};
        hsp_buf_init(&b, HSP_MSG_BODY_MAX);
        assert_ok(hsp_msg_encode(&m, &b, &err), &err);
        struct hsp_msg head = {.type = m.type}, back;
        assert_ok(hsp_msg_decode(&head, b.data, b.len, a, &back, &err), &err);
        assert_string_equal(back.u.jobfail.reason, why.msg);
        hsp_buf_fini(&b);
        hsp_arena_free(a);
    }
}

static void numbers_arrive_exactly(void **state)
{
    (void)state;
    static const double v[] = {0.1, 0.1 + 0.2, 1e300, 5e-324, -1.0 / 3, 4294967296.0, 1e15, 0.0};
    struct hsp_arena *a = hsp_arena_new(1u << 20);
    for (size_t i = 0; i < HSP_ARRAY_LEN(v); i++) {
        struct hsp_msg m = {.type = HSP_MSG_UPLINK, .u.uplink = {v[i], 1}}, back;
        struct hsp_buf b;
        hsp_buf_init(&b, 1000);
        assert_status(hsp_msg_encode(&m, &b, NULL), HSP_OK);
        assert_status(hsp_msg_decode(&m, b.data, b.len, a, &back, NULL), HSP_OK);
        assert_true(back.u.uplink.latency_s == v[i]);
        hsp_buf_fini(&b);
    }
    hsp_arena_free(a);
}

/* A message that does not fit leaves the buffer as it was. */
static void too_long_for_its_buffer(void **state)
{
    (void)state;
    struct hsp_msg m = {.type = HSP_MSG_HEARTBEAT, .u.beat.seq = 123456};
    struct hsp_err err = {0};
    struct hsp_buf b;
    hsp_buf_init(&b, 16);
    hsp_buf_puts(&b, "ab");
    assert_status(hsp_msg_encode(&m, &b, &err), HSP_ELIMIT);
    assert_err(&err, HSP_ELIMIT, "heartbeat: the body does not fit into 16 bytes");
    assert_int_equal(b.len, 2);
    hsp_buf_fini(&b);
}

/* A receiver finds the sender's header in the message. */
static void framed(void **state)
{
    (void)state;
    static uint8_t blob[] = {7, 8, 9};
    struct hsp_arena *a = hsp_arena_new(1u << 20);
    struct hsp_msg m = random_msg(HSP_MSG_PREPARE, a), back;
    struct hsp_buf body;
    struct hsp_err err = {0};
    m.blob = blob;
    m.blob_len = sizeof(blob);
    hsp_buf_init(&body, HSP_MSG_BODY_MAX);
    assert_ok(hsp_msg_encode(&m, &body, &err), &err);
    struct hsp_frame f = {.head = hsp_msg_head(&m, body.len), .body = body.data, .blob = blob};
    assert_int_equal(f.head.version, HSP_PROTO_VERSION);
    assert_int_equal(f.head.oldest, HSP_PROTO_OLDEST);
    f.head.version++;
    assert_int_equal(f.head.body_len, body.len);
    assert_ok(hsp_msg_read(&f, a, &back, &err), &err);
    assert_int_equal(back.type, HSP_MSG_PREPARE);
    assert_int_equal(back.version, HSP_PROTO_VERSION + 1);
    assert_true(back.epoch == m.epoch && back.request == m.request);
    assert_true(back.blob == blob && back.blob_len == sizeof(blob));
    assert_int_equal(back.u.prepare.plan, m.u.prepare.plan);
    f.head.type = HSP_MSG_SEAL; /* has another body and no blob */
    assert_status(hsp_msg_read(&f, a, &back, &err), HSP_EPROTO);
    hsp_buf_fini(&body);
    hsp_arena_free(a);
}

/* The normative list in proto/wire/README.md has a line for each message, made from its table. */
static void documented(void **state)
{
    (void)state;
    char *text = hsp_test_source("proto/wire/README.md");
    for (size_t i = 0; i < HSP_ARRAY_LEN(all_types); i++) {
        const struct hsp_msg_desc *d = hsp_msg_desc_of(all_types[i]);
        struct hsp_buf b;
        hsp_buf_init(&b, 1u << 16);
        hsp_buf_printf(&b, "| %u | %s | ", d->type, d->name);
        field_text(d->fields, d->n_fields, &b);
        hsp_buf_printf(&b, "%s |\n", hsp_msg_blob_max(d->type) != 0 ? "; blob" : "");
        if (strstr(text, hsp_buf_cstr(&b)) == NULL) {
            print_error("not in proto/wire/README.md:\n%s", hsp_buf_cstr(&b));
            fail();
        }
        hsp_buf_fini(&b);
    }
    free(text);
}

HSP_TEST_FILE(msg_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip),
                                       cmocka_unit_test(damaged),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(newer_senders),
                                       cmocka_unit_test(older_senders),
                                       cmocka_unit_test(senders_of_14_to_17),
                                       cmocka_unit_test(golden),
                                       cmocka_unit_test(framed),
                                       cmocka_unit_test(text_of_any_character),
                                       cmocka_unit_test(a_cut_reason_arrives),
                                       cmocka_unit_test(numbers_arrive_exactly),
                                       cmocka_unit_test(too_long_for_its_buffer),
                                       cmocka_unit_test(documented)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
