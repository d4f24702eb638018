#include "daemon/spmd/specialize.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/size.h"
#include "proto/base/vec.h"

/* What a symbol stands for. */
struct sym_key {
    int64_t extent; /* global */
    uint32_t cut, split;
    uint8_t what; /* enum sym_what */
};
_Static_assert(HSP_N_PARTS *HSP_MAX_CHUNKS <= HSP_MAX_SEGMENTS, "every part becomes a segment");
enum sym_what { SYM_LENGTH, SYM_ORIGIN, SYM_UNIT };
enum { BATCH = -1, FIXED_BATCH = -2 }; /* extents of a dim that is the micro-batch */

struct maker {
    struct hsp_compiler *c;
    struct hsp_stagecode *s;
    uint32_t rank, member;
    uint32_t *tensor_of; /* [value]: tensor of the program, HSP_NONE; owned */
    uint32_t *value_of;  /* [tensor]; owned */
    size_t cap_value_of;
    struct hsp_symbol *sym; /* owned */
    struct sym_key *key;    /* owned */
    int64_t *sym_value;     /* owned */
    size_t cap_sym, cap_key, cap_sym_value;
    struct hsp_ptensor *tensor; /* owned */
    size_t cap_tensor;
    struct hsp_instr *instr; /* owned */
    size_t cap_instr;
    struct hsp_piece *piece; /* owned */
    size_t cap_piece;
    struct hsp_reshard_bind *reshard; /* owned; moves in the arena */
    size_t cap_reshard;
    struct hsp_template t; /* counts */
    struct hsp_segment seg[HSP_N_PARTS * HSP_MAX_CHUNKS];
    struct hsp_err *err;
};

static enum hsp_status no_memory(const struct maker *m)
{
    return hsp_err_set(m->err, HSP_ENOMEM, 0, "program of rank %u", m->rank);
}

static enum hsp_status too_many(const struct maker *m, size_t need, size_t max, const char *what)
{
    (void)hsp_grow_error(need, max, what, m->err);
    return hsp_err_wrap(m->err, "program of rank %u", m->rank);
}

static enum hsp_status get_symbol(struct maker *m, const char *name, uint8_t dim,
                                  struct sym_key key, int64_t value, uint32_t *ret)
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
        !hsp_grow(&m->sym_value, &m->cap_sym_value, n + 1, sizeof *m->sym_value, HSP_MAX_SYMBOLS)) {
        return too_many(m, n + 1, HSP_MAX_SYMBOLS, "symbols");
    }
    m->sym[n].name = n == HSP_SYM_BATCH
                         ? "batch"
                         : hsp_arena_printf(m->c->arena, "%s%c%u", name, "/@:"[key.what], dim);
    if (m->sym[n].name == NULL) {
        return no_memory(m);
    }
    m->key[n] = key;
    m->sym_value[n] = value;
    *ret = m->t.n_symbols++;
    return HSP_OK;
}

