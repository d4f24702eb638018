#include "daemon/spmd/lower/lower_plan.h"

#include <stdlib.h>

#include "daemon/plan/plan_check.h"
#include "daemon/plan/stage_groups.h"
#include "daemon/spmd/lower/lower_epilogue.h"
#include "daemon/spmd/lower/lower_prologue.h"
#include "daemon/spmd/lower/lower_pipeline.h"
#include "daemon/spmd/lower/offload.h"
#include "daemon/spmd/lower/split_backward.h"
#include "daemon/spmd/lower/stage_ir.h"
#include "daemon/spmd/lower/zero3.h"
#include "daemon/spmd/sharding/home_slots.h"
#include "daemon/spmd/sharding/param_home.h"
#include "daemon/spmd/sharding/param_use.h"
#include "daemon/spmd/sharding/sequence_balance.h"
#include "proto/layout/cut_shares.h"

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
    for (uint32_t i = 0; i < c->p->n_pipelines; i++) {
        c->n_stages += c->p->pipelines[i].n_stages;
    }
    c->stage = hsp_arena_array(c->arena, c->n_stages, sizeof *c->stage);
    c->first_stage = hsp_arena_array(c->arena, c->p->n_pipelines, sizeof *c->first_stage);
    if (c->stage == NULL || c->first_stage == NULL) {
        c->n_stages = 0;
        return hsp_err_nomem(err, "the compilation");
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->p->n_pipelines; i++) {
        const struct hsp_pipeline *s = &c->p->pipelines[i];
        c->first_stage[i] = n;
        for (uint32_t j = 0; j < s->n_stages; j++, n++) {
            struct hsp_stagecode *code = &c->stage[n];
            code->pipeline = i;
            code->stage = j;
            code->n_chunks = hsp_pipeline_chunks(s);
            code->split = s->schedule == HSP_SCHED_ZERO_BUBBLE;
            code->group = &s->stages[j];
            code->batch_fixed = hsp_pipeline_cuts_batch(s);
            code->bound = (s->sequences + s->micro_batches - 1) / s->micro_batches;
            enum hsp_status rc = hsp_stagecode_init(c, code, err);
            if (rc != HSP_OK) {
                return rc;
            }
        }
    }
    return HSP_OK;
}

/* Sequences of a micro-batch of pipeline @i, when it takes whole ones only; else 1. */
static uint32_t eval_unit(const struct hsp_compiler *c, uint32_t i)
{
    const struct hsp_pipeline *s = &c->p->pipelines[i];
    return hsp_pipeline_cuts_batch(s) ? s->sequences / s->micro_batches : 1;
}

/* Which micro-batches documents leave empty only their own pipeline knows, so that no other can
 * serve them. */
static enum hsp_status check_documents(const struct hsp_compiler *c, struct hsp_err *err)
{
    bool documents = c->t->data.samples == HSP_SAMPLES_DOCUMENTS;
    return !documents || c->p->zero != HSP_ZERO_PARAMETERS || c->p->n_pipelines == 1
               ? HSP_OK
               : hsp_err_set(
                     err, HSP_EINVAL, 0,
                     "zero 3 with %u pipelines needs micro-batches that are never empty, with "
                     "data.samples: documents a step has as many sequences as it fills",
                     c->p->n_pipelines);
}

/* The validation list in proportion to training. A pipeline that cuts its micro-batches takes whole
 * ones; the rest goes to a pipeline that can take it. */
static enum hsp_status share_eval(struct hsp_compiler *c, struct hsp_err *err)
{
    int64_t w[HSP_MAX_PIPELINES], cut[HSP_MAX_PIPELINES + 1], left = 0;
    uint32_t n = c->p->n_pipelines;
    c->eval_seqs = hsp_arena_array(c->arena, n, sizeof *c->eval_seqs);
    if (c->eval_seqs == NULL) {
        return hsp_err_nomem(err, "the compilation");
    }
    for (uint32_t i = 0; i < n; i++) {
        w[i] = c->p->pipelines[i].sequences;
        if (c->t->data.samples == HSP_SAMPLES_DOCUMENTS &&
            hsp_pipeline_cuts_batch(&c->p->pipelines[i])) {
            return hsp_err_set(
                err, HSP_EINVAL, 0,
                "pipeline %u: split: batch needs micro-batches of one size, documents "
                "fill others at each step",
                i);
        }
    }
    hsp_cut_shares(c->eval ? c->t->data.eval_seqs : 0, n, w, cut);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t take = (uint32_t)(cut[i + 1] - cut[i]), unit = eval_unit(c, i);
        c->eval_seqs[i] = take - take % unit;
        left += take % unit;
    }
    for (uint32_t i = 0; left > 0 && i < n; i++) {
        uint32_t unit = eval_unit(c, i);
        if (left % unit == 0) {
            c->eval_seqs[i] += (uint32_t)left;
            left = 0;
        }
    }
    return left == 0
               ? HSP_OK
               : hsp_err_set(err, HSP_EINVAL, 0,
                             "split: batch takes whole micro-batches: a validation of %u sequences "
                             "does not come out even, %lld are left",
                             c->t->data.eval_seqs, (long long)left);
}

