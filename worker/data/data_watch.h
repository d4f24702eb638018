/* Looks before each vote whether the files of a data set are unchanged.
 *
 * Example: at step 40 an administrator writes into /srv/text.txt. The samples of that step may be
 * of either text, so its vote must not be sent: the answer to the look that was asked for at its
 * end is HSP_ESTALE.
 *
 * Role:      an epoch asks when the samples of a step are in, and takes the answer before its vote.
 * Purity:    shell (looks at files).
 * Threads:   ask, answer and end: one thread. A thread of its own looks, for a file system that
 *            does not answer holds its caller for ever; it is left behind then.
 * Ownership: @d is held until the thread ends (data_cache.h).
 */
#ifndef HSP_DATA_WATCH_H
#define HSP_DATA_WATCH_H
#include "worker/data/data_cache.h"

struct hsp_data_watch; /* opaque */

/* Begins to watch @d, a data set of @c. HSP_ENOMEM. */
enum hsp_status hsp_data_watch_begin(struct hsp_data_cache *c, const struct hsp_held_data *d,
                                     struct hsp_data_watch **ret, struct hsp_err *err);
/* The files are to be looked at from now on. Waits for nothing. */
void hsp_data_watch_ask(struct hsp_data_watch *w);
/* Waits for the answer to the last question: as hsp_dataset_look; HSP_ECANCELED: @stop, which is
 * asked every 50 ms. */
enum hsp_status hsp_data_watch_answer(struct hsp_data_watch *w, const struct hsp_data_stop *stop,
                                      struct hsp_err *err);
/* A look that lasts is left behind. NULL allowed; returns NULL. */
struct hsp_data_watch *hsp_data_watch_end(struct hsp_data_watch *w);

#endif
