/* Times attention and matrix products of the CUDA backend on GPU 0, in the words of torch_speed.py,
 * so that the two can be compared.
 *
 *   op_speed SHAPES          (tests/gpu/shapes.txt)
 *
 * Prints one line for each measurement:
 *   attention gpt2-s1024 forward hspmd 412.3 us 125.0 TFLOP/s
 *   product gpt2-head dw hspmd refused: out of memory: 3296722944 bytes
 * Operands are random bf16, since a GPU multiplies zeros faster than numbers. A time is the
 * device's own: the shortest mean of ROUNDS rounds of CALLS calls. Causal attention counts the
 * pairs of a query and a key that it needs.
 * Exit status: 0 every shape has its lines, 1 the device failed, 2 wrong arguments or shapes, 77
 * there is no GPU. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/rng.h"
#include "proto/base/size.h"
#include "worker/backend/plugin.h"

#define ROUNDS 5
#define CALLS  10
#define MAX_SHAPE \
    0x1p46 /* extents multiplied: no operand is larger, and its bytes can be counted */
#define RANDOM_COUNT ((size_t)1 << 22) /* bf16 that the host draws; longer operands repeat them */
#define LINE_BYTES   256

enum { MAX_BLOCKS = 9 };

/* One GPU, and the memory of the shape that is being timed. */
struct bench {
    struct hsp_backend *backend;
    uint16_t *random; /* RANDOM_COUNT of them, in HSP_MEM_HOST */
    void *block[MAX_BLOCKS];
    int n_blocks;
};

static enum hsp_status wait_for_queue(struct bench *b, struct hsp_err *err)
{
    uint64_t t;
    enum hsp_status st = b->backend->mark(b->backend, HSP_DEVQ_COMPUTE, &t, err);
    return st == HSP_OK ? b->backend->finish(b->backend, HSP_DEVQ_COMPUTE, t, err) : st;
}

static enum hsp_status take(struct bench *b, size_t bytes, void **ret, struct hsp_err *err)
{
    enum hsp_status st = b->backend->alloc(b->backend, HSP_MEM_DEVICE, bytes, ret, err);
    if (st == HSP_OK) {
        b->block[b->n_blocks++] = *ret;
    }
    return st;
}

static void give_back(struct bench *b)
{
    while (b->n_blocks > 0) {
        b->backend->release(b->backend, HSP_MEM_DEVICE, b->block[--b->n_blocks]);
    }
}

/* @n random bf16 on the device: those of the host, then repetitions of the numbers there. */
static enum hsp_status take_random(struct bench *b, int64_t n, void **ret, struct hsp_err *err)
{
    const size_t bytes = (size_t)n * sizeof(uint16_t);
    size_t done = bytes < RANDOM_COUNT * sizeof(uint16_t) ? bytes : RANDOM_COUNT * sizeof(uint16_t);
    enum hsp_status st = take(b, bytes, ret, err);
    if (st == HSP_OK) {
        st = b->backend->copy(b->backend, HSP_DEVQ_COMPUTE, *ret, b->random, done, err);
    }
    while (st == HSP_OK && done < bytes) {
        size_t more = bytes - done < done ? bytes - done : done;
        st = b->backend->copy(b->backend, HSP_DEVQ_COMPUTE, (char *)*ret + done, *ret, more, err);
        done += more;
    }
    return st == HSP_OK ? wait_for_queue(b, err) : st;
}

/* Uniform in [-1, 1), cut to bf16. */
static enum hsp_status draw(struct bench *b, struct hsp_err *err)
{
    void *p = NULL;
    enum hsp_status st =
        b->backend->alloc(b->backend, HSP_MEM_HOST, RANDOM_COUNT * sizeof(uint16_t), &p, err);
    b->random = p;
    for (size_t i = 0; st == HSP_OK && i < RANDOM_COUNT; i++) {
        float f = (float)(0x1p-52 * (double)(hsp_rng_u64(1, 1, 0, i) >> 11) - 1);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        b->random[i] = (uint16_t)(bits >> 16);
    }
    return st;
}

/* Seconds of one call. */
static enum hsp_status fastest(struct bench *b, const struct hsp_call *c, double *ret,
                               struct hsp_err *err)
{
    struct hsp_backend *d = b->backend;
    double best = INFINITY;
    for (int round = 0; round <= ROUNDS; round++) { /* round 0: warm-up */
        uint64_t from, to;
        double s = 0;
        enum hsp_status st = d->mark(d, HSP_DEVQ_COMPUTE, &from, err);
        for (int i = 0; st == HSP_OK && i < CALLS; i++) {
            st = d->run(d, HSP_DEVQ_COMPUTE, c, err);
        }
        if (st == HSP_OK) {
            st = d->mark(d, HSP_DEVQ_COMPUTE, &to, err);
        }
        if (st == HSP_OK) {
            st = d->finish(d, HSP_DEVQ_COMPUTE, to, err);
        }
        if (st == HSP_OK) {
            st = d->seconds(d, HSP_DEVQ_COMPUTE, from, to, &s, err);
        }
        if (st != HSP_OK) {
            return st;
        }
        best = round > 0 && s / CALLS < best ? s / CALLS : best;
    }
    *ret = best;
    return HSP_OK;
}

