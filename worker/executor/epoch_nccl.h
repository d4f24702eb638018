/* Opens and closes NCCL for executors and their epochs, so that GPUs exchange data from memory to
 * memory. Data between other devices is staged through the data mesh.
 *
 * Role:    executor.c opens NCCL once. epoch.c and epoch_train.c call one function at each stage of
 *          an epoch.
 * Threads: prepare, start and rest: the run thread; abort: any thread; close: the control thread
 *          when the run thread has ended.
 * Failure: where communicators cannot be made twice in a row though no peer was lost (a network
 *          that NCCL cannot use, memory of the GPU), this executor goes without NCCL for the rest
 *          of its life, and logs that. The next PREPARE tells the other members, and the job goes
 *          on through the mesh.
 */
#ifndef HSP_EPOCH_NCCL_H
#define HSP_EPOCH_NCCL_H
#include "proto/host/log.h"
#include "worker/comm/nccl/nccl_comm.h"
#include "worker/executor/epoch.h"

struct hsp_direct_opts {
    struct hsp_backend *backend;
    uint64_t gpu;        /* hash of the GPU's identity, the same in all processes; 0: not known */
    const char *library; /* NULL: libnccl.so.2 */
};

/* Opens NCCL. Returns NULL where @o->backend is no device, and, with a line in the log, where NCCL
 * is not available. Close with hsp_nccl_close when no epoch is left, before the backend. */
struct hsp_nccl *hsp_direct_open(const struct hsp_direct_opts *o, struct hsp_logger *log);

/* Sets the time after which a silent executor counts as dead: @dead_ms, before this call 3 s. The
 * executor waits for calls of NCCL a sixth of that time, 500 ms at most, and abandons them after
 * three times as long; SEAL is to be answered within a third of the time (worker/agent/obey.h). @n
 * may be NULL. */
void hsp_direct_silence(struct hsp_nccl *n, uint32_t dead_ms);

/* Agrees with all members, CPU devices too, which groups use NCCL, when the data mesh is connected.
 * Errors of hsp_nccl_prepare; HSP_EPEER where a peer was lost meanwhile. The mesh is aborted
 * then. */
enum hsp_status hsp_epoch_direct_prepare(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Called before the first step by all members. Errors of hsp_nccl_start. */
enum hsp_status hsp_epoch_direct_start(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Called after the last step by the run thread without the epoch's lock: waits until the device has
 * done the step, and releases the memory of its messages. Errors of hsp_nccl_rest. */
enum hsp_status hsp_epoch_direct_rest(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Called after the meshes are aborted: ends the work of the device for this epoch. */
void hsp_epoch_direct_abort(struct hsp_ex_epoch *e);
/* Closes NCCL for the epoch, after the engine is halted and before the meshes are closed. Idle
 * communicators stay with the executor. */
void hsp_epoch_direct_close(struct hsp_ex_epoch *e);

#endif
