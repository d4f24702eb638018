/* Shares the working state of the batched send-receive among the files bsr*.c. Other files do not
 * include this header. */
#ifndef HSP_BSR_IMPL_H
#define HSP_BSR_IMPL_H
#include "daemon/migrate/bsr.h"

/* A part of the index space with the same holders and receivers everywhere; after it is cut, a
 * chunk of it. */
struct hsp_bsr_cell {
    uint32_t param;
    struct hsp_box box;
    int64_t bytes;
    uint32_t first, n_src, n_dst; /* in ids: holders, then receivers that are none; ascending */
    uint32_t hop, n_hops;         /* in hops */
};

/* A hop: one crossing of the network by a chunk. */
struct hsp_bsr_hop {
    uint32_t from, to; /* network domains */
};

/* A row of the table before its place in the order is known. */
struct hsp_bsr_draft {
    uint32_t from, to;
    uint32_t cell;
    uint32_t parent; /* draft by which the sender got it, HSP_NONE */
};

struct hsp_bsr_domain {
    uint32_t first, n;         /* in member */
    uint32_t first_nic, n_nic; /* in island_nic */
    double bytes_per_us;       /* of all its cards */
    int64_t out, in;           /* bytes, by hops */
};

struct hsp_bsr_work {
    const struct hsp_graph *g;
    const struct hsp_bsr_net *net;
    const struct hsp_bsr_opts *opts;
    uint32_t param; /* the running one, while cells are made */
    const struct hsp_cover *have, *want;
    /* all arrays are owned */
    uint32_t *net_domain; /* [n_ranks] */
    uint32_t *member;     /* ranks by network domain, ascending */
    uint32_t *domain_nic; /* cards by network domain, ascending */
    struct hsp_bsr_domain *isl;
    uint32_t n_net_domains;
    struct hsp_bsr_cell *cell;
    size_t n_cells, cap_cells;
    uint32_t *ids;
    size_t n_ids, cap_ids;
    struct hsp_bsr_hop *hop;
    size_t n_hops, cap_hops;
    struct hsp_bsr_draft *draft;
    size_t n_drafts, cap_drafts;
    struct hsp_state_row *own; /* rows from a rank to itself */
    size_t n_own, cap_own;
};

#endif
