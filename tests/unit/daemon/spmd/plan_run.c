#include "tests/unit/daemon/spmd/plan_run.h"

#include <math.h>

#include "daemon/plan/plan_yaml.h"
#include "tests/lib/naive_graph.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/spmd/machine.h"

#define TOL 1e-12

/* ---- the problem ---- */

static int32_t input(uint8_t load, bool eval, uint32_t seq, int64_t col)
{
    uint64_t h = hsp_test_rand("input", (uint64_t)load << 40 | (uint64_t)eval << 32 |
                                            (uint64_t)seq << 8 | (uint64_t)col);
    switch ((enum hsp_load)load) {
    case HSP_LOAD_POSITIONS: return (int32_t)col;
    case HSP_LOAD_LABELS: return h % 5 == 3 ? -1 : (int32_t)((h >> 8) % PLAN_VOCAB);
    case HSP_LOAD_IDS: return (int32_t)((h >> 8) % PLAN_VOCAB);
    case HSP_LOAD_STARTS: return (int32_t)(col / 3 * 3); /* documents of three tokens */
    case HSP_LOAD_KEYS: return eval ? -1 : (int32_t)(h & 0x7fffffff);
    }
    return 0;
}

static void fill_inputs(struct hsp_naive_values *x, bool eval)
{
    for (uint32_t t = 0; t < x->g->n_tensors; t++) {
        const struct hsp_array *a = &x->v[t];
        if (x->g->tensors[t].kind != HSP_TENSOR_INPUT) {
            continue;
        }
        for (int64_t i = 0; i < hsp_naive_count(a); i++) {
            hsp_naive_put(
                a, i, input(x->g->tensors[t].load, eval, (uint32_t)(i / a->ext[1]), i % a->ext[1]));
        }
    }
}

/* ---- the unsharded truth ---- */

/* Kinds of state that follow the parameter. */
static uint32_t n_moments(const struct plan_model *m)
{
    return m->t.hyper.optimizer == HSP_OPT_ADAMW ? 2 : 1;
}

static uint8_t moment_kind(const struct plan_model *m, uint32_t k)
{
    return m->t.hyper.optimizer == HSP_OPT_ADAMW ? (uint8_t)(HSP_STATE_M + k) : HSP_STATE_MOMENTUM;
}

static struct hsp_array like(const struct hsp_array *a)
{
    struct hsp_array b = *a;
    b.data = calloc((size_t)hsp_naive_count(a) + 1, 8);
    assert_non_null(b.data);
    return b;
}

struct truth {
    struct hsp_naive_values x;
    double loss, tokens, sqnorm, worst; /* worst: largest absolute gradient */
    struct hsp_array *grad;             /* [param] */
    struct hsp_array *moment[2];        /* [param] */
};

static void truth_init(struct truth *r, const struct plan_model *m, uint64_t seed)
{
    *r = (struct truth){0};
    hsp_naive_values_init(&r->x, m->g, PLAN_BATCH);
    hsp_naive_values_random(&r->x, seed, 0.3);
    fill_inputs(&r->x, false);
    r->grad = calloc(m->g->n_params, sizeof *r->grad);
    r->moment[0] = calloc(m->g->n_params, sizeof *r->grad);
    r->moment[1] = calloc(m->g->n_params, sizeof *r->grad);
    for (uint32_t p = 0; p < m->g->n_params; p++) {
        const struct hsp_array *a = &r->x.v[m->g->params[p].tensor];
        r->grad[p] = like(a);
        r->moment[0][p] = like(a);
        r->moment[1][p] = like(a);
    }
}

static void truth_fini(struct truth *r, const struct plan_model *m)
{
    for (uint32_t p = 0; p < m->g->n_params; p++) {
        free(r->grad[p].data);
        free(r->moment[0][p].data);
        free(r->moment[1][p].data);
    }
    free(r->grad);
    free(r->moment[0]);
    free(r->moment[1]);
    hsp_naive_values_fini(&r->x);
}

