#include "worker/probe/probe_device.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "proto/base/size.h"
#include "worker/probe/probe_fill.h"
#include "worker/probe/probe_gemm.h"

#define LEAST_BYTES ((size_t)1 << 20)
#define N_SIZES     3
#define SMALLEST    64   /* and its next two fit into the least array */
#define MOST_SIZES  7    /* 4096 */
#define LONG_S      1e-3 /* eight times as long is the next one */
/* work between two events of the device; the events themselves take a few microseconds */
#define BATCH_S 2e-3
/* Products of a type before they are measured: power limits act within tenths of a second. */
#define WARM_S       0.3
#define BUDGET_S     0.05 /* of a size of products */
#define SHAPE_S      0.02 /* products of another shape; for attention forward and backward */
#define COPY_S       0.01 /* of a way between two devices */
#define MEMORY_S     0.08 /* of memory, and each way of the host's link */
#define MOST_CALLS   1000 /* in a batch */
#define MIN_BATCHES  3
#define MOST_BATCHES 256
#define TINY_OPS     500

struct bench {
    struct hsp_backend *b;
    uint8_t *mem[3]; /* the device's; bytes each */
    void *host;      /* pinned */
    size_t bytes;
};

void hsp_probe_fit(const double *flops, const double *seconds, uint32_t n, double *ret_rate,
                   double *ret_fixed_s)
{
    /* sum of ((fixed + f x) / t - 1)^2 over (f, t): two linear equations in fixed and x = 1 /
     * rate */
    double a = 0, b = 0, c = 0, u = 0, v = 0;
    for (uint32_t i = 0; i < n; i++) {
        double p = 1 / seconds[i], q = flops[i] / seconds[i];
        a += p * p;
        b += p * q;
        c += q * q;
        u += p;
        v += q;
    }
    double det = a * c - b * b;
    double fixed = det > 1e-9 * a * c ? (u * c - v * b) / det : 0;
    double x = det > 1e-9 * a * c ? (v * a - u * b) / det : v / c;
    if (!(fixed > 0)) { /* larger ones are slower: no fixed part that a line would find */
        fixed = 0;
        x = v / c;
    } else if (!(x > 0)) { /* all take the same time: the largest gives a lower bound */
        x = seconds[n - 1] / flops[n - 1];
        fixed = 0;
    }
    *ret_rate = 1 / x;
    *ret_fixed_s = fixed;
}

/* ---- time on the device ---- */

static double clock_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* exists on Linux */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef enum hsp_status (*give)(const struct bench *x, const void *what, struct hsp_err *err);

