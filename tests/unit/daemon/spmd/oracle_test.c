/* Tests every rule of deduction by brute force: each op of the catalogue on small tensors that
 * groups of members hold in random layouts (uneven, empty, refined, sums over either tier). Each
 * member runs the op on the operands that deduction names; the results, put together by their
 * layouts, are those of the whole op. And with other shares the same is deduced. */
#include <math.h>

#include "daemon/spmd/sharding/deduce.h"
#include "proto/layout/box.h"
#include "tests/lib/naive_ops.h"
#include "tests/lib/testlib.h"

enum { GROUPS = 3, MEMBERS = 9, UNITS = 3 };
enum { REFINED = 100, OFF_UNIT = 200 }; /* added to names of cuts */

/* A number per operand and member: the held part of it. */
struct operand {
    struct hsp_array whole;
    struct hsp_array addend[MEMBERS]; /* of the size of the whole; by label; only of sums */
    struct hsp_layout at, rest;
};

struct choice { /* how an operand is held: axes, -1 none */
    int over, in;
    uint8_t partial;
    bool off_unit;
};

struct problem {
    struct hsp_arena *arena;
    uint64_t draw;
    enum hsp_op op;
    struct hsp_attrs at;
    struct hsp_axes ax;
    int64_t extent[HSP_MAX_AXES];
    struct hsp_tiers tiers;
    uint32_t first[GROUPS], size[GROUPS];
    /* cut points in units, [axis][group]: between groups; inside of a group's hull, and of all */
    int64_t outer[HSP_MAX_AXES][GROUPS + 1];
    int64_t refined[HSP_MAX_AXES][GROUPS][MEMBERS + 1], inner[HSP_MAX_AXES][GROUPS][MEMBERS + 1];
    struct choice how[HSP_MAX_IN], rest[HSP_MAX_IN], want;
    struct operand x[HSP_MAX_IN];
    struct hsp_array y[HSP_MAX_OUT];
};

static int64_t pick(struct problem *p, int64_t lo, int64_t hi)
{
    return hsp_test_range("oracle", p->draw++, lo, hi);
}

static double number(struct problem *p)
{
    return (double)pick(p, -1000, 1000) / 500;
}

/* ---- the op ---- */

static void choose_attrs(struct problem *p)
{
    p->at = (struct hsp_attrs){.i = {2, pick(p, 0, 1), pick(p, 1, 2)}, .f = {0.3, 0.9, 0.1, 0.2}};
    if (p->op == HSP_OP_PACKED_ATTENTION || p->op == HSP_OP_PACKED_ATTENTION_BWD) {
        p->at.i[1] = 1;
    }
    if (p->op == HSP_OP_ROPE || p->op == HSP_OP_ROPE_DX) {
        p->at.f[0] = 100;
    }
    if (p->op == HSP_OP_DROPOUT) {
        p->at.i[0] = 0;
    }
}

/* Extents of axes; those that attributes say as they say. */
static void choose_extents(struct problem *p)
{
    for (uint8_t a = 0; a < p->ax.n_axes; a++) {
        char name = p->ax.axis[a].name;
        p->extent[a] = name == 'u' ? 2 : name == 'o' ? 1 : pick(p, 1, UNITS);
        bool stated = (p->op == HSP_OP_EMBED_DW && name == 'v') ||
                      ((p->op == HSP_OP_FLATTEN || p->op == HSP_OP_UNFLATTEN) && name == 'e') ||
                      (p->op == HSP_OP_XENT_PART && name == 'v');
        p->extent[a] = stated ? p->at.i[0] : p->extent[a];
    }
    for (uint8_t a = 0; a < p->ax.n_axes; a++) { /* causal: as many keys as queries */
        for (uint8_t s = 0; p->ax.axis[a].name == 't' && s < p->ax.n_axes; s++) {
            p->extent[a] = p->ax.axis[s].name == 's' ? p->extent[s] : p->extent[a];
        }
    }
}

