/* Sends frames on one connection: a bounded queue of frames, encrypted when the kernel has room.
 *
 * One write is in flight at a time. A frame goes out at once when nothing waits. Failures: a full
 * queue (HSP_AGAIN); TLS or a write fails, which ends the connection (net_end.h).
 *
 * Role:   called by net.c and net_read.c. Not included outside this folder.
 * Purity: shell (libuv, TLS). */
#ifndef HSP_NET_WRITE_H
#define HSP_NET_WRITE_H
#include "proto/net/net_impl.h"

/* hsp_net_send on an OPEN connection. */
enum hsp_status hsp_net_conn_send(struct net_conn *c, const struct hsp_frame_header *head,
                                  const void *body, size_t body_len, const void *blob,
                                  size_t blob_len, struct hsp_err *err);
/* hsp_net_drop. */
void hsp_net_conn_drop(struct net_conn *c, bool flush, const char *why);
/* Starts the next write, or ends a flush. */
void hsp_net_conn_pump(struct net_conn *c);

#endif
