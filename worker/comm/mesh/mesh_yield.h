/* Holds long messages of a mesh back while another mesh of the process has bytes on their way, so
 * that copies of state take the time in which the links are idle.
 *
 * Example: a step exchanges gradients for 40 ms and computes for 60 ms. A copy of 300 MB is sent in
 * the 60 ms of each step. Without yielding, both would share the links for the 40 ms.
 *
 * Threads: hsp_mesh_yield any; the others as said. The bytes of @to are asked of its sockets, which
 *          stay open until @to is closed, without its lock.
 * Bounds:  YIELD_NS for a piece, then it goes all the same: no peer takes the rank for silent. */
#ifndef HSP_MESH_YIELD_H
#define HSP_MESH_YIELD_H
#include "worker/comm/mesh/mesh_impl.h"

#define MESH_YIELD_MS 1 /* between two looks at messages held back */

/* hsp_comm_ops.yield. */
void hsp_mesh_yield(struct hsp_comm *c, const struct hsp_comm *to, uint64_t ns);
/* Returns true if a message of @bytes to @l is one that may be held back; locked. */
bool hsp_mesh_yields(struct hsp_mesh *m, const struct mesh_link *l, size_t bytes);
/* Returns true if the next piece to @peer, of a message of @bytes, is held back now: then nothing
 * is written before the next hsp_mesh_go_on. For the thread that runs the links; locked. */
bool hsp_mesh_hold(struct hsp_mesh *m, uint32_t peer, size_t bytes);
/* Looks again at messages held back. For the thread that runs the links. */
void hsp_mesh_go_on(struct hsp_mesh *m);

#endif
