/* Reads and writes the sockets of a mesh, on the I/O thread or on the user thread that leads. */
#ifndef HSP_MESH_IO_H
#define HSP_MESH_IO_H
#include "worker/comm/mesh/mesh_impl.h"

/* Writes as many bytes of a message as the kernel takes, about @most. 1: it is through; 0: later;
 * -errno. */
int hsp_mesh_write_some(struct mesh_link *l, struct mesh_out *o, size_t most);
/* Waits for the links, the first @spin_ns awake, and serves those that are ready. Called by the I/O
 * thread, or by the user thread while it leads. Returns false if the mesh is to end. */
bool hsp_mesh_turn(struct hsp_mesh *m, uint64_t spin_ns);

/* The I/O thread; @mesh is the struct hsp_mesh. */
void *hsp_mesh_io_main(void *mesh);

#endif
