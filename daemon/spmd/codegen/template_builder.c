/* Builds templates and their keys. The maker sees the steps of hsp_member_code, as run_step gives
 * them, and of their values only the fields that print_value prints; so does the key. */
#include "daemon/spmd/codegen/template_builder.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/vec.h"
#include "proto/program/template_codec.h"

/* The meaning of a symbol. */
struct sym_key {
    int64_t extent; /* global */
    uint32_t cut, split;
    uint8_t what; /* enum hsp_symbol_what */
};
_Static_assert(HSP_N_PARTS *HSP_MAX_CHUNKS <= HSP_MAX_SEGMENTS, "every part becomes a segment");
enum { BATCH = -1, FIXED_BATCH = -2 }; /* extents of a dim that is the micro-batch */

/* ---- the steps of a member ---- */

static bool here(const struct hsp_member_code *x, uint32_t value)
{
    const struct hsp_value *v = &x->s->value[value];
    return v->present == NULL || v->present[x->member];
}

static bool is_alias(const struct hsp_member_code *x, uint32_t value)
{
    const struct hsp_value *v = &x->s->value[value];
    return v->is_alias != NULL && v->is_alias[x->member];
}

/* Drops the operands of instruction @st that this member does not have. Returns false if the member
 * does not run the instruction at all. */
static bool trim(const struct hsp_member_code *x, struct hsp_step *st)
{
    if (st->only != HSP_NONE && st->only != x->member) {
        return false;
    }
    if (st->kind != HSP_I_RESHARD) {
        for (uint8_t i = 0; i < st->n_in; i++) {
            if (!here(x, st->in[i])) {
                return false;
            }
        }
        return true;
    }
    if (st->n_in > 0 && !here(x, st->in[0])) {
        st->n_in = 0;
    }
    if (st->n_out > 0 && (!here(x, st->out[0]) || is_alias(x, st->out[0]))) {
        st->n_out = 0;
    }
    return st->n_in + st->n_out > 0;
}

enum run { RUN_NOT, RUN_STEP, RUN_PASS };

/* Writes the work of this member for instruction @from to *ret. RUN_PASS: the member only passes
 * the first operands on. */
static enum run run_step(const struct hsp_member_code *x, const struct hsp_step *from,
                         struct hsp_step *ret)
{
    bool all = true;
    *ret = *from;
    for (uint8_t i = 0; from->pass && i < from->n_in; i++) {
        all = all && here(x, from->in[i]);
    }
    return !all ? RUN_PASS : trim(x, ret) ? RUN_STEP : RUN_NOT;
}

/* Pre and Post are not cut into chunks; without validation there is no Eval. */
static bool has_segment(const struct hsp_compiler *c, const struct hsp_stagecode *s, uint32_t part)
{
    switch (hsp_part_kind(part)) {
    case HSP_PART_PRE:
    case HSP_PART_POST: return hsp_part_chunk(part) == 0;
    case HSP_PART_FORWARD:
    case HSP_PART_BACKWARD: return true;
    case HSP_PART_WGRAD: return s->split;
    case HSP_PART_EVAL: return c->eval;
    case HSP_PART_SERVE: return part == HSP_PART_SERVE && s->part[part].n > 0;
    }
    return false;
}

/* Makes the key of dim @d of a tensor. Returns false if the dim is the running micro-batch. */
static bool length_key(const struct hsp_value *v, uint8_t d, struct sym_key *ret)
{
    *ret = (struct sym_key){.extent = d == 0 && v->batch_fixed ? FIXED_BATCH : v->at.extent[d],
                            .cut = v->at.cut[d],
                            .split = v->at.split[d],
                            .what = HSP_SYMBOL_LENGTH};
    return d > 0 || !v->batch_dim0;
}

/* Makes the key of origin @k of @st. Returns false if there is none, or if it is 0. */
static bool origin_key(const struct hsp_stagecode *s, const struct hsp_step *st, int k,
                       struct sym_key *ret)
{
    if (st->origin_value[k] == HSP_NONE) {
        return false;
    }
    const struct hsp_value *v = &s->value[st->origin_value[k]];
    uint8_t d = st->origin_dim[k];
    *ret = (struct sym_key){.extent = v->at.extent[d],
                            .cut = v->at.cut[d],
                            .split = v->at.split[d],
                            .what = HSP_SYMBOL_ORIGIN};
    return ret->cut != 0 || ret->split != 0; /* whole: starts at 0 */
}

