/* Keeps the table of connections: a new connection takes a slot and a number, a closed connection
 * gives its slot back.
 *
 * A number is a generation of 17 bits and a slot of 15. Slots are used in turn, so a late message
 * for a closed connection finds nothing. Example: the first connection of slot 3 is 1 << 15 | 3 =
 * 32771, the next one in that slot is 65539.
 *
 * Role:   the lowest file of the shell in proto/net. Not included outside this folder.
 * Purity: shell (libuv, memory). */
#ifndef HSP_NET_TABLE_H
#define HSP_NET_TABLE_H
#include "proto/net/net_impl.h"

/* Returns the connection of a number. NULL: it is closed, or never was there. */
struct net_conn *hsp_net_conn_find(const struct hsp_net *n, uint32_t conn);
/* Makes a connection in a free slot, without a handle. NULL: there are too many connections, the
 * net is closing, or there is no memory. */
struct net_conn *hsp_net_conn_new(struct hsp_net *n, struct hsp_err *err);
/* Makes a connection as hsp_net_conn_new does, in a place of HSP_POOL_OWN: it is to be dialled, or
 * its descriptor was handed over. */
struct net_conn *hsp_net_conn_own(struct hsp_net *n, struct hsp_err *err);
/* Frees @c and its slot without a callback. */
void hsp_net_conn_free(struct net_conn *c);
/* Calls on_close or on_refuse and frees @c, which is CLOSING with n_ops 0. */
void hsp_net_conn_finish(struct net_conn *c);
/* Opens a spare descriptor, which is closed when the process has none left for a caller. Returns -1
 * if there is none now either. */
int hsp_net_spare_open(void);
/* Frees the memory of a net without connections and handles. */
void hsp_net_memory_free(struct hsp_net *n);
/* Ends a closing net when no connection and no listener is open. Calls on_closed later, not from
 * here. */
void hsp_net_maybe_end(struct hsp_net *n);
/* The error of the libuv code @r: HSP_ENOENT for codes of the resolver, else @code with "@what:
 * ...". */
struct hsp_err hsp_net_uv_err(enum hsp_status code, int r, const char *what);

#endif
