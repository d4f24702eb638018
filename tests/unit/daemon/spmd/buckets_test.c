/* Tests which collectives travel as one, found alike by all ranks. */
#include "daemon/spmd/schedule/buckets.h"

#include <stdio.h>

#include "daemon/graph/autodiff.h"
#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/compile.h"
#include "daemon/spmd/schedule/deadlock.h"
#include "daemon/spmd/schedule/memory_plan.h"
#include "proto/program/program_check.h"
#include "tests/lib/testlib.h"

struct made {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_program_file f;
};

static const char EVEN[] =
    "ranks: 2\nzero: 1\npipelines: [{sequences: 4, micro_batches: 2, stages: [{layers: 3, ranks: "
    "[0]}]}, {sequences: 4, micro_batches: 2, stages: [{layers: 3, ranks: [1]}]}]";
/* Pipelines of other depths: neighbours on one rank are not neighbours on another one. */
static const char UNLIKE[] =
    "ranks: 4\nzero: 1\npipelines: [{sequences: 4, micro_batches: 2, stages: [{layers: 1, ranks: "
    "[0]}, {layers: 2, ranks: [1]}]}, {sequences: 4, micro_batches: 2, stages: [{layers: 3, ranks: "
    "[2, 3], tensor: [2, 1]}]}]";

