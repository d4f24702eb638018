#include "daemon/spmd/compile.h"

#include <stdlib.h>

#include "daemon/spmd/deadlock.h"
#include "daemon/spmd/home.h"
#include "daemon/spmd/memory.h"
#include "daemon/spmd/schedule.h"
#include "daemon/spmd/specialize.h"
#include "daemon/spmd/stagecode.h"
#include "daemon/spmd/switch.h"

#define PLAN_TEXT_MAX ((size_t)16 << 20)

static enum hsp_status no_memory(struct hsp_err *err)
{
    return hsp_err_set(err, HSP_ENOMEM, 0, "compilation does not fit its arena");
}

static enum hsp_status check_spec(const struct hsp_graph *g, const struct hsp_train_spec *t,
                                  struct hsp_err *err)
{
    if (t->data.global_batch == 0 || (int64_t)t->data.sequence != g->spec.sequence) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "global batch %u of sequences of %u: the model has sequences of %lld",
                           t->data.global_batch, t->data.sequence, (long long)g->spec.sequence);
    }
    if (g->seed == HSP_NONE) {
        return hsp_err_set(err, HSP_EINVAL, 0, "the graph has no backward part");
    }
    return HSP_OK;
}

static enum hsp_status init_stages(struct hsp_compiler *c, struct hsp_err *err)
{
    for (uint32_t i = 0; i < c->p->n_streams; i++) {
        c->n_stages += c->p->streams[i].n_stages;
    }
    c->stage = hsp_arena_array(c->arena, c->n_stages, sizeof *c->stage);
    c->first_stage = hsp_arena_array(c->arena, c->p->n_streams, sizeof *c->first_stage);
    if (c->stage == NULL || c->first_stage == NULL) {
        c->n_stages = 0;
        return no_memory(err);
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->p->n_streams; i++) {
        const struct hsp_stream *s = &c->p->streams[i];
        c->first_stage[i] = n;
        for (uint32_t j = 0; j < s->n_stages; j++, n++) {
            struct hsp_stagecode *code = &c->stage[n];
            code->stream = i;
            code->stage = j;
            code->group = &s->stages[j];
            code->bound = (s->sequences + s->micro_batches - 1) / s->micro_batches;
            enum hsp_status rc = hsp_stagecode_init(c, code, err);
            if (rc != HSP_OK) {
                return rc;
            }
        }
    }
    return HSP_OK;
}

static enum hsp_status init_tables(struct hsp_compiler *c, struct hsp_err *err)
{
    c->load = hsp_arena_array(c->arena, c->p->n_ranks, sizeof *c->load);
    c->grad_of = hsp_arena_array(c->arena, c->g->n_tensors, sizeof *c->grad_of);
    c->home = hsp_arena_array(c->arena, c->g->n_params, sizeof *c->home);
    if (c->load == NULL || c->grad_of == NULL || c->home == NULL) {
        return no_memory(err);
    }
    for (uint32_t i = 0; i < c->g->n_tensors; i++) {
        c->grad_of[i] = HSP_NONE;
    }
    for (uint32_t i = 0; i < c->g->n_params; i++) {
        for (uint32_t k = 0; k < c->g->params[i].n_grads; k++) {
            c->grad_of[c->g->params[i].grad[k]] = i;
        }
    }
    enum hsp_status rc = hsp_param_units(c->g, c->arena, &c->units, err);
    if (rc == HSP_OK) {
        rc = hsp_plan_homes(c->g, c->p, c->home, err);
        c->n_homes = rc == HSP_OK ? c->g->n_params : 0;
    }
    return rc == HSP_OK ? init_stages(c, err) : rc;
}

static void compiler_fini(struct hsp_compiler *c)
{
    for (uint32_t i = 0; i < c->n_homes; i++) {
        hsp_cover_fini(&c->home[i]);
    }
    for (uint32_t i = 0; i < c->n_stages; i++) {
        hsp_stagecode_fini(&c->stage[i]);
    }
    free(c->reshard);
}

