/* Tests the catalogue's axes and linear sets against the formulas of the oracle: cut the operands
 * into uneven pieces, some of length zero, run the op on the pieces, put the results together as
 * the class of each axis says, and compare with the op on the whole. */
#include "proto/op/bf16.h"
#include "tests/lib/naive_ops.h"
#include "tests/lib/testlib.h"

#include <math.h>

enum { MAX_ELEMS = 4096, N_OPERANDS = HSP_MAX_IN + HSP_MAX_OUT };

struct operand {
    struct hsp_array a;
    double f[MAX_ELEMS];
    int32_t i[MAX_ELEMS];
};

/* An op with whole operands: inputs first, then outputs. */
struct whole {
    enum hsp_op op;
    struct hsp_attrs at;
    struct hsp_axes ax;
    int64_t axis[HSP_MAX_AXES];
    struct operand o[N_OPERANDS];
};

static const struct hsp_update_scalars update = {
    .lr = 0.1, .grad_scale = 0.5, .bias1 = 0.19, .bias2 = 0.0199};

static bool is_integer(enum hsp_op op, uint8_t input)
{
    return ((op == HSP_OP_EMBED || op == HSP_OP_EMBED_DW) && input == 0) ||
           ((op == HSP_OP_ROPE || op == HSP_OP_ROPE_DX || op == HSP_OP_DROPOUT) && input == 0) ||
           ((op == HSP_OP_XENT || op == HSP_OP_XENT_PART) && input == 1) ||
           (op == HSP_OP_XENT_PART_DX && input == 2) || (op == HSP_OP_XENT_DX && input == 2) ||
           (op == HSP_OP_PACKED_ATTENTION && input == 3) ||
           (op == HSP_OP_PACKED_ATTENTION_BWD && input == 6) || op == HSP_OP_COUNT;
}

static const struct hsp_operand_use *use_of(const struct hsp_axes *ax, int k)
{
    return k < ax->n_in ? &ax->in[k] : &ax->out[k - ax->n_in];
}

/* Sets the extents of operand @k for local axes; data stays inside the operand. */
static void shape(struct whole *w, int k, const int64_t *axis)
{
    const struct hsp_operand_use *u = use_of(&w->ax, k);
    struct operand *o = &w->o[k];
    o->a.rank = u->rank;
    for (uint8_t d = 0; d < u->rank; d++) {
        o->a.ext[d] = axis[u->dim[d].axis] * u->dim[d].unit;
    }
    assert_true(hsp_naive_count(&o->a) <= MAX_ELEMS);
    bool integer = k < w->ax.n_in && is_integer(w->op, (uint8_t)k);
    o->a.dtype = integer ? HSP_I32 : HSP_F64;
    o->a.data = integer ? (void *)o->i : (void *)o->f;
}

static int64_t extent_of(const struct whole *w, char name)
{
    bool embed = w->op == HSP_OP_EMBED || w->op == HSP_OP_EMBED_DW;
    switch (name) {
    case 'b': return 2;
    case 's': return 5;
    case 't': return 5;
    case 'h': return 3;
    case 'v': return embed ? 6 : 4;
    case 'k': return 4;
    case 'n': return 3;
    case 'e': return 4;
    case 'o': return 1;
    case 'u': return 2;
    default: return 3 + name % 2;
    }
}

static double draw(uint64_t *k)
{
    return (double)hsp_test_range("data", (*k)++, -1000, 1000) / 700;
}

static struct whole *new_whole(enum hsp_op op, uint8_t rank)
{
    static uint64_t k;
    struct whole *w = calloc(1, sizeof *w);
    struct hsp_err err = {0};
    assert_non_null(w);
    w->op = op;
    /* of dropout: 0.9; heads of 2, causal, 3 query heads for each key head */
    w->at = (struct hsp_attrs){.i = {2, 1, 3}, .f = {0.9, 0.99, 0.01, 0.1}};
    if (op == HSP_OP_FLATTEN || op == HSP_OP_UNFLATTEN) {
        w->at.i[0] = 4; /* e */
    }
    assert_ok(hsp_op_axes(op, &w->at, rank, &w->ax, &err), &err);
    for (uint8_t a = 0; a < w->ax.n_axes; a++) {
        w->axis[a] = extent_of(w, w->ax.axis[a].name);
    }
    for (int o = 0; o < w->ax.n_in + w->ax.n_out; o++) {
        shape(w, o, w->axis);
        for (int64_t i = 0; o < w->ax.n_in && i < hsp_naive_count(&w->o[o].a); i++) {
            w->o[o].f[i] = op == HSP_OP_ADAMW && o == 2 ? fabs(draw(&k)) : draw(&k);
            bool packed = op == HSP_OP_PACKED_ATTENTION || op == HSP_OP_PACKED_ATTENTION_BWD;
            int64_t last = packed ? i % extent_of(w, 's') : extent_of(w, 'v') - 1;
            w->o[o].i[i] = (int32_t)hsp_test_range("ids", k++, -1, last);
        }
    }
    return w;
}

