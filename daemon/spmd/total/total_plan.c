#include "daemon/spmd/total/total_plan.h"

#include <string.h>

#include "daemon/plan/name_range.h"
#include "daemon/plan/plan_yaml_one.h"
#include "daemon/plan/pool_view.h"
#include "daemon/spmd/lower/lower_plan.h"
#include "daemon/spmd/lower/stage_ir.h"
#include "daemon/spmd/sharding/activation_rest.h"
#include "daemon/spmd/sharding/cover_to_annot.h"
#include "daemon/spmd/sharding/param_home.h"
#include "daemon/spmd/sharding/zero_interleaved.h"
#include "daemon/spmd/total/pipeline_check.h"
#include "daemon/spmd/total/total_check.h"
#include "daemon/spmd/total/total_reshards.h"
#include "proto/base/map.h"
#include "proto/layout/annot_text.h"
#include "proto/layout/box.h"
#include "proto/program/micro_size.h"
#include "proto/program/sheet.h"

#define SCRATCH_BYTES ((size_t)1 << 30)
#define LINE_BYTES    ((size_t)16 << 20)
/* A total plan of 1024 ranks with sharded state is some 10 MiB of text. */
#define PLAN_TEXT_MAX ((size_t)128 << 20)

struct completer {
    const struct hsp_compiler *c;
    struct hsp_arena *arena; /* of the result */
    struct hsp_arena *tmp;
    struct hsp_err *err;
};

/* ---- pipelines ---- */

static enum hsp_status fill_pipelines(const struct completer *x, struct hsp_plan *p)
{
    struct hsp_pipeline *to = hsp_arena_array(x->arena, p->n_pipelines, sizeof *to);
    if (to == NULL) {
        return hsp_err_nomem(x->err, "the total plan");
    }
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        const struct hsp_pipeline *from = &p->pipelines[i];
        to[i] = *from;
        to[i].sizes = hsp_arena_array(x->arena, from->micro_batches, sizeof *to[i].sizes);
        to[i].stages =
            hsp_arena_memdup(x->arena, from->stages, from->n_stages * sizeof *from->stages);
        if (to[i].sizes == NULL || to[i].stages == NULL) {
            return hsp_err_nomem(x->err, "the total plan");
        }
        for (uint32_t k = 0; k < from->micro_batches; k++) {
            to[i].sizes[k] = hsp_micro_size(from->sequences, from->micro_batches, k);
        }
        for (uint32_t k = 0; k < from->n_stages; k++) {
            struct hsp_stage *t = &to[i].stages[k];
            t->saved = t->saved == HSP_SAVED_OPEN ? (uint8_t)HSP_SAVED_KEEP : t->saved;
            if (t->n_groups > 1) { /* the layouts' own, where they became lengths */
                t->group_shares = hsp_arena_memdup(x->arena, t->group_shares,
                                                   t->n_groups * sizeof *t->group_shares);
                if (t->group_shares == NULL) {
                    return hsp_err_nomem(x->err, "the total plan");
                }
            }
        }
    }
    p->pipelines = to;
    return HSP_OK;
}

/* ---- homes ---- */

static const char *param_name(const struct hsp_compiler *c, uint32_t param)
{
    return c->g->tensors[c->g->params[param].tensor].name;
}

