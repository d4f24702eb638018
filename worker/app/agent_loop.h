/* Runs the agent of a node: feeds each event to the pure machine and performs its actions, until
 * the machine or a signal ends the agent.
 *
 * Purity:    shell.
 */
#ifndef HSP_AGENT_LOOP_H
#define HSP_AGENT_LOOP_H
#include "worker/app/agent_shell.h"

/* Runs an agent to its end. @dir: the node's folder; @machine has the profiles of the devices, then
 * of the replica holders. Returns the exit status. */
int hsp_agent_run(const struct hsp_worker_config *cfg, const struct hsp_agent_config *machine,
                  const struct hsp_net_keys *keys, const char *dir, struct hsp_agent_setup *setup,
                  struct hsp_logger *log);

#endif
