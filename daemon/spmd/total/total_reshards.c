#include "daemon/spmd/total/total_reshards.h"

#include <math.h> /* round */
#include <string.h>

#include "daemon/plan/name_range.h"
#include "daemon/plan/plan_yaml_total.h"
#include "daemon/spmd/reshard/reshard_cost.h"
#include "proto/base/check.h"
#include "proto/base/size.h"
#include "proto/layout/box.h"

#define LINE_BYTES ((size_t)16 << 20)

/* Where one Reshard stands. */
struct place {
    bool found;
    uint8_t phase;
    uint32_t to;   /* stage that has its result, HSP_NONE */
    uint32_t from; /* stage that has its source, HSP_NONE */
    size_t elem;   /* bytes of an element */
    const char *makes, *before;
};

struct lister {
    const struct hsp_compiler *c;
    struct hsp_arena *tmp, *arena;
    struct hsp_err *err;
    struct place *place; /* [reshard] */
    int64_t *gives, *gets;
    bool *member; /* [rank]: of the move being listed */
};

/* Name of the first step behind @at that reads @value. */
static const char *first_use(const struct hsp_stagecode *s, uint32_t part, size_t at,
                             uint32_t value)
{
    const struct hsp_code *p = &s->part[part];
    for (size_t i = at + 1; i < p->n; i++) {
        const struct hsp_step *st = &p->step[i];
        for (uint8_t k = 0; st->kind != HSP_I_COPY && k < st->n_in; k++) {
            if (st->in[k] == value) {
                return st->kind == HSP_I_STAT ? "stat"
                       : st->n_out == 0       ? "send"
                                              : s->value[st->out[0]].name;
            }
        }
    }
    return NULL; /* a later segment */
}

static uint8_t phase_of(enum hsp_part kind)
{
    static const uint8_t phase[HSP_N_PARTS] = {
        HSP_PHASE_PRE,  HSP_PHASE_FORWARD, HSP_PHASE_BACKWARD, HSP_PHASE_BACKWARD,
        HSP_PHASE_POST, HSP_PHASE_FORWARD, HSP_PHASE_BACKWARD};
    return phase[kind];
}

static void find_place(struct lister *x, uint32_t stage, uint32_t part, size_t at)
{
    enum hsp_part kind = hsp_part_kind(part);
    const struct hsp_stagecode *s = &x->c->stage[stage];
    const struct hsp_step *st = &s->part[part].step[at];
    struct place *p = &x->place[st->arg];
    bool micro = kind != HSP_PART_PRE && kind != HSP_PART_POST;
    if (!p->found) {
        *p = (struct place){
            .found = true, .phase = phase_of(kind), .to = HSP_NONE, .from = HSP_NONE};
    }
    if (st->n_in > 0 && p->from == HSP_NONE) {
        p->from = stage;
        p->elem = hsp_dtype_size((enum hsp_dtype)s->value[st->in[0]].dtype);
    }
    if (st->n_out > 0 && p->to == HSP_NONE) {
        p->to = stage;
        p->makes = s->value[st->out[0]].name;
        p->before = micro ? first_use(s, part, at, st->out[0]) : NULL;
    }
}

/* Adds the reshards first named in @part to @ret, which has @n. Returns how many it has now. */
static uint32_t find_in_part(struct lister *x, uint32_t stage, uint32_t part, uint32_t *ret,
                             uint32_t n)
{
    const struct hsp_code *code = &x->c->stage[stage].part[part];
    for (size_t k = 0; k < code->n; k++) {
        const struct hsp_step *st = &code->step[k];
        if (st->kind != HSP_I_RESHARD) {
            continue;
        }
        if (!x->place[st->arg].found) {
            ret[n++] = st->arg;
        }
        find_place(x, stage, part, k);
    }
    return n;
}

/* Finds results of a Reshard of this pipeline that other pipelines have, and no rank of this one.
 */
static void find_served(struct lister *x, uint32_t stage)
{
    const struct hsp_stagecode *s = &x->c->stage[stage];
    const struct hsp_code *code = &s->part[HSP_PART_SERVE];
    for (size_t k = 0; k < code->n; k++) {
        const struct hsp_step *st = &code->step[k];
        struct place *p = st->kind == HSP_I_RESHARD ? &x->place[st->arg] : NULL;
        if (p == NULL || !p->found) {
            continue; /* of Eval */
        }
        if (st->n_in > 0 && p->from == HSP_NONE) {
            p->from = p->to;
            p->elem = hsp_dtype_size((enum hsp_dtype)s->value[st->in[0]].dtype);
        }
        if (st->n_out > 0 && p->to == HSP_NONE) {
            p->to = p->from;
            p->makes = s->value[st->out[0]].name;
        }
    }
}

