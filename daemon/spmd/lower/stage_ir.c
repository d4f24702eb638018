#include "daemon/spmd/lower/stage_ir.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/plan/stage_groups.h"
#include "daemon/spmd/reshard/reshard_kind.h"
#include "daemon/spmd/reshard/reshard_kind_text.h"
#include "proto/base/check.h"
#include "proto/base/vec.h"

#define MAX_RESHARDS ((size_t)HSP_MAX_INSTRS)
#define METHOD_BYTES ((size_t)4096) /* kinds of parts are few */

static uint32_t *none_array(struct hsp_arena *arena, size_t n)
{
    uint32_t *a = hsp_arena_array(arena, n, sizeof *a);
    for (size_t i = 0; a != NULL && i < n; i++) {
        a[i] = HSP_NONE;
    }
    return a;
}

enum hsp_status hsp_stagecode_init(struct hsp_compiler *c, struct hsp_stagecode *s,
                                   struct hsp_err *err)
{
    s->version = none_array(c->arena, c->g->n_tensors);
    s->acc = none_array(c->arena, c->g->n_params);
    s->state = none_array(c->arena, (size_t)c->g->n_params * HSP_N_STATE_KINDS);
    s->copy = none_array(c->arena, c->g->n_params);
    s->part = hsp_arena_array(c->arena, (size_t)HSP_N_PARTS * s->n_chunks, sizeof *s->part);
    if (s->version == NULL || s->acc == NULL || s->state == NULL || s->copy == NULL ||
        s->part == NULL) {
        return hsp_err_nomem(err, "stage %u of pipeline %u", s->stage, s->pipeline);
    }
    s->n_parts = HSP_N_PARTS * s->n_chunks;
    return HSP_OK;
}

void hsp_stagecode_fini(struct hsp_stagecode *s)
{
    free(s->value);
    s->value = NULL;
    for (uint32_t i = 0; i < s->n_parts; i++) {
        free(s->part[i].step);
        s->part[i].step = NULL;
    }
}

uint32_t hsp_part_nth(const struct hsp_stagecode *s, uint32_t i)
{
    return hsp_part_at((enum hsp_part)(i / s->n_chunks), i % s->n_chunks);
}

uint8_t hsp_part_segment(const struct hsp_stagecode *s, uint32_t part)
{
    static const uint8_t kind[2][HSP_N_PARTS] = {{HSP_SEG_PRE, HSP_SEG_FORWARD, HSP_SEG_BACKWARD, 0,
                                                  HSP_SEG_POST, HSP_SEG_EVAL, HSP_SEG_SERVE},
                                                 {HSP_SEG_PRE, HSP_SEG_FORWARD, HSP_SEG_INPUT_GRAD,
                                                  HSP_SEG_WEIGHT_GRAD, HSP_SEG_POST, HSP_SEG_EVAL,
                                                  HSP_SEG_SERVE}};
    return kind[s->split][hsp_part_kind(part)];
}

enum hsp_status hsp_value_add(struct hsp_stagecode *s, const struct hsp_value *v, uint32_t *ret,
                              struct hsp_err *err)
{
    if (!hsp_grow(&s->value, &s->cap_values, s->n_values + 1, sizeof *s->value, HSP_MAX_TENSORS)) {
        (void)hsp_grow_error(s->n_values + 1, HSP_MAX_TENSORS, "tensors", err);
        return hsp_err_wrap(err, "pipeline %u stage %u", s->pipeline, s->stage);
    }
    s->value[s->n_values] = *v;
    *ret = (uint32_t)s->n_values++;
    return HSP_OK;
}

