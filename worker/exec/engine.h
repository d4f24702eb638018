/* Runs the steps of one program (proto/program/program.h) on one device: the engine.
 *
 * Role:       a library under `hspmd-worker --run` (loop transport) and the executor process (mesh
 *             transport).
 * Threads:    hsp_engine_step runs the compute queue on the calling thread (one caller at a time)
 *             and the communication queue on a thread of the engine's own. hsp_engine_abort may be
 *             called from any thread at any time between open and close. Each hook names the thread
 *             that calls it; hooks of a step's vote and seal never run on both threads at once.
 * Device:     If the backend is a device (hsp_backend.device), the threads give work to its queues
 *             and go on. So work of a step, or of the instruction of a hook, may still be under way
 *             when the step has returned or the hook runs; only the vote waits for its data. Views
 *             then name memory of the device (hsp_engine_fetch copies it to the host).
 * Ownership:  program, backend, comm, data set and the memory of the state are borrowed and must
 *             outlive the engine. The engine owns the epoch's memory, on the device and on
 *             the host, pack buffers and its thread.
 * Bounds:     the bounds of the program; pack buffers grow to the largest move.
 * Invariants: (I1) step t reads version t of the state and, after its vote has passed, writes
 *                  version t + 1 over version t. Nothing writes the state before that vote. A no-op
 *                  step writes no state at all: its version t + 1 is version t.
 *             (I2) after a step returned an error no thread of the engine touches the state any
 *                  more, and every later step fails: close the engine. A part of the state may then
 *                  be version t and the rest version t + 1.
 *             (I3) in a lone engine (hsp_engine_is_lone), once a vote has passed and its hooks have
 *                  succeeded, an abort or the loss of a peer does not stop the update: all of
 *                  version t + 1 is written and reported (`sealed`), unless the device or an op
 *                  fails.
 */
#ifndef HSP_ENGINE_H
#define HSP_ENGINE_H
#include "worker/backend/backend.h"
#include "worker/backend/cells.h"
#include "worker/comm/comm.h"
#include "worker/data/dataset.h"
#include "worker/exec/record.h"
#include "worker/exec/vote.h"

#define HSP_MAX_NOOP_STEPS 10 /* after so many in a row training has diverged */

struct hsp_engine; /* opaque */

/* Describes a version of the state that an update has written. */
struct hsp_written {
    uint64_t version;
    /* Once the host has finished `ticket` of `queue`, or another queue has awaited this ticket, all
     * of the state is this version, until the next step's vote passes. */
    enum hsp_devq queue;
    uint64_t ticket;
    bool noop;   /* the step has written nothing: the state equals the version before */
    bool loaded; /* no update of this engine has written yet: the state is the version loaded */
    /* The arrays below have one element for each state tensor, in the order of the binding, and are
     * valid from when the ticket is reached until the update of the step after the next. */
    /* Sums that the last update has read and written; NULL: not made, or not known. */
    const struct hsp_state_sums *sums;
    /* The `sums` of the version before. Their `wrote` equals the `read` of this version's `sums`
     * unless the state was damaged in between. NULL: not known, or the step was a no-op and has
     * read nothing. */
    const struct hsp_state_sums *before;
    /* Hashes (D10) of the state that was written; NULL: not made. */
    const uint64_t *hash;
    /* Hashes of the version before, as the first update of this engine has read it: the version
     * with which the engine was opened, or a version equal to it after no-op steps. NULL: the
     * update was not the first, or was not watched. */
    const uint64_t *first;
};

/* How the update of a step is watched (state_watch.h). Each value includes the values before it. */
enum hsp_state_watch {
    HSP_WATCH_NONE,
    HSP_WATCH_SUMS,
    HSP_WATCH_HASHES /* hashes of the version that the update writes, too */
};

/* Hooks, each of them optional. If a hook returns a status other than HSP_OK, the step ends with
 * this status. */
struct hsp_engine_hooks {
    void *ctx;
    /* Called before this rank sends its record of step @mine->step. When the hook has returned and
     * the vote has passed, version mine->step may be written over. The hook may wait, and may set
     * armed and flags. Thread: comm. */
    enum hsp_status (*before_vote)(void *ctx, struct hsp_vote_record *mine, struct hsp_err *err);
    /* Called when all ranks' records have arrived. Thread: comm. */
    enum hsp_status (*passed)(void *ctx, const struct hsp_vote *v,
                              const struct hsp_vote_record *all, uint32_t n, struct hsp_err *err);
    /* Called when a version is written: on a CPU all of it is written by now, on a device when the
     * ticket of @w is reached. Thread: of the SEAL instruction. */
    enum hsp_status (*sealed)(void *ctx, const struct hsp_written *w, struct hsp_err *err);
    /* Called between the products that run before the first step, which may take seconds. Returns
     * true to give up the opening. Thread: of hsp_engine_open. NULL: never gives up. */
    bool (*ended)(void *ctx);
    /* Returns how this step's update is watched. Called once a step, after the vote and before the
     * update. Thread: compute. NULL: HSP_WATCH_SUMS. */
    enum hsp_state_watch (*watch)(void *ctx);
    /* Called after every instruction (for verification), on the instruction's thread. On a device
     * the instruction may still be under way; hsp_engine_fetch waits for it. */
    enum hsp_status (*traced)(void *ctx, uint32_t instr, uint32_t micro, bool eval,
                              struct hsp_err *err);
};

