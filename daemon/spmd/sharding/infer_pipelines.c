#include "daemon/spmd/sharding/infer_pipelines.h"

#include <inttypes.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "daemon/plan/name_range.h"
#include "daemon/plan/plan_check.h"
#include "daemon/spmd/sharding/infer_groups.h"
#include "daemon/spmd/sharding/param_use.h"
#include "proto/layout/box.h"

#define NAME_BYTES 4096 /* of a pattern with a number for its range */

/* The ranks of a pipeline that run a unit. */
struct members {
    uint32_t n;
    uint32_t *rank; /* ascending */
    uint32_t param; /* whose annotation says so */
};
struct finder {
    struct hsp_plan *p;
    const struct hsp_graph *g;
    struct hsp_arena *arena;
    struct hsp_err *err;
    const bool *units;               /* hsp_param_units */
    const struct hsp_use_rule **use; /* [param]: NULL: open */
    struct members *at;              /* [pipeline * units + unit]; n = 0: not known */
    uint32_t *ranks;                 /* [n_ranks]: scratch */
    const struct hsp_annot **groups; /* [n_ranks]: scratch */
    uint32_t *taken;                 /* [rank]: 1 + pipeline * HSP_MAX_STAGES + stage that has it */
};

static const char *name_of(const struct finder *f, uint32_t param)
{
    return f->g->tensors[f->g->params[param].tensor].name;
}

/* "block 3", "the embedding", "the head". */
static const char *unit_name(const struct finder *f, uint32_t unit)
{
    if (unit == 0 || unit + 1 == f->g->n_layers) {
        return unit == 0 ? "the embedding" : "the head";
    }
    const char *name = hsp_arena_printf(f->arena, "block %u", unit - 1);
    return name != NULL ? name : "a block";
}

/* ---- which annotation is whose ---- */

static enum hsp_status match_names(struct finder *f)
{
    struct hsp_buf text;
    enum hsp_status rc = HSP_OK;
    hsp_buf_init(&text, NAME_BYTES);
    for (uint32_t i = 0; rc == HSP_OK && i < f->p->n_annotations; i++) {
        const struct hsp_use_rule *r = &f->p->annotations[i];
        bool found = false;
        for (uint32_t k = 0; k < f->g->n_params; k++) {
            bool here = (f->use[k] == NULL || !found) &&
                        hsp_plan_names_fit(r->pattern, name_of(f, k), &text);
            found = found || here;
            f->use[k] = here && f->use[k] == NULL ? r : f->use[k];
        }
        rc = text.nomem ? hsp_err_nomem(f->err, "the names of parameters")
             : !found   ? hsp_err_set(f->err, HSP_EINVAL, 0,
                                      "annotations: no parameter is named like %s", r->pattern)
                        : HSP_OK;
    }
    hsp_buf_fini(&text);
    return rc;
}

/* Tiers that a use has: copies, and cuts of the dim that tensor parallelism cuts. */
static enum hsp_status check_tiers(const struct finder *f, uint32_t param,
                                   const struct hsp_annot *a)
{
    int8_t dim = f->g->params[param].tp_dim;
    enum hsp_status rc = HSP_OK;
    if (a->tier == HSP_TIER_RANK) {
        return a->rank < f->p->n_ranks
                   ? HSP_OK
                   : hsp_err_set(f->err, HSP_EINVAL, 0,
                                 "annotations: %s: rank %u of a plan of %u ranks",
                                 name_of(f, param), a->rank, f->p->n_ranks);
    }
    if (a->tier == HSP_TIER_SPLIT && (dim != (int)a->dim || a->interleaved)) {
        return dim < 0
                   ? hsp_err_set(f->err, HSP_EINVAL, 0,
                                 "annotations: %s is never cut by tensor parallelism",
                                 name_of(f, param))
                   : hsp_err_set(f->err, HSP_EINVAL, 0,
                                 "annotations: %s: tensor parallelism cuts dim %d, not interleaved",
                                 name_of(f, param), dim);
    }
    if (a->tier != HSP_TIER_SPLIT && a->tier != HSP_TIER_DUP) {
        return hsp_err_set(f->err, HSP_EINVAL, 0,
                           "annotations: %s: a parameter is copied or cut, never partial",
                           name_of(f, param));
    }
    for (uint32_t i = 0; rc == HSP_OK && i < a->n; i++) { /* at most HSP_MAX_TIERS deep */
        rc = check_tiers(f, param, a->of[i]);
    }
    return rc;
}

