#include "tests/lib/testlib.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/layout/box.h"
#include "proto/op/bf16.h"
#include "proto/program/program_check.h"
#include "tests/lib/ghost.h"
#include "tests/unit/worker/exec/tiny_program.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/data/synthetic.h"
#include "worker/exec/engine.h"
#include "worker/exec/record.h"
#include "worker/exec/state_init.h"
#include "worker/state/box_hash.h"

enum { MAX_STEPS = 32, MAX_N = 4 };

static const struct tiny_spec SPEC = {.n_ranks = 1,
                                      .global_batch = 12,
                                      .n_micro = 3,
                                      .vocab = 24,
                                      .hidden = 8,
                                      .sequence = 16,
                                      .steps = 20,
                                      .validation_every = 5,
                                      .dtype = HSP_F64};

/* One rank of a run. */
struct device {
    struct hsp_program *program;
    struct hsp_comm *comm;
    struct hsp_engine *engine;
    const struct hsp_dataset *text;
    struct hsp_backend *backend;
    void *place; /* the state in the backend's memory */
    void *state; /* the same for the test to read and write while no step runs */
    pthread_t thread;
    struct hsp_engine_hooks hooks;
    uint32_t steps, done;
    enum hsp_status status;
    struct hsp_err err;
    struct hsp_step_result result[MAX_STEPS];
    /* filled by hooks */
    uint64_t arm_at, sealed, stable, switch_at;
    uint32_t skip;        /* steps, as bits, whose loss is made none */
    uint64_t *read;       /* hashes of what the last update read; NULL: not looked at */
    uint32_t record, cap; /* asked for by the first vote: steps, spans */
    struct hsp_recording *recording;
    atomic_int in_vote;
};

struct world {
    struct hsp_arena *arena;
    struct hsp_dataset text;
    uint32_t n;
    struct device d[MAX_N];
};

static enum hsp_status on_vote(void *ctx, struct hsp_vote_record *mine, struct hsp_err *err)
{
    struct device *d = ctx;
    (void)err;
    assert_true(d->sealed == mine->step); /* version t is sealed before vote t */
    mine->armed = d->arm_at && mine->step >= d->arm_at ? 2 : 0;
    if (d->skip >> mine->step & 1) {
        mine->stat[HSP_STAT_LOSS] = (double)NAN;
    }
    atomic_store(&d->in_vote, 1);
    return HSP_OK;
}

static enum hsp_status on_passed(void *ctx, const struct hsp_vote *v,
                                 const struct hsp_vote_record *all, uint32_t n, struct hsp_err *err)
{
    struct device *d = ctx;
    (void)err;
    assert_int_equal(n, d->program->bind.n_ranks);
    assert_int_equal(all[n - 1].step, v->step);
    d->stable = v->step;
    if (v->step == 0 && d->record > 0) {
        assert_ok(hsp_engine_record(d->engine, 1, d->record, d->cap, err), err);
        assert_int_equal(hsp_engine_record(d->engine, 1, 1, 1, err), HSP_ESTATE);
    }
    if (v->armed && !d->switch_at) {
        d->switch_at = v->step;
    }
    return HSP_OK;
}

static enum hsp_status on_sealed(void *ctx, const struct hsp_written *w, struct hsp_err *err)
{
    struct device *d = ctx;
    (void)err;
    assert_true(w->queue == HSP_DEVQ_COMPUTE && w->ticket > 0 && w->read != NULL);
    if (d->read != NULL) {
        assert_ok(d->backend->finish(d->backend, w->queue, w->ticket, err), err);
        memcpy(d->read, w->read, d->program->bind.n_state * sizeof *d->read);
    }
    d->sealed = w->version;
    return HSP_OK;
}