/* ---- templates ---- */

struct maker {
    const struct hsp_compiler *c;
    const struct hsp_member_code *code;
    const struct hsp_stagecode *s;
    uint32_t rank, next; /* step of the code */
    uint32_t *tensor_of; /* [value]: tensor of the program, HSP_NONE; owned */
    uint32_t *value_of;  /* [tensor]: place in code->value; owned */
    size_t cap_value_of;
    struct hsp_symbol *sym;       /* owned */
    struct sym_key *key;          /* owned */
    struct hsp_symbol_from *from; /* owned */
    size_t cap_sym, cap_key, cap_from;
    struct hsp_ptensor *tensor; /* owned */
    size_t cap_tensor;
    struct hsp_instr *instr; /* owned */
    size_t cap_instr;
    struct hsp_piece *piece; /* owned */
    size_t cap_piece;
    struct hsp_template t; /* counts */
    struct hsp_segment seg[HSP_N_PARTS * HSP_MAX_CHUNKS];
    struct hsp_err *err;
};

static enum hsp_status too_many(const struct maker *m, size_t need, size_t max, const char *what)
{
    (void)hsp_grow_error(need, max, what, m->err);
    return hsp_err_wrap(m->err, "program of rank %u", m->rank);
}

static enum hsp_status get_symbol(struct maker *m, const char *name, struct sym_key key,
                                  struct hsp_symbol_from from, uint32_t *ret)
{
    for (uint32_t i = 1; i < m->t.n_symbols; i++) {
        const struct sym_key *k = &m->key[i];
        if (k->extent == key.extent && k->cut == key.cut && k->split == key.split &&
            k->what == key.what) {
            *ret = i;
            return HSP_OK;
        }
    }
    size_t n = m->t.n_symbols;
    if (!hsp_grow(&m->sym, &m->cap_sym, n + 1, sizeof *m->sym, HSP_MAX_SYMBOLS) ||
        !hsp_grow(&m->key, &m->cap_key, n + 1, sizeof *m->key, HSP_MAX_SYMBOLS) ||
        !hsp_grow(&m->from, &m->cap_from, n + 1, sizeof *m->from, HSP_MAX_SYMBOLS)) {
        return too_many(m, n + 1, HSP_MAX_SYMBOLS, "symbols");
    }
    m->sym[n].name = n == HSP_SYM_BATCH ? "batch"
                                        : hsp_arena_printf(m->c->arena, "%s%c%u", name,
                                                           "?/@:"[key.what], from.dim);
    if (m->sym[n].name == NULL) {
        return hsp_err_nomem(m->err, "program of rank %u", m->rank);
    }
    m->key[n] = key;
    m->from[n] = from;
    m->from[n].what = key.what;
    *ret = m->t.n_symbols++;
    return HSP_OK;
}

