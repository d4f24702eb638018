/* Performs the actions of the core in order behind the disk (W1), so that no promise leaves before
 * its row is stored.
 *
 * The actions of one step are one batch. What stays inside the process (planning, the feed, the
 * table of kept plans) is done at once. What leaves the process (messages, closes, replies) is
 * copied and waits until the rows of its batch, and all batches before, are on disk, and its
 * package is made: commit.c. Example: STORE job/1, PREPARE rank 0, REPLY 7 make a batch of one row
 * and two deeds; the deeds are performed when the row is on disk and the package of rank 0 is made.
 *
 * Purity:    shell (libuv, random numbers).
 * Ownership: a batch owns copies of all that its deeds and rows need.
 */
#ifndef HSP_ACTIONS_H
#define HSP_ACTIONS_H
#include "daemon/cluster/cluster.h"

struct hsp_app;

/* Performs the actions of a step, in order, after what they need is on disk. The caller then calls
 * hsp_app_write_on. What goes wrong is posted to the core's queue of events. */
void hsp_app_perform(struct hsp_app *a, const struct hsp_actions *acts);
/* Performs what is ready of the batches at the front; the caller then calls hsp_app_write_on. */
void hsp_app_perform_rest(struct hsp_app *a);
void hsp_app_batches_free(struct hsp_app *a);

#endif
