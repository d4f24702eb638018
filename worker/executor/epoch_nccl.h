/* Opens and closes NCCL for executors and their epochs, so that GPUs exchange data without copies
 * through host memory. Data of other devices goes through the data mesh.
 *
 * Role:    executor.c opens NCCL once. epoch.c and epoch_train.c call one function at each stage of
 *          an epoch.
 * Threads: prepare, start and rest: the run thread; abort: any thread; close: the control thread
 *          when the run thread has ended.
 * Failure: if communicators cannot be made twice in a row although no peer was lost (NCCL cannot
 *          use the network, or the GPU lacks memory), this executor uses no NCCL until it exits,
 *          and logs that. At the next PREPARE the other members learn that, and the data of this
 *          device goes through the mesh.
 */
#ifndef HSP_EPOCH_NCCL_H
#define HSP_EPOCH_NCCL_H
#include "proto/host/log.h"
#include "worker/comm/nccl/nccl_comm.h"
#include "worker/executor/epoch.h"

struct hsp_direct_opts {
    struct hsp_backend *backend;
    uint64_t gpu;        /* hash of the GPU's uuid, equal in all processes; 0: not known */
    const char *library; /* NULL: libnccl.so.2 */
};

/* Opens NCCL. Returns NULL if @o->backend is a CPU, or, with a line in the log, if NCCL is not
 * available. Call hsp_nccl_close when no epoch is left, before the backend is closed. */
struct hsp_nccl *hsp_direct_open(const struct hsp_direct_opts *o, struct hsp_logger *log);

/* Adapts the waits for NCCL to @dead_ms, the time after which a silent executor counts as dead (3 s
 * before this call). The executor waits for a call of NCCL for a sixth of that time, at most 500
 * ms, and abandons the call after three times this wait. The reason: SEAL has to be answered within
 * a third of @dead_ms (worker/agent/obey.h). @n may be NULL. */
void hsp_direct_silence(struct hsp_nccl *n, uint32_t dead_ms);

/* Agrees with all members, also those on CPUs, which groups of ranks use NCCL, and makes their
 * communicators. All members call this function after the data mesh of the epoch is connected.
 * Returns errors of hsp_nccl_prepare, and HSP_EPEER if a peer was lost meanwhile. After any error
 * the data mesh is aborted. */
enum hsp_status hsp_epoch_direct_prepare(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Prepares the communicators for the first step; called before it by all members. Returns errors of
 * hsp_nccl_start. */
enum hsp_status hsp_epoch_direct_start(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Called after the last step by the run thread without the epoch's lock: waits until the device has
 * done the step, and releases the memory of the step's messages. Returns errors of
 * hsp_nccl_rest. */
enum hsp_status hsp_epoch_direct_rest(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Called after the meshes are aborted: ends the work of the device for this epoch. */
void hsp_epoch_direct_abort(struct hsp_ex_epoch *e);
/* Closes NCCL for the epoch, after the engine is halted and before the meshes are closed. Idle
 * communicators stay with the executor. */
void hsp_epoch_direct_close(struct hsp_ex_epoch *e);

#endif
