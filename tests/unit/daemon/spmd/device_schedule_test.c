/* Tests schedules of devices: deadlocks that are found, the memory of a pipeline, and waits for
 * state. */
#include <stdio.h>

#include "daemon/graph/autodiff.h"
#include "daemon/graph/graph.h"
#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/compile.h"
#include "daemon/spmd/schedule/deadlock.h"
#include "daemon/spmd/schedule/pipeline_order.h"
#include "daemon/spmd/schedule/queue_hazards.h"
#include "tests/lib/testlib.h"

/* ---- a compiled pipeline ---- */

struct made {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_program_file f;
};

static void make_zero(struct made *m, int zero, const char *pipelines)
{
    struct hsp_err err = {0};
    struct hsp_plan *p = NULL;
    struct hsp_model_spec s = {.family = "gpt",
                               .layers = 3,
                               .hidden = 4,
                               .heads = 2,
                               .vocab = 8,
                               .sequence = 4,
                               .dtype = HSP_F64};
    struct hsp_train_spec t = {
        .data = {
            .global_batch = 8, .sequence = 4, .vocab = 8, .eval_seqs = 6, .validation_every = 2}};
    char text[1024];
    m->arena = hsp_arena_new((size_t)256 << 20);
    snprintf(text, sizeof text,
             "apiVersion: hspmd/v1\nkind: plan\nranks: 3\nzero: %d\npipelines: [%s]", zero,
             pipelines);
    assert_ok(hsp_graph_build(&s, &m->g, &err), &err);
    if (m->g->seed == HSP_NONE) {
        assert_ok(hsp_graph_autodiff(m->g, &err), &err);
    }
    assert_ok(hsp_plan_parse(text, strlen(text), "p", 8, m->arena, &p, &err), &err);
    assert_ok(hsp_compile(m->g, p, &t, m->arena, &m->f, &err), &err);
}

static void make_plan(struct made *m, const char *pipelines)
{
    make_zero(m, 0, pipelines);
}

static void make(struct made *m, const char *schedule, uint32_t micro)
{
    char text[512];
    snprintf(text, sizeof text,
             "{sequences: 8, micro_batches: %u, schedule: %s, stages: [{layers: 1, ranks: [0]}, "
             "{layers: 1, ranks: [1]}, {layers: 1, ranks: [2]}]}",
             micro, schedule);
    make_plan(m, text);
}

static void drop(struct made *m)
{
    hsp_graph_free(m->g);
    hsp_arena_free(m->arena);
}

/* ---- slots ---- */

static bool touches(const struct hsp_program *p, uint32_t piece, uint32_t tensor)
{
    const struct hsp_piece *q = &p->tpl.pieces[piece];
    for (uint32_t i = q->first; i < q->first + q->n; i++) {
        const struct hsp_instr *x = &p->tpl.instrs[i];
        for (uint8_t k = 0; k < x->n_in + x->n_out; k++) {
            if ((k < x->n_in ? x->in[k] : x->out[k - x->n_in]) == tensor) {
                return true;
            }
        }
    }
    return false;
}

static uint32_t segment_of(const struct hsp_program *p, uint32_t piece)
{
    uint32_t s = 0;
    while (piece >= p->tpl.segments[s].first_piece + p->tpl.segments[s].n_pieces) {
        s++;
    }
    return s;
}

static bool segment_touches(const struct hsp_program *p, uint32_t segment, uint32_t tensor)
{
    const struct hsp_segment *s = &p->tpl.segments[segment];
    for (uint32_t k = 0; k < s->n_pieces; k++) {
        if (touches(p, s->first_piece + k, tensor)) {
            return true;
        }
    }
    return false;
}

/* Finds where in the compute queue a micro-batch of @tensor is alive: from the first entry of the
 * first segment that touches it to the last entry of the last such segment. */
static bool life(const struct hsp_program *p, const struct hsp_sched *s, uint32_t tensor,
                 uint32_t micro, uint32_t *first, uint32_t *last)
{
    bool found = false;
    for (uint32_t i = 0; i < s->n[HSP_QUEUE_COMPUTE]; i++) {
        const struct hsp_sched_entry *e = &s->e[HSP_QUEUE_COMPUTE][i];
        if (e->micro == micro && segment_touches(p, segment_of(p, e->piece), tensor)) {
            *first = found ? *first : i;
            *last = i;
            found = true;
        }
    }
    return found;
}

