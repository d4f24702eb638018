#include "worker/backend/cpu/narrow.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/size.h"
#include "proto/op/bf16.h"

struct convert {
    const void *from;
    void *to;
};

HSP_CLONES static void widen_range(const void *ctx, unsigned worker, int64_t lo, int64_t hi)
{
    (void)worker;
    const struct convert *c = ctx;
    const uint16_t *restrict from = c->from;
    float *restrict to = c->to;
    for (int64_t i = lo; i < hi; i++) {
        to[i] = hsp_bf16_float(from[i]);
    }
}

HSP_CLONES static void narrow_range(const void *ctx, unsigned worker, int64_t lo, int64_t hi)
{
    (void)worker;
    const struct convert *c = ctx;
    const float *restrict from = c->from;
    uint16_t *restrict to = c->to;
    for (int64_t i = lo; i < hi; i++) {
        to[i] = hsp_bf16_of(from[i]);
    }
}

HSP_CLONES static void accumulate_range(const void *ctx, unsigned worker, int64_t lo, int64_t hi)
{
    (void)worker;
    const struct convert *c = ctx;
    const uint16_t *restrict from = c->from;
    float *restrict to = c->to;
    for (int64_t i = lo; i < hi; i++) {
        to[i] += hsp_bf16_float(from[i]);
    }
}

void hsp_cpu_accumulate_wide(struct hsp_cpu *cpu, float *dst, const uint16_t *src, int64_t n)
{
    struct convert c = {.from = src, .to = dst};
    hsp_workpool_for(cpu->pool, n, HSP_CPU_GRAIN, accumulate_range, &c);
}

/* Copies @from to @to, which have equally many elements, or converts between bf16 and fp32. */
static void convert(struct hsp_cpu *cpu, const struct hsp_array *from, const struct hsp_array *to)
{
    struct convert c = {.from = from->data, .to = to->data};
    int64_t n = hsp_array_count(to);
    if (n == 0 || to->data == NULL) {
        return;
    }
    if (from->dtype == to->dtype) {
        memmove(to->data, from->data, (size_t)n * hsp_dtype_size(to->dtype));
    } else {
        hsp_workpool_for(cpu->pool, n, HSP_CPU_GRAIN,
                         to->dtype == HSP_BF16 ? narrow_range : widen_range, &c);
    }
}

void hsp_cpu_cast(struct hsp_cpu *cpu, const struct hsp_call *c)
{
    convert(cpu, &c->in[0], &c->out[0]);
}

/* Adds to *bytes the room for fp32 copies of the bf16 operands among @a. Returns false if the sum
 * does not fit a size_t. */
static bool count_bytes(const struct hsp_array *a, uint8_t n, size_t *bytes)
{
    for (uint8_t i = 0; i < n; i++) {
        size_t each = 0;
        if (a[i].dtype == HSP_BF16 &&
            (!hsp_mul_size((size_t)hsp_array_count(&a[i]), sizeof(float), &each) ||
             !hsp_add_size(each, 63, &each) || !hsp_add_size(*bytes, each & ~(size_t)63, bytes))) {
            return false;
        }
    }
    return true;
}

/* Returns in @ret the operands @a, those of bf16 as fp32 arrays that lie in the backend's scratch
 * (cpu->wide) from offset *at. Advances *at by their bytes, rounded up to 64. */
static void place(struct hsp_cpu *cpu, const struct hsp_array *a, uint8_t n, size_t *at,
                  struct hsp_array *ret)
{
    for (uint8_t i = 0; i < n; i++) {
        ret[i] = a[i];
        if (a[i].dtype == HSP_BF16) {
            size_t bytes = (size_t)hsp_array_count(&a[i]) * sizeof(float);
            ret[i].dtype = HSP_F32;
            ret[i].data = a[i].data != NULL ? cpu->wide + *at : NULL;
            *at += (bytes + 63) & ~(size_t)63;
        }
    }
}

enum hsp_status hsp_cpu_run_wide(struct hsp_cpu *cpu, const struct hsp_call *c, hsp_cpu_kernel k,
                                 struct hsp_err *err)
{
    struct hsp_array in[HSP_MAX_IN], out[HSP_MAX_OUT];
    struct hsp_call wide = *c;
    size_t bytes = 64, at = 0;
    if (!count_bytes(c->in, c->n_in, &bytes) || !count_bytes(c->out, c->n_out, &bytes)) {
        return hsp_err_nomem(err, "the operands of %s in fp32", hsp_op_name(c->op));
    }
    if (bytes > cpu->wide_bytes) {
        uint8_t *p = aligned_alloc(64, bytes);
        if (p == NULL) {
            return hsp_err_nomem(err, "%zu bytes of operands of %s in fp32", bytes,
                                 hsp_op_name(c->op));
        }
        free(cpu->wide);
        cpu->wide = p;
        cpu->wide_bytes = bytes;
    }
    place(cpu, c->in, c->n_in, &at, in);
    place(cpu, c->out, c->n_out, &at, out);
    wide.in = in;
    wide.out = out;
    for (uint8_t i = 0; i < c->n_in; i++) {
        if (c->in[i].dtype == HSP_BF16) {
            convert(cpu, &c->in[i], &in[i]);
        }
    }
    enum hsp_status st = k(cpu, &wide, err);
    for (uint8_t i = 0; st == HSP_OK && i < c->n_out; i++) {
        if (c->out[i].dtype == HSP_BF16) {
            convert(cpu, &out[i], &c->out[i]);
        }
    }
    return st;
}
