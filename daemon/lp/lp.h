/* Solves small linear and mixed-integer programs: minimise or maximise c x, with bounds.
 *
 * Role:        the planner's general case and the oracle of its exact algorithms in tests
 *              (decision D11). Only solve.c knows which solver is behind it.
 * Purity:      deterministic, no I/O, no clock: limits are counted in iterations and nodes.
 * Threads:     a problem is confined to one thread; only *cancel may be set from another one.
 * Ownership:   the problem owns its arrays; values of a result are the caller's array.
 * Bounds:      HSP_LP_MAX_*: every count and index is checked before the solver sees it, so that a
 *              bad problem is an error here and not an abort there.
 */
#ifndef HSP_LP_H
#define HSP_LP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

#define HSP_LP_MAX_VARS  100000
#define HSP_LP_MAX_ROWS  100000
#define HSP_LP_MAX_COEFS 2000000
#define HSP_LP_INF       1e30 /* a bound of at least this size (or -this) is no bound */

struct hsp_lp; /* opaque */

enum hsp_lp_sense { HSP_LP_MIN, HSP_LP_MAX };

struct hsp_lp_limits {
    uint32_t max_nodes;        /* of branch and bound; 0: 100000 */
    uint32_t max_iterations;   /* of one simplex run; 0: 1000000 */
    const atomic_bool *cancel; /* may be NULL; true: give up with HSP_ECANCELED */
};

struct hsp_lp_result {
    double objective; /* recomputed from the values in our own arithmetic */
    bool optimal;     /* false: the best found when a limit was hit */
    uint32_t nodes;   /* explored by branch and bound */
};

/* NULL without memory. */
struct hsp_lp *hsp_lp_new(enum hsp_lp_sense sense);
struct hsp_lp *hsp_lp_free(struct hsp_lp *lp); /* NULL is allowed; returns NULL */

/* A variable lo <= x <= hi with objective coefficient @cost; *ret is its number, from 0.
 * HSP_EINVAL: lo > hi or not a number; HSP_ELIMIT; HSP_ENOMEM. Nothing changes on failure. */
enum hsp_status hsp_lp_add_var(struct hsp_lp *lp, double lo, double hi, double cost, bool integer,
                               uint32_t *ret, struct hsp_err *err);

/* Adds a row lo <= sum coef[i] * x[var[i]] <= hi. HSP_EINVAL: a variable does not exist or is twice
 * in the row, a coefficient is not finite, or lo > hi. Nothing changes on failure. */
enum hsp_status hsp_lp_add_row(struct hsp_lp *lp, uint32_t n, const uint32_t *var,
                               const double *coef, double lo, double hi, struct hsp_err *err);

/* Checks bounds, rows and integrality of @x within @tol (relative to the size of each row's terms)
 * and gives the objective. HSP_EINVAL names the first violation. */
enum hsp_status hsp_lp_verify(const struct hsp_lp *lp, const double *x, double tol,
                              double *ret_objective, struct hsp_err *err);

#endif
