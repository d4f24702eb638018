/* Sends and receives messages through shared memory, between ranks of one host.
 *
 * Threads: everything runs under the mesh's lock, by the user thread or the I/O thread.
 */
#ifndef HSP_MESH_SHM_H
#define HSP_MESH_SHM_H
#include "worker/comm/mesh/mesh_impl.h"

/* Writes the part of a message that fits. Returns true if all of it is written. @yields: the write
 * may stop after a piece if a thread waits in hsp_mesh_lock_soon. */
bool hsp_shm_put(struct hsp_mesh *m, uint32_t peer, struct mesh_out *o, bool yields);
/* The user thread comes to the mesh, and goes away. */
void hsp_shm_enter(struct hsp_mesh *m);
void hsp_shm_leave(struct hsp_mesh *m);
/* Waits for an event of a lane. @awaited: the peer whose message is waited for, UINT32_MAX:
 * none. */
void hsp_shm_await(struct hsp_mesh *m, uint32_t awaited);
/* Called when the I/O thread has received a RING: a peer asks this rank to look at its lane. */
void hsp_shm_rung(struct hsp_mesh *m);
/* Called when the peer has sent BYE on the socket. The link closes when its lane is empty. */
void hsp_shm_said_bye(struct hsp_mesh *m, uint32_t peer);
bool hsp_shm_has_said_bye(const struct mesh_shm *s);
/* Lends the caller a message in place in its lane: lend_begin, then hsp_shm_await until lent is not
 * NULL (or the mesh is dead, or the link closed), then lend_end. lends: whether a message of @bytes
 * fits a lane. */
bool hsp_shm_lends(const struct hsp_mesh *m, uint32_t peer, size_t bytes);
void hsp_shm_lend_begin(struct hsp_mesh *m, uint32_t peer, uint32_t channel, size_t bytes);
const void *hsp_shm_lent(struct hsp_mesh *m, uint32_t peer);
void hsp_shm_lend_end(struct hsp_mesh *m, uint32_t peer);
/* Makes our half of a link to @peer, and allocates its memory. HSP_EIO, HSP_ENOMEM. */
enum hsp_status hsp_shm_new(const struct seg *own, uint32_t peer, struct mesh_shm **ret,
                            struct hsp_err *err);
/* Maps the other half from the peer's segment @fd (stays the caller's). HSP_EPROTO, HSP_EIO. */
enum hsp_status hsp_shm_attach(struct mesh_shm *s, int fd, uint32_t n, uint32_t me,
                               struct hsp_err *err);
struct mesh_shm *hsp_shm_free(struct mesh_shm *s); /* NULL allowed; returns NULL */

#endif
