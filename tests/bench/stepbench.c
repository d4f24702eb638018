/* Times the parts of a training step, against the limits of this processor in the same run.
 *
 *   stepbench FILE THREADS STEPS      FILE: a program of one rank from `hspmdctl compile`
 *
 * Prints one JSON object. It has the seconds of each step after the first two. For each op it has
 * the number of calls, the time in a step (the sum of the medians of its instructions), the flops
 * and the bytes. It has the limits of the processor: flops per second of independent fused
 * multiply-adds in registers, and bytes per second of a copy larger than all caches.
 */
#include <inttypes.h> /* PRIu64 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/base/arena.h"
#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/host/file_io.h"
#include "proto/program/program_file.h"
#include "tests/bench/limits.h"
#include "worker/run/local_run.h"

#define FILE_ARENA  ((size_t)1 << 30)
#define WARM_UP     2 /* steps that are not counted */
#define MAX_STEPS   1000
#define MAX_THREADS 1024

struct bench {
    struct hsp_program_file file;
    unsigned n_steps;
    double *instr; /* [instruction][step]: seconds */
    double *step;  /* [step] */
    unsigned now;  /* running step */
    double last;   /* when the previous instruction of the compute queue ended */
};

/* Totals of one kind of work. */
struct row {
    const char *name;
    unsigned calls;
    double seconds, best, flops, bytes; /* best: sum of the fastest of each instruction */
};

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* exists on Linux */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static enum hsp_status traced(void *ctx, uint32_t instr, uint32_t micro, bool eval,
                              struct hsp_err *err)
{
    struct bench *b = ctx;
    (void)micro;
    (void)err; /* nothing here can fail */
    if (eval || b->file.programs[0].tpl.instrs[instr].queue != HSP_QUEUE_COMPUTE) {
        return HSP_OK;
    }
    double t = seconds();
    b->instr[(size_t)instr * b->n_steps + b->now] += t - b->last;
    b->last = t;
    return HSP_OK;
}

static struct hsp_engine_hooks hooks(void *ctx, uint32_t rank)
{
    (void)rank;
    return (struct hsp_engine_hooks){.ctx = ctx, .traced = traced};
}

static enum hsp_status on_step(void *ctx, uint32_t rank, const struct hsp_step_result *r,
                               struct hsp_err *err)
{
    struct bench *b = ctx;
    (void)rank;
    (void)err; /* nothing here can fail */
    b->step[b->now++] = r->seconds;
    b->last = seconds();
    return HSP_OK;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Returns the median of the counted steps, and sorts @v. */
static double median(double *v, unsigned n)
{
    qsort(v, n, sizeof(*v), by_value);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

/* Work of an op on the tensors of a program of one rank, which holds everything. */
static void work_of(const struct hsp_program *p, const struct hsp_instr *i, struct row *r)
{
    struct hsp_axes ax;
    int64_t in[HSP_MAX_IN][HSP_MAX_RANK] = {{0}}, axis[HSP_MAX_AXES];
    for (uint8_t k = 0; k < i->n_in; k++) {
        const struct hsp_box *b = &p->bind.tensor[i->in[k]].box;
        for (uint8_t d = 0; d < b->rank; d++) {
            in[k][d] = b->hi[d] - b->lo[d];
        }
    }
    uint8_t dtype[HSP_MAX_IN + HSP_MAX_OUT], wrong = 0;
    enum hsp_dtype real = HSP_F32;
    for (uint8_t k = 0; k < i->n_in + i->n_out; k++) {
        dtype[k] = p->tpl.tensors[k < i->n_in ? i->in[k] : i->out[k - i->n_in]].dtype;
    }
    uint8_t rank = p->bind.tensor[i->in[i->op == HSP_OP_BROADCAST ? 1 : 0]].box.rank;
    enum hsp_op op = (enum hsp_op)i->op;
    if (hsp_op_real(op, dtype, &real, &wrong) &&
        hsp_op_axes(op, &i->at, rank, &ax, NULL) == HSP_OK &&
        hsp_op_extents(op, &i->at, &ax, in, axis, NULL) == HSP_OK) {
        r->flops += hsp_op_flops(op, &i->at, axis, &ax);
        r->bytes += hsp_op_bytes(op, &ax, axis, real);
    }
}

static const char *name_of(const struct hsp_instr *i)
{
    switch ((enum hsp_instr_kind)i->kind) {
    case HSP_I_OP: return hsp_op_name((enum hsp_op)i->op);
    case HSP_I_ACC: return "accumulate";
    case HSP_I_ZERO: return "zero";
    case HSP_I_SEAL: return "seal";
    case HSP_I_COPY: return "copy";
    case HSP_I_LOAD: return "load";
    default: return "other";
    }
}

static bool is_product(const char *name)
{
    return strncmp(name, "linear", 6) == 0 || strncmp(name, "attention", 9) == 0;
}

static void print_rows(struct bench *b)
{
    const struct hsp_program *p = &b->file.programs[0];
    struct row row[HSP_N_OPS + 8] = {{0}};
    unsigned n = 0, counted = b->n_steps - WARM_UP;
    double all = 0, products = 0;
    for (uint32_t k = 0; k < p->tpl.n_instrs; k++) {
        const struct hsp_instr *i = &p->tpl.instrs[k];
        double t = median(b->instr + (size_t)k * b->n_steps + WARM_UP, counted);
        const char *name = name_of(i);
        unsigned at = 0;
        while (at < n && strcmp(row[at].name, name) != 0) {
            at++;
        }
        n = at == n ? n + 1 : n;
        row[at].name = name;
        row[at].calls++;
        row[at].seconds += t;
        row[at].best += b->instr[(size_t)k * b->n_steps + WARM_UP]; /* sorted now */
        all += t;
        products += is_product(name) ? t : 0;
        if (i->kind == HSP_I_OP) {
            work_of(p, i, &row[at]);
        }
    }
    printf("\"instructions_s\":%.6f,\"gemm_share\":%.4f,\"ops\":{", all, products / all);
    for (unsigned k = 0; k < n; k++) {
        printf(
            "%s\"%s\":{\"calls\":%u,\"seconds\":%.6f,\"best\":%.6f,\"flops\":%.4g,\"bytes\":%.4g}",
            k > 0 ? "," : "", row[k].name, row[k].calls, row[k].seconds, row[k].best, row[k].flops,
            row[k].bytes);
    }
    printf("}");
}

static enum hsp_status load(struct bench *b, const char *path, struct hsp_arena *a,
                            struct hsp_err *err)
{
    uint8_t *data = NULL;
    size_t len = 0;
    enum hsp_status st = hsp_file_read(path, HSP_MAX_PROGRAM_FILE_BYTES, &data, &len, err);
    if (st == HSP_OK) {
        st = hsp_program_file_decode(data, len, a, &b->file, err);
        free(data);
    }
    if (st == HSP_OK && b->file.n != 1) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "a program of %u ranks", b->file.n);
    }
    return st;
}