static void *device_main(void *arg)
{
    struct device *d = arg;
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

/* All tests run on a CPU and on a device that does its work late. */
static bool on_device;
static uint64_t fail_at; /* of the device opened next */

/* A CPU that makes the gradient of a product and adds it to its sum in one call. */
static bool sums;
static atomic_int n_sums, n_begun;
static enum hsp_status (*run_plain)(struct hsp_backend *b, enum hsp_devq q,
                                    const struct hsp_call *c, struct hsp_err *err);

static enum hsp_status run_adding(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                  struct hsp_err *err)
{
    struct hsp_array own = c->out[0];
    struct hsp_call one = *c;
    int64_t n = own.ext[0] * own.ext[1];
    if (c->op == HSP_OP_LINEAR_DW) {
        (void)atomic_fetch_add(c->adds != 0 ? &n_sums : &n_begun, 1);
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

/* Whether calls of products say that the job computes in tf32; counted. */
static bool in_tf32;
static atomic_int n_told;
static enum hsp_status (*cpu_run)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                  struct hsp_err *err);

static enum hsp_status run_watched(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                   struct hsp_err *err)
{
    assert_int_equal(c->tf32, in_tf32);
    atomic_fetch_add(&n_told, c->op == HSP_OP_LINEAR);
    return cpu_run(b, q, c, err);
}

static void backend_open(struct hsp_backend **ret)
{
    static uint64_t n;
    struct hsp_err err = {0};
    struct hsp_ghost_opts g = {.seed = hsp_test_rand("ghost", n),
                               .max_delay_us = 300,
                               .replay = n % 3 != 0,
                               .fail_at = fail_at};
    n++;
    fail_at = 0;
    assert_ok(on_device ? hsp_ghost_open(&g, ret, &err) : hsp_backend_cpu_open(1, ret, &err), &err);
    if (!on_device) {
        cpu_run = (*ret)->run;
        (*ret)->run = run_watched;
    }
    if (sums) {
        run_plain = (*ret)->run;
        (*ret)->run = run_adding;
        (*ret)->adds = UINT64_C(1) << HSP_OP_LINEAR_DW;
    }
}

/* The gradient of the head is added to its sum right behind its product. */
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

static void copy_state(struct device *d, bool to_device)
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

static void device_open(struct device *d, const struct hsp_dataset *text, uint32_t steps)
{
    struct hsp_err err = {0};
    size_t bytes = (size_t)d->program->bind.state_bytes;
    d->steps = steps;
    d->text = text;
    d->hooks = (struct hsp_engine_hooks){
        .ctx = d, .before_vote = on_vote, .passed = on_passed, .sealed = on_sealed};
    backend_open(&d->backend);
    d->state = aligned_alloc(64, bytes);
    assert_ok(d->backend->alloc(d->backend, HSP_MEM_DEVICE, bytes, &d->place, &err), &err);
    hsp_state_init(d->program, d->state);
    struct hsp_engine_opts o = {.program = d->program,
                                .backend = d->backend,
                                .comm = d->comm,
                                .dataset = text,
                                .state = d->place,
                                .hashes_reads = true,
                                .hooks = d->hooks};
    assert_ok(hsp_engine_open(&o, &d->engine, &err), &err);
}

static struct world *world_new(const struct tiny_spec *s, uint32_t steps)
{
    struct world *w = calloc(1, sizeof(*w));
    struct hsp_comm *comm[MAX_N];
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
        p[k].bind.hyper.tf32 = in_tf32;
        assert_ok(hsp_program_check(&p[k], &err), &err);
        w->d[k].program = &p[k];
        w->d[k].comm = comm[k];
        device_open(&w->d[k], &w->text, steps);
    }
    return w;
}

/* The states are in the devices' memory. */
static void world_go(struct world *w)
{
    for (uint32_t k = 0; k < w->n; k++) {
        assert_int_equal(pthread_create(&w->d[k].thread, NULL, device_main, &w->d[k]), 0);
    }
}

static void world_start(struct world *w)
{
    for (uint32_t k = 0; k < w->n; k++) {
        copy_state(&w->d[k], true);
    }
    world_go(w);
}

static void world_join(struct world *w)
{
    for (uint32_t k = 0; k < w->n; k++) {
        assert_int_equal(pthread_join(w->d[k].thread, NULL), 0);
    }
    for (uint32_t k = 0; k < w->n; k++) {
        struct hsp_err err = {0};
        assert_ok(hsp_engine_finish(w->d[k].engine, &err), &err);
        copy_state(&w->d[k], false);
    }
}

static void world_free(struct world *w)
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

static uint32_t skip; /* of the next runs */

static struct world *world_run(const struct tiny_spec *s, uint32_t steps)
{
    struct world *w = world_new(s, steps);
    w->d[0].skip = skip;
    world_start(w);
    world_join(w);
    for (uint32_t k = 0; k < w->n; k++) {
        assert_ok(w->d[k].status, &w->d[k].err);
        assert_int_equal(w->d[k].done, steps);
    }
    return w;
}

/* Largest difference of two states (all tensors of the tiny program are fp64 here). */
static double state_difference(const struct device *a, const struct device *b)
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

static void one_rank_learns(void **state)
{
    (void)state;
    struct world *w = world_run(&SPEC, 20);
    const struct hsp_step_result *r = w->d[0].result;
    assert_near(r[0].vote.tokens, 12.0 * 16.0, 0.0);
    assert_near(r[0].vote.loss, log(24.0), 0.1); /* nothing known yet */
    assert_true(r[19].vote.loss < r[0].vote.loss - 0.05);
    assert_true(r[0].vote.eval_tokens > 0.0 && r[1].vote.eval_tokens <= 0.0);
    assert_true(r[19].vote.eval_tokens > 0.0); /* the last step validates */
    assert_near(r[19].vote.eval_loss, r[19].vote.loss, 0.3);
    assert_int_equal(w->d[0].sealed, 20);
    assert_int_equal(w->d[0].stable, 19);
    assert_true(r[5].seconds > 0.0 && r[5].compute_s > 0.0);
    assert_true(on_device || r[5].compute_s <= r[5].seconds); /* a device's: from vote to vote */
    world_free(w);
}

static void ranks_agree_with_one(const struct tiny_spec *s)
{
    struct world *one = world_run(&SPEC, 20), *many = world_run(s, 20);
    for (uint32_t t = 0; t < 20; t++) {
        for (uint32_t k = 0; k < many->n; k++) {
            const struct hsp_vote *a = &one->d[0].result[t].vote, *b = &many->d[k].result[t].vote;
            assert_near(b->loss, a->loss, 1e-12);
            assert_near(b->norm, a->norm, 1e-12);
            assert_near(b->tokens, a->tokens, 0.0);
            /* not only near: the same bits on all ranks */
            assert_memory_equal(b, &many->d[0].result[t].vote, sizeof(*b));
        }
    }
    for (uint32_t k = 0; k < many->n; k++) {
        assert_true(state_difference(&many->d[k], &one->d[0]) < 1e-12);
        assert_true(state_difference(&many->d[k], &many->d[0]) <= 0.0);
        assert_true(many->d[k].result[3].comm_bytes > 0);
    }
    world_free(one);
    world_free(many);
}

static void two_ranks_all_reduce(void **state)
{
    (void)state;
    struct tiny_spec s = SPEC;
    s.n_ranks = 2;
    s.n_micro = 2;
    s.seqs[0] = 7;
    s.seqs[1] = 5; /* micro-batches of 4, 3 and 3, 2 */
    ranks_agree_with_one(&s);
}

static void three_ranks_scatter_and_gather(void **state)
{
    (void)state;
    struct tiny_spec s = SPEC;
    s.n_ranks = 3; /* columns of 8 cut into 2, 3, 3: strided and uneven */
    s.n_micro = 4;
    s.scatter = true;
    ranks_agree_with_one(&s);
}

static void single_precision_is_near(void **state)
{
    (void)state;
    struct tiny_spec s = SPEC;
    s.dtype = HSP_F32;
    struct world *a = world_run(&SPEC, 20), *b = world_run(&s, 20);
    for (uint32_t t = 0; t < 20; t++) {
        assert_near(b->d[0].result[t].vote.loss, a->d[0].result[t].vote.loss, 1e-4);
    }
    world_free(a);
    world_free(b);
}

/* Steps are functions of the version they start from: going back repeats them bit by bit. */
static void a_step_can_be_repeated(void **state)
{
    (void)state;
    struct world *w = world_run(&SPEC, 6), *before = world_run(&SPEC, 5);
    struct hsp_step_result again;
    struct device *d = &w->d[0];
    memcpy(d->state, before->d[0].state, (size_t)d->program->bind.state_bytes);
    world_free(before);
    copy_state(d, true);
    d->sealed = 5;
    assert_ok(hsp_engine_step(d->engine, 5, &again, &d->err), &d->err);
    /* Up to the padding behind noop: seven doubles and the step, bit for bit. */
    const struct hsp_vote *first = &d->result[5].vote;
    assert_memory_equal(&again.vote, first, offsetof(struct hsp_vote, noop));
    assert_int_equal(again.vote.noop, first->noop);
    assert_true(again.vote.armed == first->armed);
    world_free(w);
}

static void armed_by_all_is_seen_by_all(void **state)
{
    (void)state;
    struct tiny_spec s = SPEC;
    s.n_ranks = 2;
    struct world *w = world_new(&s, 12);
    w->d[0].arm_at = 3;
    w->d[1].arm_at = 7;
    world_start(w);
    world_join(w);
    assert_int_equal(w->d[0].switch_at, 7);
    assert_int_equal(w->d[1].switch_at, 7);
    world_free(w);
}

/* No byte of the state is written: on a CPU none could be. */
static void not_finite_steps_write_nothing(void **state)
{
    (void)state;
    struct tiny_spec s = SPEC;
    s.n_ranks = 2;
    struct world *w = world_new(&s, 12);
    size_t bytes = (size_t)w->d[0].program->bind.state_bytes;
    void *first = malloc(bytes);
    assert_non_null(first);
    for (uint32_t k = 0; k < 2; k++) {
        struct hsp_cell_view v = hsp_state_view(w->d[k].program, 3, w->d[k].state);
        ((double *)v.data)[0] = (double)NAN; /* head.weight */
        copy_state(&w->d[k], true);
        assert_true(on_device || mprotect(w->d[k].place, bytes, PROT_READ) == 0);
    }
    memcpy(first, w->d[0].state, bytes);
    world_go(w);
    world_join(w);
    for (uint32_t k = 0; k < 2; k++) {
        struct device *d = &w->d[k];
        assert_int_equal(d->status, HSP_ESTATE); /* the tenth in a row */
        assert_int_equal(d->done, HSP_MAX_NOOP_STEPS - 1);
        assert_non_null(strstr(d->err.msg, "training diverged"));
        assert_int_equal(d->result[8].n_noop, 9);
        assert_true(d->result[8].vote.noop);
        assert_int_equal(d->sealed, HSP_MAX_NOOP_STEPS - 1); /* all the same */
        assert_memory_equal(d->state, first, bytes);
    }
    free(first);
    world_free(w);
}

/* The hash of each state tensor of @d as it lies in its memory now. */
static void hash_state(struct device *d, uint64_t *ret)
{
    const struct hsp_program *p = d->program;
    copy_state(d, false);
    for (uint32_t k = 0; k < p->bind.n_state; k++) {
        const struct hsp_state_bind *s = &p->bind.state[k];
        struct hsp_cell_view v = hsp_state_view(p, k, d->state);
        const struct hsp_box_id id = {s->tensor_id, p->tpl.tensors[s->tensor].state_kind, v.dtype,
                                      s->full.hi};
        ret[k] = hsp_box_hash(&id, &v.box, &v.box, v.data);
    }
}

/* What an update has read is what was there: also in a no-op step, and when a bit was flipped
 * behind the version's seal. */
static void what_an_update_reads_is_hashed(void **state)
{
    (void)state;
    struct world *w = world_new(&SPEC, 0);
    struct device *d = &w->d[0];
    uint64_t read[16] = {0}, want[16] = {0};
    assert_true(d->program->bind.n_state <= 16);
    d->read = read;
    d->skip = 1u << 2;
    copy_state(d, true);
    for (uint64_t t = 0; t < 6; t++) {
        struct hsp_step_result r;
        hash_state(d, want);
        if (t == 4) {
            const struct hsp_program *p = d->program;
            uint8_t *at = (uint8_t *)d->place + p->bind.tensor[p->bind.state[1].tensor].offset;
            at = on_device ? hsp_ghost_byte(d->backend, at) : at;
            at[3] ^= 4;
            hash_state(d, want);
        }
        assert_ok(hsp_engine_step(d->engine, t, &r, &d->err), &d->err);
        assert_int_equal(r.vote.noop, t == 2);
        assert_memory_equal(read, want, d->program->bind.n_state * sizeof *read);
        assert_ok(hsp_engine_finish(d->engine, &d->err), &d->err);
    }
    world_free(w);
}

/* Abort from another thread, at many moments: every rank returns, nobody hangs. */
static void abort_ends_every_rank(void **state)
{
    (void)state;
    struct tiny_spec s = SPEC;
    s.n_ranks = 3;
    s.n_micro = 4;
    for (uint64_t trial = 0; trial < 25; trial++) {
        struct world *w = world_new(&s, MAX_STEPS);
        world_start(w);
        usleep((useconds_t)(hsp_test_rand("abort", trial) % 5000));
        hsp_engine_abort(w->d[trial % 3].engine);
        for (uint32_t k = 0; k < 3; k++) {
            assert_int_equal(pthread_join(w->d[k].thread, NULL), 0);
            struct device *d = &w->d[k];
            assert_true(!on_device || d->status == HSP_OK ||
                        hsp_ghost_tally(d->backend).pending == 0);
        }
        for (uint32_t k = 0; k < 3; k++) {
            struct device *d = &w->d[k];
            if (d->status == HSP_OK) {
                assert_int_equal(d->done, MAX_STEPS);
                continue;
            }
            if (d->status != HSP_EPEER && d->status != HSP_ECANCELED) {
                fail_msg("rank %u: %s", k, d->err.msg);
            }
            struct hsp_step_result r;
            assert_int_not_equal(hsp_engine_step(d->engine, d->done, &r, NULL), HSP_OK);
            assert_true(d->sealed == d->done || d->sealed == (uint64_t)d->done + 1);
            assert_true(d->stable + 1 >= d->sealed);
        }
        world_free(w);
    }
}

static void errors_name_the_place(void **state)
{
    (void)state;
    struct world *w = world_new(&SPEC, 1);
    w->d[0].program->bind.data.vocab = 3; /* the text has letters up to 23 */
    world_start(w);
    world_join(w);
    assert_int_equal(w->d[0].status, HSP_EINVAL);
    assert_non_null(strstr(w->d[0].err.msg, "step 0, micro-batch 0, instruction "));
    assert_non_null(strstr(w->d[0].err.msg, "outside the vocabulary of 3"));
    world_free(w);
}

static void initial_state_does_not_depend_on_layout(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new((size_t)16 << 20);
    struct hsp_program *p = tiny_programs(&SPEC, a), *q = tiny_programs(&SPEC, a);
    double *x = calloc(1, (size_t)p->bind.state_bytes), *y = calloc(1, (size_t)p->bind.state_bytes);
    hsp_state_init(p, x);
    /* the same tensor, held from row 5, column 2 on */
    struct hsp_tensor_bind *b = &q->bind.tensor[q->bind.state[0].tensor];
    b->box.lo[0] = 5;
    b->box.lo[1] = 2;
    hsp_state_init(q, y);
    double sum = 0.0;
    for (int r = 5; r < 24; r++) {
        for (int c = 2; c < 8; c++) {
            assert_near(y[(r - 5) * 6 + c - 2], x[r * 8 + c], 0.0);
            sum += x[r * 8 + c] * x[r * 8 + c];
        }
    }
    assert_near(sqrt(sum / (19 * 6)), 0.1, 0.03); /* init_std */
    free(x);
    free(y);
    hsp_arena_free(a);
}

/* A file's reals of any type become the state's. */
static void weights_of_any_real_type_are_taken(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_arena *a = hsp_arena_new((size_t)16 << 20);
    struct hsp_program *p = tiny_programs(&SPEC, a);
    char *dir = hsp_test_tmpdir(), path[300];
    enum { N = 24 * 8 };
    double wide[N], *slot = calloc(1, (size_t)p->bind.state_bytes);
    float single[N];
    uint16_t half[N];
    const void *data[] = {single, wide, half};
    static const enum hsp_dtype type[] = {HSP_F32, HSP_F64, HSP_BF16, HSP_I32};
    for (int i = 0; i < N; i++) { /* exact in all of them */
        wide[i] = (i - 96) * 0.25;
        single[i] = (float)wide[i];
        half[i] = hsp_bf16_of(single[i]);
    }
    (void)snprintf(path, sizeof path, "%s/weights", dir);
    for (int k = 0; k < 4; k++) {
        struct hsp_st_entry e[] = {
            {.name = "embed.weight", .dtype = type[k], .rank = 2, .ext = {24, 8}},
            {.name = "head.weight", .dtype = type[k], .rank = 2, .ext = {24, 8}}};
        struct hsp_st_writer *w;
        struct hsp_st_reader *r;
        assert_ok(hsp_st_create(path, e, 2, NULL, 0, &w, &err), &err);
        for (uint32_t i = 0; i < 2; i++) {
            size_t bytes = N * hsp_dtype_size(type[k]);
            assert_ok(hsp_st_write(w, i, 0, k < 3 ? data[k] : single, bytes, &err), &err);
        }
        assert_ok(hsp_st_finish(w, &err), &err);
        assert_ok(hsp_st_open(path, &r, &err), &err);
        memset(slot, 0, (size_t)p->bind.state_bytes);
        assert_status(hsp_state_import(p, r, slot, &err), k < 3 ? HSP_OK : HSP_EINVAL);
        hsp_st_close(r);
        struct hsp_cell_view v = hsp_state_view(p, 0, slot);
        for (int i = 0; k < 3 && i < N; i++) {
            assert_near(((const double *)v.data)[i], wide[i], 0);
        }
    }
    free(slot);
    hsp_test_rmdir(dir);
    free(dir);
    hsp_arena_free(a);
}

/* The same bits on a device: the work is the same, only later. */
static void device_equals_cpu(void **state)
{
    (void)state;
    for (int k = 0; k < 6; k++) {
        struct tiny_spec s = SPEC;
        s.dtype = k % 2 ? HSP_F32 : HSP_F64;
        s.n_ranks = (uint32_t)k / 2 + 1;
        s.n_micro = 4;
        s.scatter = k >= 4;
        skip = k % 2 ? 0x2a8 : 0; /* of twelve: a step without an update now and then */
        on_device = false;
        struct world *cpu = world_run(&s, 12);
        on_device = true;
        struct world *dev = world_run(&s, 12);
        for (uint32_t r = 0; r < s.n_ranks; r++) {
            const struct device *c = &cpu->d[r], *d = &dev->d[r];
            struct hsp_ghost_tally t = hsp_ghost_tally(d->backend);
            for (uint32_t i = 0; i < 12; i++) {
                assert_memory_equal(&d->result[i].vote, &c->result[i].vote,
                                    sizeof(c->result[i].vote));
            }
            assert_memory_equal(d->state, c->state, (size_t)d->program->bind.state_bytes);
            assert_true(t.work > 100 && t.awaits > 12 && t.finishes > 0);
            if (d->backend->begin) {
                assert_true(t.recorded > 0 && t.replayed > 0 && t.compared > 0);
            }
        }
        assert_int_equal(cpu->d[0].result[7].vote.noop, k % 2);
        world_free(cpu);
        world_free(dev);
    }
    skip = 0;
}

/* Any work of one device fails: both ranks return, with the device's error and a lost peer's, and
 * on the peer nothing is under way any more. */
static void a_device_that_fails(void **state)
{
    (void)state;
    on_device = true;
    for (uint64_t trial = 0; trial < 24; trial++) {
        struct tiny_spec s = SPEC;
        s.n_ranks = 2;
        s.n_micro = 2;
        s.scatter = trial % 2;
        fail_at = 2 + trial * trial; /* the first puts the state there */
        struct world *w = world_new(&s, MAX_STEPS);
        struct device *d = &w->d[0], *peer = &w->d[1];
        world_start(w);
        for (uint32_t k = 0; k < 2; k++) {
            assert_int_equal(pthread_join(w->d[k].thread, NULL), 0);
        }
        assert_int_equal(hsp_ghost_tally(peer->backend).pending, 0);
        struct hsp_err why = {0};
        assert_int_equal(d->status, HSP_EIO);
        assert_non_null(strstr(d->err.msg, "ghost: the device failed"));
        assert_true(peer->status == HSP_EPEER || peer->status == HSP_ECANCELED);
        assert_true(peer->done <= d->done + 1);
        assert_true(hsp_ghost_forgive(d->backend, &why));
        assert_false(hsp_ghost_forgive(peer->backend, NULL));
        world_free(w);
    }
}

/* Its memory is given back, and its queues are the next engine's then, which is in the middle of a replay when the old
 * one is closed. */
static void a_retired_engine_leaves_the_queues(void **state)
{
    (void)state;
    int replays = 0;
    on_device = true;
    for (int k = 0; k < 3; k++) { /* two of three have it */
        struct tiny_spec s = SPEC;
        struct world *w = world_run(&s, 3);
        struct device *d = &w->d[0];
        struct hsp_backend *b = d->backend;
        const struct hsp_digest key = {1, 2};
        bool replayed = false;
        hsp_engine_retire(d->engine);
        assert_int_equal(hsp_ghost_tally(b).memory, (size_t)d->program->bind.state_bytes);
        for (int q = 0; b->begin != NULL && q < HSP_N_DEVQ; q++) {
            struct hsp_digest own = {key.hi, key.lo + (uint64_t)q};
            assert_ok(b->begin(b, (enum hsp_devq)q, &own, &replayed, NULL), NULL);
            assert_false(replayed);
        }
        d->engine = hsp_engine_close(d->engine);
        for (int q = 0; b->begin != NULL && q < HSP_N_DEVQ; q++) {
            assert_ok(b->end(b, (enum hsp_devq)q, NULL), NULL);
            replays++;
        }
        assert_false(hsp_ghost_forgive(b, NULL));
        world_free(w);
    }
    assert_int_equal(replays, 2 * HSP_N_DEVQ);
}

static void gradients_go_right_to_their_sums(void **state)
{
    (void)state;
    struct tiny_spec s = SPEC;
    s.n_ranks = 2;
    s.n_micro = 4;
    on_device = false;
    struct world *apart = world_run(&s, 12);
    sums = true;
    atomic_store(&n_sums, 0);
    atomic_store(&n_begun, 0);
    struct world *together = world_run(&s, 12);
    sums = false;
    assert_int_equal(atomic_load(&n_begun), 2 * 12);
    assert_int_equal(atomic_load(&n_sums), 2 * 12 * 3);
    for (uint32_t r = 0; r < s.n_ranks; r++) {
        assert_memory_equal(together->d[r].state, apart->d[r].state,
                            (size_t)apart->d[r].program->bind.state_bytes);
    }
    world_free(apart);
    world_free(together);
}

static void calls_say_what_the_job_computes_in(void **state)
{
    (void)state;
    struct tiny_spec s = SPEC;
    s.dtype = HSP_F32;
    for (int k = 0; k < 2; k++) {
        in_tf32 = k == 1;
        atomic_store(&n_told, 0);
        world_free(world_run(&s, 2));
        assert_true(atomic_load(&n_told) > 0);
    }
    in_tf32 = false;
}

/* ---- recordings ---- */

static struct hsp_recording *record(uint32_t n_ranks, uint32_t steps, uint32_t n, uint32_t cap)
{
    struct tiny_spec s = SPEC;
    s.n_ranks = n_ranks;
    struct world *w = world_new(&s, steps);
    w->d[0].record = n;
    w->d[0].cap = cap;
    world_start(w);
    world_join(w);
    assert_ok(w->d[0].status, &w->d[0].err);
    struct hsp_recording *r = w->d[0].recording;
    assert_non_null(r);
    world_free(w);
    return r;
}

static void check_order(const struct hsp_recording *r)
{
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        const struct hsp_recorded_queue *of = &r->queue[q];
        for (uint32_t k = 0; k < of->n; k++) {
            assert_true(of->span[k].to_ns >= of->span[k].from_ns);
            assert_true(k == 0 || of->span[k].from_ns >= of->span[k - 1].to_ns);
            assert_true(k == 0 || of->span[k].step >= of->span[k - 1].step);
        }
    }
}