/* @ret[]: reshards in the order of phase, then of the first step that names them. Returns how many;
 * those of Eval are not among them. */
static uint32_t find_places(struct lister *x, uint32_t *ret)
{
    uint32_t n = 0;
    for (int kind = HSP_PART_PRE; kind <= HSP_PART_POST; kind++) {
        for (uint32_t i = 0; i < x->c->n_stages; i++) {
            for (uint32_t chunk = 0; chunk < x->c->stage[i].n_chunks; chunk++) {
                n = find_in_part(x, i, hsp_part_at((enum hsp_part)kind, chunk), ret, n);
            }
        }
    }
    for (uint32_t i = 0; i < x->c->n_stages; i++) {
        find_served(x, i);
    }
    return n;
}

/* ---- moves ---- */

/* Adds the bytes that each rank gives and gets in @m. */
static enum hsp_status add_bytes(struct lister *x, const struct hsp_move *m, size_t elem)
{
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        x->member[m->ranks[k]] = true;
    }
    for (uint32_t i = 0; i < m->n_cells; i++) {
        const struct hsp_cell *cell = &m->cells[i];
        int64_t bytes = 0;
        if (!hsp_mul_i64(hsp_box_count(&cell->box), (int64_t)elem, &bytes)) {
            return hsp_err_set(x->err, HSP_ELIMIT, 0, "a move of too many bytes");
        }
        for (uint32_t k = 0; k < m->n_ranks; k++) {
            bool root = k == cell->root, gives = true, gets = true;
            switch ((enum hsp_move_kind)m->kind) {
            case HSP_MOVE_COPY:
            case HSP_MOVE_ALL_REDUCE: break;
            case HSP_MOVE_P2P: gives = root, gets = k == cell->peer; break;
            case HSP_MOVE_REDUCE_SCATTER: gets = root; break;
            case HSP_MOVE_ALL_GATHER: gives = root, gets = !root; break;
            case HSP_MOVE_REDUCE_SEND: gets = k == cell->peer, gives = !gets; break;
            }
            x->gives[m->ranks[k]] += gives ? bytes : 0;
            x->gets[m->ranks[k]] += gets ? bytes : 0;
        }
    }
    return HSP_OK;
}

/* Moves that are listed as one: copies of all ranks, sends of all pairs. */
static bool listed_together(const struct hsp_move *a, const struct hsp_move *b)
{
    return a->kind == b->kind && a->src == b->src &&
           (a->kind == HSP_MOVE_COPY || a->kind == HSP_MOVE_P2P);
}

static enum hsp_status list_move(struct lister *x, const struct hsp_moves *m, uint32_t first,
                                 size_t elem, struct hsp_arena *arena, struct hsp_plan_move *ret)
{
    const struct hsp_move *v = &m->move[first];
    uint32_t n_ranks = x->c->p->n_ranks;
    memset(x->gives, 0, n_ranks * sizeof *x->gives);
    memset(x->gets, 0, n_ranks * sizeof *x->gets);
    memset(x->member, 0, n_ranks * sizeof *x->member);
    *ret = (struct hsp_plan_move){.kind = v->kind, .of_sums = v->src == HSP_MOVE_FROM_OUT};
    enum hsp_status rc = add_bytes(x, v, elem);
    for (uint32_t i = first + 1; rc == HSP_OK && i < m->n; i++) {
        if (listed_together(v, &m->move[i])) {
            rc = add_bytes(x, &m->move[i], elem);
        }
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        ret->n += x->member[r] ? 1 : 0;
    }
    ret->ranks = hsp_arena_array(arena, ret->n, sizeof *ret->ranks);
    ret->gives = hsp_arena_array(arena, ret->n, sizeof *ret->gives);
    ret->gets = hsp_arena_array(arena, ret->n, sizeof *ret->gets);
    if (ret->ranks == NULL || ret->gives == NULL || ret->gets == NULL) {
        return hsp_err_nomem(x->err, "the total plan");
    }
    for (uint32_t r = 0, k = 0; r < n_ranks; r++) {
        if (x->member[r]) {
            ret->ranks[k] = r;
            ret->gives[k] = x->gives[r];
            ret->gets[k++] = x->gets[r];
        }
    }
    return rc;
}

