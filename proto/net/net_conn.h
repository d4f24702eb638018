/* @@SENTENCE@@ net_conn: purpose to be written. */
#ifndef HSP_NET_CONN_H
#define HSP_NET_CONN_H
#include "proto/net/net_impl.h"

/* Sends a short frame at once; nothing waits. Returns how much of it is done with. */
size_t hsp_net_conn_direct(struct net_conn *c, uint8_t *frame, size_t len);
void hsp_net_conn_close_handle(struct net_conn *c);
void hsp_net_conn_release(struct net_conn *c); /* an operation has ended */

void hsp_net_conn_start(struct net_conn *c); /* the handle is connected: TLS or OPEN, reading */
int hsp_net_conn_adopt(struct net_conn *c, const char *name); /* the same for a handed-over one */
void hsp_net_conn_fail(struct net_conn *c, const struct hsp_err *why);
void hsp_net_conn_pump(struct net_conn *c);

#endif
