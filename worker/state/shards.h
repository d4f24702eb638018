/* Finds regions among the segments of this node, the local parts of a state transition.
 *
 * Role:   an executor preparing epoch e+1 fills its new segments from those of epoch e and from
 *         copies it may read; missing parts come from peers, last from a checkpoint.
 * Purity: memory only; segments are borrowed. Only segments sealed at the wanted version are
 *         sources.
 */
#ifndef HSP_SHARDS_H
#define HSP_SHARDS_H
#include "worker/state/region.h"
#include "worker/state/segment.h"

struct hsp_shards {
    const struct hsp_state_segment *const *seg; /* earlier ones are preferred */
    size_t n;
    uint64_t version;
};

/* A part of a wanted region and where it lies. */
struct hsp_shard_piece {
    const struct hsp_state_segment *seg;
    uint32_t row;
    struct hsp_box box;
};
struct hsp_shard_pieces {
    size_t n, cap;
    struct hsp_shard_piece *p; /* owned: free() */
};

/* Disjoint pieces that cover as much of @want as there is; the rest, disjoint, is added to
 * @missing. HSP_ENOMEM, HSP_ELIMIT: @ret and @missing may hold a part. */
enum hsp_status hsp_shards_locate(const struct hsp_shards *s, uint32_t tensor, uint8_t kind,
                                  const struct hsp_box *want, struct hsp_shard_pieces *ret,
                                  struct hsp_boxes *missing, struct hsp_err *err);

#endif