static enum hsp_status get_tensor(struct maker *m, uint32_t value, uint32_t *ret)
{
    const struct hsp_value *v = &m->s->value[value];
    if (v->is_alias != NULL && v->is_alias[m->member]) {
        value = v->alias;
        v = &m->s->value[value];
    }
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
    const struct hsp_box *b = &v->at.box[m->member];
    for (uint8_t d = 0; d < t.rank; d++) {
        struct sym_key key = {
            .extent = v->at.extent[d], .cut = v->at.cut[d], .split = v->at.split[d]};
        if (d == 0 && v->batch_dim0) {
            t.sym[d] = HSP_SYM_BATCH;
            continue;
        }
        key.extent = d == 0 && v->batch_fixed ? FIXED_BATCH : key.extent;
        enum hsp_status rc = get_symbol(m, v->name, d, key, b->hi[d] - b->lo[d], &t.sym[d]);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    m->tensor[n] = t;
    m->value_of[n] = value;
    *ret = m->tensor_of[value] = m->t.n_tensors++;
    return HSP_OK;
}

static bool here(const struct maker *m, uint32_t value)
{
    const struct hsp_value *v = &m->s->value[value];
    return v->present == NULL || v->present[m->member];
}

/* Drops operands this member does not have. False: it does not run the step. */
static bool trim(const struct maker *m, struct hsp_step *st)
{
    if (st->only != HSP_NONE && st->only != m->member) {
        return false;
    }
    if (st->kind != HSP_I_RESHARD) {
        for (uint8_t i = 0; i < st->n_in; i++) {
            if (!here(m, st->in[i])) {
                return false;
            }
        }
        return true;
    }
    if (st->n_in > 0 && !here(m, st->in[0])) {
        st->n_in = 0;
    }
    if (st->n_out > 0) {
        const struct hsp_value *v = &m->s->value[st->out[0]];
        if (!here(m, st->out[0]) || (v->is_alias != NULL && v->is_alias[m->member])) {
            st->n_out = 0;
        }
    }
    return st->n_in + st->n_out > 0;
}

static enum hsp_status add_reshard(struct maker *m, const struct hsp_step *st, struct hsp_instr *i)
{
    const struct hsp_reshard *r = &m->c->reshard[st->arg];
    size_t n = m->t.n_reshards;
    if (!hsp_grow(&m->reshard, &m->cap_reshard, n + 1, sizeof *m->reshard, HSP_MAX_INSTRS)) {
        return too_many(m, n + 1, HSP_MAX_INSTRS, "reshards");
    }
    i->arg = m->t.n_reshards++;
    if (i->n_out == 0) { /* it only sends: the output is never written */
        i->n_out = 1;
        i->out[0] = i->in[0];
    }
    return hsp_moves_bind(&r->moves, m->rank, r->batch_dim0, m->c->arena, &m->reshard[n], m->err);
}

static enum hsp_status add_origins(struct maker *m, const struct hsp_step *st, struct hsp_instr *i)
{
    for (int k = 0; k < 2; k++) {
        i->origin_sym[k] = UINT32_MAX;
        if (st->origin_value[k] == HSP_NONE) {
            continue;
        }
        const struct hsp_value *v = &m->s->value[st->origin_value[k]];
        uint8_t d = st->origin_dim[k];
        struct sym_key key = {.extent = v->at.extent[d],
                              .cut = v->at.cut[d],
                              .split = v->at.split[d],
                              .what = SYM_ORIGIN};
        if (key.cut == 0 && key.split == 0) {
            continue; /* whole: starts at 0 */
        }
        enum hsp_status rc =
            get_symbol(m, v->name, d, key, v->at.box[m->member].lo[d], &i->origin_sym[k]);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    return HSP_OK;
}

/* An attribute that is an extent is no part of the template: another model size, the same code. */
static enum hsp_status add_unit(struct maker *m, const struct hsp_step *st, struct hsp_instr *i)
{
    if (st->kind != HSP_I_OP || st->at.i[0] == 0) {
        return HSP_OK;
    }
    struct sym_key key = {.extent = st->at.i[0], .what = SYM_UNIT};
    i->at.i[0] = 0;
    return get_symbol(m, m->s->value[st->out[0]].name, 0, key, st->at.i[0], &i->unit_sym);
}

/* Whether @st does nothing here but pass its first operands on. */
static bool passes(const struct maker *m, const struct hsp_step *st)
{
    bool all = true;
    for (uint8_t i = 0; i < st->n_in; i++) {
        all = all && here(m, st->in[i]);
    }
    return st->pass && !all;
}

/* The results are the tensors of the first operands, under the name of the results and for as long as
 * they are needed. */
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
        m->value_of[t] = st->out[k];
        m->tensor[t].name = v->name;
        m->tensor[t].cls = v->parts == HSP_NONE ? HSP_CLASS_MICRO : m->tensor[t].cls;
    }
    return HSP_OK;
}

