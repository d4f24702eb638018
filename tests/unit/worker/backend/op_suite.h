/* Runs the conformance suite on a backend: every op of the catalogue, every type, odd and empty
 * shapes, slices with origins, compared with the naive fp64 reference (reference_ops.h). Operands
 * lie in the backend's memory, and elements after each result must not change. Each problem runs
 * twice; an update of an optimizer runs once more, in place. */
#ifndef HSP_OP_SUITE_H
#define HSP_OP_SUITE_H
#include "worker/backend/backend.h"

struct op_suite {
    /* the backends of the first and of the second run; they may be the same */
    struct hsp_backend *one, *many;
    /* both runs must have the same bits, for every op; if false, for those that the suite's table
     * names */
    bool same_bits;
    /* Returns whether the backend has the op for this real type. NULL: it has all. */
    bool (*judged)(enum hsp_op op, enum hsp_dtype t);
    /* Returns the tolerance of an op: the largest difference, relative to the largest value of the
     * operand, or to 1. @tol is that of the suite's table. NULL: @tol is taken. */
    double (*tolerance)(enum hsp_op op, enum hsp_dtype t, double tol);
    void (*second)(bool begins); /* called before and after each second run; or NULL */
};

/* The extents by name; see the table of op_suite.c: H = h d, Q = 3 H, P = 2 H. */
struct op_dims {
    int64_t b, s, t, k, n, e, v, h, d, origin, origin2;
    bool causal;
};

/* Runs every op and type with these extents. A failed assertion names the op, the type and the
 * element. */
void op_suite_dims(const struct op_suite *s, const struct op_dims *m);
/* Runs the suite with 24 random sets of extents and large ones. */
void op_suite_random(const struct op_suite *s);
/* Runs the suite with each dim empty in its turn. */
void op_suite_empty(const struct op_suite *s);

#endif
