/* Notices that a peer on another host has fallen silent.
 *
 * A cut cable, or a firewall that drops packets, resets nothing. An idle connection then stands for
 * ever, and one with data under way for a quarter of an hour. So each rank sends something to every
 * peer that it reaches by TCP, a BEAT if it has no message, and a peer that sends nothing for
 * silent_ms is lost.
 *
 * Example: silent_ms 3000. A beat is due every 1000 ms, and every 250 ms this rank looks which
 * peers have sent something. A cut right behind a beat is noticed 3000 to 3250 ms later.
 *
 * A peer that has sent nothing yet may still make its mesh, so only its kernel is judged. The
 * keepalive of TCP asks the kernel while the connection is idle (hsp_mesh_watch). While data are on
 * their way TCP sends no keepalive; then the peer is lost when its kernel has acknowledged nothing
 * for silent_ms.
 *
 * Not judged: a link that is not read, since its messages have no room here (held); a time in which
 * this process did not run.
 * Threads:   the I/O thread, also while the user thread leads. All functions run locked. */
#ifndef HSP_MESH_BEAT_H
#define HSP_MESH_BEAT_H
#include "worker/comm/mesh/mesh_impl.h"

/* Milliseconds until hsp_mesh_beat has something to do; -1: never. */
int hsp_mesh_beat_wait(const struct hsp_mesh *m);
/* Sends the beats that are due, and kills the mesh when a peer has been silent for too long. */
void hsp_mesh_beat(struct hsp_mesh *m);
/* Lets the kernel watch a connection that is idle for long: after @silent_ms without an answer of
 * the peer's kernel the connection ends with ETIMEDOUT. @sends: bytes that were sent and not
 * acknowledged for so long end it, too; not for a peer that may leave messages unread. */
void hsp_mesh_watch(int fd, uint32_t silent_ms, bool sends);

#endif
