#include "daemon/spmd/sharding/deduce.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/check.h"

/* The cuts of one tier while an op is deduced. */
struct keep {
    int rank; /* 0: nothing is cut; else how much its axis wants to stay */
    uint8_t axis;
    uint32_t name; /* of the cut */
};
enum { KEEP_READ = 1, KEEP_ANY, KEEP_WANTED, KEEP_USE };

struct range {
    int64_t lo, hi; /* units of the axis */
};

struct ded {
    const struct hsp_question *q;
    const char *name;
    struct hsp_axes ax;
    int64_t extent[HSP_MAX_AXES];
    struct hsp_layout *need; /* per operand, current choice */
    uint8_t partial;         /* tiers over which the linear set is a sum */
    struct keep in, over;    /* of the two tiers */
    bool again;              /* an operand was completed: the rules start again */
    struct range *range;     /* [member * HSP_MAX_AXES + axis] */
    struct hsp_arena *arena;
    struct hsp_err *err;
};

/* ---- sums ---- */

static enum hsp_status complete_operand(struct ded *c, uint32_t i)
{
    const struct hsp_layout *rest = c->q->rest != NULL ? c->q->rest[i] : NULL;
    c->again = true;
    return hsp_layout_complete(&c->need[i], rest, &c->q->tiers, c->arena, &c->need[i], c->err);
}

/* Addends of one operand are worth nothing without those of the others. */
static enum hsp_status complete_all(struct ded *c)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < c->q->n_in; i++) {
        if (hsp_layout_partial(&c->need[i])) {
            rc = complete_operand(c, i);
        }
    }
    return rc;
}

/* Rule 2, as far as operands decide it. */
static enum hsp_status settle_sums(struct ded *c)
{
    uint32_t mask = 0;
    bool equal = true;
    c->partial = 0;
    for (uint32_t i = 0; i < c->q->n_in; i++) {
        uint8_t p = c->need[i].partial;
        if (p != 0) {
            equal = equal && (c->partial == 0 || c->partial == p);
            c->partial = p;
            mask |= 1u << i;
        }
    }
    bool linear = equal && (mask == c->ax.linear[0] || mask == c->ax.linear[1]);
    if (mask == 0 || (linear && !c->q->values)) {
        return HSP_OK;
    }
    enum hsp_status rc = complete_all(c);
    c->partial = 0;
    c->again = false; /* the other rules have not begun */
    return rc;
}

/* ---- cuts ---- */

/* Makes dim @d of operand @i whole inside of groups, and between them if @over. A sum is completed
 * instead, and the rules start again. */
static enum hsp_status uncut(struct ded *c, uint32_t i, uint8_t d, bool over)
{
    if (hsp_layout_partial(&c->need[i])) {
        return complete_all(c);
    }
    return hsp_layout_uncut(&c->need[i], d, over, &c->q->tiers, c->arena, c->err);
}

static bool on_units(const struct hsp_layout *l, uint8_t d, int64_t unit)
{
    for (uint32_t j = 0; unit > 1 && j < l->n; j++) {
        if (l->box[j].lo[d] % unit != 0 || l->box[j].hi[d] % unit != 0) {
            return false;
        }
    }
    return true;
}

/* Rule 1. */
static enum hsp_status uncut_whole(struct ded *c)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; i < c->q->n_in; i++) {
        const struct hsp_operand_use *u = &c->ax.in[i];
        for (uint8_t d = 0; rc == HSP_OK && !c->again && d < u->rank; d++) {
            bool whole = c->ax.axis[u->dim[d].axis].cls == HSP_AXIS_WHOLE;
            const struct hsp_layout *l = &c->need[i];
            if (l->cut[d] != 0 && (whole || !on_units(l, d, u->dim[d].unit))) {
                rc = uncut(c, i, d, false);
            }
            l = &c->need[i];
            if (rc == HSP_OK && !c->again && l->split[d] != 0 &&
                (whole || !on_units(l, d, u->dim[d].unit))) {
                rc = uncut(c, i, d, true);
            }
        }
    }
    return rc;
}

