#include "daemon/spmd/codegen/specialize.h"

#include <stdlib.h>

#include "daemon/spmd/codegen/template_builder.h"
#include "daemon/spmd/codegen/template_cache.h"
#include "daemon/spmd/reshard/move_list.h"
#include "proto/base/check.h"
#include "proto/base/size.h"
#include "proto/layout/box.h"

/* The member's numbers for the open places of its traced template. */
struct binder {
    struct hsp_compiler *c;
    const struct hsp_stagecode *s;
    struct hsp_member_code code; /* owned */
    const struct hsp_traced_template *traced;
    uint32_t rank, member;
    struct hsp_err *err;
};

/* The value of the stage that tensor @t is. */
static const struct hsp_value *value_of(const struct binder *m, uint32_t t)
{
    return &m->s->value[m->code.value[m->traced->value_of[t]]];
}

/* By parameter, kind, box: in every program, the same state is in the same order. */
static int by_state(const void *a, const void *b, void *ctx)
{
    const struct hsp_state_bind *x = a, *y = b;
    const struct binder *m = ctx;
    const struct hsp_value *v = value_of(m, x->tensor), *w = value_of(m, y->tensor);
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

static enum hsp_status bind_state(struct binder *m, struct hsp_binding *b)
{
    const struct hsp_graph *g = m->c->g;
    b->state = hsp_arena_array(m->c->arena, m->traced->tpl.n_tensors, sizeof *b->state);
    if (b->state == NULL) {
        return hsp_err_nomem(m->err, "program of rank %u", m->rank);
    }
    for (uint32_t i = 0; i < m->traced->tpl.n_tensors; i++) {
        const struct hsp_value *v = value_of(m, i);
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

static enum hsp_status bind_tensors(struct binder *m, struct hsp_binding *b)
{
    b->tensor = hsp_arena_array(m->c->arena, m->traced->tpl.n_tensors, sizeof *b->tensor);
    if (b->tensor == NULL) {
        return hsp_err_nomem(m->err, "program of rank %u", m->rank);
    }
    for (uint32_t i = 0; i < m->traced->tpl.n_tensors; i++) {
        const struct hsp_value *v = value_of(m, i);
        struct hsp_tensor_bind *t = &b->tensor[i];
        t->box = v->at.box[m->member];
        t->batch_dim0 = v->batch_dim0;
        t->n_slots = 1; /* activation_slots.h */
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

static enum hsp_status bind_symbols(struct binder *m, struct hsp_binding *b)
{
    uint32_t n = m->traced->tpl.n_symbols;
    b->symbol = hsp_arena_array(m->c->arena, n, sizeof *b->symbol);
    if (b->symbol == NULL) {
        return hsp_err_nomem(m->err, "program of rank %u", m->rank);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_symbol_from *f = &m->traced->symbol_of[i];
        const struct hsp_box *box = &m->s->value[m->code.value[f->value]].at.box[m->member];
        switch ((enum hsp_symbol_what)f->what) {
        case HSP_SYMBOL_BATCH: b->symbol[i] = m->s->bound; break;
        case HSP_SYMBOL_LENGTH: b->symbol[i] = box->hi[f->dim] - box->lo[f->dim]; break;
        case HSP_SYMBOL_ORIGIN: b->symbol[i] = box->lo[f->dim]; break;
        case HSP_SYMBOL_UNIT: b->symbol[i] = f->unit; break;
        }
    }
    return HSP_OK;
}

static enum hsp_status bind_reshards(struct binder *m, struct hsp_binding *b)
{
    b->n_reshards = m->code.n_reshards;
    b->reshard = hsp_arena_array(m->c->arena, b->n_reshards, sizeof *b->reshard);
    if (b->reshard == NULL) {
        return hsp_err_nomem(m->err, "program of rank %u", m->rank);
    }
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < b->n_reshards; i++) {
        const struct hsp_reshard *r = &m->c->reshard[m->code.reshard[i]];
        rc = hsp_moves_bind(&r->moves, m->rank, r->batch_dim0, m->c->arena, &b->reshard[i], m->err);
    }
    return rc;
}

static enum hsp_status bind_rank(struct binder *m, struct hsp_binding *b)
{
    b->rank = m->rank;
    b->n_ranks = m->c->p->n_ranks;
    b->template_digest = m->traced->tpl.digest;
    enum hsp_status rc = bind_symbols(m, b);
    rc = rc == HSP_OK ? bind_reshards(m, b) : rc;
    rc = rc == HSP_OK ? bind_tensors(m, b) : rc;
    return rc == HSP_OK ? bind_state(m, b) : rc;
}

static bool find_rank(struct binder *m)
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

/* Of each piece the rendezvous it belongs to. */
static enum hsp_status list_meets(const struct binder *m, const uint32_t **ret)
{
    const struct hsp_template *t = &m->traced->tpl;
    uint32_t *meets = hsp_arena_array(m->c->arena, t->n_pieces, sizeof *meets);
    if (meets == NULL) {
        return hsp_err_nomem(m->err, "program of rank %u", m->rank);
    }
    HSP_ASSERT(t->n_instrs == m->code.n_instrs);
    for (uint32_t k = 0; k < t->n_pieces; k++) {
        meets[k] = m->code.meets[t->pieces[k].first];
    }
    *ret = meets;
    return HSP_OK;
}

enum hsp_status hsp_specialize(struct hsp_compiler *c, uint32_t rank, struct hsp_program *ret,
                               const uint32_t **ret_meets, struct hsp_err *err)
{
    struct binder m = {.c = c, .rank = rank, .err = err};
    bool found = find_rank(&m);
    HSP_ASSERT(found); /* hsp_plan_check: every rank is in a stage */
    enum hsp_status rc = hsp_member_code_read(c, m.s, m.member, &m.code, err);
    if (rc == HSP_OK) {
        rc = hsp_traced_template_get(c, &m.code, &m.traced, err);
    }
    if (rc == HSP_OK) {
        ret->tpl = m.traced->tpl;
        rc = list_meets(&m, ret_meets);
    }
    if (rc == HSP_OK) {
        rc = bind_rank(&m, &ret->bind);
    }
    hsp_member_code_fini(&m.code);
    return rc;
}
