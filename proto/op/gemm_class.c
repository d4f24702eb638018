/* Classifies the extents of a product by comparing them with the bounds of gemm_class.h. */
#include "proto/op/gemm_class.h"

#include <stdbool.h>

const char *hsp_gemm_class_name(enum hsp_gemm_class c)
{
    static const char *const name[HSP_N_GEMM_CLASSES] = {"even", "few", "wide", "long",
                                                         "attention"};
    return name[c];
}

enum hsp_gemm_class hsp_gemm_class_of(int64_t m, int64_t n, int64_t k)
{
    int64_t least = m < n ? m : n, most = m < n ? n : m;
    if (least < HSP_GEMM_TILE) {
        return HSP_GEMM_FEW;
    }
    if (least / HSP_GEMM_RATIO > k) {
        return HSP_GEMM_WIDE;
    }
    return k / HSP_GEMM_RATIO > most ? HSP_GEMM_LONG : HSP_GEMM_EVEN;
}

static bool uses(const struct hsp_operand_use *u, uint8_t axis)
{
    bool any = false;
    for (uint8_t d = 0; d < u->rank; d++) {
        any = any || u->dim[d].axis == (int8_t)axis;
    }
    return any;
}

enum hsp_gemm_class hsp_op_gemm_class(enum hsp_op op, const struct hsp_axes *ax,
                                      const int64_t axis[HSP_MAX_AXES])
{
    int64_t m = 1, n = 1, k = 1;
    if (op != HSP_OP_LINEAR && op != HSP_OP_LINEAR_DX && op != HSP_OP_LINEAR_DW) {
        return HSP_GEMM_ATTENTION;
    }
    for (uint8_t a = 0; a < ax->n_axes; a++) {
        *(!uses(&ax->out[0], a) ? &k : uses(&ax->in[0], a) ? &m : &n) *= axis[a];
    }
    return hsp_gemm_class_of(m, n, k);
}