/* One line of the output; a case for which the device has no memory or no kernel is refused, other
 * failures are returned. */
static enum hsp_status report(const char *kind, const char *name, const char *part,
                              enum hsp_status st, double seconds, double flop, struct hsp_err *err)
{
    (void)printf("%s %s %s hspmd ", kind, name, part);
    if (st == HSP_OK) {
        (void)printf("%.1f us %.1f TFLOP/s\n", 1e6 * seconds, flop / seconds * 1e-12);
    } else {
        (void)printf("refused: %s\n", err->msg);
    }
    (void)fflush(stdout);
    return st == HSP_ENOMEM || st == HSP_EUNSUPPORTED ? HSP_OK : st;
}

static enum hsp_status time_call(struct bench *b, const char *kind, const char *name,
                                 const char *part, const struct hsp_call *c, double flop,
                                 struct hsp_err *err)
{
    double s = 0;
    enum hsp_status st = fastest(b, c, &s, err);
    return report(kind, name, part, st, s, flop, err);
}

static struct hsp_array rows(void *data, enum hsp_dtype t, int64_t batch, int64_t n, int64_t width)
{
    return (struct hsp_array){.data = data, .dtype = t, .rank = 3, .ext = {batch, n, width}};
}

static enum hsp_status attention(struct bench *b, const char *name, const int64_t e[5],
                                 struct hsp_err *err)
{
    const int64_t batch = e[0], s = e[1], heads = e[2], key_heads = e[3], d = e[4];
    const int64_t n_q = batch * s * heads * d, n_k = batch * s * key_heads * d;
    void *q, *k, *v, *o, *lse, *go, *dq, *dk, *dv; /* go: the gradient of o */
    enum hsp_status st;
    if ((st = take_random(b, n_q, &q, err)) != HSP_OK ||
        (st = take_random(b, n_k, &k, err)) != HSP_OK ||
        (st = take_random(b, n_k, &v, err)) != HSP_OK ||
        (st = take_random(b, n_q, &go, err)) != HSP_OK ||
        (st = take(b, (size_t)n_q * 2, &o, err)) != HSP_OK ||
        (st = take(b, (size_t)(batch * s * heads) * 4, &lse, err)) != HSP_OK ||
        (st = take(b, (size_t)n_q * 2, &dq, err)) != HSP_OK ||
        (st = take(b, (size_t)n_k * 2, &dk, err)) != HSP_OK ||
        (st = take(b, (size_t)n_k * 2, &dv, err)) != HSP_OK) {
        return report("attention", name, "forward", st, 0, 0, err);
    }
    const struct hsp_attrs at = {.i = {d, 1, heads / key_heads}, .f = {1 / sqrt((double)d)}};
    const struct hsp_array Q = rows(q, HSP_BF16, batch, s, heads * d),
                           K = rows(k, HSP_BF16, batch, s, key_heads * d),
                           V = rows(v, HSP_BF16, batch, s, key_heads * d),
                           O = rows(o, HSP_BF16, batch, s, heads * d),
                           LSE = rows(lse, HSP_F32, batch, s, heads);
    const struct hsp_array in[] = {Q, K, V}, out[] = {O, LSE};
    const struct hsp_array back_in[] = {rows(go, HSP_BF16, batch, s, heads * d), Q, K, V, O, LSE};
    const struct hsp_array back_out[] = {rows(dq, HSP_BF16, batch, s, heads * d),
                                         rows(dk, HSP_BF16, batch, s, key_heads * d),
                                         rows(dv, HSP_BF16, batch, s, key_heads * d)};
    const struct hsp_call forward = {
        .op = HSP_OP_ATTENTION, .at = &at, .n_in = 3, .n_out = 2, .in = in, .out = out};
    const struct hsp_call backward = {.op = HSP_OP_ATTENTION_BWD,
                                      .at = &at,
                                      .n_in = 6,
                                      .n_out = 3,
                                      .in = back_in,
                                      .out = back_out};
    /* two products of half of all pairs, 2 operations each; backward five such products */
    const double flop = 2.0 * (double)(batch * heads) * (double)s * (double)s * (double)d;
    st = time_call(b, "attention", name, "forward", &forward, flop, err);
    return st == HSP_OK ? time_call(b, "attention", name, "backward", &backward, 2.5 * flop, err)
                        : st;
}

