/* Compares attention by blocks of keys with whole attention, forward and backward, on this
 * processor.
 *
 *   attnbench THREADS SEQUENCE BLOCKS HEADS HEAD_DIM
 *
 * Prints one JSON object: the median rate (flops a second, by the catalogue's count) of causal
 * attention over the sequence, of the same cut into blocks of queries and keys with their merges,
 * and the ratio of the two. The two take turns, so that other load of the machine meets both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/base/str.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/cpu.h"

#define ROUNDS      9
#define MAX_THREADS 1024
#define MAX_EXTENT  (1 << 20)

enum { DO, Q, K, V, O, LSE, DQ, DK, DV, O2, LSE2, O3, LSE3, N_OPERANDS };

struct bench {
    struct hsp_backend *backend;
    int64_t threads, sequence, blocks, heads, head_dim;
    struct hsp_attrs at;
    float *data[N_OPERANDS]; /* whole sequence each */
};

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* exists on Linux */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static bool is_lse(int x)
{
    return x == LSE || x == LSE2 || x == LSE3;
}

/* Returns @len positions of operand @x from @lo on. There is one sequence, so the range is
 * dense. */
static struct hsp_array range(const struct bench *b, int x, int64_t lo, int64_t len)
{
    int64_t width = b->heads * (is_lse(x) ? 1 : b->head_dim);
    return (struct hsp_array){b->data[x] + lo * width, HSP_F32, 3, {1, len, width}};
}

static enum hsp_status call(const struct bench *b, enum hsp_op op, const struct hsp_array *in,
                            const struct hsp_array *out, int64_t q0, int64_t k0,
                            struct hsp_err *err)
{
    struct hsp_call c = {.op = op,
                         .at = &b->at,
                         .n_in = hsp_op_n_in(op),
                         .n_out = hsp_op_n_out(op),
                         .in = in,
                         .out = out,
                         .origin = {q0, k0}};
    return b->backend->run(b->backend, HSP_DEVQ_COMPUTE, &c, err);
}

/* Computes attention of the @q queries from q0 on with the @k keys from k0 on, into @o and @lse;
 * with @back, computes the gradients. */
static enum hsp_status block(const struct bench *b, bool back, int64_t q0, int64_t q, int64_t k0,
                             int64_t k, int o, int lse, struct hsp_err *err)
{
    if (back) {
        struct hsp_array in[] = {range(b, DO, q0, q), range(b, Q, q0, q), range(b, K, k0, k),
                                 range(b, V, k0, k),  range(b, O, q0, q), range(b, LSE, q0, q)};
        struct hsp_array out[] = {range(b, DQ, q0, q), range(b, DK, k0, k), range(b, DV, k0, k)};
        return call(b, HSP_OP_ATTENTION_BWD, in, out, q0, k0, err);
    }
    struct hsp_array in[] = {range(b, Q, q0, q), range(b, K, k0, k), range(b, V, k0, k)};
    struct hsp_array out[] = {range(b, o, q0, q), range(b, lse, q0, q)};
    return call(b, HSP_OP_ATTENTION, in, out, q0, k0, err);
}

/* Computes all blocks at or before the diagonal in turn: the work of a stage of @blocks groups. */
static enum hsp_status by_blocks(const struct bench *b, bool back, struct hsp_err *err)
{
    int64_t n = b->blocks, s = b->sequence;
    enum hsp_status st = HSP_OK;
    for (int64_t i = 0; st == HSP_OK && i < n; i++) {
        int64_t q0 = s * i / n, q = s * (i + 1) / n - q0;
        st = block(b, back, q0, q, q0, q, O2, LSE2, err);
        for (int64_t j = i; st == HSP_OK && j-- > 0;) {
            int64_t k0 = s * j / n, k = s * (j + 1) / n - k0;
            st = block(b, back, q0, q, k0, k, O3, LSE3, err);
            if (st == HSP_OK && !back) {
                struct hsp_array in[] = {range(b, O2, q0, q), range(b, LSE2, q0, q),
                                         range(b, O3, q0, q), range(b, LSE3, q0, q)};
                struct hsp_array out[] = {range(b, DQ, q0, q), range(b, DV, q0, q)};
                out[1].ext[2] = b->heads;
                st = call(b, HSP_OP_ATTENTION_MERGE, in, out, 0, 0, err);
            }
        }
    }
    return st;
}

