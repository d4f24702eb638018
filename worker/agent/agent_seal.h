/* Answers SEAL of a job when no executor of the node can write its state any more.
 *
 * Purity:  pure.
 * Example: SEAL(job 4) reaches a node where devices 0 and 1 work for job 4. Both are told, device 0
 *          answers, device 1 does not within seal_ms (obey.h) and the more_ms that SEAL allows, and
 *          is killed. After its end one scan lists the sealed segments, and SEALED goes to hspmdd.
 */
#ifndef HSP_AGENT_SEAL_H
#define HSP_AGENT_SEAL_H
#include "proto/wire/msg.h"
#include "worker/agent/agent_impl.h"

/* SEAL has come: @m goes to the executors of its job. A newer SEAL of a job replaces the older
 * one. */
void hsp_ai_seal(struct hsp_agent *a, const struct hsp_msg *m);
void hsp_ai_seal_advance(struct hsp_agent *a); /* an executor answered or died */
void hsp_ai_seal_abandon(struct hsp_agent *a); /* nobody waits for the answer any more */
void hsp_ai_seal_answer(struct hsp_agent *a, const struct hsp_agent_event *scanned);
void hsp_ai_seal_tick(struct hsp_agent *a); /* kills those that do not answer */
uint64_t hsp_ai_seal_deadline(const struct hsp_agent *a);

#endif
