#include "daemon/spmd/codegen/compile.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/plan/plan_check.h"
#include "daemon/plan/pool_view.h"
#include "daemon/spmd/codegen/device_schedule.h"
#include "daemon/spmd/codegen/specialize.h"
#include "daemon/spmd/codegen/template_builder.h"
#include "daemon/spmd/codegen/template_cache.h"
#include "daemon/spmd/lower/lower_plan.h"
#include "daemon/spmd/lower/stage_ir.h"
#include "daemon/spmd/lower/zero3_rendezvous.h"
#include "daemon/spmd/schedule/activation_slots.h"
#include "daemon/spmd/schedule/buckets.h"
#include "daemon/spmd/schedule/deadlock.h"
#include "daemon/spmd/schedule/early_sums.h"
#include "daemon/spmd/schedule/kept_messages.h"
#include "daemon/spmd/schedule/memory_plan.h"
#include "daemon/spmd/total/total_plan.h"
#include "proto/program/pool.h"
#include "proto/program/program_check.h"

/* Binds the place of the pipeline of @s in the lists of training and validation samples. */
static void bind_pipeline(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                          struct hsp_pipeline_bind *ret)
{
    *ret = (struct hsp_pipeline_bind){.n_micro = c->p->pipelines[s->pipeline].micro_batches,
                                      .n_stages = c->p->pipelines[s->pipeline].n_stages};
    for (uint32_t i = 0; i < s->pipeline; i++) {
        ret->first_seq += c->p->pipelines[i].sequences;
        ret->eval_first += c->eval_seqs[i];
    }
    ret->n_seq = c->p->pipelines[s->pipeline].sequences;
    ret->eval_n_seq = c->eval_seqs[s->pipeline];
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

/* The programs of a plan while they are made. */
struct making {
    struct hsp_program *program; /* [rank] */
    const uint32_t **meets;      /* [rank]: specialize.h */
    struct hsp_clocks clocks;
};

/* Returns true if the plan lets sums of gradients begin in the last backward. With zero 3 they do
 * not: its parameters are gathered, and their gradients summed, in a rendezvous for each layer. */
static bool sums_begin_early(const struct hsp_compiler *c)
{
    return c->p->bucket_bytes > 0 && c->p->zero != HSP_ZERO_PARAMETERS;
}

/* Takes slots, memory and queues from an earlier member of the stage with the same template and
 * tensors of the same sizes, if there is one. */
static bool copy_order(const struct hsp_stagecode *s, const struct hsp_program *all,
                       const uint32_t *const *meets, struct hsp_program *p)
{
    for (uint32_t j = 0; j < s->group->n; j++) {
        uint32_t rank = s->group->ranks[j];
        const struct hsp_program *q = &all[rank];
        bool same = rank < p->bind.rank && hsp_digest_equal(q->tpl.digest, p->tpl.digest);
        for (uint32_t i = 0; same && i < p->tpl.n_pieces; i++) {
            same = meets[rank][i] == meets[p->bind.rank][i];
        }
        for (uint32_t i = 0; same && i < p->tpl.n_tensors; i++) {
            same = q->bind.tensor[i].slot_bytes == p->bind.tensor[i].slot_bytes;
        }
        if (!same) {
            continue;
        }
        for (uint32_t i = 0; i < p->tpl.n_tensors; i++) {
            p->bind.tensor[i].n_slots = q->bind.tensor[i].n_slots;
            p->bind.tensor[i].offset = q->bind.tensor[i].offset;
        }
        p->bind.state_bytes = q->bind.state_bytes;
        p->bind.memory_bytes = q->bind.memory_bytes;
        p->bind.host_bytes = q->bind.host_bytes;
        p->bind.comm_bytes = hsp_memory_comm(p);
        p->bind.train = q->bind.train;
        p->bind.eval = q->bind.eval;
        return true;
    }
    return false;
}

/* Assigns slots, memory and queues, which follow from the order of the stage's units. */
static enum hsp_status order_program(struct hsp_compiler *c, const struct hsp_stagecode *s,
                                     const struct making *all, struct hsp_program *p,
                                     struct hsp_err *err)
{
    if (copy_order(s, all->program, all->meets, p)) {
        return HSP_OK;
    }
    struct hsp_pipeline_order o = {0};
    struct hsp_rank_timeline train, eval;
    const uint32_t *meets = all->meets[p->bind.rank];
    uint32_t n_eval = c->eval ? p->bind.pipeline.eval_n_micro : 0;
    enum hsp_status rc = hsp_order_make(&c->p->pipelines[s->pipeline], s->stage, n_eval, &o, err);
    if (rc == HSP_OK) {
        rc = hsp_slots_assign(p, &o, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_memory_assign(p, sums_begin_early(c), err);
    }
    if (rc == HSP_OK) {
        rc = hsp_rank_timeline_make(&all->clocks, s, p, meets, false, &train, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_rank_timeline_make(&all->clocks, s, p, meets, true, &eval, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_schedule_make(p, &o, &train, &eval, c->arena, err);
    }
    hsp_order_fini(&o);
    return rc;
}

/* Makes the program of @rank; the programs of smaller ranks must be made already. */
static enum hsp_status make_program(struct hsp_compiler *c, uint32_t rank,
                                    struct hsp_digest plan_digest, const struct making *all,
                                    struct hsp_err *err)
{
    struct hsp_program *ret = &all->program[rank];
    const struct hsp_stagecode *s = stage_of_rank(c, rank);
    enum hsp_status rc = hsp_specialize(c, rank, ret, &all->meets[rank], err);
    if (rc != HSP_OK) {
        return rc;
    }
    bind_pipeline(c, s, &ret->bind.pipeline);
    ret->bind.data = c->t->data;
    ret->bind.hyper = c->t->hyper;
    ret->bind.hyper.tf32 = c->g->spec.compute == HSP_COMPUTE_TF32;
    ret->bind.plan_digest = plan_digest;
    if (!c->eval) {
        ret->bind.data.validation_every = 0;
    }
    rc = order_program(c, s, all, ret, err);
    if (rc == HSP_OK) {
        rc = hsp_program_check(ret, err);
    }
    if (rc != HSP_OK) {
        (void)hsp_err_wrap(err, "program of rank %u", rank);
    }
    return rc;
}

/* Returns true if two members have the same order and the same buckets. */
static bool same_order(const struct hsp_binding *a, const struct hsp_binding *b)
{
    bool same = a->train.e[HSP_QUEUE_COMPUTE] == b->train.e[HSP_QUEUE_COMPUTE] &&
                a->n_reshards == b->n_reshards;
    for (uint32_t k = 0; same && k < a->n_reshards; k++) {
        same = a->reshard[k].bucket == b->reshard[k].bucket;
    }
    return same;
}

/* Makes the schedules with early sums, for all ranks or for none. */
static enum hsp_status make_early(struct hsp_compiler *c, struct hsp_program *p, uint32_t n,
                                  struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t r = 0; rc == HSP_OK && r < n; r++) {
        uint32_t like = r > 0 ? r - 1 : r; /* members of a stage are neighbours */
        p[r].bind.buckets = true;
        if (like < r && same_order(&p[like].bind, &p[r].bind)) {
            p[r].bind.early = p[like].bind.early;
        } else {
            rc = hsp_early_make(&p[r], c->arena, err);
        }
        if (rc != HSP_OK) {
            (void)hsp_err_wrap(err, "program of rank %u", r);
        }
    }
    return rc;
}

static enum hsp_status make_programs(struct hsp_compiler *c, struct hsp_program_file *f,
                                     struct hsp_plan *total, struct hsp_err *err)
{
    struct hsp_digest digest;
    enum hsp_status rc = hsp_complete_layouts(c, c->arena, total, err);
    if (rc == HSP_OK) {
        rc = hsp_total_digest(total, &digest, err);
    }
    f->n = c->p->n_ranks;
    f->programs = hsp_arena_array(c->arena, f->n, sizeof *f->programs);
    struct making all = {.program = f->programs};
    all.meets = hsp_arena_array(c->arena, f->n, sizeof *all.meets);
    if (rc == HSP_OK && (f->programs == NULL || all.meets == NULL)) {
        return hsp_err_nomem(err, "the compilation");
    }
    rc = rc == HSP_OK ? hsp_clocks_make(c, &all.clocks, err) : rc;
    for (uint32_t i = 0; rc == HSP_OK && i < f->n; i++) {
        rc = make_program(c, i, digest, &all, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_buckets_make(f->programs, f->n, c->p->bucket_bytes, err);
    }
    if (rc == HSP_OK && sums_begin_early(c)) {
        rc = make_early(c, f->programs, f->n, err);
    }
    rc = rc == HSP_OK ? hsp_kept_messages(c->p, f->programs, err) : rc;
    for (int which = HSP_OF_TRAIN; rc == HSP_OK && which <= HSP_OF_EARLY; which++) {
        rc = hsp_deadlock_check(f->programs, f->n, (enum hsp_sched_of)which, err);
    }
    return rc;
}

/* The parts that the plans of one compile share. */
struct work {
    struct hsp_arena *arena;
    uint32_t channel; /* the next free one */
    struct hsp_traced_templates traced_templates;
    const struct hsp_templates *kept;
};

static enum hsp_status compile_one(const struct hsp_pool_view *v, struct work *w,
                                   struct hsp_program_file *f, struct hsp_plan *total,
                                   struct hsp_err *err)
{
    struct hsp_compiler c = {.g = &v->g,
                             .p = &v->p,
                             .t = &v->t,
                             .arena = w->arena,
                             .channel = w->channel,
                             .traced_templates = &w->traced_templates,
                             .kept = w->kept};
    enum hsp_status rc = hsp_layouts_make(&c, err);
    if (rc == HSP_OK) {
        rc = make_programs(&c, f, total, err);
    }
    w->channel = c.channel;
    hsp_layouts_fini(&c);
    return rc;
}

/* Compiles a pool's plans for shorter sequences, and adds their programs after those of the plan
 * for the longest, which are in @f. */
static enum hsp_status compile_shorter(const struct hsp_graph *g, const struct hsp_plan *p,
                                       const struct hsp_train_spec *t, struct work *w,
                                       struct hsp_program_file *f, struct hsp_plan *total,
                                       struct hsp_err *err)
{
    f->shorter = hsp_arena_array(w->arena, (size_t)p->n_shorter * f->n, sizeof *f->shorter);
    total->shorter = hsp_arena_array(w->arena, p->n_shorter, sizeof *total->shorter);
    struct hsp_plan *plan = hsp_arena_array(w->arena, p->n_shorter, sizeof *plan);
    if (f->shorter == NULL || total->shorter == NULL || plan == NULL) {
        return hsp_err_nomem(err, "the compilation");
    }
    for (uint32_t k = 0; k < p->n_shorter; k++) {
        struct hsp_pool_view v;
        struct hsp_program_file one = {0};
        hsp_pool_view_make(g, t, p->shorter[k], total, &v);
        enum hsp_status rc = compile_one(&v, w, &one, &plan[k], err);
        if (rc != HSP_OK) {
            return hsp_err_wrap(err, "plan for %u tokens", p->shorter[k]->max_length);
        }
        memcpy(f->shorter + (size_t)k * f->n, one.programs, f->n * sizeof *one.programs);
        total->shorter[k] = &plan[k];
    }
    total->n_shorter = f->n_shorter = p->n_shorter;
    return HSP_OK;
}

/* Notes the pool in all of its bindings, and checks that its programs fit each other. */
static enum hsp_status seal_pool(struct hsp_program_file *f, const struct hsp_plan *total,
                                 struct hsp_err *err)
{
    struct hsp_digest digest;
    enum hsp_status rc = hsp_total_digest(total, &digest, err);
    for (uint32_t r = 0; rc == HSP_OK && r < f->n; r++) {
        const struct hsp_program *of[HSP_MAX_POOL];
        f->programs[r].bind.plan_digest = digest;
        for (uint32_t k = 0; k < f->n_shorter; k++) {
            f->shorter[(size_t)k * f->n + r].bind.plan_digest = digest;
            of[k] = &f->shorter[(size_t)k * f->n + r];
        }
        if (hsp_pool_check(&f->programs[r], of, f->n_shorter, err) != HSP_OK) {
            rc = hsp_err_wrap(err, "rank %u", r);
            rc = err != NULL ? (err->code = HSP_EINVAL) : HSP_EINVAL;
        }
    }
    return rc;
}

enum hsp_status hsp_compile_kept(const struct hsp_graph *g, const struct hsp_plan *p,
                                 const struct hsp_train_spec *t, struct hsp_templates *k,
                                 struct hsp_arena *arena, struct hsp_program_file *ret,
                                 struct hsp_plan *ret_total, struct hsp_err *err)
{
    struct hsp_program_file f = {
        .data_path = "", .out_dir = "", .init_from = "", .config_json = ""};
    struct hsp_pool_view v;
    struct hsp_plan total;
    struct work w = {.arena = arena, .kept = k};
    hsp_pool_view_make(g, t, p, NULL, &v);
    enum hsp_status rc = hsp_pool_allowed(p, t, err);
    if (rc == HSP_OK) {
        rc = hsp_plan_check(p, g, t->data.global_batch, err);
    }
    if (rc == HSP_OK) {
        rc = compile_one(&v, &w, &f, &total, err);
    }
    if (rc == HSP_OK && p->n_shorter > 0) {
        rc = compile_shorter(g, p, t, &w, &f, &total, err);
        rc = rc == HSP_OK ? seal_pool(&f, &total, err) : rc;
    }
    if (rc == HSP_OK) {
        *ret = f;
        *ret_total = total;
    }
    if (rc == HSP_OK && k != NULL) {
        hsp_templates_renew(k, &w.traced_templates);
    }
    free(w.traced_templates.of);
    return rc;
}

enum hsp_status hsp_compile_total(const struct hsp_graph *g, const struct hsp_plan *p,
                                  const struct hsp_train_spec *t, struct hsp_arena *arena,
                                  struct hsp_program_file *ret, struct hsp_plan *ret_total,
                                  struct hsp_err *err)
{
    return hsp_compile_kept(g, p, t, NULL, arena, ret, ret_total, err);
}

enum hsp_status hsp_compile(const struct hsp_graph *g, const struct hsp_plan *p,
                            const struct hsp_train_spec *t, struct hsp_arena *arena,
                            struct hsp_program_file *ret, struct hsp_err *err)
{
    struct hsp_plan total;
    return hsp_compile_total(g, p, t, arena, ret, &total, err);
}
