/* @@SENTENCE@@ store_stall: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_STORE_STALL_H
#define HSP_STORE_STALL_H
#include "daemon/app/app.h"

/* The core's clock: monotonic, and standing while the state cannot be written, for what would run out
 * meanwhile cannot be answered. */
hsp_msec hsp_app_core_now(const struct hsp_app *a);
/* When the monotonic clock shows what the core's clock will show; UINT64_MAX: never, or it stands. */
hsp_msec hsp_app_core_due(const struct hsp_app *a, hsp_msec at);
/* The disk did not take the state: from now on nothing is promised, and writing is tried each second.
 * Who waits for an answer gets one. */
void hsp_app_stuck(struct hsp_app *a, const struct hsp_err *why);
void hsp_app_unstuck(struct hsp_app *a); /* it takes it again; also when it always did */
void hsp_app_retry_later(struct hsp_app *a);
/* Answers to heartbeats promise nothing and go past what waits for the disk. False: there is more. */
bool hsp_app_send_beats(struct hsp_app *a, const struct hsp_actions *acts);

#endif