static enum hsp_status init_tables(struct hsp_compiler *c, struct hsp_err *err)
{
    c->load = hsp_arena_array(c->arena, c->p->n_ranks, sizeof *c->load);
    c->grad_of = hsp_arena_array(c->arena, c->g->n_tensors, sizeof *c->grad_of);
    c->home = hsp_arena_array(c->arena, c->g->n_params, sizeof *c->home);
    c->slots = hsp_arena_array(c->arena, c->g->n_params, sizeof *c->slots);
    c->grad_at_home = hsp_arena_array(c->arena, c->g->n_params, sizeof *c->grad_at_home);
    if (c->load == NULL || c->grad_of == NULL || c->home == NULL || c->slots == NULL ||
        c->grad_at_home == NULL) {
        return hsp_err_nomem(err, "the compilation");
    }
    for (uint32_t i = 0; i < c->g->n_tensors; i++) {
        c->grad_of[i] = HSP_NONE;
    }
    for (uint32_t i = 0; i < c->g->n_params; i++) {
        for (uint32_t k = 0; k < c->g->params[i].n_grads; k++) {
            c->grad_of[c->g->params[i].grad[k]] = i;
        }
    }
    enum hsp_status rc = check_documents(c, err);
    rc = rc == HSP_OK ? share_eval(c, err) : rc;
    if (rc == HSP_OK) {
        rc = hsp_param_units(c->g, c->arena, &c->units, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_plan_homes(c->g, c->p, c->home, err);
        c->n_homes = rc == HSP_OK ? c->g->n_params : 0;
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_homes; i++) {
        rc = hsp_home_slots_assign(&c->home[i], c->g->tensors[c->g->params[i].tensor].name,
                                   c->arena, &c->slots[i], err);
    }
    return rc == HSP_OK ? init_stages(c, err) : rc;
}

void hsp_layouts_fini(struct hsp_compiler *c)
{
    for (uint32_t i = 0; i < c->n_homes; i++) {
        hsp_cover_fini(&c->home[i]);
    }
    for (uint32_t i = 0; i < c->n_stages; i++) {
        hsp_stagecode_fini(&c->stage[i]);
    }
    free(c->reshard);
    free(c->rendezvous_at);
}

/* A full arena is a limit, and no want of memory: the plan is too large, which is said. */
static enum hsp_status name_limit(const struct hsp_compiler *c, enum hsp_status rc,
                                  struct hsp_err *err)
{
    size_t cap = hsp_arena_cap(c->arena);
    uint32_t most = 0;
    if (rc != HSP_ENOMEM || hsp_arena_used(c->arena) < cap - cap / 8) {
        return rc;
    }
    for (uint32_t i = 0; i < c->n_stages; i++) {
        most = c->stage[i].group->n > most ? c->stage[i].group->n : most;
    }
    return hsp_err_set(err, HSP_ELIMIT, 0,
                       "layouts of the plan take more than %zu KiB: its largest stage has %u ranks",
                       cap >> 10, most);
}

enum hsp_status hsp_layouts_make(struct hsp_compiler *c, struct hsp_err *err)
{
    c->eval = c->t->data.validation_every > 0 && c->t->data.eval_seqs > 0;
    enum hsp_status rc = check_spec(c->g, c->t, err);
    if (rc == HSP_OK) {
        rc = hsp_plan_check(c->p, c->g, c->t->data.global_batch, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_plan_lengths(c->p, c->g, c->arena, &c->p, err);
    }
    if (rc == HSP_OK) {
        rc = init_tables(c, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_param_pre(c, err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->p->n_pipelines; i++) {
        rc = hsp_lower_pipeline(c, i, err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < c->n_stages; i++) {
        if (c->stage[i].split) {
            rc = hsp_split_backward(&c->stage[i], err);
        }
        if (rc == HSP_OK && c->stage[i].group->saved == HSP_SAVED_OFFLOAD) {
            rc = hsp_offload_stage(c, &c->stage[i], err);
        }
    }
    if (rc == HSP_OK && c->p->zero == HSP_ZERO_PARAMETERS) {
        rc = hsp_param_gather(c, err);
    }
    rc = rc == HSP_OK ? hsp_param_post(c, err) : rc;
    return name_limit(c, rc, err);
}
