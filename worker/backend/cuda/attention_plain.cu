/* Computes attention without tensor cores, for fp32, fp64, and for bf16 if flash*.cu has no kernel.
 * The method is that of attention.cuh, with tiles in shared memory in the wide type, 16 x 16
 * threads, and TS x TS scores and TS x NC results a thread. Sums are made in ascending order of
 * keys or rows. */
#include "worker/backend/cuda/attention.cuh"
#include "worker/backend/cuda/cuda_device.h"
#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/cuda_memory.h"
#include "worker/backend/cuda/element.cuh"

#define PLAIN_SIDE    16
#define PLAIN_THREADS (PLAIN_SIDE * PLAIN_SIDE)

/* tile[ROWS][d + 1] <- rows from r0 on of the @n rows, @stride apart; zeros beyond the last row. */
template <class T, int ROWS>
static __device__ __forceinline__ void plain_load(hsp_wide<T> *tile, const T *from, int64_t stride,
                                                  int r0, int n, int d)
{
    for (int i = threadIdx.x; i < ROWS * d; i += PLAIN_THREADS) {
        int row = i / d, column = i % d;
        tile[row * (d + 1) + column] =
            r0 + row < n ? hsp_widen(from[(int64_t)(r0 + row) * stride + column]) : 0;
    }
}

/* c[i][j] = row ty + 16 i of x times row tx + 16 j of y */
template <int TS, class W>
static __device__ __forceinline__ void plain_scores(W (&c)[TS][TS], const W *x, const W *y, int d)
{
    int tx = threadIdx.x % PLAIN_SIDE, ty = threadIdx.x / PLAIN_SIDE;
#pragma unroll
    for (int i = 0; i < TS * TS; i++) {
        c[i / TS][i % TS] = 0;
    }
    for (int k = 0; k < d; k++) {
#pragma unroll
        for (int i = 0; i < TS; i++) {
#pragma unroll
            for (int j = 0; j < TS; j++) {
                c[i][j] +=
                    x[(ty + PLAIN_SIDE * i) * (d + 1) + k] * y[(tx + PLAIN_SIDE * j) * (d + 1) + k];
            }
        }
    }
}

/* sum[i][c] += row ty + 16 i of the weights p (rows of 16 TS + 1) times column tx + 16 c of x */
template <int TS, int NC, class W>
static __device__ __forceinline__ void plain_add(W (&sum)[TS][NC], const W *p, const W *x, int d)
{
    int tx = threadIdx.x % PLAIN_SIDE, ty = threadIdx.x / PLAIN_SIDE;
    for (int k = 0; k < PLAIN_SIDE * TS; k++) {
#pragma unroll
        for (int c = 0; c < NC; c++) {
            if (tx + PLAIN_SIDE * c < d) {
                W v = x[k * (d + 1) + tx + PLAIN_SIDE * c];
#pragma unroll
                for (int i = 0; i < TS; i++) {
                    sum[i][c] += p[(ty + PLAIN_SIDE * i) * (PLAIN_SIDE * TS + 1) + k] * v;
                }
            }
        }
    }
}

/* Rows of @to from r0 on, below @n <- factor[row] * sum. */
template <class T, int TS, int NC>
static __device__ __forceinline__ void plain_store(T *to, int64_t stride, int r0, int n, int d,
                                                   const hsp_wide<T> (&sum)[TS][NC],
                                                   const hsp_wide<T> (&factor)[TS])
{
    int tx = threadIdx.x % PLAIN_SIDE, ty = threadIdx.x / PLAIN_SIDE;
#pragma unroll
    for (int i = 0; i < TS; i++) {
#pragma unroll
        for (int c = 0; c < NC; c++) {
            int row = r0 + ty + PLAIN_SIDE * i, column = tx + PLAIN_SIDE * c;
            if (row < n && column < d) {
                hsp_narrow(sum[i][c] * factor[i], to + (int64_t)row * stride + column);
            }
        }
    }
}

