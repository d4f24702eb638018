/* Computes the backward pass of attention for bf16 on tensor cores (attention.cuh), by three
 * kernels: delta of all rows; dq by tiles of queries; dk and dv by tiles of keys. The last two
 * compute the weights again from lse. The kernel of dk and dv computes scores transposed, keys by
 * queries: then the weights and their gradients are already the left factors of the products for dv
 * and dk, and never leave the registers. */
#include "worker/backend/cuda/cuda_device.h"
#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/cuda_memory.h"
#include "worker/backend/cuda/flash.cuh"

/* The shape of the kernels for heads of up to D elements. The block's own two tiles (rows of q and
 * dout, or of k and v) are loaded once; the other two tensors are a stream, read STEP rows at a
 * time, with two steps in shared memory. MT: tiles of 16 rows a warp. NW: warps. KEEP: the block's
 * own tiles stay in registers, and the stream uses their shared memory. PARTS: the number of blocks
 * among which the columns of dk and dv are divided. */
template <int D> struct att_bwd_shape;
template <> struct att_bwd_shape<64> {
    static constexpr int MT = 2, NW = 4, STEP = 64, PARTS = 1;
    static constexpr bool KEEP = true;
};
template <> struct att_bwd_shape<128> {
    static constexpr int MT = 1, NW = 8, STEP = 64, PARTS = 1;
    static constexpr bool KEEP = true;
};
template <> struct att_bwd_shape<256> {
    static constexpr int MT = 1, NW = 4, STEP = 16, PARTS = 2;
    static constexpr bool KEEP = false;
};

template <int D> struct att_bwd {
    using S = att_bwd_shape<D>;
    static constexpr int rows = 16 * S::MT * S::NW, ld = D + ATT_PAD;
    /* The shared memory has the block's own two tiles, then the stream, two stages of two tiles;
     * with KEEP both use one place. */
    static constexpr int own = 2 * rows, stream = 4 * S::STEP;
    static constexpr size_t bytes =
        (size_t)(S::KEEP ? (own > stream ? own : stream) : own + stream) * ld * sizeof(uint16_t);
};

/* ---- delta ---- */

/* Computes delta of one row of one head in each warp. */
static __global__ void att_delta_kernel(struct att a)
{
    int64_t at = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int head = (int)(at % a.h), i = (int)(at / a.h % a.s_pad), lane = threadIdx.x % 32;
    int b = (int)(at / a.h / a.s_pad);
    if (b >= a.b) {
        return;
    }
    float2 stat = {INFINITY, 0.0f}; /* rows beyond the last get the weight 0 */
    if (i < a.s) {
        const uint32_t *o = (const uint32_t *)((const uint16_t *)a.o + att_at_q(a, b, i, head));
        const uint32_t *dout =
            (const uint32_t *)((const uint16_t *)a.dout + att_at_q(a, b, i, head));
        float sum = 0.0f;
        for (int c = lane; c < a.d / 2; c += 32) {
            uint32_t x = o[c], y = dout[c];
            sum += __uint_as_float(x << 16) * __uint_as_float(y << 16) +
                   __uint_as_float(x & 0xffff0000U) * __uint_as_float(y & 0xffff0000U);
        }
        for (int step = 16; step > 0; step /= 2) {
            sum += __shfl_xor_sync(~0U, sum, step);
        }
        float lse = ((const float *)a.lse)[((int64_t)b * a.s + i) * a.h + head];
        stat.x = lse == -INFINITY ? INFINITY : lse * ATT_LOG2E;
        stat.y = sum;
    }
    if (lane == 0) {
        a.stat[((int64_t)b * a.h + head) * a.s_pad + i] = stat;
    }
}

