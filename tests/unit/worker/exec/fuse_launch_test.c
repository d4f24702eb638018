/* Tests which instructions a backend gets as one fused launch (worker/exec/fuse_launch.h). */
#include <stdlib.h>

#include "tests/lib/testlib.h"
#include "worker/exec/fuse_launch.h"

enum { MAX_T = 300, MAX_I = 200 };

#define BIT(op) (UINT64_C(1) << HSP_OP_##op)
#define MANY    (BIT(ADAMW) | BIT(SQSUM))
#define ADDS    (BIT(BIAS_DB) | BIT(LAYERNORM_DW) | BIT(RMSNORM_DW))

static struct {
    struct hsp_program p;
    struct hsp_ptensor tensor[MAX_T];
    struct hsp_tensor_bind bind[MAX_T];
    struct hsp_instr instr[MAX_I];
    struct hsp_piece piece;
    struct hsp_segment segment;
} x;

static void reset(void)
{
    memset(&x, 0, sizeof(x));
    x.p.tpl = (struct hsp_template){.tensors = x.tensor,
                                    .instrs = x.instr,
                                    .pieces = &x.piece,
                                    .segments = &x.segment,
                                    .n_pieces = 1,
                                    .n_segments = 1};
    x.segment = (struct hsp_segment){.kind = HSP_SEG_BACKWARD, .n_pieces = 1};
    x.p.bind.tensor = x.bind;
}

/* Adds a tensor that shares no bytes with the others. */
static uint32_t tensor(uint8_t cls)
{
    uint32_t k = x.p.tpl.n_tensors++;
    x.tensor[k] = (struct hsp_ptensor){.dtype = HSP_F32, .rank = 1, .cls = cls};
    x.bind[k] =
        (struct hsp_tensor_bind){.offset = 256 * (int64_t)k, .n_slots = 1, .slot_bytes = 256};
    return k;
}

static uint32_t scratch(void)
{
    return tensor(HSP_CLASS_SCRATCH);
}

static struct hsp_instr *op(enum hsp_op o, const uint32_t *operands)
{
    struct hsp_instr *i = &x.instr[x.p.tpl.n_instrs++];
    *i = (struct hsp_instr){
        .kind = HSP_I_OP, .op = (uint8_t)o, .n_in = hsp_op_n_in(o), .n_out = hsp_op_n_out(o)};
    for (uint8_t k = 0; k < i->n_in + i->n_out; k++) {
        *(k < i->n_in ? &i->in[k] : &i->out[k - i->n_in]) = operands[k];
    }
    return i;
}

static struct hsp_instr *other(uint8_t kind, uint32_t in, uint32_t out)
{
    struct hsp_instr *i = &x.instr[x.p.tpl.n_instrs++];
    *i = (struct hsp_instr){.kind = kind, .n_in = 1, .n_out = kind == HSP_I_ACC, .in = {in}};
    i->out[0] = out;
    return i;
}

static struct hsp_fused_launch *launches(void)
{
    x.piece.n = x.p.tpl.n_instrs;
    struct hsp_route *r = hsp_routes_new(&x.p.tpl, ADDS);
    assert_non_null(r);
    struct hsp_fused_launch *b = hsp_fused_launches_new(&x.p, r, MANY, true);
    assert_non_null(b);
    free(r);
    return b;
}

/* Expects that a launch of @calls calls replaces the @n instructions from @k on; 0: no launch. */
static void expect(const struct hsp_fused_launch *b, uint32_t k, uint32_t n, uint8_t calls,
                   bool chain)
{
    assert_int_equal(b[k].n, n);
    if (n > 0) {
        assert_int_equal(b[k].calls, calls);
        assert_int_equal(b[k].chain, chain);
    }
}

/* Adds an update of a parameter with its own state. Returns the gradient. */
static uint32_t adamw(void)
{
    uint32_t p = tensor(HSP_CLASS_STATE), m = tensor(HSP_CLASS_STATE), v = tensor(HSP_CLASS_STATE),
             g = tensor(HSP_CLASS_STEP);
    (void)op(HSP_OP_ADAMW, (const uint32_t[]){p, m, v, g, p, m, v});
    return g;
}

static void updates_go_together(void **state)
{
    (void)state;
    reset();
    for (int k = 0; k < 60; k++) {
        (void)adamw();
    }
    struct hsp_fused_launch *b = launches();
    expect(b, 0, 56, 56, false);
    expect(b, 56, 4, 4, false);
    free(b);
    x.instr[2].at.f[0] = 0.5; /* other rates (attributes) */
    b = launches();
    expect(b, 0, 2, 2, false);
    expect(b, 2, 0, 0, false);
    expect(b, 3, 56, 56, false);
    free(b);
    x.piece.n = 1;
    x.p.tpl.n_instrs = 1;
    b = launches();
    expect(b, 0, 0, 0, false); /* one update is no launch */
    free(b);
    x.p.tpl.n_instrs = 60;
    x.piece.queue = HSP_QUEUE_COMM;
    b = launches();
    expect(b, 0, 0, 0, false);
    free(b);
}

