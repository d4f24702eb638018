/* Writes a predicted plan as JSON: the keys of `hspmdctl plan -o json` (kind plan-prediction).
 *
 * Purity: pure. */
#ifndef HSP_PLAN_DOC_H
#define HSP_PLAN_DOC_H
#include "daemon/app/plans/job_record.h"

/* One line of JSON; NULL without memory, or with a plan too large for a message; cJSON_free.
 * @source: "planner" or the annotation's name.
 */
char *hsp_plan_doc(const struct hsp_job_rec *job, const struct hsp_cluster_desc *cluster,
                   const struct hsp_planned *p, const char *source);

#endif