/* Computes the bounds of one step of rows in each block of ATT_STEP threads. */
static __global__ void att_bounds_kernel(struct att a)
{
    HSP_DYNAMIC_SHARED(int, room);
    int steps = a.s_pad / ATT_STEP, step = blockIdx.x % steps, b = blockIdx.x / steps;
    struct att_range r = att_tile_range(a, b, step * ATT_STEP, ATT_STEP, room);
    if (threadIdx.x == 0) {
        a.bounds[blockIdx.x] = int2{r.lo, r.all_lo};
    }
}

/* ---- dq ---- */

/* c <- weights, e <- gradients of the scores without the scale; rows are queries, columns the keys
 * from @key0 on. @stat has lse and delta of the rows. */
template <int MT, bool HIDE>
static __device__ __forceinline__ void att_grad_rows(float (&c)[MT][2][4], float (&e)[MT][2][4],
                                                     const float2 (&stat)[2 * MT],
                                                     const int (&first)[2 * MT],
                                                     const int (&seen)[2 * MT], int key0,
                                                     float scale2)
{
    int column = key0 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int r = 2 * m + i / 2, key = column + 8 * j + i % 2;
                float p = hsp_exp2(c[m][j][i] * scale2 - stat[r].x);
                if (HIDE) {
                    p = key >= first[r] && key < seen[r] ? p : 0.0f;
                }
                e[m][j][i] = HIDE && p == 0.0f ? 0.0f : p * (e[m][j][i] - stat[r].y);
            }
        }
    }
}

/* Adds to dq the part of 16 keys, rows @at .. @at + 15 of @k and @v; these begin at key @key0. */
template <int D, int MT, bool KEEP>
static __device__ __forceinline__ void att_dq_step(
    float (&dq)[MT][D / 8][4], att_rows<D, MT, KEEP> &q, att_rows<D, MT, KEEP> &dout,
    struct hsp_tile k, struct hsp_tile v, const float2 (&stat)[2 * MT], const int (&first)[2 * MT],
    const int (&seen)[2 * MT], int key0, bool hide, float scale2, int at)
{
    float c[MT][2][4], e[MT][2][4];
    att_scores(c, q, k, at);
    att_scores(e, dout, v, at);
    if (hide) {
        att_grad_rows<MT, true>(c, e, stat, first, seen, key0 + at, scale2);
    } else {
        att_grad_rows<MT, false>(c, e, stat, first, seen, key0 + at, scale2);
    }
    uint32_t x[MT][4];
#pragma unroll
    for (int m = 0; m < MT; m++) {
        att_as_rows(x[m], e[m][0], e[m][1]);
    }
    att_add<D>(dq, x, k, at, 0);
}

