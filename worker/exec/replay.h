/* Makes the device repeat runs of instructions, so that the host starts a run with one call.
 *
 * Example: the first time the engine gives the 40 instructions of a layer's forward pass one by
 * one. Later the backend starts all 40 by the key of the run, a digest of its calls.
 */
#ifndef HSP_REPLAY_H
#define HSP_REPLAY_H
#include "worker/exec/engine_impl.h"

/* Returns the number of consecutive instructions from @k on, before @end, that the device can
 * repeat by itself; 0 if there are too few for a replay to pay. */
uint32_t hsp_replay_length(const struct hsp_engine *e, uint32_t k, uint32_t end);
/* Runs the @n instructions from @k on: makes the device repeat them if it has stored a run with
 * their key, else gives them one by one and lets the backend store them. */
enum hsp_status hsp_replay_run(struct hsp_engine *e, uint32_t k, uint32_t n, uint32_t micro,
                               enum hsp_queue q, struct hsp_err *err);

#endif
