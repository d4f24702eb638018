/* Tests which instructions are fused with a matrix product (worker/exec/fuse_epilogue.h). */
#include <stdlib.h>

#include "proto/base/size.h"
#include "tests/lib/testlib.h"
#include "worker/exec/fuse_epilogue.h"

enum { X, W, Y, BIAS, Z, MORE, OUT, SUM, N_TENSORS };

static struct hsp_instr op(enum hsp_op o, uint32_t a, uint32_t b, uint32_t out)
{
    return (struct hsp_instr){
        .kind = HSP_I_OP, .op = (uint8_t)o, .n_in = 2, .n_out = 1, .in = {a, b}, .out = {out}};
}

static struct hsp_instr acc(uint32_t from, uint32_t to)
{
    return (struct hsp_instr){.kind = HSP_I_ACC, .n_in = 1, .n_out = 1, .in = {from}, .out = {to}};
}

/* Returns the epilogues of a program of @n instructions. Each piece ends before an instruction
 * whose number is in @ends. */
static struct hsp_epilogue *epilogues(const struct hsp_instr *i, uint32_t n, const uint32_t *ends,
                                      uint8_t cls_y)
{
    static struct hsp_ptensor tensors[N_TENSORS];
    static struct hsp_piece pieces[4];
    static struct hsp_instr copy[8];
    struct hsp_template t = {.n_tensors = N_TENSORS,
                             .n_instrs = n,
                             .tensors = tensors,
                             .instrs = copy,
                             .pieces = pieces};
    for (int k = 0; k < N_TENSORS; k++) {
        tensors[k].cls = k == Y ? cls_y : k == SUM ? HSP_CLASS_STEP : HSP_CLASS_SCRATCH;
    }
    memcpy(copy, i, n * sizeof *i);
    for (uint32_t at = 0; at < n; at = ends[t.n_pieces++]) {
        pieces[t.n_pieces] = (struct hsp_piece){.first = at, .n = ends[t.n_pieces] - at};
    }
    struct hsp_epilogue *ret = hsp_epilogues_new(&t);
    assert_non_null(ret);
    return ret;
}

/* Expects the epilogue @want for instruction 0, and none for all others. */
static void expect(const struct hsp_instr *i, uint32_t n, const uint32_t *ends,
                   const struct hsp_epilogue *want)
{
    struct hsp_epilogue *got = epilogues(i, n, ends, HSP_CLASS_SCRATCH);
    assert_int_equal(got[0].n, want->n);
    if (want->n > 0) {
        assert_int_equal(got[0].bias, want->bias);
        assert_int_equal(got[0].add, want->add);
        assert_int_equal(got[0].out, want->out);
    }
    for (uint32_t k = 1; k < n; k++) {
        assert_int_equal(got[k].n, 0);
    }
    free(got);
}

static void what_adds_is_taken_along(void **state)
{
    (void)state;
    const uint32_t all = 3, two = 2, no = HSP_NO_TENSOR;
    struct hsp_instr i[3] = {op(HSP_OP_LINEAR, X, W, Y), op(HSP_OP_BIAS_ADD, Y, BIAS, Z),
                             op(HSP_OP_ADD, MORE, Z, OUT)};
    expect(i, 3, &all, &(struct hsp_epilogue){2, BIAS, MORE, OUT});
    i[2] = op(HSP_OP_ADD, Z, MORE, OUT);
    expect(i, 3, &all, &(struct hsp_epilogue){2, BIAS, MORE, OUT});
    i[2] = op(HSP_OP_GELU, Z, Z, OUT); /* not fused */
    i[2].n_in = 1;
    expect(i, 3, &all, &(struct hsp_epilogue){1, BIAS, no, Z});
    i[1] = op(HSP_OP_ADD, Y, MORE, Z);
    expect(i, 2, &two, &(struct hsp_epilogue){1, no, MORE, Z});
    i[0].op = HSP_OP_LINEAR_DX;
    expect(i, 2, &two, &(struct hsp_epilogue){1, no, MORE, Z});
}

