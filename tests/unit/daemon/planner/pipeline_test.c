#include "tests/lib/testlib.h"

#include <math.h>

#include "daemon/lp/lp.h"
#include "daemon/lp/solve.h"
#include "daemon/planner/pipeline.h"

#define BLOCKS 5
#define KINDS  3

/* Random work per block and speed per kind; a stage fits when its blocks, each kept for as many
 * micro-batches as are in flight, fit the kind's memory. */
struct cluster {
    double work[BLOCKS], speed[KINDS], hop, memory[KINDS], kept;
    uint32_t n_micro;
};

static double stage_us(void *ctx, uint32_t kind, uint32_t first, uint32_t end, uint32_t behind)
{
    const struct cluster *c = ctx;
    double us = c->hop;
    for (uint32_t b = first; b < end; b++) {
        us += c->work[b] / c->speed[kind];
    }
    uint32_t in_flight = behind + 1 < c->n_micro ? behind + 1 : c->n_micro;
    return (end - first) * (10 + c->kept * in_flight) <= c->memory[kind] ? us : -1;
}

static void make(uint64_t round, struct cluster *c, struct hsp_pipe *p, bool memory)
{
    *p = (struct hsp_pipe){.n_blocks = BLOCKS,
                           .n_kinds = KINDS,
                           .n_micro = (uint32_t)hsp_test_range("m", round, 1, 8),
                           .max_stages = (uint32_t)hsp_test_range("s", round, 2, 5),
                           .stage_us = stage_us,
                           .ctx = c};
    c->hop = (double)hsp_test_range("hop", round, 0, 30);
    c->kept = memory ? 3 : 0;
    c->n_micro = p->n_micro;
    for (uint64_t b = 0; b < BLOCKS; b++) {
        c->work[b] = (double)hsp_test_range("work", round * 8 + b, 20, 100);
    }
    for (uint64_t k = 0; k < KINDS; k++) {
        c->speed[k] = (double)hsp_test_range("speed", round * 8 + k, 1, 6);
        c->memory[k] = memory ? (double)hsp_test_range("mem", round * 8 + k, 10, 60) : 1e9;
        p->count[k] = (uint32_t)hsp_test_range("count", round * 8 + k, 0, 2);
    }
}

/* All ordered choices of kinds and cuts, from the last block backwards. */
static double brute(const struct hsp_pipe *p, uint32_t *left, uint32_t end, uint32_t behind,
                    double sum, double slow)
{
    if (end == 0) {
        return sum + (p->n_micro - 1) * slow;
    }
    double best = (double)INFINITY;
    for (uint32_t k = 0; k < p->n_kinds && behind < p->max_stages; k++) {
        for (uint32_t first = 0; left[k] > 0 && first < end; first++) {
            double us = p->stage_us(p->ctx, k, first, end, behind);
            if (us >= 0) {
                left[k]--;
                best = fmin(best, brute(p, left, first, behind + 1, sum + us, fmax(slow, us)));
                left[k]++;
            }
        }
    }
    return best;
}

static void check_result(const struct hsp_pipe *p, const struct hsp_pipe_result *r)
{
    uint32_t first = 0, used[KINDS] = {0};
    double sum = 0, slow = 0;
    for (uint32_t s = 0; s < r->n_stages; s++) {
        assert_true(r->blocks[s] >= 1);
        double us =
            p->stage_us(p->ctx, r->kind[s], first, first + r->blocks[s], r->n_stages - 1 - s);
        assert_true(us >= 0);
        sum += us;
        slow = fmax(slow, us);
        first += r->blocks[s];
        used[r->kind[s]]++;
    }
    assert_int_equal(first, p->n_blocks);
    for (uint32_t k = 0; k < KINDS; k++) {
        assert_true(used[k] <= p->count[k]);
    }
    assert_true(r->n_stages <= p->max_stages);
    assert_near(r->us, sum + (p->n_micro - 1) * slow, 1e-9);
}

static void matches_brute_force(void **state)
{
    (void)state;
    uint32_t feasible = 0;
    for (uint64_t round = 0; round < 400; round++) {
        struct hsp_err err = {0};
        struct cluster c;
        struct hsp_pipe p;
        struct hsp_pipe_result r;
        struct hsp_arena *arena = hsp_arena_new(64 << 20);
        make(round, &c, &p, round % 2 == 0);
        uint32_t left[KINDS];
        memcpy(left, p.count, sizeof(left));
        double want = brute(&p, left, BLOCKS, 0, 0, 0);
        enum hsp_status st = hsp_pipe_solve(&p, arena, &r, &err);
        assert_int_equal(st, isinf(want) ? HSP_EINFEASIBLE : HSP_OK);
        if (st == HSP_OK) {
            feasible++;
            assert_near(r.us, want, 1e-9);
            check_result(&p, &r);
        }
        hsp_arena_free(arena);
    }
    assert_true(feasible > 150);
}

