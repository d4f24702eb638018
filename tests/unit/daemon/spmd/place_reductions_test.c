/* Tests where sums are completed: the cut against all cuts, the choice for models against all
 * places. */
#include "daemon/spmd/lower/place_reductions.h"

#include <stdio.h>

#include "daemon/spmd/lower/reduction_mincut.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/plan/plan_cases.h"
#include "tests/unit/daemon/spmd/place_cost.h"

/* ---- the cut ---- */

enum { MAX_OPS = 9, MAX_SUMS = 10, MAX_USES = 24 };

struct problem {
    struct hsp_sum_place sum[MAX_SUMS];
    struct hsp_sum_use use[MAX_USES];
    struct hsp_sums x;
};

static uint64_t draw;

static uint32_t pick(uint32_t lo, uint32_t hi)
{
    return (uint32_t)hsp_test_range("sums", draw++, lo, hi);
}

/* Sums are read by later ops than their makers. */
static void random_problem(struct problem *p)
{
    p->x = (struct hsp_sums){
        .n_ops = pick(1, MAX_OPS), .n = pick(1, MAX_SUMS), .sum = p->sum, .use = p->use};
    for (uint32_t i = 0; i < p->x.n; i++) {
        p->sum[i] =
            (struct hsp_sum_place){.maker = pick(0, 2) == 0 ? HSP_NONE : pick(0, p->x.n_ops - 1),
                                   .needed = pick(0, 2) == 0,
                                   .complete = pick(0, 6)};
        uint32_t first = p->sum[i].maker == HSP_NONE ? 0 : p->sum[i].maker + 1;
        for (uint32_t op = first; op < p->x.n_ops && p->x.n_uses < MAX_USES; op++) {
            if (pick(0, 2) == 0) {
                p->use[p->x.n_uses++] = (struct hsp_sum_use){i, op};
            }
        }
    }
}

/* The cost of the choice; INT64_MAX: it is none, since an op takes a sum on that its maker
 * completed. */
static int64_t cost_of(const struct problem *p, const bool *first)
{
    bool completed[MAX_SUMS];
    int64_t cost = 0;
    for (uint32_t i = 0; i < p->x.n; i++) {
        completed[i] = p->sum[i].needed;
    }
    for (uint32_t i = 0; i < p->x.n_uses; i++) {
        const struct hsp_sum_use *u = &p->use[i];
        uint32_t maker = p->sum[u->sum].maker;
        completed[u->sum] = completed[u->sum] || first[u->op];
        if (!first[u->op] && maker != HSP_NONE && first[maker]) {
            return INT64_MAX;
        }
    }
    for (uint32_t i = 0; i < p->x.n; i++) {
        const struct hsp_sum_place *s = &p->sum[i];
        bool is_sum = s->maker == HSP_NONE || !first[s->maker];
        cost += is_sum && completed[i] ? s->complete : 0;
    }
    return cost;
}

static void take_mask(uint32_t mask, uint32_t n, bool *first)
{
    for (uint32_t i = 0; i < n; i++) {
        first[i] = (mask >> i & 1) != 0;
    }
}

static void test_cut(void **state)
{
    (void)state;
    uint32_t early = 0, late = 0;
    for (uint32_t k = 0; k < 3000; k++) {
        struct problem p;
        struct hsp_err err = {0};
        bool chosen[MAX_OPS], other[MAX_OPS];
        draw = (uint64_t)k << 20;
        random_problem(&p);
        assert_ok(hsp_sums_cut(&p.x, chosen, &err), &err);
        int64_t cost = cost_of(&p, chosen);
        assert_true(cost < INT64_MAX);
        for (uint32_t mask = 0; mask < 1u << p.x.n_ops; mask++) {
            take_mask(mask, p.x.n_ops, other);
            int64_t c = cost_of(&p, other);
            assert_true(c >= cost);
            for (uint32_t i = 0; c == cost && i < p.x.n_ops; i++) {
                assert_true(!chosen[i] || other[i]); /* of equal ones the latest */
            }
        }
        for (uint32_t i = 0; i < p.x.n_ops; i++) {
            early += chosen[i];
            late += !chosen[i];
        }
    }
    assert_true(early > 500 && late > 500);
}

/* ---- models ---- */

