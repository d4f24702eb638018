/* Gives the CPU backend its memory, copies and tickets, which need no kernels.
 *
 * All memory is the host's, and a call has done its work when it returns, on the caller's thread.
 * So every ticket is reached.
 */
#ifndef HSP_CPU_MEMORY_H
#define HSP_CPU_MEMORY_H
#include "worker/backend/backend.h"

/* Fills in the functions without kernels: memory, copies, tickets. cpu_memory.c */
void hsp_cpu_memory(struct hsp_backend *b);

#endif
