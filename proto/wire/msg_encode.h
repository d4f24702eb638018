/* @@SENTENCE@@ msg_encode: purpose to be written.
 *
 * Purity:    pure. The frame around a message is proto/wire/frame.h.
 */
#ifndef HSP_MSG_ENCODE_H
#define HSP_MSG_ENCODE_H
#include "proto/wire/msg.h"

/* Appends the JSON body of @m to @out (not the blob, not the header).
 * HSP_ELIMIT: a field, the body or the blob is over its limit, message and field named; HSP_ENOMEM. */
enum hsp_status hsp_msg_encode(const struct hsp_msg *m, struct hsp_buf *out, struct hsp_err *err);

#endif
