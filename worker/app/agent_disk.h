/* @@SENTENCE@@ agent_disk: purpose to be written.
 *
 * Purity:    shell.
 */
#ifndef HSP_AGENT_DISK_H
#define HSP_AGENT_DISK_H
#include "worker/app/agent_shell.h"

void hsp_agent_scan(struct hsp_agent_shell *s, uint64_t scan);
void hsp_agent_discard(struct hsp_agent_shell *s, uint32_t job, uint32_t device,
                       uint64_t keep_plan);
void hsp_agent_drop_tasks(struct hsp_agent_shell *s); /* all but the one under way */

#endif
