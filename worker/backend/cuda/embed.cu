/* Looks up rows of a table, and computes the gradient of the table. A table may be a slice of rows
 * [origin, origin + v): ids outside the slice read 0, so that slices on several devices add up to
 * the whole look-up.
 *
 * The gradient adds the rows of dy that have the same id in the order of their positions, without
 * atomic sums. Atomic counters put the positions of each id into a list, in any order. Each list is
 * sorted: the place of a position is the number of smaller positions in the list. Then blocks add
 * up the rows of an id. */
#include "worker/backend/cuda/block_sum.cuh"
#include "worker/backend/cuda/cuda_device.h"
#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/cuda_memory.h"
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/kernels.h"

#define LANES 32   /* threads of a block along a row */
#define ROWS  8    /* rows that a block works on at once */
#define SCAN  1024 /* ids of a block of the kernels that add up counts */

template <class T> struct embed_args {
    const int32_t *ids;
    const T *table;
    T *y;
    int64_t n, v, e, origin;
};

template <class T, int N>
__global__ void __launch_bounds__(LANES *ROWS) embed_kernel(embed_args<T> a)
{
    for (int64_t r = (int64_t)blockIdx.x * ROWS + threadIdx.y; r < a.n;
         r += (int64_t)gridDim.x * ROWS) {
        int64_t row = (int64_t)a.ids[r] - a.origin;
        bool here = row >= 0 && row < a.v;
        for (int64_t j = (int64_t)threadIdx.x * N; j < a.e; j += LANES * N) {
            hsp_wide<T> v[N] = {};
            if (here) {
                hsp_load<N>(a.table + row * a.e + j, v);
            }
            hsp_store<N>(a.y + r * a.e + j, v);
        }
    }
}

enum hsp_status hsp_cuda_embed(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                               struct hsp_err *err)
{
    (void)err;
    const struct hsp_array *table = &c->in[1];
    HSP_FOR_REAL(table->dtype, T, {
        embed_args<T> a = {(const int32_t *)c->in[0].data,
                           (const T *)table->data,
                           (T *)c->out[0].data,
                           hsp_cuda_count(&c->in[0]),
                           table->ext[0],
                           table->ext[1],
                           c->origin[0]};
        unsigned grid = hsp_grid(g, a.n, ROWS);
        if (a.e % hsp_vec<T> == 0 && hsp_aligned(a.table) && hsp_aligned(a.y)) {
            HSP_LAUNCH((embed_kernel<T, hsp_vec<T>>), grid, dim3(LANES, ROWS), 0, g->stream[q], a);
        } else {
            HSP_LAUNCH((embed_kernel<T, 1>), grid, dim3(LANES, ROWS), 0, g->stream[q], a);
        }
    });
    return HSP_OK;
}

/* ---- lists of positions ---- */

struct embed_lists {
    const int32_t *ids;
    int64_t n, v, origin;
    int *count = nullptr; /* [v]: the number of positions of each id; the caller sets it to 0 */
    int *first = nullptr; /* [v + 1]: the begin of the list of each id */
    int *total = nullptr; /* [ceil(v / SCAN)]: the number of positions of SCAN consecutive ids */
    int *place = nullptr; /* [n]: the place of a position in its list */
    int *list = nullptr;  /* [n]: the lists */
    int *order = nullptr; /* [n]: the lists, each sorted */
};

static __device__ __forceinline__ int64_t row_of(const embed_lists &a, int64_t r)
{
    int64_t row = (int64_t)a.ids[r] - a.origin;
    return row >= 0 && row < a.v ? row : -1;
}

__global__ void __launch_bounds__(256) embed_count(embed_lists a)
{
    for (int64_t r = (int64_t)blockIdx.x * 256 + threadIdx.x; r < a.n;
         r += (int64_t)gridDim.x * 256) {
        int64_t row = row_of(a, r);
        if (row >= 0) {
            a.place[r] = atomicAdd(&a.count[row], 1);
        }
    }
}

