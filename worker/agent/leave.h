/* Leaves the cluster as planned: tells hspmdd, waits for BYE, and ends the executors.
 *
 * Purity:  pure.
 */
#ifndef HSP_LEAVE_H
#define HSP_LEAVE_H
#include "worker/agent/agent_impl.h"

/* A planned leave begins. */
void hsp_ai_leave(struct hsp_agent *a, const struct hsp_agent_event *ev);
void hsp_ai_leave_notice(struct hsp_agent *a); /* again after each HELLO */
/* A scan that was asked for while hspmdd is away: an empty one lets the node go. */
void hsp_ai_leave_scanned(struct hsp_agent *a, const struct hsp_agent_event *ev);
void hsp_ai_leave_advance(struct hsp_agent *a); /* last in each step */
uint64_t hsp_ai_leave_deadline(const struct hsp_agent *a);

#endif
