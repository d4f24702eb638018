#include "tests/lib/testlib.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/base/arena.h"
#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "proto/base/str.h"

uint64_t hsp_test_seed(void)
{
    static uint64_t seed;
    static int known;
    if (!known) {
        const char *s = getenv("HSPMD_SEED");
        if (s == NULL || !hsp_parse_u64(s, &seed)) {
            seed = 1;
        }
        known = 1;
        fprintf(stderr, "# HSPMD_SEED=%llu\n", (unsigned long long)seed);
    }
    return seed;
}

uint64_t hsp_test_rand(const char *stream, uint64_t i)
{
    return hsp_rng_u64(hsp_test_seed(), hsp_hash_str(stream), i, 0);
}

int64_t hsp_test_range(const char *stream, uint64_t i, int64_t lo, int64_t hi)
{
    uint64_t span = (uint64_t)hi - (uint64_t)lo + 1;
    return (int64_t)((uint64_t)lo +
                     hsp_rng_below(span, hsp_test_seed(), hsp_hash_str(stream), i, 0));
}

static uint64_t share_of_rounds(void)
{
    const char *s = getenv("HSPMD_ROUNDS");
    uint64_t percent = 100;
    if (s != NULL && (!hsp_parse_u64(s, &percent) || percent == 0 || percent > 100)) {
        fprintf(stderr, "HSPMD_ROUNDS: %s is not from 1 to 100\n", s);
        exit(2);
    }
    return percent;
}

uint32_t hsp_test_rounds(uint32_t n)
{
#ifdef HSP_SANITIZE
    const uint32_t slower = 3;
#else
    const uint32_t slower = getenv("HSPMD_VALGRIND") != NULL ? 10 : 1;
#endif
    uint32_t bearable = n < slower ? n : n / slower;
    uint32_t wanted = (uint32_t)(n * share_of_rounds() / 100);
    wanted = wanted == 0 && n > 0 ? 1 : wanted;
    return wanted < bearable ? wanted : bearable;
}

char *hsp_test_source(const char *file)
{
    enum { MOST = 4 << 20 };
    char path[4096];
    const char *src = getenv("HSPMD_SRC");
    (void)snprintf(path, sizeof path, "%s/%s", src != NULL ? src : ".", file);
    char *text = calloc(1, MOST + 1);
    FILE *f = fopen(path, "r");
    if (text == NULL || f == NULL) {
        free(text);
        fail_msg("cannot read %s", path);
        return NULL;
    }
    size_t n = fread(text, 1, MOST, f);
    text[n] = '\0';
    (void)fclose(f);
    return text;
}

int hsp_test_arena_begin(void **state)
{
    *state = hsp_arena_new((size_t)256 << 20);
    return *state == NULL;
}

int hsp_test_arena_end(void **state)
{
    *state = hsp_arena_free(*state);
    return 0;
}

char *hsp_test_tmpdir(void)
{
    const char *base = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof(path), "%s/hspmd-test-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(path) == NULL) {
        fail_msg("cannot create %s", path);
    }
    char *copy = strdup(path);
    assert_non_null(copy);
    return copy;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void hsp_test_rmdir(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* a left-over folder harms nobody */
}

const char *hsp_test_status_name(enum hsp_status code)
{
    switch (code) {
#define HSP_STATUS_NAME(name, value, text) \
    case name: return #name;
        HSP_STATUS_MAP(HSP_STATUS_NAME)
#undef HSP_STATUS_NAME
    }
    return "HSP_UNKNOWN";
}

void hsp_test_assert_status(enum hsp_status got, enum hsp_status want, const struct hsp_err *err,
                            const char *expr, const char *file, int line)
{
    if (got != want) {
        print_error("%s: got %s, wanted %s%s%s\n", expr, hsp_test_status_name(got),
                    hsp_test_status_name(want), err != NULL ? ": " : "",
                    err != NULL ? err->msg : "");
        _fail(file, line);
    }
}

void hsp_test_assert_err(const struct hsp_err *err, enum hsp_status want, const char *text,
                         const char *file, int line)
{
    if (err->code != want || strcmp(err->msg, text) != 0) {
        print_error("got    %s \"%s\"\nwanted %s \"%s\"\n", hsp_test_status_name(err->code),
                    err->msg, hsp_test_status_name(want), text);
        _fail(file, line);
    }
}

void hsp_test_assert_near(double a, double b, double tol, const char *expr, const char *file,
                          int line)
{
    if (!(fabs(a - b) <= tol)) { /* also catches NaN */
        print_error("%s: %.17g and %.17g differ by %.3g, tolerance %.3g\n", expr, a, b, fabs(a - b),
                    tol);
        _fail(file, line);
    }
}
