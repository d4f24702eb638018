/* Moves the homes of a total plan to a smaller size of the model (shrink_model.h).
 *
 * Purity:    pure.
 * Ownership: everything in the arena given. */
#ifndef HSP_SHRINK_HOMES_H
#define HSP_SHRINK_HOMES_H
#include "daemon/plan/plan.h"

/* Gives @p a home for each parameter of @to, the smaller model. It is the home that @total states
 * for the same parameter of @from, with its cuts moved. A cut of a home lies between two cuts of
 * uses, whose places in @to are known; in @to it is put between the same two cuts, in proportion,
 * and two different cuts never get the same place. @units: hsp_param_units of @from. HSP_ENOENT:
 * the parameter of @to is too small for this; HSP_ENOMEM. */
enum hsp_status hsp_scaled_homes(const struct hsp_graph *from, const struct hsp_plan *total,
                                 const bool *units, const struct hsp_graph *to,
                                 struct hsp_arena *arena, struct hsp_plan *p, struct hsp_err *err);

#endif
