/* Tests matrix products: they are right for all shapes and storage orders, and have the same bits
 * for every cut and on every processor. */
#include <math.h>
#include "tests/lib/testlib.h"
#include "worker/backend/cpu/gemm.h"

#define MAX_EXT   600
#define N_SHAPES  40
#define MAX_ELEMS (MAX_EXT * MAX_EXT)

struct mats {
    float *a32, *b32, *c32, *d32;
    double *a64, *b64, *c64, *d64;
    void *scratch;
    uint64_t n_drawn;
};

static uint64_t draw(struct mats *m)
{
    return hsp_test_rand("gemm", m->n_drawn++) >> 8;
}

static void *room(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(p);
    return p;
}

static int set_up(void **state)
{
    struct mats *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    float **f[] = {&m->a32, &m->b32, &m->c32, &m->d32};
    double **d[] = {&m->a64, &m->b64, &m->c64, &m->d64};
    for (int i = 0; i < 4; i++) {
        *f[i] = room(MAX_ELEMS * sizeof(float));
        *d[i] = room(MAX_ELEMS * sizeof(double));
        for (int k = 0; k < MAX_ELEMS; k++) {
            (*d[i])[k] = (double)(int64_t)(draw(m) % 2000001) * 1e-6 - 1.0;
            (*f[i])[k] = (float)(*d[i])[k];
        }
    }
    m->scratch = room(HSP_GEMM_SCRATCH_BYTES);
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    struct mats *m = *state;
    free(m->a32);
    free(m->b32);
    free(m->c32);
    free(m->d32);
    free(m->a64);
    free(m->b64);
    free(m->c64);
    free(m->d64);
    free(m->scratch);
    free(m);
    return 0;
}

static int64_t extent(struct mats *m)
{
    static const int64_t special[] = {1, 3, 6, 8, 12, 16, 31, 32, 33, 96, 97, 256, 257, 513};
    uint64_t r = draw(m);
    return r % 2 ? special[r / 2 % 14] : 1 + (int64_t)(r / 2 % 299);
}

static struct hsp_gemm random_call(struct mats *m, bool f64)
{
    uint64_t r = draw(m);
    struct hsp_gemm g = {.ta = r & 1,
                         .tb = r & 2,
                         .add = r & 4,
                         .m = extent(m),
                         .n = extent(m),
                         .k = r % 16 == 8 ? 0 : extent(m),
                         .alpha = r & 8 ? 1.0 : 0.375,
                         .scratch = m->scratch};
    g.lda = (g.ta ? g.m : g.k) + (int64_t)(r >> 8) % 3 + 1;
    g.ldb = (g.tb ? g.k : g.n) + (int64_t)(r >> 16) % 3 + 1;
    g.ldc = g.n + (int64_t)(r >> 24) % 3;
    g.a = f64 ? (const void *)m->a64 : m->a32;
    g.b = f64 ? (const void *)m->b64 : m->b32;
    g.c = f64 ? (void *)m->c64 : m->c32;
    return g;
}

static double at(const void *p, bool f64, int64_t i)
{
    return f64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

/* Returns the largest error of the result against sums in long double, divided by the sum of the
 * sizes of the terms; @before is the old C. Fails the test if anything beside C has changed. */
static double worst_error(const struct hsp_gemm *g, bool f64, const void *before)
{
    double worst = 0;
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->ldc; j++) {
            double have = at(g->c, f64, i * g->ldc + j), old = at(before, f64, i * g->ldc + j);
            if (j >= g->n) {
                assert_true(have == old);
                continue;
            }
            long double sum = g->add ? old : 0, size = fabsl(sum) + 1e-30L;
            for (int64_t t = 0; t < g->k; t++) {
                double a = at(g->a, f64, g->ta ? t * g->lda + i : i * g->lda + t);
                double b = at(g->b, f64, g->tb ? j * g->ldb + t : t * g->ldb + j);
                long double term = (long double)g->alpha * a * b;
                sum += term;
                size += fabsl(term);
            }
            worst = fmax(worst, (double)(fabsl(sum - have) / size));
        }
    }
    return worst;
}

static void run(const struct hsp_gemm_kernel *k, const struct hsp_gemm *g, bool f64)
{
    (f64 ? k->f64 : k->f32)(g);
}

static void products_are_right(void **state)
{
    struct mats *m = *state;
    const struct hsp_gemm_kernel *k;
    for (unsigned i = 0; (k = hsp_gemm_kernel_at(i)) != NULL; i++) {
        for (int s = 0; s < N_SHAPES; s++) {
            bool f64 = s % 2;
            struct hsp_gemm g = random_call(m, f64);
            void *before = f64 ? (void *)m->d64 : m->d32;
            memcpy(before, g.c, MAX_ELEMS * (f64 ? sizeof(double) : sizeof(float)));
            run(k, &g, f64);
            assert_true(worst_error(&g, f64, before) < (f64 ? 4e-16 : 2.4e-7) * 8);
        }
    }
}

/* Computes C in four parts, each by a call of its own: rows are cut at one place, columns at
 * another. */
static void run_cut(struct mats *m, const struct hsp_gemm_kernel *k, const struct hsp_gemm *g,
                    bool f64, void *c)
{
    size_t elem = f64 ? sizeof(double) : sizeof(float);
    int64_t row = (int64_t)(draw(m) % (uint64_t)g->m);
    int64_t col = (int64_t)(draw(m) % (uint64_t)g->n);
    for (int part = 0; part < 4; part++) {
        int64_t i = part & 1 ? row : 0, j = part & 2 ? col : 0;
        struct hsp_gemm p = *g;
        p.m = part & 1 ? g->m - row : row;
        p.n = part & 2 ? g->n - col : col;
        p.a = (const uint8_t *)g->a + (size_t)(g->ta ? i : i * g->lda) * elem;
        p.b = (const uint8_t *)g->b + (size_t)(g->tb ? j * g->ldb : j) * elem;
        p.c = (uint8_t *)c + (size_t)(i * g->ldc + j) * elem;
        run(k, &p, f64);
    }
}

static void every_cut_gives_the_same_bits(void **state)
{
    struct mats *m = *state;
    const struct hsp_gemm_kernel *k;
    for (unsigned i = 0; (k = hsp_gemm_kernel_at(i)) != NULL; i++) {
        for (int s = 0; s < N_SHAPES; s++) {
            bool f64 = s % 2;
            size_t bytes = MAX_ELEMS * (f64 ? sizeof(double) : sizeof(float));
            struct hsp_gemm g = random_call(m, f64);
            void *cut = f64 ? (void *)m->d64 : m->d32;
            memcpy(cut, g.c, bytes);
            run(k, &g, f64);
            run_cut(m, k, &g, f64, cut);
            assert_memory_equal(cut, g.c, bytes);
        }
    }
}

static void all_kernels_give_the_same_bits(void **state)
{
    struct mats *m = *state;
    for (int s = 0; hsp_gemm_kernel_at(1) != NULL && s < N_SHAPES; s++) {
        bool f64 = s % 2;
        size_t bytes = MAX_ELEMS * (f64 ? sizeof(double) : sizeof(float));
        struct hsp_gemm g = random_call(m, f64), other = g;
        other.c = f64 ? (void *)m->d64 : m->d32;
        memcpy(other.c, g.c, bytes);
        run(hsp_gemm_kernel_at(0), &g, f64);
        run(hsp_gemm_kernel_at(1), &other, f64);
        assert_memory_equal(other.c, g.c, bytes);
    }
}

HSP_TEST_FILE(gemm_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(products_are_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_cut_gives_the_same_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_kernels_give_the_same_bits, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
