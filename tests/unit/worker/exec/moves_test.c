/* Tests Reshards between random layouts: the compiler resolves them to moves, engines run the
 * moves, and the results must be as the layouts define. */
#include "tests/lib/testlib.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "daemon/spmd/reshard/move_list.h"
#include "daemon/spmd/reshard/resolve.h"
#include "proto/layout/box.h"
#include "proto/program/program_check.h"
#include "tests/lib/mockdev.h"
#include "tests/unit/worker/exec/device_comm.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/data/synthetic.h"
#include "worker/exec/engine.h"
#include "worker/exec/operand.h"

enum { RANKS = 4, SEQ = 1, BOXES = 3, TENSORS = BOXES + 1, SYMBOLS = 1 + TENSORS * HSP_MAX_RANK };

/* One tensor with a source and a target layout. */
struct trial {
    uint8_t rank;
    int64_t ext[HSP_MAX_RANK];
    bool batch; /* dim 0 is the micro-batch: not cut, in two micro-batches of different size */
    uint32_t n_in[RANKS]; /* number of boxes of the source; each box is an input */
    struct hsp_held in[RANKS][BOXES];
    bool dst[RANKS];
    struct hsp_box dbox[RANKS];
    struct hsp_cover from, to;
};

struct device {
    const struct trial *t;
    struct hsp_program p;
    struct hsp_engine *e;
    struct hsp_comm *comm;
    struct hsp_comm *direct; /* transport of the device's memory; NULL: none */
    struct hsp_backend *backend;
    struct hsp_dataset *text;
    pthread_t thread;
    enum hsp_status st;
    struct hsp_err err;
    uint32_t checked;
};

/* Returns the value of addend @a at a global index (within the tensor's bounds) in a
 * micro-batch. */
static double addend(uint32_t a, uint32_t micro, const struct trial *t, const int64_t *at)
{
    uint64_t x = ((uint64_t)a << 32) + micro;
    for (uint8_t d = 0; d < t->rank; d++) {
        x = x * 7 + (uint64_t)at[d];
    }
    return (double)hsp_test_range("value", x, -9999, 9999);
}

static bool inside(const struct hsp_box *b, const int64_t *at)
{
    for (uint8_t d = 0; d < b->rank; d++) {
        if (at[d] < b->lo[d] || at[d] >= b->hi[d]) {
            return false;
        }
    }
    return true;
}

/* Advances @at to the next index of the box. Returns false after the last index. */
static bool next(const struct hsp_box *b, int64_t *at)
{
    for (int d = (int)b->rank - 1; d >= 0; d--) {
        if (++at[d] < b->hi[d]) {
            return true;
        }
        at[d] = b->lo[d];
    }
    return false;
}

static void fill(const struct device *d, const struct hsp_cell_view *v, uint32_t a, uint32_t micro)
{
    int64_t at[HSP_MAX_RANK], k = 0;
    if (hsp_box_empty(&v->box)) {
        return;
    }
    memcpy(at, v->box.lo, sizeof(at));
    do {
        ((double *)v->data)[k++] = addend(a, micro, d->t, at);
    } while (next(&v->box, at));
}

/* Returns the expected value at an index: the sum, or maximum, of the addends whose boxes contain
 * the index; 0 if there are none. Copies of one addend count once. */
static double value_at(const struct trial *t, uint32_t micro, const int64_t *at)
{
    uint32_t seen[RANKS * BOXES], n = 0;
    double v = 0;
    for (uint32_t r = 0; r < RANKS; r++) {
        for (uint32_t i = 0; i < t->n_in[r]; i++) {
            const struct hsp_held *h = &t->in[r][i];
            bool known = !inside(&h->box, at);
            for (uint32_t k = 0; !known && k < n; k++) {
                known = seen[k] == h->addend;
            }
            if (!known) {
                double x = addend(h->addend, micro, t, at);
                v = n == 0 ? x : t->from.reduce == HSP_REDUCE_MAX ? fmax(v, x) : v + x;
                seen[n++] = h->addend;
            }
        }
    }
    return v;
}

