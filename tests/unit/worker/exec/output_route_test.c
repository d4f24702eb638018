/* Tests where ops write their outputs (worker/exec/output_route.h). */
#include <stdlib.h>

#include "tests/lib/testlib.h"
#include "worker/exec/output_route.h"

enum { DY, G, G2, SUM, S8, STEP, N_TENSORS };
enum { PRE, BACK, BACK2, POST, N_PIECES };

#define ADDS (UINT64_C(1) << HSP_OP_BIAS_DB | UINT64_C(1) << HSP_OP_LAYERNORM_DW)

static struct hsp_instr zero(uint32_t t)
{
    return (struct hsp_instr){.kind = HSP_I_ZERO, .n_out = 1, .out = {t}};
}

static struct hsp_instr op(enum hsp_op o, uint32_t in, uint32_t out)
{
    return (struct hsp_instr){
        .kind = HSP_I_OP, .op = (uint8_t)o, .n_in = 1, .n_out = 1, .in = {in}, .out = {out}};
}

static struct hsp_instr acc(uint32_t from, uint32_t to)
{
    return (struct hsp_instr){.kind = HSP_I_ACC, .n_in = 1, .n_out = 1, .in = {from}, .out = {to}};
}

static struct hsp_instr stat(uint32_t from)
{
    return (struct hsp_instr){.kind = HSP_I_STAT, .n_in = 1, .in = {from}};
}

static struct hsp_ptensor tensors[N_TENSORS];
static uint8_t queue_of_back;

/* Returns the routes of a program of four pieces, each of them a segment. Piece p has n[p]
 * instructions. */
static struct hsp_route *routes(const struct hsp_instr *i, const uint32_t n[N_PIECES])
{
    static const uint8_t kind[N_PIECES] = {HSP_SEG_PRE, HSP_SEG_BACKWARD, HSP_SEG_BACKWARD,
                                           HSP_SEG_POST};
    static struct hsp_instr copy[32];
    struct hsp_piece piece[N_PIECES];
    struct hsp_segment segment[N_PIECES];
    struct hsp_template t = {.n_tensors = N_TENSORS,
                             .n_pieces = N_PIECES,
                             .n_segments = N_PIECES,
                             .tensors = tensors,
                             .instrs = copy,
                             .pieces = piece,
                             .segments = segment};
    for (uint32_t p = 0; p < N_PIECES; p++) {
        piece[p] = (struct hsp_piece){.first = t.n_instrs, .n = n[p]};
        piece[p].queue = p == BACK ? queue_of_back : HSP_QUEUE_COMPUTE;
        segment[p] = (struct hsp_segment){.kind = kind[p], .first_piece = p, .n_pieces = 1};
        t.n_instrs += n[p];
    }
    memcpy(copy, i, t.n_instrs * sizeof *i);
    struct hsp_route *r = hsp_routes_new(&t, ADDS);
    assert_non_null(r);
    return r;
}

static void reset(void)
{
    queue_of_back = HSP_QUEUE_COMPUTE;
    for (int k = 0; k < N_TENSORS; k++) {
        tensors[k] = (struct hsp_ptensor){
            .dtype = HSP_F32, .rank = 1, .cls = k == SUM ? HSP_CLASS_STEP : HSP_CLASS_SCRATCH};
    }
    tensors[S8].dtype = HSP_F64;
    tensors[S8].rank = 0;
    tensors[STEP].cls = HSP_CLASS_STEP;
}

static void a_gradient_begins_its_sum(void **state)
{
    (void)state;
    reset();
    const struct hsp_instr i[] = {zero(SUM),    op(HSP_OP_BIAS_DB, DY, G), acc(G, SUM),
                                  acc(G2, SUM), op(HSP_OP_SQSUM, SUM, S8), stat(S8)};
    struct hsp_route *r = routes(i, (const uint32_t[]){1, 3, 0, 2});
    assert_int_equal(r[0].begun_by, BACK);
    assert_int_equal(r[1].sums, 1);
    assert_int_equal(r[1].begins, 1);
    assert_int_equal(r[1].out[0], SUM);
    assert_true(r[2].done && r[2].begins == 0);
    assert_true(!r[3].done && r[3].begins == 0); /* the second addition adds to the sum */
    assert_int_equal(r[4].stats, 1);
    assert_int_equal(r[4].out[0], 0);
    assert_true(r[5].done);
    free(r);
}

static void an_accumulation_begins_it_as_well(void **state)
{
    (void)state;
    reset();
    const struct hsp_instr i[] = {zero(SUM), op(HSP_OP_GELU, DY, G), acc(G, SUM)};
    struct hsp_route *r = routes(i, (const uint32_t[]){1, 2, 0, 0});
    assert_int_equal(r[0].begun_by, BACK);
    assert_int_equal(r[1].sums, 0); /* this op cannot add to an output */
    assert_true(r[2].begins == 1 && !r[2].done);
    free(r);
}

