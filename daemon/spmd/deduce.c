#include "daemon/spmd/deduce.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/size.h"

enum hsp_status hsp_layout_whole(uint8_t rank, const int64_t *extent, uint32_t n,
                                 struct hsp_arena *arena, struct hsp_layout *ret,
                                 struct hsp_err *err)
{
    struct hsp_layout l = {.rank = rank, .n = n};
    l.box = hsp_arena_array(arena, n, sizeof *l.box);
    l.addend = hsp_arena_array(arena, n, sizeof *l.addend);
    if (l.box == NULL || l.addend == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "layout of %u members", n);
    }
    for (uint8_t d = 0; d < rank; d++) {
        l.extent[d] = extent[d];
    }
    for (uint32_t j = 0; j < n; j++) {
        l.box[j] = hsp_box_whole(rank, extent);
    }
    *ret = l;
    return HSP_OK;
}

bool hsp_layout_equal(const struct hsp_layout *a, const struct hsp_layout *b)
{
    if (a->rank != b->rank || a->n != b->n) {
        return false;
    }
    for (uint32_t j = 0; j < a->n; j++) {
        if (!hsp_box_equal(&a->box[j], &b->box[j]) || a->addend[j] != b->addend[j]) {
            return false;
        }
    }
    return true;
}

bool hsp_layout_partial(const struct hsp_layout *l)
{
    for (uint32_t j = 1; j < l->n; j++) {
        if (l->addend[j] != l->addend[0]) {
            return true;
        }
    }
    return false;
}

bool hsp_layout_cut(const struct hsp_layout *l)
{
    for (uint8_t d = 0; d < l->rank; d++) {
        if (l->cut[d] != 0) {
            return true;
        }
    }
    return false;
}

enum hsp_status hsp_layout_complete(const struct hsp_layout *l, struct hsp_arena *arena,
                                    struct hsp_layout *ret, struct hsp_err *err)
{
    *ret = *l; /* boxes are shared: a layout never changes */
    ret->addend = hsp_arena_array(arena, l->n, sizeof *ret->addend);
    if (ret->addend == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "layout of %u members", l->n);
    }
    return HSP_OK;
}

bool hsp_layout_inside(const struct hsp_layout *in, const struct hsp_layout *out)
{
    for (uint32_t j = 0; j < in->n; j++) {
        if (in->addend[j] != out->addend[j] ||
            (!hsp_box_empty(&in->box[j]) && !hsp_box_inside(&in->box[j], &out->box[j]))) {
            return false;
        }
    }
    return true;
}

/* ---- one op ---- */

struct range {
    int64_t lo, hi; /* units of the axis */
};

struct ded {
    const char *name;
    struct hsp_axes ax;
    int64_t extent[HSP_MAX_AXES];
    uint32_t n; /* members */
    uint32_t n_in;
    struct hsp_layout *need;          /* per operand, current choice */
    const struct hsp_layout *want;    /* may be NULL */
    uint32_t cut[HSP_MAX_AXES];       /* name of the axis's cut */
    struct range *range;              /* [member * HSP_MAX_AXES + axis] */
    const struct hsp_layout *partial; /* an operand of the chosen linear set, or NULL */
    struct hsp_arena *arena;
    struct hsp_err *err;
};

static enum hsp_status gather(struct ded *c, uint32_t i)
{
    struct hsp_layout *l = &c->need[i];
    return hsp_layout_whole(l->rank, l->extent, l->n, c->arena, l, c->err);
}

static enum hsp_status gather_whole_axes(struct ded *c)
{
    for (uint32_t i = 0; i < c->n_in; i++) {
        const struct hsp_operand_use *u = &c->ax.in[i];
        for (uint8_t d = 0; d < u->rank; d++) {
            if (c->need[i].cut[d] != 0 && c->ax.axis[u->dim[d].axis].cls == HSP_AXIS_WHOLE) {
                enum hsp_status rc = gather(c, i);
                if (rc != HSP_OK) {
                    return rc;
                }
            }
        }
    }
    return HSP_OK;
}

/* Whether the partial operands @mask are exactly linear set @set with equal addends. */
static bool set_is_legal(const struct ded *c, uint32_t mask, uint32_t set)
{
    const struct hsp_layout *first = NULL;
    if (set == 0 || mask != set) {
        return false;
    }
    for (uint32_t i = 0; i < c->n_in; i++) {
        if ((set & (1u << i)) == 0) {
            continue;
        }
        first = first == NULL ? &c->need[i] : first;
        if (memcmp(first->addend, c->need[i].addend, c->n * sizeof *first->addend) != 0) {
            return false;
        }
    }
    return true;
}

