/* Deadlocks made and found, memory of a pipeline. */
#include <stdio.h>

#include "daemon/graph/autodiff.h"
#include "daemon/graph/graph.h"
#include "daemon/spmd/compile.h"
#include "daemon/spmd/deadlock.h"
#include "tests/lib/testlib.h"

/* ---- a compiled pipeline ---- */

struct made {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_program_file f;
};

static void make(struct made *m, const char *schedule, uint32_t micro)
{
    static const char form[] =
        "apiVersion: hspmd/v1\nkind: plan\nranks: 3\nstreams: [{sequences: 8, micro_batches: %u, "
        "schedule: %s, stages: [{layers: 1, ranks: [0]}, {layers: 1, ranks: [1]}, {layers: 1, "
        "ranks: [2]}]}]";
    struct hsp_err err = {0};
    struct hsp_plan *p = NULL;
    struct hsp_model_spec s = {.family = "gpt",
                               .layers = 3,
                               .hidden = 4,
                               .heads = 2,
                               .vocab = 8,
                               .sequence = 4,
                               .dtype = HSP_F64};
    struct hsp_train_spec t = {.data = {.global_batch = 8, .sequence = 4, .vocab = 8}};
    char text[1024];
    m->arena = hsp_arena_new((size_t)256 << 20);
    snprintf(text, sizeof text, form, micro, schedule);
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

/* In flight: as many micro-batches as stages from here on; GPipe: all. */
static void test_slots(void **state)
{
    (void)state;
    for (int gpipe = 0; gpipe < 2; gpipe++) {
        struct made m;
        make(&m, gpipe ? "gpipe" : "1f1b", 8);
        for (uint32_t r = 0; r < 3; r++) {
            const struct hsp_program *p = &m.f.programs[r];
            uint32_t seen = 0;
            for (uint32_t i = 0; i < p->tpl.n_tensors; i++) {
                if (p->tpl.tensors[i].cls == HSP_CLASS_MICRO) {
                    assert_int_equal(p->bind.tensor[i].n_slots, gpipe ? 8 : 3 - r);
                    seen++;
                }
            }
            assert_true(seen > 5);
        }
        drop(&m);
    }
}

static void expect_hang(const struct made *m, enum hsp_status want, const char *start)
{
    struct hsp_err err = {0};
    assert_status(hsp_deadlock_check(m->f.programs, m->f.n, false, &err), want);
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

/* Two ranks that each wait for the other before they send. */
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

/* A move that one side runs less often than the other. */
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
    assert_status(hsp_deadlock_check(m.f.programs, m.f.n, false, &err), HSP_EINVAL);
    drop(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_crossing),
        cmocka_unit_test(test_uneven_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
