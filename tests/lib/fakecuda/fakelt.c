/* Computes products as cuBLASLt does, on the host: D = alpha op(A) op(B) + beta C, batched, with
 * the epilogues that hspmd uses. Sums are fp64, results are rounded once. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fakecuda/fakeint.h"
#include "tests/lib/fakecuda/include/cublasLt.h"

#define WORKSPACE ((size_t)64) /* the wish of every product with a workspace */

struct cublasLtContext {
    unsigned number; /* which handle it is */
};

/* A matrix, as a cublasLtMatrixLayout_t holds it, by attribute. */
struct matrix {
    uint8_t *p;
    cudaDataType type;
    bool by_row;
    int64_t rows, cols, ld, batches, stride;
};

struct product {
    struct matrix a, b, c, d;
    bool ta, tb;
    double alpha, beta;
    int epilogue;
    uint8_t *bias;
    cudaDataType bias_type;
    void *workspace;
    size_t workspace_bytes;
    bool first; /* of its shape: it may be there to warm up only, of operands that nobody wrote */
};

/* ---- elements ---- */

static size_t size_of(cudaDataType t)
{
    return t == CUDA_R_64F ? 8 : t == CUDA_R_32F ? 4 : 2;
}

static double load(const uint8_t *p, cudaDataType t, int64_t i)
{
    p += (size_t)i * size_of(t);
    if (t == CUDA_R_64F) {
        double v;
        memcpy(&v, p, sizeof(v));
        return v;
    }
    uint32_t bits = 0;
    uint16_t half;
    if (t == CUDA_R_32F) {
        memcpy(&bits, p, sizeof(bits));
    } else {
        memcpy(&half, p, sizeof(half));
        bits = (uint32_t)half << 16;
    }
    float v;
    memcpy(&v, &bits, sizeof(v));
    return (double)v;
}

static void store(uint8_t *p, cudaDataType t, int64_t i, double v)
{
    p += (size_t)i * size_of(t);
    if (t == CUDA_R_64F) {
        memcpy(p, &v, sizeof(v));
        return;
    }
    float f = (float)v;
    if (t == CUDA_R_32F) {
        memcpy(p, &f, sizeof(f));
        return;
    }
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1); /* to nearest, ties to even */
    uint16_t half = (uint16_t)(f != f ? bits >> 16 | 0x40 : rounded >> 16);
    memcpy(p, &half, sizeof(half));
}

static int64_t index_of(const struct matrix *m, int64_t batch, int64_t r, int64_t c)
{
    return batch * m->stride + (m->by_row ? r * m->ld + c : c * m->ld + r);
}

/* ---- one product ---- */

static bool touch_matrix(const struct matrix *m, bool write)
{
    int64_t lines = m->by_row ? m->rows : m->cols, length = m->by_row ? m->cols : m->rows;
    for (int64_t b = 0; b < m->batches; b++) {
        for (int64_t i = 0; i < lines; i++) {
            size_t at = (size_t)(b * m->stride + i * m->ld) * size_of(m->type);
            if (!hsp_fake_touch(m->p + at, (size_t)length * size_of(m->type), write)) {
                return false;
            }
        }
    }
    return true;
}

static bool touch_all(const struct product *x)
{
    size_t bias = (size_t)(x->epilogue == CUBLASLT_EPILOGUE_BGRADB ? x->d.cols : x->d.rows) *
                  size_of(x->bias_type);
    return touch_matrix(&x->a, false) && touch_matrix(&x->b, false) &&
           (x->beta == 0.0 || touch_matrix(&x->c, false)) &&
           (x->epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
            hsp_fake_touch(x->bias, bias, x->epilogue != CUBLASLT_EPILOGUE_BIAS)) &&
           hsp_fake_touch(x->workspace, x->workspace_bytes, true) && touch_matrix(&x->d, true);
}

static double left(const struct product *x, int64_t batch, int64_t i, int64_t k)
{
    return load(x->a.p, x->a.type, index_of(&x->a, batch, x->ta ? k : i, x->ta ? i : k));
}

static double right(const struct product *x, int64_t batch, int64_t k, int64_t j)
{
    return load(x->b.p, x->b.type, index_of(&x->b, batch, x->tb ? j : k, x->tb ? k : j));
}

static void sums_of_factor(const struct product *x, int64_t depth)
{
    bool of_a = x->epilogue == CUBLASLT_EPILOGUE_BGRADA;
    for (int64_t i = 0; i < (of_a ? x->d.rows : x->d.cols); i++) {
        double sum = 0.0;
        for (int64_t k = 0; k < depth; k++) {
            sum += of_a ? left(x, 0, i, k) : right(x, 0, k, i);
        }
        store(x->bias, x->bias_type, i, sum);
    }
}

