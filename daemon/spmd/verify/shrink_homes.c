#include "daemon/spmd/verify/shrink_homes.h"

#include <stdlib.h> /* qsort */

#include "daemon/spmd/sharding/param_home.h"
#include "daemon/spmd/sharding/param_use.h"
#include "proto/base/vec.h"

#define MAX_CUTS (1u << 20)

/* Positions along one dim of a parameter, in both sizes. */
struct cuts {
    struct cut {
        int64_t full, small; /* small -1: of a home, to be placed */
        bool home;           /* some home ends here */
    } * at;
    size_t n, cap;
};

static bool add(struct cuts *c, int64_t full, int64_t small)
{
    if (!hsp_grow(&c->at, &c->cap, c->n + 1, sizeof *c->at, MAX_CUTS)) {
        return false;
    }
    c->at[c->n++] = (struct cut){full, small, small < 0};
    return true;
}

/* Orders cuts by place in the full size; at one place known cuts come before cuts that are yet to
 * be placed. */
static int by_place(const void *a, const void *b)
{
    const struct cut *x = a, *y = b;
    if (x->full != y->full) {
        return x->full < y->full ? -1 : 1;
    }
    return x->small > y->small ? -1 : x->small < y->small;
}

/* Places the cuts between at[0] and at[n], which are known, in proportion, each at a place of its
 * own. Returns false if there is no room. */
static bool spread(struct cut *at, int64_t n)
{
    int64_t lo = at[0].small, hi = at[n].small;
    if (hi < lo || (n > 1 && hi - lo < n)) {
        return false;
    }
    for (int64_t k = 1; k < n; k++) {
        double part = (double)(at[k].full - at[0].full) / (double)(at[n].full - at[0].full);
        int64_t x = lo + (int64_t)(part * (double)(hi - lo) + 0.5);
        int64_t least = at[k - 1].small + 1, most = hi - (n - k);
        at[k].small = x < least ? least : x > most ? most : x;
    }
    return true;
}

/* Returns false if a home that is not empty in the full size would be empty here: in the smaller
 * size cuts of two stages may fall on one place. */
static bool homes_apart(const struct cuts *c)
{
    int64_t last = -1;
    for (size_t i = 0; i < c->n; i++) {
        if (c->at[i].home && c->at[i].small <= last) {
            return false;
        }
        last = c->at[i].home ? c->at[i].small : last;
    }
    return true;
}

/* Sorts and merges the cuts, and spreads the unknown cuts between the known ones. Returns false if
 * there is no room. */
static bool place(struct cuts *c)
{
    size_t n = 0;
    qsort(c->at, c->n, sizeof *c->at, by_place);
    for (size_t i = 0; i < c->n; i++) {
        struct cut *last = n > 0 ? &c->at[n - 1] : NULL;
        if (last == NULL || last->full != c->at[i].full) {
            c->at[n++] = c->at[i];
        } else if (c->at[i].small >= 0 && c->at[i].small != last->small) {
            return false; /* one cut, two places: shares that agree by chance */
        }
        c->at[n - 1].home = c->at[n - 1].home || c->at[i].home;
    }
    c->n = n;
    for (size_t i = 0, end; i + 1 < n; i = end) { /* the ends of a dim are known */
        end = i + 1;
        while (c->at[end].small < 0) {
            end++;
        }
        if (!spread(&c->at[i], (int64_t)(end - i))) {
            return false;
        }
    }
    return homes_apart(c);
}

static int64_t placed(const struct cuts *c, int64_t full)
{
    size_t i = 0;
    while (i + 1 < c->n && c->at[i].full != full) {
        i++;
    }
    return c->at[i].small;
}

