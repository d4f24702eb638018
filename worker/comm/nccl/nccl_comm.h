/* Sends and sums tensors in GPU memory by NCCL: a struct hsp_comm of the device, for the ranks of
 * an epoch that have a GPU.
 *
 * Role:      an executor opens one hsp_nccl; hsp_nccl_prepare makes the hsp_comm of an epoch beside
 *            its mesh, which carries everything that does not go by NCCL (engine.h: `direct` beside
 *            `comm`). Every rank of an epoch calls it; a rank without a GPU calls it with NULL and
 *            so tells the others.
 * Threads:   one for each communicator (nccl_link.h); an hsp_comm as comm.h says. prepare and close
 *            by one thread.
 * Ownership: an hsp_comm is closed before its hsp_nccl; both borrow mesh and backend.
 * Contract:  that of comm.h for a transport of the device, and
 *            - a send copies to a buffer of its own on HSP_DEVQ_COMM and sends from a lane of its
 *              pair. So it never waits for its receiver, as the compiler's proof that programs end
 *              assumes. Receives, and collectives, hold up the queue;
 *            - messages match by peer in order of sending, on all channels together (L2 of
 *              nccl_need.h), and sizes are not compared;
 *            - a sum is the same bits on all ranks: each element is added up in one place and
 *              handed on, by rings, trees and switches alike. Buffers registered as symmetric
 *              windows, where every rank adds for itself, would break this; hspmd registers none.
 *              NCCL chooses the order of addition. A maximum is gathered and taken by the backend,
 *              since NCCL's would pass over a NaN;
 *            - abort ends work under way, on this rank only. The death notice that caused the abort
 *              reaches the other ranks by the mesh, which is aborted first. After an abort the
 *              outputs of aborted operations hold anything, and the queue goes on: no result
 *              counts before a vote has passed, which needs the mesh. An error that NCCL finds has
 *              the same effect.
 * Fence:     an aborted communicator is never used again. One that is quiet when its epoch ends
 *            stays, and serves a later epoch if all its members still hold it and count the same
 *            operations.
 * Deadlines: none but `patience_ms`, for calls that go wrong, which is derived from the failure
 *            detection. */
#ifndef HSP_NCCL_COMM_H
#define HSP_NCCL_COMM_H
#include "worker/backend/backend.h"
#include "worker/comm/comm.h"
#include "worker/comm/nccl/nccl_need.h"

struct hsp_nccl_comm;

/* A channel of the mesh, for the messages between prepare and start of all ranks. */
#define HSP_NCCL_CHANNEL (UINT32_MAX - 1)

struct hsp_nccl;

struct hsp_nccl_opts {
    struct hsp_backend *backend; /* a device */
    uint64_t gpu;     /* hash of the GPU's identity: no two members of a communicator share it */
    uint64_t process; /* drawn at random for this executor */
    uint32_t patience_ms; /* a sixth of the time after which a silent executor is dead; 0: 1000 */
    const char *library;  /* NULL: libnccl.so.2 */
    uint32_t hold_ms;     /* for which a send waits for receivers (nccl_stage.h); 0: 1000 */
    /* Bytes of the largest collective by which members are connected (nccl_link.h); 0: 8 MiB. */
    size_t greeting_bytes;
};

struct hsp_nccl_params {
    struct hsp_comm *mesh;              /* of the epoch; nobody else uses it meanwhile */
    const struct hsp_nccl_needs *needs; /* of this rank; borrowed for the call */
    struct hsp_nccl_place place;        /* of this rank, in this epoch */
    uint64_t timeout_ms;                /* for all communicators to stand, and to be quiet */
    bool (*stop)(void *ctx);            /* asked often; true: give up. NULL: never */
    void *ctx;
};

/* Frees groups and ways and gives their links back. */
void hsp_nccl_parts_fini(struct hsp_nccl *n, struct hsp_nccl_comm *parts);
/* Takes @groups and @ways over, with a user of each link in them; frees them on failure, too. */
enum hsp_status hsp_nccl_comm_new(struct hsp_nccl *n, const struct hsp_nccl_params *p,
                                  struct hsp_nccl_comm *parts, struct hsp_comm **ret,
                                  struct hsp_err *err);

#endif
