/* Carries out the orders of a check of nodes on libuv's pool, one after the other: devices measured
 * again as at the start, and links to other agents.
 *
 * A link is measured over a mesh of two ranks, which goes the way that meshes of executors go. STOP
 * and END abort the order under way.
 *
 * Purity:    shell.
 */
#ifndef HSP_AGENT_CHECK_H
#define HSP_AGENT_CHECK_H
#include "worker/app/agent_shell.h"

/* CHECK: CHECKED follows for an order that measures. */
void hsp_agent_check_order(struct hsp_agent_shell *s, const struct hsp_m_check *m);
/* CHECK_STOP: the order under way fails soon, and the listening ends. */
void hsp_agent_check_stop(struct hsp_agent_shell *s);
/* When the loop has ended. */
void hsp_agent_check_free(struct hsp_agent_shell *s);

#endif
