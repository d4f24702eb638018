/* Accepts connections of peers and hands each to the hsp_mesh_connect that waits for it.
 *
 * Threads: one thread of the listener; joins are opened and closed by any thread, under its lock.
 */
#ifndef HSP_MESH_LISTEN_H
#define HSP_MESH_LISTEN_H
#include "worker/comm/mesh/mesh.h"
#include "worker/comm/mesh/mesh_impl.h"

/* The transport as given to hsp_mesh_listener_open. */
enum hsp_mesh_transport hsp_mesh_transport_of(const struct hsp_mesh_listener *l);
/* Wakes the thread that waits for this eventfd. */
void hsp_mesh_wake(int fd);
/* Returns true if all addresses name local sockets of one host: the same answer at every rank. */
bool hsp_mesh_one_host(const struct hsp_mesh_peer *peers, uint32_t n);
/* The monotonic clock. */
uint64_t hsp_mesh_now_ms(void);
uint64_t hsp_mesh_now_ns(void);
/* Starts a connection to an address; @local: by its Unix socket, if it is on this host.
 * Returns a non-blocking descriptor (@ret_wait: connecting still), or -errno; -ENOENT when @local
 * and the address has none on this host. */
int hsp_mesh_dial(const char *address, bool local, bool *ret_wait);

enum hsp_status hsp_mesh_join_open(struct hsp_mesh_listener *l, struct mesh_join *j,
                                   struct hsp_err *err);
/* Takes one arrival. Returns false if there is none. */
bool hsp_mesh_join_take(struct hsp_mesh_listener *l, struct mesh_join *j, struct mesh_arrival *ret);
void hsp_mesh_join_close(struct hsp_mesh_listener *l, struct mesh_join *j);
/* Listens on @host (a name or number; port chosen by the kernel) and, but for HSP_MESH_TCP, on an
 * abstract Unix socket. Without a Unix socket no pair of this process uses one, whichever side
 * calls. @advertise: the host by which others reach us; NULL: @host, which must not be a wildcard
 * then. HSP_EINVAL: no such address; HSP_EIO; HSP_ENOMEM. */
enum hsp_status hsp_mesh_listener_open(const char *host, const char *advertise,
                                       enum hsp_mesh_transport transport,
                                       struct hsp_mesh_listener **ret, struct hsp_err *err);
/* The address of ours that peers get: "10.0.0.2:40123,unix:NAME". Valid until close. */
const char *hsp_mesh_listener_address(const struct hsp_mesh_listener *l);
/* Closes the listener. No hsp_mesh_connect may be running. Connections that wait for an epoch are
 * dropped. NULL allowed. */
void hsp_mesh_listener_close(struct hsp_mesh_listener *l);

#endif
