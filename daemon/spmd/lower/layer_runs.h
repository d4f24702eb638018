/* @@SENTENCE@@ layer_runs: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_LAYER_RUNS_H
#define HSP_LAYER_RUNS_H
#include "daemon/spmd/lower/stage_ir.h"

/* @ret_of[step] is the run it belongs to; both arrays have room for one more than @code has steps.
 * Returns how many runs there are, at least one. */
uint32_t hsp_unit_runs(const struct hsp_compiler *c, const struct hsp_code *code, uint32_t *ret_of,
                       struct hsp_unit_run *ret);

#endif
