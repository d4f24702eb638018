/* Tests ring attention, the attention of groups that each hold a block of the sequence: which
 * blocks a group attends to, how many blocks it holds at once, the values of attention without a
 * mask, for which every block visits every group, and block lengths that give the groups equal
 * work. stage_groups_test checks the values of masked attention. */
#include <stdio.h>

#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/sharding/sequence_balance.h"
#include "daemon/spmd/total/total_plan.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/plan/plan_cases.h"
#include "tests/unit/daemon/spmd/plan_run.h"

enum { GROUPS = 4, LAYERS = 2 };

/* Four groups with two ranks in the second; @saved: keep or recompute. */
static const char form[] = HSP_PLAN_HEAD
    "ranks: 5\npipelines: [{sequences: 7, micro_batches: 2, stages: [{layers: 2, split: "
    "sequence, shares: [%s], groups: [{ranks: [0]}, {ranks: [1, 4], tensor: [2, 1]}, "
    "{ranks: [2]}, {ranks: [3]}], saved: %s}]}]";
static const uint32_t group_of[] = {0, 1, 2, 3, 1};

static struct plan_model model(bool causal, int64_t sequence)
{
    struct hsp_model_spec s = {.family = "gpt",
                               .layers = LAYERS,
                               .hidden = 6,
                               .heads = 3,
                               .vocab = PLAN_VOCAB,
                               .sequence = sequence,
                               .dtype = HSP_F64};
    struct plan_model m = plan_model_of(&s, HSP_OPT_ADAMW);
    m.t.data.sequence = (uint32_t)sequence;
    for (uint32_t i = 0; !causal && i < m.g->n_nodes; i++) {
        uint8_t op = m.g->nodes[i].op;
        if (op == HSP_OP_ATTENTION || op == HSP_OP_ATTENTION_BWD) {
            m.g->nodes[i].at.i[1] = 0;
        }
    }
    return m;
}

static void compile(const char *shares, const char *saved, const struct plan_model *m,
                    struct hsp_arena *arena, struct hsp_program_file *f)
{
    char text[1024];
    (void)snprintf(text, sizeof text, form, shares, saved);
    plan_compile(text, m, arena, f);
}

/* Returns the instructions of the segment of @kind. */
static const struct hsp_instr *segment(const struct hsp_program *p, uint8_t kind, uint32_t *ret_n)
{
    for (uint32_t i = 0; i < p->tpl.n_segments; i++) {
        const struct hsp_segment *s = &p->tpl.segments[i];
        if (s->kind == kind) {
            const struct hsp_piece *first = &p->tpl.pieces[s->first_piece];
            const struct hsp_piece *last = first + s->n_pieces - 1;
            *ret_n = last->first + last->n - first->first;
            return &p->tpl.instrs[first->first];
        }
    }
    fail_msg("no segment of kind %d", kind);
    return NULL;
}

static uint32_t count_ops(const struct hsp_program *p, uint8_t kind, enum hsp_op op)
{
    uint32_t n = 0, found = 0;
    const struct hsp_instr *i = segment(p, kind, &n);
    for (uint32_t k = 0; k < n; k++) {
        found += i[k].kind == HSP_I_OP && i[k].op == op ? 1 : 0;
    }
    return found;
}

/* Group g attends to g + 1 blocks if later blocks are masked, else to all blocks, also if some
 * groups have a share of 0. */
static void blocks_nobody_sees_are_left_out(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool causal = i < 2;
        struct plan_model m = model(causal, 16);
        struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
        struct hsp_program_file f;
        compile(i % 2 == 0 ? "4, 1, 2, 1" : "1, 0, 2, 0", "keep", &m, arena, &f);
        for (uint32_t r = 0; r < f.n; r++) {
            const struct hsp_program *p = &f.programs[r];
            uint32_t blocks = causal ? group_of[r] + 1 : GROUPS;
            assert_int_equal(count_ops(p, HSP_SEG_FORWARD, HSP_OP_ATTENTION), LAYERS * blocks);
            assert_int_equal(count_ops(p, HSP_SEG_FORWARD, HSP_OP_ATTENTION_MERGE),
                             LAYERS * (blocks - 1));
            assert_int_equal(count_ops(p, HSP_SEG_BACKWARD, HSP_OP_ATTENTION_BWD), LAYERS * blocks);
            assert_int_equal(count_ops(p, HSP_SEG_EVAL, HSP_OP_ATTENTION), LAYERS * blocks);
        }
        hsp_arena_free(arena);
        hsp_graph_free(m.g);
    }
}