static void truth_gradients(struct truth *r, const struct plan_model *m)
{
    hsp_naive_run(&r->x, 0, m->g->n_nodes);
    r->loss = hsp_naive_get(&r->x.v[m->g->loss_sum], 0);
    r->tokens = hsp_naive_get(&r->x.v[m->g->n_valid], 0);
    r->sqnorm = r->worst = 0;
    for (uint32_t p = 0; p < m->g->n_params; p++) {
        for (int64_t i = 0; i < hsp_naive_count(&r->grad[p]); i++) {
            double g = hsp_naive_grad(&r->x, p, i);
            hsp_naive_put(&r->grad[p], i, g);
            r->sqnorm += g * g;
            r->worst = fmax(r->worst, fabs(g));
        }
    }
}

static void truth_update(struct truth *r, const struct plan_model *m,
                         const struct hsp_update_scalars *scalars)
{
    bool adam = m->t.hyper.optimizer == HSP_OPT_ADAMW;
    for (uint32_t p = 0; p < m->g->n_params; p++) {
        double decay = m->g->params[p].decay ? m->t.weight_decay : 0;
        struct hsp_array w = r->x.v[m->g->params[p].tensor];
        struct hsp_array in[4] = {w, r->moment[0][p], adam ? r->moment[1][p] : r->grad[p],
                                  r->grad[p]};
        struct hsp_array out[3] = {w, r->moment[0][p], r->moment[1][p]};
        struct hsp_attrs at = {.f = {m->t.hyper.beta1, m->t.hyper.beta2, m->t.eps, decay}};
        if (!adam) {
            at = (struct hsp_attrs){.f = {m->t.momentum, decay}};
        }
        struct hsp_call c = {.op = adam ? HSP_OP_ADAMW : HSP_OP_SGDM,
                             .at = &at,
                             .n_in = adam ? 4 : 3,
                             .n_out = adam ? 3 : 2,
                             .in = in,
                             .out = out,
                             .update = scalars};
        hsp_naive_op(&c);
    }
}

/* ---- one plan ---- */

struct hsp_plan *plan_of_text(const char *text, struct hsp_arena *arena)
{
    struct hsp_plan *p = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_plan_parse(text, strlen(text), "plan", PLAN_BATCH, arena, &p, &err), &err);
    return p;
}

static void near(double a, double b, double tol, const char *what, const char *plan)
{
    if (!(fabs(a - b) <= tol)) {
        fail_msg("%s: %.17g, not %.17g (tolerance %g), under\n%s", what, a, b, tol, plan);
    }
}

static void check_eval(struct hsp_machine *x, const struct plan_model *m, const struct truth *r,
                       const char *plan)
{
    struct hsp_naive_values e;
    hsp_naive_values_init(&e, m->g, PLAN_EVAL_SEQS);
    for (uint32_t p = 0; p < m->g->n_params; p++) {
        uint32_t t = m->g->params[p].tensor;
        memcpy(e.v[t].data, r->x.v[t].data, (size_t)hsp_naive_count(&e.v[t]) * 8);
    }
    fill_inputs(&e, true);
    hsp_naive_run(&e, 0, m->g->n_forward);
    double loss = hsp_naive_get(&e.v[m->g->loss_sum], 0);
    near(hsp_machine_stat(x, HSP_STAT_EVAL_LOSS), loss, TOL * loss, "validation loss", plan);
    near(hsp_machine_stat(x, HSP_STAT_EVAL_TOKENS), hsp_naive_get(&e.v[m->g->n_valid], 0), 0,
         "validation tokens", plan);
    hsp_naive_values_fini(&e);
}

static void check_state(struct hsp_machine *x, const struct plan_model *m, const struct truth *r,
                        const char *plan)
{
    for (uint32_t p = 0; p < m->g->n_params; p++) {
        const struct hsp_array *w = &r->x.v[m->g->params[p].tensor];
        const char *name = m->g->tensors[m->g->params[p].tensor].name;
        double e = hsp_machine_state_error(x, p, HSP_STATE_PARAM, w);
        near(e, 0, TOL, name, plan);
        assert_true(e >= 0);
        assert_true(hsp_machine_replicas_equal(x, p, HSP_STATE_PARAM));
        for (uint32_t k = 0; k < n_moments(m); k++) {
            e = hsp_machine_state_error(x, p, moment_kind(m, k), &r->moment[k][p]);
            near(e, 0, TOL, name, plan);
            assert_true(hsp_machine_replicas_equal(x, p, moment_kind(m, k)));
        }
    }
}