static bool is_int(enum hsp_op op, uint8_t i)
{
    switch (op) {
    case HSP_OP_EMBED:
    case HSP_OP_EMBED_DW:
    case HSP_OP_ROPE:
    case HSP_OP_ROPE_DX:
    case HSP_OP_DROPOUT:
    case HSP_OP_COUNT: return i == 0;
    case HSP_OP_XENT:
    case HSP_OP_XENT_PART: return i == 1;
    case HSP_OP_XENT_DX:
    case HSP_OP_XENT_PART_DX: return i == 2;
    case HSP_OP_PACKED_ATTENTION: return i == 3;
    case HSP_OP_PACKED_ATTENTION_BWD: return i == 6;
    default: return false;
    }
}

/* ---- layouts ---- */

/* Ascending from @lo to @hi in @n steps, some empty. */
static void cut_between(struct problem *p, int64_t lo, int64_t hi, uint32_t n, int64_t *ret)
{
    ret[0] = lo;
    for (uint32_t i = 1; i < n; i++) {
        ret[i] = pick(p, ret[i - 1], hi);
    }
    ret[n] = hi;
}

static void choose_cuts(struct problem *p)
{
    for (uint8_t a = 0; a < p->ax.n_axes; a++) {
        cut_between(p, 0, p->extent[a], p->tiers.n_groups, p->outer[a]);
        for (uint32_t g = 0; g < p->tiers.n_groups; g++) {
            cut_between(p, p->outer[a][g], p->outer[a][g + 1], p->size[g], p->refined[a][g]);
            cut_between(p, 0, p->extent[a], p->size[g], p->inner[a][g]);
        }
    }
}

static void choose_groups(struct problem *p)
{
    p->tiers = (struct hsp_tiers){.n_groups = (uint32_t)pick(p, 1, GROUPS), .first = p->first};
    for (uint32_t g = 0; g < p->tiers.n_groups; g++) {
        p->first[g] = p->tiers.n;
        p->size[g] = (uint32_t)pick(p, 1, MEMBERS / GROUPS);
        p->tiers.n += p->size[g];
    }
}

static struct hsp_layout layout_of(struct problem *p, const struct hsp_operand_use *u,
                                   const struct choice *c)
{
    struct hsp_layout l, sum;
    struct hsp_err err = {0};
    int64_t ext[HSP_MAX_RANK] = {0};
    for (uint8_t d = 0; d < u->rank; d++) {
        ext[d] = p->extent[u->dim[d].axis] * u->dim[d].unit;
    }
    assert_ok(hsp_layout_whole(u->rank, ext, p->tiers.n, p->arena, &l, &err), &err);
    for (uint8_t d = 0; d < u->rank; d++) {
        int a = u->dim[d].axis;
        bool over = a == c->over, in = a == c->in;
        l.split[d] = over ? (uint32_t)a + 1 : 0;
        l.cut[d] = !in ? 0 : (uint32_t)a + 1 + (over ? REFINED : c->off_unit ? OFF_UNIT : 0);
        for (uint32_t g = 0; (over || in) && g < p->tiers.n_groups; g++) {
            for (uint32_t t = 0; t < p->size[g]; t++) {
                const int64_t *at = over && in ? &p->refined[a][g][t]
                                    : in       ? &p->inner[a][g][t]
                                               : &p->outer[a][g];
                struct hsp_box *b = &l.box[p->first[g] + t];
                b->lo[d] = at[0] * u->dim[d].unit;
                b->hi[d] = at[1] * u->dim[d].unit;
                if (in && !over && c->off_unit && u->dim[d].unit > 1) {
                    b->lo[d] += b->lo[d] > 0 && b->lo[d] < ext[d] ? 1 : 0;
                    b->hi[d] += b->hi[d] > 0 && b->hi[d] < ext[d] ? 1 : 0;
                }
            }
        }
    }
    assert_ok(hsp_layout_sum(&l, c->partial, &p->tiers, p->arena, &sum, &err), &err);
    return sum;
}

