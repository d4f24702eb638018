/* Describes the safetensors format, the exchange format of weights and checkpoints, which
 * safetensors_write.c writes and safetensors_read.c reads.
 *
 * Bounds:    header at most 100,000,000 bytes (the format's own limit), HSP_ST_MAX_TENSORS tensors.
 * Damage:    a writer puts sums of all data into the header (part_sums.h); a reader of such a file
 *            compares the sum of each part that it reads. Files of other programs have none.
 * Format:    u64 little-endian header length, JSON {"name": {"dtype", "shape", "data_offsets"},
 *            ..., "__metadata__": {string: string}}, data row-major little-endian without holes.
 */
#ifndef HSP_SAFETENSORS_H
#define HSP_SAFETENSORS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "proto/base/size.h"
#include "proto/op/dtype.h"

#define HSP_ST_MAX_TENSORS 262144
#define HSP_ST_SUMS        "hspmd.sums" /* key of the metadata: part_sums.h */

struct hsp_st_entry {
    const char *name;
    enum hsp_dtype dtype; /* F32, F64, I32, BF16 */
    uint8_t rank;
    int64_t ext[HSP_MAX_RANK];
    uint64_t begin, end; /* bytes in the data section; a writer fills them in */
};
struct hsp_st_meta {
    const char *key, *value;
};

/* The contents of the header of a file. */
struct hsp_st_head {
    struct hsp_st_entry *e;
    size_t n;
    const struct hsp_st_meta *meta;
    size_t n_meta;
};

/* Bytes of a tensor; false when the product overflows or an extent is negative. */
static inline bool hsp_st_bytes(const struct hsp_st_entry *e, uint64_t *ret)
{
    size_t n = hsp_dtype_size(e->dtype);
    for (uint8_t d = 0; d < e->rank; d++) {
        if (e->ext[d] < 0 || !hsp_mul_size(n, (size_t)e->ext[d], &n)) {
            return false;
        }
    }
    *ret = n;
    return true;
}

#endif
