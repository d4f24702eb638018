/* Starts an epoch with communicators of the one before, once they are quiet and agree; and ends its
 * steps. */
#ifndef HSP_NCCL_START_H
#define HSP_NCCL_START_H
#include "worker/comm/nccl/nccl_comm.h"

/* Pauses. HSP_AGAIN: go on waiting. HSP_ETIMEDOUT: the time @until has come, the caller names its
 * wait; HSP_ECANCELED: stop. */
enum hsp_status hsp_nccl_may_wait(const struct hsp_nccl_params *p, uint64_t until,
                                  struct hsp_err *err);
/* Starts an epoch: called when it begins by all ranks of the mesh, with NULL by those that got no
 * hsp_comm. Checks that communicators taken over from the epoch that has just ended are quiet and
 * have done the same operations everywhere. Waits for work of that epoch that the device still
 * does, since its members have ended the same step. @p: without needs. HSP_EPEER: they are not
 * quiet, or differ; the epoch is over. HSP_ECANCELED, HSP_ETIMEDOUT, errors of the mesh,
 * HSP_ENOMEM. */
enum hsp_status hsp_nccl_start(struct hsp_comm *c, const struct hsp_nccl_params *p,
                               struct hsp_err *err);
/* Called behind the last step that all members have ended, by the thread that gave its operations.
 * Waits, by looking, until the device has done them, and releases the memory of messages, which is
 * taken again when there are more. @p: without needs. HSP_ECANCELED, HSP_ETIMEDOUT: the device
 * still waits for a member, and that memory stays until close. */
enum hsp_status hsp_nccl_rest(struct hsp_comm *c, const struct hsp_nccl_params *p,
                              struct hsp_err *err);

#endif
