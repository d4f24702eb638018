/* Chooses the events that the I/O thread polls for, the way in which a rank busy-waits, and the
 * next thread that gets the lock. */
#ifndef HSP_MESH_POLL_H
#define HSP_MESH_POLL_H
#include "worker/comm/mesh/mesh_impl.h"

/* Sets the events for which the I/O thread waits on a link, if they changed; locked. */
void hsp_mesh_arm(struct hsp_mesh *m, uint32_t peer, bool in, bool out);
/* Called by a thread that busy-waits, between two polls. Yields only when the ranks of this host
 * outnumber its processors: a yield hands the processor to another program for a whole time slice
 * (Linux 6.18: and gives up the rest of the thread's share, too). */
void hsp_mesh_look_away(const struct hsp_mesh *m);

/* Takes the lock for a thread that moves no data, such as the control thread of an executor, which
 * must send heartbeats. A thread that moves data by shared memory holds the lock while data come,
 * and a mutex is not fair. So the thread that moves data releases the lock between two pieces, or
 * between two messages that it sends. */
void hsp_mesh_lock_soon(struct hsp_mesh *m);
bool hsp_mesh_is_called(const struct hsp_mesh *m); /* a thread waits in hsp_mesh_lock_soon */
void hsp_mesh_give_way(struct hsp_mesh *m);        /* to all those threads. Locked; dropped */

#endif
