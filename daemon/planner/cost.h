/* Prices a plan on given devices: the time of a step, and the memory of each device.
 *
 * Role:   the one cost model; candidates of the planner, hand-written plans and the table of
 *         `hspmdctl plan` all use it.
 * Purity: pure.
 * Units:  microseconds and bytes.
 *
 * Model. The terms of a step:
 *
 *   sequence      flops / GEMM rate (one for each class of shapes, proto/op/gemm_class.h)
 *                 + other bytes / memory rate
 *   micro-batch   instructions x op_us + products x gemm_us + accumulation bytes / memory rate
 *   pipeline        sum of stages + (micro-batches - 1) x slowest stage; interleaved and
 *   zero-bubble
 *                 schedules are played through (timing.h)
 *   step          max over ranks (update + pipeline) + synchronisation + vote
 *
 * Sums of gradients that travel in buckets begin beside the last backward of a rank that has no
 * other communication in it; their time there is no part of the synchronisation.
 *
 * Tensor groups add their all-reduces, stages their transfers. Links are those of the devices that
 * talk (links.h): stage to stage, tensor group, and for synchronisation and vote the slowest pair
 * of the plan. */
#ifndef HSP_COST_H
#define HSP_COST_H

#include "daemon/graph/train_spec.h"
#include "daemon/plan/plan.h"
#include "daemon/planner/work.h"
#include "proto/layout/cluster_desc.h"

/* The memory that a transport needs for its buffers, besides the packed cells. The measured use of
 * the transports mesh and loop (worker/comm) is below this figure. */
#define HSP_COMM_BASE_BYTES (4.0 * 1024 * 1024)
#define HSP_PACK_COPIES \
    2.0 /* of a message, a sum, or parts that are gathered: packed to leave, and as they came */
#define HSP_KEPT_COPIES 2.0 /* of a message: the transport's, of both (memory_plan.h) */
/* NCCL's memory on a GPU for a communicator: on each of 16 channels a buffer of 4 MiB
 * (NCCL_BUFFSIZE) and 1 MiB for its protocols of small messages, for the neighbours in a ring and
 * in a tree. The communicator of a pair of ranks has at most 2 channels, and each direction has a
 * communicator of its own (worker/comm/nccl). */
#define HSP_COMMUNICATOR_BYTES ((int64_t)160 << 20)
#define HSP_PAIR_PART          (1.0 / 8)
/* On a GPU that has communicators, the data with which their members greet each other
 * (worker/comm/nccl/nccl_pool.c). */
#define HSP_GREETING_BYTES (8.0 * 1024 * 1024)

#define HSP_COPIES_MAX 8 /* a transfer for each, in every step */

struct hsp_cost;

/* The versions that are copied, by `recovery` of the job: one in @every. With @every 0, copies are
 * made as rarely as is needed to cost at most @overhead of the time, but at least one for each
 * @max_recompute_s of steps. */
struct hsp_due_rule {
    uint32_t every;
    double overhead, max_recompute_s;
};

struct hsp_price_in {
    const struct hsp_work *work;
    const struct hsp_cluster_desc *cluster;
    const struct hsp_train_spec *train;
    uint32_t copies;         /* nodes that shall hold each piece of state, 1 to HSP_COPIES_MAX */
    struct hsp_due_rule due; /* zeroed: each version */
    /* The cost of a pool's plan for the longest sequences on these devices, with its ranks by
     * device: under every plan of the pool the state is where this plan puts it. NULL: where the
     * plan itself puts it. */
    const struct hsp_cost *homes;
    /* By rank: the bytes of parameters of one state kind that the plan's homes give the rank. NULL:
     * homes are cut evenly. */
    const double *home_bytes;
};

/* Sums over pipeline units [first, end). */
struct hsp_stage_work {
    uint32_t first, end;
    struct hsp_layer_work
        w; /* scratch, grad_bytes, param and wide are maxima; leaving is that of the last */
    struct hsp_amount param; /* bytes of the parameters used here, one copy */
    double largest_cut,
        largest_whole; /* parameter, of those that tensor groups divide and of others */
    uint32_t n_params;
    double entering;
    struct hsp_amount most_saved; /* of one unit */
    struct hsp_amount pair_saved; /* of two units, one behind the other */
    double inner;                 /* activations between units inside of the range */
    bool offload;
    struct hsp_amount host; /* offloaded bytes that wait in the host's memory */
};
/* Sums up the work of a range of units. With @w->recompute the range is priced as a stage that
 * recomputes its activations; with @w->offload as one that keeps them in the host's memory. */
void hsp_range_make(const struct hsp_work *w, uint32_t first, uint32_t end,
                    struct hsp_stage_work *ret);

/* Sums up the units of blocks [first, end) of a model of @n_blocks: the embedding goes with the
 * first block, the head with the last. */
void hsp_range_of_blocks(const struct hsp_work *w, uint32_t first, uint32_t end,
                         struct hsp_stage_work *ret);

/* Returns the time of a sequence's matrix products on @dev, each at the rate of its shape class. */
struct hsp_amount hsp_product_seconds(const struct hsp_layer_work *w,
                                      const struct hsp_device_desc *dev, enum hsp_rate rate);