/* Makes the tree of a home from its cover; if the cover has no tree, takes the plan's own. */
static enum hsp_status home_tree(const struct completer *x, uint32_t param, struct hsp_arena *arena,
                                 struct hsp_annot **ret)
{
    const struct hsp_cover *home = &x->c->home[param];
    struct hsp_cover plain;
    enum hsp_status rc = HSP_OK;
    hsp_cover_init(&plain, home->rank, home->extent);
    for (uint32_t i = 0; rc == HSP_OK && i < home->n; i++) { /* complete: one addend */
        rc = hsp_cover_add(&plain, home->items[i].rank, 0, &home->items[i].box);
    }
    rc = rc == HSP_OK ? hsp_annot_of_cover(&plain, arena, ret, x->err)
                      : hsp_err_nomem(x->err, "the total plan");
    hsp_cover_fini(&plain);
    if (rc != HSP_OK || *ret != NULL) {
        return rc;
    }
    const struct hsp_home_rule *rule = hsp_home_rule_of(x->c->p, param_name(x->c, param));
    if (rule != NULL) {
        return hsp_annot_with_cuts(rule->home, home->rank, home->extent, arena, ret, x->err);
    }
    if (x->c->p->zero_pattern == HSP_ZERO_INTERLEAVED) {
        rc = hsp_home_interleaved(x->c->g, x->c->p, x->c->units, param, arena, ret, x->err);
    }
    return rc != HSP_OK || *ret != NULL
               ? rc
               : hsp_err_set(x->err, HSP_EUNSUPPORTED, 0, "home of %s has no annotation",
                             param_name(x->c, param));
}

static enum hsp_status fill_homes(const struct completer *x, struct hsp_plan *p)
{
    uint32_t n = x->c->g->n_params;
    struct hsp_line *line = hsp_arena_array(x->tmp, n, sizeof *line);
    struct hsp_name_run *run = NULL;
    struct hsp_buf text;
    enum hsp_status rc = line == NULL ? hsp_err_nomem(x->err, "the total plan") : HSP_OK;
    hsp_buf_init(&text, LINE_BYTES);
    for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
        struct hsp_arena_position m = hsp_arena_mark(x->tmp);
        struct hsp_annot *a = NULL;
        hsp_buf_reset(&text);
        line[i].name[0] = param_name(x->c, i);
        rc = home_tree(x, i, x->tmp, &a);
        if (rc == HSP_OK) {
            hsp_annot_dump(a, &text);
            line[i].rest = hsp_hash128(text.data, text.len);
            rc = text.failed ? hsp_err_nomem(x->err, "the total plan") : HSP_OK;
        }
        hsp_arena_rewind(x->tmp, m);
    }
    hsp_buf_fini(&text);
    if (rc == HSP_OK) {
        rc = hsp_lines_group(line, n, x->arena, &run, &p->n_homes, x->err);
    }
    p->homes = hsp_arena_array(x->arena, p->n_homes, sizeof *p->homes);
    if (rc == HSP_OK && p->homes == NULL) {
        rc = hsp_err_nomem(x->err, "the total plan");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < p->n_homes; i++) {
        p->homes[i].pattern = run[i].name[0];
        rc = home_tree(x, run[i].line, x->arena, &p->homes[i].home);
    }
    p->n_rules = 0; /* rules have become homes */
    p->rules = NULL;
    return rc;
}

/* ---- uses ---- */

/* The layouts of one stage while they are named. */
struct naming {
    const struct hsp_stagecode *s;
    struct hsp_stage_uses *to;
    uint32_t cap;
    struct hsp_map by_text;
    struct hsp_buf text;
    struct known *known; /* [cap]: the layouts found for boxes */
    uint32_t n_known;
};

struct known {
    struct hsp_digest boxes;
    uint32_t layout;
};

static bool is_whole(const struct hsp_layout *l)
{
    struct hsp_box whole = hsp_box_whole(l->rank, l->extent);
    for (uint32_t j = 0; j < l->n; j++) {
        if (!hsp_box_equal(&l->box[j], &whole)) {
            return false;
        }
    }
    return !hsp_layout_partial(l);
}

/* Finds the number of a layout in its stage's list by its annotation; new layouts are named in
 * order of use. */
