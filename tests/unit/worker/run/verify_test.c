/* Tests the findings of --verify: the job's templates at small extents agree with one device, and a
 * mistake put into any table of parts, in training, in validation or before the step, is found. */
#include "tests/lib/testlib.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/verify/shrink_model.h"
#include "proto/host/file_io.h"
#include "proto/program/program_check.h"
#include "proto/program/program_file.h"
#include "proto/program/template_codec.h"
#include "worker/run/run_program.h"
#include "worker/run/verify.h"
#include "worker/run/verify_bf16.h"
#include "worker/run/verify_compare.h"

#define BATCH 12
#define HEAD  "apiVersion: hspmd/v1\nkind: plan\n"

static const struct hsp_model_spec MODEL = {.family = "gpt",
                                            .layers = 2,
                                            .hidden = 128,
                                            .heads = 8,
                                            .vocab = 300,
                                            .sequence = 40,
                                            .tied_head = true,
                                            .dtype = HSP_F64};

/* Tensor parallel with uneven parts, two stages, a second pipeline, sharded state. */
static const char MIXED[] = HEAD
    "ranks: 4\nzero: 1\npipelines:\n"
    "  - {sequences: 8, micro_batches: 4, stages: [{layers: 1, ranks: [0, 1], tensor: [5, 3]}, "
    "{layers: 1, ranks: [2]}]}\n"
    "  - {sequences: 4, micro_batches: 3, stages: [{layers: 2, ranks: [3]}]}\n";
/* A stage of two after a stage of two; whole homes. */
static const char STAGES[] = HEAD
    "ranks: 4\npipelines:\n"
    "  - {sequences: 12, micro_batches: 3, stages: [{layers: 1, ranks: [0, 1], tensor: [1, 2]}, "
    "{layers: 1, ranks: [2, 3], tensor: [3, 1]}]}\n";

struct made {
    struct hsp_graph *g;
    struct hsp_arena *arena;
    struct hsp_program_file f;
};

static void make(struct made *x, const struct hsp_model_spec *m, uint32_t batch, const char *plan)
{
    struct hsp_err err = {0};
    struct hsp_plan *p;
    struct hsp_scaled_model small;
    struct hsp_train_spec t = {.hyper = {.steps = 20,
                                         .lr = 3e-3,
                                         .clip_norm = 1.0,
                                         .optimizer = HSP_OPT_ADAMW,
                                         .beta1 = 0.9,
                                         .beta2 = 0.95},
                               .data = {.seed = 5,
                                        .global_batch = batch,
                                        .sequence = (uint32_t)m->sequence,
                                        .eval_seqs = batch,
                                        .validation_every = 10,
                                        .validation_fraction = 0.1,
                                        .vocab = (uint32_t)m->vocab,
                                        .packing = m->packed ? HSP_PACKING_END : HSP_PACKING_NONE},
                               .eps = 1e-8,
                               .weight_decay = 0.1};
    *x = (struct made){.arena = hsp_arena_new((size_t)1 << 30)};
    assert_ok(hsp_graph_build(m, &x->g, &err), &err);
    assert_ok(hsp_plan_parse(plan, strlen(plan), "plan", batch, x->arena, &p, &err), &err);
    assert_ok(hsp_compile_scaled(x->g, p, &t, x->arena, &x->f, &small, &err), &err);
    for (uint32_t r = 0; r < x->f.n; r++) { /* of its own: damage in one stays in it */
        struct hsp_template *own = &x->f.programs[r].tpl;
        own->instrs = hsp_arena_memdup(x->arena, own->instrs, own->n_instrs * sizeof *own->instrs);
        assert_non_null(own->instrs);
    }
}

static void done(struct made *x)
{
    hsp_graph_free(x->g);
    hsp_arena_free(x->arena);
}

