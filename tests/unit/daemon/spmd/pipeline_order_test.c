/* Tests orders of passes: the times of each pass of each chunk over each micro-batch. */
#include <stdio.h>

#include "daemon/spmd/schedule/timeline.h"
#include "tests/lib/testlib.h"

static struct hsp_pipeline pipeline(uint8_t schedule, uint32_t stages, uint32_t micro)
{
    return (struct hsp_pipeline){
        .schedule = schedule, .n_stages = stages, .sequences = micro, .micro_batches = micro};
}

static void put_unit(struct hsp_buf *b, const struct hsp_pass *u, bool chunks)
{
    static const char letter[] = {[HSP_SEG_FORWARD] = 'F',
                                  [HSP_SEG_BACKWARD] = 'B',
                                  [HSP_SEG_INPUT_GRAD] = 'B',
                                  [HSP_SEG_WEIGHT_GRAD] = 'W',
                                  [HSP_SEG_EVAL] = 'E'};
    hsp_buf_printf(b, "%s%c%u", b->len > 0 ? " " : "", letter[u->kind], u->micro);
    if (chunks) {
        hsp_buf_printf(b, "%c", 'a' + (char)u->chunk);
    }
}

static void expect_order(const struct hsp_pipeline *s, uint32_t stage, const char *want)
{
    struct hsp_pass *u = calloc(hsp_order_count(s), sizeof *u);
    struct hsp_buf b;
    assert_non_null(u);
    hsp_buf_init(&b, 1 << 16);
    hsp_order_passes(s, stage, u);
    for (uint32_t i = 0; i < hsp_order_count(s); i++) {
        put_unit(&b, &u[i], hsp_pipeline_chunks(s) > 1);
    }
    assert_string_equal(hsp_buf_cstr(&b), want);
    hsp_buf_fini(&b);
    free(u);
}

/* Among them the vectors of the HSPMD paper and its artifact: three stages and four micro-batches,
 * four stages and two, the first and the last of two. */
static void test_1f1b(void **state)
{
    (void)state;
    struct hsp_pipeline s = pipeline(HSP_SCHED_1F1B, 1, 4);
    expect_order(&s, 0, "F0 B0 F1 B1 F2 B2 F3 B3");
    s = pipeline(HSP_SCHED_1F1B, 3, 4);
    expect_order(&s, 0, "F0 F1 F2 B0 F3 B1 B2 B3");
    expect_order(&s, 1, "F0 F1 B0 F2 B1 F3 B2 B3");
    expect_order(&s, 2, "F0 B0 F1 B1 F2 B2 F3 B3");
    s = pipeline(HSP_SCHED_1F1B, 4, 2);
    expect_order(&s, 0, "F0 F1 B0 B1");
    expect_order(&s, 1, "F0 F1 B0 B1");
    expect_order(&s, 2, "F0 F1 B0 B1");
    expect_order(&s, 3, "F0 B0 F1 B1");
    s = pipeline(HSP_SCHED_1F1B, 2, 4);
    expect_order(&s, 0, "F0 F1 B0 F2 B1 F3 B2 B3");
    expect_order(&s, 1, "F0 B0 F1 B1 F2 B2 F3 B3");
    s = pipeline(HSP_SCHED_1F1B, 3, 1);
    expect_order(&s, 0, "F0 B0");
}

static void test_gpipe(void **state)
{
    (void)state;
    struct hsp_pipeline s = pipeline(HSP_SCHED_GPIPE, 3, 3);
    expect_order(&s, 1, "F0 F1 F2 B0 B1 B2");
}

static void test_eval(void **state)
{
    (void)state;
    struct hsp_pipeline s = pipeline(HSP_SCHED_1F1B, 3, 4);
    struct hsp_pipeline_order o = {0};
    struct hsp_err err = {0};
    assert_ok(hsp_order_make(&s, 1, 5, &o, &err), &err);
    assert_int_equal(o.n_train, 8);
    assert_int_equal(o.n_eval, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(o.eval[i].kind, HSP_SEG_EVAL);
        assert_int_equal(o.eval[i].micro, i);
    }
    hsp_order_fini(&o);
}

/* The ZB-H1 schedule: gradients of inputs as in 1F1B, those of weights later by the stage's number.
 */