static enum hsp_status new_layout(const struct completer *x, struct naming *n,
                                  const struct hsp_value *v, uint32_t *ret)
{
    struct hsp_cover c;
    struct hsp_annot *a = NULL;
    hsp_cover_init(&c, v->at.rank, v->at.extent);
    enum hsp_status rc = hsp_value_cover(n->s, v, false, &c, x->err);
    if (rc == HSP_OK) {
        rc = hsp_annot_of_cover(&c, x->arena, &a, x->err);
    }
    hsp_cover_fini(&c);
    if (rc == HSP_OK && a == NULL) {
        struct hsp_tiers tiers = hsp_stage_tiers(n->s->group);
        rc = hsp_layout_annot(&v->at, &tiers, n->s->group->ranks, x->arena, &a, x->err);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    hsp_buf_reset(&n->text);
    hsp_annot_dump(a, &n->text);
    const char *key = hsp_buf_cstr(&n->text);
    if (hsp_map_get(&n->by_text, key, ret)) {
        return HSP_OK;
    }
    uint32_t k = n->to->n_layouts;
    if (n->text.failed || k == n->cap || hsp_map_put(&n->by_text, key, k + 1) != HSP_OK) {
        return hsp_err_nomem(x->err, "the total plan");
    }
    n->to->layout[k].at = a;
    n->to->layout[k].name = hsp_arena_printf(x->arena, "L%u", k + 1);
    n->to->n_layouts++;
    *ret = k + 1;
    return n->to->layout[k].name != NULL ? HSP_OK : hsp_err_nomem(x->err, "the total plan");
}

static struct hsp_digest digest_boxes(const struct hsp_layout *l, struct hsp_buf *b)
{
    hsp_buf_reset(b);
    hsp_buf_append(b, l->extent, l->rank * sizeof *l->extent);
    hsp_buf_append(b, l->cut, l->rank * sizeof *l->cut);
    for (uint32_t j = 0; j < l->n; j++) {
        hsp_buf_append(b, l->box[j].lo, l->rank * sizeof *l->box[j].lo);
        hsp_buf_append(b, l->box[j].hi, l->rank * sizeof *l->box[j].hi);
        hsp_buf_append(b, &l->addend[j], sizeof l->addend[j]);
    }
    return hsp_hash128(b->data, b->len);
}

/* Sets *ret to the number of the layout of @value; 0: the value is whole on every member. Most
 * layouts recur in each layer, so the digest of the boxes is looked up among the layouts that have
 * a number. */
static enum hsp_status name_layout(const struct completer *x, struct naming *n, uint32_t value,
                                   uint32_t *ret)
{
    const struct hsp_value *v = &n->s->value[value];
    *ret = 0;
    if (is_whole(&v->at)) {
        return HSP_OK;
    }
    struct hsp_digest boxes = digest_boxes(&v->at, &n->text);
    if (n->text.failed) {
        return hsp_err_nomem(x->err, "the total plan");
    }
    for (uint32_t i = 0; i < n->n_known; i++) {
        if (hsp_digest_equal(n->known[i].boxes, boxes)) {
            *ret = n->known[i].layout;
            return HSP_OK;
        }
    }
    enum hsp_status rc = new_layout(x, n, v, ret);
    if (rc == HSP_OK) {
        n->known[n->n_known++] = (struct known){.boxes = boxes, .layout = *ret};
    }
    return rc;
}

/* Writes the letters of the axes of @st along which some operand or result is cut. */
static enum hsp_status cut_axes(const struct completer *x, const struct hsp_stagecode *s,
                                const struct hsp_step *st, const char **ret)
{
    struct hsp_axes ax;
    char text[HSP_MAX_AXES + 1] = "";
    bool cut[HSP_MAX_AXES] = {false};
    uint8_t rank = 0, n = 0;
    for (uint8_t i = 0; i < st->n_in; i++) {
        uint8_t r = s->value[st->in[i]].at.rank;
        rank = r > rank ? r : rank;
    }
    enum hsp_status rc = hsp_op_axes((enum hsp_op)st->op, &st->at, rank, &ax, x->err);
    if (rc != HSP_OK) {
        return rc;
    }
    for (uint8_t i = 0; i < ax.n_in + ax.n_out; i++) {
        bool in = i < ax.n_in;
        const struct hsp_operand_use *u = in ? &ax.in[i] : &ax.out[i - ax.n_in];
        const struct hsp_layout *at = &s->value[in ? st->in[i] : st->out[i - ax.n_in]].at;
        for (uint8_t d = 0; d < u->rank; d++) {
            cut[u->dim[d].axis] = cut[u->dim[d].axis] || at->cut[d] != 0 || at->split[d] != 0;
        }
    }
    for (uint8_t a = 0; a < ax.n_axes; a++) {
        if (cut[a]) {
            text[n++] = ax.axis[a].name;
        }
    }
    *ret = hsp_arena_strdup(x->arena, text);
    return *ret != NULL ? HSP_OK : hsp_err_nomem(x->err, "the total plan");
}

/* @ret->makes is NULL when every operand and result is whole. */
static enum hsp_status list_op(const struct completer *x, struct naming *n,
                               const struct hsp_step *st, struct hsp_op_use *ret)
{
    bool whole = true;
    enum hsp_status rc = HSP_OK;
    *ret = (struct hsp_op_use){.op = st->op, .n_in = st->n_in, .n_out = st->n_out};
    for (uint8_t i = 0; rc == HSP_OK && i < st->n_in; i++) {
        rc = name_layout(x, n, st->in[i], &ret->in[i]);
        whole = whole && ret->in[i] == 0;
    }
    for (uint8_t i = 0; rc == HSP_OK && i < st->n_out; i++) {
        rc = name_layout(x, n, st->out[i], &ret->out[i]);
        whole = whole && ret->out[i] == 0;
    }
    if (rc == HSP_OK && !whole) {
        ret->makes = n->s->value[st->out[0]].name;
        rc = cut_axes(x, n->s, st, &ret->cut);
    }
    return rc;
}

/* Parts whose ops a total plan lists: Eval repeats Forward. */
static bool lists_uses(uint32_t part)
{
    enum hsp_part kind = hsp_part_kind(part);
    return kind == HSP_PART_FORWARD || kind == HSP_PART_BACKWARD || kind == HSP_PART_WGRAD;
}

/* Lists, in program order, every op of Forward and Backward with an operand or result that is not
 * whole on every member. Lines of equal ops in several layers are not joined yet. */
static enum hsp_status list_ops(const struct completer *x, struct naming *n, struct hsp_op_use *use,
                                struct hsp_line *line, uint32_t *ret_n)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t nth = 0; nth < n->s->n_parts; nth++) {
        uint32_t part = hsp_part_nth(n->s, nth);
        const struct hsp_code *code = &n->s->part[part];
        if (!lists_uses(part)) {
            continue;
        }
        for (size_t i = 0; rc == HSP_OK && i < code->n; i++) {
            struct hsp_op_use *u = &use[*ret_n];
            const struct hsp_step *st = &code->step[i];
            if (st->kind != HSP_I_OP || st->inner) {
                continue;
            }
            rc = list_op(x, n, st->stands_for != NULL ? st->stands_for : st, u);
            if (rc != HSP_OK || u->makes == NULL) {
                continue;
            }
            hsp_buf_reset(&n->text);
            hsp_buf_printf(&n->text, "%u %s", u->op, u->cut);
            hsp_buf_append(&n->text, u->in, sizeof u->in);
            hsp_buf_append(&n->text, u->out, sizeof u->out);
            line[*ret_n] = (struct hsp_line){.name = {u->makes},
                                             .rest = hsp_hash128(n->text.data, n->text.len)};
            rc = n->text.failed ? hsp_err_nomem(x->err, "the total plan") : HSP_OK;
            ++*ret_n;
        }
    }
    return rc;
}

