/* @@SENTENCE@@ binding_codec: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_BINDING_CODEC_H
#define HSP_BINDING_CODEC_H
#include "proto/program/program.h"

enum hsp_status hsp_binding_encode(const struct hsp_template *t, const struct hsp_binding *b,
                                   struct hsp_buf *out);
enum hsp_status hsp_binding_decode(const uint8_t *data, size_t len, const struct hsp_template *t,
                                   struct hsp_arena *arena, struct hsp_binding *ret,
                                   struct hsp_err *err);

#endif
