/* Grows the scratch memory that the kernels of the CPU backend share. */
#ifndef HSP_CPU_SCRATCH_H
#define HSP_CPU_SCRATCH_H
#include "worker/backend/cpu/cpu.h"

/* Makes room for @bytes of scratch for each worker; contents are lost. HSP_ENOMEM. */
enum hsp_status hsp_cpu_reserve(struct hsp_cpu *cpu, size_t bytes, struct hsp_err *err);

#endif