/* With the parameters of the truth. */
static struct hsp_machine *start(const struct hsp_program_file *f, const struct plan_model *m,
                                 const struct truth *r, uint64_t seed)
{
    struct hsp_machine *x = hsp_machine_new(f->programs, f->n, seed, input);
    for (uint32_t p = 0; p < m->g->n_params; p++) {
        hsp_machine_set_state(x, p, HSP_STATE_PARAM, &r->x.v[m->g->params[p].tensor]);
    }
    return x;
}

static struct hsp_update_scalars scalars_of(const struct plan_model *m, const struct truth *r,
                                            uint64_t step)
{
    double t = (double)step + 1;
    return (struct hsp_update_scalars){.lr = 0.01,
                                       .grad_scale = 1 / r->tokens,
                                       .bias1 = 1 - pow(m->t.hyper.beta1, t),
                                       .bias2 = 1 - pow(m->t.hyper.beta2, t)};
}

static void run_steps(const struct hsp_program_file *f, const struct plan_model *m, uint64_t seed,
                      const char *plan)
{
    struct truth r;
    truth_init(&r, m, seed);
    struct hsp_machine *x = start(f, m, &r, seed);
    for (uint64_t step = 0; step < PLAN_STEPS; step++) {
        truth_gradients(&r, m);
        struct hsp_update_scalars s = scalars_of(m, &r, step);
        hsp_machine_run(x, true, &s);
        check_eval(x, m, &r, plan);
        hsp_machine_run(x, false, &s);
        near(hsp_machine_stat(x, HSP_STAT_LOSS), r.loss, TOL * r.loss, "loss", plan);
        near(hsp_machine_stat(x, HSP_STAT_TOKENS), r.tokens, 0, "tokens", plan);
        near(hsp_machine_stat(x, HSP_STAT_SQNORM), r.sqnorm, TOL * r.sqnorm, "norm", plan);
        for (uint32_t p = 0; p < m->g->n_params; p++) {
            double e = hsp_machine_grad_error(x, p, &r.grad[p]);
            near(e, 0, TOL * r.worst, m->g->tensors[m->g->params[p].tensor].name, plan);
            assert_true(e >= 0);
        }
        truth_update(&r, m, &s);
        check_state(x, m, &r, plan);
    }
    truth_fini(&r, m);
    hsp_machine_free(x);
}

void plan_compile(const char *text, const struct plan_model *m, struct hsp_arena *arena,
                  struct hsp_program_file *f)
{
    struct hsp_err err = {0};
    enum hsp_status rc = hsp_compile(m->g, plan_of_text(text, arena), &m->t, arena, f, &err);
    if (rc != HSP_OK) {
        fail_msg("%s: %s, under\n%s", hsp_test_status_name(rc), err.msg, text);
    }
}

void plan_run(const char *text, const struct plan_model *m, uint64_t seed)
{
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_program_file f = {0};
    plan_compile(text, m, arena, &f);
    run_steps(&f, m, seed, text);
    hsp_arena_free(arena);
}

void plan_run_all(const char *const *text, size_t n, const struct plan_model *m)
{
    for (size_t i = 0; i < n; i++) {
        plan_run(text[i], m, i);
    }
}

void plan_same_bits(const char *one, const char *other, const struct plan_model *m, uint64_t seed)
{
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_program_file f = {0}, g = {0};
    struct truth r;
    plan_compile(one, m, arena, &f);
    plan_compile(other, m, arena, &g);
    truth_init(&r, m, seed);
    truth_gradients(&r, m);
    struct hsp_machine *x = start(&f, m, &r, seed), *y = start(&g, m, &r, seed + 1);
    for (uint64_t step = 0; step < PLAN_STEPS; step++) {
        struct hsp_update_scalars s = scalars_of(m, &r, step);
        hsp_machine_run(x, false, &s);
        hsp_machine_run(y, false, &s);
        for (uint8_t k = 0; k < HSP_N_STATS; k++) {
            near(hsp_machine_stat(x, k), hsp_machine_stat(y, k), 0, "a statistic", other);
        }
        if (!hsp_machine_same_state(x, y)) {
            fail_msg("not the bits of the state of\n%s\nunder\n%s", one, other);
        }
    }
    hsp_machine_free(x);
    hsp_machine_free(y);
    truth_fini(&r, m);
    hsp_arena_free(arena);
}