struct tally {
    uint32_t plans, places, dearer; /* dearer: completed wherever they could be */
};

/* No choice of places is cheaper than the compiler's: all of them, or many. */
static void check_places(const struct plan_model *m, const char *text, struct tally *t)
{
    uint32_t n = m->g->n_nodes, act[64], n_act = 0;
    bool *first = calloc(n, sizeof *first);
    assert_non_null(first);
    struct place_cost chosen = place_lower(m, text, NULL), late = place_lower(m, text, first);
    for (uint32_t i = 0; i < n && n_act < 64; i++) { /* where there is a choice */
        first[i] = true;
        struct place_cost one = place_lower(m, text, first);
        first[i] = false;
        if (one.sent != late.sent || one.reshards != late.reshards || one.hash != late.hash) {
            act[n_act++] = i;
        }
    }
    bool all = n_act <= 9;
    uint32_t masks = all ? 1u << n_act : 500;
    for (uint32_t k = 0; k < masks; k++) {
        for (uint32_t i = 0; i < n_act; i++) {
            first[act[i]] = all ? (k >> i & 1) != 0 : hsp_test_rand("mask", k * 64 + i) % 3 == 0;
        }
        struct place_cost other = place_lower(m, text, first);
        if (other.sent < chosen.sent) {
            fail_msg("%lld bytes where there is a way with %lld, under\n%s", (long long)chosen.sent,
                     (long long)other.sent, text);
        }
    }
    t->plans++;
    t->places += n_act;
    for (uint32_t i = 0; i < n; i++) {
        first[i] = true;
    }
    t->dearer += place_lower(m, text, first).sent > chosen.sent;
    free(first);
}

static const char *const plans[] = {
    "ranks: 2\nzero: 0\npipelines:\n  - {sequences: 7, micro_batches: 3, stages: [{layers: 1, "
    "ranks: "
    "[0, 1]}]}\n",
    "ranks: 3\nzero: 1\npipelines:\n  - {sequences: 7, micro_batches: 2, stages: [{layers: 1, "
    "ranks: "
    "[0, 1, 2], tensor: [1, 1, 1]}]}\n",
    "ranks: 3\nzero: 1\npipelines:\n  - {sequences: 4, micro_batches: 2, stages: [{layers: 1, "
    "ranks: "
    "[0, 1]}]}\n"
    "  - {sequences: 3, micro_batches: 1, stages: [{layers: 1, ranks: [2]}]}\n",
    "ranks: 2\nzero: 0\npipelines:\n  - {sequences: 7, micro_batches: 3, stages: [{layers: 1, "
    "ranks: "
    "[0, 1], sequence_parallel: true}]}\n",
};
/* Not for mlp, whose sequences cannot be cut. */
static const char *const group_plans[] = {
    "ranks: 4\nzero: 1\npipelines:\n  - {sequences: 7, micro_batches: 2, stages: [{layers: 1, "
    "split: "
    "sequence, "
    "groups: [{ranks: [0, 1]}, {ranks: [2, 3]}]}]}\n",
};

static void check_model(struct plan_model m, bool groups, struct tally *t)
{
    char text[1024];
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        (void)snprintf(text, sizeof text, "%s%s", HSP_PLAN_HEAD, plans[i]);
        if (groups || strstr(text, "sequence_parallel") == NULL) {
            check_places(&m, text, t);
        }
    }
    for (size_t i = 0; groups && i < sizeof group_plans / sizeof group_plans[0]; i++) {
        (void)snprintf(text, sizeof text, "%s%s", HSP_PLAN_HEAD, group_plans[i]);
        check_places(&m, text, t);
    }
    hsp_graph_free(m.g);
}

static void test_models(void **state)
{
    (void)state;
    struct tally t = {0};
    check_model(plan_model("gpt", false, 1, HSP_OPT_ADAMW), true, &t);
    check_model(plan_model("gpt", true, 1, HSP_OPT_ADAMW), true, &t);
    check_model(plan_model("mlp", false, 1, HSP_OPT_ADAMW), false, &t);
    fprintf(stderr, "# %u plans, %u places with a choice, %u dearer when all are early\n", t.plans,
            t.places, t.dearer);
    assert_true(t.plans == 13 && t.places > 40 && t.dearer > 4);
}

HSP_TEST_FILE(place_reductions_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