template <int D>
__global__ void __launch_bounds__(32 * att_bwd_shape<D>::NW, D <= 64 ? 2 : 1)
    att_flash_dq_kernel(struct att a)
{
    using S = att_bwd_shape<D>;
    constexpr int MT = S::MT, STEP = S::STEP, ROWS = att_bwd<D>::rows, LD = att_bwd<D>::ld;
    constexpr int THREADS = 32 * S::NW;
    HSP_DYNAMIC_SHARED(uint16_t, shared);
    struct hsp_tile own = hsp_tile_of(shared), stream = S::KEEP ? own : own + 2 * ROWS * LD;
    struct att_place place = att_place_of(a, (int)blockIdx.x, ROWS);
    int head = place.head, b = place.b, r0 = place.r0, key_head = head / a.group;
    int64_t at_q = att_at_q(a, b, 0, head), at_k = att_at_k(a, b, 0, key_head);
    const uint16_t *keys = (const uint16_t *)a.k + at_k, *values = (const uint16_t *)a.v + at_k;
    struct att_range range = att_tile_range(a, b, r0, ROWS, (int *)shared);
    __syncthreads();
    att_load<D, ROWS, THREADS>(own, (const uint16_t *)a.q + at_q, a.stride_q, r0, a.s, a.d);
    att_load<D, ROWS, THREADS>(own + ROWS * LD, (const uint16_t *)a.dout + at_q, a.stride_q, r0,
                               a.s, a.d);
    hsp_copy_commit();

    int row = threadIdx.x / 32 * 16 * MT, first[2 * MT], seen[2 * MT];
    float2 stat[2 * MT];
#pragma unroll
    for (int r = 0; r < 2 * MT; r++) {
        int i = min(r0 + row + 8 * r + (int)threadIdx.x % 32 / 4, a.s - 1);
        first[r] = att_first(a, b, i);
        seen[r] = att_seen(a, i);
        stat[r] = a.stat[((int64_t)b * a.h + head) * a.s_pad + i];
    }
    int warp_hi = att_seen(a, min(r0 + row + 16 * MT, a.s) - 1);
    att_rows<D, MT, S::KEEP> q, dout;
    hsp_copy_wait<0>();
    __syncthreads();
    q.init(own, row);
    dout.init(own + ROWS * LD, row);
    __syncthreads();

    float dq[MT][D / 8][4];
    att_clear(dq);
    int key0 = range.lo / STEP * STEP, stage = 0;
    if (key0 < range.hi) {
        att_load<D, STEP, THREADS>(stream, keys, a.stride_k, key0, a.t, a.d);
        att_load<D, STEP, THREADS>(stream + STEP * LD, values, a.stride_k, key0, a.t, a.d);
    }
    hsp_copy_commit();
    for (; key0 < range.hi; key0 += STEP, stage ^= 1) {
        if (key0 + STEP < range.hi) {
            struct hsp_tile next = stream + (stage ^ 1) * 2 * STEP * LD;
            att_load<D, STEP, THREADS>(next, keys, a.stride_k, key0 + STEP, a.t, a.d);
            att_load<D, STEP, THREADS>(next + STEP * LD, values, a.stride_k, key0 + STEP, a.t, a.d);
        }
        hsp_copy_commit();
        hsp_copy_wait<1>();
        __syncthreads();
        struct hsp_tile k = stream + stage * 2 * STEP * LD;
        bool hide = key0 < range.all_lo || key0 + STEP > range.all_hi;
#pragma unroll 1
        for (int at = 0; at < STEP && key0 + at < warp_hi; at += 16) {
            att_dq_step<D>(dq, q, dout, k, k + STEP * LD, stat, first, seen, key0, hide,
                           a.scale * ATT_LOG2E, at);
        }
        __syncthreads();
    }
    float factor[2 * MT];
#pragma unroll
    for (int r = 0; r < 2 * MT; r++) {
        factor[r] = a.scale;
    }
    hsp_copy_wait<0>();
    __syncthreads();
    att_store<D>(shared, row, dq, factor, (uint16_t *)a.dq + at_q, a.stride_q, r0, a.s, 0, a.d);
}

/* ---- dk and dv ---- */

/* The steps of queries for one tile of keys: STEP rows at a time, from row @begin on (earlier rows
 * see none of the keys), for one query head of the group after the other. */
template <int STEP> struct att_walk {
    int begin, steps, all; /* first row; steps of one head; steps of all heads of the group */

    __device__ __forceinline__ void init(const struct att &a, int k0)
    {
        begin = a.causal ? att_clamp((int64_t)k0 - a.shift, 0, a.s) / ATT_STEP * ATT_STEP : 0;
        steps = (a.s - begin + STEP - 1) / STEP;
        all = steps * a.group;
    }
    __device__ __forceinline__ int row(int step) const
    {
        return begin + step % steps * STEP;
    }
    /* Returns the first step, at or after @step, that may have rows that see keys below @k1. */
    __device__ __forceinline__ int find(const struct att &a, int b, int step, int k1) const
    {
        if (a.starts != nullptr) {
            const int2 *bounds = a.bounds + (int64_t)b * (a.s_pad / ATT_STEP);
            while (step < all && bounds[row(step) / ATT_STEP].x >= k1) {
                step++;
            }
        }
        return step;
    }
};

