/* Sends, receives and sums data among the ranks of one epoch: the operations of every transport.
 *
 * Role:     called by an executor's comm thread. Transports are loop/ (threads of one process, for
 *           tests and --run), mesh/ (shared memory, Unix sockets and TCP) and nccl/ (GPUs). One
 *           conformance suite tests all.
 * Threads:  operations of one hsp_comm from one thread at a time; abort from any thread until close
 *           is called.
 * Contract: an operation completes everywhere, or returns HSP_EPEER (a peer died, *err names its
 *           rank) or HSP_ECANCELED (aborted) on every rank that takes part in it. After that the
 *           hsp_comm is dead: close it. No timeouts. A sum is taken in ascending rank order, so all
 *           ranks get the same bits. A send never waits for the peer to receive. Messages match by
 *           (peer, channel) in order of sending. A receive of another size than its message is
 *           HSP_EPROTO and kills the hsp_comm. Pieces may be uneven and of zero length. Counts are
 *           elements.
 * Bounds:   a message is at most HSP_COMM_MAX_MESSAGE bytes; bytes sent and not yet taken at most
 *           HSP_COMM_MAX_QUEUED per peer (then HSP_ELIMIT: a program that runs away). */
#ifndef HSP_COMM_H
#define HSP_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/layout/cover.h" /* enum hsp_reduce */
#include "proto/op/dtype.h"
#include "worker/comm/runs.h"

/* Larger than any tensor piece of a plan that fits in memory; bounds the length in a header. */
#define HSP_COMM_MAX_MESSAGE (UINT64_C(1) << 36)
#define HSP_COMM_MAX_QUEUED  (UINT64_C(1) << 36)

struct hsp_group {
    uint32_t n;
    const uint32_t *ranks; /* ascending; contains the caller's */
    uint32_t me;           /* index of the caller */
};

enum hsp_req_state {
    HSP_REQ_IDLE,   /* never posted, or waited for */
    HSP_REQ_POSTED, /* not yet matched */
    HSP_REQ_BUSY,   /* matched: bytes are moving, the buffer must stay */
    HSP_REQ_DONE,
};

/* An operation under way. The caller provides zeroed storage; the fields belong to the
 * implementation. */
struct hsp_comm_req {
    struct hsp_comm_req *next;
    struct hsp_runs data; /* the memory is borrowed from the post until wait returns */
    size_t bytes;         /* of all of it */
    uint32_t peer, channel;
    uint8_t state; /* enum hsp_req_state */
    bool is_send;
};

struct hsp_comm; /* first field of each implementation */

/* Collectives that a transport implements itself, in place of those below. The contract is the same
 * except for sums: the transport chooses the order of addends, and how often a sum of bf16 is
 * rounded. All ranks get the same bits. */
struct hsp_collect_ops {
    enum hsp_status (*all_reduce)(struct hsp_comm *c, const struct hsp_group *g, uint32_t channel,
                                  enum hsp_dtype t, enum hsp_reduce how, void *buf, size_t count,
                                  struct hsp_err *err);
    enum hsp_status (*reduce_scatter)(struct hsp_comm *c, const struct hsp_group *g,
                                      uint32_t channel, enum hsp_dtype t, enum hsp_reduce how,
                                      const void *in, const size_t *count, void *out,
                                      struct hsp_err *err);
    enum hsp_status (*all_gather)(struct hsp_comm *c, const struct hsp_group *g, uint32_t channel,
                                  enum hsp_dtype t, const void *in, const size_t *count, void *out,
                                  struct hsp_err *err);
};

