/* Chooses the plan of a dry run or compilation: the given one, an annotation, or the planner's.
 *
 * Purity: shell (reads the plan file). */
#ifndef HSP_PLAN_PICK_H
#define HSP_PLAN_PICK_H

#include "daemon/ctl/job_load.h"

struct hsp_pick {
    const char *plan_path;            /* --plan, NULL none */
    const struct hsp_plan_text *plan; /* in its place: the text of one, NULL none */
    const char *cluster_path;         /* --cluster, NULL none */
    const char *exclude;              /* comma-separated device names, NULL none */
    bool no_zero;
};

/* *ret_cluster: the described one, else default cores, as many as the plan has ranks (1 for the
 * planner). *ret_source: "plan-a.yaml" or "planner". */
enum hsp_status hsp_pick_plan(struct hsp_arena *arena, const struct hsp_loaded *l,
                              const struct hsp_pick *how, struct hsp_cluster_desc *ret_cluster,
                              struct hsp_planned *ret, const char **ret_source,
                              struct hsp_err *err);

/* ret[device]: named in @list, by commas. HSP_ENOENT names one that the cluster has not. */
enum hsp_status hsp_pick_exclude(struct hsp_arena *arena, const struct hsp_cluster_desc *c,
                                 const char *list, const bool **ret, struct hsp_err *err);

/* A status of using the plan from @source, with @source in the message; a plan file that does not
 * fit is a bad file (HSP_EPARSE). */
enum hsp_status hsp_pick_blame(enum hsp_status st, const char *source, struct hsp_err *err);

#endif
