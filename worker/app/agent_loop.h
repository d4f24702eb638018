/* @@SENTENCE@@ agent_loop: purpose to be written.
 *
 * Purity:    shell.
 */
#ifndef HSP_AGENT_LOOP_H
#define HSP_AGENT_LOOP_H
#include "worker/app/agent_shell.h"

/* Something no restart of a part mends: the loop ends with exit status 1. */
void hsp_agent_fail(struct hsp_agent_shell *s, const struct hsp_err *why);
/* Feeds one event, now, and all that follows from it. Not to be called from inside an action. */
void hsp_agent_feed(struct hsp_agent_shell *s, struct hsp_agent_event *ev);
/* Runs an agent to its end. @dir as above; @machine has the profiles of the devices, then of the
 * keepers. Returns the exit status. */
int hsp_agent_run(const struct hsp_worker_config *cfg, const struct hsp_agent_config *machine,
                  const struct hsp_net_keys *keys, const char *dir, struct hsp_agent_setup *setup,
                  struct hsp_logger *log);

#endif
