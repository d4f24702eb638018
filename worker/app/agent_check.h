/* @@SENTENCE@@ agent_check: purpose to be written.
 *
 * Purity:    shell.
 */
#ifndef HSP_AGENT_CHECK_H
#define HSP_AGENT_CHECK_H
#include "worker/app/agent_shell.h"

void hsp_agent_check_order(struct hsp_agent_shell *s, const struct hsp_m_check *m);
void hsp_agent_check_stop(struct hsp_agent_shell *s);
void hsp_agent_check_free(struct hsp_agent_shell *s); /* when the loop has ended */

#endif
