/* Exchanges framed messages over a blocking connection, for hspmdctl and an executor's threads.
 *
 * Purity:    shell (sockets, TLS). Not for loop threads.
 * Threads:   one thread receives; any thread sends. close when nobody uses it any more.
 * Ownership: received frames belong to the caller (hsp_frame_fini).
 * Bounds:    frame.h's limits.
 */
#ifndef HSP_FRAME_CLIENT_H
#define HSP_FRAME_CLIENT_H

#include <stdint.h>

#include "proto/net/tls_psk.h"
#include "proto/wire/frame.h"

struct hsp_client;

/* Connects to "host:port" or a Unix socket (addr.h). TCP: with a key of @role in @keys by TLS;
 * without one only to loopback (HSP_EPERM). @keys may be NULL. HSP_EINVAL, HSP_ENOENT (no such host
 * or socket), HSP_EIO, HSP_ETIMEDOUT, HSP_EAUTH, HSP_ECLOSED (during the handshake: the peer may
 * have no place yet), HSP_ENOMEM; the message names the address. */
enum hsp_status hsp_client_open(const char *address, const struct hsp_net_keys *keys,
                                enum hsp_net_role role, uint32_t timeout_ms,
                                struct hsp_client **ret, struct hsp_err *err);
/* Takes a connected socket over (an executor's end of the socketpair). */
enum hsp_status hsp_client_adopt(int fd, struct hsp_client **ret, struct hsp_err *err);
void hsp_client_close(struct hsp_client *c); /* NULL allowed */

/* Version, flags and lengths of @head are filled in. Blocks while the peer does not read, at most
 * @timeout_ms (0: for ever); after a failure the connection is no good. HSP_ECLOSED, HSP_ETIMEDOUT,
 * HSP_ELIMIT, HSP_EIO, HSP_ENOMEM. */
enum hsp_status hsp_client_send(struct hsp_client *c, const struct hsp_frame_header *head,
                                const void *body, size_t body_len, const void *blob,
                                size_t blob_len, uint32_t timeout_ms, struct hsp_err *err);

/* Waits for one frame, at most @timeout_ms (0: for ever). HSP_ETIMEDOUT: none yet, ask again,
 * nothing is lost; HSP_ECLOSED: the peer ended in order; HSP_EPROTO (also: within a frame),
 * HSP_ELIMIT, HSP_EVERSION, HSP_EIO, HSP_ENOMEM. */
enum hsp_status hsp_client_recv(struct hsp_client *c, uint32_t timeout_ms, struct hsp_frame *ret,
                                struct hsp_err *err);

#endif
