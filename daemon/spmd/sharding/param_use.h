/* Tells which stages use a parameter, and in which layout the members of a stage compute with it.
 *
 * A stage uses a parameter when one of its nodes reads it. Each group cuts the parameter along
 * hsp_param.tp_dim by the group's shares, at multiples of tp_grain. The parameter is whole when
 * tp_dim is -1 or the group has one rank.
 *
 * Example: 64 rows in units of 16, tensor shares [2, 1]: rows 0..48 on the first rank, 48..64 on
 * the second one.
 *
 * Purity:    pure.
 * Ownership: results live in the arena given. */
#ifndef HSP_PARAM_USE_H
#define HSP_PARAM_USE_H
#include "daemon/plan/plan.h"
#include "daemon/spmd/sharding/stage_layout.h"

/* @ret[param * n_units + unit]: a node of the unit reads the parameter. HSP_ENOMEM. */
enum hsp_status hsp_param_units(const struct hsp_graph *g, struct hsp_arena *arena,
                                const bool **ret, struct hsp_err *err);
/* Whether a node of the stage reads the parameter. @units: from hsp_param_units. */
bool hsp_stage_uses_param(const struct hsp_graph *g, const bool *units,
                          const struct hsp_pipeline *s, uint32_t stage, uint32_t param);
/* The layout in which the members of @s use the parameter. HSP_ENOMEM. */
enum hsp_status hsp_param_use(const struct hsp_graph *g, const struct hsp_stage *s, uint32_t param,
                              struct hsp_arena *arena, struct hsp_layout *ret, struct hsp_err *err);

#endif
