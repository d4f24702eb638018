/* Receives on one connection: TLS turns bytes into plain bytes, the parser turns these into frames,
 * and frames go up to the callbacks.
 *
 * Failures: the peer closes between frames or within a frame, TLS refuses, a frame breaks a rule.
 * Each ends the connection (net_end.h).
 *
 * Role:   called when a handle is connected. Not included outside this folder.
 * Purity: shell (libuv, TLS). */
#ifndef HSP_NET_READ_H
#define HSP_NET_READ_H
#include "proto/net/net_impl.h"

/* Begins to read on a connected handle: the state becomes TLS or OPEN. */
void hsp_net_conn_start(struct net_conn *c);
/* Begins to read on a handed-over descriptor, which is OPEN at once. Returns 0 or a libuv code. */
int hsp_net_conn_adopt(struct net_conn *c, const char *name);

#endif
