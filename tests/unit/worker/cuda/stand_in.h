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

/* A device of @o (NULL: defaults) and a backend on it; fails the test on error. */
struct hsp_backend *standin_open(const struct hsp_fake_opts *f, const struct hsp_device_opts *o);
/* Closes it; everything is given back, and nothing was reported. */
void standin_close(struct hsp_backend *b);
void standin_assert_clean(void);

float *standin_alloc(struct hsp_backend *b, int64_t n); /* device memory, n floats */
enum hsp_status standin_add(struct hsp_backend *b, enum hsp_devq q, float *out, const float *x,
                            const float *y, int64_t n, struct hsp_err *err);
/* gelu and the others: one input of n floats, or three. */
enum hsp_status standin_op(struct hsp_backend *b, enum hsp_devq q, enum hsp_op op, float *out,
                           const float *in, int64_t n, struct hsp_err *err);
float standin_peek(const float *p);

void standin_fill(struct hsp_backend *b, enum hsp_devq q, float *p, double v, int64_t n);
uint64_t standin_mark(struct hsp_backend *b, enum hsp_devq q);
void standin_finish(struct hsp_backend *b, enum hsp_devq q); /* all that was given to it */

#endif
