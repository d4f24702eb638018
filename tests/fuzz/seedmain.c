/* Runs a target without libFuzzer: each seed as it is, and with random changes (HSPMD_SEED). Or the
 * files named on the command line. Speaks TAP: one line a seed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "proto/base/str.h"
#include "tests/fuzz/fuzz.h"

enum { CHANGES = 40 };

static uint64_t seed = 1;
static size_t n_done;

static uint64_t rnd(uint64_t stream, uint64_t i)
{
    return hsp_rng_u64(seed, stream, i, 0);
}

/* A few bytes other, gone or doubled, in a copy that is exactly as long as its content. */
static void run_changed(const uint8_t *data, size_t len, uint64_t stream)
{
    uint8_t *copy = malloc(len + 1);
    HSP_ASSERT(copy != NULL);
    memcpy(copy, data, len);
    size_t n = len;
    for (uint64_t k = 0; n > 0 && k < 1 + rnd(stream, 0) % 4; k++) {
        size_t at = rnd(stream, 4 * k + 1) % n, run = 1 + rnd(stream, 4 * k + 2) % 8;
        switch (rnd(stream, 4 * k + 3) % 4) {
        case 0: copy[at] = (uint8_t)rnd(stream, 4 * k + 4); break;
        case 1: copy[at] ^= (uint8_t)(1u << rnd(stream, 4 * k + 4) % 8); break;
        case 2:
            run = run < n - at ? run : n - at;
            memmove(copy + at, copy + at + run, n - at - run);
            n -= run;
            break;
        default: copy[at] = data[rnd(stream, 4 * k + 4) % len]; break;
        }
    }
    uint8_t *exact = malloc(n > 0 ? n : 1);
    HSP_ASSERT(exact != NULL);
    memcpy(exact, copy, n);
    (void)LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    free(copy);
}

static void run_seed(const char *name, const uint8_t *data, size_t len)
{
    (void)LLVMFuzzerTestOneInput(data, len);
    for (uint64_t k = 0; k < CHANGES; k++) {
        run_changed(data, len, hsp_hash64(name, strlen(name), k));
    }
    printf("ok %zu - %s\n", ++n_done, name);
    fflush(stdout); /* the last line before a crash is the seed before it */
}

static void run_file(const char *path)
{
    static uint8_t data[4 << 20];
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        perror(path);
        exit(1);
    }
    size_t n = fread(data, 1, sizeof data, f);
    (void)fclose(f); /* read only */
    run_seed(path, data, n);
}

int main(int argc, char **argv)
{
    const char *s = getenv("HSPMD_SEED");
    if (s != NULL && !hsp_parse_u64(s, &seed)) {
        fprintf(stderr, "HSPMD_SEED: %s is no number\n", s);
        return 1;
    }
    printf("# HSPMD_SEED=%llu\n", (unsigned long long)seed);
    for (int i = 1; i < argc; i++) {
        run_file(argv[i]);
    }
    if (argc == 1) {
        hsp_fuzz_each_seed(run_seed);
        HSP_ASSERT(n_done > 0);
    }
    printf("1..%zu\n", n_done);
    return 0;
}