/* The cover that the annotation of @param states; initialised here. */
static enum hsp_status stated_cover(const struct finder *f, uint32_t param, struct hsp_cover *ret)
{
    const struct hsp_param *p = &f->g->params[param];
    int64_t ext[HSP_MAX_RANK], grain[HSP_MAX_RANK] = {1, 1, 1, 1};
    _Static_assert(HSP_MAX_RANK == 4, "a grain for each dim");
    hsp_tensor_extents(f->g, p->tensor, 1, ext);
    if (p->tp_dim >= 0) {
        grain[p->tp_dim] = p->tp_grain;
    }
    enum hsp_status rc =
        hsp_annot_cover(f->use[param]->use, f->g->tensors[p->tensor].rank, ext, grain, ret, f->err);
    return rc == HSP_OK ? rc : hsp_err_wrap(f->err, "annotations: %s", name_of(f, param));
}

static enum hsp_status check_annotations(const struct finder *f)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t k = 0; rc == HSP_OK && k < f->g->n_params; k++) {
        struct hsp_cover c;
        if (f->use[k] == NULL) {
            continue;
        }
        rc = stated_cover(f, k, &c);
        hsp_cover_fini(&c);
        rc = rc == HSP_OK ? check_tiers(f, k, f->use[k]->use) : rc;
    }
    return rc;
}

/* ---- units to ranks ---- */

/* The one unit that reads @param; HSP_NONE: several do, so that it is not of one stage. */
static uint32_t only_unit(const struct finder *f, uint32_t param)
{
    uint32_t unit = HSP_NONE;
    for (uint32_t u = 0; u < f->g->n_layers; u++) {
        if (f->units[(size_t)param * f->g->n_layers + u]) {
            if (unit != HSP_NONE) {
                return HSP_NONE;
            }
            unit = u;
        }
    }
    return unit;
}

/* The part of pipeline @si in the annotation of @param: *ret_n trees. */
static enum hsp_status pipeline_part(const struct finder *f, uint32_t param, uint32_t si,
                                     struct hsp_annot *const **ret, uint32_t *ret_n)
{
    const struct hsp_use_rule *r = f->use[param];
    uint32_t pipelines = f->p->n_pipelines;
    if (pipelines == 1) {
        *ret = (struct hsp_annot *const *)&r->use;
        *ret_n = 1;
        return HSP_OK;
    }
    if (r->use->tier != HSP_TIER_DUP || r->use->n % pipelines != 0) {
        return hsp_err_set(
            f->err, HSP_EINVAL, 0,
            "annotations: %s has %u copies for %u pipelines: one, or equally many, for each",
            name_of(f, param), r->use->tier == HSP_TIER_DUP ? r->use->n : 1, pipelines);
    }
    *ret_n = r->use->n / pipelines;
    *ret = r->use->of + (size_t)si * *ret_n;
    return HSP_OK;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static bool same_members(const struct members *a, const struct members *b)
{
    return a->n == b->n && memcmp(a->rank, b->rank, a->n * sizeof *a->rank) == 0;
}

/* Ranks of pipeline @si that use @param run its @unit, as those of other parameters of the unit
 * say.
 */
static enum hsp_status place_param(struct finder *f, uint32_t param, uint32_t unit, uint32_t si)
{
    struct members *at = &f->at[(size_t)si * f->g->n_layers + unit], here = {.param = param};
    struct hsp_annot *const *part = NULL;
    uint32_t n = 0;
    enum hsp_status rc = pipeline_part(f, param, si, &part, &n);
    if (rc != HSP_OK) {
        return rc;
    }
    here.rank = f->ranks;
    for (uint32_t i = 0; i < n; i++) { /* a rank is in a tree once */
        hsp_use_ranks(part[i], here.rank, &here.n);
    }
    qsort(here.rank, here.n, sizeof *here.rank, by_number);
    if (at->n > 0 && !same_members(at, &here)) {
        return hsp_err_set(f->err, HSP_EINVAL, 0,
                           "annotations: %s and %s are used by %s on unlike ranks of pipeline %u",
                           name_of(f, at->param), name_of(f, param), unit_name(f, unit), si);
    }
    if (at->n == 0) {
        *at = here;
        at->rank = hsp_arena_memdup(f->arena, here.rank, here.n * sizeof *here.rank);
        rc = at->rank != NULL ? HSP_OK : hsp_err_nomem(f->err, "the plan");
    }
    return rc;
}

/* Units without an annotation: the embedding and the head are where the next block is. */
static enum hsp_status place_ends(struct finder *f, uint32_t si)
{
    uint32_t units = f->g->n_layers;
    struct members *at = &f->at[(size_t)si * units];
    at[0] = at[0].n == 0 ? at[1] : at[0];
    at[units - 1] = at[units - 1].n == 0 ? at[units - 2] : at[units - 1];
    /* blocks first: an end lacks an annotation only where the block beside it does, too */
    for (uint32_t i = 1; i <= units; i++) {
        if (at[i % units].n == 0) {
            return hsp_err_set(f->err, HSP_EINVAL, 0, "annotations: none is of a parameter of %s",
                               unit_name(f, i % units));
        }
    }
    return HSP_OK;
}

static enum hsp_status place_units(struct finder *f)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t k = 0; rc == HSP_OK && k < f->g->n_params; k++) {
        uint32_t unit = f->use[k] != NULL ? only_unit(f, k) : HSP_NONE;
        for (uint32_t i = 0; rc == HSP_OK && unit != HSP_NONE && i < f->p->n_pipelines; i++) {
            rc = place_param(f, k, unit, i);
        }
    }
    for (uint32_t i = 0; rc == HSP_OK && i < f->p->n_pipelines; i++) {
        rc = place_ends(f, i);
    }
    return rc;
}

