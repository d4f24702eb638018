/* Takes calls of the mock device that stand for several: their promise is checked, then each is
 * given alone. */
#include <math.h>

#include "proto/base/size.h"
#include "tests/lib/mockdevint.h"

static size_t array_bytes(const struct hsp_array *a)
{
    int64_t n = 1;
    for (uint8_t d = 0; d < a->rank; d++) {
        n *= a->ext[d];
    }
    return (size_t)n * hsp_dtype_size(a->dtype);
}

static bool meet(const struct hsp_array *a, const struct hsp_array *b)
{
    const uint8_t *x = a->data, *y = b->data;
    return x < y + array_bytes(b) && y < x + array_bytes(a);
}

/* True when @a writes bytes that @b touches. */
static bool disturbs(const struct hsp_call *a, const struct hsp_call *b)
{
    bool found = false;
    for (uint8_t o = 0; o < a->n_out; o++) {
        for (uint8_t k = 0; k < b->n_in; k++) {
            found = found || meet(&a->out[o], &b->in[k]);
        }
        for (uint8_t k = 0; k < b->n_out; k++) {
            found = found || meet(&a->out[o], &b->out[k]);
        }
    }
    return found;
}

/* From the last to the first: any order will do. */
enum hsp_status hsp_mockdev_run_many(struct hsp_backend *b, enum hsp_devq q,
                                     const struct hsp_call *c, uint32_t n, struct hsp_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        bool fits = n > 1 && c[i].op == c[0].op && (b->many >> c[i].op & 1) != 0;
        for (uint32_t k = 0; k < n; k++) {
            fits = fits && (k == i || !disturbs(&c[i], &c[k]));
        }
        if (!fits) {
            return hsp_err_set(err, HSP_EIO, 0, "mockdev: %u calls of %s that do not go together",
                               n, hsp_op_name(c[0].op));
        }
    }
    enum hsp_status st = HSP_OK;
    for (uint32_t i = n; i > 0 && st == HSP_OK; i--) {
        st = b->run(b, q, &c[i - 1], err);
    }
    return st;
}

static bool same_array(const struct hsp_array *a, const struct hsp_array *b)
{
    return a->data == b->data && a->dtype == b->dtype && a->rank == b->rank;
}

static bool is_norm_chain(const struct hsp_call *c, uint32_t n)
{
    bool layer = c[0].op == HSP_OP_LAYERNORM_DX, fits = n >= 2;
    uint32_t k = 1;
    const struct hsp_array *sum = &c[0].out[0];
    if (k < n && c[k].op == HSP_OP_ADD) {
        fits = fits && same_array(&c[k].in[0], sum) != same_array(&c[k].in[1], sum);
        sum = &c[k++].out[0];
    }
    if (k < n && c[k].op == (layer ? HSP_OP_LAYERNORM_DW : HSP_OP_RMSNORM_DW)) {
        for (uint8_t i = 0; i < c[k].n_in; i++) {
            fits = fits && same_array(&c[k].in[i], &c[0].in[i < 2 ? i : i + 1]);
        }
        k++;
    }
    if (k == 3 && k < n && c[k].op == HSP_OP_BIAS_DB) {
        fits = fits && same_array(&c[k++].in[0], sum);
    } else if (k == 2 && k < n && c[k].op == HSP_OP_BIAS_DB) {
        fits = fits && c[1].op != HSP_OP_ADD && same_array(&c[k++].in[0], sum);
    }
    return fits && k == n;
}

enum hsp_status hsp_mockdev_run_chain(struct hsp_backend *b, enum hsp_devq q,
                                      const struct hsp_call *c, uint32_t n, bool *ret_done,
                                      struct hsp_err *err)
{
    bool gelu = c[0].op == HSP_OP_GELU_DX, adds = c[1].op == HSP_OP_ADD;
    bool fits = gelu ? n == 2 && c[1].op == HSP_OP_BIAS_DB && same_array(&c[1].in[0], &c[0].out[0])
                     : (c[0].op == HSP_OP_LAYERNORM_DX || c[0].op == HSP_OP_RMSNORM_DX) &&
                           is_norm_chain(c, n);
    *ret_done = false;
    if (!fits) {
        return hsp_err_set(err, HSP_EIO, 0, "mockdev: a chain of %u from %s that is none", n,
                           hsp_op_name(c[0].op));
    }
    if (n == 2 && !gelu && c[0].in[0].ext[0] % 2 == 0) {
        return HSP_OK; /* now and then there is no code for it */
    }
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; i < n && st == HSP_OK; i++) {
        st = b->run(b, q, &c[i], err);
    }
    if (st == HSP_OK && adds) { /* nobody may look at it */
        const struct hsp_array *dx = &c[0].out[0];
        bool gone = same_array(dx, &c[1].out[0]) || meet(dx, &c[1].out[0]);
        for (uint32_t i = 1; i < n; i++) {
            for (uint8_t o = 0; o < c[i].n_out; o++) {
                gone = gone || meet(dx, &c[i].out[o]);
            }
        }
        st = gone ? HSP_OK
                  : b->fill(b, q, dx->dtype, dx->data, (double)NAN,
                            (int64_t)(array_bytes(dx) / hsp_dtype_size(dx->dtype)), err);
    }
    *ret_done = st == HSP_OK;
    return st;
}
