/* Makes a mesh of connected sockets, and starts its I/O thread. */
#ifndef HSP_MESH_START_H
#define HSP_MESH_START_H
#include "worker/comm/mesh/mesh.h"
#include "worker/comm/mesh/mesh_impl.h"

/* Makes a mesh of connected sockets (@wire[n], none at rank) and starts its thread. Takes the
 * sockets over, and the context of their TLS (NULL allowed) and the segment of their shared memory
 * (head NULL: none), in every case. */
enum hsp_status hsp_mesh_start(const struct hsp_mesh_params *p, const struct mesh_wire *wire,
                               struct hsp_tls_ctx *ctx, struct seg *seg, struct hsp_comm **ret,
                               struct hsp_err *err);

#endif
