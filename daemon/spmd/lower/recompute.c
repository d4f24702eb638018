#include "daemon/spmd/lower/recompute.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/lower/stage_ir.h"
#include "daemon/spmd/sharding/pipeline_units.h"
#include "proto/base/check.h"

struct again {
    struct hsp_compiler *c;
    struct hsp_stagecode *s;
    uint32_t n;     /* values before this pass */
    uint32_t *unit; /* [value]: unit that makes it again; HSP_NONE: kept */
    size_t *maker;  /* [value]: number of its step in Forward, if it has one */
    uint32_t *copy; /* [value]: its second version, HSP_NONE */
    size_t *first;  /* [chunk]: number of the first step of Forward */
    bool *needed;   /* [step of Forward]: Backward needs it again */
    bool *emitted;  /* [unit] */
    struct hsp_err *err;
};

static const struct hsp_code *forward_of(const struct again *a, uint32_t chunk)
{
    return &a->s->part[hsp_part_at(HSP_PART_FORWARD, chunk)];
}

/* The unit a step of Forward belongs to; HSP_NONE: it is not repeated. */
static uint32_t unit_of(const struct again *a, const struct hsp_step *st)
{
    if (st->kind == HSP_I_OP) {
        return a->c->g->nodes[st->node].layer;
    }
    if (st->kind == HSP_I_RESHARD && st->n_in == 1 && st->n_out == 1) {
        return a->unit[st->in[0]];
    }
    return HSP_NONE;
}

static void find_makers(struct again *a, uint32_t chunk)
{
    const struct hsp_code *f = forward_of(a, chunk);
    for (size_t i = 0; i < f->n; i++) {
        const struct hsp_step *st = &f->step[i];
        uint32_t u = unit_of(a, st);
        for (uint8_t k = 0; k < st->n_out; k++) {
            a->unit[st->out[k]] = u;
            a->maker[st->out[k]] = a->first[chunk] + i;
        }
    }
}

/* Keeps the tensors that cross between units. */
static void keep_crossing(struct again *a, uint32_t chunk)
{
    const struct hsp_code *f = forward_of(a, chunk);
    for (size_t i = 0; i < f->n; i++) {
        const struct hsp_step *st = &f->step[i];
        for (uint8_t k = 0; st->kind == HSP_I_OP && k < st->n_in; k++) {
            uint32_t u = a->c->g->nodes[st->node].layer;
            a->unit[st->in[k]] = a->unit[st->in[k]] == u ? u : HSP_NONE;
        }
    }
}

static bool repeated(const struct again *a, uint32_t value)
{
    return value < a->n && a->unit[value] != HSP_NONE;
}

static void need_inputs(struct again *a, const struct hsp_step *st)
{
    for (uint8_t k = 0; k < st->n_in; k++) {
        if (repeated(a, st->in[k])) {
            a->needed[a->maker[st->in[k]]] = true;
        }
    }
}

static void find_needed(struct again *a)
{
    uint32_t n = a->s->n_chunks;
    for (uint32_t c = 0; c < n; c++) {
        const struct hsp_code *b = &a->s->part[hsp_part_at(HSP_PART_BACKWARD, c)];
        for (size_t i = 0; i < b->n; i++) {
            need_inputs(a, &b->step[i]);
        }
    }
    for (uint32_t c = n; c-- > 0;) { /* makers stand before their readers */
        const struct hsp_code *f = forward_of(a, c);
        for (size_t i = f->n; i-- > 0;) {
            if (a->needed[a->first[c] + i]) {
                need_inputs(a, &f->step[i]);
            }
        }
    }
}

static enum hsp_status copy_value(struct again *a, uint32_t value)
{
    struct hsp_value v = a->s->value[value];
    v.parts = 0;
    v.next = HSP_NONE;
    v.name = hsp_arena_printf(a->c->arena, "%s%s", v.name,
                              strchr(v.name, '#') != NULL ? ".again" : "#again");
    if (v.name == NULL) {
        return hsp_err_nomem(a->err, "recomputation");
    }
    return hsp_value_add(a->s, &v, &a->copy[value], a->err);
}

/* Names of second versions in place of the first ones. */
static void rename_inputs(const struct again *a, struct hsp_step *st)
{
    for (uint8_t k = 0; k < st->n_in; k++) {
        uint32_t v = st->in[k];
        st->in[k] = v < a->n && a->copy[v] != HSP_NONE ? a->copy[v] : v;
    }
    for (int k = 0; k < 2; k++) {
        uint32_t v = st->origin_value[k];
        if (v != HSP_NONE && v < a->n && a->copy[v] != HSP_NONE) {
            st->origin_value[k] = a->copy[v];
        }
    }
}

