/* Holds the kept values of the unsharded program and the meaning of a rank's tensor in them. Inside
 * of --verify.
 *
 * Role:    verify.c runs the two sides and reports; verify_compare.c keeps and compares numbers;
 *          verify_match.c says which is which.
 * Threads: kept values and matches are read-only while the sharded programs run.
 */
#ifndef HSP_VERIFY_IMPL_H
#define HSP_VERIFY_IMPL_H
#include "worker/exec/engine.h"

/* A value kept from the unsharded run, as doubles. */
struct hsp_kept {
    double *data; /* owned; NULL: not kept */
    struct hsp_box box;
    uint32_t rows; /* 0: data are one value of box; else one for each sequence, to be summed */
    double scale;  /* largest magnitude */
};

/* How a tensor of the unsharded program depends on the batch, one sequence at a time. */
enum hsp_verify_how {
    HSP_VERIFY_NONE,
    HSP_VERIFY_ROWS, /* dim 0 is the batch */
    HSP_VERIFY_SUM,  /* a sum over sequences: weight gradients, the loss */
    HSP_VERIFY_SAME, /* the same for each micro-batch */
    HSP_VERIFY_PARAM /* a parameter as a rank uses it; ref: state number */
};

/* The meaning of one rank's tensor in the unsharded program. */
struct hsp_match {
    uint8_t how;  /* enum hsp_verify_how */
    bool partial; /* this rank's value is an addend */
    uint32_t ref; /* its tensor, or state number */
};

#endif
