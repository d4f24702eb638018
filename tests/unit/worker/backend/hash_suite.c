#include "tests/unit/worker/backend/hash_suite.h"

#include "proto/base/element_hash.h"
#include "proto/base/size.h"
#include "proto/op/op.h"
#include "tests/lib/testlib.h"

enum { MANY = 70 }; /* more calls than go in one launch */

static int64_t count(const struct hsp_hash_call *c)
{
    int64_t n = 1;
    for (uint8_t d = 0; d < c->rank; d++) {
        n *= c->ext[d];
    }
    return n;
}

/* Returns the hash as its definition says (proto/base/element_hash.h). */
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

/* Draws a part of a tensor: if a dim is cut, the dims before it have longer strides. */
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

/* Checks the hashes of @c, given in one call; each array has contents of its own. */
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
        /* once all of a matrix; once columns 5 to 307 of 400 */
        for (int wide = 0; wide < 2; wide++) {
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

/* ---- sums of updates ---- */

enum { CALLS = 14, STATES = 3, MOST_STATE = 20000 };
static const enum hsp_devq Q = HSP_DEVQ_COMPUTE;

/* Updates of arrays of many sizes. The same arrays exist once more, for updates without sums. */
struct updates {
    struct hsp_backend *b;
    uint32_t n_states; /* arrays of state of a call */
    struct hsp_attrs at;
    struct hsp_update_scalars *scalars; /* in device memory */
    struct hsp_state_sums *sums;        /* in device memory, STATES for each call */
    struct hsp_call c[CALLS], plain[CALLS];
    struct hsp_array in[2][CALLS][STATES + 1];
};

static void bring(struct hsp_backend *b, void *to, const void *from, size_t bytes)
{
    struct hsp_err err = {0};
    uint64_t ticket;
    assert_ok(b->copy(b, Q, to, from, bytes, &err), &err);
    assert_ok(b->mark(b, Q, &ticket, &err), &err);
    assert_ok(b->finish(b, Q, ticket, &err), &err);
}

static void *device(struct hsp_backend *b, size_t bytes)
{
    struct hsp_err err = {0};
    void *p = NULL;
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, bytes, &p, &err), &err);
    return p;
}

static size_t bytes_of(const struct hsp_array *a)
{
    return (size_t)a->ext[0] * hsp_dtype_size(a->dtype);
}

/* Fills two arrays with the same numbers above 0. */
static void draw_array(struct updates *u, uint32_t call, uint32_t k, enum hsp_dtype t, int64_t n)
{
    static double x[MOST_STATE];
    for (int64_t i = 0; i < n; i++) {
        double v =
            0.1 +
            (double)(hsp_test_rand("state", call * 65537 + k + (uint64_t)i * 5) >> 11) * 0x1p-53;
        if (t == HSP_F64) {
            x[i] = v;
        } else {
            float f = (float)v;
            memcpy((uint8_t *)x + 4 * i, &f, 4);
        }
    }
    for (int copy = 0; copy < 2; copy++) {
        struct hsp_array *a = &u->in[copy][call][k];
        *a = (struct hsp_array){.dtype = t, .rank = 1, .ext = {n}};
        a->data = device(u->b, bytes_of(a));
        bring(u->b, a->data, x, bytes_of(a));
    }
}

static void open_updates(struct updates *u, struct hsp_backend *b, enum hsp_op op, enum hsp_dtype t)
{
    static const int64_t sizes[CALLS] = {0,   1,   7,    8,    15,   16,    17,
                                         255, 257, 4099, 8192, 8193, 16390, MOST_STATE - 3};
    const struct hsp_update_scalars scalars = {1e-2, 0.5, 0.1, 0.05};
    *u = (struct updates){.b = b,
                          .n_states = hsp_op_n_out(op),
                          .at = {.f = {0.9, 0.95, 1e-8, 0.1}},
                          .scalars = device(b, sizeof scalars),
                          .sums = device(b, CALLS * STATES * sizeof *u->sums)};
    bring(b, u->scalars, &scalars, sizeof scalars);
    for (uint32_t k = 0; k < CALLS; k++) {
        for (uint32_t j = 0; j <= u->n_states; j++) {
            draw_array(u, k, j, t, sizes[k]);
        }
        u->c[k] = (struct hsp_call){.op = op,
                                    .at = &u->at,
                                    .n_in = (uint8_t)(u->n_states + 1),
                                    .n_out = (uint8_t)u->n_states,
                                    .in = u->in[0][k],
                                    .out = u->in[0][k],
                                    .update = u->scalars};
        u->plain[k] = u->c[k];
        u->plain[k].in = u->plain[k].out = u->in[1][k];
        for (uint32_t j = 0; j < u->n_states; j++) {
            u->c[k].sums[j] = u->sums + k * STATES + j;
        }
    }
}

static void close_updates(struct updates *u)
{
    for (uint32_t k = 0; k < CALLS; k++) {
        for (uint32_t j = 0; j <= u->n_states; j++) {
            u->b->release(u->b, HSP_MEM_DEVICE, u->in[0][k][j].data);
            u->b->release(u->b, HSP_MEM_DEVICE, u->in[1][k][j].data);
        }
    }
    u->b->release(u->b, HSP_MEM_DEVICE, u->sums);
    u->b->release(u->b, HSP_MEM_DEVICE, u->scalars);
}

