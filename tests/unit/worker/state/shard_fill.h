/* Fills all rows of a segment from other segments. */
#ifndef HSP_SHARD_FILL_H
#define HSP_SHARD_FILL_H
#include "worker/state/shards.h"

/* A box that row @row of a target lacks. */
struct shard_gap {
    uint32_t row;
    struct hsp_box box;
};
/* Fills every row of @target (unsealed, not among the sources) and lists the boxes that are still
 * missing: *ret_gaps is released with free(). */
enum hsp_status shards_fill(const struct hsp_shards *s, struct hsp_state_segment *target,
                            struct shard_gap **ret_gaps, size_t *ret_n, struct hsp_err *err);

#endif
