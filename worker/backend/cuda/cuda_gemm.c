/* Runs the products of linear layers by cuBLASLt, with bias and addends. A plain kernel runs
 * products for which the library has no code (bf16 before sm_80).
 *
 * Numbers: fp32 products are exact fp32 unless the job asks for TF32; bf16 is summed in fp32.
 *          Partial sums over k are never kept in bf16, and no algorithm adds in the order in which
 *          its blocks end: the bits are the same from run to run.
 * Plans:   the choices of the library's heuristic are kept as a plan for each shape. A queue that
 *          has 3/4 of MAX_PLANS forgets all its plans. A plan has at most MAX_ALGOS algorithms. If
 *          the library refuses to run one, the next is tried, and after the last the plain kernel:
 *          the product is slow, but the step goes on.
 * Warmth:  the library loads a kernel when it starts it for the first time, and this waits until
 *          the device is idle: for ever, if a receive on the device waits for a peer that waits for
 *          us. So a program's products are run once before its first step. */
#include "worker/backend/cuda/cuda_gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/backend/cuda/cuda_device.h"
#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/cuda_memory.h"
#include "worker/backend/cuda/gemm_plain.h"

#define MAX_PLANS 256  /* a model has about 30 products for each shape of a micro-batch */
#define MAX_ALGOS 3    /* algorithms of a plan at most */
#define WARMED    8192 /* places for products that have been run */

/* All inputs of the choice of an algorithm; two keys are compared as bytes. */
struct gemm_key {
    int64_t m, n, k, lda, ldb;
    int32_t type, out_type, tf32, ta, tb, bias, add, align[3];
};

struct gemm_plan {
    struct gemm_key key;
    bool used, plain; /* plain: run by our kernel */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t la, lb, ld;
    struct gemm_algo {
        cublasLtMatmulAlgo_t algo;
        size_t workspace;
    } algo[MAX_ALGOS]; /* in the order of the heuristic, the fastest first */
    int now, n_algos;  /* now: the algorithm in use */
};

struct gemm_plans {
    struct gemm_plan plan[MAX_PLANS];
    int n;
};

/* The plans of all queues. The plans of a queue belong to its caller; the first caller of any queue
 * makes the table. */
struct gemm_table {
    struct gemm_plans of[HSP_N_DEVQ];
    /* hashes of the keys of products that have been run, 0: free; for the thread that warms up */
    uint64_t warmed[WARMED];
    int n_warmed;
};

/* ---- plans ---- */

static void gemm_plan_fini(struct gemm_plan *p)
{
    if (p->la != NULL) {
        (void)cublasLtMatrixLayoutDestroy(p->la);
    }
    if (p->lb != NULL) {
        (void)cublasLtMatrixLayoutDestroy(p->lb);
    }
    if (p->ld != NULL) {
        (void)cublasLtMatrixLayoutDestroy(p->ld);
    }
    if (p->desc != NULL) {
        (void)cublasLtMatmulDescDestroy(p->desc);
    }
    *p = (struct gemm_plan){0};
}

void hsp_cuda_gemm_free(struct hsp_cuda *g)
{
    struct gemm_table *t = g->gemm;
    for (int i = 0; t != NULL && i < HSP_N_DEVQ * MAX_PLANS; i++) {
        gemm_plan_fini(&t->of[i / MAX_PLANS].plan[i % MAX_PLANS]);
    }
    free(t);
    g->gemm = NULL;
}

