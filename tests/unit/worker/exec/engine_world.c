#include "tests/unit/worker/exec/engine_world.h"

#include <math.h>

#include "proto/layout/box.h"
#include "proto/program/program_check.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/data/synthetic.h"
#include "worker/exec/state_init.h"

const struct tiny_spec ew_spec = {.n_ranks = 1,
                                  .global_batch = 12,
                                  .n_micro = 3,
                                  .vocab = 24,
                                  .hidden = 8,
                                  .sequence = 16,
                                  .steps = 20,
                                  .validation_every = 5,
                                  .dtype = HSP_F64};

bool ew_on_device, ew_sums, ew_in_tf32;
uint64_t ew_fail_at;
uint32_t ew_skip;
atomic_int ew_n_sums, ew_n_begun, ew_n_told;

static enum hsp_status on_vote(void *ctx, struct hsp_vote_record *mine, struct hsp_err *err)
{
    struct ew_device *d = ctx;
    (void)err;
    assert_true(d->sealed == mine->step); /* version t is sealed before vote t */
    mine->armed = d->arm_at && mine->step >= d->arm_at ? 2 : 0;
    if (d->skip >> mine->step & 1) {
        mine->stat[HSP_STAT_LOSS] = (double)NAN;
    }
    return HSP_OK;
}

static enum hsp_status on_passed(void *ctx, const struct hsp_vote *v,
                                 const struct hsp_vote_record *all, uint32_t n, struct hsp_err *err)
{
    struct ew_device *d = ctx;
    (void)err;
    assert_int_equal(n, d->program->bind.n_ranks);
    assert_int_equal(all[n - 1].step, v->step);
    d->stable = v->step;
    d->passed++;
    if (d->abort_behind == v->step + 1) {
        hsp_engine_abort(d->engine);
    }
    if (v->step == 0 && d->record > 0) {
        assert_ok(hsp_engine_record(d->engine, 1, d->record, d->cap, err), err);
        assert_int_equal(hsp_engine_record(d->engine, 1, 1, 1, err), HSP_ESTATE);
    }
    if (v->armed && !d->switch_at) {
        d->switch_at = v->step;
    }
    return HSP_OK;
}

static enum hsp_state_watch on_update(void *ctx)
{
    const struct ew_device *d = ctx;
    /* the hook is called after the vote and before the update */
    assert_true(d->stable == d->sealed);
    return (d->unwatched >> d->sealed & 1) != 0 ? HSP_WATCH_NONE
           : (d->hashed >> d->sealed & 1) != 0  ? HSP_WATCH_HASHES
                                                : HSP_WATCH_SUMS;
}

static void look(struct ew_device *d, const struct hsp_written *w, struct ew_seen *ret)
{
    const uint32_t n = d->program->bind.n_state;
    assert_true(n <= EW_STATES);
    *ret = (struct ew_seen){.noop = w->noop,
                            .loaded = w->loaded,
                            .summed = w->sums != NULL,
                            .compared = w->sums != NULL && w->before != NULL,
                            .hashed = w->hash != NULL,
                            .first = w->first != NULL};
    for (uint32_t k = 0; k < n; k++) {
        if (w->sums != NULL) {
            ret->sums[k] = w->sums[k];
        }
        if (w->before != NULL) {
            ret->before[k] = w->before[k];
        }
        ret->hash[k] = w->hash != NULL ? w->hash[k] : 0;
        ret->of_first[k] = w->first != NULL ? w->first[k] : 0;
    }
}

static enum hsp_status on_sealed(void *ctx, const struct hsp_written *w, struct hsp_err *err)
{
    struct ew_device *d = ctx;
    (void)err;
    assert_true(w->queue == HSP_DEVQ_COMPUTE && w->ticket > 0);
    if (d->seen != NULL) {
        assert_ok(d->backend->finish(d->backend, w->queue, w->ticket, err), err);
        look(d, w, &d->seen[w->version]);
    }
    d->sealed = w->version;
    return HSP_OK;
}

static void *device_main(void *arg)
{
    struct ew_device *d = arg;
    for (d->done = 0; d->done < d->steps; d->done++) {
        d->status = hsp_engine_step(d->engine, d->done, &d->result[d->done], &d->err);
        if (d->status != HSP_OK) {
            break;
        }
        if (d->recording == NULL && d->record > 0) {
            d->recording = hsp_engine_recorded(d->engine, d->done + 1 == d->steps);
            assert_true((d->recording != NULL) ==
                        (d->done == d->record || d->done + 1 == d->steps));
        }
    }
    return NULL;
}

