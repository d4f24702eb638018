/* Decides whether a plan is the one that a job runs.
 *
 * Purity: pure. */
#ifndef HSP_PLAN_CHANGE_H
#define HSP_PLAN_CHANGE_H
#include <cjson/cJSON.h>

#include "daemon/plan/plan.h"

/* @planned: a plan-prediction document. @plan runs with rank r on the r-th name of @devices (array
 * of strings). The same: the same devices, in the same places, with the same work. */
bool hsp_plan_unchanged(const cJSON *planned, const struct hsp_plan *plan, const cJSON *devices);

/* Whether the plans for shorter sequences are the same, rank by rank; those for the longest are
 * compared by the other function. */
bool hsp_pool_unchanged(const struct hsp_plan *planned, const struct hsp_plan *plan);

#endif
