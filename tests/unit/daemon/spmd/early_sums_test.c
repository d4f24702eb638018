/* Sums of gradients that begin while the last backward goes on. */
#include "daemon/spmd/schedule/early_sums.h"

#include <stdio.h>

#include "daemon/graph/autodiff.h"
#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/compile.h"
#include "daemon/spmd/schedule/deadlock.h"
#include "proto/base/size.h"
#include "tests/lib/testlib.h"

struct made {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_program_file f;
};

#define TWO(zero, bucket)                                                                         \
    "ranks: 2\nzero: " zero "\nbucket: " bucket "\npipelines: [{sequences: 5, micro_batches: 2, " \
    "stages: [{layers: 3, ranks: [0]}]}, {sequences: 3, micro_batches: 1, stages: [{layers: 3, "  \
    "ranks: [1]}]}]"

static const char *const PLANS[] = {
    TWO("0", "1"),
    TWO("1", "1"),
    TWO("1", "20000"),
    TWO("0", "60000000"),
    "ranks: 4\nzero: 1\nbucket: 3000\npipelines: [{sequences: 4, micro_batches: 2, stages: "
    "[{layers: "
    "1, ranks: [0]}, {layers: 2, ranks: [1]}]}, {sequences: 4, micro_batches: 2, stages: [{layers: "
    "3, ranks: [2, 3], tensor: [2, 1]}]}]",
    "ranks: 3\nzero: 1\nbucket: 3000\npipelines: [{sequences: 4, micro_batches: 4, schedule: "
    "zero_bubble, stages: [{layers: 1, ranks: [0]}, {layers: 2, ranks: [1]}]}, {sequences: 4, "
    "micro_batches: 2, stages: [{layers: 3, ranks: [2]}]}]"};

static void make(struct made *m, const char *plan, bool tied)
{
    struct hsp_err err = {0};
    struct hsp_plan *p = NULL;
    struct hsp_model_spec s = {.family = "gpt",
                               .layers = 3,
                               .hidden = 32,
                               .heads = 2,
                               .vocab = 32,
                               .sequence = 4,
                               .tied_head = tied,
                               .dtype = HSP_F32};
    struct hsp_train_spec t = {.data = {.global_batch = 8, .sequence = 4, .vocab = 32}};
    char text[1024];
    m->arena = hsp_arena_new((size_t)256 << 20);
    snprintf(text, sizeof text, "apiVersion: hspmd/v1\nkind: plan\n%s", plan);
    assert_ok(hsp_graph_build(&s, &m->g, &err), &err);
    if (m->g->seed == HSP_NONE) {
        assert_ok(hsp_graph_autodiff(m->g, &err), &err);
    }
    assert_ok(hsp_plan_parse(text, strlen(text), "p", 8, m->arena, &p, &err), &err);
    assert_ok(hsp_compile(m->g, p, &t, m->arena, &m->f, &err), &err);
}

static void drop(struct made *m)
{
    hsp_graph_free(m->g);
    hsp_arena_free(m->arena);
}

/* The number, from 1, of the last entry of the compute queue that writes @tensor. */
static uint32_t final_at(const struct hsp_program *p, uint32_t tensor)
{
    const struct hsp_sched *s = &p->bind.early;
    uint32_t last = 0;
    for (uint32_t k = 0; k < s->n[HSP_QUEUE_COMPUTE]; k++) {
        uint32_t first, end = hsp_entry_end(&p->tpl, &s->e[HSP_QUEUE_COMPUTE][k], &first);
        for (uint32_t i = first; i < end; i++) {
            const struct hsp_instr *x = &p->tpl.instrs[i];
            for (uint8_t o = 0; o < x->n_out; o++) {
                last = x->out[o] == tensor ? k + 1 : last;
            }
        }
    }
    return last;
}

/* Each instruction of each piece runs as often in one schedule as in the other. */
static void same_work(const struct hsp_program *p)
{
    int64_t *n = calloc(p->tpl.n_instrs + 1, sizeof *n);
    const struct hsp_sched *both[2] = {&p->bind.train, &p->bind.early};
    for (int which = 0; which < 2; which++) {
        for (int q = 0; q < HSP_N_QUEUES; q++) {
            for (uint32_t k = 0; k < both[which]->n[q]; k++) {
                uint32_t first, end = hsp_entry_end(&p->tpl, &both[which]->e[q][k], &first);
                for (uint32_t i = first; i < end; i++) {
                    n[i] += which == 0 ? 1 : -1;
                }
            }
        }
    }
    for (uint32_t i = 0; i < p->tpl.n_instrs; i++) {
        assert_int_equal(n[i], 0);
    }
    free(n);
}

/* Sums wait for their addends, and stand behind all other communication, the last ones first.
 * Returns how many entries of the compute queue that end in backward come behind the first sum. */
