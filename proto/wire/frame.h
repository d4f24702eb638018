/* Builds and parses frames of the control plane: a 32-byte header, a body, a blob (decision D16).
 *
 * Role:      proto/net feeds received bytes, and sends hsp_frame_header_encode before each body.
 * Purity:    pure (heap only).
 * Ownership: a parser owns the bytes collected; a finished frame belongs to the caller, who
 *            releases it with hsp_frame_fini.
 * Bounds:    lengths are compared with the limits before anything is allocated; memory grows with
 *            the bytes that really arrive (at most twice as many), not with what a header claims.
 * Invariants: (F1) a parser that has failed stays failed.
 *             (F2) a frame's body is followed by a NUL that body_len does not count.
 */
#ifndef HSP_FRAME_H
#define HSP_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

#define HSP_FRAME_MAGIC  UINT32_C(0x6d707368) /* "hspm" on the wire */
#define HSP_FRAME_HEADER 32

/* Defaults, and the most that limits may ask for. */
#define HSP_FRAME_BODY_MAX (UINT32_C(4) << 20)  /* the largest message body, msg.h */
#define HSP_FRAME_BLOB_MAX (UINT32_C(64) << 20) /* D16 */

struct hsp_frame_header {
    uint8_t version; /* the newest version of the protocol that the sender speaks */
    uint8_t oldest;  /* and the oldest; never 0 in a decoded header */
    uint16_t type;
    uint64_t request, epoch;
    uint32_t body_len, blob_len; /* bytes */
};

struct hsp_frame_limits {
    uint32_t body, blob; /* bytes */
};

struct hsp_frame {
    struct hsp_frame_header head;
    uint8_t *body; /* owned; F2; never NULL in a finished frame */
    uint8_t *blob; /* owned; NULL when blob_len is 0 */
};

struct hsp_frame_parser {
    struct hsp_frame_limits limits; /* may be changed between frames: before and after a login */
    uint8_t raw[HSP_FRAME_HEADER];
    size_t n_raw; /* header bytes collected; 0: between frames */
    size_t n_body, n_blob;
    size_t cap_body, cap_blob;
    struct hsp_frame frame; /* in the making */
    enum hsp_status failed; /* HSP_OK or why */
};

void hsp_frame_header_encode(const struct hsp_frame_header *h, uint8_t ret[HSP_FRAME_HEADER]);

/* HSP_EPROTO: magic, or no range of versions; HSP_EVERSION: none in common with the sender;
 * HSP_ELIMIT: a length above @lim.
 * *ret untouched on error. */
enum hsp_status hsp_frame_header_decode(const uint8_t raw[HSP_FRAME_HEADER],
                                        const struct hsp_frame_limits *lim,
                                        struct hsp_frame_header *ret, struct hsp_err *err);

void hsp_frame_parser_init(struct hsp_frame_parser *p, const struct hsp_frame_limits *lim);
void hsp_frame_parser_fini(struct hsp_frame_parser *p);

/* Takes bytes until a frame is complete.
 *
 * @ret_used   bytes taken from @data, in every case.
 * @ret        written when HSP_OK is returned: one frame, now the caller's.
 *
 * HSP_OK: call again with the rest. HSP_AGAIN: all bytes taken, no frame yet. An error of
 * hsp_frame_header_decode or HSP_ENOMEM: close the connection (F1). */
enum hsp_status hsp_frame_feed(struct hsp_frame_parser *p, const uint8_t *data, size_t len,
                               size_t *ret_used, struct hsp_frame *ret, struct hsp_err *err);

void hsp_frame_fini(struct hsp_frame *f);

#endif
