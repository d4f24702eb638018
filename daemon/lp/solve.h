/* Solves linear and mixed-integer programs with GLPK, so that no other file includes glpk.h
 * (decision D11).
 *
 * Purity: deterministic, no I/O, no clock: limits are counted in iterations and nodes. */
#ifndef HSP_SOLVE_H
#define HSP_SOLVE_H
#include "daemon/lp/lp.h"

/* Solves the problem and writes the values to ret_x[n_vars]; those of integer variables are exactly
 * whole. hsp_lp_verify has checked the answer. @limits may be NULL. HSP_EINFEASIBLE: there is no
 * solution. HSP_EINVAL: the problem is unbounded. HSP_ELIMIT: a limit was hit before any solution
 * was found. HSP_ESTATE: the solver failed, or its answer did not pass the check. Also
 * HSP_ECANCELED and HSP_ENOMEM. */
enum hsp_status hsp_lp_solve(const struct hsp_lp *lp, const struct hsp_lp_limits *limits,
                             double *ret_x, struct hsp_lp_result *ret, struct hsp_err *err);

#endif
