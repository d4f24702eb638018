/* Copies cells between strided tensors, adds them, or takes the larger of both.
 * worker/backend/cells.c does the same on the host. */
#include "worker/backend/cuda/element.cuh"

/* A cell in both tensors. Dims of extent 1 are left out, and two dims that are contiguous in both
 * tensors are joined. Extents and strides count units: an element, or 16 bytes of a copy. The last
 * dim is contiguous. */
struct cells_shape {
    int rank;                                                        /* at least 1 */
    int64_t ext[HSP_MAX_RANK], dst[HSP_MAX_RANK], src[HSP_MAX_RANK]; /* strides */
    int64_t n;
};

struct cells_copy {
    template <class U> static __device__ void run(U *dst, const U *src)
    {
        *dst = *src;
    }
};
struct cells_add {
    template <class T> static __device__ void run(T *dst, const T *src)
    {
        hsp_narrow(hsp_widen(*dst) + hsp_widen(*src), dst);
    }
    static __device__ void run(int32_t *dst, const int32_t *src)
    {
        *dst = (int32_t)((uint32_t)*dst + (uint32_t)*src);
    }
};
/* A NaN is larger than any number. */
struct cells_max {
    template <class T> static __device__ void run(T *dst, const T *src)
    {
        hsp_wide<T> d = hsp_widen(*dst), s = hsp_widen(*src);
        if (!(d > s) && d == d) {
            *dst = *src;
        }
    }
    static __device__ void run(int32_t *dst, const int32_t *src)
    {
        *dst = *dst > *src ? *dst : *src;
    }
};

/* Computes the offset of unit @i in both tensors. I is an unsigned type; if the cell is small
 * enough it has 32 bits, whose division is cheap. */
template <class I>
static __device__ __forceinline__ void cells_place(const cells_shape &s, int64_t i, int64_t *to,
                                                   int64_t *from)
{
    I rest = (I)i;
    *to = *from = 0;
#pragma unroll
    for (int d = HSP_MAX_RANK - 1; d >= 0; d--) {
        if (d < s.rank) {
            I ext = (I)s.ext[d], at = d == 0 ? rest : rest % ext;
            rest = d == 0 ? 0 : rest / ext;
            *to += (int64_t)at * s.dst[d];
            *from += (int64_t)at * s.src[d];
        }
    }
}

template <class How, class U>
__global__ void __launch_bounds__(256) cells_kernel(cells_shape s, U *dst, const U *src)
{
    int64_t step = (int64_t)gridDim.x * 256, to, from;
    bool small = s.n <= UINT32_MAX;
    for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < s.n; i += step) {
        if (small) {
            cells_place<uint32_t>(s, i, &to, &from);
        } else {
            cells_place<uint64_t>(s, i, &to, &from);
        }
        How::run(dst + to, src + from);
    }
}

/* Computes the offset of the cell's first element in the box @held, and the stride of each dim. */
static int64_t strides(const struct hsp_box *held, const struct hsp_box *cell, int64_t *ret)
{
    int64_t s = 1, at = 0;
    for (int d = (int)held->rank - 1; d >= 0; d--) {
        ret[d] = s;
        at += (cell->lo[d] - held->lo[d]) * s;
        s *= held->hi[d] - held->lo[d];
    }
    return at;
}

static void shape_of(const struct hsp_box *cell, const int64_t *dst, const int64_t *src,
                     struct cells_shape *ret)
{
    *ret = cells_shape{};
    ret->n = 1;
    for (int d = 0; d < (int)cell->rank; d++) {
        int64_t ext = cell->hi[d] - cell->lo[d], last = ret->rank - 1;
        ret->n *= ext;
        if (ext == 1) {
            continue;
        }
        if (last >= 0 && ret->dst[last] == ext * dst[d] && ret->src[last] == ext * src[d]) {
            ret->ext[last] *= ext;
        } else {
            last = ret->rank++;
            ret->ext[last] = ext;
        }
        ret->dst[last] = dst[d];
        ret->src[last] = src[d];
    }
    if (ret->rank == 0) { /* the cell is a single element */
        ret->rank = 1;
        ret->ext[0] = ret->dst[0] = ret->src[0] = 1;
    }
}

/* Returns whether @units consecutive elements are contiguous and aligned in both tensors. */
static bool divides(const struct cells_shape *s, int64_t units, const void *dst, const void *src)
{
    int last = s->rank - 1;
    bool yes = hsp_aligned(dst) && hsp_aligned(src) && s->dst[last] == 1 && s->src[last] == 1 &&
               s->ext[last] % units == 0;
    for (int d = 0; d < last; d++) {
        yes = yes && s->dst[d] % units == 0 && s->src[d] % units == 0;
    }
    return yes;
}

template <class How, class U>
static void launch(struct hsp_cuda *g, enum hsp_devq q, const struct cells_shape &s, void *dst,
                   const void *src)
{
    HSP_LAUNCH((cells_kernel<How, U>), hsp_grid(g, s.n, 256), 256, 0, g->stream[q], s, (U *)dst,
               (const U *)src);
}

static void copy(struct hsp_cuda *g, enum hsp_devq q, struct cells_shape s, size_t size, void *dst,
                 const void *src)
{
    int64_t units = 16 / (int64_t)size;
    int last = s.rank - 1;
    if (divides(&s, units, dst, src)) {
        for (int d = 0; d < last; d++) {
            s.dst[d] /= units;
            s.src[d] /= units;
        }
        s.ext[last] /= units;
        s.n /= units;
        launch<cells_copy, uint4>(g, q, s, dst, src);
    } else if (size == 2) {
        launch<cells_copy, unsigned short>(g, q, s, dst, src);
    } else if (size == 4) {
        launch<cells_copy, unsigned>(g, q, s, dst, src);
    } else {
        launch<cells_copy, double>(g, q, s, dst, src);
    }
}

template <class How>
static void reduce(struct hsp_cuda *g, enum hsp_devq q, const struct cells_shape &s,
                   enum hsp_dtype t, void *dst, const void *src)
{
    if (t == HSP_I32) {
        launch<How, int32_t>(g, q, s, dst, src);
    } else {
        HSP_FOR_REAL(t, T, launch<How, T>(g, q, s, dst, src););
    }
}

enum hsp_status hsp_cuda_cells(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_cell_view *dst,
                               const struct hsp_cell_view *src, const struct hsp_box *cell,
                               enum hsp_cells how, struct hsp_err *err)
{
    (void)err;
    size_t size = hsp_dtype_size(dst->dtype);
    int64_t to[HSP_MAX_RANK], from[HSP_MAX_RANK];
    int64_t d0 = strides(&dst->box, cell, to), s0 = strides(&src->box, cell, from);
    uint8_t *d = (uint8_t *)dst->data + (size_t)d0 * size;
    const uint8_t *s = (const uint8_t *)src->data + (size_t)s0 * size;
    struct cells_shape shape;
    shape_of(cell, to, from, &shape);
    if (shape.n == 0) {
        return HSP_OK;
    }
    if (how == HSP_CELLS_COPY) {
        copy(g, q, shape, size, d, s);
    } else if (how == HSP_CELLS_ADD) {
        reduce<cells_add>(g, q, shape, dst->dtype, d, s);
    } else {
        reduce<cells_max>(g, q, shape, dst->dtype, d, s);
    }
    return HSP_OK;
}
