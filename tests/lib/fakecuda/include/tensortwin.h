/* Computes worker/backend/cuda/tensor_core.cuh on the host: portable, one fiber a lane.
 *
 * Numbers: sums of a product are made in ascending k in fp32; tensor cores may add in another
 * order.
 * Copies:  land as late as the instructions allow, when their group is waited for, or at once: a
 *          kernel must be right both ways.
 */
#ifndef HSP_TENSORTWIN_H
#define HSP_TENSORTWIN_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "tests/lib/fakecuda/emulate.h"
#ifdef __cplusplus
#include <cuda_bf16.h>
#endif

#define HSP_TWIN_COPIES 256 /* copies of a thread on their way */

/* Copies of one thread: [begin, open) in groups, ends[i] one behind the copies of the i-th
 * group. */
struct hsp_twin_copies {
    struct {
        void *to;
        const void *from;
    } copy[HSP_TWIN_COPIES];
    int n, ends[HSP_TWIN_COPIES], n_groups;
};
#ifdef __cplusplus
extern "C" {
#endif
/* Of kernels to come: whether copies land at once. None is on its way. */
void hsp_twin_copies_reset(bool at_once);

extern struct hsp_twin_copies hsp_twin_copies[HSP_FAKE_MAX_THREADS];
extern bool hsp_twin_at_once;
#ifdef __cplusplus
}

struct hsp_tile {
    uint16_t *at;
};
static inline struct hsp_tile hsp_tile_of(const void *shared)
{
    return {(uint16_t *)shared};
}
static inline struct hsp_tile operator+(struct hsp_tile t, int elements)
{
    return {t.at + elements};
}

static inline float hsp_twin_half(uint32_t pair, int which)
{
    return __uint_as_float((pair >> (16 * which)) << 16);
}

static inline void hsp_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1}, all[HSP_FAKE_WARP][6];
    hsp_fake_warp_exchange("mma", ~0U, mine, sizeof(mine), all);
    int lane = hsp_fake_thread() % HSP_FAKE_WARP, g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) {
        int row = g, column = 2 * t + i % 2;
        for (int k = 0; k < 16; k++) { /* row + 8 * (i / 2) of A, column of B */
            uint32_t x = all[row * 4 + k % 8 / 2][i / 2 + k / 8 * 2];
            uint32_t y = all[column * 4 + k % 8 / 2][4 + k / 8];
            c[i] += hsp_twin_half(x, k % 2) * hsp_twin_half(y, k % 2);
        }
    }
}

static inline uint16_t hsp_twin_element(const uint16_t *const *rows, int matrix, int row,
                                        int column)
{
    return rows[matrix * 8 + row][column];
}

static inline void hsp_twin_rows(struct hsp_tile row, const uint16_t **all)
{
    if ((uintptr_t)row.at % 16 != 0) {
        hsp_fake_fault("ldmatrix of a row at %p", (void *)row.at);
    }
    hsp_fake_warp_exchange("ldmatrix", ~0U, &row.at, sizeof(row.at), all);
}

static inline void hsp_ldmatrix(uint32_t (&r)[4], struct hsp_tile row)
{
    const uint16_t *rows[HSP_FAKE_WARP];
    hsp_twin_rows(row, rows);
    int lane = hsp_fake_thread() % HSP_FAKE_WARP, g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) {
        r[i] = hsp_twin_element(rows, i, g, 2 * t) |
               (uint32_t)hsp_twin_element(rows, i, g, 2 * t + 1) << 16;
    }
}

static inline void hsp_ldmatrix_trans(uint32_t (&r)[4], struct hsp_tile row)
{
    const uint16_t *rows[HSP_FAKE_WARP];
    hsp_twin_rows(row, rows);
    int lane = hsp_fake_thread() % HSP_FAKE_WARP, g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) {
        r[i] = hsp_twin_element(rows, i, 2 * t, g) |
               (uint32_t)hsp_twin_element(rows, i, 2 * t + 1, g) << 16;
    }
}

static inline void hsp_twin_land(void *to, const void *from)
{
    for (int i = 0; i < 2; i++) {
        ((uint64_t *)to)[i] = from == nullptr ? 0 : ((const uint64_t *)from)[i];
    }
}

static inline void hsp_copy16(struct hsp_tile tile, const void *global, bool live)
{
    void *shared = tile.at;
    struct hsp_twin_copies *c = &hsp_twin_copies[hsp_fake_thread()];
    if ((uintptr_t)shared % 16 != 0 || (uintptr_t)global % 16 != 0 || c->n == HSP_TWIN_COPIES) {
        hsp_fake_fault("copy %d of 16 bytes from %p to %p", c->n, global, shared);
    }
    if (hsp_twin_at_once) {
        hsp_twin_land(shared, live ? global : nullptr);
        return;
    }
    c->copy[c->n].to = shared;
    c->copy[c->n].from = live ? global : nullptr;
    c->n++;
}

static inline void hsp_copy_commit(void)
{
    struct hsp_twin_copies *c = &hsp_twin_copies[hsp_fake_thread()];
    c->ends[c->n_groups++] = c->n;
}

static inline void hsp_twin_wait(int behind)
{
    struct hsp_twin_copies *c = &hsp_twin_copies[hsp_fake_thread()];
    int groups = c->n_groups > behind ? c->n_groups - behind : 0;
    int n = groups > 0 ? c->ends[groups - 1] : 0;
    for (int i = 0; i < n; i++) {
        hsp_twin_land(c->copy[i].to, c->copy[i].from);
    }
    memmove(c->copy, c->copy + n, (size_t)(c->n - n) * sizeof(c->copy[0]));
    c->n -= n;
    c->n_groups -= groups;
    for (int i = 0; i < c->n_groups; i++) {
        c->ends[i] = c->ends[i + groups] - n;
    }
}

template <int N> static inline void hsp_copy_wait(void)
{
    hsp_twin_wait(N);
}

static inline int hsp_here(int x)
{
    return x;
}

static inline float hsp_exp2(float x)
{
    return exp2f(x);
}

static inline uint32_t hsp_pack_bf16(float lo, float hi)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(lo)) |
           (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(hi)) << 16;
}

#endif /* __cplusplus */
#endif
