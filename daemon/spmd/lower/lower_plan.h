/* @@SENTENCE@@ lower_plan: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_LOWER_PLAN_H
#define HSP_LOWER_PLAN_H
#include "daemon/spmd/lower/stage_ir.h"

/* Fills @c, of which g, p, t and arena are set; hsp_layouts_fini also after a
 * failure. HSP_EINVAL: the plan does not fit the model. HSP_ELIMIT: its layouts do not fit the arena.
 */
enum hsp_status hsp_layouts_make(struct hsp_compiler *c, struct hsp_err *err);
void hsp_layouts_fini(struct hsp_compiler *c);

#endif
