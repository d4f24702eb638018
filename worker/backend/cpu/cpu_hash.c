#include "worker/backend/cpu/cpu_hash.h"

#include "proto/base/element_hash.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/backend/hash_runs.h"

/* The arrays to hash. An item of the loop over them is an element; those of call 0 come first. */
struct sums {
    const struct hsp_hash_call *call;
    uint32_t n;
    uint64_t *ret;
};

static int64_t count(const struct hsp_hash_call *c)
{
    int64_t n = 1;
    for (uint8_t d = 0; d < c->rank; d++) {
        n *= c->ext[d];
    }
    return n;
}

/* Returns the hash of elements [lo, hi) of one call; each run of consecutive numbers is hashed at
 * once. */
static uint64_t hash_part(const struct hsp_hash_call *call, int64_t lo, int64_t hi)
{
    struct hsp_hash_call c;
    uint64_t sum = 0;
    if (!hsp_hash_join(call, &c)) {
        return 0;
    }
    int64_t run = c.ext[c.rank - 1], size = (int64_t)hsp_dtype_size(c.dtype);
    for (int64_t at = lo, n; at < hi; at += n) {
        int64_t left = run - at % run;
        uint64_t key = c.key + (uint64_t)hsp_hash_number(&c, at) * HSP_HASH_STEP;
        const uint8_t *x = (const uint8_t *)c.data + at * size;
        n = left < hi - at ? left : hi - at;
        sum += c.dtype == HSP_F64 ? hsp_hash_64(x, n, key) : hsp_hash_32(x, n, key);
    }
    return sum;
}

/* Hashes elements [lo, hi) of all calls. */
static void hash_range(const void *ctx, unsigned worker, int64_t lo, int64_t hi)
{
    const struct sums *s = ctx;
    int64_t first = 0;
    (void)worker;
    for (uint32_t k = 0; k < s->n && first < hi; k++) {
        int64_t n = count(&s->call[k]);
        int64_t from = lo > first ? lo - first : 0, to = hi - first < n ? hi - first : n;
        if (from < to) {
            uint64_t sum = hash_part(&s->call[k], from, to);
            (void)__atomic_fetch_add(&s->ret[k], sum, __ATOMIC_RELAXED);
        }
        first += n;
    }
}

enum hsp_status hsp_cpu_hash(struct hsp_backend *b, enum hsp_devq q, const struct hsp_hash_call *c,
                             uint32_t n, uint64_t *ret, struct hsp_err *err)
{
    const struct hsp_cpu *cpu = (const struct hsp_cpu *)b;
    const struct sums s = {c, n, ret};
    int64_t all = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (c[k].dtype != HSP_F32 && c[k].dtype != HSP_F64) {
            return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "the hash of %s",
                               hsp_dtype_name(c[k].dtype));
        }
        all += count(&c[k]);
        ret[k] = 0;
    }
    if (q == HSP_DEVQ_COMPUTE) {
        hsp_workpool_for(cpu->pool, all, HSP_CPU_GRAIN, hash_range, &s);
    } else {
        hsp_workpool_beside(cpu->pool, all, HSP_CPU_BLOCK / 4, hash_range, &s);
    }
    return HSP_OK;
}