static bool operand_has(const struct ded *c, uint8_t axis)
{
    for (uint32_t i = 0; i < c->q->n_in; i++) {
        for (uint8_t d = 0; d < c->ax.in[i].rank; d++) {
            if (c->ax.in[i].dim[d].axis == (int8_t)axis) {
                return true;
            }
        }
    }
    return false;
}

/* Name of the cut inside of groups that the wanted result has along @axis; 0: none. */
static uint32_t wanted(const struct ded *c, uint8_t axis)
{
    const struct hsp_operand_use *u = &c->ax.out[0];
    for (uint8_t d = 0; c->q->want != NULL && d < u->rank; d++) {
        if (u->dim[d].axis == (int8_t)axis && on_units(c->q->want, d, u->dim[d].unit)) {
            return c->q->want->cut[d];
        }
    }
    return 0;
}

/* The name by which dim @d of @l is cut in the tier. Inside of groups a cut refines that between
 * them along the same axis, or is none of the op's. */
static uint32_t name_of(const struct ded *c, const struct hsp_layout *l, uint8_t d, uint8_t axis,
                        bool over)
{
    if (over) {
        return l->split[d];
    }
    return c->over.rank > 0 && c->over.axis == axis && l->split[d] != c->over.name ? 0 : l->cut[d];
}

/* Which axis stays cut in the tier. */
static struct keep choose(const struct ded *c, bool over)
{
    struct keep best = {0};
    uint8_t most = 0; /* dims of the operand it is of */
    for (uint32_t i = 0; i < c->q->n_in; i++) {
        for (uint8_t d = 0; d < c->ax.in[i].rank; d++) {
            uint8_t axis = (uint8_t)c->ax.in[i].dim[d].axis;
            uint32_t name = name_of(c, &c->need[i], d, axis, over);
            int rank = c->q->reads >> i & 1               ? KEEP_READ
                       : c->q->uses >> i & 1              ? KEEP_USE
                       : !over && wanted(c, axis) == name ? KEEP_WANTED
                                                          : KEEP_ANY;
            bool larger = rank == KEEP_ANY && best.rank == KEEP_ANY && c->ax.in[i].rank > most;
            if (name != 0 && (rank > best.rank || larger)) {
                best = (struct keep){rank, axis, name};
                most = c->ax.in[i].rank;
            }
        }
    }
    for (uint8_t a = 0; !over && (c->partial & HSP_IN_GROUPS) == 0 && a < c->ax.n_axes; a++) {
        bool own = !operand_has(c, a) && c->ax.axis[a].cls != HSP_AXIS_WHOLE;
        uint32_t name = own ? wanted(c, a) : 0;
        if (name != 0 && KEEP_WANTED > best.rank) {
            best = (struct keep){KEEP_WANTED, a, name};
        }
    }
    return best;
}

/* Rule 3 for one tier, and its answer by rule 2. */
static enum hsp_status settle_tier(struct ded *c, bool over)
{
    uint8_t tier = over ? HSP_OVER_GROUPS : HSP_IN_GROUPS;
    struct keep *keep = over ? &c->over : &c->in;
    enum hsp_status rc = HSP_OK;
    *keep = choose(c, over);
    if (keep->rank > 0 && (c->partial & tier) != 0) {
        return complete_all(c);
    }
    for (uint32_t i = 0; i < c->q->n_in; i++) {
        for (uint8_t d = 0; rc == HSP_OK && !c->again && d < c->ax.in[i].rank; d++) {
            uint8_t axis = (uint8_t)c->ax.in[i].dim[d].axis;
            uint32_t is = over ? c->need[i].split[d] : c->need[i].cut[d];
            uint32_t name = name_of(c, &c->need[i], d, axis, over);
            if (is != 0 && (name == 0 || name != keep->name || axis != keep->axis)) {
                rc = uncut(c, i, d, over);
            }
        }
    }
    return rc;
}

static bool has_axis(const struct hsp_operand_use *u, uint8_t axis)
{
    for (uint8_t d = 0; d < u->rank; d++) {
        if (u->dim[d].axis == (int8_t)axis) {
            return true;
        }
    }
    return false;
}