/* Writes the file and verifies it for @steps. */
static enum hsp_status verify(const struct made *x, const char *dir, uint64_t steps,
                              struct hsp_err *err)
{
    struct hsp_buf b;
    char path[300];
    struct hsp_err io = {0};
    (void)snprintf(path, sizeof path, "%s/program", dir);
    hsp_buf_init(&b, HSP_MAX_PROGRAM_FILE_BYTES);
    assert_int_equal(hsp_program_file_encode(&x->f, &b), HSP_OK);
    assert_ok(hsp_file_write(path, b.data, b.len, 0600, &io), &io);
    hsp_buf_fini(&b);
    struct hsp_run_opts o = {.file = path, .threads = 1, .steps = steps, .quiet = true};
    return hsp_verify_file(&o, err);
}

/* 24 layers of hidden 2048 with a vocabulary of 50257 and 4096 positions: seconds, and
 * megabytes. */
static void test_a_large_model(void **state)
{
    (void)state;
    struct hsp_model_spec m = MODEL;
    struct hsp_err err = {0};
    struct made x;
    struct rusage u;
    char *dir = hsp_test_tmpdir();
    m.layers = 24;
    m.hidden = 2048;
    m.heads = 16;
    m.vocab = 50257;
    m.sequence = 4096;
    m.dtype = HSP_F32;
    make(&x, &m, 256,
         HEAD
         "ranks: 5\nzero: 1\npipelines:\n"
         "  - {sequences: 180, micro_batches: 40, stages: [{layers: 14, ranks: [0, 1], tensor: "
         "[11, 5]}, {layers: 10, ranks: [2, 3], tensor: [9, 7]}]}\n"
         "  - {sequences: 76, micro_batches: 38, stages: [{layers: 24, ranks: [4]}]}\n");
    assert_ok(verify(&x, dir, 3, &err), &err);
    assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
    assert_true(u.ru_maxrss < 1024 * 1024); /* KiB; the state alone of the job is 15 GiB */
    struct hsp_run_opts o = {.threads = 1, .quiet = true};
    char path[300];
    (void)snprintf(path, sizeof path, "%s/program", dir);
    o.file = path;
    assert_status(hsp_run_file(&o, &err), HSP_EINVAL); /* nothing to train with */
    done(&x);
    hsp_test_rmdir(dir);
    free(dir);
}

static void same_box(const struct hsp_box *a, const struct hsp_box *b, bool *ret)
{
    *ret = a->rank == b->rank && memcmp(a->lo, b->lo, sizeof a->lo) == 0 &&
           memcmp(a->hi, b->hi, sizeof a->hi) == 0;
}

/* True: the output of Reshard @k of @p can be seen in the losses. Not when the rank only sends, nor
 * for the bias of keys: it adds the same to all scores of a query, and softmax takes it out
 * again. */
static bool is_seen(const struct hsp_program *p, uint32_t k)
{
    for (uint32_t i = 0; i < p->tpl.n_instrs; i++) {
        const struct hsp_instr *in = &p->tpl.instrs[i];
        if (in->kind == HSP_I_RESHARD && in->arg == k) {
            return (in->n_in == 0 || in->in[0] != in->out[0]) &&
                   strstr(p->tpl.tensors[in->out[0]].name, ".attn.k.bias") == NULL;
        }
    }
    return false;
}

/* The first cell of @r that has something and, in a dim other than the batch, at least two rows. */
static struct hsp_cell *find_cell(struct hsp_reshard_bind *r, struct hsp_move **ret_move,
                                  uint8_t *ret_dim)
{
    for (uint32_t m = 0; m < r->n_moves; m++) {
        for (uint32_t c = 0; c < r->moves[m].n_cells; c++) {
            struct hsp_cell *cell = &r->moves[m].cells[c];
            for (uint8_t d = 0; d < cell->box.rank; d++) {
                if (cell->box.hi[d] != HSP_TO_END && cell->box.hi[d] - cell->box.lo[d] >= 2) {
                    *ret_move = &r->moves[m];
                    *ret_dim = d;
                    return cell;
                }
            }
        }
    }
    return NULL;
}

/* Makes the same wrong change in the tables of all ranks that share the cell: @how 0: the last row
 * is left out; 1: a row early (where there is one before it), else as 0. So no message has a wrong
 * length: only values are wrong. */