static enum hsp_status list_stage(const struct completer *x, const struct hsp_stagecode *s,
                                  struct hsp_stage_uses *to)
{
    size_t max = 0;
    for (uint32_t part = 0; part < s->n_parts; part++) {
        max += lists_uses(part) ? s->part[part].n : 0;
    }
    struct naming n = {.s = s, .to = to, .cap = (uint32_t)s->n_values};
    struct hsp_op_use *use = hsp_arena_array(x->tmp, max + 1, sizeof *use);
    struct hsp_line *line = hsp_arena_array(x->tmp, max + 1, sizeof *line);
    struct hsp_name_run *run = NULL;
    uint32_t n_lines = 0;
    *to = (struct hsp_stage_uses){.pipeline = s->pipeline, .stage = s->stage};
    to->layout = hsp_arena_array(x->tmp, n.cap, sizeof *to->layout);
    n.known = hsp_arena_array(x->tmp, n.cap, sizeof *n.known);
    if (use == NULL || line == NULL || to->layout == NULL || n.known == NULL) {
        return hsp_err_nomem(x->err, "the total plan");
    }
    hsp_map_init(&n.by_text, (size_t)n.cap + 1);
    hsp_buf_init(&n.text, LINE_BYTES);
    enum hsp_status rc = list_ops(x, &n, use, line, &n_lines);
    hsp_buf_fini(&n.text);
    hsp_map_fini(&n.by_text);
    if (rc == HSP_OK) {
        rc = hsp_lines_group(line, n_lines, x->arena, &run, &to->n_ops, x->err);
    }
    to->op = hsp_arena_array(x->arena, to->n_ops, sizeof *to->op);
    to->layout = hsp_arena_memdup(x->arena, to->layout, to->n_layouts * sizeof *to->layout);
    if (rc == HSP_OK && (to->op == NULL || to->layout == NULL)) {
        return hsp_err_nomem(x->err, "the total plan");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < to->n_ops; i++) {
        to->op[i] = use[run[i].line];
        to->op[i].makes = run[i].name[0];
    }
    return rc;
}

