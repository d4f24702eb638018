/* Moves tiles and fragments for the attention kernels on tensor cores. A tile lies in shared
 * memory; a fragment is the part of a matrix that a warp holds in registers (tensor_core.cuh).
 *
 * Tiles: rows of D bf16 elements, followed by ATT_PAD elements, so that the 8 rows of an ldmatrix
 *        lie in different banks. Rows beyond the data and columns beyond the head are zeros.
 * Warps: a warp owns 16 MT consecutive rows of the tile that its block computes; no sum goes over
 *        several warps. */
#ifndef HSP_FLASH_CUH
#define HSP_FLASH_CUH
#include "worker/backend/cuda/attention.cuh"
#include "worker/backend/cuda/tensor_core.cuh"

#define ATT_PAD 8 /* elements between two rows of a tile */

/* Starts copies of rows r0 .. r0 + ROWS - 1 to @tile. The rows lie @stride elements apart, there
 * are @n of them, and d elements of each are used. All THREADS threads of the block call it. */
template <int D, int ROWS, int THREADS>
static __device__ __forceinline__ void att_load(struct hsp_tile tile, const uint16_t *from,
                                                int64_t stride, int r0, int n, int d)
{
    constexpr int chunks = D / 8, rows = THREADS / chunks; /* rows that the block copies at once */
    static_assert(THREADS % chunks == 0 && ROWS % rows == 0, "tile and block do not fit");
    int thread = hsp_here((int)threadIdx.x);
    int row = thread / chunks, column = thread % chunks * 8;
    int live = column < d ? n - r0 : 0;
    const uint16_t *at = from + (int64_t)(r0 + row) * stride + column;
    tile = tile + (row * (D + ATT_PAD) + column);
#pragma unroll 4
    for (int i = 0; i < ROWS; i += rows) {
        bool here = row + i < live;
        hsp_copy16(tile + i * (D + ATT_PAD), here ? at + i * stride : from, here);
    }
}

/* Returns the address that this lane gives to ldmatrix for the 16 x 16 elements at @row, @column of
 * a tile. The lanes get an A fragment, or, with the transposing ldmatrix, B fragments of two tiles
 * of 8 columns. */
template <int D>
static __device__ __forceinline__ struct hsp_tile att_at_a(struct hsp_tile tile, int row,
                                                           int column)
{
    int l = threadIdx.x % 32;
    return tile + ((l / 8 % 2 * 8 + l % 8) * (D + ATT_PAD) + l / 16 * 8) +
           (row * (D + ATT_PAD) + column);
}

/* Returns the address that this lane gives to ldmatrix for the transpose of the 16 x 16 elements at
 * @row, @column of a tile: the lanes get B fragments whose columns are the rows of the tile, for
 * two tiles of 8 rows. */
template <int D>
static __device__ __forceinline__ struct hsp_tile att_at_b(struct hsp_tile tile, int row,
                                                           int column)
{
    int l = threadIdx.x % 32;
    return tile + ((l / 16 * 8 + l % 8) * (D + ATT_PAD) + l / 8 % 2 * 8) +
           (row * (D + ATT_PAD) + column);
}

/* The A fragments of 16 MT rows: kept in registers (KEEP), or read again for each product. */
template <int D, int MT, bool KEEP> struct att_rows {
    uint32_t r[KEEP ? D / 16 : 1][MT][4];
    struct hsp_tile tile; /* the tile, from the warp's first row */

    __device__ __forceinline__ void init(struct hsp_tile from, int first)
    {
        tile = from + first * (D + ATT_PAD);
        if constexpr (KEEP) {
#pragma unroll
            for (int k = 0; k < D / 16; k++) {
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    hsp_ldmatrix(r[k][m], att_at_a<D>(tile, 16 * m, 16 * k));
                }
            }
        }
    }
    /* Returns the fragments of columns 16 k .. 16 k + 15. */
    __device__ __forceinline__ uint32_t (&at(int k))[MT][4]
    {
        if constexpr (!KEEP) {
#pragma unroll
            for (int m = 0; m < MT; m++) {
                hsp_ldmatrix(r[0][m], att_at_a<D>(tile, 16 * m, 16 * k));
            }
            return r[0];
        } else {
            return r[k];
        }
    }
};

