/* Measures the figures of probe.h on a device behind a backend, by the device's own clock.
 *
 * Role:    a process of its own calls it (gpu_probe.c), which has nothing else on the device.
 * Purity:  shell (the device); hsp_probe_fit is pure.
 * Bounds:  some three seconds; memory of the device for three arrays of the size asked for, or as
 *          little as 1 MiB each.
 *
 * Even products are measured in three sizes of each kind of element. Their time is taken to be a
 * fixed part and one in proportion to the operations (Hockney's model: r_inf and n_1/2), which a
 * plan's price needs: small products reach a fraction of the rate. All are products of random
 * numbers (probe_fill.h), on a device that has been busy with others for some time: a plan is
 * priced with rates that a device keeps up. Products of other shapes (proto/op/gemm_class.h) are
 * measured in one size, as large as the largest of these where memory allows it, and told as a part
 * of the rate. */
#ifndef HSP_PROBE_DEVICE_H
#define HSP_PROBE_DEVICE_H
#include "worker/backend/backend.h"
#include "worker/probe/probe.h"

#define HSP_PROBE_BYTES ((size_t)64 << 20)

/* @most: bytes of an array, at least 1 MiB; HSP_PROBE_BYTES is more than caches hold.
 * HSP_EUNSUPPORTED: the device tells no times. Errors of the backend; HSP_ENOMEM: less than 3 MiB
 *                   of it are free. */
enum hsp_status hsp_probe_backend(struct hsp_backend *b, size_t most, struct hsp_probe *ret,
                                  struct hsp_err *err);

/* The line seconds = *ret_fixed_s + flops / *ret_rate with the smallest relative errors, neither
 * part negative; all times and operations are above 0, n > 0. */
void hsp_probe_fit(const double *flops, const double *seconds, uint32_t n, double *ret_rate,
                   double *ret_fixed_s);

/* Seconds of a copy of @bytes by @b, of memory as hsp_backend.copy takes it, in the best of many.
 * As above. */
enum hsp_status hsp_probe_copy(struct hsp_backend *b, void *dst, const void *src, size_t bytes,
                               double *ret_s, struct hsp_err *err);

#endif
