/* Keeps training going while the state cannot be written: the disk is full, read-only or broken, or
 * the file of the store is locked by another process, moved, deleted or replaced.
 *
 * No message that depends on a row leaves before the row is on disk (W1). So all messages except
 * heartbeats wait, and training goes on without the coordinator. New requests are refused with the
 * reason. The core learns of the failure, and its clock is stopped (hsp_app_core_now): so no node
 * is taken for dead, and no deadline passes, because of an answer that could not be sent.
 *
 * Purity: shell (libuv, clock).
 */
#ifndef HSP_STORE_STALL_H
#define HSP_STORE_STALL_H
#include "proto/base/err.h"

struct hsp_app;

/* Called when the state could not be written. From now on requests that change something are
 * refused, and the write is tried again each second. Every request that waits for an answer gets
 * one. */
void hsp_app_store_stalled(struct hsp_app *a, const struct hsp_err *why);
/* Called when the state was written; does nothing unless writing had failed before. */
void hsp_app_unstuck(struct hsp_app *a);

#endif
