/* Watches the state of an engine by sums of the words that each update reads and writes, and by
 * hashes where they are asked for.
 *
 * An update overwrites the state that it has read, so damage of the state between two updates could
 * not be found behind it. The update itself sums the words that it reads and those that it writes
 * (backend.h), which costs next to nothing. The user of the engine compares the sums as read by an
 * update with those as written by the update before. Hashes (box_hash.h) are passes of their own:
 * in front of the first update, of the version that was loaded, which no update here has written;
 * and behind the update of a version whose seal is to be compared.
 *
 * Example: the update of step 6 wrote the embedding with sums s. Its bit 3 flips in the device's
 *          memory. The update of step 7 reads the wrong embedding: its hsp_written.sums.read is
 *          not s, which is hsp_written.before.wrote.
 * Threads: that of the compute queue; open and close between steps.
 */
#ifndef HSP_STATE_WATCH_H
#define HSP_STATE_WATCH_H
#include "worker/backend/backend.h"

struct hsp_engine;
struct hsp_written;

/* HSP_ENOMEM. */
enum hsp_status hsp_state_watch_open(struct hsp_engine *e, struct hsp_err *err);
void hsp_state_watch_close(struct hsp_engine *e);
/* Before instructions [first, end) of the compute queue, behind all that stands in front of them:
 * gets ready for sums where they are the first of the step that update. Errors of the backend. */
enum hsp_status hsp_state_watch_before(struct hsp_engine *e, uint32_t first, uint32_t end,
                                       struct hsp_err *err);
/* The sums that instruction @k, which updates, has to add to. */
void hsp_state_watch_call(const struct hsp_engine *e, uint32_t k, struct hsp_call *c);
/* Behind all updates of the step: fetches the sums and hashes asked for, into @w. Errors of the
 * backend. */
enum hsp_status hsp_state_watch_after(struct hsp_engine *e, struct hsp_written *w,
                                      struct hsp_err *err);

#endif