static enum hsp_status (*run_plain)(struct hsp_backend *b, enum hsp_devq q,
                                    const struct hsp_call *c, struct hsp_err *err);

/* Runs a call. A linear_dw with `adds` is computed to own memory and then added to its sum. */
static enum hsp_status run_adding(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                  struct hsp_err *err)
{
    struct hsp_array own = c->out[0];
    struct hsp_call one = *c;
    int64_t n = own.ext[0] * own.ext[1];
    if (c->op == HSP_OP_LINEAR_DW) {
        (void)atomic_fetch_add(c->adds != 0 ? &ew_n_sums : &ew_n_begun, 1);
    }
    if (c->adds == 0) {
        return run_plain(b, q, c, err);
    }
    assert_true(c->op == HSP_OP_LINEAR_DW && c->adds == 1 && own.rank == 2);
    own.data = aligned_alloc(64, ((size_t)n * 8 + 127) / 64 * 64);
    assert_non_null(own.data);
    one.out = &own;
    one.adds = 0;
    enum hsp_status st = run_plain(b, q, &one, err);
    st = st == HSP_OK ? b->accumulate(b, q, own.dtype, c->out[0].data, own.dtype, own.data, n, err)
                      : st;
    free(own.data);
    return st;
}

static enum hsp_status (*cpu_run)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                  struct hsp_err *err);

/* Runs a call after it has checked that the call's tf32 is as the job's. */
static enum hsp_status run_watched(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                   struct hsp_err *err)
{
    assert_int_equal(c->tf32, ew_in_tf32);
    atomic_fetch_add(&ew_n_told, c->op == HSP_OP_LINEAR);
    return cpu_run(b, q, c, err);
}

static void backend_open(struct hsp_backend **ret)
{
    static uint64_t n;
    struct hsp_err err = {0};
    struct hsp_mockdev_opts g = {.seed = hsp_test_rand("mockdev", n),
                                 .max_delay_us = 300,
                                 .replay = n % 3 != 0,
                                 .fail_at = ew_fail_at};
    n++;
    ew_fail_at = 0;
    assert_ok(ew_on_device ? hsp_mockdev_open(&g, ret, &err) : hsp_backend_cpu_open(1, ret, &err),
              &err);
    if (!ew_on_device) {
        cpu_run = (*ret)->run;
        (*ret)->run = run_watched;
    }
    if (ew_sums) {
        run_plain = (*ret)->run;
        (*ret)->run = run_adding;
        (*ret)->adds = UINT64_C(1) << HSP_OP_LINEAR_DW;
    }
}

/* Moves the accumulation of the head's gradient to directly after the product that computes this
 * gradient, so that the two can be fused. */
static void bring_together(struct hsp_template *t)
{
    for (uint32_t k = 0; k + 2 < t->n_instrs; k++) {
        if (t->instrs[k].kind == HSP_I_OP && t->instrs[k].op == HSP_OP_LINEAR_DW) {
            struct hsp_instr i = t->instrs[k + 1];
            assert_int_equal(t->instrs[k + 2].kind, HSP_I_ACC);
            t->instrs[k + 1] = t->instrs[k + 2];
            t->instrs[k + 2] = i;
        }
    }
}

void ew_copy_state(struct ew_device *d, bool to_device)
{
    struct hsp_backend *b = d->backend;
    struct hsp_err err = {0};
    uint64_t ticket;
    void *to = to_device ? d->place : d->state, *from = to_device ? d->state : d->place;
    assert_ok(b->copy(b, HSP_DEVQ_STATE, to, from, (size_t)d->program->bind.state_bytes, &err),
              &err);
    assert_ok(b->mark(b, HSP_DEVQ_STATE, &ticket, &err), &err);
    assert_ok(b->finish(b, HSP_DEVQ_STATE, ticket, &err), &err);
}

