#include "worker/backend/cpu/cpu_scratch.h"

#include <stdlib.h>

#include "proto/base/size.h"

enum hsp_status hsp_cpu_reserve(struct hsp_cpu *cpu, size_t bytes, struct hsp_err *err)
{
    size_t each, all;
    if (!hsp_add_size(bytes, 127, &each)) {
        return hsp_err_nomem(err, "%zu bytes of scratch", bytes);
    }
    each &= ~(size_t)63; /* a multiple of 64, and at least 64 */
    if (each <= cpu->scratch_bytes) {
        return HSP_OK;
    }
    if (!hsp_mul_size(each, hsp_workpool_size(cpu->pool), &all)) {
        return hsp_err_nomem(err, "%zu bytes of scratch", bytes);
    }
    uint8_t *p = aligned_alloc(64, all);
    if (p == NULL) {
        return hsp_err_nomem(err, "%zu bytes of scratch", all);
    }
    free(cpu->scratch);
    cpu->scratch = p;
    cpu->scratch_bytes = each;
    return HSP_OK;
}