static void check(struct device *d, const struct hsp_cell_view *v, uint32_t micro)
{
    int64_t at[HSP_MAX_RANK], k = 0;
    if (hsp_box_empty(&v->box)) {
        return;
    }
    memcpy(at, v->box.lo, sizeof(at));
    do {
        assert_near(((double *)v->data)[k++], value_at(d->t, micro, at), 1e-6);
        d->checked++;
    } while (next(&v->box, at));
}

/* Allocates host memory for the first contents of a tensor, filled with 0x77. */
static struct hsp_cell_view draft(const struct hsp_cell_view *v)
{
    struct hsp_cell_view w = *v;
    size_t bytes = hsp_cell_bytes(&w.box, w.dtype);
    w.data = malloc(bytes + 1);
    assert_non_null(w.data);
    memset(w.data, 0x77, bytes + 1);
    return w;
}

/* Copies the draft @w to the tensor @v, waits for the copy, and frees the draft. */
static enum hsp_status store(struct device *d, const struct hsp_cell_view *v,
                             const struct hsp_cell_view *w, struct hsp_err *err)
{
    struct hsp_backend *b = d->backend;
    uint64_t ticket = 0;
    enum hsp_status st =
        b->copy(b, HSP_DEVQ_COMPUTE, v->data, w->data, hsp_cell_bytes(&w->box, w->dtype), err);
    if (st == HSP_OK) {
        st = b->mark(b, HSP_DEVQ_COMPUTE, &ticket, err);
    }
    if (st == HSP_OK) {
        st = b->finish(b, HSP_DEVQ_COMPUTE, ticket, err);
    }
    free(w->data);
    return st;
}

/* Runs after each instruction. After instruction 0 it writes the source, and other values to the
 * target. After instruction 1, the Reshard, it checks the target. */
static enum hsp_status traced(void *ctx, uint32_t instr, uint32_t micro, bool eval,
                              struct hsp_err *err)
{
    struct device *d = ctx;
    uint32_t rank = d->p.bind.rank;
    struct hsp_cell_view out = hsp_engine_view(d->e, BOXES, micro), w;
    (void)eval;
    if (instr == 0) {
        w = draft(&out);
        enum hsp_status st = store(d, &out, &w, err);
        for (uint32_t i = 0; i < d->t->n_in[rank] && st == HSP_OK; i++) {
            struct hsp_cell_view in = hsp_engine_view(d->e, i, micro);
            w = draft(&in);
            fill(d, &w, d->t->in[rank][i].addend, micro);
            st = store(d, &in, &w, err);
        }
        return st;
    }
    enum hsp_status st = hsp_engine_fetch(d->e, HSP_QUEUE_COMM, BOXES, micro, &w, err);
    if (st == HSP_OK) {
        check(d, &w, micro);
    }
    return st;
}

static void tensor(struct hsp_program *p, uint32_t k, const struct trial *t,
                   const struct hsp_box *box, struct hsp_arena *a)
{
    struct hsp_ptensor *x = &p->tpl.tensors[k];
    *x = (struct hsp_ptensor){.name = hsp_arena_printf(a, "t%u", k),
                              .dtype = HSP_F64,
                              .cls = HSP_CLASS_MICRO,
                              .rank = t->rank};
    int64_t bytes = 8;
    for (uint8_t d = 0; d < t->rank; d++) {
        x->sym[d] = d == 0 && t->batch ? HSP_SYM_BATCH : 1 + k * HSP_MAX_RANK + d;
        p->bind.symbol[x->sym[d]] = box->hi[d] - box->lo[d];
        bytes *= box->hi[d] - box->lo[d];
    }
    bytes = (bytes + 63) / 64 * 64;
    p->bind.tensor[k] = (struct hsp_tensor_bind){.offset = p->bind.memory_bytes,
                                                 .n_slots = 2,
                                                 .slot_bytes = bytes,
                                                 .box = *box,
                                                 .batch_dim0 = t->batch && t->rank > 0};
    p->bind.memory_bytes += 2 * bytes;
}

static void *array(struct hsp_arena *a, size_t n, size_t elem)
{
    void *p = hsp_arena_array(a, n, elem);
    assert_non_null(p);
    return p;
}