static void run(struct whole *w, const int64_t origin[2])
{
    struct hsp_array in[HSP_MAX_IN], out[HSP_MAX_OUT];
    for (int i = 0; i < w->ax.n_in; i++) {
        in[i] = w->o[i].a;
    }
    for (int i = 0; i < w->ax.n_out; i++) {
        out[i] = w->o[w->ax.n_in + i].a;
    }
    hsp_naive_op(&(struct hsp_call){.op = w->op,
                                    .at = &w->at,
                                    .n_in = w->ax.n_in,
                                    .n_out = w->ax.n_out,
                                    .in = in,
                                    .out = out,
                                    .origin = {origin[0], origin[1]},
                                    .update = &update});
    for (int64_t i = 0; w->op == HSP_OP_NARROW && i < hsp_naive_count(&out[0]); i++) {
        double *y = &w->o[1].f[i]; /* operands of all ops are fp64 here */
        *y = (double)hsp_bf16_float(hsp_bf16_of((float)*y));
    }
}

/* A piece: a range of units per axis. */
struct piece {
    int64_t lo[HSP_MAX_AXES], hi[HSP_MAX_AXES];
};

/* Returns the index in the whole operand that element @i of its part has. */
static int64_t whole_index(const struct whole *w, int k, const struct piece *p, int64_t i)
{
    const struct hsp_operand_use *u = use_of(&w->ax, k);
    int64_t at = 0, stride = 1;
    for (int d = u->rank - 1; d >= 0; d--) {
        int64_t unit = u->dim[d].unit, axis = u->dim[d].axis;
        int64_t n = (p->hi[axis] - p->lo[axis]) * unit;
        at += (i % n + p->lo[axis] * unit) * stride;
        i /= n;
        stride *= w->axis[axis] * unit;
    }
    return at;
}

/* Runs the op on one piece of @w and adds its outputs to @sum: on free axes the pieces fall side by
 * side, on the others they add up, and the caller has set @sum to zeros. */
static void run_piece(const struct whole *w, const struct piece *p, struct whole *sum)
{
    struct whole *part = calloc(1, sizeof *part);
    int64_t axis[HSP_MAX_AXES] = {0}, origin[2] = {0}, n_origins = 0;
    assert_non_null(part);
    part->op = w->op;
    part->at = w->at;
    part->ax = w->ax;
    for (uint8_t a = 0; a < w->ax.n_axes; a++) {
        axis[a] = p->hi[a] - p->lo[a];
    }
    for (int k = 0; k < w->ax.n_in + w->ax.n_out; k++) {
        const struct hsp_operand_use *u = use_of(&w->ax, k);
        shape(part, k, axis);
        for (uint8_t d = 0; d < u->rank; d++) {
            if (u->dim[d].origin) {
                origin[n_origins++] = p->lo[u->dim[d].axis] * u->dim[d].unit;
            }
        }
        for (int64_t i = 0; k < w->ax.n_in && i < hsp_naive_count(&part->o[k].a); i++) {
            int64_t from = whole_index(w, k, p, i);
            part->o[k].f[i] = w->o[k].f[from];
            part->o[k].i[i] = w->o[k].i[from];
        }
    }
    run(part, origin);
    for (int k = w->ax.n_in; k < w->ax.n_in + w->ax.n_out; k++) {
        for (int64_t i = 0; i < hsp_naive_count(&part->o[k].a); i++) {
            sum->o[k].f[whole_index(w, k, p, i)] += part->o[k].f[i];
        }
    }
    free(part);
}

/* Cuts every axis of @mask at @cuts (3 of them, the same fractions), all combinations of pieces. */
static void run_cut(const struct whole *w, uint32_t mask, uint8_t axis, struct piece *p,
                    uint64_t seed, struct whole *sum)
{
    if (axis == w->ax.n_axes) {
        run_piece(w, p, sum);
        return;
    }
    int64_t n = w->axis[axis], a = 0, b = n;
    if ((mask >> axis & 1) == 0) {
        p->lo[axis] = 0;
        p->hi[axis] = n;
        run_cut(w, mask, (uint8_t)(axis + 1), p, seed, sum);
        return;
    }
    a = hsp_test_range("cut", seed * 64 + axis, 0, n);
    b = hsp_test_range("cut", seed * 64 + 32 + axis, a, n);
    int64_t cuts[4] = {0, a, b, n};
    for (int i = 0; i < 3; i++) {
        p->lo[axis] = cuts[i];
        p->hi[axis] = cuts[i + 1];
        run_cut(w, mask, (uint8_t)(axis + 1), p, seed, sum);
    }
}

static void compare(const struct whole *want, const struct whole *got, const char *what,
                    uint32_t mask)
{
    for (int k = want->ax.n_in; k < want->ax.n_in + want->ax.n_out; k++) {
        for (int64_t i = 0; i < hsp_naive_count(&want->o[k].a); i++) {
            double a = want->o[k].f[i], b = got->o[k].f[i];
            if (!(fabs(a - b) <= 1e-9 * (1 + fabs(a)))) {
                print_error("%s %s mask %x output %d element %d: %.17g, not %.17g\n",
                            hsp_op_name(want->op), what, mask, k - want->ax.n_in, (int)i, b, a);
                fail();
            }
        }
    }
}