/* Where the stream of @s sits in the lists of training and validation samples. */
static void bind_stream(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                        struct hsp_stream_bind *ret)
{
    int64_t w[HSP_MAX_STREAMS], cut[HSP_MAX_STREAMS + 1];
    *ret = (struct hsp_stream_bind){.n_micro = c->p->streams[s->stream].micro_batches};
    for (uint32_t i = 0; i < c->p->n_streams; i++) {
        w[i] = c->p->streams[i].sequences;
        ret->first_seq += i < s->stream ? c->p->streams[i].sequences : 0;
    }
    ret->n_seq = c->p->streams[s->stream].sequences;
    if (!c->eval) {
        return;
    }
    hsp_cut_shares(c->t->data.eval_seqs, c->p->n_streams, w, cut);
    ret->eval_first = (uint32_t)cut[s->stream];
    ret->eval_n_seq = (uint32_t)(cut[s->stream + 1] - cut[s->stream]);
    ret->eval_n_micro = (uint32_t)((ret->eval_n_seq + s->bound - 1) / s->bound);
}

static const struct hsp_stagecode *stage_of_rank(const struct hsp_compiler *c, uint32_t rank)
{
    for (uint32_t i = 0; i < c->n_stages; i++) {
        for (uint32_t j = 0; j < c->stage[i].group->n; j++) {
            if (c->stage[i].group->ranks[j] == rank) {
                return &c->stage[i];
            }
        }
    }
    return NULL;
}

static enum hsp_status make_program(struct hsp_compiler *c, uint32_t rank,
                                    struct hsp_digest plan_digest, struct hsp_program *ret,
                                    struct hsp_err *err)
{
    const struct hsp_stagecode *s = stage_of_rank(c, rank);
    enum hsp_status rc = hsp_specialize(c, rank, ret, err);
    if (rc != HSP_OK) {
        return rc;
    }
    bind_stream(c, s, &ret->bind.stream);
    ret->bind.data = c->t->data;
    ret->bind.hyper = c->t->hyper;
    ret->bind.plan_digest = plan_digest;
    if (!c->eval) {
        ret->bind.data.validation_every = 0;
    }
    rc = hsp_memory_assign(ret, err);
    if (rc == HSP_OK) {
        rc = hsp_schedule_make(ret, &c->p->streams[s->stream], s->stage, c->arena, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_program_check(ret, err);
    }
    if (rc != HSP_OK) {
        (void)hsp_err_wrap(err, "program of rank %u", rank);
    }
    return rc;
}

static enum hsp_status plan_digest(const struct hsp_plan *p, struct hsp_digest *ret,
                                   struct hsp_err *err)
{
    struct hsp_buf b;
    hsp_buf_init(&b, PLAN_TEXT_MAX);
    hsp_plan_dump(p, &b);
    bool ok = !b.failed;
    *ret = hsp_hash128(b.data, b.len);
    hsp_buf_fini(&b);
    return ok ? HSP_OK
              : hsp_err_set(err, HSP_ELIMIT, 0, "plan of more than %zu bytes", PLAN_TEXT_MAX);
}

static enum hsp_status make_programs(struct hsp_compiler *c, struct hsp_program_file *f,
                                     struct hsp_err *err)
{
    struct hsp_digest digest;
    enum hsp_status rc = plan_digest(c->p, &digest, err);
    f->n = c->p->n_ranks;
    f->programs = hsp_arena_array(c->arena, f->n, sizeof *f->programs);
    if (f->programs == NULL) {
        return no_memory(err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < f->n; i++) {
        rc = make_program(c, i, digest, &f->programs[i], err);
    }
    if (rc == HSP_OK) {
        rc = hsp_deadlock_check(f->programs, f->n, false, err);
    }
    return rc == HSP_OK ? hsp_deadlock_check(f->programs, f->n, true, err) : rc;
}

enum hsp_status hsp_compile(const struct hsp_graph *g, const struct hsp_plan *p,
                            const struct hsp_train_spec *t, struct hsp_arena *arena,
                            struct hsp_program_file *ret, struct hsp_err *err)
{
    struct hsp_compiler c = {.g = g, .p = p, .t = t, .arena = arena};
    struct hsp_program_file f = {
        .data_path = "", .out_dir = "", .init_from = "", .config_json = ""};
    c.eval = t->data.validation_every > 0 && t->data.eval_seqs > 0;
    enum hsp_status rc = check_spec(g, t, err);
    if (rc == HSP_OK) {
        rc = hsp_plan_check(p, g, t->data.global_batch, err);
    }
    if (rc == HSP_OK) {
        rc = init_tables(&c, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_param_pre(&c, err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < p->n_streams; i++) {
        rc = hsp_lower_stream(&c, i, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_param_post(&c, err);
    }
    if (rc == HSP_OK) {
        rc = make_programs(&c, &f, err);
    }
    if (rc == HSP_OK) {
        *ret = f;
    }
    compiler_fini(&c);
    return rc;
}
