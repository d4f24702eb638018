/* Encodes and checks the 48-byte header that stands before every message of a mesh.
 *
 * Layout, little endian: magic u32, version u8, kind u8, 0 u16, job u64, epoch u64, rank u32,
 * channel u32, sequence u64, length u64.
 */
#ifndef HSP_MESH_HEADER_H
#define HSP_MESH_HEADER_H
#include "worker/comm/mesh/mesh_impl.h"

/* Writes the header of a message of this rank. */
void hsp_mesh_header(const struct hsp_mesh *m, enum mesh_kind kind, uint32_t channel, uint64_t seq,
                     uint64_t bytes, uint8_t ret[MESH_HEADER]);
/* Returns true if a header is of this job and epoch, and continues the stream of @peer. Locked. */
bool hsp_mesh_header_ok(const struct hsp_mesh *m, uint32_t peer, const uint8_t h[MESH_HEADER]);
/* Why a dead mesh has ended, as others are told. *ret: the loss, or this rank where the cause is
 * its own. */
enum mesh_end hsp_mesh_end_of(const struct hsp_mesh *m, struct hsp_mesh_loss *ret);

#endif