/* Lists the cuts of a tree below position @lo of its dims. */
static bool list_tree(const struct hsp_annot *a, const int64_t *lo, struct cuts *c)
{
    int64_t at[HSP_MAX_RANK];
    for (uint8_t d = 0; d < HSP_MAX_RANK; d++) {
        at[d] = lo[d];
    }
    bool ok = true;
    for (uint32_t i = 0; ok && a->cuts != NULL && i <= a->n; i++) {
        ok = add(&c[a->dim], lo[a->dim] + a->cuts[i], -1);
    }
    for (uint32_t i = 0; ok && a->tier != HSP_TIER_RANK && i < a->n; i++) {
        if (a->cuts != NULL) {
            at[a->dim] = lo[a->dim] + a->cuts[i];
        }
        ok = list_tree(a->of[i], at, c);
    }
    return ok;
}

static struct hsp_annot *move_tree(const struct hsp_annot *a, const int64_t *lo,
                                   const struct cuts *c, struct hsp_arena *arena)
{
    int64_t at[HSP_MAX_RANK];
    struct hsp_annot *to = hsp_arena_alloc(arena, sizeof *to);
    if (to == NULL) {
        return NULL;
    }
    *to = *a;
    if (a->tier == HSP_TIER_RANK) {
        return to;
    }
    for (uint8_t d = 0; d < HSP_MAX_RANK; d++) {
        at[d] = lo[d];
    }
    to->of = hsp_arena_array(arena, a->n, sizeof *to->of);
    to->cuts = a->cuts != NULL ? hsp_arena_array(arena, a->n + 1, sizeof *to->cuts) : NULL;
    if (to->of == NULL || (a->cuts != NULL && to->cuts == NULL)) {
        return NULL;
    }
    for (uint32_t i = 0; to->cuts != NULL && i <= a->n; i++) {
        const struct cuts *along = &c[a->dim];
        to->cuts[i] = placed(along, lo[a->dim] + a->cuts[i]) - placed(along, lo[a->dim]);
    }
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->cuts != NULL) {
            at[a->dim] = lo[a->dim] + a->cuts[i];
        }
        to->of[i] = move_tree(a->of[i], at, c, arena);
        if (to->of[i] == NULL) {
            return NULL;
        }
    }
    return to;
}

static bool has_interleaved(const struct hsp_annot *a)
{
    bool has = a->interleaved;
    for (uint32_t i = 0; i < a->n && !has; i++) {
        has = has_interleaved(a->of[i]);
    }
    return has;
}

static enum hsp_status count_boxes(const struct hsp_graph *g, uint32_t param,
                                   const struct hsp_annot *a, uint32_t *ret, struct hsp_err *err)
{
    uint32_t tensor = g->params[param].tensor;
    int64_t ext[HSP_MAX_RANK];
    struct hsp_cover c;
    hsp_tensor_extents(g, tensor, 1, ext);
    enum hsp_status rc = hsp_annot_cover(a, g->tensors[tensor].rank, ext, NULL, &c, err);
    *ret = rc == HSP_OK ? c.n : 0;
    hsp_cover_fini(&c);
    return rc;
}

/* Cells of an interleaved split are cut by shares: where they have become so small that a rank has
 * fewer boxes, another tensor would have been needed. */
static enum hsp_status check_boxes(const struct hsp_graph *from, const struct hsp_graph *to,
                                   uint32_t param, const struct hsp_annot *home,
                                   const struct hsp_annot *moved, struct hsp_err *err)
{
    uint32_t full = 0, small = 0;
    if (!has_interleaved(home)) {
        return HSP_OK;
    }
    enum hsp_status rc = count_boxes(from, param, home, &full, err);
    rc = rc == HSP_OK ? count_boxes(to, param, moved, &small, err) : rc;
    return rc != HSP_OK || full == small
               ? rc
               : hsp_err_set(err, HSP_ENOENT, 0, "%u boxes of %s have no room", full,
                             from->tensors[from->params[param].tensor].name);
}

