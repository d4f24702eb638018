/* Chooses the events for which the I/O thread waits, how a rank waits awake, and who has the lock next. */
#ifndef HSP_MESH_POLL_H
#define HSP_MESH_POLL_H
#include "worker/comm/mesh/mesh_impl.h"

/* Sets the events for which the I/O thread waits on a link, if they changed; locked. */
void hsp_mesh_arm(struct hsp_mesh *m, uint32_t peer, bool in, bool out);
/* Called between two looks of a thread that waits awake. It yields only when the ranks of this host
 * outnumber its processors: a yield hands the processor to another program for a whole time slice
 * (Linux 6.18: and gives up the rest of the thread's share, too). */
void hsp_mesh_look_away(const struct hsp_mesh *m);

/* Takes the lock for a thread that moves no data: the control thread of an executor, which must beat.
 * Who moves data by shared memory has the lock for as long as there is some, and a mutex is not fair:
 * so it gives way between two pieces, or two messages that are sent. */
void hsp_mesh_lock_soon(struct hsp_mesh *m);
bool hsp_mesh_is_called(const struct hsp_mesh *m); /* a thread waits in hsp_mesh_lock_soon */
void hsp_mesh_give_way(struct hsp_mesh *m);        /* to all such threads. Locked; dropped */

#endif