static void device_open(struct ew_device *d, const struct hsp_dataset *text, uint32_t steps)
{
    struct hsp_err err = {0};
    size_t bytes = (size_t)d->program->bind.state_bytes;
    d->steps = steps;
    d->hooks = (struct hsp_engine_hooks){.ctx = d,
                                         .before_vote = on_vote,
                                         .passed = on_passed,
                                         .sealed = on_sealed,
                                         .watch = on_update};
    backend_open(&d->backend);
    d->state = aligned_alloc(64, bytes);
    assert_ok(d->backend->alloc(d->backend, HSP_MEM_DEVICE, bytes, &d->place, &err), &err);
    hsp_state_init(d->program, d->state);
    struct hsp_engine_opts o = {.program = d->program,
                                .backend = d->backend,
                                .comm = d->comm,
                                .dataset = text,
                                .state = d->place,
                                .watches = true,
                                .hooks = d->hooks};
    assert_ok(hsp_engine_open(&o, &d->engine, &err), &err);
}

struct ew_world *ew_new(const struct tiny_spec *s, uint32_t steps)
{
    struct ew_world *w = calloc(1, sizeof(*w));
    struct hsp_comm *comm[EW_RANKS];
    struct hsp_err err = {0};
    w->arena = hsp_arena_new((size_t)64 << 20);
    w->n = s->n_ranks;
    assert_ok(hsp_dataset_synthetic(&(struct hsp_data_bind){.seed = 3, .vocab = s->vocab}, 20000,
                                    &w->text, &err),
              &err);
    assert_ok(hsp_loop_open(s->n_ranks, comm, &err), &err);
    struct hsp_program *p = tiny_programs(s, w->arena);
    for (uint32_t k = 0; k < w->n; k++) {
        bring_together(&p[k].tpl);
        p[k].bind.hyper.tf32 = ew_in_tf32;
        assert_ok(hsp_program_check(&p[k], &err), &err);
        w->d[k].program = &p[k];
        w->d[k].comm = comm[k];
        device_open(&w->d[k], &w->text, steps);
    }
    return w;
}

void ew_go(struct ew_world *w)
{
    for (uint32_t k = 0; k < w->n; k++) {
        assert_int_equal(pthread_create(&w->d[k].thread, NULL, device_main, &w->d[k]), 0);
    }
}

void ew_start(struct ew_world *w)
{
    for (uint32_t k = 0; k < w->n; k++) {
        ew_copy_state(&w->d[k], true);
    }
    ew_go(w);
}

void ew_join(struct ew_world *w)
{
    for (uint32_t k = 0; k < w->n; k++) {
        assert_int_equal(pthread_join(w->d[k].thread, NULL), 0);
    }
    for (uint32_t k = 0; k < w->n; k++) {
        struct hsp_err err = {0};
        assert_ok(hsp_engine_finish(w->d[k].engine, &err), &err);
        ew_copy_state(&w->d[k], false);
    }
}

void ew_free(struct ew_world *w)
{
    for (uint32_t k = 0; k < w->n; k++) {
        hsp_engine_close(w->d[k].engine);
        w->d[k].comm->ops->close(w->d[k].comm);
        w->d[k].backend->release(w->d[k].backend, HSP_MEM_DEVICE, w->d[k].place);
        w->d[k].backend->close(w->d[k].backend);
        free(w->d[k].state);
    }
    hsp_dataset_close(&w->text);
    hsp_arena_free(w->arena);
    free(w);
}

struct ew_world *ew_run(const struct tiny_spec *s, uint32_t steps)
{
    struct ew_world *w = ew_new(s, steps);
    w->d[0].skip = ew_skip;
    ew_start(w);
    ew_join(w);
    for (uint32_t k = 0; k < w->n; k++) {
        assert_ok(w->d[k].status, &w->d[k].err);
        assert_int_equal(w->d[k].done, steps);
    }
    return w;
}

double ew_state_difference(const struct ew_device *a, const struct ew_device *b)
{
    double worst = 0.0;
    for (uint32_t k = 0; k < a->program->bind.n_state; k++) {
        struct hsp_cell_view x = hsp_state_view(a->program, k, a->state);
        struct hsp_cell_view y = hsp_state_view(b->program, k, b->state);
        for (int64_t j = 0; j < hsp_box_count(&x.box); j++) {
            worst = fmax(worst, fabs(((double *)x.data)[j] - ((double *)y.data)[j]));
        }
    }
    return worst;
}
