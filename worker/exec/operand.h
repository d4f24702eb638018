/* Finds the address of a tensor of the running program, and its extents in this step.
 *
 * Example: a tensor with 2 slots of 1 MiB at offset 4 MiB has its instance of micro-batch 3 at
 * 5 MiB (slot 3 mod 2). Its first extent is the number of sequences of that micro-batch.
 */
#ifndef HSP_OPERAND_H
#define HSP_OPERAND_H
#include "worker/backend/cells.h"

struct hsp_engine;

/* Returns the view of a tensor of hsp_engine_program, for hooks and between steps: the instance of
 * micro-batch @micro, with the extents of the running step (outside of a step with their bounds).
 * The box is in global coordinates, except that a batch dim starts at 0 of the micro-batch. */
struct hsp_cell_view hsp_engine_view(const struct hsp_engine *e, uint32_t tensor, uint32_t micro);

#endif
