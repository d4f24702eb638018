/* Compute backends: kernels of the op catalogue on one device.
 *
 * Role:      called by worker/exec for each HSP_I_OP instruction; cpu/ now, cuda/ later.
 * Threads:   one caller at a time; the backend may use its own pool.
 * Contract:  buffers are dense row-major, 64-byte aligned, do not overlap except where an op says
 * it may work in place; extents may be 0 (then nothing is touched). Every op has a tolerance
 * declared in the conformance suite (tests/unit/backend).
 */
#ifndef HSP_BACKEND_H
#define HSP_BACKEND_H
#include "proto/base/err.h"
#include "proto/op/op.h"

#define HSP_BACKEND_ABI 2

struct hsp_array {
    void *data;
    enum hsp_dtype dtype;
    uint8_t rank;
    int64_t ext[HSP_MAX_RANK];
};

/* Numbers the update of step t needs, from the vote (D4): gradient factor = clip / tokens. */
struct hsp_update_scalars {
    double lr, grad_scale, bias1, bias2; /* bias_i = 1 - beta_i^(t+1) */
};

struct hsp_call {
    enum hsp_op op;
    const struct hsp_attrs *at;
    uint8_t n_in, n_out;
    const struct hsp_array *in;
    const struct hsp_array *out;
    int64_t origin[2];                       /* first global coordinate of the origin dims */
    const struct hsp_update_scalars *update; /* adamw, sgdm; else NULL */
};

struct hsp_backend {
    const char *name;
    /* Runs one op to completion. HSP_EUNSUPPORTED: op or dtype. */
    enum hsp_status (*run)(struct hsp_backend *b, const struct hsp_call *c, struct hsp_err *err);
    /* dst += src (ACC), n elements. */
    void (*accumulate)(struct hsp_backend *b, enum hsp_dtype t, void *dst, const void *src,
                       int64_t n);
    void (*close)(struct hsp_backend *b);
};

/* CPU: @threads workers of our own pool (1 = the calling thread only). OpenBLAS is used
 * single-threaded, called from our pool. */
enum hsp_status hsp_backend_cpu_open(int threads, struct hsp_backend **ret, struct hsp_err *err);

#endif