/* ---- groups of a stage ---- */

/* The groups of @param among the ranks of @m, which are all in one. */
static enum hsp_status groups_of(const struct finder *f, uint32_t param, const struct members *m,
                                 struct hsp_use_groups *ret)
{
    *ret = (struct hsp_use_groups){.param = param, .of = f->groups};
    enum hsp_status rc = hsp_use_groups_add(f->use[param]->use, name_of(f, param), ret, f->err);
    uint32_t n = 0, ranks = 0;
    for (uint32_t i = 0; i < ret->n; i++) {
        uint32_t size = hsp_use_group_n(ret->of[i]), inside = 0;
        for (uint32_t k = 0; k < size; k++) {
            uint32_t rank = hsp_use_group_rank(ret->of[i], k);
            inside += bsearch(&rank, m->rank, m->n, sizeof rank, by_number) != NULL ? 1 : 0;
        }
        if (inside == size) {
            ret->of[n++] = ret->of[i];
            ranks += size;
        }
    }
    ret->n = n;
    if (rc == HSP_OK && ranks != m->n) {
        return hsp_err_set(f->err, HSP_EINVAL, 0,
                           "annotations: %s is not in groups of the ranks that use %s",
                           name_of(f, param), name_of(f, m->param));
    }
    ret->of = hsp_arena_memdup(f->arena, ret->of, n * sizeof *ret->of);
    return rc == HSP_OK && ret->of == NULL ? hsp_err_nomem(f->err, "the plan") : rc;
}

static bool same_groups(const struct hsp_use_groups *a, const struct hsp_use_groups *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++) {
        uint32_t n = hsp_use_group_n(a->of[i]);
        same = n == hsp_use_group_n(b->of[i]);
        for (uint32_t k = 0; same && k < n; k++) {
            same = hsp_use_group_rank(a->of[i], k) == hsp_use_group_rank(b->of[i], k);
        }
    }
    return same;
}

/* The groups of each parameter that tensor parallelism cuts and a unit of stage @ti reads. */
static enum hsp_status stage_groups(const struct finder *f, const struct members *m,
                                    const uint32_t *stage_of, uint32_t ti,
                                    struct hsp_use_groups *ret, uint32_t *ret_n)
{
    enum hsp_status rc = HSP_OK;
    uint32_t units = f->g->n_layers;
    *ret_n = 0;
    for (uint32_t k = 0; rc == HSP_OK && k < f->g->n_params; k++) {
        bool here = false;
        for (uint32_t u = 0; u < units; u++) {
            here = here || (stage_of[u] == ti && f->units[(size_t)k * units + u]);
        }
        if (!here || f->use[k] == NULL || f->g->params[k].tp_dim < 0) {
            continue;
        }
        rc = groups_of(f, k, m, &ret[*ret_n]);
        if (rc == HSP_OK && *ret_n > 0 && !same_groups(&ret[0], &ret[*ret_n])) {
            rc = hsp_err_set(f->err, HSP_EINVAL, 0,
                             "annotations: %s and %s are used by unlike groups of one stage",
                             name_of(f, ret[0].param), name_of(f, k));
        }
        *ret_n += 1;
    }
    return rc;
}

