/* Defines the meaning of every operator once, by its axes (D2).
 *
 * Role:        graph, deduction, cost model, programs and backends all read it; nobody repeats it.
 * Purity:      pure, immutable tables.
 * Axes string: "b s k, n k -> b s n": one letter an axis; "..." any number of equal dims;
 *              x!    whole: never cut (norm and softmax axes);
 *              x?    lookup: cut means out-of-range ids give 0, the result is a partial sum;
 *              x^    origin: the kernel reads the global coordinate of this axis;
 *              x:i   one unit of the axis is attr.i[i] elements (the grain: heads of head_dim);
 *              x:ij  attr.i[i] * attr.i[j] elements (query heads that share a key head).
 *              An axis that appears in no output is contracted: cut -> partial sum. The rule
 *              holds for each output alone: attention_bwd's s is free in dq, summed in dk and dv.
 *              "..." makes axes named '0', '1', ...
 * Updates:     the learning rate and the factor of the gradient are no attributes: they come from
 *              the vote of the step (struct hsp_update_scalars).
 * Types:       a letter an operand, inputs ':' outputs: t the op's real type (that of activations);
 *              w wide type, in which t is summed: fp32 for bf16, else t (statistics, loss,
 *              gradients of parameters, state); d fp64; i i32. Arithmetic is in w or better for any
 *              t.
 */
#ifndef HSP_OP_H
#define HSP_OP_H
#include <stdbool.h>
#include <stdint.h>
#include "proto/base/err.h"
#include "proto/op/dtype.h"

#define HSP_MAX_IN   8
#define HSP_MAX_OUT  3
#define HSP_MAX_AXES 8
#define HSP_N_ATTR_I 3 /* integer attributes of a node */

