/* Encodes messages as JSON text from the tables of msg_table.c. The encoder builds no tree, because
 * hspmdd answers ten thousand heartbeats a second. The frame around a message is
 * proto/wire/frame.h.
 *
 * Purity: pure. */
#ifndef HSP_MSG_ENCODE_H
#define HSP_MSG_ENCODE_H
#include "proto/wire/msg.h"

/* Appends the JSON body of @m to @out (not the blob, not the header).
 * HSP_ELIMIT: a field, the body or the blob is over its limit, message and field named;
 * HSP_ENOMEM. */
enum hsp_status hsp_msg_encode(const struct hsp_msg *m, struct hsp_buf *out, struct hsp_err *err);

#endif
