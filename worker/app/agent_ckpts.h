/* Lists the checkpoints of a job for hspmdd, each list in a thread of its own, since the file
 * system of checkpoint.path may hang: then neither the agent nor its end waits for it.
 *
 * Purity:    shell.
 * Threads:   called by the loop's thread.
 * Ownership: threads that have not come back at the end of the shell own their data, and free
 *            it.
 * Bounds:    HSP_AGENT_LISTS at a time; a question beyond them is answered with that reason.
 */
#ifndef HSP_AGENT_CKPTS_H
#define HSP_AGENT_CKPTS_H
#include "worker/app/agent_shell.h"

#define HSP_AGENT_LISTS 4u

/* FIND_CKPTS: CKPTS follows. */
void hsp_agent_find_ckpts(struct hsp_agent_shell *s, const struct hsp_m_ckpts *m);
/* The shell ends. */
void hsp_agent_ckpts_close(struct hsp_agent_shell *s);

#endif
