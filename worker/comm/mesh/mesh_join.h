/* Connects this rank to all peers of an epoch: the lower rank of a pair calls the higher one. */
#ifndef HSP_MESH_JOIN_H
#define HSP_MESH_JOIN_H
#include "worker/comm/mesh/mesh.h"
#include "worker/comm/mesh/mesh_making.h"

struct mesh_shm;

/* Connects to all peers: the lower rank calls the higher. Connections of early peers were kept by
 * the listener; late ones of this or older epochs are dropped. HSP_EPEER: a pair cannot connect
 * until the time is up, or broke before all stood, or shares no memory though HSP_MESH_SHM asks for
 * it; the message names the pair. HSP_EAUTH: a peer does not hold the key (the lower rank says so,
 * the higher counts refused callers). HSP_ECANCELED. HSP_EINVAL, HSP_ENOMEM, HSP_EIO. Nothing is
 * left open on failure. */
enum hsp_status hsp_mesh_connect(struct hsp_mesh_listener *l, const struct hsp_mesh_params *p,
                                 struct hsp_comm **ret, struct hsp_err *err);

#endif
