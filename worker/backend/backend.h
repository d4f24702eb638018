/* Declares a compute backend: the kernels of the op catalogue on one device, with the device's
 * memory and queues.
 *
 * Role:      worker/exec calls a backend for each instruction; cpu/ and cuda/ implement it.
 * Threads:   A queue has one caller at a time; different queues may have different callers at once.
 *            Any thread may call alloc, release, pin, unpin, finish and reached at any time. run
 *            and accumulate of a backend that is no device have one caller at a time for all queues
 *            together.
 * Contract:  The work given to one queue is done in the order given. If the backend is a device
 *            (`device` is true), a call returns before its work is done. So the memory that the
 *            call names must stay, and a later call of any function may report an error of this
 *            work. The caller may reuse the words that a call points to (arrays, attributes, views,
 *            boxes, keys) as soon as the call returns. Work of two queues is in order only where
 *            await says so. If the backend is no device, all work is done when the call returns.
 *            Counts of 0 elements or bytes are permitted, with pointers that may be NULL. Buffers
 *            of run are dense row-major and aligned to 64 bytes. Buffers do not overlap, except
 *            that the outputs of adamw and sgdm may be the inputs that they replace (output k is
 *            input k). Extents may be 0; then the call touches nothing. The conformance suite
 *            (tests/unit/worker/backend) has a tolerance for every op.
 * Errors:    HSP_ENOMEM means that there is no memory of that kind; the backend still works.
 *            HSP_EINVAL and HSP_EUNSUPPORTED mean that the call is wrong; the device got no work.
 *            After any other error (HSP_EIO) the device has failed: every later call fails too, and
 *            only close is of use.
 * Ownership: Memory belongs to the caller until release. The caller releases memory only when no
 *            work uses it: it has finished, for every queue, a ticket marked after all work that
 *            names the memory. So no queue uses memory that alloc returns, even if that memory had
 *            another owner before, and the first use of it needs no await. The test devices refuse
 *            an early release (tests/lib/mockdev.h) and report an early reuse as a race
 *            (tests/lib/fakecuda). */
#ifndef HSP_BACKEND_H
#define HSP_BACKEND_H
#include "proto/base/err.h"
#include "proto/base/hash.h"
#include "proto/base/word_sums.h"
#include "proto/op/op.h"
#include "worker/backend/cells.h"

#define HSP_BACKEND_ABI 11

/* The most marks of a queue that may not have been reached yet; a further mark waits for the
 * oldest. */
#define HSP_MAX_MARKS 4096

struct hsp_array {
    void *data;
    enum hsp_dtype dtype;
    uint8_t rank;
    int64_t ext[HSP_MAX_RANK];
};

/* The numbers that the update of step t takes from the vote, the exchange of loss and gradient norm
 * among all ranks (D4 of proto/DECISIONS.md). grad_scale is the clip factor / tokens of the
 * step. */
struct hsp_update_scalars {
    double lr, grad_scale, bias1, bias2; /* bias_i = 1 - beta_i^(t+1) */
};

/* The sums over the words of one array of state: as an update has read the words, and as it has
 * written them. */
struct hsp_state_sums {
    struct hsp_word_sums read, wrote;
};
#define HSP_UPDATE_STATES 3 /* the most arrays of state that an update has: p, m, v */

struct hsp_call {
    enum hsp_op op;
    const struct hsp_attrs *at;
    uint8_t n_in, n_out;
    uint8_t adds; /* a bit for each output that is added to its present content */
    const struct hsp_array *in;
    const struct hsp_array *out;
    int64_t origin[2]; /* the first global coordinate of each dim that needs one (proto/op) */
    bool tf32;         /* products of fp32 may use only the upper 19 bits of their factors */
    /* The scalars of adamw and sgdm; NULL for other ops. They lie in HSP_MEM_DEVICE and are read
     * when the op runs, so that a replayed op sees the scalars of its own step. */
    const struct hsp_update_scalars *update;
    /* The sums that adamw or sgdm makes; NULL for other ops. They lie in HSP_MEM_DEVICE. For every
     * output k the op adds to *sums[k] the sums of input k as read, and of output k, which replaces
     * it, as written. If the pointers are NULL, the op makes no sums. */
    struct hsp_state_sums *sums[HSP_UPDATE_STATES];
};

