/* Compares numbers of the sharded and the unsharded program within a tolerance of their type.
 *
 * Purity:  pure.
 */
#ifndef HSP_VERIFY_COMPARE_H
#define HSP_VERIFY_COMPARE_H
#include "worker/run/verify_impl.h"

/* Keeps @v, which lies in @full: for batch tensors from row @row0 of the global batch on.
 * HSP_ENOMEM. */
enum hsp_status hsp_kept_put(struct hsp_kept *k, const struct hsp_cell_view *v,
                             const struct hsp_box *full, int64_t row0, struct hsp_err *err);
/* Keeps @v as the contribution of sequence @row of @rows. */
enum hsp_status hsp_kept_put_row(struct hsp_kept *k, const struct hsp_cell_view *v, uint32_t row,
                                 uint32_t rows, struct hsp_err *err);
/* A sum over sequences, still 0, and contributions [first, end) of @k, which has its box, to it. */
enum hsp_status hsp_kept_zero(struct hsp_kept *sum, const struct hsp_box *box, struct hsp_err *err);
void hsp_kept_add(const struct hsp_kept *k, uint32_t first, uint32_t end, struct hsp_kept *sum);
void hsp_kept_drop(struct hsp_kept *k);
/* The same of single numbers, relative to @want; @tol 0: they must be equal. Two that are no number
 * are. */
double hsp_verify_distance(double have, double want, double tol);
/* Largest |difference| over the tolerance, on a cell: above 1 they differ. */
double hsp_kept_distance(const struct hsp_kept *k, const struct hsp_cell_view *v,
                         const struct hsp_box *cell, int64_t row0, double tol);
/* fp64: far above rounding, far below any mistake. fp32 and bf16 lose about half their digits on
 * the way:
 * sqrt(u), with u = 2^-8 for half a step of bf16; a value is behind some d roundings of either run,
 * whose errors differ and add up to about u sqrt(2 d), and d is below 128 in the small models
 * compared here. */
double hsp_verify_tolerance(enum hsp_dtype t);

#endif