static void cuts_of(enum hsp_op op, uint8_t rank)
{
    struct whole *w = new_whole(op, rank);
    uint32_t cuttable = 0;
    for (uint8_t a = 0; a < w->ax.n_axes; a++) {
        cuttable |= w->ax.axis[a].cls != HSP_AXIS_WHOLE ? 1u << a : 0;
    }
    run(w, (int64_t[2]){0, 0});
    for (uint32_t mask = 1; mask <= cuttable; mask++) {
        for (uint64_t seed = 0; (mask & ~cuttable) == 0 && seed < 8; seed++) {
            struct whole *sum = calloc(1, sizeof *sum);
            struct piece p;
            assert_non_null(sum);
            run_cut(w, mask, 0, &p, seed, sum);
            compare(w, sum, "cut", mask);
            free(sum);
        }
    }
    free(w);
}

static void pieces_make_the_whole(void **state)
{
    (void)state;
    for (int op = 0; op < HSP_N_OPS; op++) {
        for (uint8_t rank = 0; rank <= 3; rank++) {
            cuts_of((enum hsp_op)op, rank);
        }
    }
}

/* Splits the inputs of @mask into two addends each, and compares f(x1, y) + f(x2, y) with f(x1 +
 * x2, y). Returns the largest difference, which is small when @op is linear in these inputs
 * together. */
static double additivity(enum hsp_op op, uint32_t mask)
{
    struct whole *w = new_whole(op, 2);
    struct whole *one = calloc(1, sizeof *one), *two = calloc(1, sizeof *two);
    assert_non_null(one);
    assert_non_null(two);
    *one = *w;
    *two = *w;
    for (int k = 0; k < w->ax.n_in; k++) {
        for (int64_t i = 0; (mask >> k & 1) != 0 && i < hsp_naive_count(&w->o[k].a); i++) {
            double part = 0.3 + 0.4 * sin((double)(i + 7 * k));
            one->o[k].f[i] = w->o[k].f[i] * part;
            two->o[k].f[i] = w->o[k].f[i] - one->o[k].f[i];
        }
    }
    struct whole *all[3] = {w, one, two};
    for (int r = 0; r < 3; r++) { /* the copies still point at the data of w */
        for (int k = 0; k < w->ax.n_in + w->ax.n_out; k++) {
            shape(all[r], k, w->axis);
        }
        run(all[r], (int64_t[2]){0, 0});
    }
    double worst = 0;
    for (int k = w->ax.n_in; k < w->ax.n_in + w->ax.n_out; k++) {
        for (int64_t i = 0; i < hsp_naive_count(&w->o[k].a); i++) {
            worst = fmax(worst, fabs(w->o[k].f[i] - one->o[k].f[i] - two->o[k].f[i]));
        }
    }
    free(w);
    free(one);
    free(two);
    return worst;
}

/* Returns true for sets of inputs in which an op is linear though the catalogue of ops does not
 * list them. Parameters and the inputs of an update are never partial sums. Of broadcast's second
 * input only the shape counts. */
static bool not_offered(enum hsp_op op, uint32_t mask)
{
    return (op == HSP_OP_LAYERNORM_DX && mask == 4) || (op == HSP_OP_RMSNORM_DX && mask == 4) ||
           (op == HSP_OP_RMSNORM_DW && (mask == 2 || mask == 4)) ||
           (op == HSP_OP_SGDM && mask == 7) || (op == HSP_OP_BROADCAST && mask == 3);
}

/* Every linear set of the catalogue is linear, and the catalogue lists every linear set of
 * floating-point inputs. */
static void linear_sets_are_exactly_these(void **state)
{
    (void)state;
    for (int i = 0; i < HSP_N_OPS; i++) {
        enum hsp_op op = (enum hsp_op)i;
        struct hsp_axes ax;
        struct hsp_err err = {0};
        struct hsp_attrs at = {.i = {2, 1, 3}};
        assert_ok(hsp_op_axes(op, &at, 2, &ax, &err), &err);
        uint32_t integers = 0;
        for (uint8_t k = 0; k < ax.n_in; k++) {
            integers |= is_integer(op, k) ? 1u << k : 0;
        }
        for (uint32_t mask = 1; mask < 1u << ax.n_in; mask++) {
            if ((mask & integers) != 0) {
                continue;
            }
            double worst = additivity(op, mask);
            bool declared = mask == ax.linear[0] || mask == ax.linear[1] || not_offered(op, mask);
            if (declared ? !(worst < 1e-9) : !(worst > 1e-6)) {
                print_error("%s: inputs %x: %g\n", hsp_op_name(op), mask, worst);
                fail();
            }
        }
    }
}

HSP_TEST_FILE(cut_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_the_whole),
        cmocka_unit_test(linear_sets_are_exactly_these),
    };
    return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
