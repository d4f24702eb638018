/* Runs ops on bf16: operands are widened, the fp32 kernel runs, results are rounded to the nearest.
 * So each op rounds once, also where it computes several values.
 *
 * Role:      for cpu.c only.
 * Ownership: copies live in scratch of the backend, which keeps the largest size asked for: four
 *            bytes for each element of the bf16 operands of one op.
 */
#ifndef HSP_NARROW_H
#define HSP_NARROW_H
#include "worker/backend/cpu/cpu.h"

/* Runs @c, of whose operands some are bf16, with @k, a kernel for fp32. HSP_ENOMEM; those of @k. */
enum hsp_status hsp_cpu_run_wide(struct hsp_cpu *cpu, const struct hsp_call *c, hsp_cpu_kernel k,
                                 struct hsp_err *err);
/* dst += src, fp32 and bf16. */
void hsp_cpu_accumulate_wide(struct hsp_cpu *cpu, float *dst, const uint16_t *src, int64_t n);
/* narrow and widen; a copy where types are equal. */
void hsp_cpu_cast(struct hsp_cpu *cpu, const struct hsp_call *c);

#endif