/* Members and shares of @s from the groups @u of @n parameters. */
static enum hsp_status fill_members(const struct finder *f, const struct hsp_use_groups *u,
                                    uint32_t n, struct hsp_stage *s)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t k = 0; rc == HSP_OK && k < u[0].n; k++) {
        uint32_t size = hsp_use_group_n(u[0].of[k]);
        s->first[k] = s->n;
        for (uint32_t i = 0; i < size; i++) {
            s->ranks[s->n + i] = hsp_use_group_rank(u[0].of[k], i);
        }
        rc = hsp_use_shares(f->g, u, n, k, f->arena, &s->shares[s->n], f->err);
        s->n += size;
    }
    return rc;
}

/* A stage without annotated parameters that tensor parallelism cuts: with a split each rank is a
 * group, else all are one, with even shares. */
static enum hsp_status uncut_groups(const struct finder *f, const struct members *m,
                                    struct hsp_stage *s)
{
    if (s->split != HSP_SPLIT_NONE) {
        struct hsp_use_groups u;
        enum hsp_status rc = groups_of(f, m->param, m, &u);
        s->n_groups = u.n;
        return rc == HSP_OK ? fill_members(f, &u, 1, s) : rc;
    }
    s->n = m->n;
    s->n_groups = 1;
    for (uint32_t i = 0; i < m->n; i++) {
        s->ranks[i] = m->rank[i];
        s->shares[i] = 1;
    }
    return HSP_OK;
}

/* The statements of the batch about the stage, and its groups. */
static enum hsp_status make_stage(const struct finder *f, uint32_t si, uint32_t ti,
                                  const struct members *m, const uint32_t *stage_of,
                                  struct hsp_stage *s)
{
    struct hsp_use_groups *u = hsp_arena_array(f->arena, f->g->n_params, sizeof *u);
    uint32_t n = 0, listed = s->n_groups;
    s->ranks = hsp_arena_array(f->arena, m->n, sizeof *s->ranks);
    s->shares = hsp_arena_array(f->arena, m->n, sizeof *s->shares);
    s->first = hsp_arena_array(f->arena, m->n, sizeof *s->first);
    int64_t *even = hsp_arena_array(f->arena, m->n, sizeof *even);
    if (u == NULL || s->ranks == NULL || s->shares == NULL || s->first == NULL || even == NULL) {
        return hsp_err_nomem(f->err, "the plan");
    }
    enum hsp_status rc = stage_groups(f, m, stage_of, ti, u, &n);
    if (rc != HSP_OK) {
        return rc;
    }
    s->n_groups = n > 0 ? u[0].n : 0;
    rc = n > 0 ? fill_members(f, u, n, s) : uncut_groups(f, m, s);
    for (uint32_t i = 0; i < s->n_groups; i++) {
        even[i] = 1;
    }
    s->group_shares = listed > 0 ? s->group_shares : even;
    if (rc == HSP_OK && ((listed > 0 && listed != s->n_groups) ||
                         (s->n_groups > 1) != (s->split != HSP_SPLIT_NONE))) {
        rc = hsp_err_set(
            f->err, HSP_EINVAL, 0,
            "annotations: pipeline %u stage %u has %u groups: several need a split, and "
            "a split several, with one share each",
            si, ti, s->n_groups);
    }
    return rc;
}

/* ---- stages of a pipeline ---- */

/* @run_of[u]: how many times ranks have changed before unit u. Returns how many runs there are. */
static uint32_t count_runs(const struct members *at, uint32_t units, uint32_t *run_of)
{
    for (uint32_t u = 1; u < units; u++) {
        run_of[u] = run_of[u - 1] + (same_members(&at[u], &at[u - 1]) ? 0 : 1);
    }
    return run_of[units - 1] + 1;
}

