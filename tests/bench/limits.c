#include "tests/bench/limits.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_THREADS 64
#define ROUNDS      2000000 /* of the chains: some 10 ms */
#define CHAINS      12 /* enough to hide the latency of an addition, few enough for registers */
#define TRIES       7
#define COPY_BYTES  ((size_t)128 << 20)

struct job {
    double (*work)(void *mem); /* returns the work done */
    void *mem;
    double done;
    pthread_t id;
};

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* exists on Linux */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* Independent chains s <- s x + y; the result is used, so that none of it can be left out. */
#define CHAINS_OF(NAME, TARGET, BYTES)                          \
    TARGET static double NAME(void *mem)                        \
    {                                                           \
        typedef float vec __attribute__((vector_size(BYTES)));  \
        vec s[CHAINS], x = {0}, y = {0}, total = {0};           \
        float *out = mem;                                       \
        x = x + out[0];                                         \
        y = y + out[1];                                         \
        UNROLL                                                  \
        for (int i = 0; i < CHAINS; i++) {                      \
            s[i] = x + (float)i;                                \
        }                                                       \
        for (int r = 0; r < ROUNDS; r++) {                      \
            UNROLL                                              \
            for (int i = 0; i < CHAINS; i++) {                  \
                s[i] = s[i] * x + y;                            \
            }                                                   \
        }                                                       \
        UNROLL                                                  \
        for (int i = 0; i < CHAINS; i++) {                      \
            total += s[i];                                      \
        }                                                       \
        out[2] = total[0];                                      \
        return 2.0 * CHAINS * ROUNDS * (BYTES / sizeof(float)); \
    }

#if defined(__x86_64__)
CHAINS_OF(chains_512, __attribute__((target("avx512f,fma"))), 64)
CHAINS_OF(chains_256, __attribute__((target("avx2,fma"))), 32)
#endif
CHAINS_OF(chains_128, , 16)

/* Four sums at once, so that additions hide no time of loads. */
#define SUM_OF(NAME, TARGET, BYTES)                                           \
    TARGET static uint64_t NAME(const uint8_t *x, size_t bytes)               \
    {                                                                         \
        typedef uint64_t vec __attribute__((vector_size(BYTES), aligned(8))); \
        vec s[4] = {{0}};                                                     \
        uint64_t total = 0;                                                   \
        for (size_t i = 0; i + sizeof s <= bytes; i += sizeof s) {            \
            UNROLL                                                            \
            for (size_t k = 0; k < 4; k++) {                                  \
                vec v;                                                        \
                memcpy(&v, x + i + k * sizeof v, sizeof v);                   \
                s[k] += v;                                                    \
            }                                                                 \
        }                                                                     \
        for (size_t k = 0; k < 4 * sizeof(vec) / 8; k++) {                    \
            total += s[k / (sizeof(vec) / 8)][k % (sizeof(vec) / 8)];         \
        }                                                                     \
        return total;                                                         \
    }

#if defined(__x86_64__)
SUM_OF(sum_512, __attribute__((target("avx512f"))), 64)
SUM_OF(sum_256, __attribute__((target("avx2"))), 32)
#endif
SUM_OF(sum_128, , 16)

uint64_t hsp_limit_sum(const void *mem, size_t bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        return sum_512(mem, bytes);
    }
    if (__builtin_cpu_supports("avx2")) {
        return sum_256(mem, bytes);
    }
#endif
    return sum_128(mem, bytes);
}

static double copy(void *mem)
{
    memcpy(mem, (char *)mem + COPY_BYTES, COPY_BYTES);
    return 2.0 * COPY_BYTES;
}

static void *job_main(void *arg)
{
    struct job *j = arg;
    j->done = j->work(j->mem);
    return NULL;
}

/* Best rate of @threads threads that each do @work. */
static double rate(unsigned threads, double (*work)(void *), size_t bytes)
{
    struct job job[MAX_THREADS];
    double best = 0;
    unsigned n = 0;
    while (n < threads && n < MAX_THREADS) {
        job[n] = (struct job){.work = work, .mem = aligned_alloc(64, bytes)};
        if (!job[n].mem) {
            break;
        }
        memset(job[n].mem, 0, bytes); /* brings the pages in */
        ((float *)job[n].mem)[0] = 0.5F;
        n++;
    }
    for (int t = 0; n == threads && t < TRIES; t++) {
        double from = now(), done = 0;
        unsigned live = 0;
        while (live < n && pthread_create(&job[live].id, NULL, job_main, &job[live]) == 0) {
            live++;
        }
        for (unsigned i = 0; i < live; i++) {
            (void)pthread_join(job[i].id, NULL); /* ours, joined once */
            done += job[i].done;
        }
        double r = done / (now() - from);
        best = live == n && r > best ? r : best;
    }
    while (n > 0) {
        free(job[--n].mem);
    }
    return best;
}

double hsp_limit_flops(unsigned threads)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("fma")) {
        return rate(threads, __builtin_cpu_supports("avx512f") ? chains_512 : chains_256, 64);
    }
#endif
    return rate(threads, chains_128, 64);
}

double hsp_limit_bytes(unsigned threads)
{
    return rate(threads, copy, 2 * COPY_BYTES);
}
