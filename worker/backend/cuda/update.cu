/* Updates parameters by the optimizers. The learning rate and the factor of the gradient are read
 * from device memory when the kernel runs, so a replayed launch uses those of its own step.
 *
 * The sums over the state (proto/base/word_sums.h) take words that are in registers anyway. A block
 * numbers the words of its chunk from 0, in 32 bits, and adds the number of the chunk's first word
 * at its end. Sums are integers, so blocks add them in any order. */
#include "worker/backend/cuda/block_sum.cuh"
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/kernels.h"

typedef unsigned long long word;
static_assert(sizeof(struct hsp_state_sums) == 4 * sizeof(word), "sums are four words");

/* Sums the words of @States arrays as read and as written, over the chunk of a block: each thread
 * has sums, and the block adds them up at its end. */
template <bool Sums, int States> struct watch {
    word at;            /* the first element of the chunk */
    word s[4 * States]; /* for each array: sum and places as read, sum and places as written */
    __device__ __forceinline__ void begin(int64_t first)
    {
        at = (word)first;
#pragma unroll
        for (int k = 0; k < 4 * States; k++) {
            s[k] = 0;
        }
    }
    __device__ __forceinline__ void add(int k, uint32_t place, uint32_t x)
    {
        s[k] += x;
        s[k + 1] += (word)place * x;
    }
    /* Adds elements from @i on of array @state, as read (@wrote 0) or as written (@wrote 1). */
    template <int N>
    __device__ __forceinline__ void note(int state, int wrote, int64_t i, const float (&x)[N])
    {
#pragma unroll
        for (int j = 0; j < N; j++) {
            add(4 * state + 2 * wrote, (uint32_t)(i - (int64_t)at) + j, __float_as_uint(x[j]));
        }
    }
    template <int N>
    __device__ __forceinline__ void note(int state, int wrote, int64_t i, const double (&x)[N])
    {
#pragma unroll
        for (int j = 0; j < N; j++) {
            uint32_t place = 2 * ((uint32_t)(i - (int64_t)at) + j);
            word bits = (word)__double_as_longlong(x[j]);
            add(4 * state + 2 * wrote, place, (uint32_t)bits);
            add(4 * state + 2 * wrote, place + 1, (uint32_t)(bits >> 32));
        }
    }
    /* Adds the sums of the block to @to. All threads of the block call it. */
    template <class W> __device__ __forceinline__ void end(word *const (&to)[States])
    {
        hsp_group_sum<HSP_MAP_THREADS, 4 * States>(s);
        if (threadIdx.x == 0) {
#pragma unroll
            for (int k = 0; k < States; k++) {
#pragma unroll
                for (int j = 0; j < 4; j += 2) {
                    word sum = s[4 * k + j], first = at * (sizeof(W) / 4);
                    atomicAdd(to[k] + j, sum);
                    atomicAdd(to[k] + j + 1, s[4 * k + j + 1] + first * sum);
                }
            }
        }
    }
};
template <int States> struct watch<false, States> {
    __device__ __forceinline__ void begin(int64_t)
    {
    }
    template <int N, class W>
    __device__ __forceinline__ void note(int, int, int64_t, const W (&)[N])
    {
    }
    template <class W> __device__ __forceinline__ void end(word *const (&)[States])
    {
    }
};

/* Updates by AdamW with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2), in the
 * order of operations of torch.optim.AdamW. */
template <class W> struct adamw_at {
    const W *p, *m, *v, *g;
    W *p1, *m1, *v1;
    word *sums[3]; /* sum and places as read, sum and places as written */
};
struct adamw_args {
    const struct hsp_update_scalars *u;
    double beta1, beta2, eps, decay;
};

