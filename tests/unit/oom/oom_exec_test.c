/* Fails allocations of worker/exec: the step reports the lack on the rank where the allocation
 * failed, and no other rank waits for ever. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/base/size.h"
#include "proto/op/bf16.h"
#include "tests/lib/oom.h"
#include "tests/lib/testlib.h"
#include "tests/unit/worker/exec/tiny_program.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/data/synthetic.h"
#include "worker/exec/engine.h"
#include "worker/exec/record.h"
#include "worker/exec/state_init.h"
#include "worker/exec/step_trace.h"
#include "worker/state/safetensors_read.h"
#include "worker/state/safetensors_write.h"

enum { RANKS = 2, STEPS = 2 };

static const struct tiny_spec spec = {.n_ranks = RANKS,
                                      .global_batch = 6,
                                      .n_micro = 2,
                                      .vocab = 24,
                                      .hidden = 7,
                                      .sequence = 8,
                                      .steps = STEPS,
                                      .validation_every = 1,
                                      .dtype = HSP_F64};

struct device {
    const struct hsp_program *program;
    struct hsp_comm *comm;
    struct hsp_backend *backend;
    struct hsp_engine *engine;
    void *state;
    enum hsp_status st;
    struct hsp_err err;
    struct hsp_step_result result[STEPS];
};

struct world {
    struct hsp_arena *arena;
    struct hsp_dataset text;
    char *dir, path[300]; /* weights */
    struct device d[RANKS];
};

/* A backend that could: the engine looks for products that go together. */
static enum hsp_status no_sum(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                              const struct hsp_sum *s, bool *ret_done, struct hsp_err *err)
{
    (void)b;
    (void)q;
    (void)c;
    (void)s;
    (void)err;
    *ret_done = false;
    return HSP_OK;
}

static enum hsp_status run_each(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                uint32_t n, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < n && st == HSP_OK; k++) {
        st = b->run(b, q, &c[k], err);
    }
    return st;
}

/* Nothing is under way yet: each time it is given anew. */
static enum hsp_status begin(struct hsp_backend *b, enum hsp_devq q, const struct hsp_digest *key,
                             bool *ret_replayed, struct hsp_err *err)
{
    (void)b;
    (void)q;
    (void)key;
    (void)err;
    *ret_replayed = false;
    return HSP_OK;
}

static enum hsp_status end(struct hsp_backend *b, enum hsp_devq q, struct hsp_err *err)
{
    (void)b;
    (void)q;
    (void)err;
    return HSP_OK;
}

static enum hsp_status open_device(struct world *w, struct device *d, struct hsp_err *err)
{
    struct hsp_engine_opts o = {.program = d->program,
                                .comm = d->comm,
                                .dataset = &w->text,
                                .state = d->state,
                                .watches = true};
    hsp_state_init(d->program, d->state);
    enum hsp_status st = hsp_backend_cpu_open(1, &d->backend, err);
    o.backend = d->backend;
    if (st == HSP_OK) {
        d->backend->run_sum = no_sum;
        d->backend->run_many = run_each;
        d->backend->begin = begin;
        d->backend->end = end;
        d->backend->many = UINT64_C(1) << HSP_OP_ADAMW | UINT64_C(1) << HSP_OP_SQSUM;
    }
    if (st == HSP_OK) {
        st = hsp_engine_open(&o, &d->engine, err);
    }
    return st == HSP_OK ? hsp_engine_record(d->engine, 0, 1, 64, err) : st;
}

static void *run_device(void *arg)
{
    struct device *d = arg;
    d->st = HSP_OK;
    for (uint64_t t = 0; t < STEPS && d->st == HSP_OK; t++) {
        d->st = hsp_engine_step(d->engine, t, &d->result[t], &d->err);
    }
    return NULL;
}

/* Returns the lack of memory of the first rank that has it; the ranks that waited for that rank
 * report no other error. */
static enum hsp_status outcome(const struct world *w, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct device *d = &w->d[r];
        bool held_up = d->st == HSP_ECANCELED || d->st == HSP_EPEER;
        if (d->st != HSP_OK && (st == HSP_OK || !held_up)) {
            st = d->st;
            *err = d->err;
        }
    }
    return st;
}

static enum hsp_status run_all(struct world *w, struct hsp_err *err)
{
    pthread_t other;
    if (pthread_create(&other, NULL, run_device, &w->d[1]) != 0) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "the test's own thread");
    }
    (void)run_device(&w->d[0]);
    (void)pthread_join(other, NULL); /* fails only for threads that are not ours */
    return outcome(w, err);
}

