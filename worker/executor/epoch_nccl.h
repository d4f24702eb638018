/* Opens and closes NCCL for executors and their epochs, so that GPUs exchange data from memory to
 * memory. Data between other devices is staged through the data mesh.
 *
 * Role:    executor.c opens it once, epoch.c and epoch_train.c call one function at each turn of an
 *          epoch's life.
 * Threads: prepare, start and rest by the run thread, abort by any, close by the control thread
 *          when the run thread has ended.
 * Failure: where communicators cannot be made twice in a row though no peer was lost (a network
 *          NCCL cannot use, memory of the GPU), this executor goes without NCCL for the rest of its
 *          life, which its log says: the other members hear it in the next PREPARE, and the job
 *          goes on by the mesh.
 */
#ifndef HSP_EPOCH_NCCL_H
#define HSP_EPOCH_NCCL_H
#include "proto/host/log.h"
#include "worker/comm/nccl/nccl_comm.h"
#include "worker/executor/epoch.h"

struct hsp_direct_opts {
    struct hsp_backend *backend;
    uint64_t gpu;        /* hash of its identity, the same in all processes; 0: not known */
    const char *library; /* NULL: libnccl.so.2 */
};

/* NULL where @o->backend is no device, and, with a line in the log, where NCCL is not to be had.
 * Closed by hsp_nccl_close when no epoch is left, before the backend. */
struct hsp_nccl *hsp_direct_open(const struct hsp_direct_opts *o, struct hsp_logger *log);

/* A silent executor is dead after @dead_ms, until then 3 s. Calls of NCCL are waited for a sixth of
 * that, 500 ms at most, and abandoned after three times as long; SEAL is to be answered within a
 * third of it (worker/agent/obey.h). NULL is fine. */
void hsp_direct_silence(struct hsp_nccl *n, uint32_t dead_ms);

/* Called when the data mesh stands, by all members, CPU devices too: they agree which
 * groups go by NCCL. Errors of hsp_nccl_prepare, HSP_EPEER where a peer was lost meanwhile;
 * the mesh is aborted then. */
enum hsp_status hsp_epoch_direct_prepare(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Before the first step, by all members. Errors of hsp_nccl_start. */
enum hsp_status hsp_epoch_direct_start(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Behind the last step, by the run thread without the epoch's lock: the device has done it, and the
 * memory of its messages is released. Errors of hsp_nccl_rest. */
enum hsp_status hsp_epoch_direct_rest(struct hsp_ex_epoch *e, struct hsp_err *err);
/* After the meshes: ends the work of the device for this epoch. */
void hsp_epoch_direct_abort(struct hsp_ex_epoch *e);
/* After the engine, before the meshes. Communicators that are quiet stay with the executor. */
void hsp_epoch_direct_close(struct hsp_ex_epoch *e);

#endif
