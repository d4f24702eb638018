/* Hashes state in ordinary memory for the CPU backend. */
#ifndef HSP_CPU_HASH_H
#define HSP_CPU_HASH_H
#include "worker/backend/backend.h"

/* Implements hsp_backend.hash: all workers hash on HSP_DEVQ_COMPUTE, the caller and the idle
 * workers on any other queue. */
enum hsp_status hsp_cpu_hash(struct hsp_backend *b, enum hsp_devq q, const struct hsp_hash_call *c,
                             uint32_t n, uint64_t *ret, struct hsp_err *err);

#endif
