/* @@SENTENCE@@ mesh_shm: purpose to be written. */
#ifndef HSP_MESH_SHM_H
#define HSP_MESH_SHM_H
#include "worker/comm/mesh/mesh_impl.h"

struct mesh_shm;

/* Writes what fits of a message; true: it is out. */
bool hsp_shm_put(struct hsp_mesh *m, uint32_t peer, struct mesh_out *o);
/* The user thread comes, and goes. */
void hsp_shm_enter(struct hsp_mesh *m);
void hsp_shm_leave(struct hsp_mesh *m);
/* Waits until something happens; @awaited: the peer whose message is waited for, UINT32_MAX: none. */
void hsp_shm_await(struct hsp_mesh *m, uint32_t awaited);
void hsp_shm_notify(struct hsp_mesh *m);    /* wakes our user thread */
void hsp_shm_abort_all(struct hsp_mesh *m); /* sets the abort word of all peers */
void hsp_shm_rung(struct hsp_mesh *m);      /* the I/O thread: a peer needs us */
void hsp_shm_said_bye(struct hsp_mesh *m, uint32_t peer);
bool hsp_shm_has_said_bye(const struct mesh_shm *s);
/* Lending: begin, await until lent is not NULL (or the mesh is dead, or the link closed), end. */
bool hsp_shm_lends(const struct hsp_mesh *m, uint32_t peer, size_t bytes);
void hsp_shm_lend_begin(struct hsp_mesh *m, uint32_t peer, uint32_t channel, size_t bytes);
const void *hsp_shm_lent(struct hsp_mesh *m, uint32_t peer);
void hsp_shm_lend_end(struct hsp_mesh *m, uint32_t peer);
/* Our half of a link to @peer: its memory is there then. HSP_EIO, HSP_ENOMEM. */
enum hsp_status hsp_shm_new(const struct seg *own, uint32_t peer, struct mesh_shm **ret,
                            struct hsp_err *err);
/* The other half: the peer's segment is @fd (stays the caller's). HSP_EPROTO, HSP_EIO. */
enum hsp_status hsp_shm_attach(struct mesh_shm *s, int fd, uint32_t n, uint32_t me,
                               struct hsp_err *err);
struct mesh_shm *hsp_shm_free(struct mesh_shm *s); /* NULL allowed; returns NULL */

#endif
