/* Computes element-wise ops, bias, broadcast and conversions, and implements fill and accumulate of
 * backend.h. */
#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/kernels.h"

template <class T> struct add_op {
    const T *a, *b;
    T *y;
    template <int N> __device__ void run(int64_t i) const
    {
        hsp_wide<T> u[N], v[N];
        hsp_load<N>(a + i, u);
        hsp_load<N>(b + i, v);
#pragma unroll
        for (int j = 0; j < N; j++) {
            u[j] += v[j];
        }
        hsp_store<N>(y + i, u);
    }
};

template <class T> struct gelu_op {
    const T *x;
    T *y;
    template <int N> __device__ void run(int64_t i) const
    {
        hsp_wide<T> v[N];
        hsp_load<N>(x + i, v);
#pragma unroll
        for (int j = 0; j < N; j++) {
            v[j] *= hsp_phi<T>(v[j]);
        }
        hsp_store<N>(y + i, v);
    }
};

template <class T> struct gelu_dx_op {
    const T *dy, *x;
    T *dx;
    template <int N> __device__ void run(int64_t i) const
    {
        hsp_wide<T> d[N], v[N];
        hsp_load<N>(dy + i, d);
        hsp_load<N>(x + i, v);
#pragma unroll
        for (int j = 0; j < N; j++) {
            d[j] *= hsp_gelu_slope<T>(v[j]);
        }
        hsp_store<N>(dx + i, d);
    }
};

template <class T> struct swiglu_op {
    const T *gate, *up;
    T *y;
    template <int N> __device__ void run(int64_t i) const
    {
        hsp_wide<T> g[N], u[N];
        hsp_load<N>(gate + i, g);
        hsp_load<N>(up + i, u);
#pragma unroll
        for (int j = 0; j < N; j++) {
            u[j] *= g[j] * hsp_sigmoid<T>(g[j]);
        }
        hsp_store<N>(y + i, u);
    }
};

/* The derivative of g sigmoid(g): with s = sigmoid(g) it is s (1 + g (1 - s)). */
template <class T> struct swiglu_dx_op {
    const T *dy, *gate, *up;
    T *dgate, *dup;
    template <int N> __device__ void run(int64_t i) const
    {
        hsp_wide<T> d[N], g[N], u[N];
        hsp_load<N>(dy + i, d);
        hsp_load<N>(gate + i, g);
        hsp_load<N>(up + i, u);
#pragma unroll
        for (int j = 0; j < N; j++) {
            hsp_wide<T> s = hsp_sigmoid<T>(g[j]), dj = d[j];
            d[j] = dj * u[j] * s * (1 + g[j] * (1 - s));
            u[j] = dj * g[j] * s;
        }
        hsp_store<N>(dgate + i, d);
        hsp_store<N>(dup + i, u);
    }
};

template <class T> struct broadcast_op {
    const double *value; /* one number */
    T *y;
    template <int N> __device__ void run(int64_t i) const
    {
        hsp_wide<T> v[N];
#pragma unroll
        for (int j = 0; j < N; j++) {
            v[j] = (hsp_wide<T>)*value;
        }
        hsp_store<N>(y + i, v);
    }
};

/* Converts from one type to another; widening is exact. */
template <class D, class S> struct convert_op {
    const S *x;
    D *y;
    template <int N> __device__ void run(int64_t i) const
    {
        hsp_wide<D> v[N];
        hsp_load<N>(x + i, v);
        hsp_store<N>(y + i, v);
    }
};

template <class D, class S> struct accumulate_op {
    D *dst;
    const S *src;
    template <int N> __device__ void run(int64_t i) const
    {
        hsp_wide<D> u[N], v[N];
        hsp_load<N>(dst + i, u);
        hsp_load<N>(src + i, v);
#pragma unroll
        for (int j = 0; j < N; j++) {
            u[j] += v[j];
        }
        hsp_store<N>(dst + i, u);
    }
};

template <class T> struct fill_op {
    T *y;
    hsp_wide<T> value;
    template <int N> __device__ void run(int64_t i) const
    {
        hsp_wide<T> v[N];
#pragma unroll
        for (int j = 0; j < N; j++) {
            v[j] = value;
        }
        hsp_store<N>(y + i, v);
    }
};

struct fill_ids_op {
    int32_t *y;
    int32_t value;
    template <int N> __device__ void run(int64_t i) const
    {
        static_assert(N == 1, "one at a time");
        y[i] = value;
    }
};

/* Applies @op to all elements of the call, whose operands are in the order of the op's fields. */
template <int N, class Op>
static void whole(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c, const Op &op)
{
    bool aligned = true;
    for (int i = 0; i < c->n_in; i++) {
        aligned = aligned && hsp_aligned(c->in[i].data);
    }
    for (int i = 0; i < c->n_out; i++) {
        aligned = aligned && hsp_aligned(c->out[i].data);
    }
    hsp_map<N>(g, q, op, hsp_cuda_count(&c->out[0]), aligned);
}