static enum hsp_status batch(const struct bench *x, give f, const void *what, unsigned n,
                             double *ret_s, struct hsp_err *err)
{
    struct hsp_backend *b = x->b;
    uint64_t from = 0, to = 0;
    enum hsp_status st = b->mark(b, HSP_DEVQ_COMPUTE, &from, err);
    for (unsigned k = 0; st == HSP_OK && k < n; k++) {
        st = f(x, what, err);
    }
    if (st == HSP_OK) {
        st = b->mark(b, HSP_DEVQ_COMPUTE, &to, err);
    }
    if (st == HSP_OK) {
        st = b->finish(b, HSP_DEVQ_COMPUTE, to, err);
    }
    return st == HSP_OK ? b->seconds(b, HSP_DEVQ_COMPUTE, from, to, ret_s, err) : st;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Measures the seconds of one call in each of the batches that fit into @budget_s, and sorts them
 * in ascending order. */
static enum hsp_status batches(const struct bench *x, give f, const void *what, double budget_s,
                               double ret[MOST_BATCHES], unsigned *ret_n, struct hsp_err *err)
{
    double s = 0, end = clock_s() + budget_s;
    enum hsp_status st = batch(x, f, what, 1, &s, err); /* chooses kernels, wakes the clocks */
    if (st == HSP_OK) {
        st = batch(x, f, what, 1, &s, err);
    }
    double calls = s > 0 ? BATCH_S / s : MOST_CALLS;
    unsigned n = calls >= MOST_CALLS ? MOST_CALLS : calls < 1 ? 1 : (unsigned)calls, k = 0;
    for (; st == HSP_OK && k < MOST_BATCHES && (k < MIN_BATCHES || clock_s() < end); k++) {
        st = batch(x, f, what, n, &s, err);
        ret[k] = s / n > 1e-9 ? s / n : 1e-9;
    }
    qsort(ret, k, sizeof *ret, by_value);
    *ret_n = k;
    return st;
}

/* Returns the shortest batch: other load can only lengthen one. */
static enum hsp_status fastest(const struct bench *x, give f, const void *what, double budget_s,
                               double *ret_s, struct hsp_err *err)
{
    double s[MOST_BATCHES];
    unsigned n = 0;
    enum hsp_status st = batches(x, f, what, budget_s, s, &n, err);
    *ret_s = st == HSP_OK ? s[0] : 1;
    return st;
}

/* Returns the median batch: the shortest products run before the clock goes down. */
static enum hsp_status median(const struct bench *x, give f, const void *what, double budget_s,
                              double *ret_s, struct hsp_err *err)
{
    double s[MOST_BATCHES];
    unsigned n = 0;
    enum hsp_status st = batches(x, f, what, budget_s, s, &n, err);
    *ret_s = st == HSP_OK ? s[n / 2] : 1;
    return st;
}

/* ---- numbers ---- */

/* Fills the operands, which are the first two arrays, with different numbers. */
static enum hsp_status fill(const struct bench *x, enum hsp_dtype t, struct hsp_err *err)
{
    struct hsp_backend *b = x->b;
    uint64_t ticket = 0;
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < 2 && st == HSP_OK; k++) {
        hsp_probe_numbers(t, k, x->host, x->bytes);
        st = b->copy(b, HSP_DEVQ_COMPUTE, x->mem[k], x->host, x->bytes, err);
        st = st == HSP_OK ? b->mark(b, HSP_DEVQ_COMPUTE, &ticket, err) : st;
        st = st == HSP_OK ? b->finish(b, HSP_DEVQ_COMPUTE, ticket, err) : st;
    }
    return st;
}

/* ---- figures ---- */

struct one_add { /* points into itself */
    struct hsp_array in[2], out;
    struct hsp_attrs at;
    struct hsp_call c;
};

static enum hsp_status give_add(const struct bench *x, const void *what, struct hsp_err *err)
{
    const struct one_add *o = what;
    return x->b->run(x->b, HSP_DEVQ_COMPUTE, &o->c, err);
}

static enum hsp_status give_shape(const struct bench *x, const void *what, struct hsp_err *err)
{
    const struct hsp_shape *o = what;
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; st == HSP_OK && k < o->n; k++) {
        st = x->b->run(x->b, HSP_DEVQ_COMPUTE, &o->call[k].c, err);
    }
    return st;
}

/* Measures the other shape classes, with as many operations as an even product of side @n. */
static enum hsp_status shapes(const struct bench *x, enum hsp_dtype t, bool tf32, int64_t n,
                              double rate, double fixed_s, double ret[HSP_N_GEMM_CLASSES],
                              struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    ret[HSP_GEMM_EVEN] = 1;
    for (int c = HSP_GEMM_EVEN + 1; st == HSP_OK && c < HSP_N_GEMM_CLASSES; c++) {
        struct hsp_shape o;
        double s = 0;
        hsp_shape_make((enum hsp_gemm_class)c, t, tf32, n, x->mem, x->bytes, &o);
        st = median(x, give_shape, &o, SHAPE_S, &s, err);
        ret[c] = hsp_shape_part(&o, s, fixed_s, rate);
    }
    return st;
}

/* Each size is twice the one before, up to one that takes long or the largest that fits into an
 * array: the side of the largest. */
static enum hsp_status largest_side(const struct bench *x, enum hsp_dtype t, bool tf32,
                                    int64_t *ret, struct hsp_err *err)
{
    double s = 0;
    int64_t n = SMALLEST;
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; st == HSP_OK && k < MOST_SIZES; n *= 2, k++) {
        bool fits = (size_t)(n * n) * hsp_dtype_size(t) <= x->bytes;
        if (k >= N_SIZES && (!fits || s > LONG_S)) {
            break;
        }
        struct hsp_shape o;
        hsp_shape_make(HSP_GEMM_EVEN, t, tf32, n, x->mem, x->bytes, &o);
        st = fastest(x, give_shape, &o, 0, &s, err);
    }
    *ret = n / 2;
    return st;
}

