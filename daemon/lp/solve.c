/* Solves by GLPK, which aborts the process on an internal error. glp_error_hook turns that into a
 * longjmp back to run_guarded; after it the library's environment is in an unknown state and may
 * only be released (glp_free_env), which also frees the problem. The environment belongs to the
 * calling thread and is released after every solve: no memory stays, and no state leaks from one
 * solve to the next.
 *
 * Everything that must survive the jump is in struct run, which lives in the caller of setjmp and
 * is only reached through a pointer.
 */
#include "daemon/lp/solve.h"

#include <glpk.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/lp/lp.h"
#include "daemon/lp/lp_model.h"

#define DEFAULT_NODES        100000
#define DEFAULT_ITERATIONS   1000000
#define ITERATIONS_PER_SLICE 2000 /* cancellation is looked at between slices */
#define VERIFY_TOL           1e-6 /* GLPK's own feasibility tolerance is 1e-7, relative */

struct run {
    const struct hsp_lp *lp;
    const struct hsp_lp_limits *limits;
    uint32_t max_nodes, max_iterations;
    double *x;
    int *index; /* 1-based scratch row for the loader */
    double *value;
    glp_prob *prob;
    bool optimal, canceled, nomem;
    uint32_t nodes;
    enum hsp_status status;
    struct hsp_err *err;
    jmp_buf jump;
};

/* Takes the text that GLPK would print; of an error this text alone names the cause. */
static int on_text(void *info, const char *text)
{
    struct run *run = info;
    run->nomem = run->nomem || strstr(text, "memory") != NULL;
    return 1;
}

static void on_fatal(void *info)
{
    struct run *run = info;
    longjmp(run->jump, 1);
}

static bool canceled(const struct run *run)
{
    return run->limits != NULL && run->limits->cancel != NULL &&
           atomic_load_explicit(run->limits->cancel, memory_order_relaxed);
}

static int bound_kind(double lo, double hi)
{
    bool has_lo = lo > -HSP_LP_INF, has_hi = hi < HSP_LP_INF;
    if (has_lo && has_hi) {
        return lo < hi ? GLP_DB : GLP_FX;
    }
    if (has_lo) {
        return GLP_LO;
    }
    return has_hi ? GLP_UP : GLP_FR;
}

static void load(struct run *run)
{
    const struct hsp_lp *lp = run->lp;
    glp_prob *p = run->prob = glp_create_prob();
    glp_set_obj_dir(p, lp->sense == HSP_LP_MIN ? GLP_MIN : GLP_MAX);
    if (lp->n_vars > 0) {
        glp_add_cols(p, (int)lp->n_vars);
    }
    for (size_t i = 0; i < lp->n_vars; i++) {
        const struct hsp_lp_var *v = &lp->vars[i];
        int col = (int)i + 1;
        glp_set_col_bnds(p, col, bound_kind(v->lo, v->hi), v->lo, v->hi);
        glp_set_obj_coef(p, col, v->cost);
        glp_set_col_kind(p, col, v->integer ? GLP_IV : GLP_CV);
    }
    if (lp->n_rows > 0) {
        glp_add_rows(p, (int)lp->n_rows);
    }
    for (size_t r = 0; r < lp->n_rows; r++) {
        const struct hsp_lp_row *row = &lp->rows[r];
        glp_set_row_bnds(p, (int)r + 1, bound_kind(row->lo, row->hi), row->lo, row->hi);
        for (uint32_t i = 0; i < row->n; i++) {
            run->index[i + 1] = (int)lp->coefs[row->first + i].var + 1;
            run->value[i + 1] = lp->coefs[row->first + i].value;
        }
        glp_set_mat_row(p, (int)r + 1, (int)row->n, run->index, run->value);
    }
}

static enum hsp_status fail(struct run *run, enum hsp_status code, const char *text)
{
    return run->status = hsp_err_set(run->err, code, 0, "%s (%zu variables, %zu rows)", text,
                                     run->lp->n_vars, run->lp->n_rows);
}

/* The relaxation, in slices; a run that hit its iteration limit goes on from its basis. */
static enum hsp_status simplex(struct run *run)
{
    glp_smcp cfg;
    glp_init_smcp(&cfg);
    cfg.msg_lev = GLP_MSG_OFF;
    cfg.it_lim = ITERATIONS_PER_SLICE;
    glp_scale_prob(run->prob, GLP_SF_AUTO);
    glp_adv_basis(run->prob, 0);
    for (uint32_t done = 0; done < run->max_iterations; done += ITERATIONS_PER_SLICE) {
        if (canceled(run)) {
            return fail(run, HSP_ECANCELED, "linear program canceled");
        }
        int rc = glp_simplex(run->prob, &cfg);
        if (rc != 0 && rc != GLP_EITLIM) {
            return fail(run, HSP_ESTATE, "simplex failed");
        }
        if (rc == 0) {
            switch (glp_get_status(run->prob)) {
            case GLP_OPT: run->optimal = true; return HSP_OK;
            case GLP_NOFEAS: return fail(run, HSP_EINFEASIBLE, "no feasible solution");
            case GLP_UNBND: return fail(run, HSP_EINVAL, "unbounded");
            default: return fail(run, HSP_ESTATE, "simplex ended without an answer");
            }
        }
    }
    return fail(run, HSP_ELIMIT, "iteration limit hit");
}

