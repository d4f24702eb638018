/* Finds the peers of an epoch by device, and frees them.
 *
 * Peers stand in the order of mesh ranks: members, then replica holders, then sources. */
#ifndef HSP_EPOCH_PEERS_H
#define HSP_EPOCH_PEERS_H
#include "daemon/cluster/cluster_state.h"

/* Indexes the peers of @e, which are complete, by device. False: no memory. */
bool hsp_ci_epoch_index(struct hsp_cl_epoch *e);
/* Frees the lists of @e and sets it to "no epoch". */
void hsp_ci_epoch_fini(struct hsp_cl_epoch *e);
/* The peer on device @d; NULL: none. */
struct hsp_epoch_peer *hsp_ci_peer(const struct hsp_cl_epoch *e, hsp_device_id d);
/* Number of mesh ranks of @e that take part in every step: members and replica holders. */
uint32_t hsp_ci_participants(const struct hsp_cl_epoch *e);

#endif
