/* Declares the arguments, offsets and bounds that the kernels of attention share.
 *
 * Role:   attention_call.cu reads a call into struct att and chooses the kernels: flash_forward.cu
 *         and flash_backward.cu (bf16 on tensor cores, heads of up to 256 elements in multiples of
 *         8) or attention_plain.cu (fp32, fp64, bf16 of other shapes, and bf16 on devices without
 *         bf16 instructions).
 * Rows:   query row i sees the keys first(i) .. seen(i) - 1 of the block of keys given. seen(i) is
 *         t, or clamp(shift + i + 1) if causal. first(i) is 0, or, if packed, the begin of the
 *         row's document. A row with first(i) >= seen(i) is dead: o = 0, lse = -inf, no gradient.
 * Method: Dao, FlashAttention-2 (2023): one block computes one tile of rows and reads the keys step
 *         by step; scores stay in registers. The backward pass has two kernels, dq by tiles of
 *         queries and dk, dv by tiles of keys: 7 products in place of 5, but no sum depends on the
 *         order in which blocks end. */
#ifndef HSP_ATTENTION_CUH
#define HSP_ATTENTION_CUH
#include "worker/backend/cuda/cuda.h"
#include "worker/backend/cuda/launch.h"

#define ATT_LOG2E 1.4426950408889634f
#define ATT_LN2   0.6931471805599453f
#define ATT_MAX_D 256

/* The arguments of one call, which kernels get by value. q, o, dout, dq: [b, s, h d]; k, v, dk, dv:
 * [b, t, h / group d]; lse: [b, s, h]; starts: [b, s] or NULL. */
struct att {
    const void *q, *k, *v, *o, *dout, *lse;
    const int32_t *starts;
    void *out, *out_lse, *dq, *dk, *dv;
    float2 *stat; /* scratch of backward on tensor cores, [b, h, s_pad]: lse log2(e), delta */
    void *delta;  /* scratch of backward without tensor cores, [b, s, h]: delta */
    /* scratch of backward if packed, [b, tiles of ATT_STEP rows]: the least and the largest
     * first(i) of the rows that see a key */
    int2 *bounds;
    int64_t first_key;
    int b, s, t, h, group, d;
    int key_heads;              /* h / group */
    int64_t stride_q, stride_k; /* h d, key_heads d: the elements from row to row */
    int s_pad;                  /* s rounded up to ATT_STEP */
    /* the global position of the first query minus that of the first key */
    int shift;
    int tiles; /* tiles of rows (or keys) that the running kernel computes of one head */
    bool causal;
    float scale;
    double scale64;
};

#define ATT_STEP 64 /* rows of a step in the kernel that reads queries step by step */

static __host__ __device__ __forceinline__ int att_clamp(int64_t x, int lo, int hi)
{
    return x < lo ? lo : x > hi ? hi : (int)x;
}

static __device__ __forceinline__ int att_seen(const struct att &a, int i)
{
    return a.causal ? att_clamp((int64_t)a.shift + i + 1, 0, a.t) : a.t;
}

/* Returns first(@i) of sequence @b; @i < s. */
static __device__ __forceinline__ int att_first(const struct att &a, int b, int i)
{
    if (a.starts == nullptr) {
        return 0;
    }
    return att_clamp(a.starts[(int64_t)b * a.s + i] - a.first_key, 0, a.t);
}

/* Return the offset of head @head of row @i of sequence @b: among queries, and among keys. */
static __device__ __forceinline__ int64_t att_at_q(const struct att &a, int b, int i, int head)
{
    return (((int64_t)b * a.s + i) * a.h + head) * a.d;
}

static __device__ __forceinline__ int64_t att_at_k(const struct att &a, int b, int i, int key_head)
{
    return (((int64_t)b * a.t + i) * a.key_heads + key_head) * a.d;
}

/* The tile that block @block of a kernel over tiles of queries computes. The tiles of a head have
 * consecutive blocks; late rows, which see the most keys, come first. */
struct att_place {
    int r0, head, b; /* first row, query head, sequence */
};

static __device__ __forceinline__ struct att_place att_place_of(const struct att &a, int block,
                                                                int rows)
{
    return {(a.tiles - 1 - block % a.tiles) * rows, block / a.tiles % a.h, block / a.tiles / a.h};
}

/* The keys that the rows r0 .. r0 + n - 1 see: every row sees only keys in lo .. hi - 1, and sees
 * all keys in all_lo .. all_hi - 1. If hi <= lo, no row sees a key. */
struct att_range {
    int lo, hi, all_lo, all_hi;
};

/* Returns the range of a tile of rows. All threads of the block call it (at least @n, a multiple of
 * 32). @room is 64 ints of shared memory that nothing uses; the caller needs a barrier before it
 * uses @room again. */
static __device__ __forceinline__ struct att_range att_tile_range(const struct att &a, int b,
                                                                  int r0, int n, int *room)
{
    int last = r0 + n < a.s ? r0 + n : a.s;
    struct att_range r = {0, att_seen(a, last - 1), 0, att_seen(a, r0)};
    if (a.starts == nullptr) {
        return r;
    }
    int i = r0 + (int)threadIdx.x, least = a.t, most = 0;
    if ((int)threadIdx.x < n && i < a.s) {
        int first = att_first(a, b, i);
        most = first;
        least = first < att_seen(a, i) ? first : a.t;
    }
    for (int step = 16; step > 0; step /= 2) {
        least = min(least, __shfl_xor_sync(~0U, least, step));
        most = max(most, __shfl_xor_sync(~0U, most, step));
    }
    int warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 0) {
        room[2 * warp] = least;
        room[2 * warp + 1] = most;
    }
    __syncthreads();
    r.lo = a.t;
    for (int w = 0; w < n_warps; w++) {
        r.lo = min(r.lo, room[2 * w]);
        r.all_lo = max(r.all_lo, room[2 * w + 1]);
    }
    return r;
}

/* Launch the kernels on stream @q of @g. The caller finds errors of the launch. */
enum hsp_status att_flash_forward(struct hsp_cuda *g, enum hsp_devq q, struct att *a,
                                  struct hsp_err *err);
enum hsp_status att_flash_backward(struct hsp_cuda *g, enum hsp_devq q, struct att *a,
                                   struct hsp_err *err);
/* Launch the kernels without tensor cores; @t is the type of the data. lse is fp64 if the data are,
 * else fp32. */
enum hsp_status att_plain_forward(struct hsp_cuda *g, enum hsp_devq q, enum hsp_dtype t,
                                  struct att *a, struct hsp_err *err);
enum hsp_status att_plain_backward(struct hsp_cuda *g, enum hsp_devq q, enum hsp_dtype t,
                                   struct att *a, struct hsp_err *err);

#endif