static void harm_cell(struct hsp_program_file *f, const struct hsp_move *move,
                      const struct hsp_cell *cell, uint8_t dim, int how)
{
    struct hsp_box box = cell->box, wrong = box;
    uint32_t channel = move->channel;
    bool copy = move->kind == HSP_MOVE_COPY;
    const struct hsp_move *only = move;
    if (how == 1 && wrong.lo[dim] > 0) {
        wrong.lo[dim]--;
        wrong.hi[dim]--;
    } else {
        wrong.hi[dim]--;
    }
    for (uint32_t r = 0; r < f->n; r++) {
        struct hsp_binding *b = &f->programs[r].bind;
        for (uint32_t k = 0; k < b->n_reshards; k++) {
            for (uint32_t m = 0; m < b->reshard[k].n_moves; m++) {
                struct hsp_move *x = &b->reshard[k].moves[m];
                bool mine = copy ? x == only : x->kind != HSP_MOVE_COPY && x->channel == channel;
                for (uint32_t c = 0; mine && c < x->n_cells; c++) {
                    bool same;
                    same_box(&x->cells[c].box, &box, &same);
                    if (same) {
                        x->cells[c].box = wrong;
                    }
                }
            }
        }
    }
}

/* A wrong part in any one Reshard, of which one of @every is drawn. Some changes make a program
 * that is refused before it runs. */
static void wrong_parts(const struct hsp_model_spec *model, const char *plan, const char *what,
                        uint64_t every)
{
    struct made x;
    struct hsp_err err = {0};
    char *dir = hsp_test_tmpdir();
    uint32_t tried = 0, named = 0, number = 0;
    make(&x, model, BATCH, plan);
    assert_ok(verify(&x, dir, 3, &err), &err);
    for (uint32_t r = 0; r < x.f.n; r++) {
        uint32_t n = x.f.programs[r].bind.n_reshards;
        for (uint32_t k = 0; k < n; k++) {
            struct hsp_move *move = NULL;
            uint8_t dim = 0;
            struct made y;
            if (hsp_test_rand(what, number++) % every != 0 || !is_seen(&x.f.programs[r], k)) {
                continue;
            }
            make(&y, model, BATCH, plan);
            struct hsp_cell *cell = find_cell(&y.f.programs[r].bind.reshard[k], &move, &dim);
            if (cell) {
                harm_cell(&y.f, move, cell, dim, (int)(number % 2));
                err = (struct hsp_err){0};
                enum hsp_status st = verify(&y, dir, 3, &err);
                if (st == HSP_OK) {
                    fail_msg("a wrong part in Reshard %u of rank %u is not found, under\n%s", k, r,
                             plan);
                }
                tried++;
                named += st == HSP_EDIGEST ? 1 : 0;
            }
            done(&y);
        }
    }
    print_message("%u wrong parts, %u of them found by their values\n", tried, named);
    assert_true(tried >= 8 && named * 2 >= tried);
    done(&x);
    hsp_test_rmdir(dir);
    free(dir);
}

/* Sequences of one token: the gradient of a query is 0 in truth, and rounding noise here and
 * there. */
static void test_noise_is_no_difference(void **state)
{
    (void)state;
    struct hsp_model_spec m = MODEL;
    struct hsp_err err = {0};
    struct made x;
    char *dir = hsp_test_tmpdir();
    m.layers = 4;
    m.hidden = 24;
    m.heads = m.sequence = 6; /* the same at small extents: 1 */
    m.vocab = 256;
    m.packed = true;
    m.dtype = HSP_F32;
    make(&x, &m, 8,
         HEAD "ranks: 3\nzero: 1\npipelines:\n"
              "  - {sequences: 8, micro_batches: 3, schedule: interleaved, chunks: 2, stages: "
              "[{layers: [0, 1], ranks: [2]}, {layers: [1, 1], ranks: [1]}, {layers: [1, 0], "
              "ranks: [0]}]}\n");
    assert_ok(verify(&x, dir, 20, &err), &err);
    done(&x);
    hsp_test_rmdir(dir);
    free(dir);
}