/* Computes the number of positions that SCAN consecutive ids have. */
__global__ void __launch_bounds__(SCAN) embed_total(embed_lists a)
{
    int64_t i = (int64_t)blockIdx.x * SCAN + threadIdx.x;
    int n[1] = {i < a.v ? a.count[i] : 0};
    hsp_group_sum<SCAN, 1>(n);
    if (threadIdx.x == 0) {
        a.total[blockIdx.x] = n[0];
    }
}

/* Computes for each id the sum of all counts before it: those of earlier blocks, of earlier warps,
 * and of earlier lanes. */
__global__ void __launch_bounds__(SCAN) embed_scan(embed_lists a)
{
    __shared__ int warps[SCAN / 32];
    int before[1] = {0}, lane = (int)threadIdx.x % 32;
    for (int64_t b = threadIdx.x; b < blockIdx.x; b += SCAN) {
        before[0] += a.total[b];
    }
    hsp_group_sum<SCAN, 1>(before);
    int64_t i = (int64_t)blockIdx.x * SCAN + threadIdx.x;
    int mine = i < a.v ? a.count[i] : 0, upto = mine;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(0xffffffffU, upto, (unsigned)d);
        upto += lane >= d ? other : 0;
    }
    if (lane == 31) {
        warps[threadIdx.x / 32] = upto;
    }
    __syncthreads();
    for (int w = 0; w < (int)threadIdx.x / 32; w++) {
        upto += warps[w];
    }
    if (i < a.v) {
        a.first[i] = before[0] + upto - mine;
    }
    if (i == a.v - 1) {
        a.first[a.v] = before[0] + upto;
    }
}

__global__ void __launch_bounds__(256) embed_put(embed_lists a)
{
    for (int64_t r = (int64_t)blockIdx.x * 256 + threadIdx.x; r < a.n;
         r += (int64_t)gridDim.x * 256) {
        int64_t row = row_of(a, r);
        if (row >= 0) {
            a.list[a.first[row] + a.place[r]] = (int)r;
        }
    }
}

__global__ void __launch_bounds__(256) embed_sort(embed_lists a)
{
    for (int64_t r = (int64_t)blockIdx.x * 256 + threadIdx.x; r < a.n;
         r += (int64_t)gridDim.x * 256) {
        int64_t row = row_of(a, r);
        if (row >= 0) {
            int lo = a.first[row], hi = a.first[row + 1], smaller = 0;
            for (int i = lo; i < hi; i++) {
                smaller += a.list[i] < (int)r;
            }
            a.order[lo + smaller] = (int)r;
        }
    }
}

/* Adds up the rows of dy for each id. A block takes rows of the table and LANES N of their columns,
 * so several blocks share the work of a frequent id. Its ROWS groups of threads take every ROWSth
 * position of a list, and their sums are added in the order of the groups. If the output is added
 * to its content (@adds), only rows of ids in the call are touched. */
template <class T, int N>
__global__ void __launch_bounds__(LANES *ROWS)
    embed_dw_kernel(embed_lists a, const T *dy, hsp_wide<T> *dw, int64_t e, bool adds)
{
    typedef hsp_wide<T> W;
    __shared__ W part[ROWS][LANES * N];
    for (int64_t row = blockIdx.x; row < a.v; row += gridDim.x) {
        int lo = a.first[row], hi = a.first[row + 1];
        for (int64_t j0 = adds && hi == lo ? e : (int64_t)blockIdx.y * LANES * N; j0 < e;
             j0 += (int64_t)gridDim.y * LANES * N) {
            int64_t j = j0 + (int64_t)threadIdx.x * N;
            W acc[N] = {}, v[N];
#pragma unroll 4
            for (int i = lo + (int)threadIdx.y; j < e && i < hi; i += ROWS) {
                hsp_load<N>(dy + (int64_t)a.order[i] * e + j, v);
#pragma unroll
                for (int k = 0; k < N; k++) {
                    acc[k] += v[k];
                }
            }
            if (hi - lo > 1) { /* all threads of the block take the same branch */
                __syncthreads();
#pragma unroll
                for (int k = 0; k < N; k++) {
                    part[threadIdx.y][threadIdx.x * N + k] = acc[k];
                }
                __syncthreads();
                for (int y = 1; threadIdx.y == 0 && y < ROWS; y++) {
#pragma unroll
                    for (int k = 0; k < N; k++) {
                        acc[k] += part[y][threadIdx.x * N + k];
                    }
                }
            }
            if (threadIdx.y == 0 && j < e) {
                if (adds) {
                    hsp_load<N>(dw + row * e + j, v);
#pragma unroll
                    for (int k = 0; k < N; k++) {
                        acc[k] = v[k] + acc[k];
                    }
                }
                hsp_store<N>(dw + row * e + j, acc);
            }
        }
    }
}

