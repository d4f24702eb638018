/* @@SENTENCE@@ actions: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_ACTIONS_H
#define HSP_ACTIONS_H
#include "daemon/app/app.h"

/* Performs what is ready and was put off so that the loop could look after others. */
void hsp_app_perform_rest(struct hsp_app *a);
void hsp_app_batches_free(struct hsp_app *a);
/* Performs the actions of a step, in order, after what they need is on disk. */
void hsp_app_perform(struct hsp_app *a, const struct hsp_actions *acts);

#endif
