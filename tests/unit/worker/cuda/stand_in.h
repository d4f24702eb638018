/* Kernels that stand in for the real ones where the host side of the CUDA backend is tested: plain
 * C, so that the tests need no C++ compiler. Elements are fp32.
 *
 *   add    out = a + b
 *   gelu   out = in, by way of scratch as large as in: two launches
 *   sgdm   out[0] = in[0] - lr in[2], lr read from the device's memory
 *   swiglu a launch that the device refuses
 *   sqsum  an op that runs out of scratch
 */
#ifndef HSP_STAND_IN_H
#define HSP_STAND_IN_H
#include "tests/lib/fakecuda/fakecuda.h"
#include "tests/lib/testlib.h"
#include "worker/backend/cuda/cuda_host.h"

/* Opens a device with @f and a backend on it with @o (NULL: defaults). Fails the test on an
 * error. */
struct hsp_backend *standin_open(const struct hsp_fake_opts *f, const struct hsp_device_opts *o);
/* Closes the backend. Fails the test unless everything was given back and no fault was reported. */
void standin_close(struct hsp_backend *b);
void standin_assert_clean(void);

float *standin_alloc(struct hsp_backend *b, int64_t n); /* allocates n floats of device memory */
enum hsp_status standin_add(struct hsp_backend *b, enum hsp_devq q, float *out, const float *x,
                            const float *y, int64_t n, struct hsp_err *err);
/* Runs one of the ops above, with one input of n floats, or with three. */
enum hsp_status standin_op(struct hsp_backend *b, enum hsp_devq q, enum hsp_op op, float *out,
                           const float *in, int64_t n, struct hsp_err *err);
float standin_peek(const float *p);

void standin_fill(struct hsp_backend *b, enum hsp_devq q, float *p, double v, int64_t n);
uint64_t standin_mark(struct hsp_backend *b, enum hsp_devq q);
/* waits for all work given to queue @q */
void standin_finish(struct hsp_backend *b, enum hsp_devq q);

#endif
