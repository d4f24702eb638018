/* Runs the conformance suite: every op of the catalogue, every type, odd and empty shapes, slices
 * with origins, on a backend, against the naive fp64 reference (reference_ops.h).
 *
 * Operands lie in the backend's memory; behind each result lie elements that must stay. Each
 * problem runs twice; an update of an optimizer once more, in place. */
#ifndef HSP_OP_SUITE_H
#define HSP_OP_SUITE_H
#include "worker/backend/backend.h"

struct op_suite {
    struct hsp_backend *one, *many; /* of the first and of the second run; may be the same */
    bool same_bits; /* of both runs, for every op; else for those of the suite's table */
    /* NULL: all. Whether the backend has the op for this real type. */
    bool (*judged)(enum hsp_op op, enum hsp_dtype t);
    /* NULL: that of the suite's table, @tol: largest difference relative to the largest value of
     * the operand, or to 1. */
    double (*tolerance)(enum hsp_op op, enum hsp_dtype t, double tol);
    void (*second)(bool begins); /* NULL, or called before and after each second run */
};

/* Extents by name, see the table of op_suite.c: H = h d, Q = 3 H, P = 2 H. */
struct op_dims {
    int64_t b, s, t, k, n, e, v, h, d, origin, origin2;
    bool causal;
};

/* Every op and type with these extents. A failed assertion names the op, the type and the
 * element. */
void op_suite_dims(const struct op_suite *s, const struct op_dims *m);
/* With 24 random ones and large ones. */
void op_suite_random(const struct op_suite *s);
/* With each dim empty in its turn. */
void op_suite_empty(const struct op_suite *s);

#endif
