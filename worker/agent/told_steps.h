/* Keeps the newest steps that executors have reported, and tells hspmdd of them again: a connection
 * that broke may have lost some, and those of an absence were never sent.
 *
 * Purity:  pure.
 * Bounds:  HSP_AGENT_STEPS steps of all jobs.
 */
#ifndef HSP_TOLD_STEPS_H
#define HSP_TOLD_STEPS_H
#include "worker/agent/agent_impl.h"

void hsp_ai_keep_step(struct hsp_agent *a, const struct hsp_msg *m); /* STEP */
void hsp_ai_steps_again(struct hsp_agent *a);                        /* after a WELCOME */
/* @job is stopped: its steps and checkpoints are not told again, unless another device here still
 * works for it. A new cluster may give its number, and those of its epochs, to another job. */
void hsp_ai_forget_told(struct hsp_agent *a, uint32_t job);

#endif