static struct gemm_plans *gemm_plans_of(struct hsp_cuda *g, enum hsp_devq q)
{
    void *t = __atomic_load_n(&g->gemm, __ATOMIC_ACQUIRE);
    if (t == NULL) {
        struct gemm_table *made = calloc(1, sizeof(*made));
        if (made == NULL) {
            return NULL;
        }
        if (__atomic_compare_exchange_n(&g->gemm, &t, (void *)made, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            t = made;
        } else {
            free(made);
        }
    }
    return &((struct gemm_table *)t)->of[q];
}

/* Returns the alignment that all the addresses share, at most 256. */
static int32_t gemm_align(const void *p, const void *q, const void *r)
{
    uintptr_t x = (uintptr_t)p | (uintptr_t)q | (uintptr_t)r | 256;
    return (int32_t)(x & (~x + 1));
}

static enum hsp_status gemm_check(struct hsp_cuda *g, cublasStatus_t s, const struct hsp_product *p,
                                  struct hsp_err *err)
{
    char what[120];
    if (s == CUBLAS_STATUS_SUCCESS) {
        return HSP_OK;
    }
    (void)snprintf(what, sizeof(what), "a product %lld x %lld x %lld of %s", (long long)p->m,
                   (long long)p->k, (long long)p->n, hsp_dtype_name(p->type));
    return hsp_cuda_check_lt(g, s, what, err);
}

/* Returns the bytes of workspace that an algorithm may ask for, as the library's authors
 * recommend. */
static uint64_t gemm_workspace(const struct hsp_cuda *g)
{
    return (uint64_t)(g->sm >= 90 ? 32 : 8) << 20;
}

/* Returns whether @s says that the library refused the call, and has done nothing. */
static bool gemm_refused(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_NOT_SUPPORTED || s == CUBLAS_STATUS_INVALID_VALUE ||
           s == CUBLAS_STATUS_ARCH_MISMATCH;
}

/* Asks the library for the algorithms of a plan whose descriptions have been made. The plan becomes
 * plain if there is none. */
static cublasStatus_t gemm_ask(struct hsp_cuda *g, struct gemm_plan *p,
                               cublasLtMatmulPreference_t pref)
{
    cublasLtMatmulHeuristicResult_t found[MAX_ALGOS];
    int n = 0;
    cublasStatus_t s = cublasLtMatmulAlgoGetHeuristic(g->lt, p->desc, p->la, p->lb, p->ld, p->ld,
                                                      pref, MAX_ALGOS, found, &n);
    if (s != CUBLAS_STATUS_SUCCESS && !gemm_refused(s)) {
        return s;
    }
    for (int i = 0; s == CUBLAS_STATUS_SUCCESS && i < n; i++) {
        if (found[i].state == CUBLAS_STATUS_SUCCESS) {
            p->algo[p->n_algos++] = (struct gemm_algo){found[i].algo, found[i].workspaceSize};
        }
    }
    p->plain = p->n_algos == 0;
    return CUBLAS_STATUS_SUCCESS;
}

/* Asks the heuristic for algorithms that meet our conditions on workspace, reduction and
 * alignment. */
static cublasStatus_t gemm_choose(struct hsp_cuda *g, struct gemm_plan *p)
{
    static const cublasLtMatmulPreferenceAttributes_t align[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    uint64_t workspace = gemm_workspace(g);
    uint32_t scheme = 2; /* allows partial sums over k in the type of the computation, or none */
    cublasLtMatmulPreference_t pref;
    cublasStatus_t s = cublasLtMatmulPreferenceCreate(&pref);
    if (s != CUBLAS_STATUS_SUCCESS) {
        return s;
    }
    s = cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace, sizeof(workspace));
    if (s == CUBLAS_STATUS_SUCCESS) {
        s = cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                 &scheme, sizeof(scheme));
    }
    for (int i = 0; i < 4 && s == CUBLAS_STATUS_SUCCESS; i++) {
        uint32_t bytes = (uint32_t)p->key.align[i < 2 ? i : 2];
        s = cublasLtMatmulPreferenceSetAttribute(pref, align[i], &bytes, sizeof(bytes));
    }
    if (s == CUBLAS_STATUS_SUCCESS) {
        s = gemm_ask(g, p, pref);
    }
    (void)cublasLtMatmulPreferenceDestroy(pref);
    return s;
}