static void program(struct hsp_program *p, uint32_t rank, const struct trial *t,
                    const struct hsp_moves *m, struct hsp_arena *a)
{
    struct hsp_err err = {0};
    *p = (struct hsp_program){.tpl = {.n_symbols = SYMBOLS,
                                      .n_tensors = TENSORS,
                                      .n_instrs = 2,
                                      .n_pieces = 2,
                                      .n_reshards = 1},
                              .bind = {.rank = rank, .n_ranks = RANKS, .n_reshards = 1}};
    p->tpl.symbols = array(a, SYMBOLS, sizeof(*p->tpl.symbols));
    p->tpl.tensors = array(a, TENSORS, sizeof(*p->tpl.tensors));
    p->tpl.instrs = array(a, 2, sizeof(*p->tpl.instrs));
    p->tpl.pieces = array(a, 2, sizeof(*p->tpl.pieces));
    p->bind.symbol = array(a, SYMBOLS, sizeof(*p->bind.symbol));
    p->bind.tensor = array(a, TENSORS, sizeof(*p->bind.tensor));
    p->bind.reshard = array(a, 1, sizeof(*p->bind.reshard));
    for (int k = 0; k < SYMBOLS; k++) {
        p->tpl.symbols[k].name = "s";
    }
    p->bind.symbol[0] = 3;
    struct hsp_box none = {.rank = t->rank}; /* this rank holds no part of the tensor */
    none.hi[0] = t->batch ? 3 : 0;
    for (uint32_t i = 0; i < BOXES; i++) {
        tensor(p, i, t, i < t->n_in[rank] ? &t->in[rank][i].box : &none, a);
    }
    tensor(p, BOXES, t, t->dst[rank] ? &t->dbox[rank] : &none, a);
    p->tpl.instrs[0] = (struct hsp_instr){.kind = HSP_I_ZERO,
                                          .queue = HSP_QUEUE_COMPUTE,
                                          .n_out = 1,
                                          .origin_sym = {UINT32_MAX, UINT32_MAX}};
    p->tpl.instrs[1] = (struct hsp_instr){.kind = HSP_I_RESHARD,
                                          .queue = HSP_QUEUE_COMM,
                                          .n_in = t->n_in[rank] > 0 ? (uint8_t)t->n_in[rank] : 1,
                                          .n_out = 1,
                                          .in = {0, 1, 2},
                                          .out = {BOXES},
                                          .origin_sym = {UINT32_MAX, UINT32_MAX}};
    p->tpl.pieces[0] = (struct hsp_piece){.first = 0, .n = 1, .queue = HSP_QUEUE_COMPUTE};
    p->tpl.pieces[1] = (struct hsp_piece){.first = 1, .n = 1, .queue = HSP_QUEUE_COMM};
    assert_ok(hsp_moves_bind(m, rank, t->batch, a, &p->bind.reshard[0], &err), &err);
    /* micro-batches of 3 and 2 */
    p->bind.pipeline = (struct hsp_pipeline_bind){.n_seq = 5, .n_micro = 2};
    p->bind.data = (struct hsp_data_bind){.global_batch = 5, .sequence = SEQ, .vocab = 256};
    for (int q = 0; q < 2; q++) {
        p->bind.train.n[q] = 2;
        p->bind.train.e[q] = array(a, 2, sizeof(*p->bind.train.e[q]));
        for (uint32_t k = 0; k < 2; k++) {
            p->bind.train.e[q][k] = (struct hsp_sched_entry){
                .piece = (uint32_t)q, .micro = k, .wait = q == HSP_QUEUE_COMM ? k + 1 : 0};
        }
    }
    assert_ok(hsp_program_check(p, &err), &err);
}

static void *run(void *arg)
{
    struct device *d = arg;
    struct hsp_step_result r;
    d->st = hsp_engine_step(d->e, 0, &r, &d->err);
    return NULL;
}

static struct hsp_box random_box(const struct trial *t, uint64_t *n)
{
    struct hsp_box b = {.rank = t->rank};
    for (uint8_t d = 0; d < t->rank; d++) {
        b.hi[d] = t->ext[d];
        if (d == 0 && t->batch) {
            continue;
        }
        if (hsp_test_rand("cut", (*n)++) % 2) {
            b.lo[d] = hsp_test_range("lo", (*n)++, 0, t->ext[d]);
            b.hi[d] = hsp_test_range("hi", (*n)++, b.lo[d], t->ext[d]);
        }
    }
    return b;
}

