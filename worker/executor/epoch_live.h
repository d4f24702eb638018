/* Seals the version that a member computes with when its epoch ends by a loss (decision D9a).
 *
 * PREPARE says `live` where each part of the state is at home on as many nodes as the job has
 * copies. Then all that survive have the same version, mostly, and a recovery goes on from it: no
 * step is made again. The version goes into the segment that does not have the newest stable one.
 *
 * Nothing is sealed while a due version is pending, that is not known to be stable here: two ranks
 * could each destroy the last version that they have in common. Nor behind a vote whose update was
 * not done, nor after damage or a failure of the device.
 *
 * Threads:  the run thread, when it has reported the end.
 * Example:  version 8 is stable, vote 12 has passed, the next due version is 16. A peer dies. The
 *           update of step 12 is finished (engine.h, I3), version 13 is sealed, and SEAL answered.
 */
#ifndef HSP_EPOCH_LIVE_H
#define HSP_EPOCH_LIVE_H
#include "worker/executor/epoch.h"

/* The epoch has ended with @st. Errors are logged: the stable version is there in any case. */
void hsp_epoch_live_seal(struct hsp_ex_epoch *e, enum hsp_status st);

#endif
