/* @@SENTENCE@@ agent_executors: purpose to be written.
 *
 * Purity:    shell.
 */
#ifndef HSP_AGENT_EXECUTORS_H
#define HSP_AGENT_EXECUTORS_H
#include "worker/app/agent_shell.h"

/* What agent_links.c received from an executor. */
void hsp_agent_exec_msg(struct hsp_agent_exec *x, const struct hsp_msg *m);
void hsp_agent_exec_closed(struct hsp_agent_exec *x, const struct hsp_err *why);
/* @bare: without its device, which is lost. */
void hsp_agent_spawn(struct hsp_agent_shell *s, uint32_t device, bool bare);
void hsp_agent_kill(struct hsp_agent_shell *s, uint32_t device);
void hsp_agent_order(struct hsp_agent_shell *s, uint32_t device, const struct hsp_msg *m);
void hsp_agent_reap(struct hsp_agent_shell *s);    /* a child has ended, or may have */
void hsp_agent_end_all(struct hsp_agent_shell *s); /* kills all and waits for them */

#endif
