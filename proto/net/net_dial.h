/* @@SENTENCE@@ net_dial: purpose to be written. */
#ifndef HSP_NET_DIAL_H
#define HSP_NET_DIAL_H
#include "proto/net/net.h"
#include "proto/net/net_impl.h"

void hsp_net_dial_failed(struct net_conn *c, const struct hsp_err *why); /* retries or fails */
void hsp_net_dial_tick(struct net_conn *c, uint64_t now);
void hsp_net_dial_closed(struct net_conn *c); /* the handle of RETRYING is closed */
/* on_open when it stands, else on_close with the last attempt's reason. HSP_EPERM as in listen,
 * HSP_EINVAL, HSP_ELIMIT: nothing was started. */
enum hsp_status hsp_net_dial_start(struct hsp_net *n, const struct hsp_net_dial *d,
                                   uint32_t *ret_conn, struct hsp_err *err);

#endif
