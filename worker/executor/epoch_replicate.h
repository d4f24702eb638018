/* Runs the replication thread, which seals each due version (due.h), sends its copies and writes
 * the checkpoints beside the next steps.
 *
 * Example: each version is due. Vote 7 has passed and version 8 is written. The replication thread
 *          of a member seals version 8, writes the checkpoint of version 7 if one is due, then
 *          copies version 8. Vote 8 waits for the confirmation of these copies.
 */
#ifndef HSP_EPOCH_REPLICATE_H
#define HSP_EPOCH_REPLICATE_H
#include "worker/executor/epoch.h"

/* Seals the newest due version if it is written; if another thread is sealing it, waits for that
 * thread. HSP_EDIGEST: the version that the update read is damaged; errors of a device. The first
 * error of an epoch is returned to every later caller, too: after that error nothing is sealed. */
enum hsp_status hsp_epoch_seal_written(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Seals @version with the same checks. The update that wrote @version is done, and @version need
 * not be due. @before: the newest sealed version. Errors as hsp_epoch_seal_written; they are not
 * kept for later callers. One caller at a time. */
enum hsp_status hsp_epoch_seal_version(struct hsp_ex_epoch *e, uint64_t version, uint64_t before,
                                       struct hsp_err *err);
/* Waits until the replication thread has all confirmations of the copies of @version.
 * HSP_ECANCELED: the epoch has ended; else the error that ended the replication thread. */
enum hsp_status hsp_epoch_await_confirmed(struct hsp_ex_epoch *e, uint64_t version,
                                          struct hsp_err *err);
/* Waits until the due @version is copied from the device, and may be written over there. Errors as
 * hsp_epoch_await_confirmed. */
enum hsp_status hsp_epoch_await_saved(struct hsp_ex_epoch *e, uint64_t version,
                                      struct hsp_err *err);
/* Compares @version as the update has read it with @version as it was written (epoch_device.h).
 * HSP_EDIGEST: @version is damaged. Then the damage is reported, and the version that was made of
 * @version is given up. */
enum hsp_status hsp_epoch_check_update(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err);
/* The replication thread of a member: seals, copies and checkpoints. */
void *hsp_epoch_replication(void *arg);
/* The run thread of a replica holder: takes and confirms the copies of @version and of all later
 * due versions. HSP_OK: the last version is here, or the epoch was left. */
enum hsp_status hsp_epoch_keep(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err);

#endif
