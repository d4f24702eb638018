#include "worker/backend/cpu/cpu_hash.h"

#include <stdatomic.h>

#include "proto/base/element_hash.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/backend/hash_runs.h"

struct sum {
    struct hsp_hash_call c; /* joined */
    atomic_uint_fast64_t of;
};

/* Elements [lo, hi), run by run. */
static void hash_range(const void *ctx, unsigned worker, int64_t lo, int64_t hi)
{
    struct sum *s = (struct sum *)(uintptr_t)ctx;
    const struct hsp_hash_call *c = &s->c;
    int64_t run = c->ext[c->rank - 1], size = (int64_t)hsp_dtype_size(c->dtype);
    uint64_t sum = 0;
    (void)worker;
    for (int64_t at = lo, n; at < hi; at += n) {
        int64_t left = run - at % run;
        uint64_t key = c->key + (uint64_t)hsp_hash_number(c, at) * HSP_HASH_STEP;
        const uint8_t *x = (const uint8_t *)c->data + at * size;
        n = left < hi - at ? left : hi - at;
        sum += c->dtype == HSP_F64 ? hsp_hash_64(x, n, key) : hsp_hash_32(x, n, key);
    }
    atomic_fetch_add_explicit(&s->of, sum, memory_order_relaxed);
}

enum hsp_status hsp_cpu_hash(struct hsp_backend *b, enum hsp_devq q, const struct hsp_hash_call *c,
                             uint32_t n, uint64_t *ret, struct hsp_err *err)
{
    const struct hsp_cpu *cpu = (const struct hsp_cpu *)b;
    for (uint32_t k = 0; k < n; k++) {
        struct sum s = {.of = 0};
        if (c[k].dtype != HSP_F32 && c[k].dtype != HSP_F64) {
            return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "the hash of %s",
                               hsp_dtype_name(c[k].dtype));
        }
        bool some = hsp_hash_join(&c[k], &s.c);
        int64_t all = 1;
        for (uint8_t d = 0; some && d < s.c.rank; d++) {
            all *= s.c.ext[d];
        }
        if (some && q == HSP_DEVQ_COMPUTE) {
            hsp_workpool_for(cpu->pool, all, HSP_CPU_GRAIN, hash_range, &s);
        } else if (some) {
            hash_range(&s, 0, 0, all);
        }
        ret[k] = atomic_load_explicit(&s.of, memory_order_relaxed);
    }
    return HSP_OK;
}
