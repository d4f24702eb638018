/* @@SENTENCE@@ cpu_memory: purpose to be written. */
#ifndef HSP_CPU_MEMORY_H
#define HSP_CPU_MEMORY_H
#include "worker/backend/backend.h"

/* Fills in what needs no kernels: memory, copies, tickets. cpu_memory.c */
void hsp_cpu_memory(struct hsp_backend *b);

#endif