/* Only the largest three sizes count. Before that the device is kept busy with the largest size,
 * until its clock has come down to the clock that its power limit allows. */
static enum hsp_status products(const struct bench *x, enum hsp_dtype t, bool tf32,
                                double *ret_rate, double *ret_fixed_s,
                                double ret_part[HSP_N_GEMM_CLASSES], struct hsp_err *err)
{
    double flops[N_SIZES], seconds[N_SIZES], s = 0;
    int64_t n = 0;
    enum hsp_status st = fill(x, t, err);
    st = st == HSP_OK ? largest_side(x, t, tf32, &n, err) : st;
    for (int k = N_SIZES; st == HSP_OK && k >= 0; k--) { /* the first time only to warm up */
        struct hsp_shape o;
        int i = k < N_SIZES ? k : N_SIZES - 1;
        hsp_shape_make(HSP_GEMM_EVEN, t, tf32, n >> (N_SIZES - 1 - i), x->mem, x->bytes, &o);
        st = median(x, give_shape, &o, k < N_SIZES ? BUDGET_S : WARM_S, &s, err);
        seconds[i] = s;
        flops[i] = o.flops;
    }
    if (st != HSP_OK) {
        return st;
    }
    hsp_probe_fit(flops, seconds, N_SIZES, ret_rate, ret_fixed_s);
    return shapes(x, t, tf32, n, *ret_rate, *ret_fixed_s, ret_part, err);
}

static void finish_add(struct one_add *o)
{
    o->c = (struct hsp_call){
        .op = HSP_OP_ADD, .at = &o->at, .n_in = 2, .n_out = 1, .in = o->in, .out = &o->out};
}

static enum hsp_status memory(const struct bench *x, double *ret, struct hsp_err *err)
{
    int64_t n = (int64_t)(x->bytes / sizeof(float));
    double s = 0;
    struct one_add o = {.in = {{.data = x->mem[0], .dtype = HSP_F32, .rank = 1, .ext = {n}},
                               {.data = x->mem[1], .dtype = HSP_F32, .rank = 1, .ext = {n}}},
                        .out = {.data = x->mem[2], .dtype = HSP_F32, .rank = 1, .ext = {n}}};
    finish_add(&o);
    enum hsp_status st = fastest(x, give_add, &o, MEMORY_S, &s, err);
    *ret = 3.0 * (double)n * sizeof(float) / s;
    return st;
}

/* Measures the time to issue and start an instruction, with an addition so small that its
 * arithmetic takes no time. */
static enum hsp_status tiny(const struct bench *x, double *ret_us, struct hsp_err *err)
{
    double best = 1e30, s = 0;
    enum hsp_status st = HSP_OK;
    struct one_add o = {.in = {{.data = x->mem[0], .dtype = HSP_F32, .rank = 1, .ext = {32}},
                               {.data = x->mem[1], .dtype = HSP_F32, .rank = 1, .ext = {32}}},
                        .out = {.data = x->mem[2], .dtype = HSP_F32, .rank = 1, .ext = {32}}};
    finish_add(&o);
    for (unsigned k = 0; st == HSP_OK && k < 1 + MIN_BATCHES; k++) {
        st = batch(x, give_add, &o, TINY_OPS, &s, err);
        best = s < best ? s : best;
    }
    *ret_us = 1e6 * best / TINY_OPS;
    return st;
}

struct one_copy {
    void *to;
    const void *from;
};

static enum hsp_status give_copy(const struct bench *x, const void *what, struct hsp_err *err)
{
    const struct one_copy *c = what;
    return x->b->copy(x->b, HSP_DEVQ_COMPUTE, c->to, c->from, x->bytes, err);
}

