/* Parses frames: under all cuts of the bytes the parser says the same; a header reads back; the
 * output equals the input. Input: a byte that chooses the cuts, two that choose the limits, the
 * stream. */
#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/wire/frame.h"
#include "proto/wire/protocol.h"
#include "tests/fuzz/fuzz.h"

struct summary { /* of everything a stream gave */
    enum hsp_status end;
    size_t n_frames, taken;
    uint64_t hash;
};

static void add(struct summary *s, const void *p, size_t n)
{
    s->hash = hsp_hash64(n > 0 ? p : "", n, s->hash);
}

static void take(struct summary *s, const struct hsp_frame_limits *lim, struct hsp_frame *f)
{
    HSP_ASSERT(f->head.body_len <= lim->body);
    HSP_ASSERT(f->head.blob_len <= lim->blob);
    HSP_ASSERT(f->body != NULL);
    HSP_ASSERT(f->body[f->head.body_len] == '\0');
    HSP_ASSERT((f->blob == NULL) == (f->head.blob_len == 0));
    uint8_t raw[HSP_FRAME_HEADER];
    struct hsp_frame_header back;
    hsp_frame_header_encode(&f->head, raw);
    HSP_ASSERT(hsp_frame_header_decode(raw, lim, &back, NULL) == HSP_OK);
    HSP_ASSERT(back.type == f->head.type);
    HSP_ASSERT(back.request == f->head.request);
    HSP_ASSERT(back.epoch == f->head.epoch);
    add(s, raw, sizeof raw);
    add(s, f->body, f->head.body_len);
    add(s, f->blob, f->head.blob_len);
    s->n_frames++;
    s->taken += sizeof raw + f->head.body_len + f->head.blob_len;
    hsp_frame_fini(f);
}

/* Feeds the stream in pieces of at most @step bytes. */
static struct summary feed(const uint8_t *data, size_t len, size_t step,
                           const struct hsp_frame_limits *lim)
{
    struct summary s = {.end = HSP_AGAIN};
    struct hsp_frame_parser p;
    hsp_frame_parser_init(&p, lim);
    for (size_t at = 0; at < len && s.end >= HSP_OK;) {
        size_t used = SIZE_MAX, n = len - at < step ? len - at : step;
        uint8_t *piece = malloc(n);
        struct hsp_frame f;
        HSP_ASSERT(piece != NULL);
        memcpy(piece, data + at, n);
        s.end = hsp_frame_feed(&p, piece, n, &used, &f, NULL);
        free(piece);
        HSP_ASSERT(used <= n);
        HSP_ASSERT(s.end != HSP_AGAIN || used == n);
        at += used;
        if (s.end == HSP_OK) {
            take(&s, lim, &f);
        } else if (s.end < HSP_OK) { /* F1 */
            HSP_ASSERT(hsp_frame_feed(&p, data, len, &used, &f, NULL) == s.end);
        }
    }
    hsp_frame_parser_fini(&p);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 3) {
        return 0;
    }
    struct hsp_frame_limits lim = {16u << (data[1] % 16), 16u << (data[2] % 16)};
    struct summary whole = feed(data + 3, len - 3, len, &lim);
    struct summary parts = feed(data + 3, len - 3, 1u + data[0] % 64, &lim);
    HSP_ASSERT(whole.n_frames == parts.n_frames);
    HSP_ASSERT(whole.hash == parts.hash);
    HSP_ASSERT((whole.end < HSP_OK) == (parts.end < HSP_OK));
    HSP_ASSERT(whole.end >= HSP_OK || whole.end == parts.end);
    HSP_ASSERT(whole.taken <= len - 3);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    hsp_buf_append(out, "\x07\x08\x08", 3);
    for (uint32_t k = 0; k <= i; k++) {
        uint8_t raw[HSP_FRAME_HEADER];
        struct hsp_frame_header h = {.version = HSP_PROTO_VERSION,
                                     .type = (uint16_t)(k + 1),
                                     .request = k,
                                     .epoch = 3,
                                     .body_len = 2 + k,
                                     .blob_len = i == 2 ? 5 : 0};
        hsp_frame_header_encode(&h, raw);
        hsp_buf_append(out, raw, sizeof raw);
        hsp_buf_append(out, "{}   ", 2 + k);
        hsp_buf_append(out, "bytes", h.blob_len);
    }
    return i < 3;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "frame", .seed = seed};
