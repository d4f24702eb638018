/* Puts messages into frames, and takes them out.
 *
 * Purity:    pure.
 * Ownership: as in msg.h: decoded fields live in the arena, the blob is borrowed from the frame.
 */
#ifndef HSP_MSG_FRAME_H
#define HSP_MSG_FRAME_H
#include "proto/wire/msg.h"

/* The header of @m's frame with a body of @body_len bytes. */
struct hsp_frame_header hsp_msg_head(const struct hsp_msg *m, size_t body_len);

/* The message of a frame. The errors of hsp_msg_decode; *ret untouched then. */
enum hsp_status hsp_msg_read(const struct hsp_frame *f, struct hsp_arena *arena,
                             struct hsp_msg *ret, struct hsp_err *err);

#endif
