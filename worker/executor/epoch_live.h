/* Seals the version that a member computes with when its epoch ends by a loss (decision D9a).
 *
 * PREPARE says `live` where each part of the state is at home on two nodes or more. Then mostly all
 * survivors have the same version, and a recovery goes on from that version: no step is made again.
 * The version goes into the segment that does not have the newest stable version.
 *
 * No later version is sealed while a due version is pending, i.e. not known to be stable here: two
 * ranks could each destroy the last version that they have in common. The due version itself is
 * sealed. No version is sealed after a vote whose update was not done, nor after damage or a
 * failure of the device.
 *
 * Threads:  the run thread, after it has reported the end.
 * Example:  version 8 is stable, vote 12 has passed, the next due version is 16. A peer dies. The
 *           update of step 12 is finished (engine.h, I3), version 13 is sealed, and the executor
 *           answers SEAL.
 */
#ifndef HSP_EPOCH_LIVE_H
#define HSP_EPOCH_LIVE_H
#include "worker/executor/epoch.h"

/* Seals the live version of an epoch that has ended with @st. Errors are logged: the stable version
 * exists in any case. */
void hsp_epoch_live_seal(struct hsp_ex_epoch *e, enum hsp_status st);

#endif