static bool slots_do(const struct hsp_program *p, const struct hsp_sched *s, uint32_t tensor,
                     uint32_t n_micro, uint32_t slots)
{
    for (uint32_t i = 0; i < n_micro; i++) {
        for (uint32_t j = i + slots; j < n_micro; j += slots) {
            uint32_t a, b, c, d;
            if (life(p, s, tensor, i, &a, &b) && life(p, s, tensor, j, &c, &d) && a <= d &&
                c <= b) {
                return false;
            }
        }
    }
    return true;
}

/* Checks that the slots of each tensor of a program are the fewest that its schedule allows.
 * Returns the largest number of slots. */
static uint32_t check_slots(const struct hsp_program *p)
{
    uint32_t most = 0, seen = 0;
    for (uint32_t i = 0; i < p->tpl.n_tensors; i++) {
        uint32_t n = p->bind.tensor[i].n_slots;
        if (p->tpl.tensors[i].cls != HSP_CLASS_MICRO) {
            assert_int_equal(n, 1);
            continue;
        }
        bool eval = strstr(p->tpl.tensors[i].name, "eval") != NULL;
        const struct hsp_sched *s = eval ? &p->bind.eval : &p->bind.train;
        uint32_t m = eval ? p->bind.pipeline.eval_n_micro : p->bind.pipeline.n_micro;
        assert_true(slots_do(p, s, i, m, n));
        assert_false(n > 1 && slots_do(p, s, i, m, n - 1));
        most = n > most ? n : most;
        seen++;
    }
    assert_true(seen > 5);
    return most;
}

/* Checks the number of micro-batches in flight at a stage. With 1F1B it is the number of stages
 * from this one on; with GPipe all; with zero-bubble the number of all stages; with interleaved it
 * follows from its order. */
static void test_slots(void **state)
{
    (void)state;
    static const char *const schedules[] = {"1f1b", "gpipe", "zero_bubble"};
    for (uint32_t k = 0; k < 3; k++) {
        struct made m;
        make(&m, schedules[k], 8);
        for (uint32_t r = 0; r < 3; r++) {
            assert_int_equal(check_slots(&m.f.programs[r]), k == 0 ? 3 - r : k == 1 ? 8 : 3);
        }
        drop(&m);
    }
    for (uint32_t micro = 1; micro <= 8; micro += 3) {
        struct made m;
        char text[512];
        snprintf(text, sizeof text,
                 "{sequences: 7, micro_batches: %u, schedule: interleaved, chunks: 2, stages: "
                 "[{layers: [0, 1], ranks: [0]}, {layers: [1, 1], ranks: [1]}]}, {sequences: 1, "
                 "stages: [{layers: 3, ranks: [2]}]}",
                 micro);
        make_plan(&m, text);
        struct hsp_pipeline pipeline = {
            .schedule = HSP_SCHED_INTERLEAVED, .chunks = 2, .n_stages = 2, .micro_batches = micro};
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(check_slots(&m.f.programs[r]), hsp_order_alive(&pipeline, r, 0));
        }
        drop(&m);
    }
}

/* ---- halves of backward ---- */

static uint32_t count(const struct hsp_program *p, uint8_t segment, uint8_t kind, uint8_t op)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < p->tpl.n_segments; s++) {
        const struct hsp_segment *seg = &p->tpl.segments[s];
        for (uint32_t k = 0; seg->kind == segment && k < seg->n_pieces; k++) {
            const struct hsp_piece *q = &p->tpl.pieces[seg->first_piece + k];
            for (uint32_t i = q->first; i < q->first + q->n; i++) {
                const struct hsp_instr *x = &p->tpl.instrs[i];
                n += x->kind == kind && (kind != HSP_I_OP || x->op == op) ? 1 : 0;
            }
        }
    }
    return n;
}

/* Zero-bubble schedules split the backward of a micro-batch into two segments. The first has the
 * gradients of inputs, for which the previous stage waits; the second has the gradients of weights.
 * No stage waits for the first stage, which so computes its gradients of inputs in the second
 * segment, too. */