/* id, name, n_in, n_out, axes, types, linear sets (bit masks of inputs, 0 ends the list) */
#define HSP_OP_MAP(X)                                                                                 \
    X(LINEAR, "linear", 2, 1, "b s k, n k -> b s n", "tt:t", 1, 2)       /* x, w -> y = x w^T */      \
    X(LINEAR_DX, "linear_dx", 2, 1, "b s n, n k -> b s k", "tt:t", 1, 2) /* dy, w -> dx */            \
    X(LINEAR_DW, "linear_dw", 2, 1, "b s n, b s k -> n k", "tt:w", 1, 2) /* dy, x -> dw */            \
    X(BIAS_ADD, "bias_add", 2, 1, "b s n, n -> b s n", "tt:t", 3, 0)     /* y, bias */                \
    X(BIAS_DB, "bias_db", 1, 1, "b s n -> n", "t:w", 1, 0)               /* dy -> db */               \
    X(EMBED, "embed", 2, 1, "b s, v?^ e -> b s e", "it:t", 2, 0)         /* ids, table */             \
    X(EMBED_DW, "embed_dw", 2, 1, "b s, b s e -> v^ e", "it:w", 2, 0)    /* ids, dy; i[0] = v */      \
    X(ADD, "add", 2, 1, "..., ... -> ...", "tt:t", 3, 0)                                              \
    X(LAYERNORM, "layernorm", 3, 3, "b s e!, e!, e! -> b s e!, b s, b s", "ttt:tww", 0, 0)            \
    /* x, gamma, beta -> y, mean, rstd; f[0] = eps */                                                 \
    X(LAYERNORM_DX, "layernorm_dx", 5, 1, "b s e!, b s e!, e!, b s, b s -> b s e!", "tttww:t", 1,     \
      0)                                                                                              \
    /* dy, x, gamma, mean, rstd */                                                                    \
    X(LAYERNORM_DW, "layernorm_dw", 4, 2, "b s e, b s e, b s, b s -> e, e", "ttww:ww", 1, 0)          \
    /* dy, x, mean, rstd -> dgamma, dbeta */                                                          \
    X(GELU, "gelu", 1, 1, "... -> ...", "t:t", 0, 0)             /* exact: x Phi(x) */                \
    X(GELU_DX, "gelu_dx", 2, 1, "..., ... -> ...", "tt:t", 1, 0) /* dy, x */                          \
    X(RMSNORM, "rmsnorm", 2, 2, "b s e!, e! -> b s e!, b s", "tt:tw", 0, 0)                           \
    /* x, gamma -> y, rstd; f[0] = eps */                                                             \
    X(RMSNORM_DX, "rmsnorm_dx", 4, 1, "b s e!, b s e!, e!, b s -> b s e!", "tttw:t", 1, 0)            \
    /* dy, x, gamma, rstd */                                                                          \
    X(RMSNORM_DW, "rmsnorm_dw", 3, 1, "b s e, b s e, b s -> e", "ttw:w", 1,                           \
      0) /* dy, x, rstd -> dgamma */                                                                  \
    X(ROPE, "rope", 2, 1, "b s, b s h:0 -> b s h:0", "it:t", 2, 0)                                    \
    /* positions, x; i[0] = head_dim (even), f[0] = theta; element i turns with i + head_dim / 2 */   \
    X(ROPE_DX, "rope_dx", 2, 1, "b s, b s h:0 -> b s h:0", "it:t", 2,                                 \
      0) /* positions, dy: turned back */                                                             \
    X(SWIGLU, "swiglu", 2, 1, "..., ... -> ...", "tt:t", 2,                                           \
      0) /* gate, up -> gate sigmoid(gate) up */                                                      \
    X(SWIGLU_DX, "swiglu_dx", 3, 2, "..., ..., ... -> ..., ...", "ttt:tt", 1, 0)                      \
    /* dy, gate, up -> dgate, dup */                                                                  \
    X(DROPOUT, "dropout", 2, 1, "b u!, b s^ e^ -> b s e", "it:t", 2, 0)                               \
    /* keys, x; i[1] = hash of the tensor's name, f[0] = probability. Element (s, e), in global    \
     * coordinates, is dropped (y = 0) if word e % 4 of Philox(counter e / 4, s, keys; key i[1])   \
     * is below 2^32 f[0], and is multiplied by 1 / (1 - f[0]) otherwise. If the first key is      \
     * below 0 (evaluation), y = x. dx is the same op on dy with the same keys. */  \
    X(ATTENTION, "attention", 3, 2, "b s^ h:02, b t!^ h:0, b t! h:0 -> b s h:02, b s h:2",            \
      "ttt:tw", 0, 0)                                                                                 \
    /* q, k, v -> o, lse; i[0] = head_dim, i[1] = causal, i[2] = query heads for each key head,    \
     * f[0] = scale. Axis h counts key heads. The keys may be a block of all keys, told by its     \
     * origin: o and lse are then those of the block alone (attention_merge). A query that sees    \
     * no key of it has o = 0, lse = -inf. */  \
    X(ATTENTION_BWD, "attention_bwd", 6, 3,                                                           \
      "b s^ h:02, b s h:02, b t!^ h:0, b t! h:0, b s h:02, b s h:2 -> b s h:02, b t! h:0, b t! "      \
      "h:0",                                                                                          \
      "tttttw:ttt", 1, 0)                                                                             \
    /* do, q, k, v, o, lse -> dq, dk, dv; of a block of the keys: its dk and dv, and its part of   \
     * dq, when o and lse are those of all keys */  \
    X(PACKED_ATTENTION, "packed_attention", 4, 2,                                                     \
      "b s^ h:02, b t!^ h:0, b t! h:0, b s -> b s h:02, b s h:2", "ttti:tw", 0, 0)                    \
    /* q, k, v, starts -> o, lse: causal attention within documents; query s sees the keys          \
     * starts[b, s] .. s, both global coordinates. Attributes as of attention, i[1] = 1. */ \
    X(PACKED_ATTENTION_BWD, "packed_attention_bwd", 7, 3,                                             \
      "b s^ h:02, b s h:02, b t!^ h:0, b t! h:0, b s h:02, b s h:2, b s -> b s h:02, b t! h:0, b "    \
      "t! h:0",                                                                                       \
      "tttttwi:ttt", 1, 0)                                                                            \
    /* do, q, k, v, o, lse, starts -> dq, dk, dv */                                                   \
    X(ATTENTION_MERGE, "attention_merge", 4, 2,                                                       \
      "b s h:02, b s h:2, b s h:02, b s h:2 -> b s h:02, b s h:2", "twtw:tw", 0, 0)                   \
    /* o, lse of some keys, o, lse of others -> o, lse of both; i as of attention. A pair of lse    \
     * -inf changes nothing. */ \
    X(XENT, "xent", 2, 2, "b s v!, b s -> b s, b s", "ti:ww", 0, 0)                                   \
    /* logits, labels -> loss, lse; label -1 gives loss 0 */                                          \
    X(XENT_DX, "xent_dx", 4, 1, "b s, b s v!, b s, b s -> b s v!", "wtiw:t", 1, 0)                    \
    /* dloss, logits, labels, lse */                                                                  \
    /* The same in parts, for a vocabulary that may be cut between chunks of i[0] classes: the      \
     * log-sum-exp of each chunk, of all chunks, and the loss whose label lies elsewhere as 0. */ \
    X(LSE_PARTS, "lse_parts", 1, 1, "b s v:0 -> b s v", "t:w", 0, 0) /* logits -> lse of chunks */    \
    X(LSE_MERGE, "lse_merge", 1, 1, "b s v! -> b s", "t:t", 0, 0)    /* lse of chunks -> lse */       \
    X(XENT_PART, "xent_part", 3, 1, "b s v?^, b s, b s -> b s", "tiw:w", 5, 0)                        \
    /* logits, labels, lse of all classes -> loss; i[0] = number of classes in all chunks. The     \
     * derivative in the logits contains the part that comes through lse. */  \
    X(XENT_PART_DX, "xent_part_dx", 4, 1, "b s, b s v^, b s, b s -> b s v", "wtiw:t", 1, 0)           \
    /* dloss, logits, labels, lse */                                                                  \
    X(SUM, "sum", 1, 1, "... -> ", "t:d", 1, 0)                                                       \
    X(COUNT, "count", 1, 1, "... -> ", "i:d", 0, 0) /* labels -> number of them >= 0 */               \
    X(BROADCAST, "broadcast", 2, 1, ", ... -> ...", "dt:t", 1, 0) /* scalar, like */                  \
    X(FLATTEN, "flatten", 1, 1, "b s e! -> b o s:0", "t:t", 1, 0) /* i[0] = e; o has extent 1 */      \
    X(UNFLATTEN, "unflatten", 1, 1, "b o s:0 -> b s e!", "t:t", 1, 0) /* i[0] = e */                  \
    X(SQSUM, "sqsum", 1, 1, "... -> ", "t:d", 0, 0)                   /* fp64 scalar */               \
    X(ADAMW, "adamw", 4, 3, "..., ..., ..., ... -> ..., ..., ...", "wwww:www", 0, 0)                  \
    /* p, m, v, g -> p', m', v'; f = beta1, beta2, eps, weight decay; lr: by vote */                  \
    X(SGDM, "sgdm", 3, 2, "..., ..., ... -> ..., ...", "www:ww", 0, 0)                                \
    /* p, momentum, g -> p', momentum'; f = momentum, weight decay */                                 \
    X(NARROW, "narrow", 1, 1, "... -> ...", "w:t", 0,                                                 \
      0)                                               /* rounded to the nearest, ties to even */     \
    X(WIDEN, "widen", 1, 1, "... -> ...", "t:w", 1, 0) /* exact */