struct hsp_engine_opts {
    const struct hsp_program *program; /* checked */
    /* The other programs of a pool (proto/program/pool.h, checked): those for shorter sequences,
     * in ascending order. */
    const struct hsp_program *const *shorter;
    uint32_t n_shorter;
    /* The backend; it uses one thread if the engine is paced. */
    struct hsp_backend *backend;
    /* Transport of the host's memory, for votes and for groups that @direct does not reach. */
    struct hsp_comm *comm;
    struct hsp_comm *direct; /* transport of the device's memory for the same ranks; NULL: none */
    const struct hsp_dataset *dataset;
    /* Digest of the data set, which votes compare; zero on all ranks: not computed. */
    struct hsp_digest data_digest;
    void *state;     /* state_bytes, aligned to 64; on a device in HSP_MEM_DEVICE */
    bool watches;    /* updates are watched (state_watch.h) */
    double speed;    /* the part of a core that the device is worth (pace.h); 0: not paced */
    uint32_t n_noop; /* no-op steps in a row up to the first step of this engine */
    struct hsp_engine_hooks hooks;
};

struct hsp_step_result {
    struct hsp_vote vote;
    uint32_t n_noop;   /* no-op steps in a row, this step included */
    uint32_t sequence; /* tokens of the step's sequences, which tell the program of a pool */
    double seconds;    /* duration of the step */
    /* Seconds in instructions of the compute queue, pacing included, and seconds in which this
     * queue waits for communication. If the device measures its seconds itself, both cover the time
     * from the vote before to the vote of this step. */
    double compute_s;
    double wait_s;
    double comm_s;       /* seconds in instructions of the comm queue, their waiting included */
    uint64_t comm_bytes; /* bytes that this rank has sent or summed */
};

/* Opens an engine: takes its memory, and runs products and rehearsals where the backend has them.
 * Returns HSP_EINVAL if the data set does not fit the program (hsp_dataset_corpus), or a transport
 * is of another rank or of other memory; HSP_ENOMEM with a message that says how many bytes;
 * HSP_ECANCELED if hooks.ended returned true; errors of the backend. */
enum hsp_status hsp_engine_open(const struct hsp_engine_opts *o, struct hsp_engine **ret,
                                struct hsp_err *err);
/* Halts an engine that runs no step: ends its thread and waits for the device. After that nothing
 * of the engine writes memory, and only close may follow. NULL is fine. */
void hsp_engine_halt(struct hsp_engine *e);
/* Halts the engine if it is not halted, and frees all its memory, which takes long if there is
 * much. NULL is fine; returns NULL. */
struct hsp_engine *hsp_engine_close(struct hsp_engine *e);

/* Retires an engine when no step follows: waits for the device and frees the engine's memory of the
 * backend, so that another engine can take the memory and the queues. The retired engine gives no
 * more work to the queues. Call it between steps, on the thread of the steps. Abort and close do as
 * before, and may be called while the other engine runs. NULL is fine. */
void hsp_engine_retire(struct hsp_engine *e);

/* Runs step @step: validation if it is due, then training, vote, update, seal. Writes @ret on
 * success only. After an error I2 holds. Returns HSP_EPEER if a peer was lost; HSP_ECANCELED if the
 * engine was aborted, or was stopped by an earlier failure; HSP_ESTATE if HSP_MAX_NOOP_STEPS no-op
 * steps in a row show that training diverged; errors of ops, data and hooks. */
enum hsp_status hsp_engine_step(struct hsp_engine *e, uint64_t step, struct hsp_step_result *ret,
                                struct hsp_err *err);

/* Waits until the device has done all steps that have returned. Call it between steps. Returns
 * errors of the device. */
enum hsp_status hsp_engine_finish(struct hsp_engine *e, struct hsp_err *err);

/* Ends the running step and aborts the transports; a later step fails with HSP_ECANCELED. A step
 * whose vote has passed fails, too, but a lone engine finishes the update first (I3). */
void hsp_engine_abort(struct hsp_engine *e);
/* Returns true if no step needs another rank after its vote (lone_update.h). */
bool hsp_engine_is_lone(const struct hsp_engine *e);

/* The place that the running step has reached: an entry of the communication queue if one is under
 * way, else of the compute queue. */
struct hsp_engine_place {
    uint64_t step;
    bool validation;
    uint32_t micro, instruction; /* UINT32_MAX: no entry is under way */
    int64_t since_ns;            /* when the entry began; 0: no entry is under way */
    uint64_t given;              /* entries given since the engine was opened */
};
/* Tells the place of the running step. Any thread may call it between open and close. */
void hsp_engine_where(struct hsp_engine *e, struct hsp_engine_place *ret);

/* Returns the program of the running step, or of the last step if none runs. */
const struct hsp_program *hsp_engine_program(const struct hsp_engine *e);

/* Finds a tensor for the host to read. On a device @ret is a copy of the tensor, made after all
 * work that queue @q was given so far; the host waits for the copy, which is valid until the next
 * call for @q. In a hook @q is the queue of the hook's instruction; hooks of a vote belong to the
 * comm queue. Returns HSP_ENOMEM, or errors of the device. */
enum hsp_status hsp_engine_fetch(struct hsp_engine *e, enum hsp_queue q, uint32_t tensor,
                                 uint32_t micro, struct hsp_cell_view *ret, struct hsp_err *err);

/* Returns the number of sequences of micro-batch @micro in the running schedule. *ret_first: the
 * position of the first of them in the global batch (or validation list). */
uint32_t hsp_engine_micro(const struct hsp_engine *e, uint32_t micro, uint32_t *ret_first);

#endif
