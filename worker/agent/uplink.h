/* Measures the link to hspmdd over the control connection, once per incarnation.
 *
 * Purity:  pure.
 */
#ifndef HSP_UPLINK_H
#define HSP_UPLINK_H
#include "worker/agent/agent_impl.h"

/* MEASURE has come: begins, or tells the figures that are known already. */
void hsp_ai_uplink_begin(struct hsp_agent *a, const struct hsp_m_measure *m);
/* An ECHO has come back: asks for the next one, or reports. */
void hsp_ai_uplink_answer(struct hsp_agent *a, const struct hsp_m_echo *m);
void hsp_ai_uplink_tick(struct hsp_agent *a);   /* reports the part so far when it takes too long */
void hsp_ai_uplink_stop(struct hsp_agent *a);   /* the connection is gone */
void hsp_ai_uplink_forget(struct hsp_agent *a); /* the incarnation is gone */
uint64_t hsp_ai_uplink_deadline(const struct hsp_agent *a);

#endif