#define IN(i)  ((const T *)c->in[i].data)
#define OUT(i) ((T *)c->out[i].data)

enum hsp_status hsp_cuda_add(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                             struct hsp_err *err)
{
    (void)err;
    HSP_FOR_REAL(c->out[0].dtype, T, whole<hsp_vec<T>>(g, q, c, add_op<T>{IN(0), IN(1), OUT(0)}););
    return HSP_OK;
}

enum hsp_status hsp_cuda_gelu(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                              struct hsp_err *err)
{
    (void)err;
    HSP_FOR_REAL(c->out[0].dtype, T, whole<hsp_vec<T>>(g, q, c, gelu_op<T>{IN(0), OUT(0)}););
    return HSP_OK;
}

enum hsp_status hsp_cuda_gelu_dx(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                 struct hsp_err *err)
{
    (void)err;
    HSP_FOR_REAL(c->out[0].dtype, T,
                 whole<hsp_vec<T>>(g, q, c, gelu_dx_op<T>{IN(0), IN(1), OUT(0)}););
    return HSP_OK;
}

enum hsp_status hsp_cuda_swiglu(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                struct hsp_err *err)
{
    (void)err;
    HSP_FOR_REAL(c->out[0].dtype, T,
                 whole<hsp_vec<T>>(g, q, c, swiglu_op<T>{IN(0), IN(1), OUT(0)}););
    return HSP_OK;
}

enum hsp_status hsp_cuda_swiglu_dx(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                   struct hsp_err *err)
{
    (void)err;
    HSP_FOR_REAL(c->out[0].dtype, T,
                 whole<hsp_vec<T>>(g, q, c, swiglu_dx_op<T>{IN(0), IN(1), IN(2), OUT(0), OUT(1)}););
    return HSP_OK;
}

enum hsp_status hsp_cuda_broadcast(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                   struct hsp_err *err)
{
    (void)err;
    HSP_FOR_REAL(c->out[0].dtype, T,
                 hsp_map<hsp_vec<T>>(g, q, broadcast_op<T>{(const double *)c->in[0].data, OUT(0)},
                                     hsp_cuda_count(&c->out[0]), hsp_aligned(c->out[0].data)););
    return HSP_OK;
}

struct narrow_at {
    const float *x;
    hsp_bf16 *y;
};

__global__ void __launch_bounds__(HSP_MAP_THREADS)
    narrow_many(__grid_constant__ const hsp_table<narrow_at> t)
{
    int k = hsp_table_find(t);
    hsp_table_walk<8>(t, k, convert_op<hsp_bf16, float>{t.at[k].x, t.at[k].y});
}

/* Converts many tensors from fp32 to bf16. */
enum hsp_status hsp_cuda_narrow_many(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                     uint32_t n, struct hsp_err *err)
{
    (void)err;
    for (uint32_t k = 0; k < n;) {
        hsp_table<narrow_at> t = {};
        for (; k < n && t.tensors < HSP_TABLE_MOST; k++) {
            narrow_at at = {(const float *)c[k].in[0].data, (hsp_bf16 *)c[k].out[0].data};
            int64_t size = hsp_cuda_count(&c[k].out[0]);
            hsp_table_put(&t, at, size, hsp_table_chunks(size),
                          hsp_aligned(at.x) && hsp_aligned(at.y));
        }
        if (t.first[t.tensors] > 0) {
            HSP_LAUNCH(narrow_many, t.first[t.tensors], HSP_MAP_THREADS, 0, g->stream[q], t);
        }
    }
    return HSP_OK;
}

/* Runs narrow and widen, between any two types. */
enum hsp_status hsp_cuda_convert(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                 struct hsp_err *err)
{
    enum hsp_dtype from = c->in[0].dtype, to = c->out[0].dtype;
    const void *x = c->in[0].data;
    if (from == to) {
        return hsp_cuda_same(g, q, c, err);
    }
    if (from == HSP_F32 && to == HSP_BF16) {
        whole<8>(g, q, c,
                 convert_op<hsp_bf16, float>{(const float *)x, (hsp_bf16 *)c->out[0].data});
    } else if (from == HSP_BF16 && to == HSP_F32) {
        whole<8>(g, q, c,
                 convert_op<float, hsp_bf16>{(const hsp_bf16 *)x, (float *)c->out[0].data});
    } else {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s from %s to %s", hsp_op_name(c->op),
                           hsp_dtype_name(from), hsp_dtype_name(to));
    }
    return HSP_OK;
}