static void test_wrong_parts(void **state)
{
    (void)state;
    wrong_parts(&MODEL, MIXED, "mixed", 9);
    wrong_parts(&MODEL, STAGES, "stages", 2);
}

/* ---- mistakes that only validation, the step's tensors without a batch, or Pre would show ---- */

static void reseal(struct hsp_program *p)
{
    assert_int_equal(hsp_template_digest(&p->tpl, &p->tpl.digest), HSP_OK);
    p->bind.template_digest = p->tpl.digest;
}

/* The instruction of rank @r with this kind (and op) whose output is called @name. */
static struct hsp_instr *find(struct made *x, uint32_t r, uint8_t kind, const char *name)
{
    struct hsp_template *t = &x->f.programs[r].tpl;
    for (uint32_t k = 0; k < t->n_instrs; k++) {
        if (t->instrs[k].kind == kind && t->instrs[k].n_out > 0 &&
            strcmp(t->tensors[t->instrs[k].out[0]].name, name) == 0) {
            return &t->instrs[k];
        }
    }
    fail_msg("no %s", name);
    return NULL;
}

static void found(struct made *x, const char *dir, uint32_t r, const char *what)
{
    struct hsp_err err = {0};
    reseal(&x->f.programs[r]);
    assert_status(verify(x, dir, 3, &err), HSP_EDIGEST);
    if (!strstr(err.msg, what)) {
        fail_msg("\"%s\" does not say \"%s\"", err.msg, what);
    }
    done(x);
}

/* Gradients of a tied table are added inside of the tensor group for each micro-batch, and over the
 * groups after the last. */
static void test_sums_in_two_steps(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct made x;
    char *dir = hsp_test_tmpdir();
    make(&x, &MODEL, BATCH,
         HEAD
         "ranks: 3\npipelines:\n"
         "  - {sequences: 12, micro_batches: 3, stages: [{layers: 2, split: sequence, shares: [2, "
         "3], "
         "groups: [{ranks: [0, 1], tensor: [1, 2]}, {ranks: [2]}], sequence_parallel: true}]}\n");
    assert_ok(verify(&x, dir, 3, &err), &err);
    struct hsp_instr *i =
        find(&x, 2, HSP_I_OP, "h.0.ln_2.weight.grad"); /* of which others are not left out */
    uint32_t t = i->in[2];
    i->in[2] = i->in[3];
    i->in[3] = t;
    found(&x, dir, 2, "gradient of h.0.ln_2.weight");
    hsp_test_rmdir(dir);
    free(dir);
}

static void test_each_kind_of_value(void **state)
{
    (void)state;
    struct made x;
    char *dir = hsp_test_tmpdir();
    make(&x, &MODEL, BATCH, MIXED); /* Eval alone */
    find(&x, 2, HSP_I_OP, "h.1.ln_1#eval")->at.f[0] = 0.3;
    found(&x, dir, 2, "rank 2: layernorm h.1.ln_1#eval");
    make(&x, &MODEL, BATCH, MIXED); /* a bias gradient of a micro-batch: no batch dim */
    struct hsp_instr *i = find(&x, 3, HSP_I_OP, "h.0.ln_2.weight.grad");
    uint32_t t = i->in[2];
    i->in[2] = i->in[3]; /* the reciprocal deviation in place of the mean */
    i->in[3] = t;
    found(&x, dir, 3, "rank 3: layernorm_dw h.0.ln_2.weight.grad");
    make(&x, &MODEL, BATCH, MIXED); /* an accumulator that takes the wrong gradient */
    i = find(&x, 2, HSP_I_ACC, "ln_f.weight#acc");
    i->in[0] = find(&x, 2, HSP_I_ACC, "ln_f.bias#acc")->in[0];
    found(&x, dir, 2, "rank 2: sum over micro-batches ln_f.weight#acc");
    make(&x, &MODEL, BATCH, MIXED); /* two gathered parameters take each other's place */
    struct hsp_instr *a = find(&x, 1, HSP_I_RESHARD, "h.0.attn.q.weight#use");
    struct hsp_instr *b = find(&x, 1, HSP_I_RESHARD, "h.0.attn.k.weight#use");
    t = a->out[0];
    a->out[0] = b->out[0];
    b->out[0] = t;
    found(&x, dir, 1, "rank 1: reshard h.0.attn.");
    make(&x, &MODEL, BATCH, MIXED); /* the loss of the validation is counted as training's */
    struct hsp_template *tpl = &x.f.programs[2].tpl;
    for (uint32_t k = 0; k < tpl->n_instrs; k++) {
        if (tpl->instrs[k].kind == HSP_I_STAT && tpl->instrs[k].arg == HSP_STAT_EVAL_TOKENS) {
            tpl->instrs[k].arg = HSP_STAT_EVAL_LOSS;
        }
    }
    found(&x, dir, 2, "vote:");
    hsp_test_rmdir(dir);
    free(dir);
}

