/* Has STOP, RELEASE and DROP obeyed: each has an answer, and an executor that owes one too long is
 * killed.
 *
 * Purity:  pure.
 * Example: STOP(job 4) goes to executor 1, which beats, but hangs in its driver. After obey_ms it
 *          is killed; at its end the agent deletes the segments of job 4 itself and answers
 *          STOPPED, so the device is free.
 *
 * Bounds:  an executor has 1 s to answer SEAL, or a third of dead_ms where that is less: a recovery
 *          waits for it, and all sealed state of a killed one stays. The executor has obey_ms = 10
 *          s for the other orders, or 2 dead_ms where that is more: they delete files, and one
 *          order may wait for another. A SEAL waits for none of them. hspmdd gives a node six times
 *          as long: 2 dead_ms for SEALED, and 60 s or 12 dead_ms for STOPPED and RELEASED
 *          (daemon/cluster/device_requests.c).
 */
#ifndef HSP_OBEY_H
#define HSP_OBEY_H
#include "worker/agent/agent_impl.h"

uint64_t hsp_ai_seal_ms(const struct hsp_agent *a);
uint64_t hsp_ai_obey_ms(const struct hsp_agent *a);
/* STOP or RELEASE has come. An idle executor is told, too: it may hold an epoch that has failed. */
void hsp_ai_stop_or_release(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m);
/* The same of all that is kept of @job, by an administrator's word: nobody is asked whether it may
 * go. */
void hsp_ai_give_up(struct hsp_agent *a, uint32_t device, uint32_t job);
/* Its executor has answered with STOPPED or RELEASED @m: hspmdd is told, and papers of a job of
 * which nothing is left here go. Nothing of that job is owed: nothing happens. */
void hsp_ai_stop_done(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m);
/* DROP has come. An executor that works for another job has dropped the epoch already; one that is
 * not up drops it as it starts. */
void hsp_ai_drop(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m);
/* The executor has dropped the epoch: papers of a job of which nothing is left here go. */
void hsp_ai_dropped(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m);
/* The executor has started, which deletes the unsealed state of the process before it: so a DROP
 * that this one owed is obeyed. */
void hsp_ai_obeyed_by_start(struct hsp_agent *a, uint32_t device);
/* The executor has ended: its orders are done or answered for it, but for a DROP. */
void hsp_ai_orders_over(struct hsp_agent *a, uint32_t device);
void hsp_ai_obey_tick(struct hsp_agent *a);
uint64_t hsp_ai_obey_deadline(const struct hsp_agent *a);

#endif
