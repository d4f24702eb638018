/* Collects the cells of a Reshard into moves, and cuts finished moves into the part of each rank.
 *
 * Example: cells [0:2] and [4:6] that rank 0 sends to rank 1 become one p2p move of two cells.
 *
 * Role:      resolve.c adds cells and finishes the list; specialize.c binds it rank by rank.
 * Purity:    pure and deterministic.
 * Ownership: drafts are on the heap (hsp_drafts_fini), finished moves live in the arena given. */
#ifndef HSP_MOVE_LIST_H
#define HSP_MOVE_LIST_H
#include "daemon/spmd/reshard/resolve.h"
#include "daemon/spmd/reshard/resolve_impl.h"

/* Adds a cell to the draft of @key. @root: the rank that holds or makes the cell; @peer: its
 * receiver, of a send. HSP_ENOMEM. */
enum hsp_status hsp_drafts_add(struct hsp_drafts *x, const struct hsp_draft_key *key,
                               const struct hsp_box *box, uint32_t root, uint32_t peer,
                               struct hsp_err *err);
/* Lists the moves of @t in the order of execution: copies, collectives, sends, and sends
 * of a sum by the rank that adds it up. */
enum hsp_status hsp_drafts_finish(struct hsp_drafts *x, const struct hsp_tasks *t,
                                  uint32_t *channel, struct hsp_arena *arena, struct hsp_moves *ret,
                                  struct hsp_err *err);
void hsp_drafts_fini(struct hsp_drafts *x);
/* Makes the part of move @m in which @rank takes part. @batch_dim0: dim 0 is the micro-batch and is
 * never cut, so its cells end at HSP_TO_END. */
enum hsp_status hsp_moves_bind(const struct hsp_moves *m, uint32_t rank, bool batch_dim0,
                               struct hsp_arena *arena, struct hsp_reshard_bind *ret,
                               struct hsp_err *err);

#endif
