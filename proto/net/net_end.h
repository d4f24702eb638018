/* Ends connections and attempts to connect: closes the handle, then frees the connection or lets
 * the dialler try again.
 *
 * A failure only closes the handle. on_close follows from the close callback, never inside the call
 * that failed.
 *
 * Role:   called by all files of the shell in proto/net. Not included outside this folder.
 * Purity: shell (libuv). */
#ifndef HSP_NET_END_H
#define HSP_NET_END_H
#include "proto/net/net_impl.h"

/* Ends @c for the reason @why. A flush keeps its own reason. */
void hsp_net_conn_fail(struct net_conn *c, const struct hsp_err *why);
/* Ends @c for the libuv code @r: HSP_EIO with the text @what. */
void hsp_net_conn_fail_uv(struct net_conn *c, int r, const char *what);
/* Ends an attempt of a dialled connection: a pause follows (RETRYING), or the end when the time is
 * up or the key is wrong. */
void hsp_net_dial_failed(struct net_conn *c, const struct hsp_err *why);
/* Starts to close the handle, once. */
void hsp_net_conn_close_handle(struct net_conn *c);
/* Notes that an operation of @c (its handle, a look-up) has ended. The last one frees @c, or begins
 * the pause before the next attempt. */
void hsp_net_conn_release(struct net_conn *c);

#endif