/* The terms that are added to a product before it is written: out = product [+ bias along the last
 * dim] [+ add]. out and add have the extents of the call's own output. The three have one dtype,
 * which may be wider than that of the call. */
struct hsp_sum {
    const struct hsp_array *bias, *add; /* each may be NULL; add may be out */
    const struct hsp_array *out;
};

/* A dense array of fp32 or fp64 whose elements are hashed by their numbers (element_hash.h).
 * Element (i_0, i_1, ..) has the number i_0 * stride[0] + i_1 * stride[1] + .. . @key is the key of
 * number 0; the keys of the other elements follow from it. The last stride is 1. */
struct hsp_hash_call {
    const void *data;
    enum hsp_dtype dtype;
    uint8_t rank;
    int64_t ext[HSP_MAX_RANK], stride[HSP_MAX_RANK];
    uint64_t key;
};

/* The queues of a device; the device does the work of one queue in order. HSP_DEVQ_GREET carries
 * the greetings of a transport's peers while an epoch is prepared beside one that runs: no other
 * queue waits for it. Lanes are the queues HSP_DEVQ_LANE + k, k below HSP_N_LANES, for sends that
 * wait for their receivers and must not hold up HSP_DEVQ_COMM. The queue of greetings and the lanes
 * are made when they are first used. */
enum hsp_devq { HSP_DEVQ_COMPUTE, HSP_DEVQ_COMM, HSP_DEVQ_STATE, HSP_DEVQ_GREET, HSP_DEVQ_LANE };
#define HSP_N_LANES 8
#define HSP_N_DEVQ  (HSP_DEVQ_LANE + HSP_N_LANES)

enum hsp_mem {
    HSP_MEM_DEVICE, /* the host cannot address it if the backend is a device */
    HSP_MEM_HOST    /* the host and the device can address it (pinned) */
};

enum hsp_cells { HSP_CELLS_COPY, HSP_CELLS_ADD, HSP_CELLS_MAX };

