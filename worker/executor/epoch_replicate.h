/* Runs the replication thread, which seals each due version (due.h), sends the copies of that
 * version and writes the checkpoints, while the run thread computes the next steps. Terms: epoch.h.
 *
 * Example: each version is due. Vote 7 has passed and version 8 is written. The replication thread
 *          of a member seals version 8, writes the checkpoint of version 7 if that checkpoint was
 *          asked for, then sends the copies of version 8. The member sends its record of vote 8
 *          when these copies are confirmed.
 */
#ifndef HSP_EPOCH_REPLICATE_H
#define HSP_EPOCH_REPLICATE_H
#include "worker/executor/epoch.h"

/* Seals the newest due version if the device has written it; if another thread is sealing it, waits
 * for that thread. Returns HSP_EDIGEST if this version, or the version from which the update
 * computed it, is damaged, and errors of a device. After the first error of an epoch no version is
 * sealed, and every later call returns that error, too. */
enum hsp_status hsp_epoch_seal_written(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Seals @version, which need not be due, with the checks of hsp_epoch_seal_written. The update that
 * wrote @version is done. @before: the newest sealed version. Returns errors as
 * hsp_epoch_seal_written does, but later calls do not return them again. One caller at a time. */
enum hsp_status hsp_epoch_seal_version(struct hsp_ex_epoch *e, uint64_t version, uint64_t before,
                                       struct hsp_err *err);
/* Waits until all copies of @version are confirmed. Returns HSP_ECANCELED if the epoch has ended,
 * or the error that ended the replication thread. */
enum hsp_status hsp_epoch_await_confirmed(struct hsp_ex_epoch *e, uint64_t version,
                                          struct hsp_err *err);
/* Waits until the due @version is copied from the device, so that the next update may overwrite it
 * there. Returns errors as hsp_epoch_await_confirmed does. */
enum hsp_status hsp_epoch_await_saved(struct hsp_ex_epoch *e, uint64_t version,
                                      struct hsp_err *err);
/* Checks @version, which the newest update has read: compares the sums of the words read with the
 * sums of the words that the update before has written (hsp_epoch_device_changed). Returns
 * HSP_EDIGEST if they differ: @version was damaged in device memory. Then the damage is reported,
 * and @version + 1, which was computed from it, is given up. */
enum hsp_status hsp_epoch_check_update(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err);
/* Main function of a member's replication thread, which seals versions, sends copies and writes
 * checkpoints. @arg: the epoch. */
void *hsp_epoch_replication(void *arg);
/* Called by the run thread of a replica holder: receives and confirms the copies of @version and of
 * all later due versions. Returns HSP_OK if the last version has arrived, or the members have
 * handed over to the next epoch. */
enum hsp_status hsp_epoch_keep(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err);

#endif
