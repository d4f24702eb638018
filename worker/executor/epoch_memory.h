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

/* Opens the segments of @e, then takes the memory of its programs on the device, where that is no
 * processor. Fills e->mem_bytes.
 *
 * After a failure @ret_fact says what planning can learn of it, and @ret_amount, of
 * HSP_FACT_OUT_OF_MEMORY, by how many bytes the device has less than it offers; of
 * HSP_FACT_STATE_SHAPE, as msg.h says. A folder that is full is HSP_FACT_STATE_FOLDER. What was
 * opened stays e's. */
enum hsp_status hsp_epoch_take_memory(struct hsp_ex_epoch *e, enum hsp_fact_kind *ret_fact,
                                      uint64_t *ret_amount, struct hsp_err *err);

#endif