/* @m are the ranks of stage @ti, and of no other. @unit is its first. */
static enum hsp_status take_ranks(struct finder *f, uint32_t si, uint32_t ti, uint32_t unit,
                                  const struct members *m)
{
    uint32_t key = 1 + si * HSP_MAX_STAGES + ti;
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t *t = &f->taken[m->rank[i]], was = *t - 1;
        if (*t == 0) {
            *t = key;
            continue;
        }
        return was / HSP_MAX_STAGES != si
                   ? hsp_err_set(
                         f->err, HSP_EINVAL, 0,
                         "annotations: rank %u is in pipeline %u and, with %s, in pipeline %u",
                         m->rank[i], was / HSP_MAX_STAGES, unit_name(f, unit), si)
                   : hsp_err_set(
                         f->err, HSP_EINVAL, 0,
                         "annotations: rank %u has left stage %u of pipeline %u before %s: units "
                         "of a stage are consecutive, but for those of chunks",
                         m->rank[i], was % HSP_MAX_STAGES, si, unit_name(f, unit));
    }
    return HSP_OK;
}

/* Blocks of the stages, from the run of each unit; runs of later chunks are on the ranks of the
 * first. @stage_of[u]: the stage of a unit. */
static enum hsp_status count_layers(struct finder *f, uint32_t si, struct hsp_stage *stage,
                                    uint32_t n_stages, uint32_t *stage_of)
{
    const struct members *at = &f->at[(size_t)si * f->g->n_layers];
    uint32_t chunks = hsp_pipeline_chunks(&f->p->pipelines[si]), units = f->g->n_layers;
    uint32_t first[HSP_MAX_STAGES];
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; i < n_stages && chunks > 1; i++) {
        stage[i].chunk_layers = hsp_arena_array(f->arena, chunks, sizeof *stage[i].chunk_layers);
        if (stage[i].chunk_layers == NULL) {
            return hsp_err_nomem(f->err, "the plan");
        }
    }
    for (uint32_t u = 0, run = HSP_NONE; rc == HSP_OK && u < units; u++) {
        uint32_t t = stage_of[u] % n_stages, chunk = stage_of[u] / n_stages;
        bool block = u > 0 && u + 1 < units;
        if (stage_of[u] != run && chunk == 0) {
            first[t] = u;
            rc = take_ranks(f, si, t, u, &at[u]);
        } else if (stage_of[u] != run && !same_members(&at[u], &at[first[t]])) {
            rc = hsp_err_set(
                f->err, HSP_EINVAL, 0,
                "annotations: pipeline %u: %s is not on the ranks of stage %u, which has "
                "the turn in chunk %u",
                si, unit_name(f, u), t, chunk);
        }
        run = stage_of[u];
        stage_of[u] = t;
        stage[t].layers += block ? 1 : 0;
        if (chunks > 1) {
            stage[t].chunk_layers[chunk] += block ? 1 : 0;
        }
    }
    return rc;
}

static enum hsp_status find_stages(struct finder *f, uint32_t si)
{
    struct hsp_pipeline *s = &f->p->pipelines[si];
    const struct members *at = &f->at[(size_t)si * f->g->n_layers];
    uint32_t chunks = hsp_pipeline_chunks(s), units = f->g->n_layers;
    uint32_t *stage_of = hsp_arena_array(f->arena, units, sizeof *stage_of);
    if (stage_of == NULL) {
        return hsp_err_nomem(f->err, "the plan");
    }
    uint32_t runs = count_runs(at, units, stage_of), n = runs / chunks;
    if (runs % chunks != 0 || n > HSP_MAX_STAGES) {
        return hsp_err_set(
            f->err, HSP_EINVAL, 0,
            "annotations: pipeline %u: %u times other ranks than before, for %u chunks of "
            "at most %d stages",
            si, runs, chunks, HSP_MAX_STAGES);
    }
    if (s->n_stages > 0 && s->n_stages != n) {
        return hsp_err_set(f->err, HSP_EINVAL, 0,
                           "annotations: pipeline %u has %u stages, its batch lists %u", si, n,
                           s->n_stages);
    }
    struct hsp_stage *stage = hsp_arena_array(f->arena, n, sizeof *stage);
    if (stage == NULL) {
        return hsp_err_nomem(f->err, "the plan");
    }
    if (s->n_stages > 0) {
        memcpy(stage, s->stages, n * sizeof *stage);
    }
    enum hsp_status rc = count_layers(f, si, stage, n, stage_of);
    for (uint32_t i = 0, u = 0; rc == HSP_OK && i < n; i++) {
        while (stage_of[u] != i) {
            u++;
        }
        rc = make_stage(f, si, i, &at[u], stage_of, &stage[i]);
    }
    s->stages = stage;
    s->n_stages = n;
    return rc;
}