static enum hsp_status settle_partial(struct ded *c)
{
    uint32_t mask = 0;
    c->partial = NULL;
    for (uint32_t i = 0; i < c->n_in; i++) {
        if (hsp_layout_partial(&c->need[i])) {
            mask |= 1u << i;
            c->partial = &c->need[i];
        }
    }
    if (mask == 0 || set_is_legal(c, mask, c->ax.linear[0]) ||
        set_is_legal(c, mask, c->ax.linear[1])) {
        return HSP_OK;
    }
    c->partial = NULL;
    for (uint32_t i = 0; i < c->n_in; i++) {
        if ((mask & (1u << i)) != 0) {
            enum hsp_status rc = hsp_layout_complete(&c->need[i], c->arena, &c->need[i], c->err);
            if (rc != HSP_OK) {
                return rc;
            }
        }
    }
    return HSP_OK;
}

/* Narrows every axis by one operand. False: the ranges are not nested, or not on the axis's unit.
 */
static bool narrow(struct ded *c, const struct hsp_operand_use *u, const struct hsp_layout *l)
{
    for (uint8_t d = 0; d < u->rank; d++) {
        int64_t unit = u->dim[d].unit;
        uint8_t a = (uint8_t)u->dim[d].axis;
        if (l->cut[d] == 0) {
            continue;
        }
        if (c->cut[a] != 0 && c->cut[a] != l->cut[d]) {
            bool inside = true; /* another cut: the finer one counts if it refines the other */
            for (uint32_t j = 0; j < c->n; j++) {
                const struct range *r = &c->range[j * HSP_MAX_AXES + a];
                inside =
                    inside && r->lo * unit <= l->box[j].lo[d] && l->box[j].hi[d] <= r->hi * unit;
            }
            if (!inside) {
                return false;
            }
        }
        c->cut[a] = l->cut[d];
        for (uint32_t j = 0; j < c->n; j++) {
            if (l->box[j].lo[d] % unit != 0 || l->box[j].hi[d] % unit != 0) {
                return false;
            }
            c->range[j * HSP_MAX_AXES + a] =
                (struct range){l->box[j].lo[d] / unit, l->box[j].hi[d] / unit};
        }
    }
    return true;
}

static bool take_ranges(struct ded *c)
{
    for (uint32_t j = 0; j < c->n; j++) {
        for (uint8_t a = 0; a < c->ax.n_axes; a++) {
            c->range[j * HSP_MAX_AXES + a] = (struct range){0, c->extent[a]};
        }
    }
    memset(c->cut, 0, sizeof c->cut);
    for (uint32_t i = 0; i < c->n_in; i++) {
        if (!narrow(c, &c->ax.in[i], &c->need[i])) {
            return false;
        }
    }
    if (c->want == NULL) {
        return true;
    }
    struct hsp_operand_use alone = c->ax.out[0]; /* axes no operand has follow the wish */
    struct hsp_layout wish = *c->want;
    for (uint8_t d = 0; d < alone.rank; d++) {
        for (uint32_t i = 0; i < c->n_in; i++) {
            for (uint8_t k = 0; k < c->ax.in[i].rank; k++) {
                wish.cut[d] = c->ax.in[i].dim[k].axis == alone.dim[d].axis ? 0 : wish.cut[d];
            }
        }
    }
    return narrow(c, &alone, &wish);
}

static bool same_ranges(const struct ded *c, uint32_t j, uint32_t k)
{
    for (uint8_t a = 0; a < c->ax.n_axes; a++) {
        const struct range *x = &c->range[j * HSP_MAX_AXES + a];
        const struct range *y = &c->range[k * HSP_MAX_AXES + a];
        if (x->lo != y->lo || x->hi != y->hi) {
            return false;
        }
    }
    return true;
}

static bool disjoint(const struct ded *c, uint32_t j, uint32_t k)
{
    for (uint8_t a = 0; a < c->ax.n_axes; a++) {
        const struct range *x = &c->range[j * HSP_MAX_AXES + a];
        const struct range *y = &c->range[k * HSP_MAX_AXES + a];
        if (x->hi <= y->lo || y->hi <= x->lo) {
            return true;
        }
    }
    return false;
}

