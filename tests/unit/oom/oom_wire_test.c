/* Fails allocations of proto/wire: frames, messages, packages of an epoch, parts of a trace. */
#include "tests/lib/testlib.h"

#include <stdio.h>

#include "proto/base/arena.h"
#include "proto/base/size.h"
#include "proto/wire/frame.h"
#include "proto/wire/msg_blob.h"
#include "proto/wire/msg_encode.h"
#include "proto/wire/msg_frame.h"
#include "proto/wire/msg_table.h"
#include "tests/lib/oom.h"
#include "tests/unit/proto/wire/msg_dump.h"
#include "tests/unit/proto/wire/package_sample.h"
#include "tests/unit/proto/wire/papers_sample.h"
#include "tests/unit/proto/wire/part_sample.h"

enum { ARENA = 4 << 20 };

static const uint16_t all_types[] = {
#define TYPE(n, v, s, w) HSP_MSG_##n,
    HSP_MSG_MAP(TYPE)
#undef TYPE
};

/* Every field has a value, every list two items. */
static void fill(const struct hsp_wire_field *f, uint32_t n, char *base, struct hsp_arena *a)
{
    for (uint32_t i = 0; i < n; i++) {
        char *at = base + f[i].offset;
        uint32_t two = 2;
        if (f[i].type == HSP_F_STR) {
            const char *text = hsp_arena_strdup(a, f[i].limit > 8 ? "a \"b\"\n" : "a");
            memcpy(at, &text, sizeof text);
        } else if (f[i].type == HSP_F_U32 || f[i].type == HSP_F_ENUM) {
            memset(at, 0, sizeof(uint32_t));
            at[0] = 1;
        } else if (f[i].type == HSP_F_U64) {
            memset(at, 7, sizeof(uint64_t));
        } else if (f[i].type == HSP_F_LIST) {
            char *items = hsp_arena_array(a, two, f[i].sub_size);
            for (uint32_t k = 0; k < two; k++) {
                fill(f[i].sub, f[i].n_sub, items + (size_t)k * f[i].sub_size, a);
            }
            memcpy(at, &items, sizeof items);
            memcpy(base + f[i].count_offset, &two, sizeof two);
        } else if (f[i].type == HSP_F_F64S) {
            double *v = hsp_arena_array(a, two, sizeof *v);
            v[1] = 0.1;
            memcpy(at, &v, sizeof(v));
            memcpy(base + f[i].count_offset, &two, sizeof two);
        }
    }
}

static enum hsp_status use_msg(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct hsp_msg *m = ctx;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no arena");
    }
    struct hsp_msg back = {0}, copy = {0};
    struct hsp_buf body;
    hsp_buf_init(&body, HSP_MSG_BODY_MAX);
    enum hsp_status st = hsp_msg_encode(m, &body, err);
    const struct hsp_frame f = {.head = hsp_msg_head(m, body.len),
                                .body = body.data,
                                .blob = (uint8_t *)(uintptr_t)m->blob};
    st = st != HSP_OK ? st : hsp_msg_read(&f, a, &back, err);
    st = st != HSP_OK ? st : hsp_msg_clone(&back, a, &copy, err);
    st = st != HSP_OK ? st : hsp_msg_encode(&copy, out, err);
    if (st == HSP_OK) {
        hsp_msg_dump(&copy, out);
    }
    hsp_buf_fini(&body);
    hsp_arena_free(a);
    return st;
}

static void messages_of_every_type_pass_whole_or_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < HSP_ARRAY_LEN(all_types); i++) {
        struct hsp_arena *a = hsp_arena_new(ARENA);
        struct hsp_msg m = {.type = all_types[i], .request = 1, .epoch = 2};
        const struct hsp_msg_desc *d = hsp_msg_desc_of(m.type);
        fill(d->fields, d->n_fields, (char *)&m.u, a);
        if (hsp_msg_blob_max(m.type) > 0) {
            m.blob = (const uint8_t *)"blob";
            m.blob_len = 4;
        }
        hsp_oom_loop(hsp_msg_name(m.type), use_msg, &m, 1000);
        hsp_arena_free(a);
    }
}

/* A body that is wrong is never taken; the reason is the text's or the lack of memory. */
static void a_malformed_body_is_never_taken(void **state)
{
    (void)state;
    static const char *const bad[] = {"{\"seq\": \"1\"",
                                      "{\"seq\": \"x\"}",
                                      "{\"seq\": \"1\"} x",
                                      "{\"seq\": \"1\", \"seq\": \"2\"}",
                                      "[]",
                                      "{\"sek\": \"1\"}"};
    const struct hsp_msg head = {.type = HSP_MSG_HEARTBEAT};
    for (size_t i = 0; i < HSP_ARRAY_LEN(bad); i++) {
        for (uint64_t n = 0, hit = 1; hit != 0; n++) {
            int64_t before = hsp_oom_live();
            struct hsp_err err = {0};
            struct hsp_msg m;
            struct hsp_arena *a = hsp_arena_new(ARENA);
            hsp_oom_arm(n, false);
            enum hsp_status st = hsp_msg_decode(&head, bad[i], strlen(bad[i]), a, &m, &err);
            hit = hsp_oom_disarm() || n == 0;
            hsp_arena_free(a);
            assert_true(st == HSP_EPROTO || (st == HSP_ENOMEM && hit && n > 0));
            assert_int_equal(hsp_oom_live(), before);
        }
    }
}

