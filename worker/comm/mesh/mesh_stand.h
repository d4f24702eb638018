/* Tells what the user thread of a mesh waits for, how the links by TCP are, and what has ended the
 * mesh, so that hspmdd can find the link that holds up a job (daemon/cluster/waits.h) or is broken.
 *
 * Example: rank 2 waits since 3 s for a message of rank 0. Rank 0 says that 80 kB for rank 2 have
 * not arrived: the link between them is to blame, not rank 0.
 *
 * Threads: any, from the start of the mesh until it is closed. Nothing waits for more than the
 * lock.
 */
#ifndef HSP_MESH_STAND_H
#define HSP_MESH_STAND_H
#include "worker/comm/mesh/mesh_impl.h"

struct hsp_mesh_link_state {
    uint32_t peer;
    uint64_t unsent; /* bytes for the peer that its kernel has not confirmed */
    bool held;       /* what it sends is not read */
    /* Fastest arrival of a message of 64 KiB or more since the last call; 0: none. */
    double bytes_per_s;
};

/* @c is a mesh, as in all functions here. */
struct hsp_mesh_wait hsp_mesh_waits(struct hsp_comm *c);
/* The links by TCP of which there is something to tell, at most @cap, ascending by peer; returns
 * their number. Rates begin anew. */
uint32_t hsp_mesh_link_states(struct hsp_comm *c, struct hsp_mesh_link_state *ret, uint32_t cap);
/* A number that grows with all that arrives. */
uint64_t hsp_mesh_arrived(struct hsp_comm *c);
/* True when a loss has ended the mesh: which, and *why, what operations fail with. It is known here
 * before the first operation fails for it; on_peer_lost may come later. */
bool hsp_mesh_lost(struct hsp_comm *c, struct hsp_mesh_loss *ret, struct hsp_err *why);

#endif