/* One member of a tensor group on a range of units. @part: its part of the group's shares. */
struct hsp_member {
    double seq_us, micro_us;             /* compute */
    double base_bytes, bytes_per_flight; /* memory: fixed, and for each sequence in flight */
    double host_bytes;                   /* host memory, for each sequence in flight */
    double deferred_bytes;          /* for each sequence that waits for its gradients of weights */
    double scratch_bytes;           /* for each sequence of a micro-batch; */
    double wide_bytes;              /* the same of the backend, which keeps it */
    double micro_bytes, post_bytes; /* scratch of a micro-batch of any size; of Post */
    double home_bytes;              /* parameters of one state kind in one slot */
    double folder_bytes;            /* sealed, of its own and of the copies it keeps for others */
    double update_us;
    double sync_bytes; /* used parameters: the bytes of gradients */
};
/* Prices one member. @holders is the number of pipelines that share each parameter, over which its
 * gradient is added up. @zero is as in plans: with 3, accumulators are cut like the state, and
 * parameters are gathered for one unit at a time. @held is the number of nodes that hold each piece
 * of the plan's state, 1 without copies. */
void hsp_member_price(const struct hsp_price_in *in, const struct hsp_stage_work *r,
                      const struct hsp_device_desc *dev, double part, uint32_t members,
                      uint32_t holders, uint8_t zero, uint32_t held, struct hsp_member *ret);
/* The largest share of a group of @g, which are several. */
double hsp_largest_share(const struct hsp_stage *g);
/* Prices member @member of stage @g of a plan of @n_pipelines pipelines. The share of its group
 * applies to all work of sequences; its own part of the group applies to the work that tensor
 * parallelism cuts. */
void hsp_stage_price(const struct hsp_price_in *in, const struct hsp_stage_work *r,
                     const struct hsp_stage *g, uint32_t member, const struct hsp_device_desc *dev,
                     uint32_t n_pipelines, uint8_t zero, uint32_t held, struct hsp_member *ret);
/* Counts the different nodes among @n devices; counting stops at @most <= HSP_COPIES_MAX. */
uint32_t hsp_count_nodes(const struct hsp_cluster_desc *c, const uint32_t *device, uint32_t n,
                         uint32_t most);
/* Buffers of the transport, part of the fixed memory: of a member with @part of its group, one of
 * @members. Of a GPU also its communicators, in vain where all others are none. */
double hsp_comm_bytes(const struct hsp_stage_work *r, const struct hsp_device_desc *dev,
                      double part, uint32_t members, uint32_t holders);
/* Versions of its state that lie in a device's memory: one that is computed with; on a host two
 * sealed ones beside it, of @held homes and copies. */
double hsp_state_versions(const struct hsp_device_desc *dev, uint32_t held);
/* Returns the bytes in the state folder for a rank with @home bytes of each of @kinds kinds of
 * state. */
double hsp_sealed_bytes(double kinds, double home, uint32_t held);

double hsp_member_bytes(const struct hsp_member *m, uint32_t micro_size, uint32_t in_flight);

/* Returns the time of the all-reduces of a tensor group over a micro-batch of @b sequences. */
double hsp_tensor_us(const struct hsp_stage_work *r, uint32_t n, double b,
                     const struct hsp_link_cost *link);
/* Returns the time of the collectives of a stage; if its groups cut sequences, they also pass keys
 * and values around. */
double hsp_stage_tensor_us(const struct hsp_stage_work *r, const struct hsp_stage *g, double b,
                           const struct hsp_link_cost *link);

/* The work of one rank; a row of the plan's table. */
struct hsp_rank_cost {
    uint32_t device, pipeline, stage; /* device: number in the cluster */
    uint32_t first_block, n_blocks;   /* transformer blocks or hidden layers */
    const char *block_ranges; /* of several chunks: "0-1,4"; NULL: the blocks from first_block on */
    uint8_t schedule;         /* enum hsp_schedule */
    uint32_t sequences, micro_batches;
    double part;        /* of its tensor group, 0 to 1 */
    double compute_us;  /* busy with micro-batches */
    double tensor_us;   /* all-reduces of its tensor group */
    double transfer_us; /* to the next stage and back */
    double update_us;
    double sync_us;                /* gradients (and gathered parameters) */
    double home_bytes, used_bytes; /* parameters it has, and computes with */
    int64_t state_bytes;       /* state in use; of a host also the sealed state in its folder: */
    int64_t folder_bytes;      /* two versions, and those of the copies it keeps for others */
    int64_t node_folder_bytes; /* the same of all ranks of its node */
    int64_t grad_bytes;        /* accumulators, gathered parameters, gradients in Post */
    int64_t act_bytes;         /* activations in flight and scratch */
    int64_t comm_bytes;
    int64_t total_bytes;
    int64_t host_bytes; /* in the host's memory, not of the device's */
};

struct hsp_cost {
    double step_us;
    double pipeline_us; /* slowest rank's update + pipeline */
    double idle_us;     /* of the rank that waits longest */
    double sync_us, vote_us, copy_us;
    double homes_us;       /* of a plan of a pool: state that is not where it would have it */
    double bound_us;       /* no plan on these devices is faster: all compute, no waiting */
    uint32_t nodes;        /* of the plan, counted up to the copies of the job */
    bool copied;           /* ranks keep copies for ranks of other nodes, which are no replicas */
    uint64_t bucket_bytes; /* of collectives that travel as one; 0: each by itself */
    /* the bytes of a replica holder of the whole state in its state folder */
    double replica_holder_bytes;
    uint32_t n;
    struct hsp_rank_cost *rank; /* by rank */
};

#define HSP_RANGES_BYTES 1024 /* text of HSP_MAX_CHUNKS ranges of blocks */

#endif