/* Trains two ranks for two steps with validation, and writes their common results. */
static enum hsp_status train(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct world *w = ctx;
    struct hsp_comm *comm[RANKS];
    enum hsp_status st = hsp_loop_open(RANKS, comm, err);
    if (st != HSP_OK) {
        return st;
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        w->d[r].comm = comm[r];
        w->d[r].backend = NULL;
        w->d[r].engine = NULL;
        st = st == HSP_OK ? open_device(w, &w->d[r], err) : st;
    }
    if (st == HSP_OK) {
        st = run_all(w, err);
    }
    for (uint32_t t = 0; st == HSP_OK && t < STEPS; t++) {
        const struct hsp_vote *v = &w->d[0].result[t].vote;
        assert_memory_equal(v, &w->d[1].result[t].vote, sizeof(*v));
        hsp_buf_printf(out, "%a %a %a\n", v->loss, v->norm, v->eval_loss);
    }
    for (uint32_t r = 0; st == HSP_OK && r < RANKS; r++) {
        struct hsp_recording *rec = hsp_engine_recorded(w->d[r].engine, false);
        hsp_buf_printf(out, "%u spans\n", rec->queue[HSP_QUEUE_COMPUTE].n);
        (void)hsp_recording_free(rec);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        (void)hsp_engine_close(w->d[r].engine);
        comm[r]->ops->close(comm[r]);
        if (w->d[r].backend != NULL) {
            w->d[r].backend->close(w->d[r].backend);
        }
    }
    return st;
}

/* Loads weights from a file. */
static enum hsp_status import(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct world *w = ctx;
    struct device *d = &w->d[0];
    struct hsp_st_reader *r = NULL;
    memset(d->state, 0, (size_t)d->program->bind.state_bytes);
    enum hsp_status st = hsp_st_open(w->path, &r, err);
    if (st == HSP_OK) {
        st = hsp_state_import(d->program, r, d->state, err);
    }
    (void)hsp_st_close(r);
    hsp_buf_append(out, d->state, st == HSP_OK ? (size_t)d->program->bind.state_bytes : 0);
    return st;
}

static void write_weights(struct world *w)
{
    struct hsp_st_entry e[] = {
        {.name = "embed.weight", .dtype = HSP_F64, .rank = 2, .ext = {24, 7}},
        {.name = "head.weight", .dtype = HSP_F64, .rank = 2, .ext = {24, 7}}};
    double x[24 * 7];
    struct hsp_st_writer *f;
    struct hsp_err err = {0};
    for (size_t i = 0; i < HSP_ARRAY_LEN(x); i++) {
        x[i] = (double)i;
    }
    (void)snprintf(w->path, sizeof(w->path), "%s/weights", w->dir);
    assert_ok(hsp_st_create(w->path, e, HSP_ARRAY_LEN(e), NULL, 0, &f, &err), &err);
    for (size_t i = 0; i < HSP_ARRAY_LEN(e); i++) {
        assert_ok(hsp_st_write(f, i, 0, x, sizeof(x), &err), &err);
    }
    assert_ok(hsp_st_finish(f, &err), &err);
}

static void world_init(struct world *w, const struct tiny_spec *s)
{
    struct hsp_err err = {0};
    *w = (struct world){.arena = hsp_arena_new((size_t)64 << 20), .dir = hsp_test_tmpdir()};
    assert_ok(hsp_dataset_synthetic(&(struct hsp_data_bind){.seed = 3, .vocab = s->vocab}, 4000,
                                    &w->text, &err),
              &err);
    struct hsp_program *p = tiny_programs(s, w->arena);
    for (uint32_t r = 0; r < RANKS; r++) {
        w->d[r].program = &p[r];
        w->d[r].state = aligned_alloc(64, ((size_t)p[r].bind.state_bytes + 63) / 64 * 64);
        assert_non_null(w->d[r].state);
    }
    (void)alarm(600); /* a rank that waits for ever is to be seen */
}

static void world_fini(struct world *w)
{
    (void)alarm(0);
    for (uint32_t r = 0; r < RANKS; r++) {
        free(w->d[r].state);
    }
    hsp_dataset_close(&w->text);
    (void)hsp_arena_free(w->arena);
    hsp_test_rmdir(w->dir);
    free(w->dir);
}

static void trained(bool scatter)
{
    struct world w;
    struct tiny_spec s = spec;
    struct hsp_buf first;
    struct hsp_err err = {0};
    s.scatter = scatter;
    world_init(&w, &s);
    hsp_buf_init(&first, 1 << 20);
    assert_ok(train(&w, &first, &err), &err); /* threads keep memory for those after them */
    hsp_buf_fini(&first);
    hsp_oom_loop(scatter ? "scatter and gather" : "all-reduce", train, &w, 400);
    world_fini(&w);
}

