/* Checks a call against the catalogue of ops. Programs are checked when they are decoded; this
 * keeps a wrong one from writing outside its buffers, on any backend.
 *
 * Role:   the first thing that the run of a backend does.
 * Purity: pure. */
#ifndef HSP_CALL_CHECK_H
#define HSP_CALL_CHECK_H
#include "worker/backend/backend.h"

/* Types and shapes of the operands of @c; *ret_real is the type of its real numbers.
 * HSP_EUNSUPPORTED: an unknown op, types that do not fit; HSP_EINVAL: number or shapes of operands,
 * an update without its scalars. */
enum hsp_status hsp_call_check(const struct hsp_call *c, enum hsp_dtype *ret_real,
                               struct hsp_err *err);

/* Checks the additions to the product @c, a checked call, and their output. HSP_EUNSUPPORTED: no
 * product, or types that do not fit; HSP_EINVAL: shapes. */
enum hsp_status hsp_sum_check(const struct hsp_call *c, const struct hsp_sum *s,
                              struct hsp_err *err);

#endif
