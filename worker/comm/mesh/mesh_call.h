/* Calls the peers of higher rank while a mesh is made. */
#ifndef HSP_MESH_CALL_H
#define HSP_MESH_CALL_H
#include "worker/comm/mesh/mesh_making.h"

/* Goes on with a pair that does not stand: calls a peer of higher rank when it is time, and handles
 * its answer. HSP_OK also when the peer has to be called again; else the mesh cannot be made. */
enum hsp_status hsp_mesh_call(struct mesh_making *m, uint32_t r, short events, uint64_t now,
                              struct hsp_err *err);

#endif