static enum hsp_status use_package(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct hsp_package *p = ctx;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no arena");
    }
    struct hsp_package q = {0};
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    enum hsp_status st = pkg_encode(p, &b, err);
    st = st != HSP_OK ? st : hsp_package_decode(b.data, b.len, a, &q, err);
    st = st != HSP_OK ? st : pkg_encode(&q, out, err);
    hsp_buf_fini(&b);
    hsp_arena_free(a);
    return st;
}

static enum hsp_status use_papers(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct hsp_papers p = papers_sample(), q;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    struct hsp_buf b;
    (void)ctx;
    hsp_buf_init(&b, ARENA);
    hsp_papers_write(&p, &b);
    enum hsp_status st = a == NULL || b.failed ? hsp_err_nomem(err, "papers")
                                               : hsp_papers_read(b.data, b.len, a, &q, err);
    if (st == HSP_OK) {
        hsp_buf_printf(out, "%s %u\n", q.name, q.n);
    }
    hsp_buf_fini(&b);
    hsp_arena_free(a);
    return st;
}

static enum hsp_status use_part(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct hsp_trace_part *p = ctx;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no arena");
    }
    struct hsp_trace_part q = {0};
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    enum hsp_status st = hsp_trace_part_encode(p, &b, err);
    st = st != HSP_OK ? st : hsp_trace_part_decode(b.data, b.len, a, &q, err);
    st = st != HSP_OK ? st : hsp_trace_part_encode(&q, out, err);
    hsp_buf_fini(&b);
    hsp_arena_free(a);
    return st;
}

static void a_part_passes_whole_or_not(void **state)
{
    (void)state;
    struct hsp_trace_part p = part_sample();
    hsp_oom_loop("part of a trace", use_part, &p, 1000);
    hsp_oom_loop("papers", use_papers, NULL, 1000);
}

static void a_package_passes_whole_or_not(void **state)
{
    (void)state;
    struct hsp_package p = pkg_sample();
    hsp_oom_loop("package", use_package, &p, 1000);
}

/* Two frames, the second in small pieces so that its body grows. */
static enum hsp_status use_frames(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct hsp_buf *wire = ctx;
    const struct hsp_frame_limits lim = {1 << 20, 1 << 20};
    struct hsp_frame_parser p;
    enum hsp_status st = HSP_OK;
    hsp_frame_parser_init(&p, &lim);
    for (size_t at = 0; at < wire->len && (st == HSP_OK || st == HSP_AGAIN);) {
        struct hsp_frame f;
        size_t used = 0, n = wire->len - at < 4096 ? wire->len - at : 4096;
        st = hsp_frame_feed(&p, wire->data + at, n, &used, &f, err);
        at += used;
        if (st == HSP_OK) {
            hsp_buf_append(out, f.body, f.head.body_len);
            hsp_buf_append(out, f.blob, f.head.blob_len);
            hsp_frame_fini(&f);
        }
    }
    hsp_frame_parser_fini(&p);
    return st;
}

static void a_stream_of_frames_ends_with_the_memory(void **state)
{
    (void)state;
    struct hsp_buf wire;
    hsp_buf_init(&wire, 1 << 20);
    for (uint32_t i = 0; i < 2; i++) {
        struct hsp_frame_header h = {.version = HSP_PROTO_VERSION,
                                     .type = 5,
                                     .body_len = 20 + i * 200000,
                                     .blob_len = 10 + i * 200000};
        uint8_t raw[HSP_FRAME_HEADER];
        hsp_frame_header_encode(&h, raw);
        hsp_buf_append(&wire, raw, sizeof raw);
        for (uint32_t k = 0; k < h.body_len + h.blob_len; k++) {
            hsp_buf_u8(&wire, (uint8_t)('a' + k % 23));
        }
    }
    hsp_oom_loop("frames", use_frames, &wire, 1000);
    hsp_buf_fini(&wire);
}

HSP_TEST_FILE(oom_wire_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_every_type_pass_whole_or_not),
        cmocka_unit_test(a_malformed_body_is_never_taken),
        cmocka_unit_test(a_package_passes_whole_or_not),
        cmocka_unit_test(a_part_passes_whole_or_not),
        cmocka_unit_test(a_stream_of_frames_ends_with_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
