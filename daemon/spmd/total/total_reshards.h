/* Lists the Reshards of a compiled plan with their places, for the total plan.
 *
 * Purity: pure. */
#ifndef HSP_TOTAL_RESHARDS_H
#define HSP_TOTAL_RESHARDS_H
#include "daemon/spmd/lower/stage_ir.h"

/* Fills p->reshards, in order of phase and program. The list lives in @arena; @tmp is for
 * scratch. */
enum hsp_status hsp_list_reshards(const struct hsp_compiler *c, struct hsp_arena *tmp,
                                  struct hsp_arena *arena, struct hsp_plan *p, struct hsp_err *err);

#endif
