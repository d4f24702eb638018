/* Counts the cost of a model, free of devices: work, memory and traffic of each pipeline unit.
 *
 * Role:      made once from the training graph, read by cost.h for every candidate plan.
 * Purity:    pure.
 * Ownership: in the arena given; immutable.
 * Units:     of one sequence unless a name says otherwise; bytes; floating-point operations.
 *
 * Every figure comes twice where tensor parallelism matters: `cut` is divided over the group in
 * proportion to the shares, `whole` is done by every member. Which is which follows from the axes
 * of the ops (decision D2): the dims that hsp_param.tp_dim cuts are carried through the graph,
 * and where a cut axis is contracted the result is a partial sum that must be added up over the
 * group.
 */
#ifndef HSP_WORK_H
#define HSP_WORK_H

#include "daemon/graph/graph.h"
#include "proto/layout/cluster_desc.h"

struct hsp_amount {
    double cut, whole;
};

/* @a becomes @b where @b is more for a group of one. */
static inline void hsp_amount_max(struct hsp_amount *a, const struct hsp_amount *b)
{
    if (b->cut + b->whole > a->cut + a->whole) {
        *a = *b;
    }
}

struct hsp_layer_work {
    struct hsp_amount flops[HSP_N_GEMM_CLASSES]; /* of GEMM-like ops (linear, attention) by their
                                                    shape, forward + backward */
    struct hsp_amount bytes;                     /* read + written by the other ops */
    struct hsp_amount low;                       /* the part of bytes that is of ops on bf16 */
    double n_instr;                              /* instructions of one micro-batch */
    double n_products;                           /* those of them that are GEMM-like */
    struct hsp_amount acc_bytes;  /* traffic of gradient accumulation, per micro-batch */
    struct hsp_amount saved;      /* kept from forward to backward */
    struct hsp_amount scratch;    /* peak of the tensors inside one segment */
    struct hsp_amount deferred;   /* made in backward and read by gradients of weights */
    struct hsp_amount reread;     /* the part of saved that they read */
    struct hsp_amount grad_bytes; /* largest parameter gradient, not per sequence */
    struct hsp_amount keys;       /* keys and values of one attention */
    struct hsp_amount queries;    /* its queries */
    struct hsp_amount param;      /* bytes of the parameters it reads, one copy of their state */
    struct hsp_amount wide;       /* bf16 operands of one op in fp32: for sequences, */
    struct hsp_amount wide_param; /* and parameters, not per sequence */
    double n_reduce;              /* all-reduces over the tensor group, per micro-batch */
    double reduce_bytes;          /* the bytes of those */
    double leaving;               /* activations that cross to the next unit, one way */
};

struct hsp_param_work {
    double bytes;         /* of the whole tensor, one copy of its state */
    bool cut;             /* divided over a tensor group */
    uint32_t first, last; /* pipeline units that use it (equal unless tied) */
};

struct hsp_work {
    uint32_t n_layers; /* pipeline units: blocks + 2 */
    struct hsp_layer_work *layer;
    uint32_t n_params;
    struct hsp_param_work *param;
    double input_bytes; /* data that backward reads */
    uint32_t elem;      /* bytes of an element of state, of gradients of parameters */
    uint32_t use_elem;  /* of activations, and of parameters where they are used */
    enum hsp_rate rate; /* of products */
    bool recompute;     /* stages keep only the inputs of each unit, and compute it twice */
    bool offload;       /* kept tensors wait in the host's memory */
    int64_t tp_units;   /* smallest number of grains of any cut family: most members of a group; 0
                         when nothing can be cut */
};

/* The rate class of the model's products. */
enum hsp_rate hsp_work_rate(const struct hsp_graph *g);
/* @g after hsp_graph_autodiff. HSP_ENOMEM, HSP_EINVAL for a node the catalogue refuses. */
enum hsp_status hsp_work_make(const struct hsp_graph *g, struct hsp_arena *arena,
                              struct hsp_work *ret, struct hsp_err *err);

#endif
