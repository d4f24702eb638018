/* Sends, receives, lends and closes over the links of a mesh: the functions behind its hsp_comm. */
#ifndef HSP_MESH_OPS_H
#define HSP_MESH_OPS_H
#include "worker/comm/comm.h"

extern const struct hsp_comm_ops hsp_mesh_ops;

#endif