/* Every instruction of every step once, in the order of the schedule; an instruction begins behind
 * all for which it waits. */
static void a_recording_has_every_instruction(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct tiny_spec s = SPEC;
    s.n_ranks = 2;
    const struct hsp_program *p = tiny_programs(&s, arena);
    struct hsp_recording *r = record(2, 18, 14, 8192); /* more spans than can be open */
    assert_true(r->first_step == 1 && r->n_steps == 14 && r->done == 14);
    check_order(r);
    int64_t voted = 0;
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        const struct hsp_recorded_queue *of = &r->queue[q];
        uint32_t k = 0;
        assert_true(of->lost == 0 && !of->entries);
        for (uint16_t t = 0; t < 14; t++) {
            const struct hsp_sched *plan[2] = {&p->bind.eval, &p->bind.train};
            for (int i = hsp_step_has_eval(&p->bind, t + 1U) ? 0 : 1; i < 2; i++) {
                for (uint32_t j = 0; j < plan[i]->n[q]; j++) {
                    const struct hsp_piece *x = &p->tpl.pieces[plan[i]->e[q][j].piece];
                    for (uint32_t at = x->first; at < x->first + x->n; at += of->span[k - 1].n) {
                        const struct hsp_span *got = &of->span[k++];
                        assert_true(k <= of->n && got->first == at && got->n > 0);
                        assert_true(got->step == t && got->eval == (i == 0));
                        assert_int_equal(got->micro, plan[i]->e[q][j].micro);
                        assert_true(on_device || got->n == 1);
                    }
                }
            }
        }
        assert_int_equal(k, of->n);
    }
    for (uint32_t k = 0, c = 0; k < r->queue[HSP_QUEUE_COMM].n;
         k++) { /* updates behind their vote */
        const struct hsp_span *v = &r->queue[HSP_QUEUE_COMM].span[k];
        if (p->tpl.instrs[v->first].kind != HSP_I_VOTE) {
            continue;
        }
        voted = v->to_ns;
        const struct hsp_recorded_queue *of = &r->queue[HSP_QUEUE_COMPUTE];
        while (c < of->n && (of->span[c].step < v->step ||
                             p->tpl.instrs[of->span[c].first].op != HSP_OP_ADAMW)) {
            c++;
        }
        assert_true(c < of->n && of->span[c].step == v->step);
        assert_true(of->span[c].from_ns >= voted - 2 * r->error_ns);
    }
    assert_true(voted > 0);
    hsp_recording_free(r);
    hsp_arena_free(arena);
}

