/* Emits the actions of one step of the agent's machine: messages, log lines, kills and scans.
 *
 * Role:      ground of the room: every other part of the machine acts by these calls.
 * Purity:    pure.
 * Ownership: actions and the messages in them live until the next step; messages are copied, but
 *            for blobs, which are borrowed from the event.
 */
#ifndef HSP_AGENT_ACTIONS_H
#define HSP_AGENT_ACTIONS_H
#include "worker/agent/agent.h"

/* Appends an action; the caller fills in the rest. Without memory it returns a spare action, and
 * the machine has failed. */
struct hsp_agent_action *hsp_ai_emit(struct hsp_agent *a, enum hsp_agent_action_type type,
                                     uint32_t device);
/* Emits a line of the log; @severity as in struct hsp_agent_action. */
void hsp_ai_log(struct hsp_agent *a, int severity, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Sends a message to hspmdd, if there is a link and this node is or may become a member. */
void hsp_ai_tell(struct hsp_agent *a, const struct hsp_msg *m);
/* The same, also while the node is parked. */
void hsp_ai_say(struct hsp_agent *a, const struct hsp_msg *m);
/* Sends a message to an executor. */
void hsp_ai_order(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m);
/* Passes a message of hspmdd to the shell: an order of a check of nodes (CHECK), a question which
 * nodes can be reached (REACH), or a question which checkpoints are on disk (CKPTS). */
void hsp_ai_ask_shell(struct hsp_agent *a, const struct hsp_msg *m);
/* Emits an action on papers, KEEP_PAPERS or READ_PAPERS, to the shell. */
void hsp_ai_shell_papers(struct hsp_agent *a, enum hsp_agent_action_type type,
                         const struct hsp_msg *m);
/* Kills an executor that runs and is not killed yet, and logs why. The caller keeps @why valid,
 * since the agent reports the death with this reason. */
void hsp_ai_kill(struct hsp_agent *a, uint32_t device, const char *why);
/* Kills an executor without a line in the log. */
void hsp_ai_kill_quietly(struct hsp_agent *a, uint32_t device);
/* Emits a SCAN; returns its number. */
uint64_t hsp_ai_scan(struct hsp_agent *a);

#endif
