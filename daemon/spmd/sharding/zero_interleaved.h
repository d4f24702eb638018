/* Homes of several boxes per rank: the interleaved pattern, and slots.
 *
 * Purity:    pure.
 * Ownership: results live in the arena given.
 *
 * A program tensor is one box, so each box of a home is a STATE tensor of its own. Slots number
 * them: the boxes of one slot are at most one per rank, and boxes that overlap have one slot, so
 * that one Reshard per slot gives all copies of an element the same bits.
 */
#ifndef HSP_ZERO_INTERLEAVED_H
#define HSP_ZERO_INTERLEAVED_H
#include "daemon/plan/plan.h"

/* The tree of zero_pattern interleaved: what each group of users cuts among its members by tensor
 * parallelism is cut once more over the groups, in proportion to their members, so that everybody
 * keeps a part of what it uses. *ret is NULL where nobody cuts the parameter, or one group has it:
 * then the contiguous pattern does the same. HSP_ENOMEM. */
enum hsp_status hsp_home_interleaved(const struct hsp_graph *g, const struct hsp_plan *p,
                                     const bool *units, uint32_t param, struct hsp_arena *arena,
                                     struct hsp_annot **ret, struct hsp_err *err);

#endif
