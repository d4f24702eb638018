/* Wakes the threads of ranks that share memory with this one, and tells them of an abort.
 *
 * A bell is a futex in the head of a rank's segment; ringing it wakes the user thread. A RING on
 * the socket wakes the I/O thread of a rank whose user thread is away. */
#ifndef HSP_MESH_BELL_H
#define HSP_MESH_BELL_H
#include "worker/comm/mesh/mesh_impl.h"
#include "worker/comm/mesh/mesh_seg.h"

/* Wakes the user thread of the rank whose segment has this head, if the thread sleeps. */
void hsp_bell_ring(struct seg_head *h);
/* Wakes the peer's I/O thread by a RING on the socket. A full socket holds a RING already. */
void hsp_bell_ring_away(struct hsp_mesh *m, struct mesh_link *l);
/* Wakes the user thread of this rank. Nothing happens in a mesh without shared memory. */
void hsp_shm_notify(struct hsp_mesh *m);
/* Sets the abort word of all peers by shared memory to the reason in m->dead, and wakes them. */
void hsp_shm_abort_all(struct hsp_mesh *m);

#endif
