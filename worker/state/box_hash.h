/* Hashes the contents of boxes additively, so that any cut of a tensor can be compared with any
 * other (decision D10).
 *
 * The hash of a box is the sum mod 2^64, over its elements, of a mix of (tensor, kind, global
 * index, bits). So the hashes of disjoint boxes add up to the hash of their union, for any cuts.
 * Example: rank 0 seals a matrix of 8 rows. In the next layout ranks 0 and 1 hold 4 rows each; the
 * sum of their two hashes is the hash that rank 0 sealed. The hash detects damage and mix-ups; it
 * is not meant against an adversary.
 *
 * Role:   seals, transfers, checkpoints.
 * Purity: pure. The values are part of formats.
 */
#ifndef HSP_BOX_HASH_H
#define HSP_BOX_HASH_H
#include "proto/layout/cover.h"
#include "worker/backend/backend.h"

/* The tensor of the elements: its number in the single-device graph, enum hsp_state_kind,
 * element type, and extents of the whole tensor (they number the elements). */
struct hsp_box_id {
    uint32_t tensor;
    uint8_t kind;
    enum hsp_dtype dtype;
    const int64_t *full; /* borrowed; as many as the boxes have dims */
};

/* Hash of @region of a tensor of which @data holds the box @held. An empty region has hash 0. */
uint64_t hsp_box_hash(const struct hsp_box_id *id, const struct hsp_box *region,
                      const struct hsp_box *held, const void *data);

/* As hsp_box_hash, and copies the region to @dense in row-major order. The hash is of the bytes at
 * @dense. One pass over memory instead of two. */
uint64_t hsp_box_hash_copy(const struct hsp_box_id *id, const struct hsp_box *region,
                           const struct hsp_box *held, const void *data, void *dense);

/* The calls of hsp_backend.hash whose sums add up to the hash of @box, dense at @data. */
void hsp_box_hash_call(const struct hsp_box_id *id, const struct hsp_box *box, const void *data,
                       struct hsp_hash_call *ret);

#endif
