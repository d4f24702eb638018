/* Runs Reshard instructions: chooses the transport of each move, and sends and receives the
 * messages of a move as one batch. */
#ifndef HSP_MOVES_H
#define HSP_MOVES_H
#include "worker/exec/engine_impl.h"

/* Runs Reshard @k and the later Reshards of its bucket. *ret_n: the number of Reshards run. */
enum hsp_status hsp_run_reshard(struct hsp_engine *e, uint32_t k, uint32_t micro, enum hsp_queue q,
                                uint32_t *ret_n, struct hsp_err *err);

#endif