static void on_node(glp_tree *tree, void *info)
{
    struct run *run = info;
    if (glp_ios_reason(tree) != GLP_ISELECT) {
        return;
    }
    run->canceled = canceled(run);
    if (run->nodes >= run->max_nodes || run->canceled) {
        glp_ios_terminate(tree);
        return;
    }
    run->nodes++;
}

static enum hsp_status branch_and_bound(struct run *run)
{
    glp_iocp cfg;
    glp_init_iocp(&cfg);
    cfg.msg_lev = GLP_MSG_OFF;
    cfg.cb_func = on_node;
    cfg.cb_info = run;
    int rc = glp_intopt(run->prob, &cfg);
    if (run->canceled) {
        return fail(run, HSP_ECANCELED, "integer program canceled");
    }
    if (rc != 0 && rc != GLP_ESTOP) {
        return fail(run, HSP_ESTATE, "branch and bound failed");
    }
    switch (glp_mip_status(run->prob)) {
    case GLP_OPT: run->optimal = true; return HSP_OK;
    case GLP_FEAS: run->optimal = false; return HSP_OK;
    case GLP_NOFEAS: return fail(run, HSP_EINFEASIBLE, "no feasible solution in integers");
    default: break;
    }
    return fail(run, HSP_ELIMIT, "node limit hit before a solution was found");
}

static void solve(struct run *run)
{
    bool integer = false;
    load(run);
    for (size_t i = 0; i < run->lp->n_vars; i++) {
        integer = integer || run->lp->vars[i].integer;
    }
    if (simplex(run) != HSP_OK) {
        return;
    }
    run->optimal = false;
    if (integer && branch_and_bound(run) != HSP_OK) {
        return;
    }
    run->optimal = integer ? run->optimal : true;
    for (size_t i = 0; i < run->lp->n_vars; i++) {
        const struct hsp_lp_var *v = &run->lp->vars[i];
        int col = (int)i + 1;
        double x = integer ? glp_mip_col_val(run->prob, col) : glp_get_col_prim(run->prob, col);
        x = v->integer ? round(x) : x;
        run->x[i] = fmin(fmax(x, v->lo), v->hi);
    }
}

static void run_guarded(struct run *run)
{
    if (glp_init_env() > 1) { /* the calls below would make it themselves, or abort */
        (void)fail(run, HSP_ENOMEM, "out of memory for the solver");
        return;
    }
    if (setjmp(run->jump) == 0) {
        glp_error_hook(on_fatal, run);
        glp_term_hook(on_text, run);
        solve(run);
        glp_delete_prob(run->prob);
        glp_error_hook(NULL, NULL);
    } else if (run->nomem) {
        (void)fail(run, HSP_ENOMEM, "the solver ran out of memory");
    } else {
        (void)fail(run, HSP_ESTATE, "the solver gave up with an internal error");
    }
    (void)glp_free_env(); /* 1: nothing to free */
}

enum hsp_status hsp_lp_solve(const struct hsp_lp *lp, const struct hsp_lp_limits *limits,
                             double *ret_x, struct hsp_lp_result *ret, struct hsp_err *err)
{
    struct run run = {.lp = lp,
                      .limits = limits,
                      .max_nodes = DEFAULT_NODES,
                      .max_iterations = DEFAULT_ITERATIONS,
                      .x = ret_x,
                      .status = HSP_OK,
                      .err = err};
    if (limits != NULL && limits->max_nodes > 0) {
        run.max_nodes = limits->max_nodes;
    }
    if (limits != NULL && limits->max_iterations > 0) {
        run.max_iterations = limits->max_iterations;
    }
    run.index = calloc(lp->n_vars + 1, sizeof(*run.index));
    run.value = calloc(lp->n_vars + 1, sizeof(*run.value));
    if (run.index == NULL || run.value == NULL) {
        run.status = hsp_err_nomem(err, "a linear program of %zu variables", lp->n_vars);
    } else {
        run_guarded(&run);
    }
    free(run.index);
    free(run.value);
    if (run.status != HSP_OK) {
        return run.status;
    }
    double objective = 0;
    if (hsp_lp_verify(lp, ret_x, VERIFY_TOL, &objective, err) != HSP_OK) {
        (void)hsp_err_wrap(err, "the solver's answer does not hold");
        return HSP_ESTATE;
    }
    *ret =
        (struct hsp_lp_result){.objective = objective, .optimal = run.optimal, .nodes = run.nodes};
    return HSP_OK;
}
