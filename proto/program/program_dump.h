/* Writes programs as text for people, one instruction a line.
 *
 * Purity: pure. */
#ifndef HSP_PROGRAM_DUMP_H
#define HSP_PROGRAM_DUMP_H
#include "proto/program/program.h"

/* Text for `hspmdctl program show`. */
void hsp_program_dump(const struct hsp_program *p, struct hsp_buf *out);
/* The programs of rank @rank, which is below their number. The programs of a pool follow each
 * other, shortest sequences first; a line before each names the length. */
void hsp_program_file_dump(const struct hsp_program_file *f, uint32_t rank, struct hsp_buf *out);

#endif
