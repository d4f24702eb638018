/* Tells hspmdd of state that was found damaged, also what was found while there was no connection.
 *
 * Purity:  pure.
 * Bounds:  HSP_AGENT_UNTOLD reports wait for a connection; more are only logged.
 */
#ifndef HSP_DAMAGE_H
#define HSP_DAMAGE_H
#include "worker/agent/agent_impl.h"

/* Device @device, or the agent itself at its start, has found @m, whose device is set by this. */
void hsp_ai_damaged(struct hsp_agent *a, uint32_t device, const struct hsp_m_damaged *m);
/* After a WELCOME: what was not told yet. */
void hsp_ai_damaged_again(struct hsp_agent *a);

#endif