struct hsp_backend {
    const char *name;
    bool tf32; /* has products of TF32 factors; if false, call.tf32 changes nothing */
    bool bf16; /* has bf16 arithmetic; if false, computes in fp32 on numbers stored as bf16 */
    /* the host cannot address HSP_MEM_DEVICE, and calls return before their work is done */
    bool device;
    /* Allocates @bytes, aligned to at least 256 bytes; *ret is NULL for 0 bytes. The contents are
     * zeros if the backend is no device, and undefined otherwise. Returns HSP_ENOMEM, with the
     * number of bytes in the message, if there is no memory. */
    enum hsp_status (*alloc)(struct hsp_backend *b, enum hsp_mem mem, size_t bytes, void **ret,
                             struct hsp_err *err);
    void (*release)(struct hsp_backend *b, enum hsp_mem mem, void *p); /* @p may be NULL */
    /* Pins @bytes > 0 of the caller's memory at @p, which is mapped readable and writable, as
     * HSP_MEM_HOST until unpin. Copies to and from pinned memory are several times as fast, but are
     * done only after the call has returned. The caller unpins the memory before it unmaps it and
     * before close, when no work uses it. If pin returns HSP_ENOMEM or HSP_EUNSUPPORTED, the memory
     * stays ordinary. pin and unpin are NULL if the backend never pins. */
    enum hsp_status (*pin)(struct hsp_backend *b, void *p, size_t bytes, struct hsp_err *err);
    /* Ends the pinning, without waiting. Returns false if work of a transport may be under way:
     * then the memory stays pinned until trim, and must stay mapped until a later call of unpin
     * returns true. */
    bool (*unpin)(struct hsp_backend *b, void *p);
    /* Frees the memory that was released but kept, because calls that free wait for all work of the
     * device. The caller sees to it that no transport gives work to the device until trim returns.
     * After trim release frees memory again, until native is called. Returns false, and does
     * nothing, if the device is busy. NULL if the backend never keeps released memory. */
    bool (*trim)(struct hsp_backend *b);
    /* Runs one op. The backend has scratch of its own for each queue. Returns HSP_EUNSUPPORTED if
     * it does not know the op or the dtype. */
    enum hsp_status (*run)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                           struct hsp_err *err);
    /* Runs a linear, linear_dx or linear_dw together with the terms that are added to it; the
     * call's own output is not written. If *ret_done is false, nothing was given to the device, and
     * the caller runs the product and the addition one after the other. NULL if the backend has no
     * such products. */
    enum hsp_status (*run_sum)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                               const struct hsp_sum *s, bool *ret_done, struct hsp_err *err);
    /* Prepares a product that the caller may give later to run (or to run_sum, if @s is not NULL)
     * with the same extents and alignments. The first run of a product may wait until the device is
     * idle, for the library loads kernels; warm does this work now. It writes the product's output,
     * which nobody uses; the operands may hold anything. NULL if no run waits. */
    enum hsp_status (*warm)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                            const struct hsp_sum *s, struct hsp_err *err);
    /* The ops, a bit each (1 << op), whose outputs can be added to their present content
     * (hsp_call.adds). 0 if there is no such op. */
    uint64_t adds;
    /* Runs @n calls of one op together; the op is one of the mask @many. The result is that of run
     * for each call, in any order. No call writes memory that another call uses. NULL if the
     * backend has no such launches. */
    uint64_t many;
    enum hsp_status (*run_many)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                uint32_t n, struct hsp_err *err);
    /* Runs together @n consecutive calls that read the same rows. If *ret_done is false, nothing
     * was given to the device, and the caller runs the calls one after the other. NULL if the
     * backend has no such launches. There are two kinds:
     *   - layernorm_dx or rmsnorm_dx; add, which takes the output of the first call, an output that
     *     then need not be written; layernorm_dw or rmsnorm_dw of the same operands; bias_db of the
     *     sum, or of the first output if there is no add. Of the calls after the first some may be
     *     missing, but not all. The gradients of weights may have their bit in hsp_call.adds.
     *   - gelu_dx; bias_db of its output. */
    enum hsp_status (*run_chain)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                 uint32_t n, bool *ret_done, struct hsp_err *err);
    /* Begins (@on) or ends a rehearsal of a queue: run, run_many, run_chain, accumulate, copy, fill
     * and cells then give the device nothing. run, run_many and run_chain make the queue's scratch
     * as large as they need it, so that no step allocates memory. Operands may hold anything. begin
     * and end may be called in a rehearsal, too: the calls between them are recorded under their
     * key and not run, so that no step has to record its replays. A recording that would displace
     * another one is not made (*ret_replayed). NULL if scratch is no device memory. */
    enum hsp_status (*rehearse)(struct hsp_backend *b, enum hsp_devq q, bool on,
                                struct hsp_err *err);
    /* Adds src to dst (the instruction HSP_I_ACC), @n elements. @src has the same type or a
     * narrower real type. Returns HSP_EUNSUPPORTED for other types. */
    enum hsp_status (*accumulate)(struct hsp_backend *b, enum hsp_devq q, enum hsp_dtype dst_type,
                                  void *dst, enum hsp_dtype src_type, const void *src, int64_t n,
                                  struct hsp_err *err);
    /* Copies @bytes from any memory to any memory, also from and to ordinary memory of the host.
     * The two do not overlap. */
    enum hsp_status (*copy)(struct hsp_backend *b, enum hsp_devq q, void *dst, const void *src,
                            size_t bytes, struct hsp_err *err);
    /* Sets @n elements to @value. */
    enum hsp_status (*fill)(struct hsp_backend *b, enum hsp_devq q, enum hsp_dtype t, void *dst,
                            double value, int64_t n, struct hsp_err *err);
    /* Copies src[cell] to dst[cell], or writes their sum or the larger of the two there (a NaN is
     * larger than any number). The cell lies in both boxes, and both tensors have one dtype. Either
     * tensor may lie in HSP_MEM_HOST. */
    enum hsp_status (*cells)(struct hsp_backend *b, enum hsp_devq q,
                             const struct hsp_cell_view *dst, const struct hsp_cell_view *src,
                             const struct hsp_box *cell, enum hsp_cells how, struct hsp_err *err);
    /* Writes to ret[k], in HSP_MEM_DEVICE, the hash of all elements of c[k], for @n calls. If the
     * backend is no device, a hash may run at the same time as run only on another queue than
     * HSP_DEVQ_COMPUTE. Returns HSP_EUNSUPPORTED if a type is neither fp32 nor fp64. */
    enum hsp_status (*hash)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_hash_call *c,
                            uint32_t n, uint64_t *ret, struct hsp_err *err);
    /* Returns a ticket, a number for all work given to @q until now. The tickets of a queue never
     * descend and are above 0. Ticket 0 names no work and always counts as reached. */
    enum hsp_status (*mark)(struct hsp_backend *b, enum hsp_devq q, uint64_t *ret_ticket,
                            struct hsp_err *err);
    /* Makes all work that @q is given from now on wait until the device has reached @ticket of
     * queue @of; the host does not wait. */
    enum hsp_status (*await)(struct hsp_backend *b, enum hsp_devq q, enum hsp_devq of,
                             uint64_t ticket, struct hsp_err *err);
    /* Makes the host wait until the device has reached @ticket of queue @of. Afterwards the host
     * sees the results of the work before the ticket. */
    enum hsp_status (*finish)(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket,
                              struct hsp_err *err);
    /* Returns whether the device has reached @ticket of queue @of, without waiting; any thread may
     * call it. Returns true also if the device has failed: finish then returns the error. */
    bool (*reached)(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket);
    /* Returns the seconds that the device spent from one reached mark of a queue to another. Both
     * are among the newest HSP_MAX_MARKS marks of the queue. Returns HSP_ENOENT if one is older;
     * the device still works. NULL if the backend does not measure, or is no device. */
    enum hsp_status (*seconds)(struct hsp_backend *b, enum hsp_devq of, uint64_t from, uint64_t to,
                               double *ret, struct hsp_err *err);
    /* Let the backend replay calls. Between begin and end the caller gives @q, for one key, always
     * the same calls of run, run_sum, run_many, run_chain, accumulate, copy, fill and cells with
     * the same pointers, and no other calls. Copies between them touch HSP_MEM_DEVICE and
     * HSP_MEM_HOST only. If begin sets *ret_replayed, it has started the recorded calls: the caller
     * gives none of them and does not call end. If a call between the two fails, the caller gives
     * no more calls, but does call end, which forgets the recording. end returns HSP_AGAIN if none
     * of the calls has run, because the device's library would not replay them: the caller gives
     * the same calls once more, without begin and end. Both are NULL if the backend never
     * replays. */
    enum hsp_status (*begin)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_digest *key,
                             bool *ret_replayed, struct hsp_err *err);
    enum hsp_status (*end)(struct hsp_backend *b, enum hsp_devq q, struct hsp_err *err);
    /* Returns the queue as the device's library knows it (a cudaStream_t), for transports that give
     * it work; NULL on a CPU. The calling thread uses this device from then on. A transport calls
     * native before each piece of its work, for from then until the next trim the device may wait
     * for other devices. */
    void *(*native)(struct hsp_backend *b, enum hsp_devq q);
    /* Closes the backend after the work under way has ended. Memory that the caller has not
     * released must not be used any more. @b must not be NULL. */
    void (*close)(struct hsp_backend *b);
};

#endif
