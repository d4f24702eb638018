/* Corrects a device's profile by the times of its instructions in recorded steps.
 *
 * A probe measures products and element-wise traffic apart, of a few sizes, on a device that does
 * nothing else; a model's own mix may take another part of the time with each. That proportion is
 * corrected: products and traffic of the measured work get the parts of its predicted time that
 * they had of the measured one. The total speed of the device is not touched: it is learnt from the
 * shares of whole steps (daemon/cluster/slow.c), and would be counted twice.
 * Purity: pure.
 * Units:  seconds, floating-point operations, bytes. */
#ifndef HSP_CORRECT_H
#define HSP_CORRECT_H
#include "proto/layout/cluster_desc.h"

struct hsp_class_sum { /* of the instructions of one kind */
    double n;          /* instructions */
    double seconds;    /* measured */
};

struct hsp_measured { /* work: as work.h counts it */
    struct hsp_class_sum product, elements;
    double flops[HSP_N_GEMM_CLASSES]; /* of the products, by their shape */
    double bytes;                     /* of the others */
};

/* A factor on a rate is never further from 1 than this: a larger one was no measurement. */
#define HSP_CORRECT_MOST 8.0
/* Logarithm of factors that are no news: two steps are not measured better, and plans should not
 * change for nothing. */
#define HSP_CORRECT_NOISE 0.15

/* Corrects all rates of products, of all shapes alike, and that of memory. @rate: the type in which
 * the products were computed. Sums that say nothing (a kind without work or time, or with less time
 * than its instructions take anyway) leave @d as it is. */
void hsp_profile_correct(struct hsp_device_desc *d, enum hsp_rate rate,
                         const struct hsp_measured *m);

#endif
