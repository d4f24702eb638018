/* Inside of --verify: kept values of the unsharded program, and what a tensor of a rank means in them.
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

/* Keeps @v, which lies in @full: for batch tensors from row @row0 of the global batch on. HSP_ENOMEM. */
enum hsp_status hsp_kept_put(struct hsp_kept *k, const struct hsp_cell_view *v,
                             const struct hsp_box *full, int64_t row0, struct hsp_err *err);
/* Keeps @v as the contribution of sequence @row of @rows. */
enum hsp_status hsp_kept_put_row(struct hsp_kept *k, const struct hsp_cell_view *v, uint32_t row,
                                 uint32_t rows, struct hsp_err *err);
/* A sum over sequences, still 0, and contributions [first, end) of @k, which has its box, to it. */
enum hsp_status hsp_kept_zero(struct hsp_kept *sum, const struct hsp_box *box, struct hsp_err *err);
void hsp_kept_add(const struct hsp_kept *k, uint32_t first, uint32_t end, struct hsp_kept *sum);
void hsp_kept_drop(struct hsp_kept *k);

/* Largest |difference| over the tolerance, on a cell: above 1 they differ. */
double hsp_kept_distance(const struct hsp_kept *k, const struct hsp_cell_view *v,
                         const struct hsp_box *cell, int64_t row0, double tol);
/* The same of single numbers, relative to @want; @tol 0: they must be equal. Two that are no number are. */
double hsp_verify_distance(double have, double want, double tol);
/* fp64: far above rounding, far below any mistake. fp32 and bf16 lose about half their digits on the way:
 * sqrt(u), with u = 2^-8 for half a step of bf16; a value is behind some d roundings of either run, whose
 * errors differ and add up to about u sqrt(2 d), and d is below 128 in the small models compared here. */
double hsp_verify_tolerance(enum hsp_dtype t);

/* How a tensor of the unsharded program depends on the batch, one sequence at a time. */
enum hsp_verify_how {
    HSP_VERIFY_NONE,
    HSP_VERIFY_ROWS, /* dim 0 is the batch */
    HSP_VERIFY_SUM,  /* a sum over sequences: weight gradients, the loss */
    HSP_VERIFY_SAME, /* the same for each micro-batch */
    HSP_VERIFY_PARAM /* a parameter as a rank uses it; ref: state number */
};

/* What one rank's tensor means in the unsharded program. */
struct hsp_match {
    uint8_t how;  /* enum hsp_verify_how */
    bool partial; /* this rank's value is an addend */
    uint32_t ref; /* its tensor, or state number */
};

/* @ret[n_tensors] of the unsharded program: how each depends on the batch. */
void hsp_verify_classes(const struct hsp_program *ref, uint8_t *ret);
/* @ret[n_tensors] of a rank's program. */
void hsp_verify_match(const struct hsp_program *ref, const uint8_t *classes,
                      const struct hsp_program *p, struct hsp_match *ret);
/* Sums in two steps: what a rank's Reshards add inside of one tensor group stays an addend where a later
 * one adds those of the stage's groups. After hsp_verify_match; @programs: of all @n ranks. */
void hsp_verify_tiers(const struct hsp_program *programs, uint32_t n, uint32_t rank,
                      struct hsp_match *match);
/* State of the unsharded program with the same parameter and kind as state @k; UINT32_MAX. */
uint32_t hsp_verify_state(const struct hsp_program *ref, const struct hsp_program *p, uint32_t k);

/* ---- programs that compute in bf16 (verify_bf16.c) ----
 *
 * They are compared twice: as they are, each step from the same state, within what bf16 can tell; then
 * with everything they keep as bf16 kept in fp32, within what fp32 can, which shows mistakes that are
 * smaller than the roundings of bf16. */

/* Makes tensors that are bf16 fp32, in twice the memory; the rest of the program stays. The templates of
 * programs that share one change together, so all programs of a file must be given. */
void hsp_program_widen(struct hsp_program *p);
/* The state of the unsharded program @ref in @ref_slot becomes that of @p in @slot. */
void hsp_verify_adopt(const struct hsp_program *ref, void *ref_slot, const struct hsp_program *p,
                      void *slot);

#endif