enum hsp_status hsp_value_version(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t tensor,
                                  const char *suffix, const struct hsp_layout *at, uint32_t *ret,
                                  struct hsp_err *err)
{
    const struct hsp_tensor *t = &c->g->tensors[tensor];
    struct hsp_value v = {.dtype = t->dtype,
                          .cls = HSP_CLASS_MICRO,
                          .tensor = tensor,
                          .at = *at,
                          .next = HSP_NONE,
                          .param = HSP_NONE,
                          .alias = HSP_NONE};
    v.batch_fixed = s->batch_fixed && t->rank > 0 && t->ext[0].sym == HSP_EXT_BATCH;
    v.batch_dim0 = !s->batch_fixed && t->rank > 0 && t->ext[0].sym == HSP_EXT_BATCH;
    v.name = suffix[0] == '\0' ? hsp_arena_strdup(c->arena, t->name)
                               : hsp_arena_printf(c->arena, "%s%s", t->name, suffix);
    if (v.name == NULL) {
        return hsp_err_nomem(err, "value of %s", t->name);
    }
    for (uint8_t d = 0; d < t->rank; d++) {
        bool cut = at->cut[0] != 0 || at->split[0] != 0;
        if (t->ext[d].sym == HSP_EXT_BATCH &&
            (d > 0 || t->ext[d].k != 1 || (cut && !s->batch_fixed))) {
            return hsp_err_set(err, HSP_EUNSUPPORTED, 0,
                               "%s: the batch must be the first dim, whole without split: batch",
                               t->name);
        }
    }
    enum hsp_status rc = hsp_value_add(s, &v, ret, err);
    if (rc != HSP_OK) {
        return rc;
    }
    uint32_t *link = &s->version[tensor];
    while (*link != HSP_NONE) {
        link = &s->value[*link].next;
    }
    *link = *ret;
    return HSP_OK;
}

struct hsp_step hsp_step_make(uint8_t kind, uint8_t queue)
{
    return (struct hsp_step){.kind = kind,
                             .queue = queue,
                             .node = HSP_NONE,
                             .only = HSP_NONE,
                             .origin_value = {HSP_NONE, HSP_NONE}};
}

static void touch(struct hsp_stagecode *s, uint32_t part, const struct hsp_step *step)
{
    for (uint8_t i = 0; i < step->n_in + step->n_out; i++) {
        uint32_t v = i < step->n_in ? step->in[i] : step->out[i - step->n_in];
        uint32_t *parts = &s->value[v].parts;
        *parts = *parts == 0 || *parts == 1 + part ? 1 + part : HSP_NONE;
    }
}

void hsp_parts_mark(struct hsp_stagecode *s)
{
    for (size_t v = 0; v < s->n_values; v++) {
        s->value[v].parts = 0;
    }
    for (uint32_t part = 0; part < s->n_parts; part++) {
        for (size_t i = 0; i < s->part[part].n; i++) {
            touch(s, part, &s->part[part].step[i]);
        }
    }
}

enum hsp_status hsp_step_add(struct hsp_stagecode *s, uint32_t part, size_t at,
                             const struct hsp_step *step, struct hsp_err *err)
{
    struct hsp_code *p = &s->part[part];
    if (!hsp_grow(&p->step, &p->cap, p->n + 1, sizeof *p->step, HSP_MAX_INSTRS)) {
        (void)hsp_grow_error(p->n + 1, HSP_MAX_INSTRS, "instructions", err);
        return hsp_err_wrap(err, "pipeline %u stage %u", s->pipeline, s->stage);
    }
    at = at > p->n ? p->n : at;
    memmove(&p->step[at + 1], &p->step[at], (p->n - at) * sizeof *p->step);
    p->step[at] = *step;
    p->n++;
    touch(s, part, step);
    return HSP_OK;
}

uint32_t hsp_part_making(const struct hsp_stagecode *s, uint32_t value)
{
    uint32_t part = 0;
    while (part < s->n_parts && hsp_step_after(s, part, value) == SIZE_MAX) {
        part++;
    }
    HSP_ASSERT(part < s->n_parts);
    return part;
}

size_t hsp_step_after(const struct hsp_stagecode *s, uint32_t part, uint32_t value)
{
    const struct hsp_code *p = &s->part[part];
    for (size_t i = p->n; i-- > 0;) {
        for (uint8_t k = 0; k < p->step[i].n_out; k++) {
            if (p->step[i].out[k] == value) {
                return i + 1;
            }
        }
    }
    return SIZE_MAX;
}

