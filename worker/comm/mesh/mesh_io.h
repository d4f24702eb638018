/* @@SENTENCE@@ mesh_io: purpose to be written. */
#ifndef HSP_MESH_IO_H
#define HSP_MESH_IO_H
#include "worker/comm/mesh/mesh_impl.h"

/* Sets what the I/O thread waits for on a link, if it changed; locked. */
void hsp_mesh_arm(struct hsp_mesh *m, uint32_t peer, bool in, bool out);
/* Writes what the kernel takes of a message, about @most bytes. 1: it is through; 0: later; -errno.
 */
int hsp_mesh_write_some(struct mesh_link *l, struct mesh_out *o, size_t most);
/* Between two looks of who waits awake. With a processor for each rank it keeps its own: others would have it
 * for a whole time slice (Linux 6.18: a yield gives up the rest of its share, too). */
void hsp_mesh_look_away(const struct hsp_mesh *m);
/* Waits for the links, the first @spin_ns awake, and serves those that are ready. By the I/O thread, or
 * the user thread while it leads. False: there is an end to come to. */
bool hsp_mesh_turn(struct hsp_mesh *m, uint64_t spin_ns);

void *hsp_mesh_io_main(void *mesh);

#endif
