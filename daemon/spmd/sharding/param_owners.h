/* Gives each element of a parameter one owner among the ranks that hold it.
 *
 * Example: ranks 0 and 1 both hold rows 0..8. Rank 0 owns all of them, rank 1 nothing.
 *
 * Role:      norms and checkpoints count and write an element once (D4); the epilogue of a step
 *            reduces gradients to owners.
 * Purity:    pure.
 * Ownership: results live in the arena given. */
#ifndef HSP_PARAM_OWNERS_H
#define HSP_PARAM_OWNERS_H
#include "proto/base/arena.h"
#include "proto/layout/cover.h"

/* The part of @home that @rank owns: its boxes without the parts that smaller ranks hold, as
 * disjoint boxes. HSP_ELIMIT, HSP_ENOMEM. */
enum hsp_status hsp_home_owned(const struct hsp_cover *home, uint32_t rank, struct hsp_arena *arena,
                               struct hsp_box **ret, uint32_t *ret_n, struct hsp_err *err);
/* The same of all ranks in one go: ret[rank], [n_ranks]. Ranks of @home are below @n_ranks.
 * HSP_ELIMIT, HSP_ENOMEM. */
struct hsp_owned {
    struct hsp_box *box; /* in the arena */
    uint32_t n;
};
enum hsp_status hsp_home_owners(const struct hsp_cover *home, uint32_t n_ranks,
                                struct hsp_arena *arena, struct hsp_owned *ret,
                                struct hsp_err *err);

#endif
