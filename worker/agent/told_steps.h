/* Keeps the newest steps that executors have reported, and tells hspmdd of them again: a connection
 * that broke may have lost some, and those of an absence were never sent.
 *
 * Steps of a job that has been stopped are kept until hspmdd has answered for the death bound since
 * they were told. Example: a job is suspended, hspmdd is killed before it has written steps 57 to
 * 60, and killed again just behind the next WELCOME. The third hspmdd hears of them.
 *
 * Purity:  pure.
 * Bounds:  HSP_AGENT_STEPS steps of all jobs.
 */
#ifndef HSP_TOLD_STEPS_H
#define HSP_TOLD_STEPS_H
#include "worker/agent/agent_impl.h"

void hsp_ai_keep_step(struct hsp_agent *a, const struct hsp_msg *m); /* STEP */
void hsp_ai_steps_again(struct hsp_agent *a);                        /* after a WELCOME */
/* @job is stopped: its checkpoints are not told again, and its steps not for long, unless another
 * device here still works for it. */
void hsp_ai_steps_over(struct hsp_agent *a, uint32_t job);
/* hspmdd has answered a heartbeat. */
void hsp_ai_steps_heard(struct hsp_agent *a);
/* Another cluster or generation takes this node in. The new one may give the number of a job that
 * was stopped, and those of its epochs, to another job. */
void hsp_ai_forget_over(struct hsp_agent *a);

#endif