/* One of the operand's axes that is not @not, or -1. */
static int some_axis(struct problem *p, const struct hsp_operand_use *u)
{
    return u->rank == 0 || pick(p, 0, 1) == 0 ? -1 : u->dim[pick(p, 0, u->rank - 1)].axis;
}

static struct choice choose(struct problem *p, const struct hsp_operand_use *u, uint8_t partial)
{
    struct choice c = {.over = some_axis(p, u), .in = some_axis(p, u)};
    c.off_unit = pick(p, 0, 7) == 0;
    c.over = p->tiers.n_groups == 1 || (partial & HSP_OVER_GROUPS) != 0 ? -1 : c.over;
    c.in = (partial & HSP_IN_GROUPS) != 0 ? -1 : c.in;
    if (partial == HSP_IN_GROUPS && p->tiers.n_groups > 1 && c.over < 0) {
        partial = 0; /* the same sum in groups of other degrees is none */
    }
    c.partial = partial;
    return c;
}

static uint8_t some_tiers(struct problem *p)
{
    return (uint8_t)pick(p, 1, p->tiers.n_groups > 1 ? 3 : 1);
}

static bool has_axis(const struct hsp_operand_use *u, int axis)
{
    for (uint8_t d = 0; d < u->rank; d++) {
        if (u->dim[d].axis == axis) {
            return true;
        }
    }
    return false;
}

/* Half of the time operands agree: one linear set is a sum over the same tiers, or all are cut
 * along the same axes. */
static void choose_layouts(struct problem *p)
{
    uint32_t set = p->ax.linear[pick(p, 0, 1)];
    uint8_t tiers = some_tiers(p);
    struct choice all = {.over = -1, .in = -1};
    bool same = pick(p, 0, 1) == 0, sum = pick(p, 0, 1) == 0;
    for (uint8_t i = 0; i < p->ax.n_in; i++) {
        bool in_set = (set >> i & 1) != 0;
        uint8_t partial = sum ? (in_set ? tiers : 0) : pick(p, 0, 4) == 0 ? some_tiers(p) : 0;
        partial = is_int(p->op, i) ? 0 : partial;
        p->how[i] = choose(p, &p->ax.in[i], partial);
        if (same && i > 0) {
            p->how[i].over = has_axis(&p->ax.in[i], all.over) ? all.over : -1;
            p->how[i].in = has_axis(&p->ax.in[i], all.in) ? all.in : -1;
            p->how[i].off_unit = false;
            p->how[i].partial = p->how[i].partial == all.partial ? all.partial : 0;
            if (p->how[i].partial == HSP_IN_GROUPS && p->how[i].over != all.over) {
                p->how[i].partial = 0;
            }
        }
        all = i == 0 ? p->how[0] : all;
        p->rest[i] = choose(p, &p->ax.in[i], 0);
        p->rest[i].off_unit = false;
    }
    p->want = choose(p, &p->ax.out[0], 0);
    p->want.over = -1;
}

/* ---- values ---- */

static struct hsp_array array_of(struct problem *p, enum hsp_dtype dtype, const struct hsp_box *b)
{
    struct hsp_array a = {.dtype = dtype, .rank = b->rank};
    for (uint8_t d = 0; d < b->rank; d++) {
        a.ext[d] = b->hi[d] - b->lo[d];
    }
    a.data = hsp_arena_array(p->arena, (size_t)hsp_naive_count(&a) + 1, 8);
    assert_non_null(a.data);
    return a;
}

/* Coordinates of element @k of a box. */
static void coordinates(const struct hsp_box *b, int64_t k, int64_t *at)
{
    for (uint8_t d = b->rank; d-- > 0;) {
        int64_t ext = b->hi[d] - b->lo[d];
        at[d] = b->lo[d] + k % ext;
        k /= ext;
    }
}

static int64_t index_in(const struct hsp_box *b, const int64_t *at)
{
    int64_t k = 0;
    for (uint8_t d = 0; d < b->rank; d++) {
        k = k * (b->hi[d] - b->lo[d]) + at[d] - b->lo[d];
    }
    return k;
}

