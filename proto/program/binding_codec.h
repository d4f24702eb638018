/* Encodes and decodes bindings. README.md gives the layout.
 *
 * Purity: pure. */
#ifndef HSP_BINDING_CODEC_H
#define HSP_BINDING_CODEC_H
#include "proto/program/program.h"

/* Appends the binary form of @b, a binding of @t. HSP_ENOMEM. */
enum hsp_status hsp_binding_encode(const struct hsp_template *t, const struct hsp_binding *b,
                                   struct hsp_buf *out);
/* Decodes a binding of @t into @arena; as hsp_template_decode. */
enum hsp_status hsp_binding_decode(const uint8_t *data, size_t len, const struct hsp_template *t,
                                   struct hsp_arena *arena, struct hsp_binding *ret,
                                   struct hsp_err *err);

#endif