static enum hsp_status list_reshard(struct lister *x, uint32_t reshard, struct hsp_arena *arena,
                                    struct hsp_plan_reshard *ret)
{
    const struct place *p = &x->place[reshard];
    const struct hsp_moves *m = &x->c->reshard[reshard].moves;
    bool micro = p->phase == HSP_PHASE_FORWARD || p->phase == HSP_PHASE_BACKWARD;
    HSP_ASSERT(p->to != HSP_NONE && p->from != HSP_NONE);
    *ret = (struct hsp_plan_reshard){.phase = p->phase,
                                     .pipeline = micro ? x->c->stage[p->to].pipeline : HSP_NONE,
                                     .stage = micro ? x->c->stage[p->to].stage : HSP_NONE,
                                     .from = micro ? x->c->stage[p->from].stage : HSP_NONE,
                                     .makes = p->makes,
                                     .before = p->before,
                                     .n_zero = m->n_zero};
    const char *method = x->c->reshard[reshard].method;
    ret->method = method != NULL ? hsp_arena_strdup(arena, method) : NULL;
    if (x->c->links != NULL) { /* to a tenth */
        ret->us = round(10 * hsp_moves_us(m, p->elem, x->c->links)) / 10;
    }
    ret->zero = hsp_arena_memdup(arena, m->zero, m->n_zero * sizeof *m->zero);
    ret->move = hsp_arena_array(arena, m->n, sizeof *ret->move);
    if (ret->move == NULL || ret->zero == NULL || (method != NULL && ret->method == NULL)) {
        return hsp_err_nomem(x->err, "the total plan");
    }
    for (uint32_t i = 0; i < m->n; i++) {
        bool done = false;
        for (uint32_t k = 0; !done && k < i; k++) {
            done = listed_together(&m->move[k], &m->move[i]);
        }
        enum hsp_status rc =
            done ? HSP_OK : list_move(x, m, i, p->elem, arena, &ret->move[ret->n_moves]);
        if (rc != HSP_OK) {
            return rc;
        }
        ret->n_moves += done ? 0 : 1;
    }
    return HSP_OK;
}

/* ---- the list ---- */

/* The fields of a Reshard apart from its names. */
static enum hsp_status digest_rest(const struct hsp_plan_reshard *r, struct hsp_buf *text,
                                   struct hsp_digest *ret, struct hsp_err *err)
{
    hsp_buf_reset(text);
    hsp_buf_printf(text, "%u %u %u %u %d ", r->phase, r->pipeline, r->stage, r->from,
                   r->before != NULL);
    hsp_plan_put_moves(r, text);
    *ret = hsp_hash128(text->data, text->len);
    return text->failed ? hsp_err_nomem(err, "the total plan") : HSP_OK;
}

static enum hsp_status group_reshards(struct lister *x, const uint32_t *order, uint32_t n,
                                      struct hsp_plan *p)
{
    struct hsp_line *line = hsp_arena_array(x->tmp, n, sizeof *line);
    struct hsp_name_run *run = NULL;
    struct hsp_buf text;
    enum hsp_status rc = line == NULL ? hsp_err_nomem(x->err, "the total plan") : HSP_OK;
    hsp_buf_init(&text, LINE_BYTES);
    for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
        struct hsp_arena_position m = hsp_arena_mark(x->tmp);
        struct hsp_plan_reshard r;
        rc = list_reshard(x, order[i], x->tmp, &r);
        if (rc == HSP_OK) {
            line[i].name[0] = r.makes;
            line[i].name[1] = r.before;
            rc = digest_rest(&r, &text, &line[i].rest, x->err);
        }
        hsp_arena_rewind(x->tmp, m);
    }
    hsp_buf_fini(&text);
    if (rc == HSP_OK) {
        rc = hsp_lines_group(line, n, x->arena, &run, &p->n_reshards, x->err);
    }
    p->states_reshards = true;
    p->reshards = hsp_arena_array(x->arena, p->n_reshards, sizeof *p->reshards);
    if (rc == HSP_OK && p->reshards == NULL) {
        rc = hsp_err_nomem(x->err, "the total plan");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < p->n_reshards; i++) {
        rc = list_reshard(x, order[run[i].line], x->arena, &p->reshards[i]);
        p->reshards[i].makes = run[i].name[0];
        p->reshards[i].before = run[i].name[1];
    }
    return rc;
}

enum hsp_status hsp_list_reshards(const struct hsp_compiler *c, struct hsp_arena *tmp,
                                  struct hsp_arena *arena, struct hsp_plan *p, struct hsp_err *err)
{
    struct lister x = {.c = c, .tmp = tmp, .arena = arena, .err = err};
    uint32_t *order = hsp_arena_array(tmp, c->n_reshards, sizeof *order);
    x.place = hsp_arena_array(tmp, c->n_reshards, sizeof *x.place);
    x.gives = hsp_arena_array(tmp, c->p->n_ranks, sizeof *x.gives);
    x.gets = hsp_arena_array(tmp, c->p->n_ranks, sizeof *x.gets);
    x.member = hsp_arena_array(tmp, c->p->n_ranks, sizeof *x.member);
    if (order == NULL || x.place == NULL || x.gives == NULL || x.gets == NULL || x.member == NULL) {
        return hsp_err_nomem(err, "the total plan");
    }
    return group_reshards(&x, order, find_places(&x, order), p);
}
