/* Encodes and decodes templates (README.md gives the layout), so that a template has one digest on
 * all machines.
 *
 * Purity: pure. */
#ifndef HSP_TEMPLATE_CODEC_H
#define HSP_TEMPLATE_CODEC_H
#include "proto/program/program.h"

/* Appends the binary form: versioned header, little endian. HSP_ENOMEM. */
enum hsp_status hsp_template_encode(const struct hsp_template *t, struct hsp_buf *out);
/* Decodes into @arena and checks every index and bound. *ret is written on success only. HSP_EPARSE
 * names the field, HSP_ELIMIT the limit; HSP_ENOMEM. */
enum hsp_status hsp_template_decode(const uint8_t *data, size_t len, struct hsp_arena *arena,
                                    struct hsp_template *ret, struct hsp_err *err);
/* Digest of the encoded form, for ret_template->digest. HSP_ENOMEM. */
enum hsp_status hsp_template_digest(const struct hsp_template *t, struct hsp_digest *ret);

#endif
