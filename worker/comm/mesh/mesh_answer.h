/* Answers the peers of lower rank that call while a mesh is made. */
#ifndef HSP_MESH_ANSWER_H
#define HSP_MESH_ANSWER_H
#include "worker/comm/mesh/mesh_making.h"

/* Takes the arrivals of the listener and challenges them. */
void hsp_mesh_take_callers(struct mesh_making *m, uint64_t now);
/* Goes on with a caller. Drops the caller when its pair stands, or when it is late or not valid;
 * then the last caller takes its place. HSP_OK also then; else the mesh cannot be made. */
enum hsp_status hsp_mesh_answer(struct mesh_making *m, uint32_t i, short events, uint64_t now,
                                struct hsp_err *err);
/* Closes the connection of caller @i; the last caller takes its place. */
void hsp_mesh_drop_caller(struct mesh_making *m, uint32_t i);

#endif
