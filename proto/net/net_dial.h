/* Dials a peer: looks its name up, connects, and tries again after pauses until it answers.
 *
 * Failures: no such name, refused, no answer in time, TLS refused. A failed attempt closes its
 * handle. After a pause, doubled each time, the next attempt starts, until give_up_ms.
 *
 * Purity: shell (libuv). */
#ifndef HSP_NET_DIAL_H
#define HSP_NET_DIAL_H
#include "proto/net/net.h"

struct net_conn;

/* Dials. on_open follows when the connection stands, else on_close with the reason of the last
 * attempt. HSP_EPERM as in hsp_net_listen, HSP_EINVAL, HSP_ELIMIT: nothing was started. */
enum hsp_status hsp_net_dial_start(struct hsp_net *n, const struct hsp_net_dial *d,
                                   uint32_t *ret_conn, struct hsp_err *err);
/* For the sweep: starts the next attempt when its pause is over. */
void hsp_net_dial_tick(struct net_conn *c, uint64_t now);

#endif