template <class T>
static void add_rows(struct hsp_cuda *g, enum hsp_devq q, const embed_lists &a,
                     const struct hsp_call *c)
{
    const T *dy = (const T *)c->in[1].data;
    hsp_wide<T> *dw = (hsp_wide<T> *)c->out[0].data;
    int64_t e = c->out[0].ext[1];
    bool whole = e % hsp_vec<T> == 0 && hsp_aligned(dy) && hsp_aligned(dw);
    int64_t across = LANES * (whole ? hsp_vec<T> : 1), parts = (e + across - 1) / across;
    dim3 grid(hsp_grid(g, a.v, 1), (unsigned)(parts < 64 ? parts : 64));
    if (whole) {
        HSP_LAUNCH((embed_dw_kernel<T, hsp_vec<T>>), grid, dim3(LANES, ROWS), 0, g->stream[q], a,
                   dy, dw, e, c->adds != 0);
    } else {
        HSP_LAUNCH((embed_dw_kernel<T, 1>), grid, dim3(LANES, ROWS), 0, g->stream[q], a, dy, dw, e,
                   c->adds != 0);
    }
}

enum hsp_status hsp_cuda_embed_dw(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                  struct hsp_err *err)
{
    embed_lists a = {(const int32_t *)c->in[0].data, hsp_cuda_count(&c->in[0]), c->out[0].ext[0],
                     c->origin[0]};
    if (a.n > INT32_MAX || a.v > INT32_MAX) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "embed_dw of %lld ids", (long long)a.n);
    }
    void *p;
    int64_t runs = (a.v + SCAN - 1) / SCAN;
    size_t ints = (size_t)(2 * a.v + 1 + runs + 3 * a.n);
    enum hsp_status st = hsp_cuda_scratch(g, q, ints * sizeof(int), &p, err);
    if (st != HSP_OK) {
        return st;
    }
    a.count = (int *)p;
    a.first = a.count + a.v;
    a.total = a.first + a.v + 1;
    a.place = a.total + runs;
    a.list = a.place + a.n;
    a.order = a.list + a.n;
    st = hsp_cuda_check(g, cudaMemsetAsync(a.count, 0, (size_t)a.v * sizeof(int), g->stream[q]),
                        "embed_dw", err);
    if (st != HSP_OK) {
        return st;
    }
    unsigned grid = hsp_grid(g, a.n, 256);
    if (a.n > 0) {
        HSP_LAUNCH(embed_count, grid, 256, 0, g->stream[q], a);
    }
    HSP_LAUNCH(embed_total, (unsigned)runs, SCAN, 0, g->stream[q], a);
    HSP_LAUNCH(embed_scan, (unsigned)runs, SCAN, 0, g->stream[q], a);
    if (a.n > 0) {
        HSP_LAUNCH(embed_put, grid, 256, 0, g->stream[q], a);
        HSP_LAUNCH(embed_sort, grid, 256, 0, g->stream[q], a);
    }
    HSP_FOR_REAL(c->in[1].dtype, T, add_rows<T>(g, q, a, c););
    return HSP_OK;
}
