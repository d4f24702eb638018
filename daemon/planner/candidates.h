/* Keeps the best candidate plan of each structure during a search, and builds candidates stage by
 * stage.
 *
 * Role:   the files that try structures (replicas.c, rings.c, lines.c) offer their plans here;
 *         search.c calls them. Inside of daemon/planner.
 * Purity: pure. Everything lives in the planning run's arena. */
#ifndef HSP_CANDIDATES_H
#define HSP_CANDIDATES_H

#include "daemon/planner/planner.h"
#include "daemon/planner/shares.h"

#define HSP_ALIKE 0.03 /* devices or links this close are of one kind */

/* The kinds of structure; the best candidate of each is kept. Equal scores go to the first. */
enum hsp_structure {
    HSP_STRUCT_DP,        /* every device a pipeline */
    HSP_STRUCT_DP_SUBSET, /* the fastest ones only */
    HSP_STRUCT_DP_ZERO,   /* with master and optimizer state cut over the pipelines */
    HSP_STRUCT_PIPE,
    HSP_STRUCT_TENSOR,
    HSP_STRUCT_MIXED, /* several pipelines of several stages, or of tensor groups */
    HSP_STRUCT_RING   /* pipelines of devices that cut each sequence */
};
enum { HSP_N_STRUCTS = HSP_STRUCT_RING + 1 };
#define HSP_RING_MAX 16 /* devices that cut a sequence */

struct hsp_candidate {
    bool tried, fits;
    struct hsp_plan *plan;
    uint32_t *device;
    struct hsp_cost cost;
    double score; /* step with the preference for simple structures */
    const char *what;
    const char *trouble; /* does not fit: why */
    double short_bytes;  /* does not fit: the bytes it lacks */
};

struct hsp_search {
    struct hsp_price_in in;
    struct hsp_stage_work all;     /* the whole model */
    struct hsp_stage_work *ranges; /* [first][end - 1] of blocks */
    const struct hsp_graph *g;
    const struct hsp_plan_options *opts;
    uint32_t n_blocks, global_batch, micro_cap;
    uint32_t n_groups; /* of the degree that is tried */
    struct hsp_arena *arena;
    struct hsp_candidate best[HSP_N_STRUCTS]; /* by structure */
    double *room;       /* by device: its limit in its node's state folder; INFINITY: all */
    bool short_of_room; /* a candidate was refused because a state folder is too small for it */
    struct hsp_err *err;
};

/* One or several devices of a node that act as one: a tensor group. */
struct hsp_tp_group {
    uint32_t n;
    uint32_t *dev;
    int64_t *shares;
    double seq_us;            /* whole model, for ordering */
    double mem_bytes, room;   /* of its smallest member; room in its state folder */
    struct hsp_link_cost out; /* from its node to others */
    struct hsp_link_cost in;  /* among its devices */
};

/* Prices a plan and keeps it when it is the best of its structure. */
enum hsp_status hsp_search_offer(struct hsp_search *s, enum hsp_structure kind,
                                 struct hsp_plan *plan, uint32_t *device, const char *what);
/* Sets s->err. Returns HSP_ENOMEM. */
enum hsp_status hsp_search_no_memory(struct hsp_search *s);

/* Gives the memory of one attempt back unless its plan was kept. HSP_ECANCELED. */
struct hsp_attempt {
    struct hsp_arena_position mark;
    struct hsp_candidate before[HSP_N_STRUCTS];
};
enum hsp_status hsp_attempt_begin(struct hsp_search *s, struct hsp_attempt *a);
void hsp_attempt_end(struct hsp_search *s, const struct hsp_attempt *a);

/* A plan in the making: ranks are numbered as stages are added. */
struct hsp_plan_draft {
    struct hsp_plan *plan;
    uint32_t *device; /* by rank */
};
/* An empty plan of @n_pipelines. HSP_ENOMEM. */
enum hsp_status hsp_draft_make(struct hsp_search *s, uint32_t n_pipelines, uint8_t zero,
                               struct hsp_plan_draft *ret);
/* Fills stage @g with @layers layers and the devices of @x as its next ranks. HSP_ENOMEM. */
enum hsp_status hsp_draft_stage(struct hsp_search *s, struct hsp_plan_draft *d, struct hsp_stage *g,
                                uint32_t layers, const struct hsp_tp_group *x);

/* The number of micro-batches of at most @size that @sequences make. */
uint32_t hsp_parts(uint32_t sequences, uint32_t size);
/* Largest micro-batch (a power of two up to the cap) whose activations fit every member of @x with
 * the whole model; 0: none, or a state folder has no room for it. */
uint32_t hsp_micro_fit(const struct hsp_search *s, const struct hsp_tp_group *x, uint32_t holders,
                       uint8_t zero, uint32_t held, struct hsp_share_dev *ret);
/* Nodes among @n groups that hold each piece of a state without replicas, counted up to the copies;
 * @member: which groups, NULL: the first ones. 0: no memory. */
uint32_t hsp_nodes_of(const struct hsp_search *s, const struct hsp_tp_group *x,
                      const uint32_t *member, uint32_t n);

#endif