static struct hsp_word_sums sums_of(struct hsp_backend *b, const struct hsp_array *a)
{
    static uint32_t w[2 * MOST_STATE];
    struct hsp_word_sums s = {0, 0};
    bring(b, w, a->data, bytes_of(a));
    for (size_t i = 0; i < bytes_of(a) / 4; i++) {
        s.sum += w[i];
        s.places += i * w[i];
    }
    return s;
}

static void run_all(struct updates *u, const struct hsp_call *c, bool at_once)
{
    struct hsp_err err = {0};
    if (at_once && u->b->run_many != NULL && (u->b->many >> c->op & 1) != 0) {
        assert_ok(u->b->run_many(u->b, Q, c, CALLS, &err), &err);
        return;
    }
    for (uint32_t k = 0; k < CALLS; k++) {
        assert_ok(u->b->run(u->b, Q, &c[k], &err), &err);
    }
}

/* Runs the updates, whose sums are added to present sums, other numbers for each array. Checks the
 * sums that they add against those of the words before and after the updates; @ret has them. */
static void update_and_check(struct updates *u, bool at_once, struct hsp_state_sums *ret)
{
    struct hsp_word_sums read[CALLS * STATES], wrote;
    struct hsp_state_sums old[CALLS * STATES];
    for (uint32_t i = 0; i < CALLS * STATES; i++) {
        old[i] = (struct hsp_state_sums){{i, 2 * i}, {3 * i, UINT64_MAX - i}};
        if (i % STATES < u->n_states) {
            read[i] = sums_of(u->b, &u->in[0][i / STATES][i % STATES]);
        }
    }
    bring(u->b, u->sums, old, sizeof old);
    run_all(u, u->c, at_once);
    bring(u->b, ret, u->sums, sizeof old);
    for (uint32_t i = 0; i < CALLS * STATES; i++) {
        ret[i].read.sum -= old[i].read.sum;
        ret[i].read.places -= old[i].read.places;
        ret[i].wrote.sum -= old[i].wrote.sum;
        ret[i].wrote.places -= old[i].wrote.places;
        if (i % STATES < u->n_states) {
            wrote = sums_of(u->b, &u->in[0][i / STATES][i % STATES]);
            assert_true(hsp_word_sums_equal(&ret[i].read, &read[i]));
            assert_true(hsp_word_sums_equal(&ret[i].wrote, &wrote));
        }
    }
}

static void assert_same_bits(struct updates *u)
{
    static uint8_t x[2][8 * MOST_STATE];
    for (uint32_t k = 0; k < CALLS; k++) {
        for (uint32_t j = 0; j < u->n_states; j++) {
            size_t bytes = bytes_of(&u->in[0][k][j]);
            bring(u->b, x[0], u->in[0][k][j].data, bytes);
            bring(u->b, x[1], u->in[1][k][j].data, bytes);
            assert_memory_equal(x[0], x[1], bytes);
        }
    }
}

/* Flips a bit of one array, and exchanges two words of another array. */
static void harm(struct updates *u, uint32_t state)
{
    static uint32_t w[2 * MOST_STATE];
    for (uint32_t k = CALLS - 2; k < CALLS; k++) {
        const struct hsp_array *a = &u->in[0][k][state];
        bring(u->b, w, a->data, bytes_of(a));
        size_t i = (size_t)hsp_test_range("word", k, 1, (int64_t)bytes_of(a) / 8);
        if (k % 2 == 0) {
            w[i] ^= 1u << 7;
        } else {
            uint32_t x = w[i - 1];
            assert_int_not_equal(x, w[2 * i - 1]);
            w[i - 1] = w[2 * i - 1];
            w[2 * i - 1] = x;
        }
        bring(u->b, a->data, w, bytes_of(a));
    }
}

static void check_updates(struct hsp_backend *b, enum hsp_op op, enum hsp_dtype t)
{
    struct updates u;
    struct hsp_state_sums before[CALLS * STATES], sums[CALLS * STATES];
    open_updates(&u, b, op, t);
    for (int at_once = 0; at_once < 2; at_once++) {
        update_and_check(&u, at_once != 0, before);
        run_all(&u, u.plain, at_once != 0);
        assert_same_bits(&u);
    }
    uint32_t state = (uint32_t)hsp_test_rand("harm", op) % u.n_states;
    harm(&u, state);
    update_and_check(&u, true, sums);
    for (uint32_t i = 0; i < CALLS * STATES; i++) {
        bool harmed = i / STATES >= CALLS - 2 && i % STATES == state;
        assert_true(i % STATES >= u.n_states ||
                    hsp_word_sums_equal(&sums[i].read, &before[i].wrote) == !harmed);
    }
    close_updates(&u);
}

void sums_suite(struct hsp_backend *b)
{
    check_updates(b, HSP_OP_ADAMW, HSP_F32);
    check_updates(b, HSP_OP_ADAMW, HSP_F64);
    check_updates(b, HSP_OP_SGDM, HSP_F32);
    check_updates(b, HSP_OP_SGDM, HSP_F64);
}