/* The softmax so far of the rows ty + 16 i: the largest score, and the sum. */
template <int TS, class T> struct plain_softmax {
    typedef hsp_wide<T> W;
    W most[TS], sum[TS];

    /* Writes e^(c - largest so far) to @p. Returns in @shrink the factors by which earlier sums are
     * multiplied. */
    __device__ __forceinline__ void take(W (&c)[TS][TS], W *p, W (&shrink)[TS])
    {
        int tx = threadIdx.x % PLAIN_SIDE, ty = threadIdx.x / PLAIN_SIDE;
#pragma unroll
        for (int i = 0; i < TS; i++) {
            W top = most[i], total = 0;
#pragma unroll
            for (int j = 0; j < TS; j++) {
                top = c[i][j] > top ? c[i][j] : top;
            }
            for (int step = 8; step > 0; step /= 2) {
                W other = __shfl_xor_sync(~0U, top, step);
                top = other > top ? other : top;
            }
            W base = top == (W)-INFINITY ? (W)0 : top;
            shrink[i] = hsp_exp<W>(most[i] - base);
#pragma unroll
            for (int j = 0; j < TS; j++) {
                W e = hsp_exp<W>(c[i][j] - base);
                p[(ty + PLAIN_SIDE * i) * (PLAIN_SIDE * TS + 1) + tx + PLAIN_SIDE * j] = e;
                total += e;
            }
            for (int step = 8; step > 0; step /= 2) {
                total += __shfl_xor_sync(~0U, total, step);
            }
            sum[i] = sum[i] * shrink[i] + total;
            most[i] = top;
        }
    }
};

/* Returns the bytes of shared memory of a kernel with @tiles tiles of rows and @weights tiles of
 * scores. */
template <class T, int TS> static size_t plain_bytes(const struct att *a, int tiles, int weights)
{
    size_t rows = PLAIN_SIDE * TS, room = 64 * sizeof(int);
    return room +
           (tiles * rows * (size_t)(a->d + 1) + weights * rows * (rows + 1)) * sizeof(hsp_wide<T>);
}

template <class T, int TS, int NC>
static __global__ void __launch_bounds__(PLAIN_THREADS) plain_forward_kernel(struct att a)
{
    typedef hsp_wide<T> W;
    constexpr int ROWS = PLAIN_SIDE * TS;
    HSP_DYNAMIC_SHARED(int, room);
    W *q = (W *)(room + 64), *kv = q + ROWS * (a.d + 1), *p = kv + ROWS * (a.d + 1);
    int tx = threadIdx.x % PLAIN_SIDE, ty = threadIdx.x / PLAIN_SIDE;
    struct att_place place = att_place_of(a, (int)blockIdx.x, ROWS);
    int head = place.head, b = place.b, r0 = place.r0;
    int64_t at_q = att_at_q(a, b, 0, head), at_k = att_at_k(a, b, 0, head / a.group);
    struct att_range range = att_tile_range(a, b, r0, ROWS, room);
    plain_load<T, ROWS>(q, (const T *)a.q + at_q, a.stride_q, r0, a.s, a.d);
    plain_softmax<TS, T> x;
    W o[TS][NC], c[TS][TS], shrink[TS];
#pragma unroll
    for (int i = 0; i < TS; i++) {
        x.most[i] = (W)-INFINITY;
        x.sum[i] = 0;
        for (int k = 0; k < NC; k++) {
            o[i][k] = 0;
        }
    }
    for (int key0 = range.lo / ROWS * ROWS; key0 < range.hi; key0 += ROWS) {
        __syncthreads();
        plain_load<T, ROWS>(kv, (const T *)a.k + at_k, a.stride_k, key0, a.t, a.d);
        __syncthreads();
        plain_scores<TS>(c, q, kv, a.d);
#pragma unroll
        for (int i = 0; i < TS; i++) {
            int row = min(r0 + ty + PLAIN_SIDE * i, a.s - 1);
            int first = att_first(a, b, row), seen = att_seen(a, row);
#pragma unroll
            for (int j = 0; j < TS; j++) {
                int key = key0 + tx + PLAIN_SIDE * j;
                c[i][j] = key >= first && key < seen ? c[i][j] * (W)a.scale64 : (W)-INFINITY;
            }
        }
        x.take(c, p, shrink);
        __syncthreads();
        plain_load<T, ROWS>(kv, (const T *)a.v + at_k, a.stride_k, key0, a.t, a.d);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TS; i++) {
#pragma unroll
            for (int k = 0; k < NC; k++) {
                o[i][k] *= shrink[i];
            }
        }
        plain_add<TS, NC>(o, p, kv, a.d);
    }
