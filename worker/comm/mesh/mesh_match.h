/* @@SENTENCE@@ mesh_match: purpose to be written. */
#ifndef HSP_MESH_MATCH_H
#define HSP_MESH_MATCH_H
#include <stdio.h>

#include "worker/comm/mesh/mesh_impl.h"

/* Kills the mesh; locked. The first reason stays. */
void hsp_mesh_kill(struct hsp_mesh *m, enum hsp_status code, uint32_t lost, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void hsp_mesh_header(const struct hsp_mesh *m, enum mesh_kind kind, uint32_t channel, uint64_t seq,
                     uint64_t bytes, uint8_t ret[MESH_HEADER]);
/* The rest of this section is locked. Wakes the user thread, wherever it waits. */
void hsp_mesh_notify(struct hsp_mesh *m);
/* Finds room for the message whose header was read. False: dead, or held. */
bool hsp_mesh_begin(struct hsp_mesh *m, uint32_t peer, uint32_t channel, size_t bytes);
void hsp_mesh_finish(struct hsp_mesh *m, struct mesh_link *l); /* a message is whole */
/* Whether a header continues the stream of that peer. */
bool hsp_mesh_header_ok(const struct hsp_mesh *m, uint32_t peer, const uint8_t h[MESH_HEADER]);
/* Kills the mesh as another rank did, for the same reason. */
void hsp_mesh_told(struct hsp_mesh *m, uint32_t by, bool canceled, uint32_t lost);
void hsp_mesh_out_done(struct hsp_mesh *m,
                       struct mesh_link *l); /* the first message to send is out */
void hsp_mesh_drop_out(struct hsp_mesh *m, struct mesh_link *l);
/* Acts on a header. False: stop reading this link. */
bool hsp_mesh_on_header(struct hsp_mesh *m, uint32_t peer, const uint8_t h[MESH_HEADER]);

#endif
