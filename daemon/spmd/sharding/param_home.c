#include "daemon/spmd/sharding/param_home.h"

#include <stdlib.h> /* qsort */

#include "daemon/plan/name_range.h"
#include "daemon/plan/plan_check.h"
#include "daemon/plan/stage_groups.h"
#include "daemon/spmd/sharding/param_use.h"
#include "daemon/spmd/sharding/zero_interleaved.h"
#include "proto/base/check.h"
#include "proto/base/size.h"
#include "proto/layout/box.h"
#include "proto/layout/cut_shares.h"

#define HOME_ARENA_BYTES ((size_t)64 << 20) /* scratch for one plan's homes */

/* One rank that uses the parameter. */
struct user {
    uint32_t rank;
    struct hsp_box box;
};

static enum hsp_status list_users(const struct hsp_graph *g, const struct hsp_plan *p,
                                  const bool *units, uint32_t param, struct hsp_arena *arena,
                                  struct user **ret, uint32_t *ret_n, struct hsp_err *err)
{
    struct user *u = hsp_arena_array(arena, p->n_ranks, sizeof *u);
    uint32_t n = 0;
    if (u == NULL) {
        return hsp_err_nomem(err, "users of parameter %u", param);
    }
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        for (uint32_t j = 0; j < p->pipelines[i].n_stages; j++) {
            const struct hsp_stage *s = &p->pipelines[i].stages[j];
            if (!hsp_stage_uses_param(g, units, &p->pipelines[i], j, param)) {
                continue;
            }
            struct hsp_layout l;
            enum hsp_status rc = hsp_param_use(g, s, param, arena, &l, err);
            if (rc != HSP_OK) {
                return rc;
            }
            for (uint32_t k = 0; k < s->n; k++) {
                HSP_ASSERT(n < p->n_ranks);
                u[n++] = (struct user){.rank = s->ranks[k], .box = l.box[k]};
            }
        }
    }
    *ret = u;
    *ret_n = n;
    return HSP_OK;
}

/* Users in the order of their uses. */
static int by_place(const void *a, const void *b)
{
    const struct user *x = a, *y = b;
    for (uint8_t d = 0; d < x->box.rank; d++) {
        if (x->box.lo[d] != y->box.lo[d]) {
            return x->box.lo[d] < y->box.lo[d] ? -1 : 1;
        }
    }
    for (uint8_t d = 0; d < x->box.rank; d++) {
        if (x->box.hi[d] != y->box.hi[d]) {
            return x->box.hi[d] < y->box.hi[d] ? -1 : 1;
        }
    }
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Cut @i of @n users in order of place: even as far as every part stays inside its user's box. */
static int64_t clamp_cut(const struct user *u, uint32_t n, uint32_t i, uint8_t d, int64_t extent,
                         int64_t before)
{
    int64_t at = extent * i / n, low = u[i].box.lo[d] > before ? u[i].box.lo[d] : before;
    for (uint32_t k = i - 1; k + 1 < n; k++) {
        at = u[k].box.hi[d] < at ? u[k].box.hi[d] : at;
    }
    return at > low ? at : low;
}

/* One part of the parameter for each user that has something of it. Where tensor parallelism cuts
 * the parameter, a user's part is a part of its use, so that it adds its own part (a gradient is
 * then reduced to members of the group that made it); other parameters are cut along their longest
 * dim. */
static enum hsp_status cut_home(const struct hsp_box *whole, struct user *u, uint32_t n,
                                uint32_t param, int8_t tp_dim, struct hsp_cover *ret)
{
    bool cut = false;
    uint8_t d = 0;
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        cut = cut || !hsp_box_equal(&u[i].box, whole);
        if (!hsp_box_empty(&u[i].box)) {
            u[used++] = u[i];
        }
    }
    for (uint8_t i = 1; i < whole->rank; i++) {
        d = whole->hi[i] > whole->hi[d] ? i : d;
    }
    d = cut ? (uint8_t)tp_dim : d;
    qsort(u, used, sizeof *u, by_place);
    if (!cut && (whole->rank == 0 || whole->hi[d] < used ||
                 hsp_box_count(whole) < (int64_t)used * HSP_ZERO_MIN_ELEMENTS)) {
        return hsp_cover_add(ret, u[param % used].rank, 0, whole);
    }
    struct hsp_box b = *whole;
    b.hi[d] = 0;
    for (uint32_t i = 0; i < used; i++) {
        b.lo[d] = b.hi[d];
        b.hi[d] =
            i + 1 == used ? whole->hi[d] : clamp_cut(u, used, i + 1, d, whole->hi[d], b.lo[d]);
        enum hsp_status rc = hsp_cover_add(ret, u[i].rank, 0, &b);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    return HSP_OK;
}

/* A stated home of a total plan; else the first rule that fits. */
const struct hsp_home_rule *hsp_home_rule_of(const struct hsp_plan *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_homes; i++) {
        if (hsp_name_in(p->homes[i].pattern, name)) {
            return &p->homes[i];
        }
    }
    for (uint32_t i = 0; i < p->n_rules; i++) {
        if (hsp_plan_name_fits(p->rules[i].pattern, name)) {
            return &p->rules[i];
        }
    }
    return NULL;
}

