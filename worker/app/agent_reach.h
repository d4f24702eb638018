/* Calls the listeners of other nodes for hspmdd, each round in a thread of its own: libuv's pool
 * may be busy for longer than hspmdd waits.
 *
 * Purity:  shell.
 * Bounds:  HSP_AGENT_ROUNDS at a time; a request beyond them is not answered.
 */
#ifndef HSP_AGENT_REACH_H
#define HSP_AGENT_REACH_H
#include "worker/app/agent_shell.h"

#define HSP_AGENT_ROUNDS 4u /* jobs of a node that lose a peer at once */

/* REACH: REACHED follows. */
void hsp_agent_reach(struct hsp_agent_shell *s, const struct hsp_m_reach *m);

#endif
