/* Grows the scratch memory that the kernels of the CPU backend share. */
#ifndef HSP_CPU_SCRATCH_H
#define HSP_CPU_SCRATCH_H
#include "worker/backend/cpu/cpu.h"

/* Makes the scratch of each worker at least @bytes long; the contents are lost. Returns HSP_ENOMEM
 * if there is no memory. */
enum hsp_status hsp_cpu_reserve(struct hsp_cpu *cpu, size_t bytes, struct hsp_err *err);

#endif