static void test_halves(void **state)
{
    (void)state;
    struct made m;
    make(&m, "zero_bubble", 8);
    for (uint32_t r = 0; r < 3; r++) {
        const struct hsp_program *p = &m.f.programs[r];
        uint8_t first = HSP_SEG_INPUT_GRAD, second = HSP_SEG_WEIGHT_GRAD;
        assert_int_equal(count(p, HSP_SEG_BACKWARD, HSP_I_OP, HSP_OP_LINEAR_DX), 0);
        assert_int_equal(count(p, first, HSP_I_OP, HSP_OP_LINEAR_DW), 0);
        assert_true(count(p, second, HSP_I_OP, HSP_OP_LINEAR_DW) >= 6);
        assert_int_equal(count(p, second, HSP_I_RESHARD, 0), 0);
        assert_int_equal(count(p, first, HSP_I_RESHARD, 0), r == 1 ? 2 : 1);
        assert_int_equal(count(p, second, HSP_I_OP, HSP_OP_LINEAR_DX) == 0, r > 0);
        assert_int_equal(count(p, first, HSP_I_OP, HSP_OP_LINEAR_DX) == 0, r == 0);
    }
    drop(&m);
}

/* ---- waits ---- */

static bool is_update(const struct hsp_instr *x)
{
    return x->kind == HSP_I_OP && (x->op == HSP_OP_ADAMW || x->op == HSP_OP_SGDM);
}

static bool updates(const struct hsp_program *p, uint32_t piece)
{
    const struct hsp_piece *q = &p->tpl.pieces[piece];
    bool found = false;
    for (uint32_t i = q->first; i < q->first + q->n; i++) {
        found = found || is_update(&p->tpl.instrs[i]);
    }
    return found;
}

static bool reads_state(const struct hsp_program *p, uint32_t piece)
{
    const struct hsp_piece *q = &p->tpl.pieces[piece];
    bool found = false;
    for (uint32_t i = q->first; i < q->first + q->n; i++) {
        const struct hsp_instr *x = &p->tpl.instrs[i];
        for (uint8_t k = 0; k < x->n_in; k++) {
            found = found || p->tpl.tensors[x->in[k]].cls == HSP_CLASS_STATE;
        }
    }
    return found;
}

/* Entries of segments of one kind on one queue, in order. *ret_last: the last that reads state;
 * returns the wait of the last one that updates. */
static uint32_t enter(struct hsp_waits *w, const struct hsp_program *p, uint8_t kind, uint8_t queue,
                      uint32_t *ret_last)
{
    uint32_t n = 0, wait = 0;
    for (uint32_t s = 0; s < p->tpl.n_segments; s++) {
        const struct hsp_segment *x = &p->tpl.segments[s];
        for (uint32_t k = x->first_piece; x->kind == kind && k < x->first_piece + x->n_pieces;
             k++) {
            if (p->tpl.pieces[k].queue == queue) {
                uint32_t waits = hsp_waits_next(w, k, 0, ++n);
                wait = updates(p, k) ? waits : wait;
                *ret_last = reads_state(p, k) ? n : *ret_last;
            }
        }
    }
    return wait;
}

/* An update overwrites the state that the all-gathers of the step have read, so it waits for the
 * last of these all-gathers. Here the waits for vote and gradients have not been entered. */
static void test_state_waits(void **state)
{
    (void)state;
    struct made m;
    make_zero(&m, 1,
              "{sequences: 3, stages: [{layers: 3, ranks: [0]}]}, "
              "{sequences: 3, stages: [{layers: 3, ranks: [1]}]}, "
              "{sequences: 2, stages: [{layers: 3, ranks: [2]}]}");
    for (uint32_t r = 0; r < 3; r++) {
        const struct hsp_program *p = &m.f.programs[r];
        struct hsp_waits *w = NULL;
        struct hsp_err err = {0};
        uint32_t gathered = 0, read = 0;
        assert_ok(hsp_waits_new(p, &w, &err), &err);
        (void)enter(w, p, HSP_SEG_PRE, HSP_QUEUE_COMM, &gathered);
        assert_true(gathered > 0);
        assert_int_equal(enter(w, p, HSP_SEG_POST, HSP_QUEUE_COMPUTE, &read), gathered);
        w = hsp_waits_free(w);
    }
    drop(&m);
}

