/* @@SENTENCE@@ param_use: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_PARAM_USE_H
#define HSP_PARAM_USE_H
#include "daemon/plan/plan.h"
#include "daemon/spmd/sharding/stage_layout.h"

/* @ret[param * n_units + unit]: a node of the unit reads the parameter. HSP_ENOMEM. */
enum hsp_status hsp_param_units(const struct hsp_graph *g, struct hsp_arena *arena,
                                const bool **ret, struct hsp_err *err);
/* @units: from hsp_param_units. */
bool hsp_stage_uses_param(const struct hsp_graph *g, const bool *units, const struct hsp_stream *s,
                          uint32_t stage, uint32_t param);
/* Layout in which the members of @s use the parameter. */
enum hsp_status hsp_param_use(const struct hsp_graph *g, const struct hsp_stage *s, uint32_t param,
                              struct hsp_arena *arena, struct hsp_layout *ret, struct hsp_err *err);

#endif