/* Adds the boxes of members [@first, @end) of @v. */
static enum hsp_status add_cover(const struct hsp_stagecode *s, const struct hsp_value *v,
                                 uint32_t first, uint32_t end, bool skip_alias,
                                 struct hsp_cover *ret, struct hsp_err *err)
{
    for (uint32_t j = first; j < end; j++) {
        if ((v->present != NULL && !v->present[j]) ||
            (skip_alias && v->is_alias != NULL && v->is_alias[j])) {
            continue;
        }
        enum hsp_status rc =
            hsp_cover_add(ret, s->group->ranks[j], s->group->ranks[v->at.addend[j]], &v->at.box[j]);
        if (rc != HSP_OK) {
            return hsp_err_about(err, rc, "the cover of %s", v->name);
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_value_cover(const struct hsp_stagecode *s, const struct hsp_value *v,
                                bool skip_alias, struct hsp_cover *ret, struct hsp_err *err)
{
    return add_cover(s, v, 0, s->group->n, skip_alias, ret, err);
}

static enum hsp_status new_reshard(struct hsp_compiler *c, const struct hsp_reshard *r,
                                   uint32_t *ret, struct hsp_err *err)
{
    if (!hsp_grow(&c->reshard, &c->cap_reshards, c->n_reshards + 1, sizeof *c->reshard,
                  MAX_RESHARDS)) {
        return hsp_grow_error(c->n_reshards + 1, MAX_RESHARDS, "reshards", err);
    }
    c->reshard[c->n_reshards] = *r;
    *ret = (uint32_t)c->n_reshards++;
    return HSP_OK;
}

/* Names a Reshard; of one in several pairs of covers each name once. */
static enum hsp_status name_reshard(struct hsp_compiler *c, const struct hsp_cover *src,
                                    const struct hsp_cover *dst, struct hsp_reshard *r,
                                    struct hsp_err *err)
{
    struct hsp_methods m;
    struct hsp_buf b;
    enum hsp_status rc = hsp_methods_find(src, dst, false, c->arena, &m, err);
    if (rc != HSP_OK) {
        return rc;
    }
    hsp_buf_init(&b, METHOD_BYTES);
    hsp_methods_put(&m, &b);
    const char *name = b.failed ? NULL : hsp_buf_cstr(&b), *before = r->method;
    if (name != NULL && (before == NULL || strstr(before, name) == NULL)) {
        r->method = before == NULL ? hsp_arena_strdup(c->arena, name)
                                   : hsp_arena_printf(c->arena, "%s, %s", before, name);
        name = r->method;
    }
    hsp_buf_fini(&b);
    return name != NULL ? HSP_OK : hsp_err_nomem(err, "name of a reshard");
}

/* Adds the moves of one pair of covers to @r. */
static enum hsp_status resolve_into(struct hsp_compiler *c, bool owner_bytes, struct hsp_cover *src,
                                    struct hsp_cover *dst, struct hsp_reshard *r,
                                    struct hsp_err *err)
{
    struct hsp_resolve_opts opts = {
        .owner_bytes = owner_bytes, .load = c->load, .n_load = c->p->n_ranks};
    struct hsp_moves m, *all = &r->moves;
    hsp_cover_normalise(src);
    hsp_cover_normalise(dst);
    enum hsp_status rc = hsp_resolve(src, dst, &opts, &c->channel, c->arena, &m, err);
    if (rc == HSP_OK && c->explain) {
        rc = name_reshard(c, src, dst, r, err);
    }
    if (rc != HSP_OK) {
        (void)hsp_err_wrap(err, "reshard of %s", r->name);
        return rc;
    }
    if (all->n + all->n_zero == 0) {
        *all = m;
        return HSP_OK;
    }
    struct hsp_move *move = hsp_arena_array(c->arena, all->n + m.n, sizeof *move);
    uint32_t *zero = hsp_arena_array(c->arena, all->n_zero + m.n_zero, sizeof *zero);
    if (move == NULL || zero == NULL) {
        return hsp_err_nomem(err, "reshard of %s", r->name);
    }
    memcpy(move, all->move, all->n * sizeof *move);
    memcpy(move + all->n, m.move, m.n * sizeof *move);
    memcpy(zero, all->zero, all->n_zero * sizeof *zero);
    memcpy(zero + all->n_zero, m.zero, m.n_zero * sizeof *zero);
    *all = (struct hsp_moves){
        .n = all->n + m.n, .move = move, .n_zero = all->n_zero + m.n_zero, .zero = zero};
    return HSP_OK;
}

enum hsp_status hsp_reshard_add(struct hsp_compiler *c, const char *name, bool batch_dim0,
                                bool owner_bytes, struct hsp_cover *src, struct hsp_cover *dst,
                                uint32_t *ret, struct hsp_err *err)
{
    struct hsp_reshard r = {.name = name, .batch_dim0 = batch_dim0};
    enum hsp_status rc = resolve_into(c, owner_bytes, src, dst, &r, err);
    return rc == HSP_OK ? new_reshard(c, &r, ret, err) : rc;
}

/* The boxes of members [@first, @end) of @v. */
static enum hsp_status cover_of(const struct hsp_stagecode *s, const struct hsp_value *v,
                                uint32_t first, uint32_t end, struct hsp_cover *ret,
                                struct hsp_err *err)
{
    hsp_cover_init(ret, v->at.rank, v->at.extent);
    return add_cover(s, v, first, end, false, ret, err);
}

enum hsp_status hsp_reshard_values(struct hsp_compiler *c, const struct hsp_stagecode *s,
                                   uint32_t from, uint32_t to, enum hsp_apart apart, uint32_t *ret,
                                   struct hsp_err *err)
{
    const struct hsp_value *f = &s->value[from], *t = &s->value[to];
    struct hsp_reshard r = {.name = t->name, .batch_dim0 = f->batch_dim0};
    enum hsp_status rc = HSP_OK;
    for (uint32_t first = 0, end, g = 0; rc == HSP_OK && first < s->group->n; first = end, g++) {
        struct hsp_cover src, dst;
        end = apart == HSP_APART_MEMBERS ? first + 1 : s->group->n;
        if (apart == HSP_APART_GROUPS) {
            hsp_stage_group(s->group, g, &first, &end);
        }
        rc = cover_of(s, f, first, end, &src, err);
        if (rc == HSP_OK) {
            rc = cover_of(s, t, first, end, &dst, err);
            rc = rc == HSP_OK ? resolve_into(c, false, &src, &dst, &r, err) : rc;
            hsp_cover_fini(&dst);
        }
        hsp_cover_fini(&src);
    }
    return rc == HSP_OK ? new_reshard(c, &r, ret, err) : rc;
}

enum hsp_status hsp_reshard_clone(struct hsp_compiler *c, uint32_t reshard, uint32_t *ret,
                                  struct hsp_err *err)
{
    struct hsp_reshard r = c->reshard[reshard];
    r.moves.move = hsp_arena_memdup(c->arena, r.moves.move, r.moves.n * sizeof *r.moves.move);
    if (r.moves.move == NULL) {
        return hsp_err_nomem(err, "reshard of %s", r.name);
    }
    for (uint32_t i = 0; i < r.moves.n; i++) {
        r.moves.move[i].channel = c->channel++;
    }
    return new_reshard(c, &r, ret, err);
}

enum hsp_status hsp_step_origins(const struct hsp_stagecode *s, struct hsp_step *st,
                                 struct hsp_err *err)
{
    struct hsp_axes ax;
    uint8_t rank = 0;
    uint32_t k = 0;
    for (uint8_t i = 0; i < st->n_in; i++) {
        uint8_t r = s->value[st->in[i]].at.rank;
        rank = r > rank ? r : rank;
    }
    enum hsp_status rc = hsp_op_axes((enum hsp_op)st->op, &st->at, rank, &ax, err);
    for (uint8_t i = 0; rc == HSP_OK && i < ax.n_in + ax.n_out; i++) {
        bool in = i < ax.n_in;
        const struct hsp_operand_use *u = in ? &ax.in[i] : &ax.out[i - ax.n_in];
        uint32_t v = in ? st->in[i] : st->out[i - ax.n_in];
        for (uint8_t d = 0; d < u->rank && k < 2; d++) {
            if (u->dim[d].origin) {
                st->origin_value[k] = v;
                st->origin_dim[k++] = d;
            }
        }
    }
    return rc;
}