static enum hsp_status add_instr(struct maker *m, const struct hsp_step *from)
{
    struct hsp_step st = *from;
    size_t n = m->t.n_instrs;
    if (passes(m, &st)) {
        return pass_on(m, &st);
    }
    bool nothing = st.kind == HSP_I_COPY && m->tensor_of[st.in[0]] == HSP_NONE; /* made elsewhere */
    if (nothing || !trim(m, &st)) {
        return HSP_OK;
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
    if (rc == HSP_OK && st.kind == HSP_I_RESHARD) {
        rc = add_reshard(m, &st, &i);
    }
    if (rc == HSP_OK) {
        m->instr[n] = i;
        m->t.n_instrs++;
    }
    return rc;
}

/* Pre and Post are not cut into chunks; without validation there is no Eval. */
static bool has_segment(const struct maker *m, uint32_t part)
{
    switch (hsp_part_kind(part)) {
    case HSP_PART_PRE:
    case HSP_PART_POST: return hsp_part_chunk(part) == 0;
    case HSP_PART_FORWARD:
    case HSP_PART_BACKWARD: return true;
    case HSP_PART_WGRAD: return m->s->split;
    case HSP_PART_EVAL: return m->c->eval;
    }
    return false;
}

static enum hsp_status add_segment(struct maker *m, uint32_t part)
{
    static const uint8_t kinds[2][HSP_N_PARTS] = {
        {HSP_SEG_PRE, HSP_SEG_FORWARD, HSP_SEG_BACKWARD, 0, HSP_SEG_POST, HSP_SEG_EVAL},
        {HSP_SEG_PRE, HSP_SEG_FORWARD, HSP_SEG_INPUT_GRAD, HSP_SEG_WEIGHT_GRAD, HSP_SEG_POST,
         HSP_SEG_EVAL}};
    const struct hsp_code *code = &m->s->part[part];
    uint32_t first = m->t.n_instrs;
    struct hsp_segment seg = {.kind = kinds[m->s->split][hsp_part_kind(part)],
                              .chunk = hsp_part_chunk(part),
                              .first_piece = m->t.n_pieces};
    for (size_t i = 0; i < code->n; i++) {
        enum hsp_status rc = add_instr(m, &code->step[i]);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    for (uint32_t i = first; i < m->t.n_instrs; i++) {
        size_t n = m->t.n_pieces;
        if (seg.n_pieces > 0 && m->piece[n - 1].queue == m->instr[i].queue) {
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

static enum hsp_status move_template(struct maker *m, struct hsp_template *ret)
{
    struct hsp_arena *a = m->c->arena;
    struct hsp_template t = m->t;
    t.symbols = hsp_arena_memdup(a, m->sym, t.n_symbols * sizeof *m->sym);
    t.tensors = hsp_arena_memdup(a, m->tensor, t.n_tensors * sizeof *m->tensor);
    t.instrs = hsp_arena_memdup(a, m->instr, t.n_instrs * sizeof *m->instr);
    t.pieces = hsp_arena_memdup(a, m->piece, t.n_pieces * sizeof *m->piece);
    t.segments = hsp_arena_memdup(a, m->seg, t.n_segments * sizeof *m->seg);
    if (t.symbols == NULL || t.tensors == NULL || t.instrs == NULL || t.pieces == NULL ||
        t.segments == NULL) {
        return no_memory(m);
    }
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_MAX_TEMPLATE_BYTES);
    enum hsp_status rc = hsp_template_encode(&t, &b);
    t.digest = hsp_hash128(b.data, b.len);
    hsp_buf_fini(&b);
    *ret = t;
    return rc == HSP_OK
               ? HSP_OK
               : hsp_err_set(m->err, rc, 0, "template of rank %u does not encode", m->rank);
}

/* By parameter, kind, box: whatever the program, the same state is in the same order. */
static int by_state(const void *a, const void *b, void *ctx)
{
    const struct hsp_state_bind *x = a, *y = b;
    const struct maker *m = ctx;
    const struct hsp_value *v = &m->s->value[m->value_of[x->tensor]],
                           *w = &m->s->value[m->value_of[y->tensor]];
    if (x->tensor_id != y->tensor_id) {
        return x->tensor_id < y->tensor_id ? -1 : 1;
    }
    if (v->state_kind != w->state_kind) {
        return v->state_kind < w->state_kind ? -1 : 1;
    }
    for (uint8_t d = 0; d < v->at.rank; d++) {
        int64_t p = v->at.box[m->member].lo[d], q = w->at.box[m->member].lo[d];
        if (p != q) {
            return p < q ? -1 : 1;
        }
    }
    return 0;
}

static enum hsp_status bind_state(struct maker *m, struct hsp_binding *b)
{
    const struct hsp_graph *g = m->c->g;
    b->state = hsp_arena_array(m->c->arena, m->t.n_tensors, sizeof *b->state);
    if (b->state == NULL) {
        return no_memory(m);
    }
    for (uint32_t i = 0; i < m->t.n_tensors; i++) {
        const struct hsp_value *v = &m->s->value[m->value_of[i]];
        if (v->cls != HSP_CLASS_STATE) {
            continue;
        }
        const struct hsp_param *p = &g->params[v->param];
        bool init = v->state_kind == HSP_STATE_PARAM;
        b->state[b->n_state++] =
            (struct hsp_state_bind){.tensor = i,
                                    .tensor_id = v->param,
                                    .init = init ? p->init : (uint8_t)HSP_INIT_ZERO,
                                    .init_std = init ? p->init_std : 0,
                                    .full = hsp_box_whole(v->at.rank, v->at.extent)};
    }
    qsort_r(b->state, b->n_state, sizeof *b->state, by_state, m);
    return HSP_OK;
}

static enum hsp_status bind_tensors(struct maker *m, struct hsp_binding *b)
{
    b->tensor = hsp_arena_array(m->c->arena, m->t.n_tensors, sizeof *b->tensor);
    if (b->tensor == NULL) {
        return no_memory(m);
    }
    for (uint32_t i = 0; i < m->t.n_tensors; i++) {
        const struct hsp_value *v = &m->s->value[m->value_of[i]];
        struct hsp_tensor_bind *t = &b->tensor[i];
        t->box = v->at.box[m->member];
        t->batch_dim0 = v->batch_dim0;
        t->n_slots = 1; /* slots.h */
        int64_t bytes = 0;
        if (!hsp_mul_i64(hsp_box_count(&t->box), (int64_t)hsp_dtype_size((enum hsp_dtype)v->dtype),
                         &bytes) ||
            bytes > INT64_MAX - 63) {
            return hsp_err_set(m->err, HSP_ELIMIT, 0, "tensor %s is too large", v->name);
        }
        t->slot_bytes = (bytes + 63) / 64 * 64;
    }
    return HSP_OK;
}

static enum hsp_status bind_rank(struct maker *m, struct hsp_binding *b)
{
    struct hsp_arena *a = m->c->arena;
    b->rank = m->rank;
    b->n_ranks = m->c->p->n_ranks;
    b->symbol = hsp_arena_memdup(a, m->sym_value, m->t.n_symbols * sizeof *b->symbol);
    b->n_reshards = m->t.n_reshards;
    b->reshard = hsp_arena_memdup(a, m->reshard, m->t.n_reshards * sizeof *b->reshard);
    if (b->symbol == NULL || b->reshard == NULL) {
        return no_memory(m);
    }
    enum hsp_status rc = bind_tensors(m, b);
    return rc == HSP_OK ? bind_state(m, b) : rc;
}

static bool find_rank(struct maker *m)
{
    for (uint32_t i = 0; i < m->c->n_stages; i++) {
        m->s = &m->c->stage[i];
        for (m->member = 0; m->member < m->s->group->n; m->member++) {
            if (m->s->group->ranks[m->member] == m->rank) {
                return true;
            }
        }
    }
    return false;
}

enum hsp_status hsp_specialize(struct hsp_compiler *c, uint32_t rank, struct hsp_program *ret,
                               struct hsp_err *err)
{
    struct maker m = {.c = c, .rank = rank, .err = err};
    bool found = find_rank(&m);
    HSP_ASSERT(found); /* hsp_plan_check: every rank is in a stage */
    uint32_t batch = 0;
    enum hsp_status rc =
        get_symbol(&m, "batch", 0, (struct sym_key){.extent = BATCH}, m.s->bound, &batch);
    m.tensor_of = calloc(m.s->n_values + 1, sizeof *m.tensor_of);
    if (rc == HSP_OK && m.tensor_of == NULL) {
        rc = no_memory(&m);
    }
    for (size_t i = 0; m.tensor_of != NULL && i < m.s->n_values; i++) {
        m.tensor_of[i] = HSP_NONE;
    }
    for (uint32_t i = 0; rc == HSP_OK && i < m.s->n_parts; i++) {
        uint32_t part = hsp_part_nth(m.s, i);
        if (has_segment(&m, part)) {
            rc = add_segment(&m, part);
        }
    }
    if (rc == HSP_OK) {
        rc = move_template(&m, &ret->tpl);
    }
    if (rc == HSP_OK) {
        rc = bind_rank(&m, &ret->bind);
        ret->bind.template_digest = ret->tpl.digest;
    }
    free(m.tensor_of);
    free(m.value_of);
    free(m.sym);
    free(m.key);
    free(m.sym_value);
    free(m.tensor);
    free(m.instr);
    free(m.piece);
    free(m.reshard);
    return rc;
}
