/* @@SENTENCE@@ replay: purpose to be written. */
#ifndef HSP_REPLAY_H
#define HSP_REPLAY_H
#include "worker/exec/runner.h"

/* Instructions from @k on, below @end, that the device does alone, if they are worth a replay; else 0. */
uint32_t hsp_replay_length(const struct hsp_engine *e, uint32_t k, uint32_t end);
/* Runs @n of them, or has the device repeat them. */
enum hsp_status hsp_replay_run(struct hsp_engine *e, uint32_t k, uint32_t n, uint32_t micro,
                               enum hsp_queue q, struct hsp_err *err);

#endif
