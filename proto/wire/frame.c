#include "proto/wire/frame.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/le.h"
#include "proto/wire/protocol.h"

#define FIRST_ALLOC 4096 /* most bodies fit; growth doubles from here */

void hsp_frame_header_encode(const struct hsp_frame_header *h, uint8_t ret[HSP_FRAME_HEADER])
{
    hsp_le_put(ret, HSP_FRAME_MAGIC, 4);
    ret[4] = h->version;
    ret[5] = h->oldest;
    hsp_le_put(ret + 6, h->type, 2);
    hsp_le_put(ret + 8, h->request, 8);
    hsp_le_put(ret + 16, h->epoch, 8);
    hsp_le_put(ret + 24, h->body_len, 4);
    hsp_le_put(ret + 28, h->blob_len, 4);
}

enum hsp_status hsp_frame_header_decode(const uint8_t raw[HSP_FRAME_HEADER],
                                        const struct hsp_frame_limits *lim,
                                        struct hsp_frame_header *ret, struct hsp_err *err)
{
    struct hsp_frame_header h = {
        .version = raw[4],
        .oldest = raw[5] != 0 ? raw[5] : raw[4], /* versions before 14 wrote 0 */
        .type = (uint16_t)hsp_le_get(raw + 6, 2),
        .request = hsp_le_get(raw + 8, 8),
        .epoch = hsp_le_get(raw + 16, 8),
        .body_len = (uint32_t)hsp_le_get(raw + 24, 4),
        .blob_len = (uint32_t)hsp_le_get(raw + 28, 4),
    };
    uint32_t magic = (uint32_t)hsp_le_get(raw, 4);
    if (magic != HSP_FRAME_MAGIC) {
        return hsp_err_set(err, HSP_EPROTO, 0, "frame magic 0x%08x, want 0x%08x", magic,
                           HSP_FRAME_MAGIC);
    }
    if (h.oldest > h.version) {
        return hsp_err_set(err, HSP_EPROTO, 0, "a frame of protocol %u to %u", h.oldest, h.version);
    }
    uint32_t common;
    enum hsp_status st = hsp_protocol_agree(h.oldest, h.version, "the program there",
                                            "the program here", &common, err);
    if (st != HSP_OK) {
        return st;
    }
    if (h.body_len > lim->body) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "frame body %u bytes above limit %u", h.body_len,
                           lim->body);
    }
    if (h.blob_len > lim->blob) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "frame blob %u bytes above limit %u", h.blob_len,
                           lim->blob);
    }
    *ret = h;
    return HSP_OK;
}

void hsp_frame_parser_init(struct hsp_frame_parser *p, const struct hsp_frame_limits *lim)
{
    *p = (struct hsp_frame_parser){.limits = *lim};
}

void hsp_frame_parser_fini(struct hsp_frame_parser *p)
{
    hsp_frame_fini(&p->frame);
    p->failed = HSP_ECANCELED;
}

void hsp_frame_fini(struct hsp_frame *f)
{
    free(f->body);
    free(f->blob);
    *f = (struct hsp_frame){.body = NULL};
}

/* Moves bytes into one part of @len (+ @extra) bytes. False without memory. */
static bool collect(uint8_t **part, size_t *have, size_t *cap, size_t len, size_t extra,
                    const uint8_t **data, size_t *left)
{
    size_t n = len - *have < *left ? len - *have : *left;
    if (*have + n + extra > *cap) {
        size_t want = *cap * 2 > FIRST_ALLOC ? *cap * 2 : FIRST_ALLOC;
        want = want < *have + n + extra ? *have + n + extra : want;
        want = want > len + extra ? len + extra : want;
        uint8_t *q = realloc(*part, want);
        if (q == NULL) {
            return false;
        }
        *part = q;
        *cap = want;
    }
    if (n > 0) {
        memcpy(*part + *have, *data, n);
        *have += n;
        *data += n;
        *left -= n;
    }
    return true;
}

enum hsp_status hsp_frame_feed(struct hsp_frame_parser *p, const uint8_t *data, size_t len,
                               size_t *ret_used, struct hsp_frame *ret, struct hsp_err *err)
{
    size_t left = len;
    *ret_used = 0;
    if (p->failed != HSP_OK) {
        return hsp_err_set(err, p->failed, 0, "frame parser has failed before");
    }
    if (p->n_raw < HSP_FRAME_HEADER) {
        size_t n = HSP_FRAME_HEADER - p->n_raw;
        n = n < left ? n : left;
        if (n > 0) {
            memcpy(p->raw + p->n_raw, data, n);
        }
        p->n_raw += n;
        data += n;
        left -= n;
        *ret_used = len - left;
        if (p->n_raw < HSP_FRAME_HEADER) {
            return HSP_AGAIN;
        }
        p->failed = hsp_frame_header_decode(p->raw, &p->limits, &p->frame.head, err);
        if (p->failed != HSP_OK) {
            return p->failed;
        }
    }
    const struct hsp_frame_header *h = &p->frame.head;
    bool ok = collect(&p->frame.body, &p->n_body, &p->cap_body, h->body_len, 1, &data, &left);
    if (ok && p->n_body == h->body_len && h->blob_len > 0) {
        ok = collect(&p->frame.blob, &p->n_blob, &p->cap_blob, h->blob_len, 0, &data, &left);
    }
    *ret_used = len - left;
    if (!ok) {
        p->failed = HSP_ENOMEM;
        return hsp_err_nomem(err, "a frame of %u + %u bytes", h->body_len, h->blob_len);
    }
    if (p->n_body < h->body_len || p->n_blob < h->blob_len) {
        return HSP_AGAIN;
    }
    p->frame.body[h->body_len] = 0;
    *ret = p->frame;
    struct hsp_frame_limits lim = p->limits;
    hsp_frame_parser_init(p, &lim);
    return HSP_OK;
}