static void run_product(void *args)
{
    const struct product *x = args;
    fake.unwritten = x->first;
    bool fine = touch_all(x);
    fake.unwritten = false;
    if (!fine) {
        return;
    }
    int64_t depth = x->ta ? x->a.rows : x->a.cols;
    for (int64_t batch = 0; batch < x->d.batches; batch++) {
        for (int64_t i = 0; i < x->d.rows; i++) {
            for (int64_t j = 0; j < x->d.cols; j++) {
                double sum = 0.0;
                for (int64_t k = 0; k < depth; k++) {
                    sum += left(x, batch, i, k) * right(x, batch, k, j);
                }
                sum *= x->alpha;
                if (x->beta != 0.0) {
                    sum += x->beta * load(x->c.p, x->c.type, index_of(&x->c, batch, i, j));
                }
                if (x->epilogue == CUBLASLT_EPILOGUE_BIAS) {
                    sum += load(x->bias, x->bias_type, i);
                }
                store(x->d.p, x->d.type, index_of(&x->d, batch, i, j), sum);
            }
        }
    }
    if (x->epilogue == CUBLASLT_EPILOGUE_BGRADA || x->epilogue == CUBLASLT_EPILOGUE_BGRADB) {
        sums_of_factor(x, depth);
    }
}

/* ---- descriptions ---- */

static struct matrix matrix_of(cublasLtMatrixLayout_t l, const void *p)
{
    return (struct matrix){.p = (uint8_t *)(uintptr_t)p,
                           .type = (cudaDataType)l->data[CUBLASLT_MATRIX_LAYOUT_TYPE],
                           .by_row = l->data[CUBLASLT_MATRIX_LAYOUT_ORDER] == CUBLASLT_ORDER_ROW,
                           .rows = (int64_t)l->data[CUBLASLT_MATRIX_LAYOUT_ROWS],
                           .cols = (int64_t)l->data[CUBLASLT_MATRIX_LAYOUT_COLS],
                           .ld = (int64_t)l->data[CUBLASLT_MATRIX_LAYOUT_LD],
                           .batches = (int64_t)l->data[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT],
                           .stride = (int64_t)l->data[CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET]};
}

static bool is_whole(const struct matrix *m)
{
    return m->rows > 0 && m->cols > 0 && m->ld >= (m->by_row ? m->cols : m->rows) && m->batches > 0;
}

static bool types_fit(const struct product *x, int64_t compute, int64_t scale)
{
    cudaDataType in = x->a.type, out = x->d.type;
    if (x->b.type != in || x->c.type != out) {
        return false;
    }
    if (compute == CUBLAS_COMPUTE_64F) {
        return in == CUDA_R_64F && out == in && scale == CUDA_R_64F;
    }
    bool bf16 = in == CUDA_R_16BF && (out == CUDA_R_16BF || out == CUDA_R_32F) &&
                compute != CUBLAS_COMPUTE_32F_FAST_TF32;
    return scale == CUDA_R_32F && (bf16 || (in == CUDA_R_32F && out == in));
}

