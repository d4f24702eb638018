/* @@SENTENCE@@ agent_links: purpose to be written.
 *
 * Purity:    shell.
 */
#ifndef HSP_AGENT_LINKS_H
#define HSP_AGENT_LINKS_H
#include "worker/app/agent_shell.h"

enum hsp_status hsp_agent_net_open(struct hsp_agent_shell *s, const struct hsp_net_keys *keys,
                                   struct hsp_err *err);
/* @address: NULL: as configured. */
void hsp_agent_connect(struct hsp_agent_shell *s, const char *address);
void hsp_agent_disconnect(struct hsp_agent_shell *s);
void hsp_agent_send(struct hsp_agent_shell *s, const struct hsp_msg *m);
/* One message over any connection. HSP_AGAIN: the other side does not read; errors of
 * hsp_msg_encode and hsp_net_send. */
enum hsp_status hsp_agent_put(struct hsp_agent_shell *s, uint32_t conn, const struct hsp_msg *m,
                              struct hsp_err *err);

#endif
