/* Makes the communicators of an epoch while it is prepared. Inside of worker/comm/nccl: nccl_make.c
 * finds and makes them, nccl_split.c splits some off others. */
#ifndef HSP_NCCL_MAKE_H
#define HSP_NCCL_MAKE_H
#include "worker/comm/nccl/nccl_pool.h"
#include "worker/comm/nccl/nccl_tell.h"

/* A communicator this rank needs. */
struct hsp_nccl_wanted {
    enum hsp_nccl_use use;
    uint32_t n, me;
    const uint32_t *ranks; /* of a list; NULL: pair */
    uint32_t pair[2];
    uint64_t key, nonce;
    uint64_t *process; /* owned */
    struct hsp_link
        *split_from; /* the parent, with a user; only at the first member, which tells all */
    struct nccl_id id;
    bool kept, has_id, taken_over, is_split, greeted;
    struct hsp_link *link; /* with a user, handed on to the comm */
};

/* A communicator from which others are split off, whether they have this rank or not. */
struct hsp_nccl_parting {
    struct hsp_link *parent;            /* a user of it */
    struct hsp_nccl_offshoot *offshoot; /* owned, with its arrays */
    uint32_t n, n_turns;
    struct hsp_link_turn *turn; /* owned */
};

struct hsp_nccl_making {
    struct hsp_nccl *n; /* NULL: this rank has none */
    const struct hsp_nccl_params *p;
    uint32_t n_ranks;
    struct hsp_nccl_offer *offer; /* n_ranks */
    struct hsp_nccl_wanted *wanted;
    uint32_t n_wanted;
    uint64_t allowed_ms, until_ms; /* time for all waits; its end */
    struct hsp_nccl_parting *parting;
    uint32_t n_partings;
};

/* The message of a communicator's first member about its origin. New: u64 key, u8 origin, and the
 * name. Split off: u64 key, u8 origin, u64 key and u64 nonce of the parent, u32 members, each u32
 * its rank in the parent. */
enum hsp_nccl_origin { HSP_NCCL_NAMED, HSP_NCCL_SPLIT };

static inline const uint32_t *hsp_nccl_ranks_of(const struct hsp_nccl_wanted *w)
{
    return w->ranks != NULL ? w->ranks : w->pair;
}

/* Makes the hsp_comm of an epoch; called by all ranks of the mesh. *ret is NULL where @n is NULL,
 * or where no move of this rank goes by NCCL. *ret_start, the same on all ranks: communicators may
 * be taken over from an epoch that runs, so hsp_nccl_start must be called. Where no rank has NCCL
 * this is one round of the mesh, four bytes from each to each. HSP_EPEER, HSP_ETIMEDOUT, HSP_EIO: a
 * communicator cannot be made, its ranks are named; HSP_ECANCELED; HSP_ENOMEM; errors of the mesh.
 * After an error the epoch is over for all: abort the mesh. */
enum hsp_status hsp_nccl_prepare(struct hsp_nccl *n, const struct hsp_nccl_params *p,
                                 struct hsp_comm **ret, bool *ret_start, struct hsp_err *err);

#endif
