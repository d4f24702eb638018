/* Seals the *live* version, with which a member computes, when its epoch ends by a loss (decision
 * D9a). Terms: epoch.h.
 *
 * PREPARE says `live` if each part of the state is in the homes of ranks on two nodes or more.
 * Then in most losses all survivors have the same version, and a recovery goes on from that
 * version, so no step is computed again. The version is sealed in the segment that does not have
 * the newest stable version.
 *
 * While a due version is *pending*, i.e. this rank does not know that it is stable, no later
 * version is sealed. Otherwise two ranks could each overwrite the last version that they have in
 * common. The due version itself is sealed. No version is sealed if a vote has passed and its
 * update was not done, nor after damage of the state or a failure of the device.
 *
 * Threads:  the run thread, after it has reported the end of the epoch.
 * Example:  version 8 is stable, vote 12 has passed, the next due version is 16. A peer dies. The
 *           update of step 12 is finished (engine.h, I3), version 13 is sealed, and the executor
 *           answers SEAL.
 */
#ifndef HSP_EPOCH_LIVE_H
#define HSP_EPOCH_LIVE_H
#include "worker/executor/epoch.h"

/* Seals the live version of an epoch that has ended with @st. Errors are only logged, because the
 * stable version exists in any case. */
void hsp_epoch_live_seal(struct hsp_ex_epoch *e, enum hsp_status st);

#endif
