/* Random Reshards, resolved by the compiler, executed by engines, judged by what they mean. */
#include "tests/lib/testlib.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "daemon/spmd/resolve.h"
#include "worker/comm/loop/loopcomm.h"
#include "worker/exec/engine.h"

enum { RANKS = 4, SEQ = 1 };

/* One tensor with a source and a target layout. */
struct trial {
    uint8_t rank;
    int64_t ext[HSP_MAX_RANK];
    bool batch; /* dim 0 is the micro-batch: whole, in two micro-batches of different size */
    uint32_t holders[RANKS], n_addend; /* addend of each rank */
    bool src[RANKS], dst[RANKS];
    struct hsp_box sbox[RANKS], dbox[RANKS];
    struct hsp_cover from, to;
};

struct device {
    const struct trial *t;
    struct hsp_program p;
    struct hsp_engine *e;
    struct hsp_comm *comm;
    struct hsp_backend *backend;
    struct hsp_dataset *text;
    pthread_t thread;
    enum hsp_status st;
    struct hsp_err err;
    uint32_t checked;
};

/* The addend's value at a global index (of the tensor's bounds) in a micro-batch. */
static double addend(uint32_t a, uint32_t micro, const struct trial *t, const int64_t *at)
{
    double x = 1000.0 * (double)(a + 1) + 100000.0 * (double)(micro + 1);
    for (uint8_t d = 0; d < t->rank; d++) {
        x = x * 7.0 + (double)at[d];
    }
    return x;
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

static void fill(const struct device *d, const struct hsp_view *v, uint32_t micro)
{
    int64_t at[HSP_MAX_RANK], k = 0;
    if (hsp_box_empty(&v->box)) {
        return;
    }
    memcpy(at, v->box.lo, sizeof(at));
    do {
        ((double *)v->data)[k++] = addend(d->t->holders[d->p.bind.rank], micro, d->t, at);
    } while (next(&v->box, at));
}

static void check(struct device *d, const struct hsp_view *v, uint32_t micro)
{
    int64_t at[HSP_MAX_RANK], k = 0;
    if (hsp_box_empty(&v->box)) {
        return;
    }
    memcpy(at, v->box.lo, sizeof(at));
    do {
        double want = 0.0;
        for (uint32_t a = 0; a < d->t->n_addend; a++) {
            bool held = false;
            for (uint32_t r = 0; r < RANKS; r++) {
                held |= d->t->src[r] && d->t->holders[r] == a && inside(&d->t->sbox[r], at);
            }
            want += held ? addend(a, micro, d->t, at) : 0.0;
        }
        assert_near(((double *)v->data)[k++], want, 1e-6);
        d->checked++;
    } while (next(&v->box, at));
}

/* Instruction 0 makes the source (and dirties the target), 1 is the Reshard. */
static enum hsp_status traced(void *ctx, uint32_t instr, uint32_t micro, bool eval,
                              struct hsp_err *err)
{
    struct device *d = ctx;
    struct hsp_view in = hsp_engine_view(d->e, 0, micro, 0),
                    out = hsp_engine_view(d->e, 1, micro, 0);
    (void)eval;
    (void)err;
    if (instr == 0) {
        size_t bytes = hsp_cell_bytes(&out.box, out.dtype);
        if (bytes > 0) { /* an empty view has no memory */
            memset(out.data, 0x77, bytes);
        }
        fill(d, &in, micro);
    } else {
        check(d, &out, micro);
    }
    return HSP_OK;
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
    *p = (struct hsp_program){
        .tpl = {.n_symbols = 9, .n_tensors = 2, .n_instrs = 2, .n_pieces = 2, .n_reshards = 1},
        .bind = {.rank = rank, .n_ranks = RANKS, .n_reshards = 1}};
    p->tpl.symbols = array(a, 9, sizeof(*p->tpl.symbols));
    p->tpl.tensors = array(a, 2, sizeof(*p->tpl.tensors));
    p->tpl.instrs = array(a, 2, sizeof(*p->tpl.instrs));
    p->tpl.pieces = array(a, 2, sizeof(*p->tpl.pieces));
    p->bind.symbol = array(a, 9, sizeof(*p->bind.symbol));
    p->bind.tensor = array(a, 2, sizeof(*p->bind.tensor));
    p->bind.reshard = array(a, 1, sizeof(*p->bind.reshard));
    for (int k = 0; k < 9; k++) {
        p->tpl.symbols[k].name = "s";
    }
    p->bind.symbol[0] = 3;
    struct hsp_box none = {.rank = t->rank}; /* nothing of it here */
    none.hi[0] = t->batch ? 3 : 0;
    tensor(p, 0, t, t->src[rank] ? &t->sbox[rank] : &none, a);
    tensor(p, 1, t, t->dst[rank] ? &t->dbox[rank] : &none, a);
    p->tpl.instrs[0] = (struct hsp_instr){.kind = HSP_I_ZERO,
                                          .queue = HSP_QUEUE_COMPUTE,
                                          .n_out = 1,
                                          .origin_sym = {UINT32_MAX, UINT32_MAX}};
    p->tpl.instrs[1] = (struct hsp_instr){.kind = HSP_I_RESHARD,
                                          .queue = HSP_QUEUE_COMM,
                                          .n_in = 1,
                                          .n_out = 1,
                                          .out = {1},
                                          .origin_sym = {UINT32_MAX, UINT32_MAX}};
    p->tpl.pieces[0] = (struct hsp_piece){.first = 0, .n = 1, .queue = HSP_QUEUE_COMPUTE};
    p->tpl.pieces[1] = (struct hsp_piece){.first = 1, .n = 1, .queue = HSP_QUEUE_COMM};
    assert_ok(hsp_moves_bind(m, rank, t->batch, a, &p->bind.reshard[0], &err), &err);
    p->bind.stream = (struct hsp_stream_bind){.n_seq = 5, .n_micro = 2}; /* 3 and 2 */
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
    t->n_addend = (uint32_t)hsp_test_range("addends", (*n)++, 1, 3);
    hsp_cover_init(&t->from, t->rank, t->ext);
    hsp_cover_init(&t->to, t->rank, t->ext);
    for (uint32_t r = 0; r < RANKS; r++) {
        t->holders[r] = (uint32_t)hsp_test_range("addend", (*n)++, 0, t->n_addend - 1);
        t->src[r] = hsp_test_rand("src", (*n)++) % 4 != 0;
        t->dst[r] = hsp_test_rand("dst", (*n)++) % 4 != 0;
        t->sbox[r] = random_box(t, n);
        t->dbox[r] = random_box(t, n);
        if (t->src[r]) {
            assert_int_equal(hsp_cover_add(&t->from, r, t->holders[r], &t->sbox[r]), HSP_OK);
        }
        if (t->dst[r]) {
            assert_int_equal(hsp_cover_add(&t->to, r, 0, &t->dbox[r]), HSP_OK);
        }
    }
    hsp_cover_normalise(&t->from);
    hsp_cover_normalise(&t->to);
}

static void execute(struct trial *t, struct hsp_dataset *text, uint32_t *kinds, uint32_t *zeroed)
{
    struct hsp_arena *a = hsp_arena_new(1 << 22);
    struct hsp_moves m;
    uint32_t channel = 1;
    struct hsp_err err = {0};
    assert_ok(hsp_resolve(&t->from, &t->to, NULL, &channel, a, &m, &err), &err);
    struct device d[RANKS];
    struct hsp_comm *comm[RANKS];
    assert_ok(hsp_loop_open(RANKS, comm, &err), &err);
    for (uint32_t r = 0; r < RANKS; r++) {
        d[r] = (struct device){.t = t, .comm = comm[r], .text = text};
        program(&d[r].p, r, t, &m, a);
        assert_ok(hsp_backend_cpu_open(1, &d[r].backend, &err), &err);
        struct hsp_engine_opts o = {.program = &d[r].p,
                                    .backend = d[r].backend,
                                    .comm = comm[r],
                                    .dataset = text,
                                    .hooks = {.ctx = &d[r], .traced = traced}};
        assert_ok(hsp_engine_open(&o, &d[r].e, &err), &err);
        const struct hsp_reshard_bind *b = &d[r].p.bind.reshard[0];
        *zeroed += b->zero_first;
        for (uint32_t k = 0; k < b->n_moves; k++) {
            kinds[b->moves[k].kind]++;
        }
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(pthread_create(&d[r].thread, NULL, run, &d[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        pthread_join(d[r].thread, NULL);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_ok(d[r].st, &d[r].err);
        hsp_engine_close(d[r].e);
        comm[r]->ops->close(comm[r]);
        d[r].backend->close(d[r].backend);
    }
    hsp_arena_free(a);
}

static void reshards_do_what_covers_mean(void **state)
{
    (void)state;
    struct hsp_dataset text;
    struct hsp_err err = {0};
    uint32_t kinds[HSP_MOVE_REDUCE_SEND + 1] = {0}, zeroed = 0;
    uint64_t n = 0;
    assert_ok(
        hsp_dataset_synthetic(&(struct hsp_data_bind){.seed = 1, .vocab = 256}, 64, &text, &err),
        &err);
    for (int k = 0; k < 400; k++) {
        struct trial t;
        random_trial(&t, &n);
        execute(&t, &text, kinds, &zeroed);
        hsp_cover_fini(&t.from);
        hsp_cover_fini(&t.to);
    }
    hsp_dataset_close(&text);
    fprintf(stderr, "# copy %u, p2p %u, all-reduce %u, reduce-scatter %u, gather %u, send %u\n",
            kinds[0], kinds[1], kinds[2], kinds[3], kinds[4], kinds[5]);
    assert_true(zeroed > 20);
    for (int k = 0; k <= HSP_MOVE_REDUCE_SEND; k++) {
        /* every kind was met; more gathers in engine_test */
        assert_true(kinds[k] > (k == HSP_MOVE_ALL_GATHER ? 0 : 20));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reshards_do_what_covers_mean)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