#pragma unroll
    for (int i = 0; i < TS; i++) {
        int row = r0 + ty + PLAIN_SIDE * i;
        bool none = x.sum[i] == 0;
        if (tx == 0 && row < a.s) {
            ((W *)a.out_lse)[((int64_t)b * a.s + row) * a.h + head] =
                none ? (W)-INFINITY : x.most[i] + log(x.sum[i]);
        }
        shrink[i] = none ? (W)0 : 1 / x.sum[i];
    }
    plain_store<T>((T *)a.out + at_q, a.stride_q, r0, a.s, a.d, o, shrink);
}

/* ---- backward ---- */

/* Computes delta of one row of one head in each warp. */
template <class T> static __global__ void plain_delta_kernel(struct att a)
{
    typedef hsp_wide<T> W;
    int64_t at = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (at >= (int64_t)a.b * a.s * a.h) {
        return;
    }
    W sum = 0;
    for (int c = threadIdx.x % 32; c < a.d; c += 32) {
        sum += hsp_widen(((const T *)a.o)[at * a.d + c]) *
               hsp_widen(((const T *)a.dout)[at * a.d + c]);
    }
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0U, sum, step);
    }
    if (threadIdx.x % 32 == 0) {
        ((W *)a.delta)[at] = sum;
    }
}

/* *score <- the weight of a query and a key, *grad <- the gradient of their score without the
 * scale. */
template <class W>
static __device__ __forceinline__ void plain_pair(const struct att &a, int b, int row, int key,
                                                  W lse, W delta, W *score, W *grad)
{
    bool sees = row < a.s && key >= att_first(a, b, min(row, a.s - 1)) && key < att_seen(a, row);
    W p = sees ? hsp_exp<W>(*score * (W)a.scale64 - lse) : (W)0;
    *grad = sees ? p * (*grad - delta) : (W)0;
    *score = p;
}

template <class T, int TS, int NC>
static __global__ void __launch_bounds__(PLAIN_THREADS) plain_dq_kernel(struct att a)
{
    typedef hsp_wide<T> W;
    constexpr int ROWS = PLAIN_SIDE * TS;
    HSP_DYNAMIC_SHARED(int, room);
    int tile = ROWS * (a.d + 1);
    W *q = (W *)(room + 64), *dout = q + tile, *k = dout + tile, *v = k + tile, *ds = v + tile;
    int tx = threadIdx.x % PLAIN_SIDE, ty = threadIdx.x / PLAIN_SIDE;
    struct att_place place = att_place_of(a, (int)blockIdx.x, ROWS);
    int head = place.head, b = place.b, r0 = place.r0;
    int64_t at_q = att_at_q(a, b, 0, head), at_k = att_at_k(a, b, 0, head / a.group);
    struct att_range range = att_tile_range(a, b, r0, ROWS, room);
    plain_load<T, ROWS>(q, (const T *)a.q + at_q, a.stride_q, r0, a.s, a.d);
    plain_load<T, ROWS>(dout, (const T *)a.dout + at_q, a.stride_q, r0, a.s, a.d);
    W dq[TS][NC], c[TS][TS], e[TS][TS], lse[TS], delta[TS];
#pragma unroll
    for (int i = 0; i < TS; i++) {
        int row = min(r0 + ty + PLAIN_SIDE * i, a.s - 1);
        lse[i] = ((const W *)a.lse)[((int64_t)b * a.s + row) * a.h + head];
        delta[i] = ((const W *)a.delta)[((int64_t)b * a.s + row) * a.h + head];
        for (int n = 0; n < NC; n++) {
            dq[i][n] = 0;
        }
    }
    for (int key0 = range.lo / ROWS * ROWS; key0 < range.hi; key0 += ROWS) {
        __syncthreads();
        plain_load<T, ROWS>(k, (const T *)a.k + at_k, a.stride_k, key0, a.t, a.d);
        plain_load<T, ROWS>(v, (const T *)a.v + at_k, a.stride_k, key0, a.t, a.d);
        __syncthreads();
        plain_scores<TS>(c, q, k, a.d);
        plain_scores<TS>(e, dout, v, a.d);
#pragma unroll
        for (int i = 0; i < TS; i++) {
            int row = ty + PLAIN_SIDE * i;
#pragma unroll
            for (int j = 0; j < TS; j++) {
                int key = tx + PLAIN_SIDE * j;
                plain_pair(a, b, r0 + row, key0 + key, lse[i], delta[i], &c[i][j], &e[i][j]);
                ds[row * (ROWS + 1) + key] = e[i][j];
            }
        }
        __syncthreads();
        plain_add<TS, NC>(dq, ds, k, a.d);
    }
#pragma unroll
    for (int i = 0; i < TS; i++) {
        lse[i] = (W)a.scale64;
    }
    plain_store<T>((T *)a.dq + at_q, a.stride_q, r0, a.s, a.d, dq, lse);
}

