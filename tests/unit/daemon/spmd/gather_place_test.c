/* Tests the places of gathers and slices: the compiler's, where deduction asks, against all places
 * between the op that makes the cut and the op that asks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/lower/lower_plan.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/plan/plan_cases.h"
#include "tests/unit/daemon/spmd/place_cost.h"

enum { MAX_PLACES = 64, ALL_BELOW = 8, DRAWN = 200 };

/* One place: before this node, instead of later. */
struct place {
    uint32_t node;
    struct hsp_forced as;
};

struct finder {
    const struct hsp_compiler *c;
    const struct hsp_stagecode *s;
    struct hsp_forced as; /* of the Reshard at hand */
    uint32_t n;
    struct place place[MAX_PLACES];
};

struct tally {
    uint32_t plans, gathers, slices, places, refused, dearer;
};

/* The one step of the node; NULL: it has several. */
static const struct hsp_step *step_of(const struct finder *x, uint32_t node)
{
    const struct hsp_step *ret = NULL;
    for (uint32_t p = 0; p < x->s->n_parts; p++) {
        for (size_t i = 0; place_counts(p) && i < x->s->part[p].n; i++) {
            const struct hsp_step *st = &x->s->part[p].step[i];
            if (st->kind == HSP_I_OP && st->node == node && !st->inner && st->stands_for == NULL) {
                ret = ret == NULL ? st : ret;
            }
        }
    }
    return ret;
}

/* True when the operand carries the cut that is gathered, or could be sliced as asked. Data are
 * available in any layout: a rank that reads more than the plan's cut computes all of it itself,
 * which the plan says not to do. Uses of parameters are the plan's. */
static bool carries(const struct finder *x, const struct hsp_value *v)
{
    const struct hsp_layout *at = &v->at;
    bool yes = false;
    if (hsp_layout_partial(at) || v->tensor == HSP_NONE ||
        x->c->g->tensors[v->tensor].producer == HSP_NONE) {
        return false;
    }
    for (uint8_t d = 0; d < at->rank; d++) {
        yes = yes || ((x->as.gather & HSP_IN_GROUPS) != 0 && at->cut[d] == x->as.name) ||
              ((x->as.gather & HSP_OVER_GROUPS) != 0 && at->split[d] == x->as.name);
    }
    const struct hsp_layout *to = x->as.slice;
    return yes || (to != NULL && to->rank == at->rank &&
                   memcmp(to->extent, at->extent, sizeof at->extent) == 0 &&
                   !hsp_layout_equal(to, at) && hsp_layout_inside(to, at));
}

/* Whether there was room for one more place, and it is new. */
static bool add_place(struct finder *x, uint32_t node, struct hsp_forced as)
{
    for (uint32_t k = 0; k < x->n; k++) {
        const struct place *p = &x->place[k];
        if (p->node == node && p->as.gather == as.gather && p->as.name == as.name &&
            (p->as.slice == NULL) == (as.slice == NULL)) {
            return false;
        }
    }
    if (x->n == MAX_PLACES) {
        return false;
    }
    x->place[x->n++] = (struct place){node, as};
    return true;
}

/* Places before the ops that @tensor comes of. */
static void climb(struct finder *x, uint32_t tensor)
{
    uint32_t node = tensor == HSP_NONE ? HSP_NONE : x->c->g->tensors[tensor].producer;
    const struct hsp_step *st = node == HSP_NONE ? NULL : step_of(x, node);
    bool found = false;
    for (uint8_t i = 0; st != NULL && i < st->n_in; i++) {
        found = found || carries(x, &x->s->value[st->in[i]]);
    }
    if (!found || !add_place(x, node, x->as)) {
        return;
    }
    for (uint8_t i = 0; i < st->n_in; i++) {
        const struct hsp_value *v = &x->s->value[st->in[i]];
        if (carries(x, v)) {
            climb(x, v->tensor);
        }
    }
}

