/* Sends messages to hspmdd and to the executors, and opens and ends the connection to hspmdd.
 *
 * Purity:    shell.
 */
#ifndef HSP_AGENT_LINKS_H
#define HSP_AGENT_LINKS_H
#include "worker/app/agent_shell.h"

/* CONNECT. @address: NULL: as configured. A dial that fails at once posts CONN_DOWN. */
void hsp_agent_connect(struct hsp_agent_shell *s, const char *address);
/* DISCONNECT: CONN_DOWN follows, if there was a connection. */
void hsp_agent_disconnect(struct hsp_agent_shell *s);
/* SEND: one message to hspmdd; a connection that does not take it is ended. */
void hsp_agent_send(struct hsp_agent_shell *s, const struct hsp_msg *m);
/* One message over any connection. HSP_AGAIN: the other side does not read; errors of
 * hsp_msg_encode and hsp_net_send. */
enum hsp_status hsp_agent_put(struct hsp_agent_shell *s, uint32_t conn, const struct hsp_msg *m,
                              struct hsp_err *err);

#endif