/* Computes dk and dv of one tile of keys of one key head in each block. */
template <class T, int TS, int NC>
static __global__ void __launch_bounds__(PLAIN_THREADS) plain_dkv_kernel(struct att a)
{
    typedef hsp_wide<T> W;
    constexpr int ROWS = PLAIN_SIDE * TS;
    HSP_DYNAMIC_SHARED(int, room);
    int tile = ROWS * (a.d + 1);
    W *k = (W *)(room + 64), *v = k + tile, *q = v + tile, *dout = q + tile, *p = dout + tile;
    W *ds = p + ROWS * (ROWS + 1);
    int tx = threadIdx.x % PLAIN_SIDE, ty = threadIdx.x / PLAIN_SIDE;
    int k0 = (int)(blockIdx.x % a.tiles) * ROWS, key_head = blockIdx.x / a.tiles % a.key_heads;
    int b = blockIdx.x / a.tiles / a.key_heads;
    int64_t at_k = att_at_k(a, b, 0, key_head);
    plain_load<T, ROWS>(k, (const T *)a.k + at_k, a.stride_k, k0, a.t, a.d);
    plain_load<T, ROWS>(v, (const T *)a.v + at_k, a.stride_k, k0, a.t, a.d);
    W dk[TS][NC], dv[TS][NC], c[TS][TS], e[TS][TS], one[TS], scale[TS];
#pragma unroll
    for (int i = 0; i < TS; i++) {
        one[i] = 1;
        scale[i] = (W)a.scale64;
        for (int n = 0; n < NC; n++) {
            dk[i][n] = dv[i][n] = 0;
        }
    }
    int begin = a.causal ? att_clamp((int64_t)k0 - a.shift, 0, a.s) / ROWS * ROWS : 0;
    for (int head = key_head * a.group; head < (key_head + 1) * a.group; head++) {
        int64_t at_q = att_at_q(a, b, 0, head);
        for (int r0 = begin; r0 < a.s; r0 += ROWS) {
            __syncthreads();
            struct att_range range = att_tile_range(a, b, r0, ROWS, room);
            if (range.lo >= k0 + ROWS || range.hi <= k0) {
                continue;
            }
            plain_load<T, ROWS>(q, (const T *)a.q + at_q, a.stride_q, r0, a.s, a.d);
            plain_load<T, ROWS>(dout, (const T *)a.dout + at_q, a.stride_q, r0, a.s, a.d);
            __syncthreads();
            plain_scores<TS>(c, k, q, a.d);
            plain_scores<TS>(e, v, dout, a.d);
#pragma unroll
            for (int j = 0; j < TS; j++) {
                int column = tx + PLAIN_SIDE * j;
                int64_t stat = ((int64_t)b * a.s + min(r0 + column, a.s - 1)) * a.h + head;
                W lse = ((const W *)a.lse)[stat], delta = ((const W *)a.delta)[stat];
#pragma unroll
                for (int i = 0; i < TS; i++) {
                    int row = ty + PLAIN_SIDE * i;
                    plain_pair(a, b, r0 + column, k0 + row, lse, delta, &c[i][j], &e[i][j]);
                    p[row * (ROWS + 1) + column] = c[i][j];
                    ds[row * (ROWS + 1) + column] = e[i][j];
                }
            }
            __syncthreads();
            plain_add<TS, NC>(dv, p, dout, a.d);
            plain_add<TS, NC>(dk, ds, q, a.d);
        }
    }
    plain_store<T>((T *)a.dk + at_k, a.stride_k, k0, a.t, a.d, dk, scale);
    plain_store<T>((T *)a.dv + at_k, a.stride_k, k0, a.t, a.d, dv, one);
}

/* ---- host ---- */

/* Launches @kernel with one block for each tile of @tile_rows of the @rows rows of each of @heads
 * heads. */
