/* Hashes of state against plain reading and memcpy of the same memory, on one thread.
 *
 *   hashbench MIB
 *
 * Prints one JSON object: median rates in bytes a second over MIB of memory for reading (the sum of
 * all words), for the hash of fp32 and of fp64, for memcpy, and the ratios of the hashes to
 * reading. The four take turns, and only the time on a processor counts, so that a machine with
 * other work gives the same ratios.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/base/element_hash.h"
#include "proto/base/str.h"
#include "tests/bench/limits.h"

enum { READ, HASH_32, HASH_64, COPY, N_WORKS, ROUNDS = 15 };

struct bench {
    uint8_t *from, *to;
    size_t bytes;
    uint64_t sum; /* printed, so that nothing is left out */
};

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* exists on Linux */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void work(struct bench *b, int which)
{
    switch (which) {
    case READ: b->sum += hsp_limit_sum(b->from, b->bytes); break;
    case HASH_32: b->sum += hsp_hash_32(b->from, (int64_t)(b->bytes / 4), 1); break;
    case HASH_64: b->sum += hsp_hash_64(b->from, (int64_t)(b->bytes / 8), 1); break;
    default: memcpy(b->to, b->from, b->bytes); b->sum += b->to[b->bytes / 2];
    }
}

static void measure(struct bench *b, double *ret_rate)
{
    double took[N_WORKS][ROUNDS];
    for (int r = -1; r < ROUNDS; r++) { /* the first one warms up */
        for (int w = 0; w < N_WORKS; w++) {
            double from = seconds();
            work(b, w);
            took[w][r < 0 ? 0 : r] = seconds() - from;
        }
    }
    for (int w = 0; w < N_WORKS; w++) {
        qsort(took[w], ROUNDS, sizeof *took[w], by_value);
        ret_rate[w] = (double)b->bytes / took[w][ROUNDS / 2];
    }
}

int main(int argc, char **argv)
{
    int64_t mib = 0;
    double rate[N_WORKS];
    if (argc != 2 || !hsp_parse_i64(argv[1], &mib) || mib < 1 || mib > 1 << 16) {
        fprintf(stderr, "usage: hashbench MIB\n");
        return 2;
    }
    struct bench b = {.bytes = (size_t)mib << 20};
    b.from = aligned_alloc(64, b.bytes);
    b.to = aligned_alloc(64, b.bytes);
    if (b.from == NULL || b.to == NULL) {
        fprintf(stderr, "hashbench: no memory for 2 x %" PRId64 " MiB\n", mib);
        free(b.from);
        free(b.to);
        return 1;
    }
    for (size_t i = 0; i < b.bytes / 8; i++) {
        uint64_t v = i * HSP_HASH_STEP;
        memcpy(b.from + 8 * i, &v, 8);
    }
    memset(b.to, 0, b.bytes); /* brings the pages in */
    measure(&b, rate);
    printf("{\"kernel\":\"%s\",\"mib\":%" PRId64 ",\"read\":%.4g,\"hash_32\":%.4g,\"hash_64\":%.4g,"
           "\"copy\":%.4g,\"hash_32_to_read\":%.3f,\"hash_64_to_read\":%.3f,\"sum\":\"%" PRIx64
           "\"}\n",
           hsp_hash_kernel_at(0)->name, mib, rate[READ], rate[HASH_32], rate[HASH_64], rate[COPY],
           rate[HASH_32] / rate[READ], rate[HASH_64] / rate[READ], b.sum);
    free(b.from);
    free(b.to);
    return 0;
}