static enum hsp_status product(struct bench *b, const char *name, const int64_t e[3],
                               struct hsp_err *err)
{
    const int64_t m = e[0], n = e[1], k = e[2];
    void *x, *w, *y, *dw;
    enum hsp_status st;
    if ((st = take_random(b, m * k, &x, err)) != HSP_OK ||
        (st = take_random(b, n * k, &w, err)) != HSP_OK ||
        (st = take_random(b, m * n, &y, err)) != HSP_OK ||
        (st = take(b, (size_t)(n * k) * 4, &dw, err)) != HSP_OK) {
        return report("product", name, "y", st, 0, 0, err);
    }
    const struct hsp_attrs at = {.i = {0}};
    const struct hsp_array X = rows(x, HSP_BF16, 1, m, k), Y = rows(y, HSP_BF16, 1, m, n),
                           W = {.data = w, .dtype = HSP_BF16, .rank = 2, .ext = {n, k}},
                           DW = {.data = dw, .dtype = HSP_F32, .rank = 2, .ext = {n, k}};
    const struct {
        const char *part;
        enum hsp_op op;
        struct hsp_array in[2], out;
    } part[] = {{"y", HSP_OP_LINEAR, {X, W}, Y},
                {"dx", HSP_OP_LINEAR_DX, {Y, W}, X},
                {"dw", HSP_OP_LINEAR_DW, {Y, X}, DW}};
    const double flop = 2.0 * (double)m * (double)n * (double)k;
    for (size_t i = 0; st == HSP_OK && i < HSP_ARRAY_LEN(part); i++) {
        const struct hsp_call c = {.op = part[i].op,
                                   .at = &at,
                                   .n_in = 2,
                                   .n_out = 1,
                                   .in = part[i].in,
                                   .out = &part[i].out};
        st = time_call(b, "product", name, part[i].part, &c, flop, err);
    }
    return st;
}

/* One line of the file of shapes. HSP_EINVAL: it is none. */
static enum hsp_status time_shape(struct bench *b, const char *line, struct hsp_err *err)
{
    char kind[16], name[32], rest;
    int64_t e[5] = {1, 1, 1, 1, 1};
    int n = sscanf(line, "%15s %31s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %c",
                   kind, name, &e[0], &e[1], &e[2], &e[3], &e[4], &rest);
    bool sound = true;
    double all = 1;
    for (int i = 0; i < 5; i++) {
        sound = sound && e[i] > 0 && (all *= (double)e[i]) <= MAX_SHAPE;
    }
    enum hsp_status st;
    if (n <= 0 || kind[0] == '#') {
        return HSP_OK;
    }
    if (sound && n == 7 && strcmp(kind, "attention") == 0 && e[2] % e[3] == 0) {
        st = attention(b, name, e, err);
    } else if (sound && n == 5 && strcmp(kind, "product") == 0) {
        st = product(b, name, e, err);
    } else {
        return hsp_err_set(err, HSP_EINVAL, 0, "neither an attention nor a product: %.60s", line);
    }
    give_back(b);
    return st;
}

static enum hsp_status time_all(struct bench *b, FILE *shapes, struct hsp_err *err)
{
    char line[LINE_BYTES];
    enum hsp_status st = draw(b, err);
    for (int i = 1; st == HSP_OK && fgets(line, sizeof line, shapes) != NULL; i++) {
        line[strcspn(line, "\n")] = '\0';
        st = time_shape(b, line, err);
        if (st == HSP_EINVAL) {
            return hsp_err_wrap(err, "line %d", i);
        }
    }
    return st;
}

int main(int argc, char **argv)
{
    struct hsp_err err = {0};
    struct bench b = {.backend = NULL};
    if (argc != 2) {
        (void)fprintf(stderr, "usage: op_speed SHAPES\n");
        return 2;
    }
    FILE *shapes = fopen(argv[1], "r");
    if (shapes == NULL) {
        (void)fprintf(stderr, "op_speed: cannot read %s: %s\n", argv[1], strerror(errno));
        return 2;
    }
    enum hsp_status st = hsp_backend_device_open(0, NULL, &b.backend, &err);
    bool opened = st == HSP_OK;
    if (opened) {
        st = time_all(&b, shapes, &err);
        give_back(&b);
        b.backend->release(b.backend, HSP_MEM_HOST, b.random);
        b.backend->close(b.backend);
    }
    (void)fclose(shapes); /* was only read */
    if (st != HSP_OK) {
        (void)fprintf(stderr, "op_speed: %s\n", err.msg);
    }
    return st == HSP_OK ? 0 : !opened && st == HSP_ENODEV ? 77 : st == HSP_EINVAL ? 2 : 1;
}
