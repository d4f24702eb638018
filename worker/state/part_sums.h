/* Sums up the parts of the tensors in a file, so that a reader of any range finds damage at once.
 *
 * A tensor is cut into parts of HSP_PART_BYTES, the last one shorter; no part holds bytes of two
 * tensors. Example: 9 MiB of fp32 are three parts of 4, 4 and 1 MiB. A reader of 100 bytes reads
 * the part they are in and compares its sum.
 *
 * Role:      safetensors_write.c writes the sums into the header of a file; safetensors_read.c
 *            compares them.
 * Purity:    pure.
 * Ownership: hsp_part_sums_fini frees all.
 * Format:    text: 16 hex digits for each part, in the order of the tensors in the file. The sum of
 *            a part is the hash (box_hash.h) of its elements as a row, the number of the part in
 *            place of the tensor's. The sum is additive, so elements may be written in any order.
 */
#ifndef HSP_PART_SUMS_H
#define HSP_PART_SUMS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/op/dtype.h"

/* A part of the format: a reader of few bytes reads at most so many. */
#define HSP_PART_BYTES  ((uint64_t)4 << 20)
#define HSP_PART_DIGITS 16

struct hsp_part_sums {
    size_t n_tensors, n; /* parts of all tensors */
    size_t *first;       /* [n_tensors + 1] parts of each tensor */
    uint64_t *sum;       /* [n] */
    uint64_t *missing;   /* [n] bytes that have not come yet */
};

/* Makes the parts of @n tensors of so many bytes, with sums of nothing. False without memory, or
 * with more parts than can be numbered. */
bool hsp_part_sums_init(struct hsp_part_sums *s, const uint64_t *bytes, size_t n);
void hsp_part_sums_fini(struct hsp_part_sums *s);

/* Sum of whole elements in part @part. The first element has number @first in the part. */
uint64_t hsp_part_sum(size_t part, enum hsp_dtype t, uint64_t first, const void *data,
                      size_t bytes);
/* Adds whole elements of tensor @i, from byte @offset of it on; each may come once. */
void hsp_part_sums_add(struct hsp_part_sums *s, size_t i, enum hsp_dtype t, uint64_t offset,
                       const void *data, size_t bytes);

/* The sums as text, without a NUL: s->n * HSP_PART_DIGITS letters; and back. False: not a text of
 * so many parts. */
void hsp_part_sums_put(const struct hsp_part_sums *s, char *out);
bool hsp_part_sums_get(struct hsp_part_sums *s, const char *text);

#endif