static int64_t volume(const struct ded *c, uint32_t j)
{
    int64_t v = 1;
    for (uint8_t a = 0; a < c->ax.n_axes; a++) {
        const struct range *r = &c->range[j * HSP_MAX_AXES + a];
        if (!hsp_mul_i64(v, r->hi - r->lo, &v)) {
            return -1;
        }
    }
    return v;
}

static uint32_t addend_of(const struct ded *c, uint32_t j)
{
    return c->partial != NULL ? c->partial->addend[j] : 0;
}

/* Per addend, the members' work is the whole axis space, each part once (equal parts are one). */
static bool work_is_whole(const struct ded *c)
{
    int64_t whole = 1;
    for (uint8_t a = 0; a < c->ax.n_axes; a++) {
        if (!hsp_mul_i64(whole, c->extent[a], &whole)) {
            return false;
        }
    }
    for (uint32_t first = 0; first < c->n; first++) {
        int64_t sum = 0;
        bool seen = false;
        for (uint32_t j = 0; j < first; j++) {
            seen = seen || addend_of(c, j) == addend_of(c, first);
        }
        for (uint32_t j = first; !seen && j < c->n; j++) {
            bool again = addend_of(c, j) != addend_of(c, first) || volume(c, j) == 0;
            for (uint32_t k = first; !again && k < j; k++) {
                if (addend_of(c, k) != addend_of(c, j)) {
                    continue;
                }
                again = same_ranges(c, j, k);
                if (!again && !disjoint(c, j, k)) {
                    return false;
                }
            }
            sum += again ? 0 : volume(c, j);
        }
        if (!seen && sum != whole) {
            return false;
        }
    }
    return true;
}

/* Chooses layouts of all operands: rules 1 to 4 of the header. */
static enum hsp_status choose(struct ded *c)
{
    enum hsp_status rc = gather_whole_axes(c);
    for (uint32_t round = 0; rc == HSP_OK && round <= 2 * c->n_in; round++) {
        rc = settle_partial(c);
        if (rc != HSP_OK || (take_ranges(c) && work_is_whole(c))) {
            return rc;
        }
        bool changed = false;
        for (uint32_t i = 0; rc == HSP_OK && i < c->n_in; i++) {
            if (hsp_layout_partial(&c->need[i])) {
                rc = hsp_layout_complete(&c->need[i], c->arena, &c->need[i], c->err);
                changed = true;
            }
        }
        for (uint32_t i = c->n_in; rc == HSP_OK && !changed && i-- > 0;) {
            if (hsp_layout_cut(&c->need[i])) {
                rc = gather(c, i);
                changed = true;
            }
        }
        if (!changed) {
            break;
        }
    }
    return rc != HSP_OK
               ? rc
               : hsp_err_set(c->err, HSP_EINVAL, 0, "%s: no layout of its operands works", c->name);
}

/* Slices the operands that hold more than the axes need. */
static enum hsp_status slice_operands(struct ded *c)
{
    for (uint32_t i = 0; i < c->n_in; i++) {
        const struct hsp_operand_use *u = &c->ax.in[i];
        struct hsp_layout *l = &c->need[i];
        bool wider = false;
        for (uint8_t d = 0; d < u->rank; d++) {
            wider = wider || l->cut[d] != c->cut[u->dim[d].axis];
        }
        if (!wider) {
            continue;
        }
        struct hsp_box *box = hsp_arena_memdup(c->arena, l->box, l->n * sizeof *box);
        if (box == NULL) {
            return hsp_err_set(c->err, HSP_ENOMEM, 0, "layout of %u members", l->n);
        }
        for (uint8_t d = 0; d < u->rank; d++) {
            l->cut[d] = c->cut[u->dim[d].axis];
            for (uint32_t j = 0; j < c->n; j++) {
                const struct range *r = &c->range[j * HSP_MAX_AXES + (uint8_t)u->dim[d].axis];
                box[j].lo[d] = r->lo * u->dim[d].unit;
                box[j].hi[d] = r->hi * u->dim[d].unit;
            }
        }
        l->box = box;
    }
    return HSP_OK;
}

/* Whether members @j and @k did the same ranges of the axes that @u lacks: their results are equal
 * addends. Axes on which nobody was cut are equal anyway. */