static void random_trial(struct trial *t, uint64_t *n)
{
    *t = (struct trial){.rank = (uint8_t)hsp_test_range("rank", (*n)++, 1, 3)};
    t->batch = t->rank > 1 && hsp_test_rand("batch", (*n)++) % 2;
    for (uint8_t d = 0; d < t->rank; d++) {
        t->ext[d] = d == 0 && t->batch ? 3 : hsp_test_range("ext", (*n)++, 1, 7);
    }
    uint32_t addends = (uint32_t)hsp_test_range("addends", (*n)++, 1, 3);
    uint32_t boxes = hsp_test_rand("boxes", (*n)++) % 2 == 0 ? 1 : BOXES;
    hsp_cover_init(&t->from, t->rank, t->ext);
    hsp_cover_init(&t->to, t->rank, t->ext);
    for (uint32_t r = 0; r < RANKS; r++) {
        bool src = hsp_test_rand("src", (*n)++) % 4 != 0;
        int64_t k = src ? hsp_test_range("n", (*n)++, 1, boxes) : 0;
        for (; k > 0; k--) {
            uint32_t a = (uint32_t)hsp_test_range("addend", (*n)++, 0, addends - 1);
            struct hsp_box b = random_box(t, n);
            assert_int_equal(hsp_cover_add(&t->from, r, a, &b), HSP_OK);
        }
        t->dst[r] = hsp_test_rand("dst", (*n)++) % 4 != 0;
        t->dbox[r] = random_box(t, n);
        if (t->dst[r]) {
            assert_int_equal(hsp_cover_add(&t->to, r, 0, &t->dbox[r]), HSP_OK);
        }
    }
    hsp_cover_normalise(&t->from);
    hsp_cover_normalise(&t->to);
    t->from.reduce = hsp_test_rand("max", (*n)++) % 3 == 0 ? HSP_REDUCE_MAX : HSP_REDUCE_SUM;
    for (uint32_t i = 0; i < t->from.n; i++) {
        const struct hsp_held *h = &t->from.items[i];
        t->in[h->rank][t->n_in[h->rank]++] = *h;
    }
}

struct tally {
    uint32_t kind[HSP_MOVE_REDUCE_SEND + 1], max[HSP_MOVE_REDUCE_SEND + 1];
    uint32_t zeroed, summed, refused; /* summed: moves in which a rank sums its inputs */
    struct hsp_devcomm_tally direct;
};

/* The machine that runs the moves: a CPU; a device with the host's transport; a device that also
 * has a transport of its own. */
enum machine { CPU, STAGED, DIRECT };

static void count_moves(const struct hsp_reshard_bind *b, struct tally *y)
{
    y->zeroed += b->zero_first;
    for (uint32_t k = 0; k < b->n_moves; k++) {
        y->kind[b->moves[k].kind]++;
        y->max[b->moves[k].kind] += b->moves[k].reduce == HSP_REDUCE_MAX;
        y->summed += b->moves[k].src == HSP_MOVE_SUM;
    }
}

static void open_backend(struct device *d, enum machine on)
{
    static uint64_t n;
    struct hsp_err err = {0};
    struct hsp_mockdev_opts g = {.seed = hsp_test_rand("mockdev", n),
                                 .max_delay_us = n % 8 == 0 ? 200 : 0};
    n++;
    assert_ok(on == CPU ? hsp_backend_cpu_open(1, &d->backend, &err)
                        : hsp_mockdev_open(&g, &d->backend, &err),
              &err);
}

static void open_engine(struct device *d)
{
    struct hsp_err err = {0};
    struct hsp_engine_opts o = {.program = &d->p,
                                .backend = d->backend,
                                .comm = d->comm,
                                .direct = d->direct,
                                .dataset = d->text,
                                .hooks = {.ctx = d, .traced = traced}};
    assert_ok(hsp_engine_open(&o, &d->e, &err), &err);
}

static void close_device(struct device *d, struct tally *y)
{
    assert_ok(d->st, &d->err);
    hsp_engine_close(d->e);
    if (d->direct) {
        struct hsp_devcomm_tally t = hsp_devcomm_tally(d->direct);
        y->direct.sends += t.sends;
        y->direct.receives += t.receives;
        y->direct.collectives += t.collectives;
        y->direct.batches += t.batches;
        d->direct->ops->close(d->direct);
    }
    d->comm->ops->close(d->comm);
    d->backend->close(d->backend);
}

