/* Hashes state in device memory. The terms of a hash are integers, so each block adds the sum of
 * its terms to the result, in any order. */
#include "proto/base/element_hash.h"
#include "worker/backend/cuda/block_sum.cuh"
#include "worker/backend/cuda/cuda_device.h"
#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/kernels.h"
extern "C" {
#include "worker/backend/hash_runs.h"
}

#define THREADS 256
typedef unsigned long long word;

/* Returns the term of one element, as hsp_hash_term does (proto/base/element_hash.h). */
static __device__ __forceinline__ word hash_term(word bits, word key)
{
    word w = bits ^ key;
    return (w & 0xffffffffU) * (w >> 32) + (w << 32 | w >> 32);
}
static __device__ __forceinline__ word hash_bits(uint32_t x)
{
    return (word)x << 32 | x;
}
static __device__ __forceinline__ word hash_bits(word x)
{
    return x;
}

/* An array whose elements have consecutive numbers. */
template <class U> struct hash_at {
    const U *x;
    word *ret;
    word key;
};

/* Hashes arrays whose elements have consecutive numbers: element i of array k has the key
 * t.at[k].key + i * HSP_HASH_STEP. */
template <class U>
__global__ void __launch_bounds__(THREADS)
    hash_runs(__grid_constant__ const hsp_table<hash_at<U>> t)
{
    int k = hsp_table_find(t);
    int64_t lo = (int64_t)(blockIdx.x - t.first[k]) * HSP_TABLE_CHUNK;
    int64_t hi = lo + HSP_TABLE_CHUNK < t.n[k] ? lo + HSP_TABLE_CHUNK : t.n[k];
    const U *x = t.at[k].x;
    word s[1] = {0};
    for (int64_t i = lo + threadIdx.x; i < hi; i += THREADS) {
        s[0] += hash_term(hash_bits(x[i]), t.at[k].key + (word)i * HSP_HASH_STEP);
    }
    hsp_group_sum<THREADS, 1>(s);
    if (threadIdx.x == 0) {
        atomicAdd(t.at[k].ret, s[0]);
    }
}

/* An array whose elements are several runs of consecutive numbers. */
template <class U> struct hash_array {
    const U *x;
    word *ret;
    word key;
    int64_t n, ext[HSP_MAX_RANK], stride[HSP_MAX_RANK];
    int rank;
};

template <class U>
__global__ void __launch_bounds__(THREADS) hash_whole(__grid_constant__ const hash_array<U> a)
{
    word s[1] = {0};
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.n;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t at = i, number = 0;
#pragma unroll
        for (int d = HSP_MAX_RANK - 1; d >= 0; d--) {
            if (d < a.rank) {
                number += at % a.ext[d] * a.stride[d];
                at /= a.ext[d];
            }
        }
        s[0] += hash_term(hash_bits(a.x[i]), a.key + (word)number * HSP_HASH_STEP);
    }
    hsp_group_sum<THREADS, 1>(s);
    if (threadIdx.x == 0) {
        atomicAdd(a.ret, s[0]);
    }
}

static int64_t elements(const struct hsp_hash_call *c)
{
    int64_t n = 1;
    for (uint8_t d = 0; d < c->rank; d++) {
        n *= c->ext[d];
    }
    return n;
}

template <class U>
static void give_runs(struct hsp_cuda *g, enum hsp_devq q, hsp_table<hash_at<U>> *t)
{
    if (t->tensors > 0) {
        HSP_LAUNCH((hash_runs<U>), t->first[t->tensors], THREADS, 0, g->stream[q], *t);
    }
    *t = {};
}

template <class U>
static void give_array(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_hash_call *c,
                       word *ret)
{
    hash_array<U> a = {};
    a.x = (const U *)c->data;
    a.ret = ret;
    a.key = c->key;
    a.n = elements(c);
    a.rank = c->rank;
    for (uint8_t d = 0; d < c->rank; d++) {
        a.ext[d] = c->ext[d];
        a.stride[d] = c->stride[d];
    }
    HSP_LAUNCH((hash_whole<U>), hsp_grid(g, a.n, THREADS), THREADS, 0, g->stream[q], a);
}

/* Hashes those of the @n calls whose elements have the size of U. */
template <class U>
static void hash_those(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_hash_call *c,
                       uint32_t n, word *ret)
{
    hsp_table<hash_at<U>> t = {};
    for (uint32_t k = 0; k < n; k++) {
        struct hsp_hash_call one;
        if (hsp_dtype_size(c[k].dtype) != sizeof(U) || !hsp_hash_join(&c[k], &one)) {
            continue;
        }
        if (one.rank > 1) {
            give_array<U>(g, q, &one, ret + k);
            continue;
        }
        hash_at<U> at = {(const U *)one.data, ret + k, one.key};
        hsp_table_put(&t, at, one.ext[0], hsp_table_chunks(one.ext[0]), true);
        if (t.tensors == HSP_TABLE_MOST) {
            give_runs(g, q, &t);
        }
    }
    give_runs(g, q, &t);
}

enum hsp_status hsp_cuda_hash(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_hash_call *c,
                              uint32_t n, uint64_t *ret, struct hsp_err *err)
{
    enum hsp_status st =
        hsp_cuda_check(g, cudaMemsetAsync(ret, 0, (size_t)n * sizeof(*ret), g->stream[q]),
                       "the sums of a hash", err);
    if (st == HSP_OK) {
        hash_those<uint32_t>(g, q, c, n, (word *)ret);
        hash_those<word>(g, q, c, n, (word *)ret);
    }
    return st;
}