/* Where an op asks for @value otherwise than it was cut: the cuts it keeps could be gathered
 * instead. */
static void turn(struct finder *x, uint32_t value)
{
    for (uint32_t p = 0; p < x->s->n_parts; p++) {
        for (size_t i = 0; place_counts(p) && i < x->s->part[p].n; i++) {
            const struct hsp_step *st = &x->s->part[p].step[i];
            bool reads = false;
            for (uint8_t k = 0; st->kind == HSP_I_OP && !st->inner && k < st->n_in; k++) {
                reads = reads || st->in[k] == value;
            }
            for (uint8_t k = 0; reads && k < st->n_in; k++) {
                const struct hsp_layout *at = &x->s->value[st->in[k]].at;
                for (uint8_t d = 0; d < at->rank; d++) {
                    const struct hsp_forced in = {.gather = HSP_IN_GROUPS, .name = at->cut[d]},
                                            over = {.gather = HSP_OVER_GROUPS,
                                                    .name = at->split[d]};
                    (void)(at->cut[d] != 0 && add_place(x, st->node, in));
                    (void)(at->split[d] != 0 && add_place(x, st->node, over));
                }
            }
        }
    }
}

/* The work of Reshard @st within its stage: tiers gathered, or the layout that is sliced. */
static struct hsp_forced kind_of(const struct hsp_stagecode *s, const struct hsp_step *st)
{
    struct hsp_forced as = {0};
    if (st->kind != HSP_I_RESHARD || st->n_in != 1 || st->n_out != 1) {
        return as;
    }
    const struct hsp_value *f = &s->value[st->in[0]], *t = &s->value[st->out[0]];
    if (f->tensor != t->tensor || f->tensor == HSP_NONE || hsp_layout_partial(&f->at)) {
        return as;
    }
    for (uint8_t d = 0; d < f->at.rank; d++) {
        if (f->at.cut[d] != 0 && t->at.cut[d] == 0) {
            as.gather = HSP_IN_GROUPS;
            as.name = f->at.cut[d];
        }
        if (f->at.split[d] != 0 && t->at.split[d] == 0) {
            as.gather = HSP_OVER_GROUPS;
            as.name = f->at.split[d];
        }
    }
    as.slice = as.gather == 0 && hsp_layout_inside(&t->at, &f->at) ? &t->at : NULL;
    return as;
}

static void find_places(struct finder *x, struct tally *t)
{
    for (uint32_t k = 0; k < x->c->n_stages; k++) {
        x->s = &x->c->stage[k];
        for (uint32_t p = 0; p < x->s->n_parts; p++) {
            for (size_t i = 0; place_counts(p) && i < x->s->part[p].n; i++) {
                const struct hsp_step *st = &x->s->part[p].step[i];
                x->as = kind_of(x->s, st);
                t->gathers += x->as.gather != 0;
                t->slices += x->as.slice != NULL;
                if (x->as.gather != 0 || x->as.slice != NULL) {
                    climb(x, x->s->value[st->in[0]].tensor);
                    turn(x, st->out[0]);
                }
            }
        }
    }
}

static bool drawn(uint32_t n, uint32_t round, uint32_t i)
{
    if (n <= ALL_BELOW) {
        return (round >> i & 1) != 0;
    }
    return round < n ? round == i : hsp_test_rand("places", round * MAX_PLACES + i) % 4 == 0;
}

/* Bytes with the places of @use[] taken; -1: that cannot be. */
static int64_t cost_with(const struct finder *x, const struct plan_model *m, const char *text,
                         const bool *use)
{
    struct place_run r;
    struct hsp_forced *forced = calloc(m->g->n_nodes, sizeof *forced);
    assert_non_null(forced);
    for (uint32_t i = 0; i < x->n; i++) {
        struct hsp_forced *f = &forced[x->place[i].node];
        if (use[i]) { /* of several of one node the last */
            *f = x->place[i].as;
        }
    }
    int64_t ret = place_make(m, text, NULL, forced, &r) == HSP_OK ? place_cost(&r).sent : -1;
    place_free(&r);
    free(forced);
    return ret;
}