static void execute(struct trial *t, struct hsp_dataset *text, enum machine on, struct tally *y)
{
    struct hsp_arena *a = hsp_arena_new(1 << 22);
    struct hsp_moves m;
    uint32_t channel = 1;
    struct hsp_err err = {0};
    enum hsp_status rc = hsp_resolve(&t->from, &t->to, NULL, &channel, a, &m, &err);
    if (rc == HSP_EUNSUPPORTED) { /* a rank has several addends that cannot be told apart */
        y->refused++;
        hsp_arena_free(a);
        return;
    }
    assert_ok(rc, &err);
    struct device d[RANKS];
    struct hsp_comm *comm[RANKS], *inner[RANKS];
    assert_ok(hsp_loop_open(RANKS, comm, &err), &err);
    assert_ok(hsp_loop_open(RANKS, inner, &err), &err);
    for (uint32_t r = 0; r < RANKS; r++) {
        d[r] = (struct device){.t = t, .comm = comm[r], .text = text};
        program(&d[r].p, r, t, &m, a);
        open_backend(&d[r], on);
        /* the device's transport reaches RANKS - 1 ranks at most; moves of all ranks use the
         * host's */
        d[r].direct = on == DIRECT ? hsp_devcomm_open(inner[r], d[r].backend, RANKS - 1) : NULL;
        open_engine(&d[r]);
        count_moves(&d[r].p.bind.reshard[0], y);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(pthread_create(&d[r].thread, NULL, run, &d[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        pthread_join(d[r].thread, NULL);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        close_device(&d[r], y);
        inner[r]->ops->close(inner[r]);
    }
    hsp_arena_free(a);
}

static void reshards(enum machine on, uint32_t trials, struct tally *y)
{
    struct hsp_dataset text;
    struct hsp_err err = {0};
    uint64_t n = 0;
    assert_ok(
        hsp_dataset_synthetic(&(struct hsp_data_bind){.seed = 1, .vocab = 256}, 64, &text, &err),
        &err);
    for (uint32_t k = 0; k < trials; k++) {
        struct trial t;
        random_trial(&t, &n);
        execute(&t, &text, on, y);
        hsp_cover_fini(&t.from);
        hsp_cover_fini(&t.to);
    }
    hsp_dataset_close(&text);
    fprintf(stderr, "# copy %u, p2p %u, all-reduce %u, reduce-scatter %u, gather %u, send %u\n",
            y->kind[0], y->kind[1], y->kind[2], y->kind[3], y->kind[4], y->kind[5]);
}

static void reshards_do_what_covers_mean(void **state)
{
    (void)state;
    struct tally y = {0};
    reshards(CPU, 800, &y);
    assert_true(y.zeroed > 20 && y.summed > 20 && y.refused < 100);
    for (int k = 0; k <= HSP_MOVE_REDUCE_SEND; k++) {
        /* the trials have moves of every kind; engine_test has more gathers */
        assert_true(y.kind[k] > (k == HSP_MOVE_ALL_GATHER ? 0 : 20));
        bool adds =
            k == HSP_MOVE_ALL_REDUCE || k == HSP_MOVE_REDUCE_SCATTER || k == HSP_MOVE_REDUCE_SEND;
        assert_true(!adds || y.max[k] > 10);
    }
}

static void the_same_on_devices(void **state)
{
    (void)state;
    struct tally y = {0};
    reshards(STAGED, 800, &y);
    for (int k = 0; k <= HSP_MOVE_REDUCE_SEND; k++) {
        assert_true(y.kind[k] > (k == HSP_MOVE_ALL_GATHER ? 0 : 20));
    }
}

static void and_with_their_own_transport(void **state)
{
    (void)state;
    struct tally y = {0};
    reshards(DIRECT, 400, &y);
    assert_true(y.direct.sends > 50 && y.direct.receives == y.direct.sends);
    assert_true(y.direct.collectives > 50 && y.direct.batches > 20);
}

HSP_TEST_FILE(moves_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reshards_do_what_covers_mean),
        cmocka_unit_test(the_same_on_devices),
        cmocka_unit_test(and_with_their_own_transport),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