/* ---- found facts against stated ones ---- */

static enum hsp_status used_cover(const struct finder *f, uint32_t param, struct hsp_cover *ret)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < f->p->n_pipelines; i++) {
        const struct hsp_pipeline *s = &f->p->pipelines[i];
        for (uint32_t t = 0; rc == HSP_OK && t < s->n_stages; t++) {
            struct hsp_layout l;
            if (!hsp_stage_uses_param(f->g, f->units, s, t, param)) {
                continue;
            }
            rc = hsp_param_use(f->g, &s->stages[t], param, f->arena, &l, f->err);
            for (uint32_t j = 0; rc == HSP_OK && j < l.n; j++) {
                rc = hsp_cover_add(ret, s->stages[t].ranks[j], 0, &l.box[j]);
                rc = rc == HSP_OK ? rc : hsp_err_nomem(f->err, "the plan");
            }
        }
    }
    hsp_cover_normalise(ret);
    return rc;
}

static enum hsp_status compare_param(const struct finder *f, uint32_t param)
{
    struct hsp_cover stated, used;
    enum hsp_status rc = stated_cover(f, param, &stated);
    if (rc != HSP_OK) {
        return rc;
    }
    hsp_cover_init(&used, stated.rank, stated.extent);
    rc = used_cover(f, param, &used);
    if (rc == HSP_OK && !hsp_cover_equal(&stated, &used)) {
        uint32_t i = 0;
        while (i < stated.n && i < used.n &&
               hsp_box_equal(&stated.items[i].box, &used.items[i].box) &&
               stated.items[i].rank == used.items[i].rank) {
            i++;
        }
        const struct hsp_cover *c = i < stated.n ? &stated : &used;
        rc = hsp_err_set(
            f->err, HSP_EINVAL, 0,
            "annotations: %s does not match the use of rank %u in the stage found for it",
            name_of(f, param), c->items[i < c->n ? i : 0].rank);
    }
    hsp_cover_fini(&stated);
    hsp_cover_fini(&used);
    return rc;
}

static enum hsp_status find_one(struct hsp_plan *p, const struct hsp_graph *g,
                                struct hsp_arena *arena, struct hsp_err *err)
{
    struct finder f = {.p = p, .g = g, .arena = arena, .err = err};
    f.use = hsp_arena_array(arena, g->n_params, sizeof *f.use);
    f.at = hsp_arena_array(arena, (size_t)p->n_pipelines * g->n_layers, sizeof *f.at);
    f.taken = hsp_arena_array(arena, p->n_ranks, sizeof *f.taken);
    f.ranks = hsp_arena_array(arena, p->n_ranks, sizeof *f.ranks);
    f.groups = hsp_arena_array(arena, p->n_ranks, sizeof *f.groups);
    if (f.ranks == NULL || f.groups == NULL || f.use == NULL || f.at == NULL || f.taken == NULL) {
        return hsp_err_nomem(f.err, "the plan");
    }
    enum hsp_status rc = hsp_param_units(g, arena, &f.units, err);
    rc = rc == HSP_OK ? match_names(&f) : rc;
    rc = rc == HSP_OK ? check_annotations(&f) : rc;
    rc = rc == HSP_OK ? place_units(&f) : rc;
    for (uint32_t i = 0; rc == HSP_OK && i < p->n_pipelines; i++) {
        rc = find_stages(&f, i);
    }
    for (uint32_t k = 0; rc == HSP_OK && k < g->n_params; k++) {
        rc = f.use[k] != NULL ? compare_param(&f, k) : HSP_OK;
    }
    p->n_annotations = rc == HSP_OK ? 0 : p->n_annotations;
    return rc;
}

enum hsp_status hsp_plan_find_pipelines(struct hsp_plan *p, const struct hsp_graph *g,
                                        struct hsp_arena *arena, struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t k = 0; rc == HSP_OK && k <= p->n_shorter; k++) {
        struct hsp_plan *one = k < p->n_shorter ? p->shorter[k] : p;
        rc = one->n_annotations > 0 ? find_one(one, g, arena, err) : HSP_OK;
        if (rc != HSP_OK && p->n_shorter > 0) {
            rc = hsp_err_wrap(err, "plan for %u tokens", one->max_length);
        }
    }
    return rc;
}