struct hsp_comm_ops {
    const char *name;
    const struct hsp_collect_ops *collect; /* NULL: collectives use the operations below */
    /* @buf may be reused on return: the bytes are copied or handed to the kernel. */
    enum hsp_status (*send)(struct hsp_comm *c, uint32_t peer, uint32_t channel, const void *buf,
                            size_t bytes, struct hsp_err *err);
    enum hsp_status (*recv)(struct hsp_comm *c, uint32_t peer, uint32_t channel, void *buf,
                            size_t bytes, struct hsp_err *err);
    /* Sends without a copy and without waiting. The memory of @data and @req is borrowed until
     * wait(@req) returns. The caller must wait for each posted request, also after a failure: then
     * wait returns at once, and afterwards no thread touches the memory. A failed post needs no
     * wait; a wait for an idle request returns HSP_OK. The runs of the two sides may differ, but
     * must have the same number of bytes. HSP_EINVAL: runs that overlap or are not valid. */
    enum hsp_status (*isend)(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                             struct hsp_runs data, struct hsp_comm_req *req, struct hsp_err *err);
    enum hsp_status (*irecv)(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                             struct hsp_runs data, struct hsp_comm_req *req, struct hsp_err *err);
    enum hsp_status (*wait)(struct hsp_comm *c, struct hsp_comm_req *req, struct hsp_err *err);
    /* Receives without a copy, where the transport can; NULL: never. `lends` says whether a message
     * of that size from that peer may be lent. `lend` waits for the next message of the channel and
     * lends its bytes in place, until `unlend`. At most one message per peer is lent, and nothing
     * else comes from that peer meanwhile. HSP_AGAIN: this message cannot be lent, so receive it. A
     * faulty peer could still write to the lent bytes; then numbers are wrong, and nothing worse
     * happens. */
    bool (*lends)(struct hsp_comm *c, uint32_t peer, size_t bytes);
    enum hsp_status (*lend)(struct hsp_comm *c, uint32_t peer, uint32_t channel, size_t bytes,
                            const void **ret, struct hsp_err *err);
    void (*unlend)(struct hsp_comm *c, uint32_t peer);
    /* Between attend(true) and attend(false) the caller waits again soon after each operation, and
     * has waited for all of its requests at the end. So the transport may leave to the caller's
     * thread the work that its I/O thread would do. A transport that needs no attend has a NULL
     * pointer here. */
    void (*attend)(struct hsp_comm *c, bool on);
    /* For @ns from now on, holds back long messages of @c while @to has bytes under way to other
     * hosts. @to is a comm of the same kind in this process. @to NULL: ends the holding back; after
     * that call the other comm may be closed. Any thread. A transport that needs no yield has a
     * NULL pointer here. */
    void (*yield)(struct hsp_comm *c, const struct hsp_comm *to, uint64_t ns);
    /* From @on to its end operations do nothing, and need no receiver. At the end the transport
     * takes the memory of the device that they will need: for messages @room bytes at most, or the
     * largest message, since not all of them are on their way at once. HSP_ENOMEM. NULL: operations
     * need none. */
    enum hsp_status (*rehearse)(struct hsp_comm *c, bool on, size_t room, struct hsp_err *err);
    /* Returns true if the transport connects all of these @n ranks; each of them gets the same
     * answer. A NULL pointer here means that the transport connects any ranks. */
    bool (*reaches)(struct hsp_comm *c, const uint32_t *ranks, uint32_t n);
    /* Sends and receives between batch(true) and batch(false) are one operation. None of them need
     * be under way before batch(false) has returned, and the caller waits for each of them after
     * that. In a transport of the device, work that the queue gets between the two calls comes
     * before the batch. A transport that needs no batch has a NULL pointer here. */
    enum hsp_status (*batch)(struct hsp_comm *c, bool on, struct hsp_err *err);
    /* Kills the hsp_comm: every present and later operation fails, and the peers are told. Any
     * thread may call abort. */
    void (*abort)(struct hsp_comm *c);
    /* Closes the connections and frees the hsp_comm. Messages that were sent are delivered first,
     * unless the hsp_comm is dead. A peer that receives more than that from a closed rank gets
     * HSP_EPEER. */
    void (*close)(struct hsp_comm *c);
};
struct hsp_comm {
    const struct hsp_comm_ops *ops;
    uint32_t rank, n_ranks;
    bool near; /* all ranks agree that they are on one host, so a message is cheap */
    /* Buffers lie in HSP_MEM_DEVICE of one backend, and operations are work of its HSP_DEVQ_COMM,
     * in order with the other work of that queue. An operation may not have happened yet when the
     * call, or wait, returns. Work that the queue gets afterwards may reuse the buffers. Has
     * ops->collect. */
    bool device;
    void *scratch; /* owned: reduce buffers, grown on demand */
    size_t scratch_bytes;
};

#endif
