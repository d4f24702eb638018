/* Matches messages with the receives posted for them, for sockets and shared memory alike.
 *
 * Threads: all functions run locked. */
#ifndef HSP_MESH_MATCH_H
#define HSP_MESH_MATCH_H
#include <stdio.h>

#include "worker/comm/mesh/mesh_impl.h"

/* Kills the mesh for a reason; the first reason stays. @lost: the rank that this rank sees as lost,
 * or UINT32_MAX. */
void hsp_mesh_kill(struct hsp_mesh *m, enum hsp_status code, uint32_t lost, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Kills the mesh for the loss of a peer from which nothing has come for @ms. */
void hsp_mesh_fell_silent(struct hsp_mesh *m, uint32_t peer, uint32_t ms);
/* Wakes the user thread, wherever it waits. */
void hsp_mesh_notify(struct hsp_mesh *m);
/* Finds room for the message whose header was read. Returns false if the mesh is dead, or the link
 * is held. */
bool hsp_mesh_begin(struct hsp_mesh *m, uint32_t peer, uint32_t channel, size_t bytes);
/* Ends the message under way, which is whole: its receive is done. */
void hsp_mesh_finish(struct hsp_mesh *m, struct mesh_link *l);
/* Kills the mesh as rank @teller did, for the same reason. */
void hsp_mesh_told(struct hsp_mesh *m, uint32_t teller, enum mesh_end end,
                   const struct hsp_mesh_loss *loss);
/* Takes the first queued message, which is sent, off a link. */
void hsp_mesh_out_done(struct hsp_mesh *m, struct mesh_link *l);
/* Drops the queued messages to a peer that has closed; waiting sends are told. */
void hsp_mesh_drop_out(struct hsp_mesh *m, struct mesh_link *l);
/* Begins the message of a DATA header that continues the byte stream. Returns false if the mesh is
 * dead, or the link is held. */
bool hsp_mesh_on_data(struct hsp_mesh *m, uint32_t peer, const uint8_t h[MESH_HEADER]);

#endif