static enum hsp_status measure(struct bench *b, int threads, struct hsp_err *err)
{
    struct hsp_dataset dataset = {0};
    struct hsp_local *l = NULL;
    size_t n = b->file.programs[0].tpl.n_instrs;
    b->instr = calloc(n * b->n_steps, sizeof(double));
    b->step = calloc(b->n_steps, sizeof(double));
    if (!b->instr || !b->step) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no memory for the times of %u steps", b->n_steps);
    }
    enum hsp_status st = hsp_local_dataset(&b->file, &dataset, err);
    if (st != HSP_OK) {
        return st;
    }
    struct hsp_local_opts o = {.n = 1,
                               .programs = b->file.programs,
                               .dataset = &dataset,
                               .threads = threads,
                               .ctx = b,
                               .hooks = hooks,
                               .on_step = on_step};
    st = hsp_local_open(&o, &l, err);
    b->last = seconds();
    if (st == HSP_OK) {
        st = hsp_local_run(l, 0, b->n_steps, err);
    }
    hsp_local_close(l);
    hsp_dataset_close(&dataset);
    return st;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct hsp_err err = {0};
    int64_t threads = 0, steps = 0;
    if (argc != 4 || !hsp_parse_i64(argv[2], &threads) || !hsp_parse_i64(argv[3], &steps) ||
        threads < 1 || threads > MAX_THREADS || steps <= WARM_UP || steps > MAX_STEPS) {
        fprintf(stderr, "usage: stepbench FILE THREADS STEPS, steps %d to %d\n", WARM_UP + 1,
                MAX_STEPS);
        return 2;
    }
    b.n_steps = (unsigned)steps;
    struct hsp_arena *a = hsp_arena_new(FILE_ARENA);
    enum hsp_status st = a ? load(&b, argv[1], a, &err)
                           : hsp_err_set(&err, HSP_ENOMEM, 0, "no memory for a program");
    if (st == HSP_OK) {
        st = measure(&b, (int)threads, &err);
    }
    if (st != HSP_OK) {
        fprintf(stderr, "stepbench: %s\n", err.msg);
        return 1;
    }
    unsigned counted = b.n_steps - WARM_UP;
    printf("{\"threads\":%d,\"steps\":%u,", (int)threads, counted);
    print_rows(&b);
    double mid = median(b.step + WARM_UP, counted);
    printf(",\"step_s\":{\"median\":%.6f,\"min\":%.6f,\"max\":%.6f},", mid, b.step[WARM_UP],
           b.step[b.n_steps - 1]);
    printf("\"limits\":{\"flops\":%.5g,\"copy_bytes\":%.5g}}\n", hsp_limit_flops((unsigned)threads),
           hsp_limit_bytes((unsigned)threads));
    free(b.instr);
    free(b.step);
    hsp_arena_free(a);
    return 0;
}