/* Rule 4. */
static enum hsp_status settle_copies(struct ded *c)
{
    bool summed = false;
    enum hsp_status rc = HSP_OK;
    if (c->q->tiers.n_groups == 1 || c->in.rank == 0 || c->over.rank > 0 ||
        (c->partial & HSP_OVER_GROUPS) != 0) {
        return HSP_OK;
    }
    for (uint8_t o = 0; o < c->ax.n_out; o++) {
        summed = summed || !has_axis(&c->ax.out[o], c->in.axis);
    }
    for (uint32_t i = 0; summed && i < c->q->n_in; i++) {
        for (uint8_t d = 0; rc == HSP_OK && !c->again && d < c->ax.in[i].rank; d++) {
            if (c->need[i].cut[d] != 0) {
                rc = uncut(c, i, d, false);
            }
        }
    }
    c->in.rank = summed ? 0 : c->in.rank;
    return rc;
}

/* Chooses layouts of all operands: rules 1 to 4 of the header. */
static enum hsp_status settle(struct ded *c)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t round = 0; rc == HSP_OK; round++) {
        HSP_ASSERT(round <= c->q->n_in + 1); /* each time some sum was completed */
        c->again = false;
        c->in = c->over = (struct keep){0};
        rc = settle_sums(c);
        if (rc == HSP_OK) {
            rc = uncut_whole(c);
        }
        if (rc == HSP_OK && !c->again) {
            rc = settle_tier(c, true);
        }
        if (rc == HSP_OK && !c->again) {
            rc = settle_tier(c, false);
        }
        if (rc == HSP_OK && !c->again) {
            rc = settle_copies(c);
        }
        if (rc == HSP_OK && !c->again) {
            return HSP_OK;
        }
    }
    return rc;
}

/* ---- ranges, slices, results ---- */

static void narrow(struct ded *c, const struct hsp_operand_use *u, const struct hsp_layout *l,
                   uint8_t d)
{
    int64_t unit = u->dim[d].unit;
    for (uint32_t j = 0; j < l->n; j++) {
        struct range *r = &c->range[j * HSP_MAX_AXES + (uint8_t)u->dim[d].axis];
        int64_t lo = l->box[j].lo[d] / unit, hi = l->box[j].hi[d] / unit;
        r->lo = lo > r->lo ? lo : r->lo;
        r->hi = hi < r->hi ? hi : r->hi;
        r->hi = r->hi < r->lo ? r->lo : r->hi;
    }
}

static void take_ranges(struct ded *c)
{
    for (uint32_t j = 0; j < c->q->tiers.n; j++) {
        for (uint8_t a = 0; a < c->ax.n_axes; a++) {
            c->range[j * HSP_MAX_AXES + a] = (struct range){0, c->extent[a]};
        }
    }
    for (uint32_t i = 0; i < c->q->n_in; i++) {
        for (uint8_t d = 0; d < c->ax.in[i].rank; d++) {
            narrow(c, &c->ax.in[i], &c->need[i], d);
        }
    }
    for (uint8_t d = 0; c->in.rank == KEEP_WANTED && d < c->ax.out[0].rank; d++) {
        if (c->ax.out[0].dim[d].axis == (int8_t)c->in.axis && !operand_has(c, c->in.axis)) {
            narrow(c, &c->ax.out[0], c->q->want, d);
        }
    }
}

/* Boxes and names of @l as the axes say. */
static void put_ranges(const struct ded *c, const struct hsp_operand_use *u, struct hsp_layout *l)
{
    for (uint8_t d = 0; d < u->rank; d++) {
        uint8_t a = (uint8_t)u->dim[d].axis;
        l->cut[d] = c->in.rank > 0 && c->in.axis == a ? c->in.name : 0;
        l->split[d] = c->over.rank > 0 && c->over.axis == a ? c->over.name : 0;
        for (uint32_t j = 0; j < l->n; j++) {
            const struct range *r = &c->range[j * HSP_MAX_AXES + a];
            l->box[j].lo[d] = r->lo * u->dim[d].unit;
            l->box[j].hi[d] = r->hi * u->dim[d].unit;
        }
    }
}

static bool is_wider(const struct ded *c, const struct hsp_operand_use *u,
                     const struct hsp_layout *l)
{
    for (uint8_t d = 0; d < u->rank; d++) {
        uint8_t a = (uint8_t)u->dim[d].axis;
        if ((c->in.rank > 0 && c->in.axis == a && l->cut[d] != c->in.name) ||
            (c->over.rank > 0 && c->over.axis == a && l->split[d] != c->over.name)) {
            return true;
        }
    }
    return false;
}