/* c <- weights, e <- gradients of the scores without the scale; rows are keys, columns the 16
 * queries from @q0 on. */
template <int MT, bool HIDE>
static __device__ __forceinline__ void att_grad_keys(const struct att &a, float (&c)[MT][2][4],
                                                     float (&e)[MT][2][4], const float2 *stat,
                                                     int b, int q0, int key, float scale2)
{
    int lane = hsp_here((int)threadIdx.x) % 32, column = lane % 4 * 2;
    key += lane / 4;
#pragma unroll
    for (int j = 0; j < 2; j++) {
#pragma unroll
        for (int n = 0; n < 2; n++) {
            int query = q0 + 8 * j + column + n, first = 0, seen = a.t;
            float2 s = stat[query];
            if (HIDE) {
                first = att_first(a, b, min(query, a.s - 1));
                seen = att_seen(a, query);
            }
#pragma unroll
            for (int m = 0; m < MT; m++) {
#pragma unroll
                for (int i = n; i < 4; i += 2) {
                    int mine = key + 16 * m + 8 * (i / 2);
                    float p = hsp_exp2(c[m][j][i] * scale2 - s.x);
                    if (HIDE) {
                        p = mine >= first && mine < seen ? p : 0.0f;
                    }
                    c[m][j][i] = p;
                    e[m][j][i] = HIDE && p == 0.0f ? 0.0f : p * (e[m][j][i] - s.y);
                }
            }
        }
    }
}

/* Adds to dk and dv the parts of 16 queries, rows @at .. @at + 15 of @q and @dout. */
template <int D, int MT, int N, bool KEEP>
static __device__ __forceinline__ void att_dkv_step(const struct att &a, float (&dk)[MT][N][4],
                                                    float (&dv)[MT][N][4], att_rows<D, MT, KEEP> &k,
                                                    att_rows<D, MT, KEEP> &v, struct hsp_tile q,
                                                    struct hsp_tile dout, const float2 *stat, int b,
                                                    int q0, int key, bool hide, int at, int column)
{
    float c[MT][2][4], e[MT][2][4], scale2 = a.scale * ATT_LOG2E;
    att_scores(c, k, q, at);
    att_scores(e, v, dout, at);
    if (hide) {
        att_grad_keys<MT, true>(a, c, e, stat, b, q0 + at, key, scale2);
    } else {
        att_grad_keys<MT, false>(a, c, e, stat, b, q0 + at, key, scale2);
    }
    uint32_t p[MT][4], ds[MT][4];
#pragma unroll
    for (int m = 0; m < MT; m++) {
        att_as_rows(p[m], c[m][0], c[m][1]);
        att_as_rows(ds[m], e[m][0], e[m][1]);
    }
    att_add<D>(dv, p, dout, at, column);
    att_add<D>(dk, ds, q, at, column);
}

/* Loads the keys and values of this thread block, from row @k0 on, to the tiles at @own, and waits
 * until they have arrived. */
template <int D>
static __device__ __forceinline__ void att_dkv_own(const struct att &a, struct hsp_tile own,
                                                   int64_t at_k, int k0)
{
    constexpr int ROWS = att_bwd<D>::rows, LD = att_bwd<D>::ld;
    constexpr int THREADS = 32 * att_bwd_shape<D>::NW;
    att_load<D, ROWS, THREADS>(own, (const uint16_t *)a.k + at_k, a.stride_k, k0, a.t, a.d);
    att_load<D, ROWS, THREADS>(own + ROWS * LD, (const uint16_t *)a.v + at_k, a.stride_k, k0, a.t,
                               a.d);
    hsp_copy_commit();
    hsp_copy_wait<0>();
    __syncthreads();
}