static void a_long_recording_is_of_entries(void **state)
{
    (void)state;
    struct hsp_recording *r = record(1, 6, 3, 60);
    assert_true(r->done == 3 && r->queue[HSP_QUEUE_COMPUTE].entries);
    assert_true(r->queue[HSP_QUEUE_COMPUTE].n > 0 && r->queue[HSP_QUEUE_COMPUTE].lost == 0);
    check_order(r);
    hsp_recording_free(r);
    r = record(1, 6, 3, 2);
    assert_true(r->queue[HSP_QUEUE_COMPUTE].n == 2 && r->queue[HSP_QUEUE_COMPUTE].lost > 0);
    hsp_recording_free(r);
}

/* The job ends before all steps are done. */
static void a_recording_can_be_taken_early(void **state)
{
    (void)state;
    struct hsp_recording *r = record(1, 4, 9, 4096);
    assert_true(r->n_steps == 9 && r->done == 3 && r->queue[HSP_QUEUE_COMPUTE].n > 0);
    check_order(r);
    hsp_recording_free(r);
}

static unsigned n_warm;

static enum hsp_status count_warm(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                  const struct hsp_sum *s, struct hsp_err *err)
{
    (void)b;
    (void)q;
    (void)c;
    (void)s;
    (void)err;
    n_warm++;
    return HSP_OK;
}