static cudaDataType_t gemm_type(enum hsp_dtype t)
{
    return t == HSP_F64 ? CUDA_R_64F : t == HSP_F32 ? CUDA_R_32F : CUDA_R_16BF;
}

/* Sets the bias of the next product of the plan; a plan serves many products. */
static cublasStatus_t gemm_set_bias(const struct gemm_plan *p, const void *bias)
{
    return cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                          sizeof(bias));
}

static cublasStatus_t gemm_describe(struct hsp_cuda *g, const struct hsp_product *x,
                                    struct gemm_plan *p)
{
    bool wide = x->type == HSP_F64;
    cudaDataType_t type = gemm_type(x->type);
    cublasComputeType_t compute = wide          ? CUBLAS_COMPUTE_64F
                                  : p->key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                : CUBLAS_COMPUTE_32F;
    int32_t ta = x->ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = x->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t s = cublasLtMatmulDescCreate(&p->desc, compute, wide ? CUDA_R_64F : CUDA_R_32F);
    if (s == CUBLAS_STATUS_SUCCESS) {
        s = cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof(ta));
    }
    if (s == CUBLAS_STATUS_SUCCESS) {
        s = cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof(tb));
    }
    if (s == CUBLAS_STATUS_SUCCESS && x->bias != NULL) {
        int32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        s = cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                           sizeof(epilogue));
        s = s == CUBLAS_STATUS_SUCCESS ? gemm_set_bias(p, x->bias) : s;
    }
    if (s == CUBLAS_STATUS_SUCCESS) {
        s = cublasLtMatrixLayoutCreate(&p->la, type, (uint64_t)(x->ta ? x->k : x->m),
                                       (uint64_t)(x->ta ? x->m : x->k), x->lda);
    }
    if (s == CUBLAS_STATUS_SUCCESS) {
        s = cublasLtMatrixLayoutCreate(&p->lb, type, (uint64_t)(x->tb ? x->n : x->k),
                                       (uint64_t)(x->tb ? x->k : x->n), x->ldb);
    }
    if (s == CUBLAS_STATUS_SUCCESS) {
        s = cublasLtMatrixLayoutCreate(&p->ld, gemm_type(x->out_type), (uint64_t)x->m,
                                       (uint64_t)x->n, x->m);
    }
    p->plain = x->type == HSP_BF16 && g->sm < 80;
    return s == CUBLAS_STATUS_SUCCESS && !p->plain ? gemm_choose(g, p) : s;
}

/* Returns the FNV-1a hash of the key's bytes. */
static uint64_t gemm_hash(const struct gemm_key *k)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof(*k); i++) {
        h = (h ^ ((const uint8_t *)k)[i]) * UINT64_C(0x100000001b3);
    }
    return h;
}

static struct gemm_key gemm_key_of(const struct hsp_cuda *g, const struct hsp_product *x)
{
    struct gemm_key key;
    memset(&key, 0, sizeof(key));
    key.m = x->m;
    key.n = x->n;
    key.k = x->k;
    key.lda = x->lda;
    key.ldb = x->ldb;
    key.type = (int32_t)x->type;
    key.out_type = (int32_t)x->out_type;
    key.bias = x->bias != NULL;
    key.add = x->c != NULL;
    key.tf32 = (x->tf32 || g->tf32) && x->type == HSP_F32 && g->sm >= 80;
    key.ta = x->ta;
    key.tb = x->tb;
    key.align[0] = gemm_align(x->a, NULL, NULL);
    key.align[1] = gemm_align(x->b, NULL, NULL);
    /* the library takes the alignment of a bias together with that of D */
    key.align[2] = gemm_align(x->d, x->c, x->bias);
    return key;
}

