/* Pools: one plan for each class of lengths; a part of planner.c. See lengths.c. Purity: pure. */
#ifndef HSP_LENGTHS_H
#define HSP_LENGTHS_H
#include "daemon/planner/planner.h"

/* planner.c: hsp_plan_make and hsp_plan_adopt for one plan. */
enum hsp_status hsp_make_one(const struct hsp_graph *g, const struct hsp_train_spec *t,
                             const struct hsp_cluster_desc *c, const struct hsp_plan_options *opts,
                             struct hsp_arena *arena, struct hsp_planned *ret, struct hsp_err *err);
enum hsp_status hsp_adopt_one(const struct hsp_graph *g, const struct hsp_train_spec *t,
                              const struct hsp_cluster_desc *c, const struct hsp_plan_options *opts,
                              struct hsp_plan *plan, struct hsp_arena *arena,
                              struct hsp_planned *ret, struct hsp_err *err);

#endif
