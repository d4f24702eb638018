/* Compares a call with the catalogue of ops, so that a wrong call cannot make a kernel write
 * outside its buffers, on any backend. Programs are also checked when they are decoded.
 *
 * Role:   the run of each backend calls it first.
 * Purity: pure. */
#ifndef HSP_CALL_CHECK_H
#define HSP_CALL_CHECK_H
#include "worker/backend/backend.h"

/* Checks the types and shapes of the operands of @c; *ret_real is the type of its real numbers.
 * Returns HSP_EUNSUPPORTED if the op is unknown or the types do not fit. Returns HSP_EINVAL if the
 * number or the shapes of the operands are wrong, or if an update has no scalars. */
enum hsp_status hsp_call_check(const struct hsp_call *c, enum hsp_dtype *ret_real,
                               struct hsp_err *err);

/* Checks the terms that are added to the product @c, a checked call, and the output of their sum.
 * Returns HSP_EUNSUPPORTED if @c is no product or the types do not fit, HSP_EINVAL if shapes are
 * wrong. */
enum hsp_status hsp_sum_check(const struct hsp_call *c, const struct hsp_sum *s,
                              struct hsp_err *err);

#endif