/* Asserts that the sum is zeroed, and that all additions add to it. */
static void expect_zero(const struct hsp_instr *i, const uint32_t *n, bool added_at_once)
{
    struct hsp_route *r = routes(i, n);
    assert_int_equal(r[0].begun_by, HSP_NO_PIECE);
    assert_int_equal(r[1].begins, 0);
    assert_int_equal(r[1].sums, added_at_once);
    assert_int_equal(r[2].done, added_at_once);
    free(r);
}

static void sums_that_others_need_are_zero(void **state)
{
    (void)state;
    reset();
    struct hsp_instr i[] = {zero(SUM), op(HSP_OP_BIAS_DB, DY, G), acc(G, SUM), acc(G2, SUM)};
    expect_zero(i, (const uint32_t[]){1, 2, 1, 0}, true); /* two pieces add to the sum */
    i[3] = op(HSP_OP_GELU, SUM, G2);
    /* an op of another piece reads the sum before the end of the step */
    expect_zero(i, (const uint32_t[]){1, 2, 1, 0}, true);
    i[3] = zero(SUM);
    expect_zero(i, (const uint32_t[]){1, 2, 0, 1}, true); /* the sum is zeroed twice */
    i[3] = op(HSP_OP_GELU, DY, SUM);
    expect_zero(i, (const uint32_t[]){1, 2, 0, 1}, true); /* an op writes the sum */
    tensors[SUM].cls = HSP_CLASS_MICRO;
    expect_zero(i, (const uint32_t[]){1, 2, 0, 0}, true);
    reset();
    queue_of_back = HSP_QUEUE_COMM;
    expect_zero(i, (const uint32_t[]){1, 2, 0, 0}, true);
}

static void what_is_not_the_same_goes_apart(void **state)
{
    (void)state;
    reset();
    struct hsp_instr i[] = {op(HSP_OP_BIAS_DB, DY, G), acc(G, SUM), op(HSP_OP_GELU, G, G2)};
    const uint32_t two[] = {0, 2, 0, 0}, three[] = {0, 3, 0, 0}, apart[] = {0, 1, 1, 0};
    for (int k = 0; k < 6; k++) {
        reset();
        tensors[G].dtype = k == 0 ? HSP_BF16 : HSP_F32;
        tensors[G].sym[0] = k == 1 ? 5 : 0;
        tensors[G].cls = k == 2 ? HSP_CLASS_STEP : HSP_CLASS_SCRATCH;
        i[0].op = k == 3 ? HSP_OP_GELU : HSP_OP_BIAS_DB;
        struct hsp_route *r = routes(i, k == 4 ? three : k == 5 ? apart : two);
        assert_int_equal(r[0].sums, 0);
        assert_false(r[1].done);
        free(r);
    }
}

/* Two gradients are added to one sum in the order of their accumulations: only the first is
 * routed. */
static void additions_do_not_pass_each_other(void **state)
{
    (void)state;
    reset();
    const struct hsp_instr i[] = {zero(SUM), op(HSP_OP_BIAS_DB, DY, G), op(HSP_OP_BIAS_DB, DY, G2),
                                  acc(G, SUM), acc(G2, SUM)};
    struct hsp_route *r = routes(i, (const uint32_t[]){1, 4, 0, 0});
    assert_true(r[1].sums == 1 && r[1].begins == 1 && r[3].done);
    assert_true(r[2].sums == 0 && !r[4].done && r[4].begins == 0);
    free(r);
    const struct hsp_instr both[] = {
        zero(SUM),
        {.kind = HSP_I_OP, .op = HSP_OP_LAYERNORM_DW, .n_out = 2, .out = {G, G2}},
        acc(G, SUM),
        acc(G2, SUM)};
    r = routes(both, (const uint32_t[]){1, 3, 0, 0});
    assert_true(r[1].sums == 1 && r[2].done && !r[3].done);
    free(r);
}

static void statistics_go_to_the_host(void **state)
{
    (void)state;
    reset();
    struct hsp_instr i[] = {op(HSP_OP_SQSUM, SUM, S8), stat(G), stat(S8)};
    struct hsp_route *r = routes(i, (const uint32_t[]){0, 0, 0, 3});
    assert_true(r[0].stats == 1 && r[0].out[0] == 1 && r[2].done && !r[1].done);
    free(r);
    tensors[S8].dtype = HSP_F32;
    r = routes(i, (const uint32_t[]){0, 0, 0, 3});
    assert_true(r[0].stats == 0 && !r[2].done);
    free(r);
    tensors[S8].dtype = HSP_F64;
    i[1] = op(HSP_OP_GELU, S8, G); /* another op reads the number, too */
    r = routes(i, (const uint32_t[]){0, 0, 0, 3});
    assert_true(r[0].stats == 0 && !r[2].done);
    free(r);
}

HSP_TEST_FILE(output_route_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gradient_begins_its_sum),
        cmocka_unit_test(an_accumulation_begins_it_as_well),
        cmocka_unit_test(sums_that_others_need_are_zero),
        cmocka_unit_test(what_is_not_the_same_goes_apart),
        cmocka_unit_test(additions_do_not_pass_each_other),
        cmocka_unit_test(statistics_go_to_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