/* Returns the plan of a product, which is kept or made. */
static enum hsp_status gemm_plan_of(struct hsp_cuda *g, enum hsp_devq q,
                                    const struct hsp_product *x, struct gemm_plan **ret,
                                    struct hsp_err *err)
{
    struct gemm_plans *all = gemm_plans_of(g, q);
    if (all == NULL) {
        return hsp_err_nomem(err, "plans of products");
    }
    const struct gemm_key key = gemm_key_of(g, x);
    uint64_t at = gemm_hash(&key) % MAX_PLANS;
    for (; all->plan[at].used; at = (at + 1) % MAX_PLANS) {
        if (memcmp(&all->plan[at].key, &key, sizeof(key)) == 0) {
            *ret = &all->plan[at];
            return HSP_OK;
        }
    }
    if (all->n == MAX_PLANS / 4 * 3) {
        for (int i = 0; i < MAX_PLANS; i++) {
            gemm_plan_fini(&all->plan[i]);
        }
        all->n = 0;
        at = gemm_hash(&key) % MAX_PLANS;
    }
    struct gemm_plan *p = &all->plan[at];
    p->key = key;
    enum hsp_status st = gemm_check(g, gemm_describe(g, x, p), x, err);
    if (st != HSP_OK) {
        gemm_plan_fini(p);
        return st;
    }
    p->used = true;
    all->n++;
    *ret = p;
    return HSP_OK;
}

/* ---- the ops ---- */

/* Gives a product to the library by the algorithm of its plan that is in use. */
static enum hsp_status gemm_try(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_product *x,
                                const struct gemm_plan *p, cublasStatus_t *ret, struct hsp_err *err)
{
    static const double one64 = 1, none64 = 0;
    static const float one32 = 1, none32 = 0;
    const struct gemm_algo *a = &p->algo[p->now];
    void *workspace = NULL;
    if (a->workspace > 0) {
        enum hsp_status st = hsp_cuda_scratch(g, q, a->workspace, &workspace, err);
        if (st != HSP_OK) {
            return st;
        }
    }
    bool wide = x->type == HSP_F64;
    const void *one = wide ? (const void *)&one64 : &one32;
    const void *none = wide ? (const void *)&none64 : &none32;
    cublasStatus_t s = x->bias != NULL ? gemm_set_bias(p, x->bias) : CUBLAS_STATUS_SUCCESS;
    if (s == CUBLAS_STATUS_SUCCESS) {
        s = cublasLtMatmul(g->lt, p->desc, one, x->a, p->la, x->b, p->lb, x->c != NULL ? one : none,
                           x->c != NULL ? x->c : x->d, p->ld, x->d, p->ld, &a->algo, workspace,
                           a->workspace, g->stream[q]);
    }
    *ret = s;
    return HSP_OK;
}

/* Returns HSP_OK if another way may be tried after the library has failed with @s. */
static enum hsp_status gemm_goes_on(struct hsp_cuda *g, enum hsp_devq q, cublasStatus_t s,
                                    const struct hsp_product *x, struct hsp_err *err)
{
    if (gemm_refused(s)) {
        (void)cudaGetLastError();
        return HSP_OK;
    }
    if (s == CUBLAS_STATUS_EXECUTION_FAILED || s == CUBLAS_STATUS_INTERNAL_ERROR) {
        return hsp_cuda_goes_on(g, q, "a product", err);
    }
    return gemm_check(g, s, x, err);
}

/* Gives a product to the library by its plan. If *ret_done is false, the plan is plain from now on,
 * and nothing was given. */
static enum hsp_status gemm_call(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_product *x,
                                 struct gemm_plan *p, bool *ret_done, struct hsp_err *err)
{
    *ret_done = false;
    while (!p->plain && !*ret_done) {
        cublasStatus_t s;
        enum hsp_status st = gemm_try(g, q, x, p, &s, err);
        *ret_done = st == HSP_OK && s == CUBLAS_STATUS_SUCCESS;
        if (st == HSP_OK && !*ret_done) {
            st = gemm_goes_on(g, q, s, x, err);
        }
        if (st != HSP_OK) {
            return st;
        }
        p->now += !*ret_done;
        p->plain = p->now == p->n_algos;
    }
    return HSP_OK;
}