enum hsp_op {
#define X(id, name, n_in, n_out, axes, types, l0, l1) HSP_OP_##id,
    HSP_OP_MAP(X)
#undef X
};
#define X(id, name, n_in, n_out, axes, types, l0, l1) +1
enum { HSP_N_OPS = 0 HSP_OP_MAP(X) };
#undef X

/* Attributes of one node; the meaning of each is in the catalogue above. */
struct hsp_attrs {
    int64_t i[HSP_N_ATTR_I];
    double f[4];
};

enum hsp_axis_class { HSP_AXIS_FREE, HSP_AXIS_CONTRACTED, HSP_AXIS_WHOLE, HSP_AXIS_LOOKUP };

/* How one dim of one operand uses an axis: extent of the dim = extent of the axis * unit. */
struct hsp_dim_use {
    int8_t axis;  /* index into hsp_axes.axis */
    bool origin;  /* the kernel needs the global coordinate of this dim's first element */
    int64_t unit; /* elements of the dim in one unit of the axis, >= 1 */
};

struct hsp_operand_use {
    uint8_t rank;
    struct hsp_dim_use dim[HSP_MAX_RANK];
};

/* The axes of one node, attributes and rank filled in. */
struct hsp_axes {
    uint8_t n_axes, n_in, n_out;
    struct {
        char name;
        enum hsp_axis_class cls;
    } axis[HSP_MAX_AXES];
    struct hsp_operand_use in[HSP_MAX_IN], out[HSP_MAX_OUT];
    uint32_t linear[2]; /* linear sets as masks of inputs; 0 = none */
};