static bool ends_soon(void *ctx)
{
    (void)ctx;
    return n_warm >= 2;
}

/* It may take long, and the epoch end meanwhile. */
static void warming_up_can_be_stopped(void **state)
{
    (void)state;
    struct world *w = world_new(&SPEC, 1);
    struct device *d = &w->d[0];
    struct hsp_err err = {0};
    d->engine = hsp_engine_close(d->engine);
    struct hsp_engine_opts o = {.program = d->program,
                                .backend = d->backend,
                                .comm = d->comm,
                                .dataset = &w->text,
                                .state = d->place,
                                .hooks = d->hooks};
    o.hooks.ended = ends_soon;
    d->backend->warm = count_warm;
    assert_status(hsp_engine_open(&o, &d->engine, &err), HSP_ECANCELED);
    assert_in_range(n_warm, 2, 3); /* products of one instruction */
    d->engine = NULL;
    world_free(w);
}

HSP_TEST_FILE(engine_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_learns),
        cmocka_unit_test(two_ranks_all_reduce),
        cmocka_unit_test(three_ranks_scatter_and_gather),
        cmocka_unit_test(single_precision_is_near),
        cmocka_unit_test(a_step_can_be_repeated),
        cmocka_unit_test(armed_by_all_is_seen_by_all),
        cmocka_unit_test(not_finite_steps_write_nothing),
        cmocka_unit_test(what_an_update_reads_is_hashed),
        cmocka_unit_test(abort_ends_every_rank),
        cmocka_unit_test(errors_name_the_place),
        cmocka_unit_test(initial_state_does_not_depend_on_layout),
        cmocka_unit_test(weights_of_any_real_type_are_taken),
        cmocka_unit_test(a_recording_has_every_instruction),
        cmocka_unit_test(a_long_recording_is_of_entries),
        cmocka_unit_test(warming_up_can_be_stopped),
        cmocka_unit_test(a_recording_can_be_taken_early),
        /* These choose for themselves. */
        cmocka_unit_test(gradients_go_right_to_their_sums),
        cmocka_unit_test(calls_say_what_the_job_computes_in),
        cmocka_unit_test(device_equals_cpu),
        cmocka_unit_test(a_device_that_fails),
        cmocka_unit_test(a_retired_engine_leaves_the_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The same on a device that is no CPU. */
HSP_TEST_FILE(device_engine_test)
{
    on_device = true;
    return hsp_test_run("engine_test");
}