/* Returns the largest number of tensors with @what in their names that are in use at once in a
 * segment of @p. */
static uint32_t most_at_once(const struct hsp_program *p, uint8_t kind, const char *what)
{
    uint32_t n = 0, most = 0;
    const struct hsp_instr *code = segment(p, kind, &n);
    uint32_t *first = calloc(p->tpl.n_tensors, sizeof *first);
    uint32_t *last = calloc(p->tpl.n_tensors, sizeof *last);
    assert_non_null(first);
    assert_non_null(last);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < (uint32_t)code[i].n_in + code[i].n_out; k++) {
            uint32_t t = k < code[i].n_in ? code[i].in[k] : code[i].out[k - code[i].n_in];
            first[t] = first[t] == 0 ? i + 1 : first[t];
            last[t] = i + 1;
        }
    }
    for (uint32_t i = 1; i <= n; i++) {
        uint32_t live = 0;
        for (uint32_t t = 0; t < p->tpl.n_tensors; t++) {
            live += first[t] > 0 && first[t] <= i && i <= last[t] &&
                            strstr(p->tpl.tensors[t].name, what) != NULL
                        ? 1
                        : 0;
        }
        most = live > most ? live : most;
    }
    free(first);
    free(last);
    return most;
}

/* Besides the keys and values of its own block, a rank holds those of the block that it computes
 * with and of the block that it is receiving. No block is kept for the backward, and no rank holds
 * all blocks. */
static void two_blocks_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct plan_model m = model(i / 2 == 0, 16);
        struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
        struct hsp_program_file f;
        compile("1, 1, 1, 1", i % 2 == 0 ? "keep" : "recompute", &m, arena, &f);
        for (uint32_t r = 0; r < f.n; r++) {
            const struct hsp_program *p = &f.programs[r];
            uint32_t fetched = i / 2 == 0 ? group_of[r] : GROUPS - 1;
            uint32_t want = 2 * (fetched < 2 ? fetched : 2);
            assert_int_equal(most_at_once(p, HSP_SEG_FORWARD, "#ring"), want);
            assert_int_equal(most_at_once(p, HSP_SEG_BACKWARD, "#ring"), want);
            for (uint32_t t = 0; t < p->tpl.n_tensors; t++) {
                const struct hsp_ptensor *x = &p->tpl.tensors[t];
                const struct hsp_box *b = &p->bind.tensor[t].box;
                if (strstr(x->name, ".attn.") != NULL && x->rank == 3) {
                    assert_int_equal(b->hi[1] - b->lo[1], 4);
                }
                if (strstr(x->name, "#ring") != NULL || strstr(x->name, ".block") != NULL) {
                    assert_int_equal(x->cls, HSP_CLASS_SCRATCH);
                }
            }
        }
        hsp_arena_free(arena);
        hsp_graph_free(m.g);
    }
}

static void unmasked_as_unsharded(void **state)
{
    (void)state;
    struct plan_model m = model(false, PLAN_SEQUENCE);
    static const char *const shares[] = {"1, 1, 1, 1", "3, 0, 0, 1", "0, 2, 1, 1", "0, 0, 1, 0"};
    for (int i = 0; i < 8; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, form, shares[i / 2], i % 2 == 0 ? "keep" : "recompute");
        plan_run(text, &m, (uint64_t)i);
    }
    plan_run_all(hsp_group_cases, hsp_n_group_cases, &m);
    hsp_graph_free(m.g);
}

/* Returns the operations of forward and backward on the positions @lo .. @hi - 1 of one sequence,
 * summed over the nodes of the graph. */
static double work_on(const struct hsp_graph *g, int64_t lo, int64_t hi)
{
    double sum = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct hsp_node *n = &g->nodes[i];
        int64_t in[HSP_MAX_IN][HSP_MAX_RANK] = {{0}}, axis[HSP_MAX_AXES], s = g->spec.sequence;
        enum hsp_op op = (enum hsp_op)n->op;
        struct hsp_axes ax;
        for (uint8_t k = 0; k < n->n_in; k++) {
            hsp_tensor_extents(g, n->in[k], 1, in[k]);
        }
        assert_ok(hsp_op_axes(op, &n->at, g->tensors[n->in[op == HSP_OP_BROADCAST ? 1 : 0]].rank,
                              &ax, NULL),
                  NULL);
        assert_ok(hsp_op_extents(op, &n->at, &ax, in, axis, NULL), NULL);
        bool attention = op == HSP_OP_ATTENTION || op == HSP_OP_ATTENTION_BWD;
        for (uint8_t a = 0; attention && a < ax.n_axes; a++) {
            axis[a] = ax.axis[a].name == 's' ? hi - lo : ax.axis[a].name == 't' ? hi : axis[a];
        }
        double part = (double)(hi - lo) / (double)s;
        sum += attention ? hsp_op_flops_at(op, &n->at, axis, &ax, (int64_t[]){lo, 0})
                         : hsp_op_flops(op, &n->at, axis, &ax) * part;
    }
    return sum;
}

