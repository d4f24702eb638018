/* Runs the keeper thread, which seals each due version (due.h), makes its copies and writes the
 * checkpoints beside the next steps.
 *
 * Example: each version is due. Vote 7 has passed and version 8 is written. The keeper thread of a member seals version
 *          8, writes the checkpoint of version 7 if one is due, then copies version 8. Vote 8 waits
 *          for the confirmation of these copies.
 */
#ifndef HSP_EPOCH_REPLICATE_H
#define HSP_EPOCH_REPLICATE_H
#include "worker/executor/epoch.h"

/* On return the newest due version is sealed, if it is written, by this thread or another.
 * HSP_EDIGEST: the version it was made of is damaged; errors of a device. The first error of an
 * epoch is returned to every later caller too: nothing is sealed behind it. */
enum hsp_status hsp_epoch_seal_written(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Seals @version, of which the update is done and which need not be due, by the same checks. @before:
 * the newest sealed one. Errors as above; they are not noted. One caller at a time. */
enum hsp_status hsp_epoch_seal_version(struct hsp_ex_epoch *e, uint64_t version, uint64_t before,
                                       struct hsp_err *err);
/* Waits until the keeper thread has had the copies of @version confirmed. HSP_ECANCELED: the epoch
 * has ended; else why the copies have. */
enum hsp_status hsp_epoch_await_confirmed(struct hsp_ex_epoch *e, uint64_t version,
                                          struct hsp_err *err);
/* The same until due version @version has left the device, and may be written over there. */
enum hsp_status hsp_epoch_await_saved(struct hsp_ex_epoch *e, uint64_t version,
                                      struct hsp_err *err);
/* Where not every version is due: compares @version, as the update has read it, with what was
 * written (epoch_device.h). HSP_EDIGEST: it is damaged; that is reported, and that the version made
 * of it is given up. */
enum hsp_status hsp_epoch_check_update(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err);
/* Seals, copies and checkpoints, on the keeper thread of a member. */
void *hsp_epoch_keeper(void *arg);
/* The whole work of a keeper: takes and confirms the copies of @version and of all that
 * follow, on its run thread. HSP_OK: the last version is there, or the epoch was left. */
enum hsp_status hsp_epoch_keep(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err);

#endif
