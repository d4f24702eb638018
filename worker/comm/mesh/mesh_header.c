#include "worker/comm/mesh/mesh_header.h"

#include "proto/base/le.h"
#include "worker/comm/mesh/mesh_impl.h"

void hsp_mesh_header(const struct hsp_mesh *m, enum mesh_kind kind, uint32_t channel, uint64_t seq,
                     uint64_t bytes, uint8_t ret[MESH_HEADER])
{
    hsp_le_put(ret, MESH_MAGIC, 4);
    ret[4] = MESH_VERSION;
    ret[5] = (uint8_t)kind;
    hsp_le_put(ret + 6, 0, 2);
    hsp_le_put(ret + 8, m->job, 8);
    hsp_le_put(ret + 16, m->epoch, 8);
    hsp_le_put(ret + 24, m->base.rank, 4);
    hsp_le_put(ret + 28, channel, 4);
    hsp_le_put(ret + 32, seq, 8);
    hsp_le_put(ret + 40, bytes, 8);
}

bool hsp_mesh_header_ok(const struct hsp_mesh *m, uint32_t peer, const uint8_t h[MESH_HEADER])
{
    return hsp_le_get(h, 4) == MESH_MAGIC && h[4] == MESH_VERSION && h[5] <= MESH_BEAT &&
           hsp_le_get(h + 6, 2) == 0 && hsp_le_get(h + 8, 8) == m->job &&
           hsp_le_get(h + 16, 8) == m->epoch && hsp_le_get(h + 24, 4) == peer &&
           hsp_le_get(h + 40, 8) <= HSP_COMM_MAX_MESSAGE &&
           (h[5] != MESH_DATA || hsp_le_get(h + 32, 8) == m->link[peer].seq_in);
}

enum mesh_end hsp_mesh_end_of(const struct hsp_mesh *m, struct hsp_mesh_loss *ret)
{
    *ret = m->loss;
    if (m->loss.rank >= m->base.n_ranks) {
        *ret = (struct hsp_mesh_loss){.rank = m->base.rank, .by = m->base.rank};
    }
    return m->dead.code == HSP_ECANCELED ? MESH_END_CANCELED
           : m->loss.silent              ? MESH_END_SILENT
                                         : MESH_END_LOST;
}
