/* Compute backends: kernels of the op catalogue on one device, the device's memory and its queues.
 *
 * Role:       called by worker/exec for each instruction; cpu/ and cuda/ implement it.
 * Threads:    a queue has one caller at a time, different queues may have different ones at once;
 *             alloc, release, pin, unpin, finish and reached may be called by any thread at any
 *             time. run and accumulate of a backend that is no device: one caller at a time, over
 *             all queues.
 * Contract:   work given to a queue is done in the order given. Of a device (device is true) the
 *             call has returned before the work is done, so the memory it names must stay, and an
 *             error of the work may be told by a later call of any function; the words a call
 *             points to (arrays, attributes, views, boxes, keys) may be reused on return. Work of
 *             two queues is in order only where await says so. Of a backend that is no device
 *             everything is done when the call returns. Zero elements or bytes are fine, their
 *             pointers may be NULL. Buffers of run are dense row-major and aligned to 64 bytes.
*             Buffers do not overlap, but the outputs of adamw and sgdm may be the inputs that they
 *             replace (output k is input k). Extents may be 0 (then nothing is touched). Every op
 *             has a tolerance declared in the conformance suite (tests/unit/worker/backend).
 * Errors:     HSP_ENOMEM: no memory of that kind, the backend goes on. HSP_EINVAL,
 *             HSP_EUNSUPPORTED: the call is wrong, nothing was given. Others (HSP_EIO): the device
 *             failed, every later call fails too: close.
 * Ownership:  memory is the caller's until release; nothing under way may use it then: the caller
 *             has finished a ticket behind all work that names it, of every queue. So no queue uses
 *             memory that alloc gives out, also if it had another owner, and the first use of it
 *             awaits nothing. The test devices refuse an early release (tests/lib/mockdev.h) and
 *             report an early reuse as a race (tests/lib/fakecuda).
 */
#ifndef HSP_BACKEND_H
#define HSP_BACKEND_H
#include "proto/base/err.h"
#include "proto/base/hash.h"
#include "proto/base/word_sums.h"
#include "proto/op/op.h"
#include "worker/backend/cells.h"

#define HSP_BACKEND_ABI 11

/* Most marks of a queue that may not have been reached yet: one more waits for the oldest. */
#define HSP_MAX_MARKS 4096

struct hsp_array {
    void *data;
    enum hsp_dtype dtype;
    uint8_t rank;
    int64_t ext[HSP_MAX_RANK];
};

/* Numbers the update of step t needs, from the vote (D4): gradient factor = clip / tokens. */
struct hsp_update_scalars {
    double lr, grad_scale, bias1, bias2; /* bias_i = 1 - beta_i^(t+1) */
};

/* Of an array of state: its words as an update has read them, and as it has written them. */
struct hsp_state_sums {
    struct hsp_word_sums read, wrote;
};
#define HSP_UPDATE_STATES 3 /* arrays of state that an update has, at most: p, m, v */

struct hsp_call {
    enum hsp_op op;
    const struct hsp_attrs *at;
    uint8_t n_in, n_out;
    uint8_t adds; /* outputs, a bit each, that are added to their present content */
    const struct hsp_array *in;
    const struct hsp_array *out;
    int64_t origin[2]; /* first global coordinate of the origin dims */
    bool tf32;         /* products of fp32 may take the upper 19 bits of their factors */
    /* adamw, sgdm; else NULL. In HSP_MEM_DEVICE: read when the op runs, so that a replayed one
     * sees the numbers of its own step. */
    const struct hsp_update_scalars *update;
    /* adamw, sgdm; else NULL. In HSP_MEM_DEVICE: the sums of input k and of output k, which is
     * in its place, are added to *sums[k], for all outputs. NULL: none are made. */
    struct hsp_state_sums *sums[HSP_UPDATE_STATES];
};

/* The additions to a product before it is written: out = product [+ bias along the last dim]
 * [+ add]. Extents of out and add are those of the call's own output, dtypes of all three agree and
 * may be wider than that of the call. */
struct hsp_sum {
    const struct hsp_array *bias, *add; /* or NULL; add may be out */
    const struct hsp_array *out;
};

/* A dense array of fp32 or fp64 of which elements are hashed by their numbers (element_hash.h):
 * element (i_0, i_1, ..) has number i_0 * stride[0] + i_1 * stride[1] + .. and its key follows from
 * @key, that of number 0. The last stride is 1. */
struct hsp_hash_call {
    const void *data;
    enum hsp_dtype dtype;
    uint8_t rank;
    int64_t ext[HSP_MAX_RANK], stride[HSP_MAX_RANK];
    uint64_t key;
};