template <class W, bool Sums> struct adamw_op {
    typedef adamw_at<W> At;
    typedef adamw_args Args;
    typedef W Type;
    static constexpr int States = 3;
    At a;
    mutable watch<Sums, States> seen;
    W keep, w1, b2, w2, eps, root2, step, scale;
    template <int N> __device__ void run(int64_t i) const
    {
        W p[N], m[N], v[N], g[N];
        hsp_load<N>(a.p + i, p);
        hsp_load<N>(a.m + i, m);
        hsp_load<N>(a.v + i, v);
        hsp_load<N>(a.g + i, g);
        seen.note(0, 0, i, p);
        seen.note(1, 0, i, m);
        seen.note(2, 0, i, v);
#pragma unroll
        for (int j = 0; j < N; j++) {
            W gj = g[j] * scale;
            m[j] += (gj - m[j]) * w1;
            v[j] = v[j] * b2 + gj * gj * w2;
            p[j] = p[j] * keep - step * (m[j] / (sqrt(v[j]) / root2 + eps));
        }
        hsp_store<N>(a.p1 + i, p);
        hsp_store<N>(a.m1 + i, m);
        hsp_store<N>(a.v1 + i, v);
        seen.note(0, 1, i, p);
        seen.note(1, 1, i, m);
        seen.note(2, 1, i, v);
    }
};

/* Updates by SGD with momentum as torch.optim.SGD does without dampening: the decay is part of the
 * gradient. */
template <class W> struct sgdm_at {
    const W *p, *m, *g;
    W *p1, *m1;
    word *sums[2];
};
struct sgdm_args {
    const struct hsp_update_scalars *u;
    double momentum, decay;
};

template <class W, bool Sums> struct sgdm_op {
    typedef sgdm_at<W> At;
    typedef sgdm_args Args;
    typedef W Type;
    static constexpr int States = 2;
    At a;
    mutable watch<Sums, States> seen;
    W mu, decay, lr, scale;
    template <int N> __device__ void run(int64_t i) const
    {
        W p[N], m[N], g[N];
        hsp_load<N>(a.p + i, p);
        hsp_load<N>(a.m + i, m);
        hsp_load<N>(a.g + i, g);
        seen.note(0, 0, i, p);
        seen.note(1, 0, i, m);
#pragma unroll
        for (int j = 0; j < N; j++) {
            m[j] = mu * m[j] + (g[j] * scale + decay * p[j]);
            p[j] -= lr * m[j];
        }
        hsp_store<N>(a.p1 + i, p);
        hsp_store<N>(a.m1 + i, m);
        seen.note(0, 1, i, p);
        seen.note(1, 1, i, m);
    }
};

/* Compute the factors of the step, in fp64, in one thread of each block. */
template <class W, bool Sums>
static __device__ __forceinline__ void update_begin(const adamw_args &a, adamw_op<W, Sums> *op)
{
    op->keep = (W)(1.0 - a.u->lr * a.decay);
    op->w1 = (W)(1.0 - a.beta1);
    op->b2 = (W)a.beta2;
    op->w2 = (W)(1.0 - a.beta2);
    op->eps = (W)a.eps;
    op->root2 = (W)sqrt(a.u->bias2);
    op->step = (W)(a.u->lr / a.u->bias1);
    op->scale = (W)a.u->grad_scale;
}
template <class W, bool Sums>
static __device__ __forceinline__ void update_begin(const sgdm_args &a, sgdm_op<W, Sums> *op)
{
    op->mu = (W)a.momentum;
    op->decay = (W)a.decay;
    op->lr = (W)a.u->lr;
    op->scale = (W)a.u->grad_scale;
}

/* Updates one or more tensors; each block takes a chunk of one tensor. */
template <class Op, int N>
__global__ void __launch_bounds__(HSP_MAP_THREADS)
    update_kernel(__grid_constant__ const hsp_table<typename Op::At> t,
                  const typename Op::Args args)
{
    __shared__ Op shared;
    if (threadIdx.x == 0) {
        update_begin(args, &shared);
    }
    __syncthreads();
    Op op = shared;
    int k = hsp_table_find(t);
    op.a = t.at[k];
    op.seen.begin((int64_t)(blockIdx.x - t.first[k]) * HSP_TABLE_CHUNK);
    hsp_table_walk<N>(t, k, op);
    op.seen.template end<typename Op::Type>(op.a.sums);
}

