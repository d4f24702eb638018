/* Finds where a tensor of the running program lies, and its extents in this step.
 *
 * Example: a tensor with 2 slots of 1 MiB at offset 4 MiB has its instance of micro-batch 3 at
 * 5 MiB (slot 3 mod 2). Its first extent is the number of sequences of that micro-batch.
 */
#ifndef HSP_OPERAND_H
#define HSP_OPERAND_H
#include "worker/backend/cells.h"

struct hsp_engine;

/* A tensor of hsp_engine_program as it is now, for hooks and between steps: the instance of @micro
 * with its running extents (outside of a step their bounds). The box is in global coordinates; a
 * batch dim starts at 0 of the micro-batch. */
struct hsp_cell_view hsp_engine_view(const struct hsp_engine *e, uint32_t tensor, uint32_t micro);

#endif
