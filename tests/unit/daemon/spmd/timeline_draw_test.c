/* Timelines and their drawings. */
#include <cjson/cJSON.h>

#include "daemon/spmd/schedule/timeline_draw.h"
#include "tests/lib/testlib.h"

static struct hsp_arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = hsp_arena_new((size_t)64 << 20);
    return arena == NULL;
}

static int teardown(void **state)
{
    (void)state;
    arena = hsp_arena_free(arena);
    return 0;
}

/* Forward 10 us, backward 20, its halves 10 each; the last stage takes twice as long. */
static double pass_us(const void *ctx, uint32_t stage, const struct hsp_pass *u)
{
    const uint32_t *slow = ctx;
    return (u->kind == HSP_SEG_BACKWARD ? 20 : 10) * (stage == *slow ? 2 : 1);
}

static double hop_us(const void *ctx, uint32_t from, uint32_t to, const struct hsp_pass *u)
{
    (void)ctx;
    assert_int_not_equal(from, to);
    assert_true(u->kind == HSP_SEG_FORWARD || u->kind == HSP_SEG_BACKWARD ||
                u->kind == HSP_SEG_INPUT_GRAD);
    return 5;
}

static struct hsp_timeline play(const struct hsp_pipeline *s, uint32_t slow)
{
    struct hsp_pass_costs costs = {&slow, pass_us, hop_us};
    struct hsp_timeline t;
    struct hsp_err err = {0};
    assert_ok(hsp_timeline_make(s, &costs, arena, &t, &err), &err);
    return t;
}

/* Two stages, two micro-batches, by hand: a hop of 5 us each way, stage 1 twice as slow. */
static void test_times(void **state)
{
    (void)state;
    struct hsp_pipeline s = {.n_stages = 2, .micro_batches = 2};
    struct hsp_timeline t = play(&s, 1);
    static const double want[2][4][2] = {{{0, 10}, {10, 20}, {80, 100}, {140, 160}},
                                         {{15, 35}, {35, 75}, {75, 95}, {95, 135}}};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 4; k++) {
            assert_true(t.at[4 * i + k].from_us == want[i][k][0]);
            assert_true(t.at[4 * i + k].to_us == want[i][k][1]);
        }
    }
    assert_true(t.end_us == 160);
}

static void expect_text(const struct hsp_pipeline *s, const struct hsp_timeline *t, double scale,
                        const char *want)
{
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 16);
    hsp_draw_text(s, t, scale, &b);
    assert_string_equal(hsp_buf_cstr(&b), want);
    hsp_buf_fini(&b);
}

static void test_text(void **state)
{
    (void)state;
    struct hsp_pipeline s = {.n_stages = 2, .micro_batches = 2};
    struct hsp_timeline t = play(&s, 9);
    /* F0 of stage 0 until 10, there at 15, until 25; B0 until 45, back at 50, ... */
    assert_true(hsp_draw_scale(&t, 1000) == 10.0 / 4); /* "F0a" and a gap */
    assert_true(hsp_draw_scale(&t, 10) == t.end_us / 10);
    expect_text(&s, &t, 5,
                "stage 0   F0F1      B0==  B1==  idle 40%\n"
                "stage 1      F0B0==F1B1==       idle 40%\n");
    expect_text(&s, &t, 10,
                "stage 0   FF   B0 B1  idle 40%\n"
                "stage 1     FB0FB1    idle 40%\n");
    s = (struct hsp_pipeline){
        .n_stages = 1, .micro_batches = 1, .chunks = 2, .schedule = HSP_SCHED_INTERLEAVED};
    t = play(&s, 9);
    expect_text(&s, &t, 2.5, "stage 0   F0a-F0b-B0b=====B0a=====  idle 0%\n");
    s = (struct hsp_pipeline){.n_stages = 1, .micro_batches = 1, .schedule = HSP_SCHED_ZERO_BUBBLE};
    t = play(&s, 9);
    expect_text(&s, &t, 2.5, "stage 0   F0--B0==W0~~  idle 0%\n");
}

/* A trace is JSON that names every pass of every rank once, at its time. */
static void test_trace(void **state)
{
    (void)state;
    uint32_t ranks[] = {1, 0, 2};
    int64_t shares[] = {1, 1, 1};
    const char *const device[] = {"a/0", "a/1", "b \"x\"/0"};
    const double update[] = {1, 2, 0};
    struct hsp_stage stages[] = {{.layers = 1, .n = 2, .ranks = ranks, .shares = shares},
                                 {.layers = 1, .n = 1, .ranks = &ranks[2], .shares = shares}};
    struct hsp_pipeline s = {.n_stages = 2, .sequences = 5, .micro_batches = 2, .stages = stages};
    struct hsp_plan p = {.n_ranks = 3, .n_pipelines = 1, .pipelines = &s};
    struct hsp_timeline t = play(&s, 1);
    struct hsp_draw_after after = {.sync_us = 7, .vote_us = 3, .update_us = update};
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    hsp_draw_trace(&p, &t, device, &after, &b);
    cJSON *o = cJSON_Parse(hsp_buf_cstr(&b));
    assert_non_null(o);
    const cJSON *events = cJSON_GetObjectItemCaseSensitive(o, "traceEvents"), *e;
    uint32_t passes = 0, named = 0;
    double last = 0;
    cJSON_ArrayForEach(e, events)
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(e, "name"));
        bool pass = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(e, "args"),
                                                     "micro_batch") != NULL;
        double ts = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(e, "ts"));
        double dur = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(e, "dur"));
        assert_non_null(name);
        passes += pass ? 1 : 0;
        named += strcmp(name, "thread_name") == 0 ? 1 : 0;
        last = ts + dur > last ? ts + dur : last;
        assert_true(!pass || ts + dur <= t.end_us);
    }
    assert_int_equal(passes, 3 * 4);
    assert_int_equal(named, 3);
    assert_true(last == t.end_us + 7 + 3 + 2);
    cJSON_Delete(o);
    hsp_buf_fini(&b);
}

HSP_TEST_FILE(timeline_draw_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_times, setup, teardown),
        cmocka_unit_test_setup_teardown(test_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_trace, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