#define IN(i)   ((const W *)c->in[i].data)
#define OUT(i)  ((W *)c->out[i].data)
#define SUMS(i) ((word *)c->sums[i])

template <class W> static void update_read(const struct hsp_call *c, adamw_at<W> *ret)
{
    *ret = {IN(0), IN(1), IN(2), IN(3), OUT(0), OUT(1), OUT(2), {SUMS(0), SUMS(1), SUMS(2)}};
}
template <class W> static void update_read(const struct hsp_call *c, sgdm_at<W> *ret)
{
    *ret = {IN(0), IN(1), IN(2), OUT(0), OUT(1), {SUMS(0), SUMS(1)}};
}
static void update_rates(const struct hsp_call *c, adamw_args *ret)
{
    const double *f = c->at->f;
    *ret = {c->update, f[0], f[1], f[2], f[3]};
}
static void update_rates(const struct hsp_call *c, sgdm_args *ret)
{
    *ret = {c->update, c->at->f[0], c->at->f[1]};
}

template <class W, class Op>
static void update(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c, uint32_t n)
{
    constexpr int N = hsp_vec<W>;
    typename Op::Args args;
    update_rates(&c[0], &args);
    for (uint32_t k = 0; k < n;) {
        hsp_table<typename Op::At> t = {};
        for (; k < n && t.tensors < hsp_table_room<typename Op::At>; k++) {
            typename Op::At at;
            bool aligned = true;
            for (int i = 0; i < c[k].n_in + c[k].n_out; i++) {
                aligned = aligned && hsp_aligned(i < c[k].n_in ? c[k].in[i].data
                                                               : c[k].out[i - c[k].n_in].data);
            }
            update_read(&c[k], &at);
            int64_t size = hsp_cuda_count(&c[k].out[0]);
            hsp_table_put(&t, at, size, hsp_table_chunks(size), aligned);
        }
        if (t.first[t.tensors] > 0) {
            HSP_LAUNCH((update_kernel<Op, N>), t.first[t.tensors], HSP_MAP_THREADS, 0, g->stream[q],
                       t, args);
        }
    }
}

/* Returns how many of the @n calls, from the first on, agree in whether they make sums. */
static uint32_t alike(const struct hsp_call *c, uint32_t n)
{
    uint32_t k = 1;
    while (k < n && (c[k].sums[0] == NULL) == (c[0].sums[0] == NULL)) {
        k++;
    }
    return k;
}

template <class W>
static void update_alike(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c, uint32_t n)
{
    const bool sums = c->sums[0] != NULL;
    if (c->op == HSP_OP_ADAMW && sums) {
        update<W, adamw_op<W, true>>(g, q, c, n);
    } else if (c->op == HSP_OP_ADAMW) {
        update<W, adamw_op<W, false>>(g, q, c, n);
    } else if (sums) {
        update<W, sgdm_op<W, true>>(g, q, c, n);
    } else {
        update<W, sgdm_op<W, false>>(g, q, c, n);
    }
}

enum hsp_status hsp_cuda_update_many(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                     uint32_t n, struct hsp_err *err)
{
    HSP_FOR_WIDE(c->in[0].dtype, W, {
        for (uint32_t k = 0, some; k < n; k += some) {
            some = alike(c + k, n - k);
            update_alike<W>(g, q, c + k, some);
        }
        return HSP_OK;
    });
    return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s of %s", hsp_op_name(c->op),
                       hsp_dtype_name(c->in[0].dtype));
}

enum hsp_status hsp_cuda_update(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                struct hsp_err *err)
{
    return hsp_cuda_update_many(g, q, c, 1, err);
}
