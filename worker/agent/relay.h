/* @@SENTENCE@@ relay: purpose to be written. */
#ifndef HSP_RELAY_H
#define HSP_RELAY_H
#include "worker/agent/agent_impl.h"

void hsp_ai_daemon_msg(struct hsp_agent *a, const struct hsp_msg *m);
void hsp_ai_exec_msg(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m);
void hsp_ai_seal_advance(struct hsp_agent *a); /* an executor answered or died */
void hsp_ai_seal_abandon(struct hsp_agent *a); /* nobody waits for the answer any more */
void hsp_ai_seal_answer(struct hsp_agent *a, const struct hsp_agent_event *scanned);
void hsp_ai_seal_tick(struct hsp_agent *a); /* kills those that do not answer */
uint64_t hsp_ai_seal_deadline(const struct hsp_agent *a);
void hsp_ai_stop_answer(struct hsp_agent *a, uint32_t device); /* the executor died meanwhile */
void hsp_ai_steps_again(struct hsp_agent *a);                  /* after a WELCOME */

#endif
