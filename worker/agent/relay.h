/* Passes messages between hspmdd and the executors, and notes the news of a device in each.
 *
 * Purity:  pure.
 */
#ifndef HSP_RELAY_H
#define HSP_RELAY_H
#include "worker/agent/agent_impl.h"

/* A message of hspmdd on a connection that is up. */
void hsp_ai_daemon_msg(struct hsp_agent *a, const struct hsp_msg *m);
/* Has the executors that are up beat as often as hspmdd wants. */
void hsp_ai_pace(struct hsp_agent *a);
/* A message of an executor. */
void hsp_ai_exec_msg(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m);

#endif