static bool same_addend(const struct ded *c, const struct hsp_operand_use *u, uint32_t j,
                        uint32_t k)
{
    if (addend_of(c, j) != addend_of(c, k)) {
        return false;
    }
    for (uint8_t a = 0; a < c->ax.n_axes; a++) {
        bool has = false;
        for (uint8_t d = 0; d < u->rank; d++) {
            has = has || u->dim[d].axis == (int8_t)a;
        }
        if (has) {
            continue;
        }
        const struct range *x = &c->range[j * HSP_MAX_AXES + a];
        const struct range *y = &c->range[k * HSP_MAX_AXES + a];
        /* two members with nothing to add are kept apart: each takes part in the sum with zeros */
        if (x->lo != y->lo || x->hi != y->hi || (c->cut[a] != 0 && x->lo == x->hi)) {
            return false;
        }
    }
    return true;
}

static enum hsp_status deduce_out(struct ded *c, uint32_t o, struct hsp_layout *ret)
{
    const struct hsp_operand_use *u = &c->ax.out[o];
    int64_t ext[HSP_MAX_RANK] = {0};
    for (uint8_t d = 0; d < u->rank; d++) {
        ext[d] = c->extent[u->dim[d].axis] * u->dim[d].unit;
    }
    enum hsp_status rc = hsp_layout_whole(u->rank, ext, c->n, c->arena, ret, c->err);
    for (uint8_t d = 0; rc == HSP_OK && d < u->rank; d++) {
        ret->cut[d] = c->cut[u->dim[d].axis];
        for (uint32_t j = 0; j < c->n; j++) {
            const struct range *r = &c->range[j * HSP_MAX_AXES + (uint8_t)u->dim[d].axis];
            ret->box[j].lo[d] = r->lo * u->dim[d].unit;
            ret->box[j].hi[d] = r->hi * u->dim[d].unit;
        }
    }
    for (uint32_t j = 0; rc == HSP_OK && j < c->n; j++) {
        ret->addend[j] = j;
        for (uint32_t k = 0; k < j; k++) {
            if (same_addend(c, u, j, k)) {
                ret->addend[j] = ret->addend[k];
                break;
            }
        }
    }
    return rc;
}

static enum hsp_status read_axes(struct ded *c, enum hsp_op op, const struct hsp_attrs *at,
                                 const struct hsp_layout *in)
{
    int64_t ext[HSP_MAX_IN][HSP_MAX_RANK] = {{0}};
    uint8_t rank = 0;
    for (uint32_t i = 0; i < c->n_in; i++) {
        rank = in[i].rank > rank ? in[i].rank : rank;
        memcpy(ext[i], in[i].extent, sizeof ext[i]);
    }
    enum hsp_status rc = hsp_op_axes(op, at, rank, &c->ax, c->err);
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_in; i++) {
        if (c->ax.in[i].rank != in[i].rank || c->ax.n_in != c->n_in) {
            rc = hsp_err_set(c->err, HSP_EINVAL, 0, "%s: operand %u has rank %u, not %u", c->name,
                             i, in[i].rank, c->ax.in[i].rank);
        }
    }
    return rc == HSP_OK ? hsp_op_extents(op, at, &c->ax, ext, c->extent, c->err) : rc;
}

enum hsp_status hsp_deduce(enum hsp_op op, const struct hsp_attrs *at, uint32_t n_in,
                           uint32_t n_out, const struct hsp_layout *in,
                           const struct hsp_layout *want, struct hsp_arena *arena,
                           struct hsp_deduced *ret, struct hsp_err *err)
{
    struct ded c = {.name = hsp_op_name(op),
                    .n = in[0].n,
                    .n_in = n_in,
                    .want = want,
                    .arena = arena,
                    .err = err};
    HSP_ASSERT(n_in > 0 && n_in <= HSP_MAX_IN && n_out <= HSP_MAX_OUT);
    enum hsp_status rc = read_axes(&c, op, at, in);
    if (rc != HSP_OK) {
        return rc;
    }
    memcpy(ret->need, in, n_in * sizeof *in);
    c.need = ret->need;
    c.range = hsp_arena_array(arena, (size_t)c.n * HSP_MAX_AXES, sizeof *c.range);
    if (c.range == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "%s: ranges of %u members", c.name, c.n);
    }
    rc = choose(&c);
    if (rc == HSP_OK) {
        rc = slice_operands(&c);
    }
    for (uint32_t o = 0; rc == HSP_OK && o < n_out; o++) {
        rc = deduce_out(&c, o, &ret->out[o]);
    }
    return rc;
}
