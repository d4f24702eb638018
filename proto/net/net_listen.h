/* Listens on ports and Unix sockets, and accepts callers under the name that the kernel gives them.
 *
 * Failures: somebody listens there already; no slot or no descriptor is left (the caller is
 * accepted and closed at once, on_refuse). A descriptor that is missing is first sought among
 * strangers.
 *
 * Purity: shell (libuv, sockets). */
#ifndef HSP_NET_LISTEN_H
#define HSP_NET_LISTEN_H
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

struct hsp_addr;
struct hsp_net;

/* Whether an address may be served or dialled: TCP only with keys, on loopback also where
 * clear_loopback asks for it; HSP_EPERM in @err. */
bool hsp_net_allowed(const struct hsp_net *n, const struct hsp_addr *a, struct hsp_err *err);
/* Listens on @address (addr.h). A Unix socket is made with mode 0660; a stale one is replaced. Port
 * 0: chosen by the kernel, see hsp_net_listener_name. TCP hosts are numbers or "localhost".
 * HSP_EPERM: TCP without keys; HSP_EEXIST: somebody listens there; HSP_EINVAL,
 * HSP_EIO, HSP_ELIMIT. */
enum hsp_status hsp_net_listen(struct hsp_net *n, const char *address, uint32_t *ret_listener,
                               struct hsp_err *err);
/* "127.0.0.1:7071", "unix:/run/hspmd/hspmdd.sock". */
const char *hsp_net_listener_name(const struct hsp_net *n, uint32_t listener);
/* Closes all listeners. Their paths go. */
void hsp_net_stop_listening(struct hsp_net *n);

#endif
