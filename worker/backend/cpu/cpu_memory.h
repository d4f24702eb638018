/* Gives the CPU backend its memory, copies and tickets.
 *
 * All memory is the host's, and the work of a call is done when the call returns. So every ticket
 * is reached at once. */
#ifndef HSP_CPU_MEMORY_H
#define HSP_CPU_MEMORY_H
#include "worker/backend/backend.h"

/* Sets the functions of @b for memory, copies and tickets. */
void hsp_cpu_memory(struct hsp_backend *b);

#endif
