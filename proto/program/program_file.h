/* @@SENTENCE@@ program_file: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_PROGRAM_FILE_H
#define HSP_PROGRAM_FILE_H
#include "proto/program/program.h"

enum hsp_status hsp_program_file_encode(const struct hsp_program_file *f, struct hsp_buf *out);
enum hsp_status hsp_program_file_decode(const uint8_t *data, size_t len, struct hsp_arena *arena,
                                        struct hsp_program_file *ret, struct hsp_err *err);

#endif
