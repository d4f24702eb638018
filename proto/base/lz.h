/* Compresses bytes by replacing repeated runs by references to earlier bytes (Ziv and Lempel,
 * 1977).
 *
 * Example:  "[0, 1, 2, 3], [0, 1, 2, 3]" becomes 18 bytes: 26; 14 and "[0, 1, 2, 3], "; 4 and 14,
 *           a reference to the 12 bytes that begin 14 bytes before.
 * Role:     compresses documents with many repetitions: the plan of a thousand equal ranks shrinks
 *           to 3 %.
 * Purity:   pure (heap only). The same bytes give the same result on every machine.
 * Format:   a number is written in groups of 7 bits, the least first, with 128 added to all bytes
 *           except its last. First comes the number of plain bytes. Then two items alternate until
 *           all plain bytes are there: a number of bytes with these bytes, and a reference (its
 *           length less 8, then its distance, which is at least 1). */
#ifndef HSP_LZ_H
#define HSP_LZ_H
#include "proto/base/buf.h"

#define HSP_LZ_MAX (1u << 30) /* plain bytes: places are u32 */

/* Appends the packed form of @data. If @data has more than HSP_LZ_MAX bytes, or there is no memory
 * for a table of 256 KiB, @out is marked as failed. */
void hsp_lz_pack(const void *data, size_t len, struct hsp_buf *out);
/* Unpacks all of @data. *ret is a cursor over the plain bytes, which are in @arena. The cursor is
 * marked as failed if @data is no packed form, if it has more than @max plain bytes, or without
 * memory (nomem). */
void hsp_lz_unpack(const void *data, size_t len, size_t max, struct hsp_arena *arena,
                   struct hsp_cursor *ret);

#endif
