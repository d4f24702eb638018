/* Has the device repeat runs of instructions by itself, so that the host starts many with one call.
 *
 * Example: the 40 instructions of a layer's forward pass are given one by one the first time. Later
 * the backend starts all of them by their key.
 */
#ifndef HSP_REPLAY_H
#define HSP_REPLAY_H
#include "worker/exec/engine_impl.h"

/* The number of instructions from @k on, below @end, that the device can repeat by itself; 0 when
 * they are fewer than a replay is worth. */
uint32_t hsp_replay_length(const struct hsp_engine *e, uint32_t k, uint32_t end);
/* Runs @n of them one by one, or has the device repeat them when their key has come before. */
enum hsp_status hsp_replay_run(struct hsp_engine *e, uint32_t k, uint32_t n, uint32_t micro,
                               enum hsp_queue q, struct hsp_err *err);

#endif