/* Loads the queries and dout of step @step of @walk to stage @to of @stream. */
template <int D, int STEP>
static __device__ __forceinline__ void att_dkv_load(const struct att &a, struct hsp_tile stream,
                                                    const att_walk<STEP> &walk, int step, int to,
                                                    int b, int key_head)
{
    constexpr int LD = att_bwd<D>::ld, THREADS = 32 * att_bwd_shape<D>::NW;
    int row0 = walk.row(step);
    int64_t at_q = att_at_q(a, b, 0, key_head * a.group + step / walk.steps);
    struct hsp_tile at = stream + to * 2 * STEP * LD;
    att_load<D, STEP, THREADS>(at, (const uint16_t *)a.q + at_q, a.stride_q, row0, a.s, a.d);
    att_load<D, STEP, THREADS>(at + STEP * LD, (const uint16_t *)a.dout + at_q, a.stride_q, row0,
                               a.s, a.d);
}

/* Stores the warp's rows of dk and dv, which begin at row @row of the tile at @k0, and their
 * columns of part @part. The data pass through @shared. */
template <int D, int MT, int N>
static __device__ __forceinline__ void att_dkv_store(const struct att &a,
                                                     const float (&dk)[MT][N][4],
                                                     const float (&dv)[MT][N][4], uint16_t *shared,
                                                     int64_t at_k, int k0, int row, int part)
{
    constexpr int ROWS = att_bwd<D>::rows, LD = att_bwd<D>::ld;
    float factor[2 * MT], one[2 * MT];
#pragma unroll
    for (int r = 0; r < 2 * MT; r++) {
        factor[r] = a.scale;
        one[r] = 1.0f;
    }
    int column = part * (D / att_bwd_shape<D>::PARTS);
    att_store<D>(shared, row, dk, factor, (uint16_t *)a.dk + at_k, a.stride_k, k0, a.t, column,
                 a.d);
    att_store<D>(shared + ROWS * LD, row, dv, one, (uint16_t *)a.dv + at_k, a.stride_k, k0, a.t,
                 column, a.d);
}

/* Computes dk and dv of one tile of keys of one key head, and one part of the columns, in each
 * block. */
template <int D>
__global__ void __launch_bounds__(32 * att_bwd_shape<D>::NW, D <= 64 ? 2 : 1)
    att_flash_dkv_kernel(struct att a)
{
    using S = att_bwd_shape<D>;
    constexpr int MT = S::MT, STEP = S::STEP, ROWS = att_bwd<D>::rows, LD = att_bwd<D>::ld;
    constexpr int N = D / S::PARTS / 8;
    HSP_DYNAMIC_SHARED(uint16_t, shared);
    struct hsp_tile own = hsp_tile_of(shared), stream = S::KEEP ? own : own + 2 * ROWS * LD;
    int part = blockIdx.x % S::PARTS;
    int tile = blockIdx.x / S::PARTS % a.tiles,
        key_head = blockIdx.x / S::PARTS / a.tiles % a.key_heads;
    int b = blockIdx.x / S::PARTS / a.tiles / a.key_heads, k0 = tile * ROWS;
    int64_t at_k = att_at_k(a, b, 0, key_head);
    att_dkv_own<D>(a, own, at_k, k0);
    int row = threadIdx.x / 32 * 16 * MT;
    att_rows<D, MT, S::KEEP> k, v;
    k.init(own, row);
    v.init(own + ROWS * LD, row);
    __syncthreads();

    float dk[MT][N][4], dv[MT][N][4];
    att_clear(dk);
    att_clear(dv);
    att_walk<STEP> first;
    first.init(a, k0);
    int now = first.find(a, b, 0, k0 + ROWS), stage = 0;
    bool more = now < first.all;
    if (more) {
        att_dkv_load<D>(a, stream, first, now, 0, b, key_head);
    }
    hsp_copy_commit();
    while (more) {
        att_walk<STEP> walk;
        walk.init(a, hsp_here(k0));
        int next = walk.find(a, b, now + 1, k0 + ROWS);
        more = next < walk.all;
        if (more) {
            att_dkv_load<D>(a, stream, walk, next, stage ^ 1, b, key_head);
        }
        hsp_copy_commit();
        hsp_copy_wait<1>();
        __syncthreads();
        int q0 = walk.row(now);
        struct hsp_tile q = stream + stage * 2 * STEP * LD;
        const float2 *stat =
            a.stat + ((int64_t)b * a.h + key_head * a.group + now / walk.steps) * a.s_pad;
        bool hide = att_seen(a, q0) < k0 + ROWS || a.starts != nullptr;
#pragma unroll 1
        for (int at = 0; at < STEP; at += 16) {
            if (att_seen(a, q0 + at + 15) > k0 + row) {
                att_dkv_step<D>(a, dk, dv, k, v, q, q + STEP * LD, stat, b, q0, k0 + row, hide, at,
                                part * (D / S::PARTS));
            }
        }
        __syncthreads();
        now = next;
        stage ^= 1;
    }
    hsp_copy_wait<0>();
    __syncthreads();
    att_dkv_store<D>(a, dk, dv, shared, at_k, k0, row, part);
}

