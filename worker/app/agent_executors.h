/* Starts, orders and ends the executors of a node: a process each, and the socket pair to it.
 *
 *   none --SPAWN--> running --(ended: SIGCHLD) and (link: end of file)--> EXEC_EXIT fed --> none
 *
 * Both must have happened, so that all its messages are heard before its end (W2). A process that
 * sends an unreadable message is killed, and the rest of its messages is not read.
 *
 * Purity:    shell.
 */
#ifndef HSP_AGENT_EXECUTORS_H
#define HSP_AGENT_EXECUTORS_H
#include "worker/app/agent_shell.h"

/* A message from an executor (agent_receive.c). */
void hsp_agent_exec_msg(struct hsp_agent_exec *x, const struct hsp_msg *m);
/* Its connection has ended; an end for another reason than end of file kills the process. */
void hsp_agent_exec_closed(struct hsp_agent_exec *x, const struct hsp_err *why);
/* Starts an executor. @bare: without its device, which is lost. A failure is its end: EXEC_EXIT. */
void hsp_agent_spawn(struct hsp_agent_shell *s, uint32_t device, bool bare);
/* SIGKILL; nothing when it has ended. */
void hsp_agent_kill(struct hsp_agent_shell *s, uint32_t device);
/* Sends a message; an executor that does not take it is killed. */
void hsp_agent_order(struct hsp_agent_shell *s, uint32_t device, const struct hsp_msg *m);
/* A child has ended, or may have: tells the machine all ends. */
void hsp_agent_reap(struct hsp_agent_shell *s);
/* Kills all executors and waits for their ends. */
void hsp_agent_end_all(struct hsp_agent_shell *s);

#endif