static void what_meets_in_memory_goes_apart(void **state)
{
    (void)state;
    reset();
    uint32_t g = 0;
    for (int k = 0; k < 3; k++) {
        g = adamw();
    }
    x.bind[x.instr[1].out[0]].offset = x.bind[x.instr[0].out[2]].offset + 192;
    struct hsp_fused_launch *b = launches();
    expect(b, 0, 0, 0, false);
    expect(b, 1, 2, 2, false);
    free(b);
    reset(); /* equal offsets of state and of gradients are different memory */
    (void)adamw();
    g = adamw();
    x.bind[g].offset = x.bind[x.instr[0].in[0]].offset;
    b = launches();
    expect(b, 0, 2, 2, false);
    free(b);
    x.instr[1].in[1] = x.instr[0].out[1]; /* one update reads state that the other update writes */
    b = launches();
    expect(b, 0, 0, 0, false);
    free(b);
    reset();
    uint32_t a = scratch(), s = scratch(), c = scratch(), t = scratch();
    (void)op(HSP_OP_SQSUM, (const uint32_t[]){a, s});
    (void)op(HSP_OP_SQSUM, (const uint32_t[]){c, t});
    b = launches();
    expect(b, 0, 2, 2, false);
    free(b);
    x.bind[t].offset = x.bind[a].offset; /* the second op writes over an input of the first */
    b = launches();
    expect(b, 0, 0, 0, false);
    free(b);
}

/* Square sums and their statistics are one launch, wherever their tensors lie. */
static void statistics_go_along(void **state)
{
    (void)state;
    reset();
    for (int k = 0; k < 3; k++) {
        uint32_t g = tensor(HSP_CLASS_STEP), s = scratch();
        x.tensor[s].dtype = HSP_F64;
        x.tensor[s].rank = 0;
        x.bind[s].offset = 0;
        (void)op(HSP_OP_SQSUM, (const uint32_t[]){g, s});
        (void)other(HSP_I_STAT, s, 0);
    }
    struct hsp_fused_launch *b = launches();
    expect(b, 0, 6, 3, false);
    free(b);
}

struct norm {
    uint32_t dy, x, gamma, mean, rstd, dx, branch, sum, dgamma, dbeta, db, to[3];
};

/* Adds the backward pass of a layernorm: dx, add, dw with two accumulations, bias_db with its
 * accumulation. */
static struct norm norm_backward(void)
{
    struct norm n = {scratch(), scratch(), scratch(), scratch(), scratch(), scratch(),
                     scratch(), scratch(), scratch(), scratch(), scratch(), {0}};
    for (int k = 0; k < 3; k++) {
        n.to[k] = tensor(HSP_CLASS_STEP);
    }
    (void)op(HSP_OP_LAYERNORM_DX, (const uint32_t[]){n.dy, n.x, n.gamma, n.mean, n.rstd, n.dx});
    (void)op(HSP_OP_ADD, (const uint32_t[]){n.branch, n.dx, n.sum});
    (void)op(HSP_OP_LAYERNORM_DW, (const uint32_t[]){n.dy, n.x, n.mean, n.rstd, n.dgamma, n.dbeta});
    (void)other(HSP_I_ACC, n.dgamma, n.to[0]);
    (void)other(HSP_I_ACC, n.dbeta, n.to[1]);
    (void)op(HSP_OP_BIAS_DB, (const uint32_t[]){n.sum, n.db});
    (void)other(HSP_I_ACC, n.db, n.to[2]);
    return n;
}

static void norms_are_chains(void **state)
{
    (void)state;
    reset();
    struct norm n = norm_backward();
    struct hsp_fused_launch *b = launches();
    expect(b, 0, 7, 4, true);
    free(b);
    x.instr[5].in[0] = n.dy; /* bias_db of another tensor */
    b = launches();
    expect(b, 0, 5, 3, true);
    free(b);
    x.instr[2].in[2] = n.gamma; /* weights of another norm */
    b = launches();
    expect(b, 0, 2, 2, true);
    free(b);
    x.instr[1].in[1] = n.dy; /* an addition of other tensors */
    b = launches();
    expect(b, 0, 0, 0, false);
    free(b);
    reset();
    n = norm_backward();
    /* the accumulation reads another tensor, so dgamma is not added to a sum */
    x.instr[3].in[0] = n.dy;
    b = launches();
    expect(b, 0, 2, 2, true);
    free(b);
    reset();
    n = norm_backward();
    (void)other(HSP_I_ACC, n.dx, n.to[0]); /* another instruction reads dx, too */
    b = launches();
    expect(b, 0, 0, 0, false);
    free(b);
}

static void activations_are_chains(void **state)
{
    (void)state;
    reset();
    uint32_t dy = scratch(), h = scratch(), dx = scratch(), db = scratch(),
             to = tensor(HSP_CLASS_STEP);
    (void)op(HSP_OP_GELU_DX, (const uint32_t[]){dy, h, dx});
    (void)op(HSP_OP_BIAS_DB, (const uint32_t[]){dx, db});
    (void)other(HSP_I_ACC, db, to);
    /* another reader of dx does not matter: dx is written */
    (void)op(HSP_OP_GELU, (const uint32_t[]){dx, h});
    struct hsp_fused_launch *b = launches();
    expect(b, 0, 3, 2, true);
    free(b);
    x.instr[1].in[0] = dy;
    b = launches();
    expect(b, 0, 0, 0, false);
    free(b);
}

HSP_TEST_FILE(fuse_launch_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_go_together),    cmocka_unit_test(what_meets_in_memory_goes_apart),
        cmocka_unit_test(statistics_go_along),    cmocka_unit_test(norms_are_chains),
        cmocka_unit_test(activations_are_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