static enum hsp_status gemm_run(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_product *x,
                                struct hsp_err *err)
{
    if (x->m == 0 || x->n == 0) {
        return HSP_OK;
    }
    if (x->k == 0 && x->c != NULL) {
        return HSP_OK;
    }
    if (x->k == 0) {
        size_t bytes = (size_t)x->m * (size_t)x->n * hsp_dtype_size(x->out_type);
        return hsp_cuda_check(g, cudaMemsetAsync(x->d, 0, bytes, g->stream[q]), "an empty sum",
                              err);
    }
    struct gemm_plan *p;
    enum hsp_status st = gemm_plan_of(g, q, x, &p, err);
    if (st != HSP_OK) {
        return st;
    }
    bool done;
    st = gemm_call(g, q, x, p, &done, err);
    return st == HSP_OK && !done ? hsp_cuda_gemm_plain(g, q, x, err) : st;
}

/* cuBLASLt counts by columns: a row-major [r, c] is a matrix of c rows and r columns. */

/* y[M, n] = x[M, k] w[n, k]^T */
static struct hsp_product gemm_linear(const struct hsp_call *c)
{
    const struct hsp_array *x = &c->in[0], *w = &c->in[1];
    struct hsp_product p = {0};
    p.ta = true;
    p.m = w->ext[0];
    p.n = x->ext[0] * x->ext[1];
    p.k = p.lda = p.ldb = x->ext[2];
    p.a = w->data;
    p.b = x->data;
    return p;
}

/* dx[M, k] = dy[M, n] w[n, k] */
static struct hsp_product gemm_linear_dx(const struct hsp_call *c)
{
    const struct hsp_array *dy = &c->in[0], *w = &c->in[1];
    struct hsp_product p = {0};
    p.m = p.lda = w->ext[1];
    p.n = dy->ext[0] * dy->ext[1];
    p.k = p.ldb = w->ext[0];
    p.a = w->data;
    p.b = dy->data;
    return p;
}

/* dw[n, k] = dy[M, n]^T x[M, k] */
static struct hsp_product gemm_linear_dw(const struct hsp_call *c)
{
    const struct hsp_array *dy = &c->in[0], *x = &c->in[1];
    struct hsp_product p = {0};
    p.tb = true;
    p.m = p.lda = x->ext[2];
    p.n = p.ldb = dy->ext[2];
    p.k = dy->ext[0] * dy->ext[1];
    p.a = x->data;
    p.b = dy->data;
    return p;
}

/* Reads a product from @c, a linear, linear_dx or linear_dw. */
static struct hsp_product gemm_read(const struct hsp_call *c)
{
    struct hsp_product p = c->op == HSP_OP_LINEAR      ? gemm_linear(c)
                           : c->op == HSP_OP_LINEAR_DX ? gemm_linear_dx(c)
                                                       : gemm_linear_dw(c);
    p.type = c->in[0].dtype;
    p.out_type = c->out[0].dtype;
    p.tf32 = c->tf32;
    p.d = c->out[0].data;
    p.c = c->adds != 0 ? p.d : NULL;
    return p;
}

enum hsp_status hsp_cuda_product(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                 struct hsp_err *err)
{
    struct hsp_product p = gemm_read(c);
    return gemm_run(g, q, &p, err);
}

/* ---- products with bias and addends ---- */

static bool gemm_apart(const struct hsp_array *a, const struct hsp_array *b)
{
    const char *x = (const char *)a->data, *y = (const char *)b->data;
    return x + (size_t)hsp_cuda_count(a) * hsp_dtype_size(a->dtype) <= y ||
           y + (size_t)hsp_cuda_count(b) * hsp_dtype_size(b->dtype) <= x;
}

