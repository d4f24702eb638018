/* The structures the planner tries; see planner.h. Inside of daemon/planner.
 *
 * Purity: pure. Everything lives in the planning run's arena. */
#ifndef HSP_CANDIDATES_H
#define HSP_CANDIDATES_H

#include "daemon/planner/planner.h"

/* The kinds of structure; the best candidate of each is kept. Equal scores go to the first. */
enum hsp_structure {
    HSP_STRUCT_DP,        /* every device a stream */
    HSP_STRUCT_DP_SUBSET, /* the fastest ones only */
    HSP_STRUCT_DP_ZERO,   /* with master and optimizer state cut over the streams */
    HSP_STRUCT_PIPE,
    HSP_STRUCT_TENSOR,
    HSP_STRUCT_MIXED /* pipelines in several streams, or of tensor groups */
};
enum { HSP_N_STRUCTS = HSP_STRUCT_MIXED + 1 };

struct hsp_candidate {
    bool tried, fits;
    struct hsp_plan *plan;
    uint32_t *device;
    struct hsp_cost cost;
    double score; /* step with the preference for simple structures */
    const char *what;
    const char *trouble; /* does not fit: why */
    double short_bytes;  /* does not fit: what it lacks */
};

struct hsp_search {
    struct hsp_price_in in;
    struct hsp_range all;     /* the whole model */
    struct hsp_range *ranges; /* [first][end - 1] of blocks */
    const struct hsp_graph *g;
    const struct hsp_plan_options *opts;
    uint32_t n_blocks, global_batch, micro_cap;
    uint32_t n_groups; /* of the degree that is tried */
    struct hsp_arena *arena;
    struct hsp_candidate best[HSP_N_STRUCTS]; /* by structure */
    struct hsp_err *err;
};

/* One or several devices of a node that act as one: a tensor group. */
struct hsp_super {
    uint32_t n;
    uint32_t *dev;
    int64_t *shares;
    double seq_us;            /* whole model, for ordering */
    double mem_bytes;         /* of its smallest member */
    struct hsp_link_cost out; /* from its node to others */
};

/* Tries everything; fills s->best. HSP_ENOMEM, HSP_ECANCELED. */
enum hsp_status hsp_search_run(struct hsp_search *s);

/* Groups of up to @degree devices of one node (1: each device alone), fastest first; devices left
 * over stay alone. *ret_n is 0 when the model cannot be cut that far. */
enum hsp_status hsp_supers_make(struct hsp_search *s, uint32_t degree, struct hsp_super **ret,
                                uint32_t *ret_n);

/* Prices a plan and keeps it when it is the best of its structure. */
enum hsp_status hsp_search_offer(struct hsp_search *s, enum hsp_structure kind,
                                 struct hsp_plan *plan, uint32_t *device, const char *what);

#endif