/* The ends of each dim, and the cuts of every stage that uses the parameter. */
static enum hsp_status list_uses(const struct hsp_graph *from, const struct hsp_plan *total,
                                 const bool *units, const struct hsp_graph *to, uint32_t param,
                                 struct hsp_arena *arena, struct cuts *c, struct hsp_err *err)
{
    uint32_t tensor = from->params[param].tensor;
    int64_t full[HSP_MAX_RANK], small[HSP_MAX_RANK];
    int8_t tp = from->params[param].tp_dim;
    hsp_tensor_extents(from, tensor, 1, full);
    hsp_tensor_extents(to, to->params[param].tensor, 1, small);
    for (uint8_t d = 0; d < from->tensors[tensor].rank; d++) {
        if (!add(&c[d], 0, 0) || !add(&c[d], full[d], small[d])) {
            return hsp_err_nomem(err, "homes at small extents");
        }
    }
    for (uint32_t i = 0; tp >= 0 && i < total->n_pipelines; i++) {
        for (uint32_t j = 0; j < total->pipelines[i].n_stages; j++) {
            const struct hsp_stage *s = &total->pipelines[i].stages[j];
            struct hsp_layout u, v;
            if (!hsp_stage_uses_param(from, units, &total->pipelines[i], j, param)) {
                continue;
            }
            enum hsp_status rc = hsp_param_use(from, s, param, arena, &u, err);
            if (rc == HSP_OK) {
                rc = hsp_param_use(to, s, param, arena, &v, err);
            }
            for (uint32_t k = 0; rc == HSP_OK && k < s->n; k++) {
                if (!add(&c[tp], u.box[k].hi[tp], v.box[k].hi[tp])) {
                    rc = hsp_err_nomem(err, "homes at small extents");
                }
            }
            if (rc != HSP_OK) {
                return rc;
            }
        }
    }
    return HSP_OK;
}

static enum hsp_status small_home(const struct hsp_graph *from, const struct hsp_plan *total,
                                  const bool *units, const struct hsp_graph *to, uint32_t param,
                                  struct hsp_arena *arena, struct hsp_home_rule *ret,
                                  struct hsp_err *err)
{
    static const int64_t origin[HSP_MAX_RANK];
    struct cuts c[HSP_MAX_RANK] = {{0}};
    const char *name = from->tensors[from->params[param].tensor].name;
    const struct hsp_home_rule *home = hsp_home_rule_of(total, name);
    enum hsp_status rc = list_uses(from, total, units, to, param, arena, c, err);
    if (rc == HSP_OK && !list_tree(home->home, origin, c)) {
        rc = hsp_err_nomem(err, "homes at small extents");
    }
    for (uint8_t d = 0; rc == HSP_OK && d < from->tensors[from->params[param].tensor].rank; d++) {
        rc = place(&c[d]) ? HSP_OK
                          : hsp_err_set(err, HSP_ENOENT, 0, "the cuts of %s have no room", name);
    }
    if (rc == HSP_OK) {
        *ret = (struct hsp_home_rule){name, move_tree(home->home, origin, c, arena)};
        rc = ret->home != NULL ? check_boxes(from, to, param, home->home, ret->home, err)
                               : hsp_err_nomem(err, "homes at small extents");
    }
    for (uint8_t d = 0; d < HSP_MAX_RANK; d++) {
        free(c[d].at);
    }
    return rc;
}

enum hsp_status hsp_scaled_homes(const struct hsp_graph *from, const struct hsp_plan *total,
                                 const bool *units, const struct hsp_graph *to,
                                 struct hsp_arena *arena, struct hsp_plan *p, struct hsp_err *err)
{
    struct hsp_home_rule *home = hsp_arena_array(arena, from->n_params, sizeof *home);
    enum hsp_status rc = home != NULL ? HSP_OK : hsp_err_nomem(err, "homes at small extents");
    for (uint32_t i = 0; rc == HSP_OK && i < from->n_params; i++) {
        rc = small_home(from, total, units, to, i, arena, &home[i], err);
    }
    p->homes = home;
    p->n_homes = from->n_params;
    return rc;
}
