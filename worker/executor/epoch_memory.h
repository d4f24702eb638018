/* Takes the memory that an epoch needs: segments in the state folder, and room on the device.
 *
 * Role:    PREPARE (epoch.c), before the mesh is joined.
 * Purity:  shell (files).
 * Threads: the run thread.
 */
#ifndef HSP_EPOCH_MEMORY_H
#define HSP_EPOCH_MEMORY_H
#include <stdint.h>

#include "worker/executor/epoch.h"

/* Opens the segments of @e, then takes device memory for its programs, unless the device is a CPU.
 * Fills e->mem_bytes.
 *
 * After a failure *ret_fact says the kind of failure to the planner. With HSP_FACT_OUT_OF_MEMORY
 * *ret_amount is the number of bytes by which the device has less than it offers; msg.h says the
 * meaning of *ret_amount with HSP_FACT_STATE_SHAPE. If the state folder is full, *ret_fact is
 * HSP_FACT_STATE_FOLDER. Segments that were opened before the failure belong to @e. */
enum hsp_status hsp_epoch_take_memory(struct hsp_ex_epoch *e, enum hsp_fact_kind *ret_fact,
                                      uint64_t *ret_amount, struct hsp_err *err);

#endif
