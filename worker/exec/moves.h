/* Runs Reshard instructions: chooses the transport of each move, and sends and receives in
 * batches. */
#ifndef HSP_MOVES_H
#define HSP_MOVES_H
#include "worker/exec/engine_impl.h"

/* A Reshard instruction. */
enum hsp_status hsp_run_reshard(struct hsp_engine *e, const struct hsp_instr *i, uint32_t micro,
                                enum hsp_queue q, struct hsp_err *err);

#endif
