/* Communicators while an epoch is prepared. Inside of worker/comm/nccl: nccl_make.c finds and makes
 * them, nccl_split.c those that are split off others. */
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
    uint64_t *process;           /* owned */
    struct hsp_link *split_from; /* a user of it; of the first member, which tells all */
    struct nccl_id id;
    bool kept, has_id, taken_over, is_split, greeted;
    struct hsp_link *link; /* a user of it, handed on to the comm */
};

/* A communicator from which others are split off, of this rank or not. */
struct hsp_nccl_parting {
    struct hsp_link *parent;            /* a user of it */
    struct hsp_nccl_offshoot *offshoot; /* owned, and what it owns */
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
    uint64_t allowed_ms, until_ms; /* for what is waited for: in all, and its end */
    struct hsp_nccl_parting *parting;
    uint32_t n_partings;
};

/* What the first member of a communicator says of its origin: u64 key, u8 one of these, and the
 * name, or u64 key, u64 nonce of the other one, u32 members, each u32 its rank there. */
enum hsp_nccl_origin { HSP_NCCL_NAMED, HSP_NCCL_SPLIT };

static inline const uint32_t *hsp_nccl_ranks_of(const struct hsp_nccl_wanted *w)
{
    return w->ranks != NULL ? w->ranks : w->pair;
}

/* By all ranks of the mesh. *ret is NULL where @n is, or nothing of this rank goes by NCCL.
 * *ret_start, the same on all ranks: communicators may be taken over from an epoch that runs, so
 * hsp_nccl_start must be called. Where nobody has NCCL it is one round of the mesh, four bytes from
 * each to each. HSP_EPEER, HSP_ETIMEDOUT, HSP_EIO: a communicator cannot be made, its ranks are
 * named; HSP_ECANCELED; HSP_ENOMEM; errors of the mesh. After an error the epoch is over for all:
 * abort the mesh. */
enum hsp_status hsp_nccl_prepare(struct hsp_nccl *n, const struct hsp_nccl_params *p,
                                 struct hsp_comm **ret, bool *ret_start, struct hsp_err *err);

#endif
