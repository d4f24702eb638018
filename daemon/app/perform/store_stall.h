/* Keeps training going while the disk does not take the state: full, read-only, broken, its file
 * locked by another process, or moved, deleted or replaced by another one.
 *
 * Nothing that depends on a row leaves before the row is on disk (W1), so everything but heartbeats
 * waits, and training goes on by itself as without us. New requests are refused with the reason.
 * The core hears of the failure; its clock stands (hsp_app_core_now), so that no node is taken for
 * dead, and nothing counted as failed, for want of an answer that could not leave.
 *
 * Purity: shell (libuv, clock).
 */
#ifndef HSP_STORE_STALL_H
#define HSP_STORE_STALL_H
#include "proto/base/err.h"

struct hsp_app;

/* The disk did not take the state: from now on nothing is promised, and writing is tried each
 * second. Every request that waits for an answer gets one. */
void hsp_app_stuck(struct hsp_app *a, const struct hsp_err *why);
/* The disk takes the state again; also called when it always did. */
void hsp_app_unstuck(struct hsp_app *a);

#endif
