#include "tests/unit/worker/backend/hash_suite.h"

#include "proto/base/element_hash.h"
#include "proto/base/size.h"
#include "tests/lib/testlib.h"

enum { MANY = 70 }; /* more than go in one launch */

static int64_t count(const struct hsp_hash_call *c)
{
    int64_t n = 1;
    for (uint8_t d = 0; d < c->rank; d++) {
        n *= c->ext[d];
    }
    return n;
}

/* As the definition says. */
static uint64_t expected(const struct hsp_hash_call *c, const uint8_t *data)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < count(c); i++) {
        uint64_t bits = 0, number = 0;
        int64_t at = i;
        for (int d = (int)c->rank - 1; d >= 0; d--) {
            number += (uint64_t)(at % c->ext[d] * c->stride[d]);
            at /= c->ext[d];
        }
        if (c->dtype == HSP_F64) {
            memcpy(&bits, data + 8 * i, 8);
        } else {
            memcpy(&bits, data + 4 * i, 4);
            bits |= bits << 32;
        }
        sum += hsp_hash_term(bits, c->key + number * HSP_HASH_STEP);
    }
    return sum;
}

/* A part of a tensor: dims that are cut have a longer stride above them. */
static struct hsp_hash_call draw(uint64_t k)
{
    struct hsp_hash_call c = {.dtype = k % 2 == 0 ? HSP_F32 : HSP_F64,
                              .rank = (uint8_t)(k % (HSP_MAX_RANK + 1)),
                              .key = hsp_test_rand("key", k)};
    int64_t stride = 1;
    for (int d = (int)c.rank - 1; d >= 0; d--) {
        uint64_t x = k * 8 + (uint64_t)d;
        c.ext[d] = hsp_test_range("extent", x, k % 9 == 8 ? 0 : 1, 9);
        c.stride[d] = stride;
        stride *= c.ext[d] + (hsp_test_rand("cut", x) % 2 == 0 ? 0 : 3);
    }
    return c;
}

/* All of @c at once, each of contents of its own. */
static void check(struct hsp_backend *b, enum hsp_devq q, struct hsp_hash_call *c, uint32_t n)
{
    struct hsp_err err = {0};
    uint8_t *host[MANY];
    uint64_t got[MANY], *ret = NULL, ticket = 0;
    assert_true(n <= MANY);
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, sizeof got, (void **)&ret, &err), &err);
    for (uint32_t k = 0; k < n; k++) {
        size_t bytes = (size_t)count(&c[k]) * hsp_dtype_size(c[k].dtype);
        host[k] = malloc(bytes + 1);
        assert_non_null(host[k]);
        for (size_t i = 0; i < bytes; i++) {
            host[k][i] = (uint8_t)hsp_test_rand("contents", k * 4099 + i);
        }
        void *to = NULL;
        assert_ok(b->alloc(b, HSP_MEM_DEVICE, bytes, &to, &err), &err);
        assert_ok(b->copy(b, q, to, host[k], bytes, &err), &err);
        c[k].data = to;
    }
    assert_ok(b->hash(b, q, c, n, ret, &err), &err);
    assert_ok(b->copy(b, q, got, ret, n * sizeof *got, &err), &err);
    assert_ok(b->mark(b, q, &ticket, &err), &err);
    assert_ok(b->finish(b, q, ticket, &err), &err);
    for (uint32_t k = 0; k < n; k++) {
        assert_int_equal(got[k], expected(&c[k], host[k]));
        b->release(b, HSP_MEM_DEVICE, (void *)(uintptr_t)c[k].data);
        free(host[k]);
    }
    b->release(b, HSP_MEM_DEVICE, ret);
}

void hash_suite(struct hsp_backend *b)
{
    static const enum hsp_devq queue[] = {HSP_DEVQ_COMPUTE, HSP_DEVQ_STATE};
    struct hsp_hash_call c[MANY];
    struct hsp_err err = {0};
    for (size_t q = 0; q < HSP_ARRAY_LEN(queue); q++) {
        for (uint64_t k = 0; k < MANY; k++) {
            c[k] = draw(k + q * MANY);
        }
        check(b, queue[q], c, MANY);
        for (int wide = 0; wide < 2; wide++) { /* all of a matrix; columns 5 to 307 of 400 */
            c[wide] = (struct hsp_hash_call){.dtype = HSP_F32,
                                             .rank = 2,
                                             .ext = {131, wide != 0 ? 400 : 302},
                                             .stride = {400, 1},
                                             .key = 5 * HSP_HASH_STEP};
        }
        check(b, queue[q], c, 2);
    }
    assert_ok(b->hash(b, HSP_DEVQ_STATE, NULL, 0, NULL, &err), &err);
    c[0] = (struct hsp_hash_call){.dtype = HSP_BF16};
    assert_status(b->hash(b, HSP_DEVQ_STATE, c, 1, NULL, &err), HSP_EUNSUPPORTED);
}