static enum hsp_status home_by_rule(const struct hsp_plan *p, const struct hsp_annot *home,
                                    const char *name, const struct hsp_box *whole,
                                    struct hsp_cover *ret, struct hsp_err *err)
{
    int64_t grain[HSP_MAX_RANK] = {1, 1, 1, 1};
    enum hsp_status rc = hsp_annot_cover(home, whole->rank, whole->hi, grain, ret, err);
    if (rc != HSP_OK) {
        (void)hsp_err_wrap(err, "home of %s", name);
        return rc;
    }
    for (uint32_t i = 0; rc == HSP_OK && i < ret->n; i++) {
        if (ret->items[i].rank >= p->n_ranks) {
            rc = hsp_err_set(err, HSP_EINVAL, 0, "home of %s: rank %u of a plan of %u ranks", name,
                             ret->items[i].rank, p->n_ranks);
        }
    }
    if (rc == HSP_OK && !hsp_cover_is_complete(ret)) {
        rc = hsp_err_set(err, HSP_EINVAL, 0, "home of %s: does not hold every element as it is",
                         name);
    }
    if (rc != HSP_OK) {
        hsp_cover_fini(ret);
    }
    return rc;
}

enum hsp_status hsp_param_home(const struct hsp_graph *g, const struct hsp_plan *p,
                               const bool *units, uint32_t param, struct hsp_arena *arena,
                               struct hsp_cover *ret, struct hsp_err *err)
{
    uint32_t tensor = g->params[param].tensor;
    const char *name = g->tensors[tensor].name;
    int64_t ext[HSP_MAX_RANK];
    hsp_tensor_extents(g, tensor, 1, ext);
    struct hsp_box whole = hsp_box_whole(g->tensors[tensor].rank, ext);
    const struct hsp_home_rule *rule = hsp_home_rule_of(p, name);
    if (rule != NULL) {
        return home_by_rule(p, rule->home, name, &whole, ret, err);
    }
    struct user *u = NULL;
    uint32_t n = 0;
    struct hsp_arena_position m = hsp_arena_mark(arena);
    if (p->zero != 0 && p->zero_pattern == HSP_ZERO_INTERLEAVED) {
        struct hsp_annot *tree = NULL;
        enum hsp_status st = hsp_home_interleaved(g, p, units, param, arena, &tree, err);
        if (st != HSP_OK || tree != NULL) {
            st = st == HSP_OK ? home_by_rule(p, tree, name, &whole, ret, err) : st;
            hsp_arena_rewind(arena, m);
            return st;
        }
    }
    enum hsp_status rc = list_users(g, p, units, param, arena, &u, &n, err);
    if (rc == HSP_OK && n == 0) {
        rc = hsp_err_set(err, HSP_EINVAL, 0, "no node reads parameter %s", name);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    hsp_cover_init(ret, whole.rank, ext);
    if (p->zero != 0 && n > 1) {
        rc = cut_home(&whole, u, n, param, g->params[param].tp_dim, ret);
    } else {
        for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
            rc = hsp_cover_add(ret, u[i].rank, 0, &u[i].box);
        }
    }
    hsp_arena_rewind(arena, m);
    if (rc != HSP_OK) {
        hsp_cover_fini(ret);
        return hsp_err_about(err, rc, "the home of %s", name);
    }
    hsp_cover_normalise(ret);
    return HSP_OK;
}

enum hsp_status hsp_plan_homes(const struct hsp_graph *g, const struct hsp_plan *p,
                               struct hsp_cover *ret, struct hsp_err *err)
{
    struct hsp_arena *arena = hsp_arena_new(HOME_ARENA_BYTES);
    const bool *units = NULL;
    if (arena == NULL) {
        return hsp_err_nomem(err, "homes of parameters");
    }
    enum hsp_status rc = hsp_param_units(g, arena, &units, err);
    uint32_t done = 0;
    for (; rc == HSP_OK && done < g->n_params; done++) {
        rc = hsp_param_home(g, p, units, done, arena, &ret[done], err);
        if (rc != HSP_OK) {
            break;
        }
    }
    for (uint32_t i = 0; rc != HSP_OK && i < done; i++) {
        hsp_cover_fini(&ret[i]);
    }
    arena = hsp_arena_free(arena);
    return rc;
}

enum hsp_status hsp_plan_check_homes(const struct hsp_graph *g, const struct hsp_plan *p,
                                     struct hsp_arena *arena, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    struct hsp_cover *home = hsp_arena_array(arena, g->n_params, sizeof *home);
    if (home == NULL) {
        return hsp_err_nomem(err, "homes of parameters");
    }
    for (uint32_t k = 0; st == HSP_OK && k <= p->n_shorter; k++) {
        const struct hsp_plan *one = hsp_pool_plan(p, k);
        if (one->n_rules == 0 && one->n_homes == 0) {
            continue;
        }
        st = hsp_plan_homes(g, one, home, err);
        for (uint32_t i = 0; st == HSP_OK && i < g->n_params; i++) {
            hsp_cover_fini(&home[i]);
        }
    }
    return st;
}
