/* Finds the shards of a layout: the ranks that hold each part of the state, for the cluster core.
 *
 * Purity: pure. */
#ifndef HSP_EPOCH_SHARDS_H
#define HSP_EPOCH_SHARDS_H
#include "daemon/cluster/cluster.h"
#include "daemon/migrate/state_placement.h"

/* Fills n_shards, shard_first and pieces of @info (in @arena). A shard is a maximal part of the
 * state held by the same pieces; parts with equal pieces, of any parameters, are one shard.
 * HSP_ENOMEM. */
enum hsp_status hsp_epoch_shards(const struct hsp_graph *g, const struct hsp_cover *homes,
                                 const struct hsp_state_table *copies, struct hsp_arena *arena,
                                 struct hsp_plan_info *info, struct hsp_err *err);

/* Adds to @bytes of each of @n_ranks the bytes of the copies that it keeps for others: @elem_bytes
 * per element, for all kinds of state in two versions. */
void hsp_epoch_add_copies(const struct hsp_state_table *copies, uint64_t elem_bytes,
                          uint64_t *bytes, uint32_t n_ranks);

#endif