static void make(struct made *m, const char *plan)
{
    struct hsp_err err = {0};
    struct hsp_plan *p = NULL;
    struct hsp_model_spec s = {.family = "gpt",
                               .layers = 3,
                               .hidden = 32,
                               .heads = 2,
                               .vocab = 32,
                               .sequence = 4,
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

static void join_unchecked(struct made *m, uint64_t least)
{
    struct hsp_err err = {0};
    for (uint32_t r = 0; r < m->f.n; r++) {
        struct hsp_binding *b = &m->f.programs[r].bind;
        b->buckets = false;
        for (uint32_t k = 0; k < b->n_reshards; k++) {
            b->reshard[k].bucket = 0;
        }
    }
    assert_ok(hsp_buckets_make(m->f.programs, m->f.n, least, &err), &err);
}

static void join(struct made *m, uint64_t least)
{
    struct hsp_err err = {0};
    join_unchecked(m, least);
    for (uint32_t r = 0; r < m->f.n; r++) {
        assert_ok(hsp_program_check(&m->f.programs[r], &err), &err);
    }
    assert_ok(hsp_deadlock_check(m->f.programs, m->f.n, HSP_OF_TRAIN, &err), &err);
}

static struct hsp_reshard_bind *reshard_at(const struct hsp_program *p, uint32_t k)
{
    return p->tpl.instrs[k].kind == HSP_I_RESHARD ? &p->bind.reshard[p->tpl.instrs[k].arg] : NULL;
}

/* The first channel of the bucket of the collective on @channel, on rank @r, and the bytes before
 * it in the bucket. UINT32_MAX: it is in none. */
static uint32_t head_of(const struct made *m, uint32_t r, uint32_t channel, uint64_t *ret_before)
{
    const struct hsp_program *p = &m->f.programs[r];
    uint32_t bucket = 0, head = UINT32_MAX;
    *ret_before = 0;
    for (uint32_t k = 0; k < p->tpl.n_instrs; k++) {
        const struct hsp_reshard_bind *b = reshard_at(p, k);
        if (b == NULL || b->n_moves == 0) {
            continue;
        }
        if (b->bucket == 0 || b->bucket != bucket) {
            head = b->moves[0].channel;
            *ret_before = 0;
        }
        bucket = b->bucket;
        for (uint32_t i = 0; i < b->n_moves; i++) {
            if (b->moves[i].channel == channel && b->moves[i].kind != HSP_MOVE_COPY) {
                return bucket > 0 ? head : UINT32_MAX;
            }
        }
        *ret_before += (uint64_t)hsp_memory_of_move(p, k, &b->moves[0]);
    }
    fail_msg("rank %u has no channel %u", r, channel);
    return 0;
}

/* How many collectives are in buckets, which all ranks of a group must see alike; *ret_n: how many
 * operations all collectives are then. */
static uint32_t count(const struct made *m, uint64_t least, uint32_t *ret_n)
{
    uint32_t joined = 0;
    *ret_n = 0;
    for (uint32_t r = 0; r < m->f.n; r++) {
        const struct hsp_program *p = &m->f.programs[r];
        for (uint32_t k = 0; k < p->tpl.n_instrs; k++) {
            const struct hsp_reshard_bind *b = reshard_at(p, k);
            if (b == NULL || b->n_moves != 1 || !hsp_move_joins(&b->moves[0]) ||
                b->moves[0].ranks[0] != p->bind.rank) {
                continue;
            }
            const struct hsp_move *x = &b->moves[0];
            uint64_t before, there;
            uint32_t head = head_of(m, r, x->channel, &before);
            for (uint32_t i = 1; i < x->n_ranks; i++) {
                assert_int_equal(head_of(m, x->ranks[i], x->channel, &there), head);
                assert_int_equal(there, before);
            }
            assert_true(head == UINT32_MAX || before < least);
            joined += head != UINT32_MAX;
            *ret_n += head == UINT32_MAX || head == x->channel;
        }
    }
    return joined;
}

static void test_buckets_fill(void **state)
{
    struct made m;
    uint32_t n, all;
    (void)state;
    make(&m, EVEN);
    assert_false(m.f.programs[0].bind.buckets); /* the plan says nothing of them */
    assert_int_equal(count(&m, 0, &all), 0);
    int64_t alone = m.f.programs[1].bind.comm_bytes;
    join(&m, UINT64_MAX);
    assert_int_equal(count(&m, UINT64_MAX, &n), all);
    assert_int_equal(n, 2); /* gathers of Pre, sums of Post */
    assert_true(m.f.programs[1].bind.buckets);
    assert_true(m.f.programs[1].bind.comm_bytes > alone);
    assert_int_equal(m.f.programs[1].bind.comm_bytes, hsp_memory_comm(&m.f.programs[1]));
    join(&m, 20000);
    uint32_t joined = count(&m, 20000, &n);
    assert_true(joined > all / 2 && n > 2 && n < all / 2);
    join(&m, 1); /* each is full */
    assert_int_equal(count(&m, 1, &n), 0);
    assert_int_equal(n, all);
    assert_false(m.f.programs[0].bind.buckets);
    drop(&m);
}

static void test_ranks_agree(void **state)
{
    (void)state;
    struct made m;
    uint32_t n, all;
    make(&m, UNLIKE);
    (void)count(&m, 0, &all);
    for (uint32_t k = 0; k < 12; k++) {
        join(&m, 1u << (k + 6));
        uint32_t joined = count(&m, 1u << (k + 6), &n);
        assert_true(k < 6 || (joined > 10 && n < all));
    }
    drop(&m);
}

/* Of the collectives of Post of rank @r, which are all of one bucket: the instruction of the
 * @nth. */
static uint32_t sum_at(const struct made *m, uint32_t r, uint32_t nth)
{
    const struct hsp_program *p = &m->f.programs[r];
    for (uint32_t k = 0; k < p->tpl.n_instrs; k++) {
        const struct hsp_reshard_bind *b = reshard_at(p, k);
        if (b != NULL && b->n_moves == 1 && b->moves[0].kind == HSP_MOVE_REDUCE_SCATTER &&
            nth-- == 0) {
            return k;
        }
    }
    fail_msg("so few collectives");
    return 0;
}

/* A reason that one rank alone sees counts for all. */
static void test_one_rank_parts_a_bucket(void **state)
{
    (void)state;
    for (int why = 0; why < 3; why++) {
        struct made m;
        uint64_t before;
        make(&m, EVEN);
        struct hsp_program *p = &m.f.programs[1];
        struct hsp_template *t = &p->tpl; /* a copy of the ranks' common one */
        t->instrs = hsp_arena_memdup(m.arena, t->instrs, t->n_instrs * sizeof *t->instrs);
        t->tensors = hsp_arena_memdup(m.arena, t->tensors, t->n_tensors * sizeof *t->tensors);
        uint32_t k = sum_at(&m, 1, 3), channel = reshard_at(p, k)->moves[0].channel;
        join(&m, UINT64_MAX);
        uint32_t head = head_of(&m, 0, channel, &before);
        assert_int_not_equal(head, channel);
        assert_int_not_equal(head, UINT32_MAX);
        if (why == 0) { /* it reads the output of the one before it */
            t->instrs[k].in[0] = t->instrs[k - 1].out[0];
        } else if (why == 1) { /* open parts of its moves are zero */
            reshard_at(p, k)->zero_first = true;
        } else { /* another kind of number */
            t->tensors[t->instrs[k].out[0]].dtype = HSP_F64;
        }
        join_unchecked(&m, UINT64_MAX);
        for (uint32_t r = 0; r < 2; r++) {
            uint32_t now = head_of(&m, r, channel, &before);
            assert_int_equal(now, why == 0 ? channel : UINT32_MAX);
            assert_int_equal(head_of(&m, r, channel - 1, &before), head);
        }
        drop(&m);
    }
}

HSP_TEST_FILE(buckets_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_fill),
        cmocka_unit_test(test_ranks_agree),
        cmocka_unit_test(test_one_rank_parts_a_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
