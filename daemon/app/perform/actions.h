/* Performs the actions of the core in order behind the disk (W1), so that no promise leaves before
 * its row is stored.
 *
 * The actions of one step are one batch. Actions inside the process (planning, the feed, the table
 * of kept plans) are done at once. Actions that leave the process (messages, closes, replies) are
 * copied and wait until the rows of the batch, and of all batches before, are on disk, and its
 * package is made: commit.c. Example: STORE job/1, PREPARE rank 0, REPLY 7 make a batch of one row
 * and two queued actions; the queued actions are performed when the row is on disk and the package
 * of rank 0 is made.
 *
 * Purity:    shell (libuv, random numbers).
 * Ownership: a batch owns copies of all that its queued actions and rows need.
 */
#ifndef HSP_ACTIONS_H
#define HSP_ACTIONS_H
#include "daemon/cluster/cluster.h"

struct hsp_app;

/* Performs the actions of a step, in order, when the rows they need are on disk. The caller then
 * calls hsp_app_write_on. Failures are posted to the core's queue of events. */
void hsp_app_perform(struct hsp_app *a, const struct hsp_actions *acts);
/* Performs the ready part of the batches at the front; the caller then calls hsp_app_write_on. */
void hsp_app_perform_rest(struct hsp_app *a);
void hsp_app_batches_free(struct hsp_app *a);

#endif