static enum hsp_status fill_uses(const struct completer *x, struct hsp_plan *p)
{
    p->states_uses = true;
    p->n_uses = 0;
    p->uses = hsp_arena_array(x->arena, x->c->n_stages, sizeof *p->uses);
    if (p->uses == NULL) {
        return hsp_err_nomem(x->err, "the total plan");
    }
    for (uint32_t i = 0; i < x->c->n_stages; i++) {
        struct hsp_arena_position m = hsp_arena_mark(x->tmp);
        enum hsp_status rc = list_stage(x, &x->c->stage[i], &p->uses[p->n_uses]);
        hsp_arena_rewind(x->tmp, m);
        if (rc != HSP_OK) {
            return rc;
        }
        p->n_uses += p->uses[p->n_uses].n_ops > 0 ? 1 : 0;
    }
    return HSP_OK;
}

/* ---- all of it ---- */

enum hsp_status hsp_complete_layouts(const struct hsp_compiler *c, struct hsp_arena *arena,
                                     struct hsp_plan *ret, struct hsp_err *err)
{
    struct hsp_arena *tmp = hsp_arena_new(SCRATCH_BYTES);
    struct completer x = {.c = c, .arena = arena, .tmp = tmp, .err = err};
    struct hsp_plan p = *c->p;
    if (tmp == NULL) {
        return hsp_err_nomem(err, "the total plan");
    }
    enum hsp_status rc = hsp_pipelines_check(c, err);
    rc = rc == HSP_OK ? fill_pipelines(&x, &p) : rc;
    if (rc == HSP_OK) {
        rc = fill_homes(&x, &p);
    }
    if (rc == HSP_OK) {
        rc = fill_uses(&x, &p);
    }
    if (rc == HSP_OK) {
        rc = hsp_list_reshards(c, tmp, arena, &p, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_plan_agrees(c->p, &p, err);
    }
    tmp = hsp_arena_free(tmp);
    if (rc == HSP_OK) {
        *ret = p;
    }
    return rc;
}

/* From a copy of @like, in which the explanation is set. */
static enum hsp_status complete_one(const struct hsp_compiler *like, const struct hsp_pool_view *v,
                                    struct hsp_arena *arena, struct hsp_plan *ret,
                                    struct hsp_err *err)
{
    struct hsp_compiler c = *like;
    c.g = &v->g;
    c.p = &v->p;
    c.t = &v->t;
    c.arena = hsp_arena_new(SCRATCH_BYTES);
    if (c.arena == NULL) {
        return hsp_err_nomem(err, "the total plan");
    }
    enum hsp_status rc = hsp_layouts_make(&c, err);
    if (rc == HSP_OK) {
        rc = hsp_complete_layouts(&c, arena, ret, err);
    }
    hsp_layouts_fini(&c);
    c.arena = hsp_arena_free(c.arena);
    return rc;
}

/* @like: with the job's graph, plan and training. */
static enum hsp_status complete(const struct hsp_compiler *like, struct hsp_arena *arena,
                                struct hsp_plan *ret, struct hsp_err *err)
{
    const struct hsp_plan *p = like->p;
    struct hsp_pool_view v;
    struct hsp_plan total, *plan = hsp_arena_array(arena, p->n_shorter, sizeof *plan);
    struct hsp_plan **list = hsp_arena_array(arena, p->n_shorter, sizeof *list);
    if (plan == NULL || list == NULL) {
        return hsp_err_nomem(err, "the total plan");
    }
    hsp_pool_view_make(like->g, like->t, p, NULL, &v);
    enum hsp_status rc = hsp_pool_allowed(p, like->t, err);
    if (rc == HSP_OK) {
        rc = complete_one(like, &v, arena, &total, err);
    }
    for (uint32_t k = 0; rc == HSP_OK && k < p->n_shorter; k++) {
        hsp_pool_view_make(like->g, like->t, p->shorter[k], &total, &v);
        rc = complete_one(like, &v, arena, &plan[k], err);
        list[k] = &plan[k];
    }
    if (rc == HSP_OK) {
        total.n_shorter = p->n_shorter;
        total.shorter = list;
        *ret = total;
    }
    return rc;
}

enum hsp_status hsp_plan_complete(const struct hsp_graph *g, const struct hsp_plan *p,
                                  const struct hsp_train_spec *t, struct hsp_arena *arena,
                                  struct hsp_plan *ret, struct hsp_err *err)
{
    const struct hsp_compiler c = {.g = g, .p = p, .t = t};
    return complete(&c, arena, ret, err);
}

enum hsp_status hsp_plan_explain(const struct hsp_graph *g, const struct hsp_plan *p,
                                 const struct hsp_train_spec *t, const struct hsp_rank_links *links,
                                 struct hsp_arena *arena, struct hsp_plan *ret, struct hsp_err *err)
{
    const struct hsp_compiler c = {.g = g, .p = p, .t = t, .explain = true, .links = links};
    return complete(&c, arena, ret, err);
}

enum hsp_status hsp_total_digest(const struct hsp_plan *total, struct hsp_digest *ret,
                                 struct hsp_err *err)
{
    struct hsp_buf b;
    hsp_buf_init(&b, PLAN_TEXT_MAX);
    for (uint32_t k = 0; k <= total->n_shorter; k++) {
        const struct hsp_plan *one = hsp_pool_plan(total, k);
        if (total->n_shorter > 0) {
            hsp_buf_printf(&b, "%u:\n", one->max_length);
        }
        hsp_plan_dump_bare(one, &b);
    }
    *ret = hsp_hash128(b.data, b.len);
    enum hsp_status rc = hsp_buf_status(&b);
    if (rc != HSP_OK) {
        (void)hsp_err_set(err, rc, 0,
                          rc == HSP_ENOMEM ? "no memory for a plan of up to %zu bytes"
                                           : "plan of more than %zu bytes",
                          PLAN_TEXT_MAX);
    }
    hsp_buf_fini(&b);
    return rc;
}

enum hsp_status hsp_plan_digest(const struct hsp_graph *g, const struct hsp_plan *p,
                                const struct hsp_train_spec *t, struct hsp_digest *ret,
                                struct hsp_err *err)
{
    struct hsp_arena *arena = hsp_arena_new(SCRATCH_BYTES);
    struct hsp_plan total;
    if (arena == NULL) {
        return hsp_err_nomem(err, "the total plan");
    }
    enum hsp_status rc = hsp_plan_complete(g, p, t, arena, &total, err);
    if (rc == HSP_OK) {
        rc = hsp_total_digest(&total, ret, err);
    }
    arena = hsp_arena_free(arena);
    return rc;
}