const char *hsp_op_name(enum hsp_op op);
bool hsp_op_find(const char *name, enum hsp_op *ret_op);
uint8_t hsp_op_n_in(enum hsp_op op);
uint8_t hsp_op_n_out(enum hsp_op op);

/* Returns whether @op only moves or casts elements and computes nothing. */
bool hsp_op_moves(enum hsp_op op);

/* Returns the types string of @op, "" if it has none. */
const char *hsp_op_types(enum hsp_op op);
/* Returns the type of operand @operand (inputs, then outputs) of @op if its real type is @real. */
enum hsp_dtype hsp_op_dtype(enum hsp_op op, uint8_t operand, enum hsp_dtype real);
/* Finds the real type of @op from @dtype, the types of its inputs and outputs in this order. An op
 * without an operand of type t has the type of its other operands. Returns false if the types do
 * not fit; *ret_wrong is then the first operand that does not. */
bool hsp_op_real(enum hsp_op op, const uint8_t *dtype, enum hsp_dtype *ret, uint8_t *ret_wrong);

/* Expands the axes of @op for attributes @at, with "..." standing for @rank dims.
 * HSP_EINVAL: unit <= 0 or rank too large (message names the op). */
enum hsp_status hsp_op_axes(enum hsp_op op, const struct hsp_attrs *at, uint8_t rank,
                            struct hsp_axes *ret, struct hsp_err *err);

/* Extents of the axes from the extents of the inputs (@in[i][d], elements; only read). Output-only
 * axes: o = 1, embed_dw's v and unflatten's e = attr i[0]. HSP_EINVAL when two operands disagree or
 * a unit does not divide. */
enum hsp_status hsp_op_extents(enum hsp_op op, const struct hsp_attrs *at,
                               const struct hsp_axes *ax, int64_t in[][HSP_MAX_RANK],
                               int64_t ret_axis[HSP_MAX_AXES], struct hsp_err *err);

/* Returns the floating-point operations of a node on a local box with these axis extents (in
 * units). Causal attention counts the lower triangle only. */
double hsp_op_flops(enum hsp_op op, const struct hsp_attrs *at, const int64_t axis[HSP_MAX_AXES],
                    const struct hsp_axes *ax);
/* Returns the floating-point operations on a box that begins at the global coordinates @origin
 * (numbered as kernels get them): causal attention counts the pairs of a query and a key at or
 * before the query. */
double hsp_op_flops_at(enum hsp_op op, const struct hsp_attrs *at, const int64_t axis[HSP_MAX_AXES],
                       const struct hsp_axes *ax, const int64_t origin[2]);
/* Returns the number of pairs of a query in @q_lo .. @q_hi - 1 and a key in @k_lo .. @k_hi - 1 at
 * or before the query. */
double hsp_causal_pairs(int64_t q_lo, int64_t q_hi, int64_t k_lo, int64_t k_hi);
/* Returns whether multiplications bound the time of @op; memory bounds the time of all other
 * ops. */
bool hsp_op_is_product(enum hsp_op op);
/* Returns the bytes that the node reads and writes on that box if its real type is @real. */
double hsp_op_bytes(enum hsp_op op, const struct hsp_axes *ax, const int64_t axis[HSP_MAX_AXES],
                    enum hsp_dtype real);

#endif
