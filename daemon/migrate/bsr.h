/* Plans the batched send-receive of a switch: how the state of one layout gets into another, over
 * all parameters at once.
 *
 * HSPMD plans the transfer greedily, box by box, from the nearest holder (section 3.4 of Hetu v2).
 * So if one holder alone has the shard of a lost replica, it sends all of it through its own
 * network card. This planner cuts the index space at the boundaries of all boxes (not into a grid
 * of common divisors), and follows these rules:
 *   1. A *network domain* is a set of hosts joined by fast links, so that no traffic inside of it
 *      crosses the network. A piece that a domain lacks enters it once, for all its receivers
 *      (multicast), from a domain that has the piece or has got it by then; of such domains the one
 *      with the least to send over its network cards sends it.
 *   2. The network cards of a domain share its bytes (relay). Up to the mean load of the busiest
 *      domain the holder and the receiver use their own cards; bytes above that leave and enter by
 *      the idlest cards and are passed on within the domain.
 *   3. Within a domain any rank that has a chunk passes it on, near and idle ranks first. Ranks
 *      that cannot reach each other get the chunk by way of a third one.
 *   4. Boxes that travel are cut into chunks, so that the hops of a path overlap. The rows stand in
 *      the order in which a list schedule (Graham 1966) on cards and devices starts them.
 * Ranks are mesh ranks. A holder may hold its own home or a second copy of another rank's home. A
 * replica holder has host memory only, so it is in no fast domain.
 *
 * Role:        the transfer of a switch or a recovery (decisions D8, D10): used by daemon/app for
 *              PREPARE and by `hspmdctl plan --transition`.
 * Purity:      pure and deterministic; ties go to the lower rank.
 * Ownership:   covers are borrowed for the call; tables live in the arena given.
 * Bounds:      HSP_BSR_ROWS rows; a table above it is HSP_ELIMIT. */
#ifndef HSP_BSR_H
#define HSP_BSR_H
#include "daemon/migrate/state_placement.h"
#include "proto/layout/cluster_desc.h"

#define HSP_BSR_ROWS (1u << 20) /* HSP_PKG_ROWS */

/* Links that a row goes through, the fastest first. */
enum hsp_link_class { HSP_LINK_DEVICE, HSP_LINK_DOMAIN, HSP_LINK_HOST, HSP_LINK_NIC };
#define HSP_LINK_CLASSES 4

struct hsp_bsr_place {
    uint32_t host;   /* ranks of one host share a number */
    uint32_t domain; /* ranks joined by a fast network share a number, also over hosts; HSP_NONE */
    uint32_t nic;    /* its network card, below n_nics */
};
struct hsp_bsr_pair {
    uint32_t a, b; /* ranks, a < b */
};
struct hsp_bsr_net {
    uint32_t n_ranks, n_nics;
    struct hsp_bsr_place *place;                 /* [n_ranks] */
    double *nic_us_per_byte;                     /* [n_nics], above 0; each way */
    struct hsp_link_cost link[HSP_LINK_CLASSES]; /* of NIC the latency only */
    uint32_t n_apart;
    const struct hsp_bsr_pair *apart; /* ascending: no row goes between them */
};

/* The network of ranks on devices of a cluster: rank r on c->dev[device[r]]. Devices of one host
 * are a fast domain. In @arena; HSP_ENOMEM. */
enum hsp_status hsp_bsr_net_make(const struct hsp_cluster_desc *c, const uint32_t *device,
                                 uint32_t n_ranks, struct hsp_arena *arena, struct hsp_bsr_net *ret,
                                 struct hsp_err *err);

struct hsp_bsr_opts {
    uint32_t elem_bytes; /* of one element, all kinds of state together */
    int64_t chunk_bytes; /* of a row that travels, about; 0: chosen by the busiest card's load */
};

/* Rows that give each receiver all of its @want boxes, in the order of execution: a row that is
 * passed on stands behind the row by which its sender got the same box. @have and @want:
 * [g->n_params], several boxes per rank allowed. HSP_ENOENT: a box without a holder that can be
 * reached (message names parameter and box). HSP_EINVAL: a rank outside the network. HSP_ELIMIT,
 * HSP_ENOMEM. */
enum hsp_status hsp_bsr_plan(const struct hsp_graph *g, const struct hsp_cover *have,
                             const struct hsp_cover *want, const struct hsp_bsr_net *net,
                             const struct hsp_bsr_opts *opts, struct hsp_arena *arena,
                             struct hsp_state_table *ret, struct hsp_err *err);

/* Bytes that a table moves, of all kinds of state. */
struct hsp_bsr_flow {
    int64_t sent[HSP_LINK_CLASSES], got[HSP_LINK_CLASSES];
};
struct hsp_bsr_traffic {
    int64_t bytes[HSP_LINK_CLASSES]; /* of all rows; DEVICE: from a rank to itself */
    int64_t needed;                  /* received by ranks that want it, DEVICE not counted */
    int64_t relayed;                 /* received only to be passed on */
    struct hsp_bsr_flow *rank;       /* [n_ranks] */
    struct hsp_bsr_flow *nic;        /* [n_nics]; NIC only */
    int64_t nic_load;                /* of the busiest card: max(sent, received) */
    uint32_t busiest;                /* that card */
    /* No plan has less on its busiest card, equal cards given: bytes that a network domain lacks
     * come in, bytes that only one network domain has go out, over all of its cards. */
    int64_t floor;
    double seconds; /* predicted, for all kinds of state */
};

/* Measures any table over the same covers. In @arena; HSP_ENOMEM. */
enum hsp_status hsp_bsr_measure(const struct hsp_graph *g, const struct hsp_cover *have,
                                const struct hsp_cover *want, const struct hsp_bsr_net *net,
                                const struct hsp_bsr_opts *opts, const struct hsp_state_table *t,
                                struct hsp_arena *arena, struct hsp_bsr_traffic *ret,
                                struct hsp_err *err);

#endif