/* ---- deadlocks ---- */

static void expect_hang(const struct made *m, enum hsp_status want, const char *start)
{
    struct hsp_err err = {0};
    assert_status(hsp_deadlock_check(m->f.programs, m->f.n, HSP_OF_TRAIN, &err), want);
    if (want != HSP_OK && strncmp(err.msg, start, strlen(start)) != 0) {
        fail_msg("message \"%s\"", err.msg);
    }
}

static void test_deadlock(void **state)
{
    (void)state;
    struct made m;
    make(&m, "1f1b", 4);
    expect_hang(&m, HSP_OK, "");
    /* a wait that never comes */
    struct hsp_sched *s = &m.f.programs[1].bind.train;
    uint32_t keep = s->e[HSP_QUEUE_COMPUTE][0].wait;
    s->e[HSP_QUEUE_COMPUTE][0].wait = s->n[HSP_QUEUE_COMM];
    expect_hang(&m, HSP_EINVAL, "schedule never ends: rank ");
    s->e[HSP_QUEUE_COMPUTE][0].wait = keep;
    /* the last stage waits for a message the middle one sends too late */
    uint32_t n = s->n[HSP_QUEUE_COMM];
    struct hsp_sched_entry first = s->e[HSP_QUEUE_COMM][0];
    memmove(s->e[HSP_QUEUE_COMM], s->e[HSP_QUEUE_COMM] + 1, (n - 1) * sizeof first);
    s->e[HSP_QUEUE_COMM][n - 1] = first;
    expect_hang(&m, HSP_EINVAL, "schedule never ends: rank ");
    drop(&m);
}

/* Finds a deadlock of two ranks that each wait for a message of the other before they send. */
static void test_crossing(void **state)
{
    (void)state;
    struct made m;
    make(&m, "1f1b", 4);
    for (uint32_t r = 0; r < 3; r++) { /* only messages hold anybody back */
        struct hsp_sched *s = &m.f.programs[r].bind.train;
        for (int q = 0; q < HSP_N_QUEUES; q++) {
            for (uint32_t i = 0; i < s->n[q]; i++) {
                s->e[q][i].wait = 0;
            }
        }
    }
    expect_hang(&m, HSP_OK, "");
    const struct hsp_template *t = &m.f.programs[0].tpl;
    struct hsp_sched *s = &m.f.programs[0].bind.train;
    struct hsp_sched_entry *e = s->e[HSP_QUEUE_COMM];
    uint32_t back = 0; /* the first entry of Backward: a receive */
    while (e[back].piece < t->segments[2].first_piece) {
        back++;
    }
    assert_int_equal(t->segments[2].kind, HSP_SEG_BACKWARD);
    struct hsp_sched_entry first = e[back];
    memmove(e + 1, e, back * sizeof *e);
    e[0] = first;
    expect_hang(&m, HSP_EINVAL, "schedule never ends: rank 0 waits in ");
    drop(&m);
}

/* Finds a move that one side runs less often than the other. */
static void test_uneven_use(void **state)
{
    (void)state;
    struct made m;
    make(&m, "1f1b", 4);
    struct hsp_sched *s = &m.f.programs[2].bind.train;
    for (uint32_t i = 0; i < s->n[HSP_QUEUE_COMPUTE]; i++) {
        s->e[HSP_QUEUE_COMPUTE][i].wait = 0;
    }
    uint32_t last = s->n[HSP_QUEUE_COMM] - 1; /* the vote; before it the last gradient leaves */
    s->e[HSP_QUEUE_COMM][last].wait = 0;
    s->e[HSP_QUEUE_COMM][last - 1] = s->e[HSP_QUEUE_COMM][last];
    s->n[HSP_QUEUE_COMM] = last;
    struct hsp_err err = {0};
    assert_status(hsp_deadlock_check(m.f.programs, m.f.n, HSP_OF_TRAIN, &err), HSP_EINVAL);
    drop(&m);
}

HSP_TEST_FILE(device_schedule_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),       cmocka_unit_test(test_halves),
        cmocka_unit_test(test_state_waits), cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_crossing),    cmocka_unit_test(test_uneven_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