static void what_does_not_only_add_is_not(void **state)
{
    (void)state;
    const uint32_t two = 2, three = 3, apart[] = {1, 2};
    const struct hsp_epilogue none = {0};
    struct hsp_instr i[3] = {op(HSP_OP_LINEAR, X, W, Y), op(HSP_OP_BIAS_ADD, Y, BIAS, Z),
                             acc(Y, SUM)};
    expect(i, 3, &three, &none); /* the product is read twice */
    i[2] = acc(X, Y);
    expect(i, 3, &three, &none); /* the product is written twice */
    expect(i, 2, apart, &none);  /* the bias_add is in another piece */
    i[1] = op(HSP_OP_BIAS_ADD, Z, BIAS, OUT);
    expect(i, 2, &two, &none); /* the bias is added to another tensor */
    i[1] = op(HSP_OP_BIAS_ADD, X, Y, OUT);
    expect(i, 2, &two, &none); /* the product is the bias */
    i[1] = op(HSP_OP_ADD, Y, Y, OUT);
    expect(i, 2, &two, &none);
    i[1] = op(HSP_OP_ADD, X, X, OUT);
    expect(i, 2, &two, &none);
    i[1] = op(HSP_OP_BIAS_ADD, Y, BIAS, OUT);
    i[0].op = HSP_OP_LINEAR_DX;
    expect(i, 2, &two, &none); /* no program adds a bias to a gradient */
    i[0].op = HSP_OP_ADD;
    expect(i, 2, &two, &none); /* the first op is no product */
    i[0].op = HSP_OP_LINEAR_DW;
    i[1] = acc(Y, SUM);
    expect(i, 2, &two, &none); /* output_route.c handles sums of gradients */
    expect(i, 1, (const uint32_t[]){1}, &none);
}

static void only_what_is_passed_on_may_stay_unwritten(void **state)
{
    (void)state;
    const uint32_t two = 2;
    struct hsp_instr i[2] = {op(HSP_OP_LINEAR, X, W, Y), op(HSP_OP_BIAS_ADD, Y, BIAS, OUT)};
    static const struct {
        uint8_t cls, n;
    } c[] = {{HSP_CLASS_SCRATCH, 1},
             {HSP_CLASS_MICRO, 1},
             {HSP_CLASS_STEP, 0},
             {HSP_CLASS_STATE, 0},
             {HSP_CLASS_HOST, 0}};
    for (size_t k = 0; k < HSP_ARRAY_LEN(c); k++) {
        struct hsp_epilogue *got = epilogues(i, 2, &two, c[k].cls);
        assert_int_equal(got[0].n, c[k].n);
        free(got);
    }
}

static void many_readers_are_many(void **state)
{
    (void)state;
    enum { N = 600 };
    struct hsp_instr *i = calloc(N, sizeof *i);
    struct hsp_ptensor tensors[N_TENSORS] = {0};
    struct hsp_piece piece = {.n = N};
    tensors[Y].cls = HSP_CLASS_SCRATCH;
    i[0] = op(HSP_OP_LINEAR, X, W, Y);
    for (int k = 1; k < N; k++) {
        /* 599 readers = 2 * 256 + 87: a counter of 8 bits must not wrap */
        i[k] = op(HSP_OP_BIAS_ADD, Y, BIAS, OUT);
    }
    for (uint32_t n = 1; n <= N; n++) {
        struct hsp_template t = {.n_tensors = N_TENSORS,
                                 .n_instrs = n,
                                 .n_pieces = 1,
                                 .tensors = tensors,
                                 .instrs = i,
                                 .pieces = &piece};
        piece.n = n;
        struct hsp_epilogue *got = hsp_epilogues_new(&t);
        assert_non_null(got);
        assert_int_equal(got[0].n, n == 2 ? 1 : 0);
        free(got);
    }
    free(i);
}

HSP_TEST_FILE(fuse_epilogue_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_adds_is_taken_along),
        cmocka_unit_test(what_does_not_only_add_is_not),
        cmocka_unit_test(only_what_is_passed_on_may_stay_unwritten),
        cmocka_unit_test(many_readers_are_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
