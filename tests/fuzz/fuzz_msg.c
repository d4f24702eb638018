/* Decodes messages: a body that is accepted, encoded and read again is the same; so is a clone.
 * Input: a byte that chooses the type and whether the sender is newer, one that is the length of
 * the blob, the body. */
#include <string.h>

#include "proto/base/size.h"
#include "proto/wire/msg.h"
#include "proto/wire/msg_encode.h"
#include "proto/wire/msg_table.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/proto/wire/msg_dump.h"

static const uint16_t types[] = {
#define TYPE(n, v, s, w) HSP_MSG_##n,
    HSP_MSG_MAP(TYPE)
#undef TYPE
};

static void encode(const struct hsp_msg *m, struct hsp_buf *out)
{
    hsp_buf_init(out, HSP_MSG_BODY_MAX);
    HSP_ASSERT(hsp_msg_encode(m, out, NULL) == HSP_OK);
}

static void same_dump(const struct hsp_msg *a, const struct hsp_msg *b)
{
    struct hsp_buf one, two;
    hsp_buf_init(&one, HSP_MSG_BODY_MAX);
    hsp_buf_init(&two, HSP_MSG_BODY_MAX);
    hsp_msg_dump(a, &one);
    hsp_msg_dump(b, &two);
    hsp_fuzz_same(&one, &two);
    hsp_buf_fini(&one);
    hsp_buf_fini(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_arena *arena = hsp_fuzz_arena();
    struct hsp_err err = {0};
    struct hsp_msg m, back, copy;
    if (len < 2) {
        return 0;
    }
    bool newer = data[0] / HSP_ARRAY_LEN(types) == 1; /* the sender */
    struct hsp_msg head = {.type = types[data[0] % HSP_ARRAY_LEN(types)],
                           .version = (uint8_t)(hsp_protocol.newest + newer),
                           .request = data[0],
                           .epoch = data[1],
                           .blob = data[1] > 0 ? data : NULL,
                           .blob_len = data[1] < len ? data[1] : 0};
    enum hsp_status st = hsp_msg_decode(&head, data + 2, len - 2, arena, &m, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(st == HSP_EPROTO || st == HSP_ENOMEM);
        HSP_ASSERT(err.code == st && err.msg[0] != '\0' && strchr(err.msg, '\n') == NULL);
        return 0;
    }
    HSP_ASSERT(m.type == head.type && m.epoch == head.epoch && m.request == head.request);
    struct hsp_buf one, two, three;
    encode(&m, &one);
    head = m;
    HSP_ASSERT(hsp_msg_decode(&head, one.data, one.len, arena, &back, NULL) == HSP_OK);
    encode(&back, &two);
    hsp_fuzz_same(&one, &two);
    HSP_ASSERT(hsp_msg_clone(&m, arena, &copy, NULL) == HSP_OK);
    encode(&copy, &three);
    hsp_fuzz_same(&one, &three);
    same_dump(&m, &copy);
    hsp_buf_fini(&one);
    hsp_buf_fini(&two);
    hsp_buf_fini(&three);
    return 0;
}

/* Lists and texts that are not empty. */
static void fill(const struct hsp_wire_field *f, uint32_t n, char *base, struct hsp_arena *arena)
{
    for (uint32_t i = 0; i < n; i++) {
        char *at = base + f[i].offset;
        const char *text = "text";
        uint32_t one = 1;
        if (f[i].type == HSP_F_STR) {
            memcpy(at, &text, sizeof text);
        } else if (f[i].type == HSP_F_LIST || f[i].type == HSP_F_F64S) {
            char *item = hsp_arena_alloc(arena, f[i].sub != NULL ? f[i].sub_size : sizeof(double));
            HSP_ASSERT(item != NULL);
            if (f[i].sub != NULL) {
                fill(f[i].sub, f[i].n_sub, item, arena);
            }
            memcpy(at, &item, sizeof item);
            memcpy(base + f[i].count_offset, &one, sizeof one);
        }
    }
}

static bool seed(size_t i, struct hsp_buf *out)
{
    if (i >= HSP_ARRAY_LEN(types)) {
        return false;
    }
    struct hsp_msg m = {.type = types[i]};
    const struct hsp_msg_desc *d = hsp_msg_desc_of(m.type);
    fill(d->fields, d->n_fields, (char *)&m.u, hsp_fuzz_arena());
    hsp_buf_u8(out, (uint8_t)i);
    hsp_buf_u8(out, 0);
    HSP_ASSERT(hsp_msg_encode(&m, out, NULL) == HSP_OK);
    return true;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "msg", .seed = seed};
