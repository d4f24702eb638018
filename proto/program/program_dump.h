/* @@SENTENCE@@ program_dump: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_PROGRAM_DUMP_H
#define HSP_PROGRAM_DUMP_H
#include "proto/program/program.h"

/* Text for `hspmdctl program show`. */
void hsp_program_dump(const struct hsp_program *p, struct hsp_buf *out);
/* The programs of rank @rank, below the number there are; of a pool one after the other, shortest sequences first,
 * each behind a line that says for how long ones it is. */
void hsp_program_file_dump(const struct hsp_program_file *f, uint32_t rank, struct hsp_buf *out);

#endif