/* Of bf16 programs mistakes of any size are found: they are compared in fp32, too. */
static void test_bf16(void **state)
{
    (void)state;
    struct hsp_model_spec m = MODEL;
    struct hsp_err err = {0};
    struct made x;
    char *dir = hsp_test_tmpdir();
    m.dtype = HSP_F32;
    m.compute = HSP_COMPUTE_BF16;
    wrong_parts(&m, MIXED, "low", 11);
    wrong_parts(&m, STAGES, "low stages", 5);
    make(&x, &m, BATCH, MIXED); /* in bf16 itself: kept as it is, a parameter is another's */
    struct hsp_instr *a = find(&x, 1, HSP_I_OP, "h.0.attn.q.weight#copy");
    struct hsp_instr *b = find(&x, 1, HSP_I_OP, "h.0.attn.k.weight#copy");
    uint32_t t = a->in[0];
    a->in[0] = b->in[0];
    b->in[0] = t;
    found(&x, dir, 1, "step 0, rank 1: narrow h.0.attn.");
    make(&x, &m, BATCH, MIXED);
    int64_t first = x.f.programs[0].bind.memory_bytes;
    hsp_program_widen(&x.f.programs[0]);
    assert_false(hsp_program_low(&x.f.programs[0]));
    assert_int_equal(x.f.programs[0].bind.memory_bytes, 2 * first);
    assert_ok(hsp_program_check(&x.f.programs[0], &err), &err);
    done(&x);
    hsp_test_rmdir(dir);
    free(dir);
}

/* Numbers of the vote: a value that is no number on one side only differs. */
static void test_numbers(void **state)
{
    (void)state;
    const double nan = (double)NAN, inf = (double)INFINITY;
    assert_true(hsp_verify_distance(1.0 + 1e-9, 1.0, 1e-8) < 1);
    assert_true(hsp_verify_distance(1.0 + 1e-7, 1.0, 1e-8) > 1);
    assert_true(hsp_verify_distance(7, 7, 0) < 1 && hsp_verify_distance(8, 7, 0) > 1);
    assert_true(hsp_verify_distance(0, 0, 1e-8) < 1);
    assert_true(hsp_verify_distance(nan, nan, 1e-8) < 1 && hsp_verify_distance(inf, inf, 1e-8) < 1);
    const double odd[][2] = {{nan, 1}, {1, nan}, {inf, 1}, {1, inf}, {inf, -inf}, {nan, inf}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        assert_true(hsp_verify_distance(odd[i][0], odd[i][1], 1e-8) > 1);
        assert_true(hsp_verify_distance(odd[i][0], odd[i][1], 0) > 1);
    }
}

HSP_TEST_FILE(verify_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_large_model),
        cmocka_unit_test(test_each_kind_of_value),
        cmocka_unit_test(test_noise_is_no_difference),
        cmocka_unit_test(test_sums_in_two_steps),
        cmocka_unit_test(test_wrong_parts),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_numbers),
    };
    (void)alarm(300); /* a wrong table may leave ranks waiting for each other */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
