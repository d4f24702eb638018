/* Computes the forward pass of attention for bf16 on tensor cores (attention.cuh). */
#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/flash.cuh"

/* The shape of the kernel for heads of up to D elements: MT tiles of 16 rows a warp, NW warps, BC
 * keys a step. KEEP: the queries stay in registers. */
template <int D> struct att_fwd_shape;
template <> struct att_fwd_shape<64> {
    static constexpr int MT = 2, NW = 4, BC = 64;
    static constexpr bool KEEP = true;
};
template <> struct att_fwd_shape<128> {
    static constexpr int MT = 2, NW = 4, BC = 48;
    static constexpr bool KEEP = false;
};
template <> struct att_fwd_shape<256> {
    static constexpr int MT = 1, NW = 4, BC = 32;
    static constexpr bool KEEP = false;
};

template <int D> struct att_fwd {
    using S = att_fwd_shape<D>;
    static constexpr int rows = 16 * S::MT * S::NW;
    static constexpr size_t bytes = (size_t)(rows + 2 * S::BC) * (D + ATT_PAD) * sizeof(uint16_t);
};

/* The softmax so far: for each row of this lane the largest score, and the part of the sum of
 * 2^(scores - largest) that this lane has computed. */
template <int MT> struct att_softmax {
    float most[2 * MT], sum[2 * MT];
};

/* Returns the first row of this lane; its rows are 8 apart. */
template <int MT> static __device__ __forceinline__ int att_lane_row(int thread)
{
    return thread / 32 * 16 * MT + thread % 32 / 4;
}

/* Sets to -inf the scores of keys that a row does not see; the scores are those of the keys from
 * @key0 on. Few steps need first and seen, so they are computed here again and not kept in
 * registers. */
template <int MT, int N>
static __device__ __forceinline__ void att_hide(const struct att &a, float (&c)[MT][N][4], int rows,
                                                int key0)
{
    struct att_place at = att_place_of(a, hsp_here((int)blockIdx.x), rows);
    int thread = hsp_here((int)threadIdx.x), column = key0 + thread % 4 * 2;
    int i0 = at.r0 + att_lane_row<MT>(thread), b = at.b;
#pragma unroll
    for (int r = 0; r < 2 * MT; r++) {
        int i = min(i0 + 8 * r, a.s - 1), first = att_first(a, b, i), seen = att_seen(a, i);
#pragma unroll
        for (int j = 0; j < N; j++) {
#pragma unroll
            for (int n = 0; n < 2; n++) {
                int key = column + 8 * j + n;
                float &x = c[r / 2][j][r % 2 * 2 + n];
                x = key >= first && key < seen ? x : -INFINITY;
            }
        }
    }
}

/* c <- 2^(scale2 c - largest so far). Multiplies the sums and results so far by the factor of the
 * new largest score. */
template <int MT, int N, int NO>
static __device__ __forceinline__ void att_soften(float (&c)[MT][N][4], float (&o)[MT][NO][4],
                                                  att_softmax<MT> &x, float scale2)
{
#pragma unroll
    for (int r = 0; r < 2 * MT; r++) {
        int m = r / 2, i = r % 2 * 2;
        float most = x.most[r];
#pragma unroll
        for (int j = 0; j < N; j++) {
            most = fmaxf(most, fmaxf(c[m][j][i], c[m][j][i + 1]));
        }
        most = fmaxf(most, __shfl_xor_sync(~0U, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0U, most, 2));
        float base = most == -INFINITY ? 0.0f : most * scale2; /* a row that has seen no key */
        float shrink = hsp_exp2(x.most[r] * scale2 - base), sum = x.sum[r] * shrink;
        x.most[r] = most;
#pragma unroll
        for (int j = 0; j < N; j++) {
            c[m][j][i] = hsp_exp2(c[m][j][i] * scale2 - base);
            c[m][j][i + 1] = hsp_exp2(c[m][j][i + 1] * scale2 - base);
            sum += c[m][j][i] + c[m][j][i + 1];
        }
        x.sum[r] = sum;
#pragma unroll
        for (int j = 0; j < NO; j++) {
            o[m][j][i] *= shrink;
            o[m][j][i + 1] *= shrink;
        }
    }
}

/* Writes results and lse of the warp's rows, by way of the warp's rows of the tile in @shared. */
template <int D, int MT>
static __device__ __forceinline__ void att_finish(const struct att &a,
                                                  const float (&o)[MT][D / 8][4],
                                                  const att_softmax<MT> &x, uint16_t *shared,
                                                  int rows)
{
    struct att_place at = att_place_of(a, hsp_here((int)blockIdx.x), rows);
    int thread = hsp_here((int)threadIdx.x);
    float factor[2 * MT];
#pragma unroll
    for (int r = 0; r < 2 * MT; r++) {
        float sum = x.sum[r];
        sum += __shfl_xor_sync(~0U, sum, 1);
        sum += __shfl_xor_sync(~0U, sum, 2);
        factor[r] = sum == 0.0f ? 0.0f : 1.0f / sum;
        int i = at.r0 + att_lane_row<MT>(thread) + 8 * r;
        if (thread % 4 == 0 && i < a.s) {
            ((float *)a.out_lse)[((int64_t)at.b * a.s + i) * a.h + at.head] =
                sum == 0.0f ? -INFINITY : (x.most[r] * a.scale * ATT_LOG2E + log2f(sum)) * ATT_LN2;
        }
    }
    att_store<D>(shared, thread / 32 * 16 * MT, o, factor,
                 (uint16_t *)a.out + att_at_q(a, at.b, 0, at.head), a.stride_q, at.r0, a.s, 0, a.d);
}

