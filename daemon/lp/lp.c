/* Builds and verifies problems. */
#include "daemon/lp/lp.h"

#include <math.h>
#include <stdlib.h>

#include "daemon/lp/lp_model.h"
#include "proto/base/vec.h"

struct hsp_lp *hsp_lp_new(enum hsp_lp_sense sense)
{
    struct hsp_lp *lp = calloc(1, sizeof(*lp));
    if (lp != NULL) {
        lp->sense = sense;
    }
    return lp;
}

struct hsp_lp *hsp_lp_free(struct hsp_lp *lp)
{
    if (lp != NULL) {
        free(lp->vars);
        free(lp->rows);
        free(lp->coefs);
        free(lp->mark);
        free(lp);
    }
    return NULL;
}

/* NaN makes the comparison false. */
static bool bounds_valid(double lo, double hi)
{
    return lo <= hi && lo < HSP_LP_INF && hi > -HSP_LP_INF;
}

enum hsp_status hsp_lp_add_var(struct hsp_lp *lp, double lo, double hi, double cost, bool integer,
                               uint32_t *ret, struct hsp_err *err)
{
    if (!bounds_valid(lo, hi) || !isfinite(cost)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "variable %zu: bounds %g to %g, cost %g", lp->n_vars,
                           lo, hi, cost);
    }
    if (lp->n_vars >= HSP_LP_MAX_VARS) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "more than %d variables", HSP_LP_MAX_VARS);
    }
    if (!hsp_grow(&lp->vars, &lp->cap_vars, lp->n_vars + 1, sizeof(*lp->vars), HSP_LP_MAX_VARS) ||
        !hsp_grow(&lp->mark, &lp->cap_mark, lp->n_vars + 1, sizeof(*lp->mark), HSP_LP_MAX_VARS)) {
        return hsp_err_nomem(err, "a linear program of %zu variables", lp->n_vars);
    }
    lp->vars[lp->n_vars] =
        (struct hsp_lp_var){.lo = lo, .hi = hi, .cost = cost, .integer = integer};
    *ret = (uint32_t)lp->n_vars++;
    return HSP_OK;
}

/* Marks of a refused row do no harm: the next row of the same number sets them again, so they are
 * cleared here. */
static enum hsp_status check_row(struct hsp_lp *lp, uint32_t n, const uint32_t *var,
                                 const double *coef, struct hsp_err *err)
{
    uint32_t stamp = (uint32_t)lp->n_rows + 1;
    for (uint32_t i = 0; i < n; i++) {
        enum hsp_status st = HSP_OK;
        if (var[i] >= lp->n_vars) {
            st = hsp_err_set(err, HSP_EINVAL, 0, "row %zu: variable %u of %zu", lp->n_rows, var[i],
                             lp->n_vars);
        } else if (lp->mark[var[i]] == stamp) {
            st = hsp_err_set(err, HSP_EINVAL, 0, "row %zu: variable %u stands twice", lp->n_rows,
                             var[i]);
        } else if (!isfinite(coef[i])) {
            st = hsp_err_set(err, HSP_EINVAL, 0, "row %zu: coefficient of variable %u is %g",
                             lp->n_rows, var[i], coef[i]);
        }
        if (st != HSP_OK) {
            while (i-- > 0) {
                lp->mark[var[i]] = 0;
            }
            return st;
        }
        lp->mark[var[i]] = stamp;
    }
    return HSP_OK;
}

enum hsp_status hsp_lp_add_row(struct hsp_lp *lp, uint32_t n, const uint32_t *var,
                               const double *coef, double lo, double hi, struct hsp_err *err)
{
    if (!bounds_valid(lo, hi)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "row %zu: bounds %g to %g", lp->n_rows, lo, hi);
    }
    if (lp->n_rows >= HSP_LP_MAX_ROWS || n > HSP_LP_MAX_COEFS - lp->n_coefs) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "more than %d rows or %d coefficients",
                           HSP_LP_MAX_ROWS, HSP_LP_MAX_COEFS);
    }
    if (!hsp_grow(&lp->rows, &lp->cap_rows, lp->n_rows + 1, sizeof(*lp->rows), HSP_LP_MAX_ROWS) ||
        !hsp_grow(&lp->coefs, &lp->cap_coefs, lp->n_coefs + n, sizeof(*lp->coefs),
                  HSP_LP_MAX_COEFS)) {
        return hsp_err_nomem(err, "a linear program of %zu rows", lp->n_rows);
    }
    enum hsp_status st = check_row(lp, n, var, coef, err);
    if (st != HSP_OK) {
        return st;
    }
    struct hsp_lp_row *r = &lp->rows[lp->n_rows++];
    *r = (struct hsp_lp_row){.lo = lo, .hi = hi, .first = lp->n_coefs, .n = n};
    for (uint32_t i = 0; i < n; i++) {
        lp->coefs[lp->n_coefs++] = (struct hsp_lp_coef){.var = var[i], .value = coef[i]};
    }
    return HSP_OK;
}

static bool outside(double v, double lo, double hi, double slack)
{
    return !(v >= lo - slack && v <= hi + slack); /* also true for NaN */
}

enum hsp_status hsp_lp_verify(const struct hsp_lp *lp, const double *x, double tol,
                              double *ret_objective, struct hsp_err *err)
{
    double objective = 0;
    for (size_t i = 0; i < lp->n_vars; i++) {
        const struct hsp_lp_var *v = &lp->vars[i];
        if (outside(x[i], v->lo, v->hi, tol * fmax(1, fabs(x[i])))) {
            return hsp_err_set(err, HSP_EINVAL, 0, "variable %zu is %.17g, outside %g to %g", i,
                               x[i], v->lo, v->hi);
        }
        if (v->integer && fabs(x[i] - round(x[i])) > tol) {
            return hsp_err_set(err, HSP_EINVAL, 0, "variable %zu is %.17g, not an integer", i,
                               x[i]);
        }
        objective += v->cost * x[i];
    }
    for (size_t r = 0; r < lp->n_rows; r++) {
        const struct hsp_lp_row *row = &lp->rows[r];
        double sum = 0, size = 1;
        for (uint32_t i = 0; i < row->n; i++) {
            const struct hsp_lp_coef *c = &lp->coefs[row->first + i];
            double term = c->value * x[c->var];
            sum += term;
            size = fmax(size, fabs(term));
        }
        if (outside(sum, row->lo, row->hi, tol * size)) {
            return hsp_err_set(err, HSP_EINVAL, 0, "row %zu is %.17g, outside %g to %g", r, sum,
                               row->lo, row->hi);
        }
    }
    *ret_objective = objective;
    return HSP_OK;
}
