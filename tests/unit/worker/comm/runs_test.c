#include "tests/lib/testlib.h"

#include "proto/base/rng.h"
#include "worker/comm/runs.h"

#define MOST 4096 /* bytes of an arena */

/* Random runs inside an arena of MOST bytes. */
static struct hsp_runs random_runs(const char *what, uint64_t k, uint8_t *arena)
{
    struct hsp_runs r = {.n = (size_t)hsp_test_range(what, 4 * k, 1, 9),
                         .run = (size_t)hsp_test_range(what, 4 * k + 1, 1, 60)};
    r.stride = r.run + (size_t)hsp_test_range(what, 4 * k + 2, 0, 40);
    r.base = arena + hsp_test_range(what, 4 * k + 3, 0, 70);
    return r;
}

/* The same bytes cut another way: runs of a divisor of them. */
static struct hsp_runs cut_else(uint64_t k, size_t bytes, uint8_t *arena)
{
    struct hsp_runs r = {.base = arena, .run = (size_t)hsp_test_range("cut", k, 1, 60)};
    while (bytes % r.run != 0) {
        r.run--;
    }
    r.n = bytes / r.run;
    r.stride = r.run + (size_t)hsp_test_range("gap", k, 0, 3);
    return r;
}

/* The byte @at of the message by the definition. */
static size_t lies(const struct hsp_runs *r, const uint8_t *arena, size_t at)
{
    return (size_t)(r->base - arena) + at / r->run * r->stride + at % r->run;
}

static void gathering_and_scattering_follow_the_runs(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 2000; k++) {
        uint8_t from[MOST], flat[MOST], to[MOST];
        struct hsp_runs r = random_runs("runs", k, from), w = r;
        struct hsp_err err;
        size_t bytes = 0, n;
        for (size_t i = 0; i < MOST; i++) {
            from[i] = (uint8_t)(hsp_test_rand("byte", i + k) >> 3);
            to[i] = (uint8_t)~from[i];
        }
        w.base = to + (r.base - from);
        assert_ok(hsp_runs_check(&r, MOST, &bytes, &err), &err);
        assert_int_equal(bytes, r.n * r.run);
        size_t at = (size_t)hsp_test_range("at", k, 0, (int64_t)bytes);
        n = (size_t)hsp_test_range("n", k, 0, (int64_t)(bytes - at));
        hsp_runs_gather(&r, at, flat, n);
        hsp_runs_scatter(&w, at, flat, n);
        size_t written = 0;
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(flat[i], from[lies(&r, from, at + i)]);
            assert_int_equal(to[lies(&w, to, at + i)], flat[i]);
        }
        for (size_t i = 0; i < MOST; i++) {
            written += to[i] == from[i];
        }
        assert_int_equal(written, n); /* and nothing else */
    }
}

static void a_piece_is_the_next_bytes(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 1000; k++) {
        uint8_t from[MOST], stage[64], flat[MOST];
        for (size_t i = 0; i < MOST; i++) {
            from[i] = (uint8_t)hsp_test_rand("byte", i + k);
        }
        const struct hsp_runs r = random_runs("runs", k, from);
        size_t cap = (size_t)hsp_test_range("cap", k, 1, sizeof stage), n = 0;
        hsp_runs_gather(&r, 0, flat, r.run * r.n);
        for (size_t at = 0; at < r.run * r.n; at += n) {
            const uint8_t *p = hsp_runs_piece(&r, at, stage, cap, &n);
            size_t rest = r.run * r.n - at;
            assert_true(n <= rest && n >= (rest < cap ? rest : cap));
            assert_memory_equal(p, flat + at, n);
            assert_true(p == stage || p == from + lies(&r, from, at));
        }
    }
}

static void copying_between_other_runs_keeps_the_order(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 1000; k++) {
        uint8_t from[MOST], to[MOST], a[MOST], b[MOST];
        for (size_t i = 0; i < MOST; i++) {
            from[i] = (uint8_t)hsp_test_rand("byte", i + k);
        }
        const struct hsp_runs r = random_runs("runs", k, from);
        const struct hsp_runs w = cut_else(k, r.run * r.n, to);
        hsp_runs_copy(&w, &r, r.run * r.n);
        hsp_runs_gather(&r, 0, a, r.run * r.n);
        hsp_runs_gather(&w, 0, b, r.run * r.n);
        assert_memory_equal(a, b, r.run * r.n);
    }
}

static void what_cannot_be_a_message_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t run, stride, n;
        enum hsp_status st;
    } of[] = {
        {0, 0, 0, HSP_OK},
        {0, 0, 7, HSP_OK},
        {8, 8, 0, HSP_OK},
        {8, 0, 1, HSP_OK},
        {8, 8, 3, HSP_OK},
        {8, 7, 3, HSP_EINVAL},
        {8, SIZE_MAX / 2, 3, HSP_EINVAL},
        {8, SIZE_MAX / 2 - 8, 3, HSP_EINVAL},
        {100, 100, 11, HSP_ELIMIT},
        {SIZE_MAX / 2, SIZE_MAX / 2, 3, HSP_ELIMIT},
        {2, SIZE_MAX, 2, HSP_EINVAL},
    };
    uint8_t mem[32];
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        const struct hsp_runs r = {mem, of[i].run, of[i].stride, of[i].n};
        struct hsp_err err;
        size_t bytes = 12345;
        assert_status(hsp_runs_check(&r, 1000, &bytes, &err), of[i].st);
        assert_int_equal(bytes, of[i].st == HSP_OK ? of[i].run * of[i].n : 12345);
    }
    const struct hsp_runs nothing = hsp_run(NULL, 0);
    struct hsp_err err;
    size_t bytes = 1;
    assert_ok(hsp_runs_check(&nothing, 0, &bytes, &err), &err);
    hsp_runs_gather(&nothing, 0, mem, 0);
    hsp_runs_scatter(&nothing, 0, mem, 0);
    hsp_runs_copy(&nothing, &nothing, bytes);
}

HSP_TEST_FILE(runs_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathering_and_scattering_follow_the_runs),
        cmocka_unit_test(a_piece_is_the_next_bytes),
        cmocka_unit_test(copying_between_other_runs_keeps_the_order),
        cmocka_unit_test(what_cannot_be_a_message_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