struct milp {
    struct hsp_lp *lp;
    uint32_t slow, n, var[KINDS * BLOCKS * BLOCKS];
    struct {
        uint32_t kind, first, end;
        double us;
    } of[KINDS * BLOCKS * BLOCKS];
};

/* x[k][i][j] = 1: a device of kind k runs blocks [i, j); T: the slowest stage. */
static void milp_make(const struct hsp_pipe *p, struct milp *m)
{
    struct hsp_err err = {0};
    m->lp = hsp_lp_new(HSP_LP_MIN);
    m->n = 0;
    assert_ok(hsp_lp_add_var(m->lp, 0, 1e9, p->n_micro - 1, false, &m->slow, &err), &err);
    for (uint32_t k = 0; k < KINDS; k++) {
        for (uint32_t i = 0; i < BLOCKS; i++) {
            for (uint32_t j = i + 1; j <= BLOCKS; j++) {
                double us = p->stage_us(p->ctx, k, i, j, 0);
                uint32_t v = m->n++;
                m->of[v].kind = k;
                m->of[v].first = i;
                m->of[v].end = j;
                m->of[v].us = us;
                assert_ok(hsp_lp_add_var(m->lp, 0, 1, us, true, &m->var[v], &err), &err);
                uint32_t idx[2] = {m->slow, m->var[v]};
                double coef[2] = {1, -us};
                assert_ok(hsp_lp_add_row(m->lp, 2, idx, coef, 0, HSP_LP_INF, &err), &err);
            }
        }
    }
}

static void milp_rows(const struct hsp_pipe *p, struct milp *m)
{
    struct hsp_err err = {0};
    for (uint32_t row = 0; row < BLOCKS + KINDS + 1; row++) {
        uint32_t idx[KINDS * BLOCKS * BLOCKS], n = 0;
        double coef[KINDS * BLOCKS * BLOCKS], lo = 0, hi = p->max_stages;
        for (uint32_t v = 0; v < m->n; v++) {
            bool in = row < BLOCKS           ? m->of[v].first <= row && row < m->of[v].end
                      : row < BLOCKS + KINDS ? m->of[v].kind == row - BLOCKS
                                             : true;
            if (in) {
                idx[n] = m->var[v];
                coef[n++] = 1;
            }
        }
        if (row < BLOCKS) {
            lo = hi = 1;
        } else if (row < BLOCKS + KINDS) {
            hi = p->count[row - BLOCKS];
        }
        assert_ok(hsp_lp_add_row(m->lp, n, idx, coef, lo, hi, &err), &err);
    }
}

static void matches_the_integer_program(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 15; round++) {
        struct hsp_err err = {0};
        struct cluster c;
        struct hsp_pipe p;
        struct hsp_pipe_result r;
        struct milp m;
        struct hsp_lp_result lr;
        double x[KINDS * BLOCKS * BLOCKS + 1];
        struct hsp_arena *arena = hsp_arena_new(64 << 20);
        make(5000 + round, &c, &p, false);
        p.count[0] = 1;
        milp_make(&p, &m);
        milp_rows(&p, &m);
        assert_ok(hsp_lp_solve(m.lp, NULL, x, &lr, &err), &err);
        assert_true(lr.optimal);
        assert_ok(hsp_pipe_solve(&p, arena, &r, &err), &err);
        assert_near(r.us / lr.objective, 1, 1e-6);
        hsp_lp_free(m.lp);
        hsp_arena_free(arena);
    }
}

static void too_many_kinds_are_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct cluster c;
    struct hsp_pipe p;
    struct hsp_pipe_result r;
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    make(1, &c, &p, false);
    p.count[0] = p.count[1] = 1000;
    assert_status(hsp_pipe_solve(&p, arena, &r, &err), HSP_ELIMIT);
    p.count[0] = p.count[1] = p.count[2] = UINT32_MAX - 1;
    assert_true(hsp_pipe_states(&p) == UINT64_MAX);
    hsp_arena_free(arena);
}

HSP_TEST_FILE(pipeline_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_brute_force),
        cmocka_unit_test(matches_the_integer_program),
        cmocka_unit_test(too_many_kinds_are_refused),
    };
    return cmocka_run_group_tests_name("pipeline", tests, NULL, NULL);
}