/* The choice @use is cheaper than the compiler's: says the fewest places of it that are. */
static void fail_cheaper(const struct finder *x, const struct plan_model *m, const char *text,
                         bool *use, int64_t own)
{
    for (uint32_t i = 0; i < x->n; i++) {
        bool was = use[i];
        use[i] = false;
        int64_t c = cost_with(x, m, text, use);
        use[i] = was && (c < 0 || c >= own);
        if (use[i]) {
            const struct hsp_node *n = &m->g->nodes[x->place[i].node];
            fprintf(stderr, "# before %s: %s\n", m->g->tensors[n->out[0]].name,
                    x->place[i].as.slice != NULL ? "slice" : "gather");
        }
    }
    fail_msg("%lld bytes where there is a way with %lld, under\n%s", (long long)own,
             (long long)cost_with(x, m, text, use), text);
}

/* No choice of places is cheaper than the compiler's: all of them, or each alone and many
 * together. */
static void check_places(const struct plan_model *m, const char *text, struct tally *t)
{
    struct place_run r;
    bool use[MAX_PLACES];
    assert_int_equal(place_make(m, text, NULL, NULL, &r), HSP_OK);
    int64_t own = place_cost(&r).sent;
    struct finder x = {.c = &r.c};
    find_places(&x, t);
    uint32_t rounds = x.n <= ALL_BELOW ? 1u << x.n : x.n + DRAWN;
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < x.n; i++) {
            use[i] = drawn(x.n, round, i);
        }
        int64_t c = cost_with(&x, m, text, use);
        t->refused += c < 0;
        t->dearer += c > own;
        if (c >= 0 && c < own) {
            fail_cheaper(&x, m, text, use, own);
        }
    }
    t->plans++;
    t->places += x.n;
    place_free(&r);
}

/* ---- models ---- */

#define ONE(stage) \
    HSP_PLAN_HEAD  \
    "ranks: 3\nzero: 0\npipelines:\n  - {sequences: 7, micro_batches: 3, stages: [" stage "]}\n"

static const char *const plans[] = {
    ONE("{layers: 1, ranks: [0, 1, 2]}"),
    ONE("{layers: 1, ranks: [0, 1, 2], tensor: [2, 0, 1]}"),
    ONE("{layers: 1, ranks: [0, 1], tensor: [2, 1]}, {layers: 0, ranks: [2]}"),
    ONE("{layers: 0, ranks: [2]}, {layers: 1, ranks: [0, 1]}"),
    ONE("{layers: 1, ranks: [0, 1, 2], saved: recompute}"),
};
/* Not for mlp, whose sequences cannot be cut. */
static const char *const row_plans[] = {
    ONE("{layers: 1, ranks: [0, 1, 2], sequence_parallel: true}"),
    ONE("{layers: 1, ranks: [0, 1, 2], tensor: [2, 0, 1], sequence_parallel: true}"),
    ONE("{layers: 1, ranks: [0, 1], sequence_parallel: true}, {layers: 0, ranks: [2]}"),
    ONE("{layers: 0, ranks: [0, 1], sequence_parallel: true}, {layers: 1, ranks: [2]}"),
    ONE("{layers: 1, split: sequence, groups: [{ranks: [0, 1]}, {ranks: [2]}]}"),
    ONE("{layers: 1, split: sequence, shares: [3, 1], groups: [{ranks: [0, 1], tensor: [2, 1]}, "
        "{ranks: [2]}], sequence_parallel: true}"),
    HSP_PLAN_HEAD
    "ranks: 4\npipelines:\n  - {sequences: 6, micro_batches: 2, stages: [{layers: 1, split: batch, "
    "shares: [2, 1], groups: [{ranks: [0, 1]}, {ranks: [2]}]}]}\n"
    "  - {sequences: 1, micro_batches: 1, stages: [{layers: 1, ranks: [3]}]}\n",
    HSP_PLAN_HEAD
    "ranks: 4\npipelines:\n  - {sequences: 6, micro_batches: 2, stages: [{layers: 1, split: batch, "
    "shares: [2, 1], groups: [{ranks: [0, 1]}, {ranks: [2]}], sequence_parallel: true}]}\n"
    "  - {sequences: 1, micro_batches: 1, stages: [{layers: 1, ranks: [3]}]}\n",
};

