/* @@SENTENCE@@ plan_choice: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_PLAN_CHOICE_H
#define HSP_PLAN_CHOICE_H
#include "daemon/app/plans/plan_request.h"

/* Plans and compiles. Takes long. The answer's plan is the caller's reference.
 * @compile: false stops after the prediction (dry runs): no plan record. */
void hsp_plan_work(struct hsp_plan_question *q, bool compile, struct hsp_plan_answer *ret);

#endif