static void steps_of_two_ranks(void **state)
{
    (void)state;
    trained(false);
}

static void steps_with_moves_of_parts(void **state)
{
    (void)state;
    trained(true);
}

/* Runs an op on bf16, whose operands are widened into scratch memory. */
static enum hsp_status add_bf16(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    uint16_t x[64], y[64] = {0};
    struct hsp_backend *b = NULL;
    (void)ctx;
    for (int i = 0; i < 64; i++) {
        x[i] = hsp_bf16_of((float)i);
    }
    struct hsp_array in[2] = {{x, HSP_BF16, 1, {64}}, {x, HSP_BF16, 1, {64}}};
    struct hsp_array sum = {y, HSP_BF16, 1, {64}};
    struct hsp_attrs at = {0};
    struct hsp_call c = {.op = HSP_OP_ADD, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = &sum};
    enum hsp_status st = hsp_backend_cpu_open(1, &b, err);
    if (st != HSP_OK) {
        return st;
    }
    st = b->run(b, HSP_DEVQ_COMPUTE, &c, err);
    b->close(b);
    hsp_buf_append(out, y, st == HSP_OK ? sizeof y : 0);
    return st;
}

static void ops_on_bf16(void **state)
{
    (void)state;
    hsp_oom_loop("an op on bf16", add_bf16, NULL, 20);
}

static void weights_are_taken_whole_or_not(void **state)
{
    struct world w;
    (void)state;
    world_init(&w, &spec);
    write_weights(&w);
    hsp_oom_loop("import", import, &w, 500);
    world_fini(&w);
}

struct recorded {
    const struct hsp_program *program[2];
    struct hsp_recording rec;
};

/* Makes a trace: spans with names, phases, work and messages, and the spans of the thread that
 * seals and copies state. */
static enum hsp_status trace(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    static const struct hsp_state_span kept[] = {
        {"seal", 500, 600}, {"copies", 600, 900}, {"seal", 950, 951}};
    const struct recorded *r = ctx;
    struct hsp_arena *arena = hsp_arena_new((size_t)16 << 20);
    struct hsp_trace_part part = {.first_step = 77}, was = part;
    if (arena == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no memory for the test's arena");
    }
    enum hsp_status st = hsp_step_trace(&r->rec, r->program, HSP_ARRAY_LEN(r->program), kept,
                                        HSP_ARRAY_LEN(kept), arena, &part, err);
    if (st == HSP_OK) {
        st = hsp_trace_part_encode(&part, out, err);
    } else {
        assert_memory_equal(&part, &was, sizeof part);
    }
    (void)hsp_arena_free(arena);
    return st;
}

/* Runs of any length from any instruction on: more labels than there is room for at first. */
static void traces_are_whole_or_not_made(void **state)
{
    enum { N = 300 };
    static struct hsp_span span[2][N];
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_program *p = tiny_programs(&spec, arena);
    struct hsp_cell cell = p->bind.reshard[0].moves[0].cells[0];
    struct recorded r = {.program = {p, p}, .rec = {.first_step = 5, .n_steps = 2, .done = 1}};
    uint32_t all = p->tpl.n_instrs;
    (void)state;
    cell.root = 0;
    cell.peer = 1;
    struct hsp_move *m = &p->bind.reshard[0].moves[0];
    m->kind = HSP_MOVE_P2P; /* messages, which tiny programs have none of */
    m->cells = &cell;
    m->n_cells = 1;
    for (uint8_t k = 0; k < 2; k++) {
        struct hsp_recorded_queue *q = &r.rec.queue[k == 0 ? HSP_QUEUE_COMPUTE : HSP_QUEUE_COMM];
        q->span = span[k];
        for (uint32_t first = 0; first < all; first++) {
            for (uint32_t n = 1; n <= all - first && q->n < N; n++, q->n++) {
                span[k][q->n] = (struct hsp_span){.from_ns = 1000 + 10 * q->n,
                                                  .to_ns = 1010 + 10 * q->n,
                                                  .first = first,
                                                  .n = n,
                                                  .program = k};
            }
        }
    }
    assert_true(r.rec.queue[HSP_QUEUE_COMPUTE].n + r.rec.queue[HSP_QUEUE_COMM].n > 256);
    hsp_oom_loop("trace", trace, &r, 100);
    (void)hsp_arena_free(arena);
}

HSP_TEST_FILE(oom_exec_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_two_ranks),
        cmocka_unit_test(steps_with_moves_of_parts),
        cmocka_unit_test(weights_are_taken_whole_or_not),
        cmocka_unit_test(ops_on_bf16),
        cmocka_unit_test(traces_are_whole_or_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
