/* Chooses a plan for a question, compiles it, and takes another plan when it is too large after
 * all.
 *
 * Role:   runs on a pool thread; the order of choice stands in plan_request.h.
 * Purity: pure.
 */
#ifndef HSP_PLAN_CHOICE_H
#define HSP_PLAN_CHOICE_H
#include "daemon/app/plans/plan_request.h"

/* Plans and compiles. Takes long. The answer's plan is the caller's reference.
 * @compile: false stops after the prediction (dry runs): no plan record. */
void hsp_plan_work(struct hsp_plan_question *q, bool compile, struct hsp_plan_answer *ret);

#endif
