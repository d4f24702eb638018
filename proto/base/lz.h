/* Shortens bytes that repeat themselves by references to earlier bytes (Ziv and Lempel, 1977).
 *
 * Example:  "[0, 1, 2, 3], [0, 1, 2, 3]" becomes 18 bytes: 26; 14 and "[0, 1, 2, 3], "; 4 and 14,
 *           a reference to the 12 bytes that begin 14 bytes before.
 * Role:     documents that repeat themselves: of the plan of a thousand equal ranks 3 % are left.
 * Purity:   pure (heap only). The same bytes give the same result on every machine.
 * Format:   numbers of 7 bits a byte, least first, with 128 added to all but the last. The number
 *           of plain bytes; then in turn a number of bytes and these; and the length of a
 *           reference, less 8, with its distance, at least 1; until all plain bytes are there.
 */
#ifndef HSP_LZ_H
#define HSP_LZ_H
#include "proto/base/buf.h"

#define HSP_LZ_MAX (1u << 30) /* plain bytes: places are u32 */

/* Appends the short form of @data. Of more than HSP_LZ_MAX bytes, or without memory for a table of
 * 256 KiB, @out fails. */
void hsp_lz_pack(const void *data, size_t len, struct hsp_buf *out);
/* Reads the short form that @data is, whole. *ret: a reader of the plain bytes, which are in
 * @arena; it has failed when @data is no such form, stands for more than @max bytes, or with
 * nomem. */
void hsp_lz_unpack(const void *data, size_t len, size_t max, struct hsp_arena *arena,
                   struct hsp_cursor *ret);

#endif
