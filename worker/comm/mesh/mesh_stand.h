/* Reports the wait of a mesh's user thread, the state of the links by TCP, and the loss that has
 * ended the mesh, so that hspmdd can find a link that is broken or holds up a job
 * (daemon/cluster/waits.h).
 *
 * Example: rank 2 waits since 3 s for a message of rank 0. Rank 0 says that 80 kB for rank 2 have
 * not arrived: the link between them is to blame, not rank 0.
 *
 * Threads: any, from the start of the mesh until it is closed. Nothing waits for more than the
 *          lock. */
#ifndef HSP_MESH_STAND_H
#define HSP_MESH_STAND_H
#include "worker/comm/mesh/mesh_impl.h"

struct hsp_mesh_link_state {
    uint32_t peer;
    uint64_t unsent; /* bytes for the peer that its kernel has not confirmed */
    bool held;       /* messages of the peer are not read */
    /* Fastest arrival of a message of 64 KiB or more since the last call; 0: none. */
    double bytes_per_s;
};

/* Returns the wait of the user thread. @c is a mesh, as in all functions here. */
struct hsp_mesh_wait hsp_mesh_waits(struct hsp_comm *c);
/* Reports the links by TCP with bytes, holds or rates to tell, at most @cap, ascending by peer;
 * returns their number. Rates begin anew. */
uint32_t hsp_mesh_link_states(struct hsp_comm *c, struct hsp_mesh_link_state *ret, uint32_t cap);
/* A count that grows with every byte that arrives. */
uint64_t hsp_mesh_arrived(struct hsp_comm *c);
/* Returns true if a loss has ended the mesh: *ret is the loss, and *why the error of the
 * operations. The loss is known here before the first operation fails for it; on_peer_lost may come
 * later. */
bool hsp_mesh_lost(struct hsp_comm *c, struct hsp_mesh_loss *ret, struct hsp_err *why);

#endif