/* ---- host ---- */

template <int D>
static enum hsp_status att_launch_backward(struct hsp_cuda *g, enum hsp_devq q, struct att *a,
                                           struct hsp_err *err)
{
    constexpr int rows = att_bwd<D>::rows, threads = 32 * att_bwd_shape<D>::NW;
    constexpr size_t bytes = att_bwd<D>::bytes;
    cudaError_t e = cudaFuncSetAttribute(att_flash_dq_kernel<D>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e == cudaSuccess) {
        e = cudaFuncSetAttribute(att_flash_dkv_kernel<D>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    }
    if (e != cudaSuccess) {
        return hsp_cuda_check(g, e, "shared memory of attention", err);
    }
    a->tiles = (a->s + rows - 1) / rows;
    if (a->tiles > 0) {
        HSP_LAUNCH(att_flash_dq_kernel<D>, (unsigned)a->tiles * (unsigned)a->h * (unsigned)a->b,
                   threads, bytes, g->stream[q], *a);
    }
    a->tiles = (a->t + rows - 1) / rows;
    if (a->tiles > 0) {
        unsigned blocks = (unsigned)a->tiles * (unsigned)a->key_heads * (unsigned)a->b;
        HSP_LAUNCH(att_flash_dkv_kernel<D>, blocks * att_bwd_shape<D>::PARTS, threads, bytes,
                   g->stream[q], *a);
    }
    return HSP_OK;
}

enum hsp_status att_flash_backward(struct hsp_cuda *g, enum hsp_devq q, struct att *a,
                                   struct hsp_err *err)
{
    a->s_pad = (a->s + ATT_STEP - 1) / ATT_STEP * ATT_STEP;
    size_t rows = (size_t)a->b * (size_t)a->s_pad, steps = rows / ATT_STEP;
    size_t stat_bytes = rows * (size_t)a->h * sizeof(float2);
    void *room;
    enum hsp_status st = hsp_cuda_scratch(g, q, stat_bytes + steps * sizeof(int2), &room, err);
    if (st != HSP_OK) {
        return st;
    }
    a->stat = (float2 *)room;
    a->bounds = (int2 *)((char *)room + stat_bytes);
    if (rows > 0) {
        HSP_LAUNCH(att_delta_kernel, (unsigned)((rows * (size_t)a->h + 7) / 8), 256, 0,
                   g->stream[q], *a);
    }
    if (steps > 0 && a->starts != nullptr) {
        HSP_LAUNCH(att_bounds_kernel, (unsigned)steps, ATT_STEP, 64 * sizeof(int), g->stream[q],
                   *a);
    }
    return a->d <= 64    ? att_launch_backward<64>(g, q, a, err)
           : a->d <= 128 ? att_launch_backward<128>(g, q, a, err)
                         : att_launch_backward<256>(g, q, a, err);
}