static cublasStatus_t describe(cublasLtMatmulDesc_t d, struct product *x)
{
    x->ta = d->data[CUBLASLT_MATMUL_DESC_TRANSA] != CUBLAS_OP_N;
    x->tb = d->data[CUBLASLT_MATMUL_DESC_TRANSB] != CUBLAS_OP_N;
    x->epilogue = (int)d->data[CUBLASLT_MATMUL_DESC_EPILOGUE];
    x->bias = (uint8_t *)(uintptr_t)d->data[CUBLASLT_MATMUL_DESC_BIAS_POINTER];
    uint64_t t = d->data[CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE];
    x->bias_type = t == UINT64_MAX ? x->d.type : (cudaDataType)t;
    bool known =
        x->epilogue == CUBLASLT_EPILOGUE_DEFAULT || x->epilogue == CUBLASLT_EPILOGUE_BIAS ||
        ((x->epilogue == CUBLASLT_EPILOGUE_BGRADA || x->epilogue == CUBLASLT_EPILOGUE_BGRADB) &&
         x->d.batches == 1);
    if (!known || d->data[CUBLASLT_MATMUL_DESC_TRANSC] != CUBLAS_OP_N ||
        d->data[CUBLASLT_MATMUL_DESC_POINTER_MODE] != CUBLASLT_POINTER_MODE_HOST ||
        !types_fit(x, (int64_t)d->data[CUBLASLT_MATMUL_DESC_COMPUTE_TYPE],
                   (int64_t)d->data[CUBLASLT_MATMUL_DESC_SCALE_TYPE])) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    bool whole = is_whole(&x->a) && is_whole(&x->b) && is_whole(&x->c) && is_whole(&x->d);
    int64_t k = x->ta ? x->a.rows : x->a.cols;
    bool match = (x->ta ? x->a.cols : x->a.rows) == x->d.rows &&
                 (x->tb ? x->b.rows : x->b.cols) == x->d.cols &&
                 (x->tb ? x->b.cols : x->b.rows) == k && x->c.rows == x->d.rows &&
                 x->c.cols == x->d.cols && x->a.batches == x->d.batches &&
                 x->b.batches == x->d.batches && x->c.batches == x->d.batches;
    return whole && match ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t status_of(cudaError_t e)
{
    return e == cudaSuccess                 ? CUBLAS_STATUS_SUCCESS
           : e == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED
           : e == cudaErrorNotSupported     ? CUBLAS_STATUS_NOT_SUPPORTED
                                            : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* A call that may be ordered to fail. */
static cublasStatus_t called(const char *name)
{
    return status_of(fake_leave(fake_enter(name)));
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    cublasStatus_t st = called("cublasLtCreate");
    *h = st == CUBLAS_STATUS_SUCCESS ? calloc(1, sizeof(**h)) : NULL;
    fake_relock();
    fake.use.handles += *h != NULL;
    static unsigned made;
    if (*h != NULL) {
        (*h)->number = ++made;
    }
    (void)fake_leave(cudaSuccess);
    return st;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    cublasStatus_t st = called("cublasLtDestroy");
    fake_relock();
    fake.use.handles -= h != NULL;
    (void)fake_leave(cudaSuccess);
    free(h);
    return st;
}

const char *cublasLtGetStatusName(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_SUCCESS            ? "CUBLAS_STATUS_SUCCESS"
           : s == CUBLAS_STATUS_ALLOC_FAILED     ? "CUBLAS_STATUS_ALLOC_FAILED"
           : s == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
           : s == CUBLAS_STATUS_NOT_SUPPORTED    ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                 : "CUBLAS_STATUS_INVALID_VALUE";
}

const char *cublasLtGetStatusString(cublasStatus_t s)
{
    return cublasLtGetStatusName(s);
}

size_t cublasLtGetVersion(void)
{
    return 130000;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    *l = calloc(1, sizeof(**l));
    if (*l == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    (*l)->data[CUBLASLT_MATRIX_LAYOUT_TYPE] = type;
    (*l)->data[CUBLASLT_MATRIX_LAYOUT_ROWS] = rows;
    (*l)->data[CUBLASLT_MATRIX_LAYOUT_COLS] = cols;
    (*l)->data[CUBLASLT_MATRIX_LAYOUT_LD] = (uint64_t)ld;
    (*l)->data[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT] = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

/* Widens an attribute of 4 bytes without a sign, or takes one of 8. */
static cublasStatus_t set(uint64_t *at, const void *v, size_t bytes, size_t want)
{
    uint32_t narrow;
    if (bytes != want) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (bytes == 8) {
        memcpy(at, v, 8);
    } else {
        memcpy(&narrow, v, 4);
        *at = narrow;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t a, const void *v,
                                                size_t bytes)
{
    bool narrow = a == CUBLASLT_MATRIX_LAYOUT_TYPE || a == CUBLASLT_MATRIX_LAYOUT_ORDER ||
                  a == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    return a < CUBLASLT_MATRIX_LAYOUT_N ? set(&l->data[a], v, bytes, narrow ? 4 : 8)
                                        : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute,
                                        cudaDataType scale)
{
    *d = calloc(1, sizeof(**d));
    if (*d == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    (*d)->data[CUBLASLT_MATMUL_DESC_COMPUTE_TYPE] = compute;
    (*d)->data[CUBLASLT_MATMUL_DESC_SCALE_TYPE] = scale;
    (*d)->data[CUBLASLT_MATMUL_DESC_EPILOGUE] = CUBLASLT_EPILOGUE_DEFAULT;
    (*d)->data[CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE] = UINT64_MAX;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t a, const void *v,
                                              size_t bytes)
{
    bool wide =
        a == CUBLASLT_MATMUL_DESC_BIAS_POINTER || a == CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE;
    return a < CUBLASLT_MATMUL_DESC_N ? set(&d->data[a], v, bytes, wide ? 8 : 4)
                                      : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = calloc(1, sizeof(**p));
    return *p != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t a,
                                                    const void *v, size_t bytes)
{
    uint64_t ignored;
    bool room = a == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    return set(room ? &p->data[0] : &ignored, v, bytes, room ? 8 : 4);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out,
                                              cublasLtMatmulPreference_t p, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *n)
{
    *n = 0;
    cublasStatus_t st = called("cublasLtMatmulAlgoGetHeuristic");
    if (st == CUBLAS_STATUS_SUCCESS && (h == NULL || wanted < 1)) {
        st = CUBLAS_STATUS_INVALID_VALUE;
    }
    struct product x = {.a = matrix_of(a, NULL),
                        .b = matrix_of(b, NULL),
                        .c = matrix_of(c, NULL),
                        .d = matrix_of(out, NULL)};
    st = st == CUBLAS_STATUS_SUCCESS ? describe(d, &x) : st;
    if (st == CUBLAS_STATUS_SUCCESS) {
        size_t room = (size_t)p->data[0];
        results[0] = (cublasLtMatmulHeuristicResult_t){
            .workspaceSize = room < WORKSPACE ? 0 : WORKSPACE, .state = CUBLAS_STATUS_SUCCESS};
        results[0].algo.data[0] = results[0].workspaceSize;
        *n = 1;
        if (wanted > 1) { /* another way, without a workspace */
            results[1] = (cublasLtMatmulHeuristicResult_t){.state = CUBLAS_STATUS_SUCCESS};
            *n = 2;
        }
    }
    return st;
}

/* The alignment that a library may look at when it chooses an algorithm. */
static int64_t align_of(const void *p, const void *q, const void *r)
{
    uintptr_t x = (uintptr_t)p | (uintptr_t)q | (uintptr_t)r | 256;
    return (int64_t)(x & (~x + 1));
}

/* Whether no product of this shape, alignment and algorithm was given before; the library would
 * load a kernel then. */
static bool is_first(cublasLtHandle_t h, const struct product *x, const cublasLtMatmulAlgo_t *algo)
{
    bool adds = x->beta != 0.0;
    const void *bias = x->epilogue == CUBLASLT_EPILOGUE_BIAS ? x->bias : NULL;
    const int64_t words[] = {h->number, /* each device of a test has its own */
                             x->a.rows,
                             x->a.cols,
                             x->b.cols,
                             x->d.rows,
                             x->d.cols,
                             x->ta,
                             x->tb,
                             x->a.type,
                             x->d.type,
                             adds,
                             x->epilogue,
                             align_of(x->a.p, NULL, NULL),
                             align_of(x->b.p, NULL, NULL),
                             align_of(x->d.p, adds ? x->c.p : NULL, bias),
                             algo != NULL ? (int64_t)algo->data[0] : 0};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof(words); i++) {
        hash = (hash ^ ((const uint8_t *)words)[i]) * UINT64_C(0x100000001b3);
    }
    fake_relock();
    unsigned n = fake.use.first_products, i = 0;
    while (i < n && fake.shape[i] != hash) {
        i++;
    }
    bool first = i == n && n < sizeof(fake.shape) / sizeof(fake.shape[0]);
    if (first) {
        fake.shape[fake.use.first_products++] = hash;
        fake_waits_for_all();
    }
    (void)fake_leave(cudaSuccess);
    return first;
}

static double scalar(cublasLtMatmulDesc_t d, const void *p)
{
    return load(p, (cudaDataType)d->data[CUBLASLT_MATMUL_DESC_SCALE_TYPE], 0);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *out, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
                              cudaStream_t s)
{
    cublasStatus_t st = called("cublasLtMatmul");
    struct product x = {.a = matrix_of(la, a),
                        .b = matrix_of(lb, b),
                        .c = matrix_of(lc, c),
                        .d = matrix_of(ld, out),
                        .alpha = scalar(d, alpha),
                        .beta = scalar(d, beta)};
    st = st == CUBLAS_STATUS_SUCCESS ? describe(d, &x) : st;
    if (st == CUBLAS_STATUS_SUCCESS && (h == NULL || (algo != NULL && bytes < algo->data[0]))) {
        st = CUBLAS_STATUS_INVALID_VALUE;
    }
    if (st != CUBLAS_STATUS_SUCCESS) {
        return st;
    }
    x.workspace = workspace;
    x.workspace_bytes = algo != NULL ? (size_t)algo->data[0] : 0;
    x.first = is_first(h, &x, algo);
    struct hsp_fake_work w = {
        .name = "product", .func = "product", .run = run_product, .args = &x, .bytes = sizeof(x)};
    return status_of(hsp_fake_submit(s, &w));
}