static uint32_t check_sums(const struct hsp_program *p)
{
    const struct hsp_sched *s = &p->bind.early, *train = &p->bind.train;
    uint32_t n, piece = hsp_sum_piece(&p->tpl, &n), before = 0, wait = UINT32_MAX;
    uint32_t last = p->tpl.pieces[piece].first + n, updates = s->n[HSP_QUEUE_COMPUTE];
    assert_int_not_equal(piece, UINT32_MAX);
    for (uint32_t k = 0; k < s->n[HSP_QUEUE_COMM]; k++) {
        const struct hsp_sched_entry *e = &s->e[HSP_QUEUE_COMM][k];
        uint32_t first, end = hsp_entry_end(&p->tpl, e, &first);
        if (e->piece != piece) {
            before += last == p->tpl.pieces[piece].first + n;
            continue;
        }
        if (p->tpl.instrs[first].kind != HSP_I_RESHARD) {
            continue; /* the vote */
        }
        wait = wait == UINT32_MAX ? e->wait : wait;
        end = end < p->tpl.pieces[piece].first + n ? end : p->tpl.pieces[piece].first + n;
        assert_int_equal(end, last);
        last = first;
        for (uint32_t i = first; i < end; i++) {
            assert_true(final_at(p, p->tpl.instrs[i].in[0]) <= e->wait);
        }
    }
    assert_int_equal(last, p->tpl.pieces[piece].first); /* all are there */
    for (uint32_t k = 0; k < before; k++) {
        assert_int_equal(s->e[HSP_QUEUE_COMM][k].piece, train->e[HSP_QUEUE_COMM][k].piece);
    }
    while (s->e[HSP_QUEUE_COMPUTE][updates - 1].wait > before) {
        updates--;
    }
    return updates - wait;
}

static void test_sums_begin_early(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        for (size_t k = 0; k < HSP_ARRAY_LEN(PLANS); k++) {
            struct made m;
            make(&m, PLANS[k], tied != 0);
            uint32_t most = 0;
            for (uint32_t r = 0; r < m.f.n; r++) {
                const struct hsp_program *p = &m.f.programs[r];
                assert_ptr_equal(hsp_binding_train(&p->bind), &p->bind.early);
                same_work(p);
                uint32_t beside = check_sums(p);
                most = beside > most ? beside : most;
            }
            assert_true(k == 3 || most >= 3); /* one bucket is final at the end only */
            assert_true(k != 3 || most == 0);
            drop(&m);
        }
    }
}

/* The embedding of a tied head gets its last addend at the end of backward. */
static void test_a_tied_embedding_is_last(void **state)
{
    (void)state;
    struct made m;
    make(&m, PLANS[1], true);
    const struct hsp_program *p = &m.f.programs[0];
    uint32_t n, piece = hsp_sum_piece(&p->tpl, &n), i = p->tpl.pieces[piece].first;
    const struct hsp_sched *s = &p->bind.early;
    assert_non_null(strstr(p->tpl.tensors[p->tpl.instrs[i].in[0]].name, "wte"));
    for (uint32_t k = 0; k < s->n[HSP_QUEUE_COMM]; k++) {
        uint32_t first, end = hsp_entry_end(&p->tpl, &s->e[HSP_QUEUE_COMM][k], &first);
        if (first == i && end > i) {
            assert_int_equal(s->e[HSP_QUEUE_COMM][k].wait, final_at(p, p->tpl.instrs[i].in[0]));
        }
    }
    drop(&m);
}

/* Sums in one order on one rank and in another on the next wait for each other: that is found. */
static void test_other_orders_are_found(void **state)
{
    (void)state;
    struct made m;
    struct hsp_err err = {0};
    make(&m, PLANS[1], false);
    assert_ok(hsp_deadlock_check(m.f.programs, 2, HSP_OF_EARLY, &err), &err);
    m.f.programs[1].bind.early = (struct hsp_sched){0}; /* the first sums first */
    assert_status(hsp_deadlock_check(m.f.programs, 2, HSP_OF_EARLY, &err), HSP_EINVAL);
    assert_ok(hsp_deadlock_check(m.f.programs, 2, HSP_OF_TRAIN, &err), &err);
    drop(&m);
}

static void test_none(void **state)
{
    static const char *const plans[] = {TWO("3", "1"), TWO("1", "0")};
    (void)state;
    for (size_t k = 0; k < HSP_ARRAY_LEN(plans); k++) {
        struct made m;
        make(&m, plans[k], false);
        assert_int_equal(m.f.programs[1].bind.early.n[HSP_QUEUE_COMPUTE], 0);
        drop(&m);
    }
}

HSP_TEST_FILE(early_sums_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_begin_early),
        cmocka_unit_test(test_a_tied_embedding_is_last),
        cmocka_unit_test(test_other_orders_are_found),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
