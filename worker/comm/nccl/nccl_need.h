/* Lists the needs of a rank's programs for NCCL, and decides by the offers of all ranks which
 * groups go by NCCL and which by the mesh.
 *
 * Role:      hsp_nccl_prepare (nccl_make.h) finds the needs, tells its offer, and decides by all
 *            offers.
 * Purity:    pure (heap only). Every rank decides by the same offers, so all decide alike.
 * Ownership: needs and offers own their arrays.
 *
 * A *list* is the ranks of a move, ascending. A list goes by NCCL if
 *   (L1) each of its ranks has NCCL, all of one version, and no two of them share a GPU (NCCL has
 *        one member for each), and every two of them may talk by NCCL, which does not encrypt:
 *        their epoch asks for no encryption, or they are on one host, or both are on one trusted
 *        network, and
 *   (L2) every pair of its ranks that sends messages (list moves or not) sends and receives them in
 *        the same order: NCCL knows no channels, the n-th message is the n-th receive, and
 *   (L3) none of those senders sends to more than HSP_N_LANES ranks.
 * All other moves are staged through the mesh, as are all moves with a rank that computes on its
 * processor. */
#ifndef HSP_NCCL_NEED_H
#define HSP_NCCL_NEED_H
#include "proto/base/buf.h"
#include "proto/program/program.h"

/* The ranks of a move, or those of them that add up the part that one of them hands on. */
struct hsp_nccl_list {
    uint32_t n;
    uint32_t *ranks; /* ascending; contains the own */
    bool asked;      /* the list of a move: `reaches` is asked about it */
    bool collective; /* has a collective of its own */
    bool messages;   /* ranks of it send to others of it */
};

/* A collective of the list `part`, which is within the list `whole`, is needed if `whole` goes by
 * NCCL. */
struct hsp_nccl_part {
    uint32_t whole, part;
};

/* Messages to or from another rank. */
struct hsp_nccl_pair {
    uint32_t peer;
    bool out;
    uint64_t order; /* hash of their channels in the order of the schedules */
};

struct hsp_nccl_needs {
    uint32_t rank;
    uint32_t n_lists, n_parts, n_pairs;
    uint32_t cap_lists, cap_parts, cap_pairs;
    struct hsp_nccl_list *list;
    struct hsp_nccl_part *part;
    struct hsp_nccl_pair *pair;
};

/* Finds the needs of one rank's pool of programs, in the order of their schedules. HSP_ENOMEM:
 * nothing to free. */
enum hsp_status hsp_nccl_needs_find(const struct hsp_program *const *programs, uint32_t n,
                                    struct hsp_nccl_needs *ret, struct hsp_err *err);
void hsp_nccl_needs_fini(struct hsp_nccl_needs *d); /* the zeroed one is fine */
/* Finds or adds the list of these ranks, and returns its number; HSP_ENOMEM. */
enum hsp_status hsp_nccl_need_list(struct hsp_nccl_needs *d, const uint32_t *ranks, uint32_t n,
                                   uint32_t *ret, struct hsp_err *err);
/* Adds a message on @channel. */
enum hsp_status hsp_nccl_need_message(struct hsp_nccl_needs *d, uint32_t peer, bool out,
                                      uint32_t channel, struct hsp_err *err);

/* ---- offers ---- */

/* A communicator an executor has from an earlier epoch. */
struct hsp_nccl_held {
    uint64_t key;   /* of its members and use: hsp_nccl_key */
    uint64_t nonce; /* tells two communicators of the same members apart */
    uint64_t ops;   /* operations given to it here */
    bool in_use;    /* used by the running epoch; else nothing is under way */
};

/* Where the NCCL traffic of one rank can go. */
struct hsp_nccl_place {
    /* hash of the host's identity: traffic within a host stays there; 0: it may leave the host */
    uint64_t host;
    /* bit i: entry i of trusted_network, if all other traffic stays on trusted ones */
    uint8_t trusted;
    bool tls; /* the epoch's connections between hosts are encrypted */
};

/* The message of a rank to all others in PREPARE. */
struct hsp_nccl_offer {
    uint32_t version; /* of its NCCL, 0: none */
    struct hsp_nccl_place place;
    uint64_t gpu;     /* hash of the GPU's identity */
    uint64_t process; /* drawn when the executor began */
    uint32_t n_pairs, n_held;
    struct hsp_nccl_pair *pair;
    struct hsp_nccl_held *held;
};

#define HSP_NCCL_MAX_HELD  1024 /* communicators of an executor: hundreds would fill its GPU */
#define HSP_NCCL_MAX_PAIRS (2u * 1024) /* both ways with every rank of the largest mesh */

/* ---- decisions; @offer: of all ranks, by rank ---- */

/* The use of a communicator: the collectives of its members, or the messages from the first to the
 * second. */
enum hsp_nccl_use { HSP_NCCL_COLLECTIVE, HSP_NCCL_MESSAGES };

/* A communicator that is split off another one. */
struct hsp_nccl_offshoot {
    uint64_t key;
    uint32_t n;
    uint32_t *place; /* its members, as ranks of the parent; owned */
    uint32_t turn;
};

/* How a reduce-scatter or an all-gather of these pieces is done. */
enum hsp_nccl_shape {
    HSP_NCCL_NOTHING, /* all are empty */
    HSP_NCCL_EVEN,    /* one call */
    HSP_NCCL_PADDED,  /* one call for pieces as long as the longest, copied before or after it */
    HSP_NCCL_GROUPED  /* a call for each piece that is not empty, in one group */
};

#endif
