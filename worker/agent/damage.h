/* Reports damaged state to hspmdd, at once or after the next WELCOME.
 *
 * Purity:  pure.
 * Bounds:  HSP_AGENT_UNTOLD reports wait for a connection; further reports are logged and
 *          counted, and the last report that is sent says how many they are. The last version that
 *          each device gave up is reported after every WELCOME, for hspmdd may have died before its
 *          store had it; hspmdd ignores one of an older epoch.
 */
#ifndef HSP_DAMAGE_H
#define HSP_DAMAGE_H
#include "worker/agent/agent_impl.h"

/* Device @device, or the agent itself at its start, reports @m; sets its device. */
void hsp_ai_damaged(struct hsp_agent *a, uint32_t device, const struct hsp_m_damaged *m);
/* After a WELCOME: the reports that hspmdd may not have. */
void hsp_ai_damaged_again(struct hsp_agent *a);

#endif
