/* Orders of units: which pass of which chunk over which micro-batch comes when. */
#include <stdio.h>

#include "daemon/spmd/order.h"
#include "tests/lib/testlib.h"

static struct hsp_stream stream(uint8_t schedule, uint32_t stages, uint32_t micro)
{
    return (struct hsp_stream){
        .schedule = schedule, .n_stages = stages, .sequences = micro, .micro_batches = micro};
}

static void put_unit(struct hsp_buf *b, const struct hsp_unit *u, bool chunks)
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

static void expect_order(const struct hsp_stream *s, uint32_t stage, const char *want)
{
    struct hsp_unit *u = calloc(hsp_order_count(s), sizeof *u);
    struct hsp_buf b;
    assert_non_null(u);
    hsp_buf_init(&b, 1 << 16);
    hsp_order_units(s, stage, u);
    for (uint32_t i = 0; i < hsp_order_count(s); i++) {
        put_unit(&b, &u[i], hsp_stream_chunks(s) > 1);
    }
    assert_string_equal(hsp_buf_cstr(&b), want);
    hsp_buf_fini(&b);
    free(u);
}

/* Among them the vectors of the HSPMD paper's artifact: three stages and four micro-batches, four
 * stages and two. */
static void test_1f1b(void **state)
{
    (void)state;
    struct hsp_stream s = stream(HSP_SCHED_1F1B, 1, 4);
    expect_order(&s, 0, "F0 B0 F1 B1 F2 B2 F3 B3");
    s = stream(HSP_SCHED_1F1B, 3, 4);
    expect_order(&s, 0, "F0 F1 F2 B0 F3 B1 B2 B3");
    expect_order(&s, 1, "F0 F1 B0 F2 B1 F3 B2 B3");
    expect_order(&s, 2, "F0 B0 F1 B1 F2 B2 F3 B3");
    s = stream(HSP_SCHED_1F1B, 4, 2);
    expect_order(&s, 0, "F0 F1 B0 B1");
    expect_order(&s, 1, "F0 F1 B0 B1");
    expect_order(&s, 2, "F0 F1 B0 B1");
    expect_order(&s, 3, "F0 B0 F1 B1");
    s = stream(HSP_SCHED_1F1B, 3, 1);
    expect_order(&s, 0, "F0 B0");
}

static void test_gpipe(void **state)
{
    (void)state;
    struct hsp_stream s = stream(HSP_SCHED_GPIPE, 3, 3);
    expect_order(&s, 1, "F0 F1 F2 B0 B1 B2");
}

static void test_eval(void **state)
{
    (void)state;
    struct hsp_stream s = stream(HSP_SCHED_1F1B, 3, 4);
    struct hsp_order o = {0};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_1f1b),
        cmocka_unit_test(test_gpipe),
        cmocka_unit_test(test_eval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
