/* Chooses a plan for a planning question (START_PLAN), compiles it, and tries the next plan if the
 * compiled programs do not fit the memory of the devices.
 *
 * Role:   runs on a pool thread; plan_request.h states the order of choice.
 * Purity: pure.
 */
#ifndef HSP_PLAN_CHOICE_H
#define HSP_PLAN_CHOICE_H
#include "daemon/app/plans/plan_request.h"

/* Plans and compiles, which takes long. The caller owns the reference to the answer's plan. With
 * @compile false (dry runs) it stops after the prediction, and there is no plan record. */
void hsp_plan_work(struct hsp_plan_question *q, bool compile, struct hsp_plan_answer *ret);

#endif