static enum hsp_status get_tensor(struct maker *m, uint32_t value, uint32_t *ret)
{
    value = is_alias(m->code, value) ? m->s->value[value].alias : value;
    const struct hsp_value *v = &m->s->value[value];
    *ret = m->tensor_of[value];
    if (*ret != HSP_NONE) {
        return HSP_OK;
    }
    size_t n = m->t.n_tensors;
    if (!hsp_grow(&m->tensor, &m->cap_tensor, n + 1, sizeof *m->tensor, HSP_MAX_TENSORS) ||
        !hsp_grow(&m->value_of, &m->cap_value_of, n + 1, sizeof *m->value_of, HSP_MAX_TENSORS)) {
        return too_many(m, n + 1, HSP_MAX_TENSORS, "tensors");
    }
    struct hsp_ptensor t = {.name = v->name,
                            .dtype = v->dtype,
                            .cls = v->cls,
                            .rank = v->at.rank,
                            .state_kind = v->state_kind};
    if (v->cls == HSP_CLASS_MICRO) {
        t.cls = v->parts == HSP_NONE ? HSP_CLASS_MICRO : HSP_CLASS_SCRATCH;
    }
    for (uint8_t d = 0; d < t.rank; d++) {
        struct sym_key key;
        struct hsp_symbol_from from = {.value = m->code->number[value], .dim = d};
        if (!length_key(v, d, &key)) {
            t.sym[d] = HSP_SYM_BATCH;
            continue;
        }
        enum hsp_status rc = get_symbol(m, v->name, key, from, &t.sym[d]);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    m->tensor[n] = t;
    m->value_of[n] = m->code->number[value];
    *ret = m->tensor_of[value] = m->t.n_tensors++;
    return HSP_OK;
}

/* Reshards are numbered as in the member's code. */
static void add_reshard(struct maker *m, struct hsp_instr *i)
{
    i->arg = m->t.n_reshards++;
    if (i->n_out == 0) { /* a sender: the output is never written */
        i->n_out = 1;
        i->out[0] = i->in[0];
    }
}

static enum hsp_status add_origins(struct maker *m, const struct hsp_step *st, struct hsp_instr *i)
{
    enum hsp_status rc = HSP_OK;
    for (int k = 0; rc == HSP_OK && k < 2; k++) {
        struct sym_key key;
        i->origin_sym[k] = UINT32_MAX;
        if (origin_key(m->s, st, k, &key)) {
            uint32_t v = st->origin_value[k];
            struct hsp_symbol_from from = {.value = m->code->number[v], .dim = st->origin_dim[k]};
            rc = get_symbol(m, m->s->value[v].name, key, from, &i->origin_sym[k]);
        }
    }
    return rc;
}

/* Makes an attribute that is an extent a symbol, so that the template is the same for another size
 * of the model. */
static enum hsp_status add_unit(struct maker *m, const struct hsp_step *st, struct hsp_instr *i)
{
    if (st->kind != HSP_I_OP || st->at.i[0] == 0) {
        return HSP_OK;
    }
    struct sym_key key = {.extent = st->at.i[0], .what = HSP_SYMBOL_UNIT};
    struct hsp_symbol_from from = {.unit = st->at.i[0]};
    i->at.i[0] = 0;
    return get_symbol(m, m->s->value[st->out[0]].name, key, from, &i->unit_sym);
}

/* Makes the tensors of the first operands the results of the step: they get the names of the
 * results, and live as long as the results are needed. */
static enum hsp_status pass_on(struct maker *m, const struct hsp_step *st)
{
    for (uint8_t k = 0; k < st->n_out; k++) {
        const struct hsp_value *v = &m->s->value[st->out[k]];
        uint32_t t;
        enum hsp_status rc = get_tensor(m, st->in[k], &t);
        if (rc != HSP_OK) {
            return rc;
        }
        HSP_ASSERT(m->tensor_of[st->out[k]] == HSP_NONE);
        m->tensor_of[st->out[k]] = t;
        m->value_of[t] = m->code->number[st->out[k]];
        m->tensor[t].name = v->name;
        m->tensor[t].cls = v->parts == HSP_NONE ? HSP_CLASS_MICRO : m->tensor[t].cls;
    }
    return HSP_OK;
}

static enum hsp_status add_instr(struct maker *m, const struct hsp_step *from)
{
    struct hsp_step st;
    size_t n = m->t.n_instrs;
    if (run_step(m->code, from, &st) == RUN_PASS) {
        return pass_on(m, &st);
    }
    if (!hsp_grow(&m->instr, &m->cap_instr, n + 1, sizeof *m->instr, HSP_MAX_INSTRS)) {
        return too_many(m, n + 1, HSP_MAX_INSTRS, "instructions");
    }
    struct hsp_instr i = {.kind = st.kind,
                          .op = st.op,
                          .queue = st.queue,
                          .n_in = st.n_in,
                          .n_out = st.n_out,
                          .arg = st.arg,
                          .node = st.node,
                          .at = st.at};
    enum hsp_status rc = HSP_OK;
    for (uint8_t k = 0; rc == HSP_OK && k < st.n_in; k++) {
        rc = get_tensor(m, st.in[k], &i.in[k]);
    }
    for (uint8_t k = 0; rc == HSP_OK && k < st.n_out; k++) {
        rc = get_tensor(m, st.out[k], &i.out[k]);
    }
    if (rc == HSP_OK) {
        rc = add_unit(m, &st, &i);
    }
    if (rc == HSP_OK) {
        rc = add_origins(m, &st, &i);
    }
    if (rc == HSP_OK) {
        if (st.kind == HSP_I_RESHARD) {
            add_reshard(m, &i);
        }
        m->instr[n] = i;
        m->t.n_instrs++;
    }
    return rc;
}

static enum hsp_status add_segment(struct maker *m, uint32_t part)
{
    const struct hsp_member_code *x = m->code;
    uint32_t first = m->t.n_instrs;
    struct hsp_segment seg = {.kind = hsp_part_segment(m->s, part),
                              .chunk = hsp_part_chunk(part),
                              .first_piece = m->t.n_pieces};
    for (; m->next < x->n_steps && x->step[m->next].part == part; m->next++) {
        enum hsp_status rc = add_instr(m, &m->s->part[part].step[x->step[m->next].step]);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    for (uint32_t i = first; i < m->t.n_instrs; i++) {
        size_t n = m->t.n_pieces;
        if (seg.n_pieces > 0 && m->piece[n - 1].queue == m->instr[i].queue &&
            x->meets[i - 1] == x->meets[i]) {
            m->piece[n - 1].n++;
            continue;
        }
        if (!hsp_grow(&m->piece, &m->cap_piece, n + 1, sizeof *m->piece, HSP_MAX_INSTRS)) {
            return too_many(m, n + 1, HSP_MAX_INSTRS, "pieces");
        }
        m->piece[n] = (struct hsp_piece){.first = i, .n = 1, .queue = m->instr[i].queue};
        m->t.n_pieces++;
        seg.n_pieces++;
    }
    m->seg[m->t.n_segments++] = seg;
    return HSP_OK;
}

static enum hsp_status move_traced(struct maker *m, struct hsp_traced_template *ret)
{
    struct hsp_arena *a = m->c->arena;
    struct hsp_template t = m->t;
    t.symbols = hsp_arena_memdup(a, m->sym, t.n_symbols * sizeof *m->sym);
    t.tensors = hsp_arena_memdup(a, m->tensor, t.n_tensors * sizeof *m->tensor);
    t.instrs = hsp_arena_memdup(a, m->instr, t.n_instrs * sizeof *m->instr);
    t.pieces = hsp_arena_memdup(a, m->piece, t.n_pieces * sizeof *m->piece);
    t.segments = hsp_arena_memdup(a, m->seg, t.n_segments * sizeof *m->seg);
    *ret = (struct hsp_traced_template){
        .value_of = hsp_arena_memdup(a, m->value_of, t.n_tensors * sizeof *m->value_of),
        .key = m->code->key,
        .symbol_of = hsp_arena_memdup(a, m->from, t.n_symbols * sizeof *m->from)};
    if (t.symbols == NULL || t.tensors == NULL || t.instrs == NULL || t.pieces == NULL ||
        t.segments == NULL || ret->value_of == NULL || ret->symbol_of == NULL) {
        return hsp_err_nomem(m->err, "program of rank %u", m->rank);
    }
    enum hsp_status rc = hsp_template_digest(&t, &t.digest);
    ret->tpl = t;
    return rc == HSP_OK ? HSP_OK : hsp_err_about(m->err, rc, "the template of rank %u", m->rank);
}

enum hsp_status hsp_traced_template_make(const struct hsp_compiler *c,
                                         const struct hsp_member_code *code,
                                         struct hsp_traced_template *ret, struct hsp_err *err)
{
    const struct hsp_stagecode *s = code->s;
    struct maker m = {
        .c = c, .code = code, .s = s, .rank = s->group->ranks[code->member], .err = err};
    uint32_t batch = 0;
    enum hsp_status rc = get_symbol(&m, "batch", (struct sym_key){.extent = BATCH},
                                    (struct hsp_symbol_from){0}, &batch);
    m.tensor_of = calloc(s->n_values + 1, sizeof *m.tensor_of);
    if (rc == HSP_OK && m.tensor_of == NULL) {
        rc = hsp_err_nomem(m.err, "program of rank %u", m.rank);
    }
    for (size_t i = 0; m.tensor_of != NULL && i < s->n_values; i++) {
        m.tensor_of[i] = HSP_NONE;
    }
    for (uint32_t i = 0; rc == HSP_OK && i < s->n_parts; i++) {
        uint32_t part = hsp_part_nth(s, i);
        if (has_segment(c, s, part)) {
            rc = add_segment(&m, part);
        }
    }
    if (rc == HSP_OK) {
        rc = move_traced(&m, ret);
    }
    free(m.tensor_of);
    free(m.value_of);
    free(m.sym);
    free(m.key);
    free(m.from);
    free(m.tensor);
    free(m.instr);
    free(m.piece);
    return rc;
}

/* ---- keys ---- */

/* The first word of a record holds its kind; steps have neither bit. */
#define VALUE (UINT64_C(1) << 63)
#define PART  (UINT64_C(1) << 62)

#define MAX_STEPS ((size_t)HSP_MAX_INSTRS * HSP_N_PARTS * HSP_MAX_CHUNKS) /* of a stage */

/* Numbers of a record, without the padding that structs have. */
struct words {
    uint64_t w[HSP_MAX_IN + HSP_MAX_OUT + HSP_N_ATTR_I + 3 * HSP_MAX_RANK + 16];
    size_t n;
};

static void put_key(struct words *r, const struct sym_key *k)
{
    r->w[r->n++] = (uint64_t)k->extent;
    r->w[r->n++] = (uint64_t)k->cut << 32 | k->split;
}

/* @alias: number of the value that serves in its place, HSP_NONE. */
static void print_value(const struct hsp_value *v, uint32_t alias, struct hsp_hasher *h)
{
    struct words r = {.n = 2};
    uint8_t flags = (uint8_t)(v->batch_dim0 | (v->parts == HSP_NONE) << 1);
    r.w[0] = VALUE | (uint64_t)flags << 24 | (uint64_t)v->state_kind << 16 | (uint64_t)v->cls << 8 |
             v->dtype;
    r.w[1] = (uint64_t)alias << 32 | v->at.rank;
    for (uint8_t d = 0; d < v->at.rank; d++) {
        struct sym_key key;
        if (length_key(v, d, &key)) {
            put_key(&r, &key);
        }
    }
    hsp_hasher_update(h, r.w, r.n * sizeof r.w[0]);
    hsp_hasher_update(h, v->name, strlen(v->name) + 1);
}

/* Returns the number of a value, and prints the value at its first use. */
static uint32_t number_of(struct hsp_member_code *x, uint32_t value, struct hsp_hasher *h)
{
    if (x->number[value] == HSP_NONE) {
        const struct hsp_value *v = &x->s->value[value];
        uint32_t alias = is_alias(x, value) ? number_of(x, v->alias, h) : HSP_NONE;
        print_value(v, alias, h);
        x->number[value] = x->n_values;
        x->value[x->n_values++] = value;
    }
    return x->number[value];
}

/* @apart: no piece has both the instruction before and this one. */
static void print_step(struct hsp_member_code *x, const struct hsp_step *st, enum run run,
                       bool apart, struct hsp_hasher *h)
{
    struct words r = {.n = 2};
    r.w[0] = (uint64_t)apart << 48 | (uint64_t)run << 40 | (uint64_t)st->n_out << 32 |
             (uint64_t)st->n_in << 24 | (uint64_t)st->queue << 16 | (uint64_t)st->op << 8 |
             st->kind;
    r.w[1] = (uint64_t)(st->kind == HSP_I_RESHARD ? 0 : st->arg) << 32 | st->node;
    for (uint8_t i = 0; i < st->n_in; i++) {
        r.w[r.n++] = number_of(x, st->in[i], h);
    }
    for (uint8_t i = 0; i < st->n_out; i++) {
        r.w[r.n++] = number_of(x, st->out[i], h);
    }
    memcpy(&r.w[r.n], st->at.i, sizeof st->at.i);
    r.n += HSP_N_ATTR_I;
    memcpy(&r.w[r.n], st->at.f, sizeof st->at.f);
    r.n += sizeof st->at.f / sizeof st->at.f[0];
    for (int k = 0; k < 2; k++) {
        struct sym_key key;
        bool has = origin_key(x->s, st, k, &key);
        uint64_t v = has ? number_of(x, st->origin_value[k], h) : HSP_NONE;
        r.w[r.n++] = v << 32 | st->origin_dim[k];
        if (has) {
            put_key(&r, &key);
        }
    }
    hsp_hasher_update(h, r.w, r.n * sizeof r.w[0]);
}

/* Which values have a tensor by now. */
static void mark_made(const struct hsp_member_code *x, const struct hsp_step *st, enum run run,
                      bool *made)
{
    uint8_t n_in = run == RUN_PASS ? st->n_out : st->n_in;
    for (uint8_t i = 0; i < n_in + st->n_out; i++) {
        uint32_t v = i < n_in ? st->in[i] : st->out[i - n_in];
        made[is_alias(x, v) ? x->s->value[v].alias : v] = true;
    }
}

static bool list_step(struct hsp_member_code *x, struct hsp_step_at at, const struct hsp_step *st,
                      enum run run)
{
    bool reshard = run == RUN_STEP && st->kind == HSP_I_RESHARD;
    if (!hsp_grow(&x->step, &x->cap_steps, (size_t)x->n_steps + 1, sizeof *x->step, MAX_STEPS) ||
        (reshard && !hsp_grow(&x->reshard, &x->cap_reshards, (size_t)x->n_reshards + 1,
                              sizeof *x->reshard, MAX_STEPS)) ||
        (run == RUN_STEP && !hsp_grow(&x->meets, &x->cap_instrs, (size_t)x->n_instrs + 1,
                                      sizeof *x->meets, MAX_STEPS))) {
        return false;
    }
    x->step[x->n_steps++] = at;
    if (run == RUN_STEP) {
        x->meets[x->n_instrs++] = st->meets;
    }
    if (reshard) {
        x->reshard[x->n_reshards++] = st->arg;
    }
    return true;
}

/* False without memory. */
static bool read_part(struct hsp_member_code *x, uint32_t part, bool *made, struct hsp_hasher *h)
{
    const struct hsp_code *code = &x->s->part[part];
    const uint64_t begin = PART | part;
    bool ok = true;
    hsp_hasher_update(h, &begin, sizeof begin);
    for (uint32_t i = 0; ok && i < code->n; i++) {
        struct hsp_step st;
        enum run run = run_step(x, &code->step[i], &st);
        bool nothing = st.kind == HSP_I_COPY && !made[st.in[0]]; /* made elsewhere */
        if (run == RUN_NOT || nothing) {
            continue;
        }
        uint32_t before = x->n_instrs > 0 ? x->meets[x->n_instrs - 1] : 0;
        print_step(x, &st, run, run == RUN_STEP && st.meets != before, h);
        mark_made(x, &st, run, made);
        ok = list_step(x, (struct hsp_step_at){part, i}, &st, run);
    }
    return ok;
}

enum hsp_status hsp_member_code_read(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                                     uint32_t member, struct hsp_member_code *ret,
                                     struct hsp_err *err)
{
    struct hsp_hasher *h = hsp_hasher_new();
    struct hsp_member_code x = {.s = s,
                                .member = member,
                                .value = calloc(s->n_values + 1, sizeof *x.value),
                                .number = calloc(s->n_values + 1, sizeof *x.number)};
    bool *made = calloc(s->n_values + 1, sizeof *made);
    bool ok = h != NULL && made != NULL && x.value != NULL && x.number != NULL;
    for (size_t i = 0; ok && i < s->n_values; i++) {
        x.number[i] = HSP_NONE;
    }
    const uint64_t head[] = {s->n_chunks, s->split};
    if (ok) {
        hsp_hasher_update(h, head, sizeof head);
    }
    for (uint32_t i = 0; ok && i < s->n_parts; i++) {
        uint32_t part = hsp_part_nth(s, i);
        ok = !has_segment(c, s, part) || read_part(&x, part, made, h);
    }
    if (ok) {
        x.key = hsp_hasher_digest(h);
        *ret = x;
    } else {
        hsp_member_code_fini(&x);
    }
    free(made);
    (void)hsp_hasher_free(h);
    return ok ? HSP_OK : hsp_err_nomem(err, "program of rank %u", s->group->ranks[member]);
}

void hsp_member_code_fini(struct hsp_member_code *code)
{
    free(code->value);
    free(code->number);
    free(code->step);
    free(code->reshard);
    free(code->meets);
    code->value = code->number = code->reshard = code->meets = NULL;
    code->step = NULL;
}
