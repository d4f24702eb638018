/* Cuts the homes of zero_pattern interleaved, so that no rank stores an element it does not use.
 *
 * Example: two groups, of ranks 0, 1 and of rank 2, use 12 rows; tensor parallelism gives rank 0
 * rows 0..6 and rank 1 rows 6..12. Group {0, 1} has two of three members, so rank 0 keeps 4 of its
 * 6 rows, rank 1 also, and rank 2 the 2 others of each: a rank may have several boxes.
 *
 * Purity:    pure.
 * Ownership: results live in the arena given. */
#ifndef HSP_ZERO_INTERLEAVED_H
#define HSP_ZERO_INTERLEAVED_H
#include "daemon/plan/plan.h"

/* The tree of zero_pattern interleaved: the ranges into which tensor parallelism cuts the parameter
 * in each group are cut once more over the groups, in proportion to their members, so that every
 * rank keeps a part of its use. *ret is NULL where no group cuts the parameter, or one group has
 * it: then the contiguous pattern does the same. HSP_ENOMEM. */
enum hsp_status hsp_home_interleaved(const struct hsp_graph *g, const struct hsp_plan *p,
                                     const bool *units, uint32_t param, struct hsp_arena *arena,
                                     struct hsp_annot **ret, struct hsp_err *err);

#endif
