/* @@SENTENCE@@ template_codec: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_TEMPLATE_CODEC_H
#define HSP_TEMPLATE_CODEC_H
#include "proto/program/program.h"

/* Binary forms (versioned header, little endian). Decoders check every index and bound and leave
 * nothing half-built: HSP_EPARSE names the field; HSP_ELIMIT the limit; HSP_ENOMEM. */
enum hsp_status hsp_template_encode(const struct hsp_template *t, struct hsp_buf *out);
enum hsp_status hsp_template_decode(const uint8_t *data, size_t len, struct hsp_arena *arena,
                                    struct hsp_template *ret, struct hsp_err *err);
/* Digest of the encoded form, for ret_template->digest. HSP_ENOMEM. */
enum hsp_status hsp_template_digest(const struct hsp_template *t, struct hsp_digest *ret);

#endif