static enum hsp_status plain_launch(struct hsp_cuda *g, enum hsp_devq q, void (*kernel)(struct att),
                                    struct att *a, int rows, int tile_rows, int heads, size_t bytes,
                                    struct hsp_err *err)
{
    a->tiles = (rows + tile_rows - 1) / tile_rows;
    if (a->tiles == 0) {
        return HSP_OK;
    }
    /* always the most: a graph may have a launch for heads of another width */
    cudaError_t e = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, g->smem_block);
    if (e != cudaSuccess) {
        return hsp_cuda_check(g, e, "shared memory of attention", err);
    }
    HSP_LAUNCH(kernel, (unsigned)a->tiles * (unsigned)heads * (unsigned)a->b, PLAIN_THREADS, bytes,
               g->stream[q], *a);
    return HSP_OK;
}

template <class T, int TS, int NC>
static enum hsp_status plain_forward(struct hsp_cuda *g, enum hsp_devq q, struct att *a,
                                     struct hsp_err *err)
{
    return plain_launch(g, q, plain_forward_kernel<T, TS, NC>, a, a->s, PLAIN_SIDE * TS, a->h,
                        plain_bytes<T, TS>(a, 2, 1), err);
}

template <class T, int TS, int NC>
static enum hsp_status plain_backward(struct hsp_cuda *g, enum hsp_devq q, struct att *a,
                                      struct hsp_err *err)
{
    size_t rows = (size_t)a->b * (size_t)a->s * (size_t)a->h;
    enum hsp_status st = hsp_cuda_scratch(g, q, rows * sizeof(hsp_wide<T>), &a->delta, err);
    if (st != HSP_OK) {
        return st;
    }
    if (rows > 0) {
        HSP_LAUNCH(plain_delta_kernel<T>, (unsigned)((rows + 7) / 8), 256, 0, g->stream[q], *a);
    }
    st = plain_launch(g, q, plain_dq_kernel<T, TS, NC>, a, a->s, PLAIN_SIDE * TS, a->h,
                      plain_bytes<T, TS>(a, 4, 1), err);
    return st != HSP_OK ? st
                        : plain_launch(g, q, plain_dkv_kernel<T, TS, NC>, a, a->t, PLAIN_SIDE * TS,
                                       a->key_heads, plain_bytes<T, TS>(a, 4, 2), err);
}

/* Runs the kernels with the largest tiles that fit into the shared memory of a block. */
template <class T>
static enum hsp_status plain_choose(struct hsp_cuda *g, enum hsp_devq q, bool forward,
                                    struct att *a, struct hsp_err *err)
{
    int tiles = forward ? 2 : 4, weights = forward ? 1 : 2;
    bool wide = plain_bytes<T, 2>(a, tiles, weights) <= (size_t)g->smem_block, low = a->d <= 64;
    if (!wide && plain_bytes<T, 1>(a, tiles, weights) > (size_t)g->smem_block) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0,
                           "attention with heads of %d elements of %d bytes: not in %d bytes of "
                           "shared memory",
                           a->d, (int)sizeof(T), g->smem_block);
    }
    if (forward) {
        return wide  ? low ? plain_forward<T, 2, 4>(g, q, a, err)
                           : plain_forward<T, 2, 16>(g, q, a, err)
                : low ? plain_forward<T, 1, 4>(g, q, a, err)
                     : plain_forward<T, 1, 16>(g, q, a, err);
    }
    return wide  ? low ? plain_backward<T, 2, 4>(g, q, a, err)
                       : plain_backward<T, 2, 16>(g, q, a, err)
            : low ? plain_backward<T, 1, 4>(g, q, a, err)
                 : plain_backward<T, 1, 16>(g, q, a, err);
}

enum hsp_status att_plain_forward(struct hsp_cuda *g, enum hsp_devq q, enum hsp_dtype t,
                                  struct att *a, struct hsp_err *err)
{
    HSP_FOR_REAL(t, T, { return plain_choose<T>(g, q, true, a, err); });
    return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "attention of %s", hsp_dtype_name(t));
}

enum hsp_status att_plain_backward(struct hsp_cuda *g, enum hsp_devq q, enum hsp_dtype t,
                                   struct att *a, struct hsp_err *err)
{
    HSP_FOR_REAL(t, T, { return plain_choose<T>(g, q, false, a, err); });
    return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "attention of %s", hsp_dtype_name(t));
}
