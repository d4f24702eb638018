/* Makes pools: one plan for each class of lengths; a part of planner.c. Purity: pure. */
#ifndef HSP_LENGTHS_H
#define HSP_LENGTHS_H
#include "daemon/planner/planner.h"

/* HSP_EINFEASIBLE with the numbers: "needs 3.1 GiB, largest worker offers 1.0 GiB"; HSP_ENODEV: no
 * device; HSP_ECANCELED; HSP_ENOMEM. @opts may be NULL. */
enum hsp_status hsp_plan_make(const struct hsp_graph *g, const struct hsp_train_spec *t,
                              const struct hsp_cluster_desc *c, const struct hsp_plan_options *opts,
                              struct hsp_arena *arena, struct hsp_planned *ret,
                              struct hsp_err *err);
/* Prices a plan made elsewhere: rank r runs on the r-th device that is not excluded. Fills in the
 * plan's prediction. HSP_ENODEV: more ranks than devices; HSP_EINFEASIBLE: does not fit, with the
 * numbers. The plan has passed hsp_plan_check. */
enum hsp_status hsp_plan_adopt(const struct hsp_graph *g, const struct hsp_train_spec *t,
                               const struct hsp_cluster_desc *c,
                               const struct hsp_plan_options *opts, struct hsp_plan *plan,
                               struct hsp_arena *arena, struct hsp_planned *ret,
                               struct hsp_err *err);

#endif
