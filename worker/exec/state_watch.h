/* Computes checksums of the state as each update reads and writes it, so that the user of the
 * engine finds damage of the state between two updates.
 *
 * An update overwrites the state that it has read, so damage that came before the update cannot be
 * found later. Therefore the update itself sums the 32-bit words that it reads and those that it
 * writes (backend.h, proto/base/word_sums.h), which costs next to nothing. The engine only reports
 * the sums (hsp_written). Its user compares the sums that an update has read with the sums that the
 * update before has written, and handles a difference.
 *
 * Hashes (box_hash.h) read the state once more. The engine makes them before the first update, of
 * the version that was loaded, which no update here has written; and, if the hook `watch` asks for
 * them, after an update, of the version that it has written.
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

/* Allocates the sums and hashes of an engine. Returns HSP_ENOMEM. */
enum hsp_status hsp_state_watch_open(struct hsp_engine *e, struct hsp_err *err);
/* Frees the sums and hashes; does nothing if they are freed. */
void hsp_state_watch_close(struct hsp_engine *e);
/* Called before instructions [first, end) of the compute queue, after all earlier work of the queue
 * was given. If the first update of the step is among them, asks the hook `watch` how to watch it,
 * clears the sums, and hashes the version if it was just loaded. Returns errors of the backend. */
enum hsp_status hsp_state_watch_before(struct hsp_engine *e, uint32_t first, uint32_t end,
                                       struct hsp_err *err);
/* Writes to @c the places of the sums to which update @k adds. */
void hsp_state_watch_call(const struct hsp_engine *e, uint32_t k, struct hsp_call *c);
/* Called after all updates of the step: copies the sums and hashes asked for to the host, and fills
 * @w. Returns errors of the backend. */
enum hsp_status hsp_state_watch_after(struct hsp_engine *e, struct hsp_written *w,
                                      struct hsp_err *err);

#endif
