/* Moves the homes of a total plan to a smaller size of the model (shrink_model.h).
 *
 * Purity:    pure.
 * Ownership: everything in the arena given. */
#ifndef HSP_SHRINK_HOMES_H
#define HSP_SHRINK_HOMES_H
#include "daemon/plan/plan.h"

/* Gives @p one home for each parameter of @to: that of @total for @from, with each cut moved along
 * with the cuts of uses around it, and different cuts kept apart. @units: hsp_param_units of @from.
 * HSP_ENOENT: the parameter is too small there; HSP_ENOMEM. */
enum hsp_status hsp_small_homes(const struct hsp_graph *from, const struct hsp_plan *total,
                                const bool *units, const struct hsp_graph *to,
                                struct hsp_arena *arena, struct hsp_plan *p, struct hsp_err *err);

#endif
