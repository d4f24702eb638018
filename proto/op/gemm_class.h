/* Sorts matrix products into a few classes of shape. The share of its best rate that a device
 * reaches depends on the shape, and these classes explain most of it.
 *
 * Role:   the probe measures a rate for each class, the planner prices each product by its own.
 * Purity: pure.
 * Units:  @m and @n are the rows and columns of the result, @k is how many products are summed for
 *         each element.
 *
 * In each class another thing bounds a product (the two roofs of a roofline, and the number of
 * tiles that processors can share), so devices differ in their order:
 *
 *   few        a row or column of tiles is not full: the larger factor is read for little work, and
 *              memory bounds the time
 *   wide       k is short against both sides of the result, and writing the result takes the time
 *              (the head of a model with a large vocabulary over many tokens)
 *   long       k is long against both sides: few tiles keep few processors busy, unless the sum is
 *              cut (gradients of weights over many tokens, the way back through a large vocabulary)
 *   attention  no single product but two with a softmax between, in kernels of their own
 *   even       all others: the layers of a transformer, whose sides differ by a factor of four at
 *              most
 *
 * The rules are the same for a product and its transpose. The loss that all small products share is
 * not here: it is their fixed part (hsp_device_desc.gemm_us). */
#ifndef HSP_GEMM_CLASS_H
#define HSP_GEMM_CLASS_H
#include <math.h>

#include "proto/op/op.h"

enum hsp_gemm_class {
    HSP_GEMM_EVEN,
    HSP_GEMM_FEW,
    HSP_GEMM_WIDE,
    HSP_GEMM_LONG,
    HSP_GEMM_ATTENTION
};
#define HSP_N_GEMM_CLASSES 5

#define HSP_GEMM_TILE \
    64 /* rows or columns that fill one; those of common libraries have 64 to 256 */
#define HSP_GEMM_RATIO 4 /* more than between the two matrices of a transformer's MLP */

/* The rate of a class as a part of that of even products, as far as it is believed: 0, not known,
 * for anything but a positive number, and never beyond these. */
#define HSP_GEMM_PART_LEAST (1.0 / 1024)
#define HSP_GEMM_PART_MOST  4.0
static inline double hsp_gemm_part(double x)
{
    return !isfinite(x) || !(x > 0)  ? 0
           : x < HSP_GEMM_PART_LEAST ? HSP_GEMM_PART_LEAST
           : x > HSP_GEMM_PART_MOST  ? HSP_GEMM_PART_MOST
                                     : x;
}

/* "even", "few", ... */
const char *hsp_gemm_class_name(enum hsp_gemm_class c);
/* By shape, never HSP_GEMM_ATTENTION; extents are >= 0. */
enum hsp_gemm_class hsp_gemm_class_of(int64_t m, int64_t n, int64_t k);
/* Of a product (hsp_op_is_product) on a box with these axis extents (hsp_op_extents). */
enum hsp_gemm_class hsp_op_gemm_class(enum hsp_op op, const struct hsp_axes *ax,
                                      const int64_t axis[HSP_MAX_AXES]);

#endif