/* Computes one tile of rows of one head in each block. */
template <int D>
__global__ void __launch_bounds__(32 * att_fwd_shape<D>::NW, D <= 128 ? 2 : 1)
    att_flash_forward_kernel(struct att a)
{
    using S = att_fwd_shape<D>;
    constexpr int MT = S::MT, BC = S::BC, ROWS = att_fwd<D>::rows, THREADS = 32 * S::NW;
    HSP_DYNAMIC_SHARED(uint16_t, shared);
    struct hsp_tile q = hsp_tile_of(shared), k = q + ROWS * (D + ATT_PAD);
    struct hsp_tile v = k + BC * (D + ATT_PAD);
    struct att_place at = att_place_of(a, (int)blockIdx.x, ROWS);
    int key_head = at.head / a.group, b = at.b;
    auto load = [&](struct hsp_tile to, const void *from, int key0) {
        const uint16_t *head = (const uint16_t *)from + att_at_k(a, b, 0, hsp_here(key_head));
        att_load<D, BC, THREADS>(to, head, a.stride_k, key0, a.t, a.d);
    };
    struct att_range range = att_tile_range(a, b, at.r0, ROWS, (int *)shared);
    __syncthreads();

    int row = threadIdx.x / 32 * 16 * MT,
        warp_hi = att_seen(a, min(at.r0 + row + 16 * MT, a.s) - 1);
    int key0 = range.lo / BC * BC;
    if (key0 < range.hi) {
        att_load<D, ROWS, THREADS>(q, (const uint16_t *)a.q + att_at_q(a, b, 0, at.head),
                                   a.stride_q, at.r0, a.s, a.d);
        load(k, a.k, key0);
    }
    hsp_copy_commit();
    float o[MT][D / 8][4], scale2 = a.scale * ATT_LOG2E;
    att_clear(o);
    att_softmax<MT> x;
#pragma unroll
    for (int r = 0; r < 2 * MT; r++) {
        x.most[r] = -INFINITY;
        x.sum[r] = 0.0f;
    }
    att_rows<D, MT, S::KEEP> rows;
    for (bool begin = true; key0 < range.hi; key0 += BC, begin = false) {
        float c[MT][BC / 8][4];
        hsp_copy_wait<0>();
        __syncthreads(); /* the keys of this step have arrived; the values of the last are used */
        load(v, a.v, key0);
        hsp_copy_commit();
        if (begin) {
            rows.init(q, row);
        }
        bool any = key0 < warp_hi;
        if (any) {
            att_scores(c, rows, k, 0);
        }
        hsp_copy_wait<0>();
        __syncthreads(); /* the values of this step have arrived; its keys are used */
        if (key0 + BC < range.hi) {
            load(k, a.k, key0 + BC);
            hsp_copy_commit();
        }
        if (any) {
            if (key0 < range.all_lo || key0 + BC > range.all_hi) {
                att_hide(a, c, ROWS, key0);
            }
            att_soften(c, o, x, scale2);
#pragma unroll
            for (int j = 0; j < BC / 16; j++) {
                uint32_t p[MT][4];
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    att_as_rows(p[m], c[m][2 * j], c[m][2 * j + 1]);
                }
                att_add<D>(o, p, v, 16 * j, 0);
            }
        }
    }
    att_finish<D>(a, o, x, shared, ROWS);
}

template <int D>
static enum hsp_status att_launch_forward(struct hsp_cuda *g, enum hsp_devq q, struct att *a,
                                          struct hsp_err *err)
{
    constexpr int rows = att_fwd<D>::rows, threads = 32 * att_fwd_shape<D>::NW;
    constexpr size_t bytes = att_fwd<D>::bytes;
    a->tiles = (a->s + rows - 1) / rows;
    cudaError_t e = cudaFuncSetAttribute(att_flash_forward_kernel<D>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e != cudaSuccess) {
        return hsp_cuda_check(g, e, "shared memory of attention", err);
    }
    HSP_LAUNCH(att_flash_forward_kernel<D>, (unsigned)a->tiles * (unsigned)a->h * (unsigned)a->b,
               threads, bytes, g->stream[q], *a);
    return HSP_OK;
}

enum hsp_status att_flash_forward(struct hsp_cuda *g, enum hsp_devq q, struct att *a,
                                  struct hsp_err *err)
{
    return a->d <= 64    ? att_launch_forward<64>(g, q, a, err)
           : a->d <= 128 ? att_launch_forward<128>(g, q, a, err)
                         : att_launch_forward<256>(g, q, a, err);
}