/* Returns whether one call of the library can compute the product and its additions: the types
 * agree, and the result overlaps no operand. */
static bool gemm_sum_fits(const struct hsp_call *c, const struct hsp_sum *s)
{
    enum hsp_dtype t = c->in[0].dtype, out = s->out->dtype;
    bool fits = out == t || (t == HSP_BF16 && out == HSP_F32);
    for (int i = 0; i < 2; i++) {
        fits = fits && gemm_apart(s->out, &c->in[i]);
    }
    if (s->bias != NULL) {
        fits = fits && s->bias->dtype == out && gemm_apart(s->out, s->bias);
    }
    if (s->add != NULL) {
        fits = fits && s->add->dtype == out &&
               (s->add->data == s->out->data || gemm_apart(s->out, s->add));
    }
    return fits;
}

/* Reads a product with its additions. Returns false if one call cannot run them, or nothing is to
 * be done. */
static bool gemm_read_sum(const struct hsp_call *c, const struct hsp_sum *s, struct hsp_product *x)
{
    *x = gemm_read(c);
    if (x->m == 0 || x->n == 0 || x->k == 0 || !gemm_sum_fits(c, s)) {
        return false;
    }
    x->out_type = s->out->dtype;
    x->bias = s->bias != NULL ? s->bias->data : NULL;
    x->c = s->add != NULL ? s->add->data : NULL;
    x->d = s->out->data;
    return true;
}

enum hsp_status hsp_cuda_product_sum(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                     const struct hsp_sum *s, bool *ret_done, struct hsp_err *err)
{
    struct hsp_product x;
    struct gemm_plan *p;
    *ret_done = false;
    if (!gemm_read_sum(c, s, &x)) {
        return HSP_OK;
    }
    enum hsp_status st = gemm_plan_of(g, q, &x, &p, err);
    return st == HSP_OK ? gemm_call(g, q, &x, p, ret_done, err) : st;
}

/* Returns the place of a product in the table of products that have been run: it holds @hash if
 * this product has been run, and 0 if not. Kernels stay loaded, so the plan may have been forgotten
 * since. Forgets all products if the table has too many. */
static uint64_t *gemm_warm_note(struct gemm_table *t, uint64_t hash)
{
    if (t->n_warmed == WARMED / 4 * 3) {
        memset(t->warmed, 0, sizeof(t->warmed));
        t->n_warmed = 0;
    }
    uint64_t at = (hash >> 1) % WARMED;
    while (t->warmed[at] != 0 && t->warmed[at] != hash) {
        at = (at + 1) % WARMED;
    }
    return &t->warmed[at];
}

enum hsp_status hsp_cuda_product_warm(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                      const struct hsp_sum *s, struct hsp_err *err)
{
    struct hsp_product x;
    struct gemm_plan *p;
    bool sum = s != NULL && gemm_read_sum(c, s, &x), done = true;
    x = sum ? x : gemm_read(c);
    if (x.m == 0 || x.n == 0 || x.k == 0) {
        return HSP_OK;
    }
    if (gemm_plans_of(g, q) == NULL) {
        return hsp_err_nomem(err, "plans of products");
    }
    const struct gemm_key key = gemm_key_of(g, &x);
    const uint64_t hash = gemm_hash(&key) | 1; /* never 0, which means free */
    struct gemm_table *t = g->gemm;
    uint64_t *note = gemm_warm_note(t, hash);
    if (*note == hash) {
        return HSP_OK;
    }
    enum hsp_status st = gemm_plan_of(g, q, &x, &p, err);
    st = st == HSP_OK ? gemm_call(g, q, &x, p, &done, err) : st;
    if (st == HSP_OK) {
        *note = hash;
        t->n_warmed++;
    }
    return st == HSP_OK && sum && !done ? hsp_cuda_product_warm(g, q, c, NULL, err) : st;
}