/* Computes c[m][j], the product of @rows (16 MT x D) and the transpose of rows @from .. @from + 8 N
 * - 1 of @tile. */
template <int D, int MT, int N, bool KEEP>
static __device__ __forceinline__ void att_scores(float (&c)[MT][N][4], att_rows<D, MT, KEEP> &rows,
                                                  struct hsp_tile tile, int from)
{
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            c[m][j][0] = c[m][j][1] = c[m][j][2] = c[m][j][3] = 0.0f;
        }
    }
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t(&x)[MT][4] = rows.at(k);
#pragma unroll
        for (int j = 0; j < N; j += 2) {
            uint32_t y[4];
            hsp_ldmatrix(y, att_at_b<D>(tile, from + 8 * j, 16 * k));
#pragma unroll
            for (int m = 0; m < MT; m++) {
                hsp_mma(c[m][j], x[m], y[0], y[1]);
                hsp_mma(c[m][j + 1], x[m], y[2], y[3]);
            }
        }
    }
}

/* Converts 16 columns of scores, two tiles of 8, to the A fragment of a product that sums over
 * these columns. */
static __device__ __forceinline__ void att_as_rows(uint32_t (&x)[4], const float (&low)[4],
                                                   const float (&high)[4])
{
    x[0] = hsp_pack_bf16(low[0], low[1]);
    x[1] = hsp_pack_bf16(low[2], low[3]);
    x[2] = hsp_pack_bf16(high[0], high[1]);
    x[3] = hsp_pack_bf16(high[2], high[3]);
}

/* sum[m] += x[m] (16 x 16 each) times rows @from .. @from + 15 of @tile, columns @column .. @column
 * + 8 N - 1. */
template <int D, int MT, int N>
static __device__ __forceinline__ void att_add(float (&sum)[MT][N][4], const uint32_t (&x)[MT][4],
                                               struct hsp_tile tile, int from, int column)
{
#pragma unroll
    for (int j = 0; j < N; j += 2) {
        uint32_t y[4];
        hsp_ldmatrix_trans(y, att_at_a<D>(tile, from, column + 8 * j));
#pragma unroll
        for (int m = 0; m < MT; m++) {
            hsp_mma(sum[m][j], x[m], y[0], y[1]);
            hsp_mma(sum[m][j + 1], x[m], y[2], y[3]);
        }
    }
}

template <int MT, int N> static __device__ __forceinline__ void att_clear(float (&c)[MT][N][4])
{
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            c[m][j][0] = c[m][j][1] = c[m][j][2] = c[m][j][3] = 0.0f;
        }
    }
}

/* Writes the warp's rows as bf16, row r times factor[r], to rows r0 + @row .. of @to, and to
 * columns @column .. @column + 8 N - 1. Rows at or above @n and columns at or above d are left out.
 * The data pass through the warp's own rows of @tile, from @row on, which no other warp reads. */
template <int D, int MT, int N>
static __device__ __forceinline__ void att_store(uint16_t *tile, int row,
                                                 const float (&c)[MT][N][4],
                                                 const float (&factor)[2 * MT], uint16_t *to,
                                                 int64_t stride, int r0, int n, int column, int d)
{
    int l = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int j = 0; j < N; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float f = factor[2 * m + i];
                uint32_t two = hsp_pack_bf16(c[m][j][2 * i] * f, c[m][j][2 * i + 1] * f);
                uint16_t *at = tile + (row + 16 * m + 8 * i + l / 4) * (D + ATT_PAD);
                *(uint32_t *)(at + 8 * j + l % 4 * 2) = two;
            }
        }
    }
    __syncwarp();
    for (int i = l; i < 16 * MT * N; i += 32) {
        int at = row + i / N, from = i % N * 8;
        if (r0 + at < n && column + from < d) {
            *(uint4 *)(to + (int64_t)(r0 + at) * stride + column + from) =
                *(const uint4 *)(tile + at * (D + ATT_PAD) + from);
        }
    }
}

#endif
