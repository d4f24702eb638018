/* Runs ops on bf16: widens the operands, runs the fp32 kernel, and rounds the results to the
 * nearest. So each op rounds once, also if it computes several values.
 *
 * Role:      for cpu.c only.
 * Ownership: the fp32 copies lie in scratch of the backend, which keeps the largest size that an op
 *            has asked for: four bytes for each element of the bf16 operands of one op. */
#ifndef HSP_NARROW_H
#define HSP_NARROW_H
#include "worker/backend/cpu/cpu.h"

/* Runs @c, some operands of which are bf16, with @k, a kernel for fp32. Returns HSP_ENOMEM or an
 * error of @k. */
enum hsp_status hsp_cpu_run_wide(struct hsp_cpu *cpu, const struct hsp_call *c, hsp_cpu_kernel k,
                                 struct hsp_err *err);
/* Adds src, of bf16, to dst, of fp32. */
void hsp_cpu_accumulate_wide(struct hsp_cpu *cpu, float *dst, const uint16_t *src, int64_t n);
/* Runs narrow and widen; copies if the types are equal. */
void hsp_cpu_cast(struct hsp_cpu *cpu, const struct hsp_call *c);

#endif