static void check_model(struct plan_model m, bool rows, struct tally *t)
{
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        check_places(&m, plans[i], t);
    }
    for (size_t i = 0; rows && i < sizeof row_plans / sizeof row_plans[0]; i++) {
        check_places(&m, row_plans[i], t);
    }
    hsp_graph_free(m.g);
}

static struct plan_model model_of(const char *family, bool tied, bool cut_vocab)
{
    struct hsp_model_spec s = {.layers = 1,
                               .hidden = 6,
                               .heads = 3,
                               .vocab = cut_vocab ? 10 : PLAN_VOCAB,
                               .vocab_chunks = cut_vocab ? 2 : 0,
                               .sequence = PLAN_SEQUENCE,
                               .tied_head = tied,
                               .dtype = HSP_F64};
    if (strcmp(family, "llama") == 0) {
        s.hidden = 12;
        s.heads = 6;
        s.kv_heads = 3;
        s.intermediate = 7;
        s.rope_theta = 100;
        s.rms_norm_eps = 1e-5;
    }
    (void)snprintf(s.family, sizeof s.family, "%s", family);
    return plan_model_of(&s, HSP_OPT_ADAMW);
}

static void test_models(void **state)
{
    (void)state;
    struct tally t = {0};
    check_model(model_of("gpt", false, false), true, &t);
    check_model(model_of("gpt", true, true), true, &t);
    check_model(model_of("llama", false, true), true, &t);
    /* gradients of a tied table that is whole are sums over rows that meet: no matter of gathers */
    check_model(model_of("llama", true, false), false, &t);
    check_model(model_of("mlp", false, false), false, &t);
    fprintf(stderr,
            "# %u plans: %u gathers, %u slices, %u other places; choices: %u impossible, %u "
            "dearer\n",
            t.plans, t.gathers, t.slices, t.places, t.refused, t.dearer);
    assert_true(t.plans == 49 && t.gathers > 100 && t.places > 400 && t.dearer > 2000);
}

/* A graph that does not fit its arena is too large, with the stage that makes it so. */
static void test_limit(void **state)
{
    (void)state;
    struct plan_model m = model_of("gpt", false, false);
    struct hsp_err err = {0};
    struct hsp_plan *p = NULL;
    struct hsp_arena *text = hsp_arena_new((size_t)1 << 20);
    assert_ok(hsp_plan_parse(plans[0], strlen(plans[0]), "plan", PLAN_BATCH, text, &p, &err), &err);
    uint32_t said = 0;
    enum hsp_status rc = HSP_ELIMIT;
    for (size_t kib = 64; rc != HSP_OK; kib += 2) {
        struct hsp_compiler c = {.g = m.g, .p = p, .t = &m.t, .arena = hsp_arena_new(kib << 10)};
        rc = hsp_layouts_make(&c, &err);
        if (rc == HSP_ELIMIT) {
            assert_non_null(strstr(err.msg, " KiB: its largest stage has 3 ranks"));
            said++;
        } else if (rc != HSP_OK) {
            assert_status(rc, HSP_ENOMEM); /* one table is larger than the rest */
        }
        hsp_layouts_fini(&c);
        (void)hsp_arena_free(c.arena);
    }
    assert_true(said > 3);
    (void)hsp_arena_free(text);
    hsp_graph_free(m.g);
}

HSP_TEST_FILE(gather_place_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
