/* Divides the code of a part into runs of one layer each (block, embedding, head), so that
 * transfers can stand one layer ahead of their use.
 *
 * Example: a forward part with the embedding and blocks 0 and 1 has three runs.
 *
 * Role:      called by offload.c and zero3.c.
 * Purity:    pure. */
#ifndef HSP_LAYER_RUNS_H
#define HSP_LAYER_RUNS_H
#include "daemon/spmd/lower/stage_ir.h"

/* @ret_of[step] is the run of the step; both arrays have room for one more than @code has steps.
 * Returns the number of runs, at least one. */
uint32_t hsp_unit_runs(const struct hsp_compiler *c, const struct hsp_code *code, uint32_t *ret_of,
                       struct hsp_unit_run *ret);

#endif