static bool holds(const struct hsp_box *b, const int64_t *at)
{
    for (uint8_t d = 0; d < b->rank; d++) {
        if (at[d] < b->lo[d] || at[d] >= b->hi[d]) {
            return false;
        }
    }
    return true;
}

static double int_value(struct problem *p, uint8_t i, const int64_t *at)
{
    switch (p->op) {
    case HSP_OP_EMBED: return (double)pick(p, 0, p->extent[2] - 1);
    case HSP_OP_EMBED_DW: return (double)pick(p, 0, p->at.i[0] - 1);
    case HSP_OP_ROPE:
    case HSP_OP_ROPE_DX: return (double)pick(p, 0, 5);
    case HSP_OP_DROPOUT: return (double)pick(p, 0, 1 << 20);
    case HSP_OP_PACKED_ATTENTION:
    case HSP_OP_PACKED_ATTENTION_BWD: return (double)pick(p, 0, at[1]);
    default:
        for (uint8_t a = 0; a < p->ax.n_axes; a++) {
            if (p->ax.axis[a].name == 'v') {
                return (double)pick(p, -1, p->extent[a] - 1);
            }
        }
        (void)i;
        return (double)pick(p, -1, 3);
    }
}

/* The whole operand; of a sum the total of its addends where members hold them. */
static void fill(struct problem *p, uint8_t i)
{
    struct operand *x = &p->x[i];
    struct hsp_box whole = hsp_box_whole(x->at.rank, x->at.extent);
    int64_t at[HSP_MAX_RANK];
    x->whole = array_of(p, is_int(p->op, i) ? HSP_I32 : HSP_F64, &whole);
    for (uint32_t j = 0; j < p->tiers.n; j++) {
        x->addend[j] = array_of(p, HSP_F64, &whole);
    }
    for (int64_t k = 0; k < hsp_naive_count(&x->whole); k++) {
        double v = 0;
        coordinates(&whole, k, at);
        if (x->at.partial == 0) {
            v = is_int(p->op, i) ? int_value(p, i, at) : number(p);
        }
        for (uint32_t label = 0; x->at.partial != 0 && label < p->tiers.n; label++) {
            bool held = false;
            for (uint32_t j = 0; j < p->tiers.n; j++) {
                held = held || (x->at.addend[j] == label && holds(&x->at.box[j], at));
            }
            hsp_naive_put(&x->addend[label], k, held ? number(p) : 0);
            v += hsp_naive_get(&x->addend[label], k);
        }
        hsp_naive_put(&x->whole, k, v);
    }
}

static void run(struct problem *p, const struct hsp_array *in, struct hsp_array *out,
                const int64_t *origin)
{
    static const struct hsp_update_scalars scalars = {
        .lr = 0.1, .grad_scale = 0.5, .bias1 = 0.3, .bias2 = 0.2};
    hsp_naive_op(&(struct hsp_call){.op = p->op,
                                    .at = &p->at,
                                    .n_in = p->ax.n_in,
                                    .n_out = p->ax.n_out,
                                    .in = in,
                                    .out = out,
                                    .origin = {origin[0], origin[1]},
                                    .update = &scalars});
}

/* ---- one member ---- */

static void take(struct problem *p, uint8_t i, const struct hsp_layout *need, uint32_t j,
                 struct hsp_array *ret)
{
    const struct operand *x = &p->x[i];
    struct hsp_box whole = hsp_box_whole(x->at.rank, x->at.extent);
    int64_t at[HSP_MAX_RANK];
    *ret = array_of(p, x->whole.dtype, &need->box[j]);
    for (int64_t k = 0; k < hsp_naive_count(ret); k++) {
        coordinates(&need->box[j], k, at);
        const struct hsp_array *from = need->partial != 0 ? &x->addend[x->at.addend[j]] : &x->whole;
        hsp_naive_put(ret, k, hsp_naive_get(from, index_in(&whole, at)));
    }
}

