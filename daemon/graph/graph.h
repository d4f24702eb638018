/* Holds the single-device graph: the computation of the user's model, with no devices in it.
 *
 * Role:       made by a model family, differentiated once (autodiff.h), then read by planner and
 *             spmd.
 * Purity:     pure.
 * Ownership:  everything lives in the graph's arena; index handles, no pointers between nodes.
 *             Immutable after hsp_graph_autodiff.
 * Invariants: (G1) nodes are in topological order: forward nodes first, then backward nodes.
 *             (G2) every tensor has one producer node, or is an input, a parameter or the seed.
 *             (G3) backward nodes only read, never replace, forward tensors.
 */
#ifndef HSP_GRAPH_H
#define HSP_GRAPH_H
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/op/op.h"
#include "proto/program/program.h" /* enum hsp_init_kind, hsp_load */

#define HSP_MAX_GRAPH_TENSORS 65536
#define HSP_MAX_GRAPH_NODES   65536
#define HSP_NONE              UINT32_MAX

enum hsp_extent_sym { HSP_EXT_CONST, HSP_EXT_BATCH, HSP_EXT_SEQ };
struct hsp_extent {
    uint8_t sym; /* value = k (CONST), k * batch, k * sequence */
    int64_t k;
};

enum hsp_tensor_kind {
    HSP_TENSOR_INPUT,
    HSP_TENSOR_PARAM,
    HSP_TENSOR_ACT,
    HSP_TENSOR_GRAD,
    HSP_TENSOR_SEED /* the constant 1 backward starts from: a scalar without producer */
};

struct hsp_tensor {
    const char *name;
    uint8_t kind, dtype, rank;
    struct hsp_extent ext[HSP_MAX_RANK];
    uint32_t producer; /* node, HSP_NONE for inputs, parameters and the seed */
    uint8_t load;      /* INPUT: enum hsp_load */
    uint32_t param;    /* PARAM: index into graph.params */
    bool saved;        /* an input or activation that a backward node reads */
};

struct hsp_node {
    uint8_t op;
    bool backward;
    uint8_t n_in, n_out;
    uint32_t in[HSP_MAX_IN], out[HSP_MAX_OUT]; /* tensors; HSP_NONE: unused output */
    struct hsp_attrs at;
    uint32_t layer;      /* pipeline unit: 0 = embedding, 1..L = blocks, L + 1 = head; backward: its
                            forward's */
    uint32_t forward_of; /* backward nodes: the forward node they differentiate (sums of gradients:
                            the one whose contribution came last); forward nodes: HSP_NONE */
};

/* How tensor parallelism cuts a parameter; the axes along which ops are then cut follow by
 * deduction. The parameter's tensor has the type in which ops use it, and its state has the type of
 * the spec. */
struct hsp_param {
    uint32_t tensor;
    bool decay;   /* weight decay group: matrices yes, biases and norms no */
    uint8_t init; /* enum hsp_init_kind */
    double init_std;
    int8_t tp_dim;      /* dim cut by tensor parallelism, -1 never */
    int64_t tp_grain;   /* in elements of that dim */
    uint32_t tp_family; /* parameters with one number share cut points (heads; ffn of a layer kind;
                           vocabulary); HSP_NONE when never cut */
    uint32_t n_grads;   /* contributions whose sum is the gradient (tied weights have two) */
    uint32_t grad[4];   /* tensors */
};

/* The type of computation. State, its updates and sums of gradients are of the spec's dtype. */
enum hsp_compute {
    HSP_COMPUTE_FULL, /* that dtype */
    HSP_COMPUTE_TF32, /* fp32 whose products may take the factors' upper 19 bits */
    HSP_COMPUTE_BF16  /* parameters as they are used, activations and their gradients are bf16;
                         statistics, the loss and gradients of parameters fp32 */
};

struct hsp_model_spec { /* model: of the job file */
    char family[16];
    int64_t layers, hidden, heads, vocab, sequence;
    bool tied_head;
    double dropout;
    enum hsp_dtype dtype;     /* of state: fp32 or fp64 */
    enum hsp_compute compute; /* other than FULL: dtype is fp32 */
    /* llama; others leave them 0 */
    int64_t kv_heads;     /* key and value heads; divides heads */
    int64_t intermediate; /* width of the feed-forward layers */
    double rope_theta, rms_norm_eps;
    /* gpt, llama: tensor parallelism cuts the vocabulary between chunks of equal size, and the
     * cross-entropy is in parts; 0: the vocabulary is whole */
    int64_t vocab_chunks;
    int64_t positions; /* gpt: rows of the table of positions; 0: as long as the sequence */
    bool packed; /* gpt, llama: sequences hold several documents, attention stays within one */
};

struct hsp_graph {
    struct hsp_arena *arena; /* owns everything below */
    struct hsp_model_spec spec;
    uint32_t n_tensors, n_nodes, n_forward, n_params,
        n_layers; /* n_layers counts pipeline units: L + 2 */
    struct hsp_tensor *tensors;
    struct hsp_node *nodes;
    struct hsp_param *params;
    uint32_t loss_sum, n_valid; /* scalar tensors: summed loss, number of labels (both fp64) */
    uint32_t seed;              /* the gradient of loss_sum, HSP_NONE before autodiff */
};

/* Frees @g, which may be NULL. Returns NULL. */
struct hsp_graph *hsp_graph_free(struct hsp_graph *g);
/* Asserts G1 to G3, and that shapes and types are those of the catalogue. */
void hsp_graph_check(const struct hsp_graph *g);
/* Writes the text of `hspmdctl graph show`. */
void hsp_graph_dump(const struct hsp_graph *g, struct hsp_buf *out);

/* The type of activations. */
enum hsp_dtype hsp_model_real(const struct hsp_model_spec *m);
/* Returns the floating-point type of a node: the type of its operands that have type t in the
 * catalogue, or that of activations if there are none. */
enum hsp_dtype hsp_node_real(const struct hsp_graph *g, const struct hsp_node *n);
/* Returns the name of the type of computation of @m: "fp32", "fp64", "tf32" or "bf16". */
const char *hsp_compute_name(const struct hsp_model_spec *m);
/* Finds the axes of node @n, whose operands are tensors of @g; @n need not be a node of @g yet. The
 * errors are those of hsp_op_axes. */
enum hsp_status hsp_node_axes(const struct hsp_graph *g, const struct hsp_node *n,
                              struct hsp_axes *ret, struct hsp_err *err);
/* Computes the extents of a tensor for a batch of @b sequences. */
void hsp_tensor_extents(const struct hsp_graph *g, uint32_t tensor, int64_t b,
                        int64_t ret[HSP_MAX_RANK]);

#endif