static void test_zero_bubble(void **state)
{
    (void)state;
    struct hsp_pipeline s = pipeline(HSP_SCHED_ZERO_BUBBLE, 3, 4);
    expect_order(&s, 0, "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
    expect_order(&s, 1, "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
    expect_order(&s, 2, "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
    s = pipeline(HSP_SCHED_ZERO_BUBBLE, 4, 2);
    expect_order(&s, 0, "F0 F1 B0 W0 B1 W1");
    expect_order(&s, 3, "F0 B0 F1 B1 W0 W1");
}

/* Two stages of two chunks, a and b, as in the Megatron-LM paper; then micro-batches that are no
 * multiple of the stages. */
static void test_interleaved(void **state)
{
    (void)state;
    struct hsp_pipeline s = pipeline(HSP_SCHED_INTERLEAVED, 2, 4);
    s.chunks = 2;
    expect_order(&s, 0, "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a");
    expect_order(&s, 1, "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a");
    s = pipeline(HSP_SCHED_INTERLEAVED, 2, 3);
    s.chunks = 2;
    expect_order(&s, 0, "F0a F1a F2a F0b F1b F2b B0b B1b B2b B0a B1a B2a");
    expect_order(&s, 1, "F0a F1a F2a F0b B0b F1b B1b F2b B2b B0a B1a B2a");
    s = pipeline(HSP_SCHED_INTERLEAVED, 2, 1);
    s.chunks = 2;
    expect_order(&s, 1, "F0a F0b B0b B0a");
}

/* ---- idle time against the formulas of the papers ---- */

static double pass_us(const void *ctx, uint32_t stage, const struct hsp_pass *u)
{
    const double *us = ctx; /* by kind */
    (void)stage;
    return us[u->kind];
}

static double no_hop(const void *ctx, uint32_t from, uint32_t to, const struct hsp_pass *u)
{
    (void)ctx;
    (void)from;
    (void)to;
    (void)u;
    return 0;
}

static const double unit_times[] = {[HSP_SEG_FORWARD] = 1,
                                    [HSP_SEG_BACKWARD] = 2,
                                    [HSP_SEG_INPUT_GRAD] = 1,
                                    [HSP_SEG_WEIGHT_GRAD] = 1};

/* Idle time of each stage from the first pass of all to the last. */
static double idle(const struct hsp_pipeline *s)
{
    static const struct hsp_pass_costs costs = {unit_times, pass_us, no_hop};
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_timeline t;
    struct hsp_err err = {0};
    assert_ok(hsp_timeline_make(s, &costs, arena, &t, &err), &err);
    double busy = 3.0 * s->micro_batches * hsp_pipeline_chunks(s), end = t.end_us;
    hsp_arena_free(arena);
    return end - busy;
}

/* 1F1B and GPipe: (S - 1) (forward + backward). */
static void test_idle_1f1b(void **state)
{
    (void)state;
    for (uint32_t stages = 1; stages <= 8; stages++) {
        for (uint32_t m = 1; m <= 20; m++) {
            struct hsp_pipeline a = pipeline(HSP_SCHED_1F1B, stages, m),
                                b = pipeline(HSP_SCHED_GPIPE, stages, m);
            assert_true(idle(&a) == 3 * (stages - 1));
            assert_true(idle(&b) == 3 * (stages - 1));
        }
    }
}

/* ZB-H1: (S - 1) (forward + input gradient - weight gradient), from S micro-batches on. */
static void test_idle_zero_bubble(void **state)
{
    (void)state;
    for (uint32_t stages = 1; stages <= 8; stages++) {
        for (uint32_t m = 1; m <= 20; m++) {
            struct hsp_pipeline s = pipeline(HSP_SCHED_ZERO_BUBBLE, stages, m);
            uint32_t missing = m < stages ? stages - m : 0;
            assert_true(idle(&s) == stages - 1 + missing);
        }
    }
}

/* Interleaved: (S - 1) (forward + backward) of one chunk, for any number of micro-batches from
 * S on; and an end in any case. */
static void test_idle_interleaved(void **state)
{
    (void)state;
    for (uint32_t stages = 1; stages <= 8; stages++) {
        for (uint32_t chunks = 2; chunks <= 6; chunks++) {
            for (uint32_t m = 1; m <= 27; m++) {
                struct hsp_pipeline s = pipeline(HSP_SCHED_INTERLEAVED, stages, m);
                s.chunks = chunks;
                uint32_t missing = m < stages ? stages - m : 0;
                assert_true(idle(&s) == 3 * (stages - 1) + 3 * (chunks - 1) * missing);
            }
        }
    }
}

/* Every pass once, each after its inputs from its own stage. */
static void test_complete(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 500; i++) {
        uint8_t schedule = (uint8_t)hsp_test_range("order", 4 * i, 0, HSP_N_SCHEDULES - 1);
        struct hsp_pipeline s =
            pipeline(schedule, (uint32_t)hsp_test_range("order", 4 * i + 1, 1, 6),
                     (uint32_t)hsp_test_range("order", 4 * i + 2, 1, 20));
        if (schedule == HSP_SCHED_INTERLEAVED) {
            s.chunks = (uint32_t)hsp_test_range("order", 4 * i + 3, 1, 4);
        }
        uint32_t n = hsp_order_count(&s);
        struct hsp_pass *u = calloc(n, sizeof *u);
        uint8_t *seen = calloc((size_t)4 * s.micro_batches, 1);
        assert_non_null(u);
        assert_non_null(seen);
        hsp_order_passes(&s, s.n_stages / 2, u);
        for (uint32_t k = 0; k < n; k++) {
            uint8_t *x = &seen[u[k].chunk * s.micro_batches + u[k].micro];
            assert_true(u[k].chunk < hsp_pipeline_chunks(&s) && u[k].micro < s.micro_batches);
            assert_int_equal(*x, u[k].kind == HSP_SEG_FORWARD       ? 0
                                 : u[k].kind == HSP_SEG_WEIGHT_GRAD ? 2
                                                                    : 1);
            ++*x;
        }
        free(u);
        free(seen);
    }
}

HSP_TEST_FILE(pipeline_order_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_1f1b),
        cmocka_unit_test(test_gpipe),
        cmocka_unit_test(test_eval),
        cmocka_unit_test(test_zero_bubble),
        cmocka_unit_test(test_interleaved),
        cmocka_unit_test(test_idle_1f1b),
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_idle_zero_bubble),
        cmocka_unit_test(test_idle_interleaved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
