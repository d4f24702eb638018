/* Turns all that arrives over connections into events of the agent's machine.
 *
 * Purity:    shell.
 * Ownership: a message lives in the shell's arena until the next one arrives; so its event is
 *            delivered, never posted.
 */
#ifndef HSP_AGENT_RECEIVE_H
#define HSP_AGENT_RECEIVE_H
#include "worker/app/agent_shell.h"

/* Opens the network of the shell: one connection to hspmdd, one to each executor. HSP_ENOMEM. */
enum hsp_status hsp_agent_net_open(struct hsp_agent_shell *s, const struct hsp_net_keys *keys,
                                   struct hsp_err *err);

#endif
