/* Chooses the events for which the I/O thread waits, and how a rank waits awake. */
#ifndef HSP_MESH_POLL_H
#define HSP_MESH_POLL_H
#include "worker/comm/mesh/mesh_impl.h"

/* Sets the events for which the I/O thread waits on a link, if they changed; locked. */
void hsp_mesh_arm(struct hsp_mesh *m, uint32_t peer, bool in, bool out);
/* Called between two looks of a thread that waits awake. It yields only when the ranks of this host
 * outnumber its processors: a yield hands the processor to another program for a whole time slice
 * (Linux 6.18: and gives up the rest of the thread's share, too). */
void hsp_mesh_look_away(const struct hsp_mesh *m);

#endif
