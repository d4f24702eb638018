/* Lowers attention of a stage whose groups cut the sequence, block by block (Liu et al., Ring
 * Attention with Blockwise Transformers, 2023).
 *
 * The keys and values of one group are a block. In round r group g uses the block of group g - r:
 * its own first, which needs no transfer. Every block is fetched from its group while the one
 * before is in use, so a member has at most two foreign blocks. Causal queries see nothing of the
 * groups behind theirs: group g is done after round g, and steps are left out for it. Without a
 * mask the count goes round.
 *   forward    (o, lse) of each block, merged round by round (attention_merge)
 *   backward   each block is fetched again; its part of dq is added up where the queries are, its
 *              dk and dv travel back to its group during the next round and are added up there
 * The steps of a group in a round depend on group numbers alone, never on shares; blocks without
 * length are moved and merged as nothing.
 *
 * The graph stays as it is: total plans list the node as one op, and every Reshard. Results of the
 * steps are values of their own (`.block`, `.blocks`, `.back`), fetched blocks are `#ring`; no
 * block outlives its segment. Where a group has no step in a round, results of a step with `pass`
 * are the tensors of its first operands. Sums of dq, dk and dv are in the order of rounds: the same
 * bits in every run.
 *
 * Example: 3 groups, causal: round 0 uses blocks 0, 1, 2; round 1 blocks -, 0, 1; round 2 block
 * 0 in group 2 alone.
 *
 * Role:      node_deduce.c asks for every node whether it is attention over a cut sequence;
 *            lower_pipeline.c then lowers it here.
 * Purity:    pure. */
#ifndef HSP_RING_ATTENTION_H
#define HSP_RING_ATTENTION_H
#include "daemon/spmd/lower/stage_ir.h"

/* Whether node @n of @s, whose n->n_in operands are held as @in, is attention by blocks. If so,
 * keys and values in @in become whole along the sequence, as deduction wants them. HSP_ENOMEM. */
enum hsp_status hsp_ring_open(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                              const struct hsp_node *n, struct hsp_layout *in, bool *ret,
                              struct hsp_err *err);
/* Adds the steps of node @node to @part; @d was deduced from the operands of hsp_ring_open.
 * HSP_ENOMEM, HSP_ELIMIT. */
enum hsp_status hsp_ring_lower(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t part,
                               uint32_t node, const struct hsp_deduced *d, struct hsp_err *err);

#endif