/* Slices the operands that hold more than the axes need. */
static enum hsp_status slice_operands(struct ded *c)
{
    for (uint32_t i = 0; i < c->q->n_in; i++) {
        struct hsp_layout *l = &c->need[i];
        if (!is_wider(c, &c->ax.in[i], l)) {
            continue;
        }
        l->box = hsp_arena_memdup(c->arena, l->box, l->n * sizeof *l->box);
        if (l->box == NULL) {
            return hsp_err_nomem(c->err, "layout of %u members", l->n);
        }
        put_ranges(c, &c->ax.in[i], l);
    }
    return HSP_OK;
}

static enum hsp_status deduce_out(struct ded *c, uint32_t o, struct hsp_layout *ret)
{
    const struct hsp_operand_use *u = &c->ax.out[o];
    int64_t ext[HSP_MAX_RANK] = {0};
    uint8_t partial = c->partial;
    struct hsp_layout l;
    for (uint8_t d = 0; d < u->rank; d++) {
        ext[d] = c->extent[u->dim[d].axis] * u->dim[d].unit;
    }
    enum hsp_status rc = hsp_layout_whole(u->rank, ext, c->q->tiers.n, c->arena, &l, c->err);
    if (rc != HSP_OK) {
        return rc;
    }
    put_ranges(c, u, &l);
    if (c->in.rank > 0 && !has_axis(u, c->in.axis)) {
        partial |= HSP_IN_GROUPS;
    }
    if (c->over.rank > 0 && !has_axis(u, c->over.axis)) {
        partial |= HSP_OVER_GROUPS;
    }
    return hsp_layout_sum(&l, partial, &c->q->tiers, c->arena, ret, c->err);
}

static enum hsp_status read_axes(struct ded *c)
{
    const struct hsp_layout *in = c->q->in;
    int64_t ext[HSP_MAX_IN][HSP_MAX_RANK] = {{0}};
    uint8_t rank = 0;
    for (uint32_t i = 0; i < c->q->n_in; i++) {
        rank = in[i].rank > rank ? in[i].rank : rank;
        memcpy(ext[i], in[i].extent, sizeof ext[i]);
    }
    enum hsp_status rc = hsp_op_axes(c->q->op, c->q->at, rank, &c->ax, c->err);
    for (uint32_t i = 0; rc == HSP_OK && i < c->q->n_in; i++) {
        if (c->ax.in[i].rank != in[i].rank || c->ax.n_in != c->q->n_in) {
            rc = hsp_err_set(c->err, HSP_EINVAL, 0, "%s: operand %u has rank %u, not %u", c->name,
                             i, in[i].rank, c->ax.in[i].rank);
        }
    }
    return rc == HSP_OK ? hsp_op_extents(c->q->op, c->q->at, &c->ax, ext, c->extent, c->err) : rc;
}

enum hsp_status hsp_deduce(const struct hsp_question *q, struct hsp_arena *arena,
                           struct hsp_deduced *ret, struct hsp_err *err)
{
    struct ded c = {.q = q, .name = hsp_op_name(q->op), .arena = arena, .err = err};
    HSP_ASSERT(q->n_in > 0 && q->n_in <= HSP_MAX_IN && q->n_out <= HSP_MAX_OUT);
    enum hsp_status rc = read_axes(&c);
    if (rc != HSP_OK) {
        return rc;
    }
    memcpy(ret->need, q->in, q->n_in * sizeof *q->in);
    c.need = ret->need;
    c.range = hsp_arena_array(arena, (size_t)q->tiers.n * HSP_MAX_AXES, sizeof *c.range);
    if (c.range == NULL) {
        return hsp_err_nomem(err, "ranges of %s over %u members", c.name, q->tiers.n);
    }
    rc = settle(&c);
    if (rc == HSP_OK) {
        take_ranges(&c);
        rc = slice_operands(&c);
    }
    for (uint32_t o = 0; rc == HSP_OK && o < q->n_out; o++) {
        rc = deduce_out(&c, o, &ret->out[o]);
    }
    return rc;
}
