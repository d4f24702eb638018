/* Shares the inside of struct hsp_lp between lp.c (building, verifying) and solve.c (the solver).
 *
 * Purity:     pure data.
 * Ownership:  the arrays are the problem's, from hsp_grow.
 * Invariants: (I1) coefficients of row r are coef[row[r].first .. row[r].first + row[r].n).
 *             (I2) every coef.var < n_vars, no variable twice in a row, every value finite.
 */
#ifndef HSP_LP_MODEL_H
#define HSP_LP_MODEL_H

#include <stddef.h>

#include "daemon/lp/lp.h"

struct hsp_lp_var {
    double lo, hi, cost;
    bool integer;
};

struct hsp_lp_row {
    double lo, hi;
    size_t first;
    uint32_t n;
};

struct hsp_lp_coef {
    uint32_t var;
    double value;
};

struct hsp_lp {
    enum hsp_lp_sense sense;
    size_t n_vars, cap_vars;
    struct hsp_lp_var *vars;
    size_t n_rows, cap_rows;
    struct hsp_lp_row *rows;
    size_t n_coefs, cap_coefs;
    struct hsp_lp_coef *coefs;
    size_t cap_mark;
    uint32_t *mark; /* per variable: number of the last row it was seen in, plus 1 */
};

#endif