static const char balanced[] = HSP_PLAN_HEAD
    "ranks: 5\npipelines: [{sequences: 7, micro_batches: 2, stages: [{layers: 2, split: "
    "sequence, shares: [2, 1, 0, 1, 1], balance: %s, groups: [{ranks: [0]}, {ranks: "
    "[1]}, {ranks: [2]}, {ranks: [3]}, {ranks: [4]}]}]}]";

/* With `balance: work` each group has its share of the work, to within one position; with equal
 * lengths it would not. */
static void balanced_groups_have_equal_work(void **state)
{
    (void)state;
    struct plan_model m = model(true, 600);
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_err err = {0};
    char text[1024];
    (void)snprintf(text, sizeof text, balanced, "work");
    const struct hsp_plan *p = plan_of_text(text, arena), *q = NULL;
    assert_true(p->pipelines[0].stages[0].by_work);
    assert_ok(hsp_plan_lengths(p, m.g, arena, &q, &err), &err);
    const struct hsp_stage *t = &q->pipelines[0].stages[0];
    double all = work_on(m.g, 0, 600), last = work_on(m.g, 599, 600), least = all, most = 0;
    int64_t at = 0;
    assert_false(t->by_work);
    for (uint32_t i = 0; i < 5; i++) {
        double want = all * (double)p->pipelines[0].stages[0].group_shares[i] / 5;
        double got = work_on(m.g, at, at + t->group_shares[i]);
        assert_near(got, want, last);
        at += t->group_shares[i];
        double even = work_on(m.g, 120 * i, 120 * (i + 1));
        least = even < least ? even : least;
        most = even > most ? even : most;
    }
    assert_int_equal(at, 600);
    assert_true(t->group_shares[1] > t->group_shares[3] && t->group_shares[3] > t->group_shares[4]);
    assert_true(most > 2 * least); /* the cost of even lengths */
    (void)snprintf(text, sizeof text, balanced, "length");
    p = plan_of_text(text, arena);
    assert_ok(hsp_plan_lengths(p, m.g, arena, &q, &err), &err);
    assert_ptr_equal(q, p);
    hsp_arena_free(arena);
    hsp_graph_free(m.g);
}

/* The total plan states lengths in place of shares, and compiles to the same programs. */
static void balanced_plans_run_as_unsharded(void **state)
{
    (void)state;
    struct plan_model m = model(true, PLAN_SEQUENCE);
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_err err = {0};
    struct hsp_plan total;
    struct hsp_digest one, two;
    struct hsp_buf b;
    char text[1024];
    (void)snprintf(text, sizeof text, balanced, "work");
    plan_run(text, &m, 1);
    struct hsp_plan *p = plan_of_text(text, arena);
    assert_ok(hsp_plan_complete(m.g, p, &m.t, arena, &total, &err), &err);
    assert_false(total.pipelines[0].stages[0].by_work);
    hsp_buf_init(&b, 1 << 20);
    hsp_plan_dump(p, &b);
    assert_non_null(strstr(hsp_buf_cstr(&b), "shares: [2, 1, 0, 1, 1], balance: work, groups"));
    assert_ok(hsp_plan_digest(m.g, plan_of_text(hsp_buf_cstr(&b), arena), &m.t, &one, &err), &err);
    hsp_buf_reset(&b);
    hsp_plan_dump(&total, &b);
    assert_null(strstr(hsp_buf_cstr(&b), "balance"));
    assert_ok(hsp_plan_digest(m.g, plan_of_text(hsp_buf_cstr(&b), arena), &m.t, &two, &err), &err);
    assert_true(hsp_digest_equal(one, two));
    hsp_buf_fini(&b);
    hsp_arena_free(arena);
    hsp_graph_free(m.g);
}

HSP_TEST_FILE(ring_attention_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_nobody_sees_are_left_out),
        cmocka_unit_test(two_blocks_at_once),
        cmocka_unit_test(unmasked_as_unsharded),
        cmocka_unit_test(balanced_groups_have_equal_work),
        cmocka_unit_test(balanced_plans_run_as_unsharded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
