/* Scans and deletes state segments on libuv's pool, one task after the other, so that a scan sees
 * what an earlier discard has deleted. Writes the incarnation and the papers of jobs beside them.
 *
 * Purity:    shell.
 */
#ifndef HSP_AGENT_DISK_H
#define HSP_AGENT_DISK_H
#include "worker/app/agent_shell.h"

/* SCAN: SCANNED follows. A folder that cannot be read ends the agent: "nothing is here" would be
 * believed, and the state given up. */
void hsp_agent_scan(struct hsp_agent_shell *s, uint64_t scan);
/* Looks how much room the state folder has, for s->folder_free; SCAN does the same. Nothing is done
 * while an earlier look is under way. */
void hsp_agent_measure_folder(struct hsp_agent_shell *s);
/* DISCARD. */
void hsp_agent_discard(struct hsp_agent_shell *s, uint32_t job, uint32_t device,
                       uint64_t keep_plan);
/* REMEMBER. One that cannot be written is told: only a restart of the agent will miss it. */
void hsp_agent_remember(struct hsp_agent_shell *s, struct hsp_digest incarnation);
/* KEEP_PAPERS: copies the blob. Want of room is told, and training goes on. */
void hsp_agent_keep_papers(struct hsp_agent_shell *s, const struct hsp_msg *m);
/* DROP_PAPERS. */
void hsp_agent_drop_papers(struct hsp_agent_shell *s, uint32_t job);
/* READ_PAPERS: PAPERS follows. */
void hsp_agent_read_papers(struct hsp_agent_shell *s, uint32_t job);
/* Drops all tasks but the one under way. */
void hsp_agent_drop_tasks(struct hsp_agent_shell *s);

#endif
