/* Builds a product of each shape class (proto/op/gemm_class.h), as a probe gives it to a device.
 *
 * Role:   the figures of CPUs (probe.c) and of GPUs (probe_device.c) are of the same products.
 * Purity: pure; memory of a device is not touched, only counted. */
#ifndef HSP_PROBE_GEMM_H
#define HSP_PROBE_GEMM_H
#include "proto/op/gemm_class.h"
#include "worker/backend/backend.h"

#define HSP_SHAPE_CALLS 2 /* attention is measured there and back: its way back is most of it */

struct hsp_shape_call { /* points into itself */
    struct hsp_array in[6], out[3];
    struct hsp_attrs at;
    struct hsp_call c;
};

struct hsp_shape {
    uint32_t n;
    struct hsp_shape_call call[HSP_SHAPE_CALLS];
    double flops; /* of all calls, as plans count them */
};

/* A product of @cls on elements of type @t, with about as many operations as an even one of side @n
 * >= 64, or with fewer where @bytes, at least 1 MiB, of each of the three pieces @mem allow no
 * more; of HSP_GEMM_FEW less, one side is half a tile. *ret is valid where it is. */
void hsp_shape_make(enum hsp_gemm_class cls, enum hsp_dtype t, bool tf32, int64_t n,
                    uint8_t *const mem[3], size_t bytes, struct hsp_shape *ret);

/* The part of @rate that a shape reached in @seconds, of which each call had the fixed part
 * @fixed_s: within the bounds of hsp_gemm_part. A fixed part is at most half of the time: the rest
 * would be noise. */
double hsp_shape_part(const struct hsp_shape *x, double seconds, double fixed_s, double rate);

#endif
