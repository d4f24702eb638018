/* Encodes and decodes program files: each distinct template once, then one binding per device.
 * README.md gives the layout.
 *
 * Purity: pure. */
#ifndef HSP_PROGRAM_FILE_H
#define HSP_PROGRAM_FILE_H
#include "proto/program/program.h"

/* Appends the binary form. HSP_ENOMEM. */
enum hsp_status hsp_program_file_encode(const struct hsp_program_file *f, struct hsp_buf *out);
/* Decodes into @arena; as hsp_template_decode. */
enum hsp_status hsp_program_file_decode(const uint8_t *data, size_t len, struct hsp_arena *arena,
                                        struct hsp_program_file *ret, struct hsp_err *err);

#endif
