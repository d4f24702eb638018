/* The updates of the optimizers. The learning rate and the factor of the gradient are read from
 * memory of the device when the kernel runs: a replayed launch sees those of its own step. */
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/kernels.h"

/* AdamW with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2), in the order of
 * operations of torch.optim.AdamW. */
template <class W> struct adamw_args {
    const W *p, *m, *v, *g;
    W *p1, *m1, *v1;
    const struct hsp_update_scalars *u;
    double beta1, beta2, eps, decay;
};

template <class W> struct adamw_op {
    adamw_args<W> a;
    W keep, w1, b2, w2, eps, root2, step, scale;
    template <int N> __device__ void run(int64_t i) const
    {
        W p[N], m[N], v[N], g[N];
        hsp_load<N>(a.p + i, p);
        hsp_load<N>(a.m + i, m);
        hsp_load<N>(a.v + i, v);
        hsp_load<N>(a.g + i, g);
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
    }
};

/* SGD with momentum as torch.optim.SGD without dampening: the decay is part of the gradient. */
template <class W> struct sgdm_args {
    const W *p, *m, *g;
    W *p1, *m1;
    const struct hsp_update_scalars *u;
    double momentum, decay;
};

template <class W> struct sgdm_op {
    sgdm_args<W> a;
    W mu, decay, lr, scale;
    template <int N> __device__ void run(int64_t i) const
    {
        W p[N], m[N], g[N];
        hsp_load<N>(a.p + i, p);
        hsp_load<N>(a.m + i, m);
        hsp_load<N>(a.g + i, g);
#pragma unroll
        for (int j = 0; j < N; j++) {
            m[j] = mu * m[j] + (g[j] * scale + decay * p[j]);
            p[j] -= lr * m[j];
        }
        hsp_store<N>(a.p1 + i, p);
        hsp_store<N>(a.m1 + i, m);
    }
};

/* The numbers of the step: made in fp64 by one thread of a block. */
template <class W>
static __device__ __forceinline__ void update_begin(const adamw_args<W> &a, adamw_op<W> *op)
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
template <class W>
static __device__ __forceinline__ void update_begin(const sgdm_args<W> &a, sgdm_op<W> *op)
{
    op->mu = (W)a.momentum;
    op->decay = (W)a.decay;
    op->lr = (W)a.u->lr;
    op->scale = (W)a.u->grad_scale;
}

template <class Op, int N, class Args>
__global__ void __launch_bounds__(HSP_MAP_THREADS) update_kernel(Args args, int64_t n)
{
    __shared__ Op shared;
    if (threadIdx.x == 0) {
        update_begin(args, &shared);
    }
    __syncthreads();
    Op op = shared;
    op.a = args;
    int64_t first = (int64_t)blockIdx.x * HSP_MAP_THREADS + threadIdx.x;
    int64_t step = (int64_t)gridDim.x * HSP_MAP_THREADS;
    for (int64_t i = first; i < n / N; i += step) {
        op.template run<N>(i * N);
    }
    if (N > 1 && first < n % N) {
        op.template run<1>(n / N * N + first);
    }
}

template <class W, class Op, class Args>
static void update(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c, const Args &args)
{
    bool aligned = true;
    for (int i = 0; i < c->n_in + c->n_out; i++) {
        aligned = aligned && hsp_aligned(i < c->n_in ? c->in[i].data : c->out[i - c->n_in].data);
    }
    constexpr int N = hsp_vec<W>;
    int64_t n = hsp_cuda_count(&c->out[0]);
    if (aligned) {
        HSP_LAUNCH((update_kernel<Op, N, Args>), hsp_grid(g, n / N + 1, HSP_MAP_THREADS),
                   HSP_MAP_THREADS, 0, g->stream[q], args, n);
    } else {
        HSP_LAUNCH((update_kernel<Op, 1, Args>), hsp_grid(g, n, HSP_MAP_THREADS), HSP_MAP_THREADS,
                   0, g->stream[q], args, n);
    }
}

#define IN(i)  ((const W *)c->in[i].data)
#define OUT(i) ((W *)c->out[i].data)

enum hsp_status hsp_cuda_adamw(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                               struct hsp_err *err)
{
    const double *f = c->at->f;
    HSP_FOR_WIDE(c->in[0].dtype, W, {
        adamw_args<W> a = {IN(0),  IN(1),     IN(2), IN(3), OUT(0), OUT(1),
                           OUT(2), c->update, f[0],  f[1],  f[2],   f[3]};
        update<W, adamw_op<W>>(g, q, c, a);
        return HSP_OK;
    });
    return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "adamw of %s", hsp_dtype_name(c->in[0].dtype));
}

enum hsp_status hsp_cuda_sgdm(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                              struct hsp_err *err)
{
    const double *f = c->at->f;
    HSP_FOR_WIDE(c->in[0].dtype, W, {
        sgdm_args<W> a = {IN(0), IN(1), IN(2), OUT(0), OUT(1), c->update, f[0], f[1]};
        update<W, sgdm_op<W>>(g, q, c, a);
        return HSP_OK;
    });
    return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "sgdm of %s", hsp_dtype_name(c->in[0].dtype));
}