/* For lists the second pass makes the second versions, too. */
static enum hsp_status rename_whole(const struct again *a, struct hsp_step *st)
{
    if (st->stands_for == NULL) {
        return HSP_OK;
    }
    struct hsp_step *whole = hsp_arena_memdup(a->c->arena, st->stands_for, sizeof *whole);
    if (whole == NULL) {
        return hsp_err_nomem(a->err, "recomputation");
    }
    memcpy(whole->out, st->out, sizeof whole->out);
    st->stands_for = whole;
    return HSP_OK;
}

/* Repeats the needed steps of unit @u at the end of @part, a Backward, as it is so far. */
static enum hsp_status emit_unit(struct again *a, uint32_t u, uint32_t part)
{
    uint32_t stage, chunk;
    hsp_place_of_unit(&a->c->p->pipelines[a->s->pipeline], u, &stage, &chunk);
    const struct hsp_code *f = forward_of(a, chunk);
    enum hsp_status rc = HSP_OK;
    a->emitted[u] = true;
    for (size_t i = 0; rc == HSP_OK && i < f->n; i++) {
        struct hsp_step st = f->step[i];
        if (!a->needed[a->first[chunk] + i] || unit_of(a, &st) != u) {
            continue;
        }
        for (uint8_t k = 0; rc == HSP_OK && k < st.n_out; k++) {
            rc = copy_value(a, st.out[k]);
            st.out[k] = a->copy[st.out[k]];
        }
        rename_inputs(a, &st);
        if (rc == HSP_OK) {
            rc = rename_whole(a, &st);
        }
        if (rc == HSP_OK && st.kind == HSP_I_RESHARD) {
            rc = hsp_reshard_clone(a->c, st.arg, &st.arg, a->err);
        }
        if (rc == HSP_OK) {
            rc = hsp_step_add(a->s, part, SIZE_MAX, &st, a->err);
        }
    }
    return rc;
}

/* Writes a Backward again; each unit is repeated before its first reader. */
static enum hsp_status rewrite(struct again *a, uint32_t part)
{
    struct hsp_code old = a->s->part[part];
    enum hsp_status rc = HSP_OK;
    a->s->part[part] = (struct hsp_code){0};
    for (size_t i = 0; rc == HSP_OK && i < old.n; i++) {
        struct hsp_step st = old.step[i];
        for (uint8_t k = 0; rc == HSP_OK && k < st.n_in; k++) {
            if (repeated(a, st.in[k]) && !a->emitted[a->unit[st.in[k]]]) {
                rc = emit_unit(a, a->unit[st.in[k]], part);
            }
        }
        rename_inputs(a, &st);
        if (rc == HSP_OK) {
            rc = hsp_step_add(a->s, part, SIZE_MAX, &st, a->err);
        }
    }
    free(old.step);
    return rc;
}

static enum hsp_status alloc_tables(struct again *a)
{
    struct hsp_arena *arena = a->c->arena;
    size_t steps = 0;
    a->first = hsp_arena_array(arena, a->s->n_chunks, sizeof *a->first);
    for (uint32_t c = 0; a->first != NULL && c < a->s->n_chunks; c++) {
        a->first[c] = steps;
        steps += forward_of(a, c)->n;
    }
    a->unit = hsp_arena_array(arena, a->n, sizeof *a->unit);
    a->maker = hsp_arena_array(arena, a->n, sizeof *a->maker);
    a->copy = hsp_arena_array(arena, a->n, sizeof *a->copy);
    a->needed = hsp_arena_array(arena, steps, sizeof *a->needed);
    a->emitted = hsp_arena_array(arena, a->c->g->n_layers, sizeof *a->emitted);
    if (a->first == NULL || a->unit == NULL || a->maker == NULL || a->copy == NULL ||
        a->needed == NULL || a->emitted == NULL) {
        return hsp_err_nomem(a->err, "recomputation");
    }
    memset(a->unit, 0xff, a->n * sizeof *a->unit); /* HSP_NONE */
    memset(a->copy, 0xff, a->n * sizeof *a->copy);
    return HSP_OK;
}

enum hsp_status hsp_recompute_stage(struct hsp_compiler *c, struct hsp_stagecode *s,
                                    struct hsp_err *err)
{
    struct again a = {.c = c, .s = s, .n = (uint32_t)s->n_values, .err = err};
    enum hsp_status rc = alloc_tables(&a);
    if (rc != HSP_OK) {
        return rc;
    }
    for (uint32_t i = 0; i < s->n_chunks; i++) {
        find_makers(&a, i);
    }
    for (uint32_t i = 0; i < s->n_chunks; i++) {
        keep_crossing(&a, i);
    }
    find_needed(&a);
    for (uint32_t i = s->n_chunks; rc == HSP_OK && i-- > 0;) { /* as they run */
        rc = rewrite(&a, hsp_part_at(HSP_PART_BACKWARD, i));
    }
    if (rc == HSP_OK) {
        hsp_parts_mark(s); /* Backward reads other values now */
    }
    return rc;
}
