#include "proto/op/dtype.h"

const char *hsp_dtype_name(enum hsp_dtype t)
{
    switch (t) {
    case HSP_F32: return "fp32";
    case HSP_F64: return "fp64";
    case HSP_I32: return "i32";
    case HSP_BF16: return "bf16";
    }
    return "?";
}
