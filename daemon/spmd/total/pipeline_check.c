#include "daemon/spmd/total/pipeline_check.h"

struct checker {
    const struct hsp_compiler *c;
    uint32_t *at; /* [rank]: its stage, index in c->stage */
    bool *enters; /* [stage]: another one sends to it in Forward */
    struct hsp_err *err;
};

static enum hsp_status other_stage(const struct checker *x, const char *name, const char *what,
                                   uint32_t a, uint32_t b)
{
    const struct hsp_stagecode *s = &x->c->stage[x->at[a]], *t = &x->c->stage[x->at[b]];
    return hsp_err_set(x->err, HSP_EINVAL, 0,
                       "%s: %s rank %u (pipeline %u stage %u) and rank %u (pipeline %u stage %u)",
                       name, what, a, s->pipeline, s->stage, b, t->pipeline, t->stage);
}

/* Whether stage @to is next to @from in its pipeline. */
static bool is_next(const struct checker *x, uint32_t from, uint32_t to)
{
    const struct hsp_stagecode *s = &x->c->stage[from], *t = &x->c->stage[to];
    uint32_t n = x->c->p->pipelines[s->pipeline].n_stages;
    return s->pipeline == t->pipeline &&
           (s->stage + 1 == t->stage || (s->n_chunks > 1 && s->stage + 1 == n && t->stage == 0));
}

static enum hsp_status check_sends(const struct checker *x, const char *name,
                                   const struct hsp_move *m, bool forward)
{
    for (uint32_t i = 0; i < m->n_cells; i++) {
        uint32_t a = m->ranks[m->cells[i].root], b = m->ranks[m->cells[i].peer];
        uint32_t from = x->at[a], to = x->at[b];
        if (from == to) {
            continue;
        }
        if (forward ? !is_next(x, from, to) : !is_next(x, to, from)) {
            return other_stage(
                x, name,
                forward ? "not one stage and the next:" : "not one stage and the one before:", a,
                b);
        }
        x->enters[to] = x->enters[to] || forward;
    }
    return HSP_OK;
}

static enum hsp_status check_reshard(const struct checker *x, const struct hsp_reshard *r,
                                     bool forward)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < r->moves.n; i++) {
        const struct hsp_move *m = &r->moves.move[i];
        if (m->kind == HSP_MOVE_COPY) {
            continue;
        }
        if (m->kind == HSP_MOVE_P2P) {
            rc = check_sends(x, r->name, m, forward);
            continue;
        }
        for (uint32_t k = 1; rc == HSP_OK && k < m->n_ranks; k++) {
            if (x->at[m->ranks[k]] != x->at[m->ranks[0]]) {
                rc = other_stage(x, r->name, "a collective of two stages:", m->ranks[0],
                                 m->ranks[k]);
            }
        }
    }
    return rc;
}

static bool is_of_param(const struct checker *x, const struct hsp_value *v)
{
    return v->param != HSP_NONE || (v->tensor != HSP_NONE && x->c->grad_of[v->tensor] != HSP_NONE);
}

/* Traffic with homes: it moves a parameter, or a gradient of one. */
static bool of_home(const struct checker *x, const struct hsp_stagecode *s,
                    const struct hsp_step *st)
{
    return (st->n_in > 0 && is_of_param(x, &s->value[st->in[0]])) ||
           (st->n_out > 0 && is_of_param(x, &s->value[st->out[0]]));
}

static enum hsp_status check_stage(const struct checker *x, const struct hsp_stagecode *s)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t part = 0; rc == HSP_OK && part < s->n_parts; part++) {
        enum hsp_part kind = hsp_part_kind(part);
        const struct hsp_code *code = &s->part[part];
        if (kind != HSP_PART_FORWARD && kind != HSP_PART_BACKWARD && kind != HSP_PART_WGRAD) {
            continue;
        }
        for (size_t i = 0; rc == HSP_OK && i < code->n; i++) {
            const struct hsp_step *st = &code->step[i];
            if (st->kind == HSP_I_RESHARD && !of_home(x, s, st)) {
                rc = check_reshard(x, &x->c->reshard[st->arg], kind == HSP_PART_FORWARD);
            }
        }
    }
    return rc;
}

enum hsp_status hsp_pipelines_check(const struct hsp_compiler *c, struct hsp_err *err)
{
    struct checker x = {.c = c, .err = err};
    x.at = hsp_arena_array(c->arena, c->p->n_ranks, sizeof *x.at);
    x.enters = hsp_arena_array(c->arena, c->n_stages, sizeof *x.enters);
    if (x.at == NULL || x.enters == NULL) {
        return hsp_err_nomem(err, "the compilation");
    }
    for (uint32_t i = 0; i < c->n_stages; i++) {
        for (uint32_t k = 0; k < c->stage[i].group->n; k++) {
            x.at[c->stage[i].group->ranks[k]] = i;
        }
    }
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        rc = check_stage(&x, &c->stage[i]);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        if (c->stage[i].stage > 0 && !x.enters[i]) {
            rc = hsp_err_set(err, HSP_EINVAL, 0, "nothing enters pipeline %u stage %u",
                             c->stage[i].pipeline, c->stage[i].stage);
        }
    }
    return rc;
}