/* The slower way. */
static enum hsp_status host_link(const struct bench *x, double *ret, struct hsp_err *err)
{
    const struct one_copy way[2] = {{x->mem[0], x->host}, {x->host, x->mem[0]}};
    double worst = 0, s = 0;
    enum hsp_status st = HSP_OK;
    for (int k = 0; k < 2 && st == HSP_OK; k++) {
        st = fastest(x, give_copy, &way[k], MEMORY_S, &s, err);
        worst = s > worst ? s : worst;
    }
    *ret = (double)x->bytes / worst;
    return st;
}

/* ---- all of it ---- */

static void close_bench(struct bench *x)
{
    for (int k = 0; k < 3; k++) {
        x->b->release(x->b, HSP_MEM_DEVICE, x->mem[k]);
        x->mem[k] = NULL;
    }
    x->b->release(x->b, HSP_MEM_HOST, x->host);
    x->host = NULL;
}

/* Allocates as much memory as there is, up to the size wanted, without filling it. */
static enum hsp_status open_bench(struct bench *x, size_t most, struct hsp_err *err)
{
    enum hsp_status st = HSP_ENOMEM;
    for (x->bytes = most; st == HSP_ENOMEM && x->bytes >= LEAST_BYTES; x->bytes /= 2) {
        st = x->b->alloc(x->b, HSP_MEM_HOST, x->bytes, &x->host, err);
        for (int k = 0; k < 3 && st == HSP_OK; k++) {
            st = x->b->alloc(x->b, HSP_MEM_DEVICE, x->bytes, (void **)&x->mem[k], err);
        }
        if (st != HSP_OK) {
            close_bench(x);
        } else {
            break;
        }
    }
    return st;
}

static enum hsp_status measure(const struct bench *x, struct hsp_probe *p, struct hsp_err *err)
{
    double fixed[HSP_N_RATES] = {0};
    double *const rate[HSP_N_RATES] = {&p->gemm_fp32_flops, &p->gemm_fp64_flops,
                                       &p->gemm_tf32_flops, &p->gemm_bf16_flops};
    static const enum hsp_dtype type[HSP_N_RATES] = {HSP_F32, HSP_F64, HSP_F32, HSP_BF16};
    enum hsp_status st = HSP_OK;
    for (int r = 0; r < HSP_N_RATES && st == HSP_OK; r++) {
        bool tf32 = r == HSP_RATE_TF32;
        if (!tf32 || x->b->tf32) {
            st = products(x, type[r], tf32, rate[r], &fixed[r], p->gemm_part[r], err);
        }
    }
    st = st == HSP_OK ? fill(x, HSP_F32, err) : st;
    if (st == HSP_OK) {
        st = memory(x, &p->mem_bytes_per_s, err);
    }
    if (st == HSP_OK) {
        st = tiny(x, &p->op_us, err);
    }
    if (st == HSP_OK) {
        st = host_link(x, &p->host_bytes_per_s, err);
    }
    /* that of the kinds is about the same, filling and draining the device: the one jobs want
     * most */
    double most = 1e6 * (fixed[x->b->bf16 ? HSP_RATE_BF16 : HSP_RATE_FP32]);
    p->gemm_us = most > p->op_us ? most - p->op_us : 0;
    return st;
}

enum hsp_status hsp_probe_copy(struct hsp_backend *b, void *dst, const void *src, size_t bytes,
                               double *ret_s, struct hsp_err *err)
{
    struct bench x = {.b = b, .bytes = bytes};
    const struct one_copy c = {dst, src};
    if (b->seconds == NULL) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s measures no times", b->name);
    }
    return fastest(&x, give_copy, &c, COPY_S, ret_s, err);
}

enum hsp_status hsp_probe_backend(struct hsp_backend *b, size_t most, struct hsp_probe *ret,
                                  struct hsp_err *err)
{
    struct bench x = {.b = b};
    struct hsp_probe p = {.share = 1};
    if (b->seconds == NULL) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s measures no times", b->name);
    }
    enum hsp_status st = open_bench(&x, most, err);
    if (st == HSP_OK) {
        st = measure(&x, &p, err);
    }
    close_bench(&x);
    if (st == HSP_OK) {
        *ret = p;
    }
    return st;
}