/* Copies the bytes; only the shape changes. */
enum hsp_status hsp_cuda_same(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                              struct hsp_err *err)
{
    size_t bytes = (size_t)hsp_cuda_count(&c->out[0]) * hsp_dtype_size(c->out[0].dtype);
    return hsp_cuda_check(g,
                          cudaMemcpyAsync(c->out[0].data, c->in[0].data, bytes,
                                          cudaMemcpyDeviceToDevice, g->stream[q]),
                          hsp_op_name(c->op), err);
}

/* ---- functions of the backend ---- */

cudaError_t hsp_cuda_find_code(void)
{
    cudaFuncAttributes a;
    return cudaFuncGetAttributes(&a, (const void *)narrow_many);
}

template <class D, class S>
static void accumulate(struct hsp_cuda *g, enum hsp_devq q, void *dst, const void *src, int64_t n)
{
    accumulate_op<D, S> op = {(D *)dst, (const S *)src};
    hsp_map<sizeof(S) == 2 ? 8 : 4>(g, q, op, n, hsp_aligned(dst) && hsp_aligned(src));
}

enum hsp_status hsp_cuda_accumulate(struct hsp_cuda *g, enum hsp_devq q, enum hsp_dtype dst_type,
                                    void *dst, enum hsp_dtype src_type, const void *src, int64_t n,
                                    struct hsp_err *err)
{
    if (dst_type == HSP_F32 && src_type == HSP_F32) {
        accumulate<float, float>(g, q, dst, src, n);
    } else if (dst_type == HSP_F32 && src_type == HSP_BF16) {
        accumulate<float, hsp_bf16>(g, q, dst, src, n);
    } else if (dst_type == HSP_F64 && src_type == HSP_F64) {
        accumulate<double, double>(g, q, dst, src, n);
    } else if (dst_type == HSP_F64 && src_type == HSP_F32) {
        accumulate<double, float>(g, q, dst, src, n);
    } else if (dst_type == HSP_F64 && src_type == HSP_BF16) {
        accumulate<double, hsp_bf16>(g, q, dst, src, n);
    } else {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "sum of %s into %s", hsp_dtype_name(src_type),
                           hsp_dtype_name(dst_type));
    }
    return HSP_OK;
}

enum hsp_status hsp_cuda_fill(struct hsp_cuda *g, enum hsp_devq q, enum hsp_dtype t, void *dst,
                              double value, int64_t n, struct hsp_err *err)
{
    (void)err;
    if (t == HSP_I32) {
        HSP_LAUNCH((hsp_map_kernel<1, fill_ids_op>), hsp_grid(g, n, HSP_MAP_THREADS),
                   HSP_MAP_THREADS, 0, g->stream[q], (fill_ids_op{(int32_t *)dst, (int32_t)value}),
                   n);
        return HSP_OK;
    }
    HSP_FOR_REAL(
        t, T,
        hsp_map<hsp_vec<T>>(g, q, fill_op<T>{(T *)dst, (hsp_wide<T>)value}, n, hsp_aligned(dst)););
    return HSP_OK;
}

/* ---- bias ---- */

/* Adds a bias to rows of n elements; a thread keeps the bias of its columns. */
template <class T, int N>
__global__ void __launch_bounds__(256)
    bias_kernel(const T *x, const T *bias, T *y, int64_t rows, int64_t n)
{
    int64_t col = ((int64_t)blockIdx.x * 256 + threadIdx.x) * N;
    if (col >= n) {
        return;
    }
    hsp_wide<T> b[N], v[N];
    hsp_load<N>(bias + col, b);
    for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
        hsp_load<N>(x + r * n + col, v);
#pragma unroll
        for (int j = 0; j < N; j++) {
            v[j] += b[j];
        }
        hsp_store<N>(y + r * n + col, v);
    }
}

template <class T, int N>
static void bias(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c)
{
    int64_t n = c->in[1].ext[0], rows = c->in[0].ext[0] * c->in[0].ext[1];
    int64_t across = (n / N + 255) / 256, down = (int64_t)g->n_sms * 16 / across + 1;
    dim3 grid((unsigned)across, (unsigned)(down < rows    ? down < 65535 ? down : 65535
                                           : rows < 65535 ? rows
                                                          : 65535));
    HSP_LAUNCH((bias_kernel<T, N>), grid, 256, 0, g->stream[q], IN(0), IN(1), OUT(0), rows, n);
}

enum hsp_status hsp_cuda_bias_add(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                  struct hsp_err *err)
{
    (void)err;
    HSP_FOR_REAL(c->out[0].dtype, T, {
        if (c->in[1].ext[0] % hsp_vec<T> == 0 && hsp_aligned(c->in[0].data) &&
            hsp_aligned(c->in[1].data) && hsp_aligned(c->out[0].data)) {
            bias<T, hsp_vec<T>>(g, q, c);
        } else {
            bias<T, 1>(g, q, c);
        }
    });
    return HSP_OK;
}
