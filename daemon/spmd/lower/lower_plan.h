/* Computes every layout and every Reshard of a plan, stage by stage, before anything is cut into
 * ranks.
 *
 * Role:      the roof of this folder; total_plan.c lists the result, specialize.c cuts it into
 *            ranks.
 * Purity:    pure.
 * Ownership: hsp_layouts_fini releases the vectors of the compiler, the rest lives in its arena. */
#ifndef HSP_LOWER_PLAN_H
#define HSP_LOWER_PLAN_H
#include "daemon/spmd/lower/stage_ir.h"

/* Fills @c, of which g, p, t and arena are set; hsp_layouts_fini also after a failure. HSP_EINVAL:
 * the plan does not fit the model. HSP_ELIMIT: its layouts do not fit the arena. */
enum hsp_status hsp_layouts_make(struct hsp_compiler *c, struct hsp_err *err);
void hsp_layouts_fini(struct hsp_compiler *c);

#endif