static enum hsp_status measure(const struct bench *b, bool back, struct hsp_err *err)
{
    double whole[ROUNDS], cut[ROUNDS];
    double flops = hsp_causal_pairs(0, b->sequence, 0, b->sequence) * (double)b->heads *
                   ((back ? 10 : 4) * (double)b->head_dim + (back ? 14 : 12));
    enum hsp_status st = HSP_OK;
    for (int r = -1; st == HSP_OK && r < ROUNDS; r++) { /* the first one warms up */
        double t = seconds();
        st = block(b, back, 0, b->sequence, 0, b->sequence, O, LSE, err);
        double mid = seconds();
        if (st == HSP_OK) {
            st = by_blocks(b, back, err);
        }
        if (r >= 0) {
            whole[r] = mid - t;
            cut[r] = seconds() - mid;
        }
    }
    if (st == HSP_OK) {
        qsort(whole, ROUNDS, sizeof *whole, by_value);
        qsort(cut, ROUNDS, sizeof *cut, by_value);
        double w = whole[ROUNDS / 2], c = cut[ROUNDS / 2];
        printf("\"%s\":{\"whole_flops\":%.4g,\"blocks_flops\":%.4g,\"ratio\":%.3f}",
               back ? "backward" : "forward", flops / w, flops / c, w / c);
    }
    return st;
}

static enum hsp_status prepare(struct bench *b, struct hsp_err *err)
{
    size_t width = (size_t)(b->heads * b->head_dim);
    b->at = (struct hsp_attrs){{b->head_dim, 1, 1}, {0.125}};
    for (int x = 0; x < N_OPERANDS; x++) {
        size_t n = (size_t)b->sequence * width;
        b->data[x] = aligned_alloc(64, (n * sizeof(float) + 127) / 64 * 64);
        if (b->data[x] == NULL) {
            return hsp_err_set(err, HSP_ENOMEM, 0, "no memory for %zu elements", n);
        }
        for (size_t i = 0; i < n; i++) {
            b->data[x][i] = (float)((i * 2654435761u + (size_t)x) % 1009) / 1009.0F - 0.5F;
        }
    }
    return hsp_backend_cpu_open((int)b->threads, &b->backend, err);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct hsp_err err = {0};
    int64_t *number[] = {&b.threads, &b.sequence, &b.blocks, &b.heads, &b.head_dim};
    bool good = argc == 6;
    for (int i = 0; good && i < 5; i++) {
        good = hsp_parse_i64(argv[i + 1], number[i]) && *number[i] >= 1 && *number[i] <= MAX_EXTENT;
    }
    if (!good || b.threads > MAX_THREADS || b.blocks > b.sequence) {
        fprintf(stderr, "usage: attnbench THREADS SEQUENCE BLOCKS HEADS HEAD_DIM\n");
        return 2;
    }
    enum hsp_status st = prepare(&b, &err);
    printf("{\"threads\":%d,\"sequence\":%d,\"blocks\":%d,", (int)b.threads, (int)b.sequence,
           (int)b.blocks);
    if (st == HSP_OK) {
        st = measure(&b, false, &err);
    }
    printf(",");
    if (st == HSP_OK) {
        st = measure(&b, true, &err);
    }
    printf("}\n");
    if (st != HSP_OK) {
        fprintf(stderr, "attnbench: %s\n", err.msg);
    }
    if (b.backend != NULL) {
        b.backend->close(b.backend);
    }
    for (int x = 0; x < N_OPERANDS; x++) {
        free(b.data[x]);
    }
    return st == HSP_OK ? 0 : 1;
}