/* Work is given to a queue of the device and done there in order. HSP_DEVQ_GREET is for
 * greetings of a transport's peers while an epoch is prepared, beside one that runs: no other queue
 * waits for it. Lanes are queues HSP_DEVQ_LANE + k, k below HSP_N_LANES, for sends that wait
 * for their receivers and must not hold up HSP_DEVQ_COMM. Those two kinds are made when they are
 * first used. */
enum hsp_devq { HSP_DEVQ_COMPUTE, HSP_DEVQ_COMM, HSP_DEVQ_STATE, HSP_DEVQ_GREET, HSP_DEVQ_LANE };
#define HSP_N_LANES 8
#define HSP_N_DEVQ  (HSP_DEVQ_LANE + HSP_N_LANES)

enum hsp_mem {
    HSP_MEM_DEVICE, /* of a device: not addressable by the host */
    HSP_MEM_HOST    /* both sides can touch it (pinned) */
};

enum hsp_cells { HSP_CELLS_COPY, HSP_CELLS_ADD, HSP_CELLS_MAX };

struct hsp_backend {
    const char *name;
    bool tf32;   /* has products that take such factors; else call.tf32 changes nothing */
    bool bf16;   /* has arithmetic on bf16; else it computes in fp32 on numbers stored as bf16 */
    bool device; /* HSP_MEM_DEVICE is not addressable by the host, and work goes on after a call has
                    returned */
    /* @bytes aligned to at least 256 bytes; contents undefined, of a backend that is no device
     * zeros. HSP_ENOMEM says how many bytes. NULL for 0 bytes. */
    enum hsp_status (*alloc)(struct hsp_backend *b, enum hsp_mem mem, size_t bytes, void **ret,
                             struct hsp_err *err);
    void (*release)(struct hsp_backend *b, enum hsp_mem mem, void *p); /* NULL is fine */
    /* @bytes > 0 of the caller at @p, mapped readable and writable, become HSP_MEM_HOST: copies are
     * several times as fast, and come later than the call. Until unpin, which comes before the
     * memory goes and before close; nothing under way may use it then. HSP_ENOMEM,
     * HSP_EUNSUPPORTED: it stays ordinary. Both NULL: never. */
    enum hsp_status (*pin)(struct hsp_backend *b, void *p, size_t bytes, struct hsp_err *err);
    /* Never waits. False: work of a transport may be under way, so it is pinned until trim, and
     * must stay mapped until this is asked again and true. */
    bool (*unpin)(struct hsp_backend *b, void *p);
    /* No transport gives work to the device until this returns. Frees memory that was released and
     * kept, since such calls wait for all work of the device; from here on release frees, until
     * native is asked again. False: the device is busy, nothing was done. NULL: nothing is ever
     * kept. */
    bool (*trim)(struct hsp_backend *b);
    /* One op; scratch is the backend's, one per queue. HSP_EUNSUPPORTED: op or dtype. */
    enum hsp_status (*run)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                           struct hsp_err *err);
    /* linear, linear_dx or linear_dw, and its addend, at once; the call's own output is
     * not written. *ret_done false: nothing was given, run one after the other. NULL: never. */
    enum hsp_status (*run_sum)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                               const struct hsp_sum *s, bool *ret_done, struct hsp_err *err);
    /* A product that run, or run_sum where @s is no NULL, may be given later, with the same extents
     * and alignments: work of its first run for which the device would be idle (a library loads
     * kernels) is done now. Its output, which nobody uses, is written; its operands may hold
     * anything. NULL: no run waits. */
    enum hsp_status (*warm)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                            const struct hsp_sum *s, struct hsp_err *err);
    /* Ops, a bit each (1 << op), whose outputs may be added to their present content
     * (hsp_call.adds); 0: none. */
    uint64_t adds;
    /* @n calls of one op of the mask @many at once: as run for each, in any order; none writes
     * memory of another. NULL: never. */
    uint64_t many;
    enum hsp_status (*run_many)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                uint32_t n, struct hsp_err *err);
    /* Calls that follow each other and read the same, at once:
     *   - layernorm_dx or rmsnorm_dx; add, of its output, which then need not be written;
     *     layernorm_dw or rmsnorm_dw of the same operands; bias_db of the sum, or of the first
     *     output where there is none. Behind the first all but the last may be left out. Weights'
     *     gradients are such that may be added.
     *   - gelu_dx; bias_db of its output.
     * *ret_done false: nothing was given, run one after the other. NULL: never. */
    enum hsp_status (*run_chain)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                 uint32_t n, bool *ret_done, struct hsp_err *err);
    /* From @on to its end, run, run_many, run_chain, accumulate, copy, fill and cells of the queue
     * give the device nothing. The first three make the queue's scratch as large as they need it,
     * so that no step takes memory. Operands may hold anything. Between begin and end, which may
     * come then, too, all calls are kept for their key and nothing is done, so that no step builds
     * its replays; a replay that would take the place of another one is not kept (*ret_replayed).
     * NULL: scratch is none of the device's memory. */
    enum hsp_status (*rehearse)(struct hsp_backend *b, enum hsp_devq q, bool on,
                                struct hsp_err *err);
    /* dst += src (HSP_I_ACC), @n elements; @src of the same type or a narrower real one.
     * HSP_EUNSUPPORTED: other types. */
    enum hsp_status (*accumulate)(struct hsp_backend *b, enum hsp_devq q, enum hsp_dtype dst_type,
                                  void *dst, enum hsp_dtype src_type, const void *src, int64_t n,
                                  struct hsp_err *err);
    /* Any memory to any memory, also ordinary memory of the host; the two do not overlap. */
    enum hsp_status (*copy)(struct hsp_backend *b, enum hsp_devq q, void *dst, const void *src,
                            size_t bytes, struct hsp_err *err);
    /* @n elements become @value. */
    enum hsp_status (*fill)(struct hsp_backend *b, enum hsp_devq q, enum hsp_dtype t, void *dst,
                            double value, int64_t n, struct hsp_err *err);
    /* dst[cell] <- src[cell], or their sum or the larger one (a NaN is larger than any); the cell
     * lies in both boxes, dtypes are equal. Either side may lie in HSP_MEM_HOST. */
    enum hsp_status (*cells)(struct hsp_backend *b, enum hsp_devq q,
                             const struct hsp_cell_view *dst, const struct hsp_cell_view *src,
                             const struct hsp_box *cell, enum hsp_cells how, struct hsp_err *err);
    /* ret[k], in HSP_MEM_DEVICE, becomes the hash of all elements of c[k]; @n of them. Of a backend
     * that is no device, beside run only on another queue than HSP_DEVQ_COMPUTE. HSP_EUNSUPPORTED:
     * other types. */
    enum hsp_status (*hash)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_hash_call *c,
                            uint32_t n, uint64_t *ret, struct hsp_err *err);
    /* A ticket for everything given to @q so far. Tickets of a queue never descend, all are above
     * 0; ticket 0 stands for nothing and is always reached. */
    enum hsp_status (*mark)(struct hsp_backend *b, enum hsp_devq q, uint64_t *ret_ticket,
                            struct hsp_err *err);
    /* @q does nothing given from now on until @ticket of @of is reached; the host does not wait. */
    enum hsp_status (*await)(struct hsp_backend *b, enum hsp_devq q, enum hsp_devq of,
                             uint64_t ticket, struct hsp_err *err);
    /* The host waits until @ticket of @of is reached, and then sees the results of the work before
     * it. */
    enum hsp_status (*finish)(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket,
                              struct hsp_err *err);
    /* Whether @ticket of @of is reached, without waiting; by any thread. Also true of a device that
     * has failed: finish says why. */
    bool (*reached)(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket);
    /* Seconds the device spent from one reached mark of a queue to another, both among the newest
     * HSP_MAX_MARKS of it; HSP_ENOENT: one is older, the device goes on. NULL: not measured, or no
     * device. */
    enum hsp_status (*seconds)(struct hsp_backend *b, enum hsp_devq of, uint64_t from, uint64_t to,
                               double *ret, struct hsp_err *err);
    /* Replay. Between begin and end the caller gives @q the same run, run_sum, run_many, run_chain,
     * accumulate, copy, fill and cells with the same pointers for the same key, always, and nothing
     * else; copies there touch HSP_MEM_DEVICE and HSP_MEM_HOST only. *ret_replayed: it is under way
     * already, give nothing and do not call end. Any failure between the two ends it: end is called
     * all the same and forgets the calls. end returns HSP_AGAIN where nothing of it was done,
     * since the device's library would not repeat it: give the same once more, without begin and
     * end. Both NULL: never. */
    enum hsp_status (*begin)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_digest *key,
                             bool *ret_replayed, struct hsp_err *err);
    enum hsp_status (*end)(struct hsp_backend *b, enum hsp_devq q, struct hsp_err *err);
    /* The queue as the device's library knows it (cudaStream_t), for transports that work on it;
     * NULL on a CPU. The calling thread uses this device from then on. Asked again before every
     * work of a transport: until the next trim the device may wait for others. */
    void *(*native)(struct hsp_backend *b, enum hsp_devq q);
    /* Waits for work under way. Memory not released yet is lost. NULL is not fine. */
    void (*close)(struct hsp_backend *b);
};

#endif
