/* Appends tensors and nodes to a graph; shapes of results come from the catalogue.
 *
 * Role:      used by the families and autodiff only.
 * Failure:   sticky: after the first error (out of memory, too many, operands that do not fit)
 *            every call returns HSP_NONE and changes nothing; the status is read once, at the end.
 * Purity:    pure.
 * Ownership: everything goes into the graph's arena; names are copied.
 */
#ifndef HSP_BUILDER_H
#define HSP_BUILDER_H
#include "daemon/graph/graph.h"

struct hsp_builder {
    struct hsp_graph *g;
    uint32_t cap_tensors, cap_nodes, cap_params;
    uint32_t layer;      /* of the nodes to come */
    uint32_t forward_of; /* of the nodes to come; HSP_NONE: they are forward nodes */
    uint32_t keys;       /* the input dropout draws from, HSP_NONE until it is needed */
    uint32_t starts;     /* where the document of each position begins, the same */
    enum hsp_status st;
    struct hsp_err *err;
};

/* How a parameter is declared. Shape: d[0], or d[0] x d[1]. */
struct hsp_param_def {
    uint8_t rank;
    int64_t d[2];
    enum hsp_init_kind init;
    double std;
    int8_t tp_dim;
    int64_t tp_grain;
    uint32_t tp_family;
};

/* A weight [out, in] of normal values. */
struct hsp_param_def hsp_build_matrix(int64_t out, int64_t in, double std, int8_t tp_dim,
                                      int64_t grain, uint32_t family);

/* Room for a builder that goes on with @g. */
struct hsp_builder hsp_builder_of(struct hsp_graph *g, struct hsp_err *err);

uint32_t hsp_build_input(struct hsp_builder *b, const char *name, enum hsp_load load,
                         struct hsp_extent e0, struct hsp_extent e1);
uint32_t hsp_build_param(struct hsp_builder *b, const char *name, const struct hsp_param_def *def);
uint32_t hsp_build_seed(struct hsp_builder *b, const char *name);

/* Adds one node and returns it. @names[i] names output i; NULL: the output is not wanted. */
uint32_t hsp_build_node(struct hsp_builder *b, enum hsp_op op, const struct hsp_attrs *at,
                        const uint32_t *in, const char *const *names);

/* Adds one node of an op whose first output is its result, and returns that output. Further outputs
 * are named @name.mean, @name.rstd (norms) or @name.lse (attention, xent). */
uint32_t hsp_build_op(struct hsp_builder *b, enum hsp_op op, const struct hsp_attrs *at,
                      const uint32_t *in, const char *name);

/* y = x w^T + bias, weight @name.weight [out, in] and @name.bias [out] with tensor parallelism as
 * given for the weight: rows cut (tp_dim 0) cut the bias too. */
uint32_t hsp_build_linear(struct hsp_builder *b, uint32_t x, const char *name,
                          const struct hsp_param_def *weight);

/* Causal attention, within documents where the model is packed. */
uint32_t hsp_build_attention(struct hsp_builder *b, const struct hsp_attrs *at,
                             const uint32_t qkv[3], const char *name);

/* Dropout of @x [b, s, e] with the model's probability; @x itself when that is 0. */
uint32_t hsp_build_dropout(struct hsp_builder *b, uint32_t x, const char *name);

/* Loss on @logits: cross-entropy against the input `labels` of width @width, summed; counts them.
 */
void hsp_build_loss(struct hsp_builder *b, uint32_t logits, struct hsp_extent width);

/* A name in the graph's arena; "" after a failure. */
const char *hsp_build_name(struct hsp_builder *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