static void run_member(struct problem *p, const struct hsp_deduced *d, uint32_t j,
                       struct hsp_array *out)
{
    struct hsp_array in[HSP_MAX_IN];
    int64_t origin[2] = {0};
    uint32_t n = 0;
    for (uint8_t i = 0; i < p->ax.n_in + p->ax.n_out; i++) {
        bool is_in = i < p->ax.n_in;
        const struct hsp_operand_use *u = is_in ? &p->ax.in[i] : &p->ax.out[i - p->ax.n_in];
        const struct hsp_layout *l = is_in ? &d->need[i] : &d->out[i - p->ax.n_in];
        for (uint8_t k = 0; k < u->rank && n < 2; k++) {
            if (u->dim[k].origin) {
                origin[n++] = l->box[j].lo[k];
            }
        }
        if (is_in) {
            take(p, i, l, j, &in[i]);
        } else {
            out[i - p->ax.n_in] = array_of(p, HSP_F64, &l->box[j]);
        }
    }
    run(p, in, out, origin);
}

/* ---- judgement ---- */

static void equal(const struct problem *p, double a, double b, const char *what)
{
    bool same = (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-9 * (1 + fabs(b));
    if (!same) {
        fail_msg("%s: %s is %.12g, not %.12g, on %u members in %u groups", hsp_op_name(p->op), what,
                 a, b, p->tiers.n, p->tiers.n_groups);
    }
}

/* The value at an index is the sum over the distinct addends there, equal addends are equal. */
static void check_result(const struct problem *p, const struct hsp_layout *l, uint8_t o,
                         struct hsp_array out[][HSP_MAX_OUT])
{
    struct hsp_box whole = hsp_box_whole(l->rank, l->extent);
    int64_t at[HSP_MAX_RANK];
    for (int64_t k = 0; k < hsp_naive_count(&p->y[o]); k++) {
        double sum = 0, of[MEMBERS] = {0};
        bool seen[MEMBERS] = {false}, any = false;
        coordinates(&whole, k, at);
        for (uint32_t j = 0; j < l->n; j++) {
            uint32_t label = l->addend[j];
            if (!holds(&l->box[j], at)) {
                continue;
            }
            double v = hsp_naive_get(&out[j][o], index_in(&l->box[j], at));
            if (seen[label]) {
                equal(p, v, of[label], "a copy");
            } else {
                sum += v;
            }
            seen[label] = any = true;
            of[label] = v;
        }
        assert_true(any);
        equal(p, sum, hsp_naive_get(&p->y[o], k), "a result");
    }
}

/* At most one dim is cut in a tier, and none where the value is a sum. */
static void check_tiers(const struct problem *p, const struct hsp_layout *l)
{
    int cut = 0, split = 0;
    for (uint8_t d = 0; d < l->rank; d++) {
        cut += l->cut[d] != 0;
        split += l->split[d] != 0;
    }
    assert_true(cut + ((l->partial & HSP_IN_GROUPS) != 0) <= 1);
    assert_true(split + ((l->partial & HSP_OVER_GROUPS) != 0) <= 1);
    assert_true(p->tiers.n_groups > 1 || (split == 0 && (l->partial & HSP_OVER_GROUPS) == 0));
}

static struct hsp_deduced ask(struct problem *p)
{
    const struct hsp_layout *rests[HSP_MAX_IN];
    struct hsp_layout in[HSP_MAX_IN], want = layout_of(p, &p->ax.out[0], &p->want);
    struct hsp_deduced d;
    struct hsp_err err = {0};
    uint64_t draw = p->draw;
    struct hsp_question q = {.op = p->op,
                             .at = &p->at,
                             .n_in = p->ax.n_in,
                             .n_out = p->ax.n_out,
                             .in = in,
                             .rest = pick(p, 0, 1) == 0 ? rests : NULL,
                             .uses = (uint32_t)pick(p, 0, (1 << p->ax.n_in) - 1),
                             .reads = (uint32_t)pick(p, 0, (1 << p->ax.n_in) - 1),
                             .want = pick(p, 0, 1) == 0 ? &want : NULL,
                             .tiers = p->tiers};
    for (uint8_t i = 0; i < p->ax.n_in; i++) {
        p->x[i].at = in[i] = layout_of(p, &p->ax.in[i], &p->how[i]);
        p->x[i].rest = layout_of(p, &p->ax.in[i], &p->rest[i]);
        rests[i] = &p->x[i].rest;
    }
    assert_ok(hsp_deduce(&q, p->arena, &d, &err), &err);
    p->draw = draw;
    return d;
}

static void check_values(struct problem *p, const struct hsp_deduced *d)
{
    struct hsp_array in[HSP_MAX_IN], out[MEMBERS][HSP_MAX_OUT];
    static const int64_t start[2] = {0};
    for (uint8_t i = 0; i < p->ax.n_in; i++) {
        fill(p, i);
        in[i] = p->x[i].whole;
        assert_true(d->need[i].partial == 0 || (d->need[i].partial == p->x[i].at.partial &&
                                                hsp_layout_inside(&d->need[i], &p->x[i].at)));
        check_tiers(p, &d->need[i]);
    }
    for (uint8_t o = 0; o < p->ax.n_out; o++) {
        struct hsp_box whole = hsp_box_whole(d->out[o].rank, d->out[o].extent);
        p->y[o] = array_of(p, HSP_F64, &whole);
        check_tiers(p, &d->out[o]);
    }
    run(p, in, p->y, start);
    for (uint32_t j = 0; j < p->tiers.n; j++) {
        run_member(p, d, j, out[j]);
    }
    for (uint8_t o = 0; o < p->ax.n_out; o++) {
        check_result(p, &d->out[o], o, out);
    }
}

static void same_structure(const struct problem *p, const struct hsp_layout *a,
                           const struct hsp_layout *b)
{
    bool same = a->partial == b->partial;
    for (uint8_t d = 0; d < a->rank; d++) {
        same = same && a->cut[d] == b->cut[d] && a->split[d] == b->split[d];
    }
    if (!same) {
        fail_msg("%s: what is deduced depends on shares", hsp_op_name(p->op));
    }
}

static void check_op(enum hsp_op op, uint64_t round)
{
    struct problem p = {.arena = hsp_arena_new((size_t)64 << 20), .op = op};
    struct hsp_err err = {0};
    p.draw = ((uint64_t)op << 32) + (round << 16);
    choose_attrs(&p);
    assert_ok(hsp_op_axes(op, &p.at, (uint8_t)pick(&p, 1, 3), &p.ax, &err), &err);
    choose_extents(&p);
    choose_groups(&p);
    choose_cuts(&p);
    choose_layouts(&p);
    uint64_t draw = p.draw;
    struct hsp_deduced d = ask(&p);
    check_values(&p, &d);
    bool off_unit = p.want.off_unit;
    for (uint8_t i = 0; i < p.ax.n_in; i++) {
        off_unit = off_unit || p.how[i].off_unit;
    }
    choose_cuts(&p);
    p.draw = draw; /* the same question */
    struct hsp_deduced e = ask(&p);
    for (uint8_t i = 0; !off_unit && i < p.ax.n_in + p.ax.n_out; i++) {
        bool in = i < p.ax.n_in;
        same_structure(&p, in ? &d.need[i] : &d.out[i - p.ax.n_in],
                       in ? &e.need[i] : &e.out[i - p.ax.n_in]);
    }
    hsp_arena_free(p.arena);
}

static void every_op_as_a_whole(void **state)
{
    (void)state;
    for (int op = 0; op < HSP_N_OPS; op++) {
        for (uint64_t i = 0; i < hsp_test_rounds(400); i++) {
            check_op((enum hsp_op)op, i);
        }
    }
}

HSP_TEST_FILE(oracle_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_op_as_a_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
