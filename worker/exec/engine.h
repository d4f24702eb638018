/* Runs the steps of one program on one device: the engine.
 *
 * Role:       a library under `hspmd-worker --run` (loop) and the executor process (mesh).
 * Threads:    hsp_engine_step runs the compute queue on the calling thread (one caller at a time)
 *             and the communication queue on a thread of the engine's own. hsp_engine_abort may be
 *             called from any thread at any time between open and close. Hooks run on either of the
 *             two threads, as said; never both at once for one step's vote or seal.
 * Device:     of a backend that is a device the threads give work and go on: a step that has
 *             returned, and the instruction of a hook, may still be under way; only the vote waits
 *             for its data. Views are then memory of the device (hsp_engine_fetch).
 * Ownership:  program, backend, comm, data set and the memory of the state are borrowed and must
 *             outlive the engine. The engine owns the epoch's memory, on the device and on
 *             the host, pack buffers and its thread.
* Bounds:     as the program's; pack buffers grow to the largest move.
 * Invariants: (I1) step t reads version t of the state and, behind its passed vote, writes version
 *                  t + 1 over it. Nothing writes state before that vote. A no-op step writes no
 *                  state at all: its version t + 1 is version t.
 *             (I2) after a step returned an error no thread of the engine touches the state any
 *                  more, and every later step fails: close it. The state may be torn: part of it
 *                  version t, part t + 1.
 *             (I3) in a lone engine, behind a vote that passed and hooks that succeeded, an abort
 *                  or the loss of a peer ends no update: version t + 1 is whole, and told
 *                  (`sealed`), unless the device or an op fails.
 */
#ifndef HSP_ENGINE_H
#define HSP_ENGINE_H
#include "worker/backend/backend.h"
#include "worker/backend/cells.h"
#include "worker/comm/comm.h"
#include "worker/data/dataset.h"
#include "worker/exec/record.h"
#include "worker/exec/vote.h"

#define HSP_MAX_NOOP_STEPS 10 /* in a row, then training has diverged */

struct hsp_engine; /* opaque */

/* A version that has been written. */
struct hsp_written {
    uint64_t version;
    enum hsp_devq queue; /* when the host has finished this ticket of it, or another queue awaits */
    uint64_t ticket;     /* it, the state is this version, whole, until the vote of the next step */
    bool noop;           /* the step has written nothing: this version is the one before */
    bool loaded;         /* no step of this engine has: it is the version that it began with */
    /* One element for each state tensor, in the order of the binding. Valid behind the ticket,
     * until the update of the step after the next one. */
    const struct hsp_state_sums *sums; /* of this version; NULL: not made, or not known */
    /* Of the version before, whose `wrote` is to be sums.read of this one. NULL: not known, or
     * the step was a no-op and has read nothing. */
    const struct hsp_state_sums *before;
    /* Hashes (D10) as the state was written; NULL: not made. */
    const uint64_t *hash;
    /* The same of the version before as the update has read it, where that is the version that the
     * engine began with, or equal to it; NULL: it is another one. */
    const uint64_t *first;
};

/* How the update of a step is watched (hsp_written); each value includes the one before. */
enum hsp_state_watch {
    HSP_WATCH_NONE,
    HSP_WATCH_SUMS,
    HSP_WATCH_HASHES /* of the version written */
};

/* All optional. A status that is not HSP_OK ends the step with it. */
struct hsp_engine_hooks {
    void *ctx;
    /* Before this rank's record of step @mine->step leaves: version mine->step may be written over
     * when this returns and the vote has passed. May wait; may set armed and flags. Comm thread. */
    enum hsp_status (*before_vote)(void *ctx, struct hsp_vote_record *mine, struct hsp_err *err);
    /* All records are here. Comm thread. */
    enum hsp_status (*passed)(void *ctx, const struct hsp_vote *v,
                              const struct hsp_vote_record *all, uint32_t n, struct hsp_err *err);
    /* A version is written: on a CPU it is whole now, on a device at the ticket. The thread of the
     * SEAL instruction. */
    enum hsp_status (*sealed)(void *ctx, const struct hsp_written *w, struct hsp_err *err);
    /* Between products that are run before the first step, which may take seconds: whether to give
     * up. The opener's thread. NULL: never. */
    bool (*ended)(void *ctx);
    /* How this step's update is watched. Once a step, between vote and update; the thread of the
     * compute queue. NULL: HSP_WATCH_SUMS. */
    enum hsp_state_watch (*watch)(void *ctx);
    /* After every instruction (verification): instruction, micro-batch. The instruction's thread.
     * Of a device it is under way; hsp_engine_fetch waits for it. */
    enum hsp_status (*traced)(void *ctx, uint32_t instr, uint32_t micro, bool eval,
                              struct hsp_err *err);
};

struct hsp_engine_opts {
    const struct hsp_program *program; /* checked */
    /* Of a pool (proto/program/pool.h, checked): the programs for shorter sequences, ascending. */
    const struct hsp_program *const *shorter;
    uint32_t n_shorter;
    struct hsp_backend *backend; /* one thread when paced */
    struct hsp_comm *comm; /* of the host's memory: votes, and groups that @direct does not reach */
    struct hsp_comm *direct; /* of the device's memory, for the same ranks; NULL: none */
    const struct hsp_dataset *dataset;
    struct hsp_digest data_digest; /* of it; votes compare it. Zero: not computed, on all ranks */
    void *state;                   /* state_bytes, aligned to 64; HSP_MEM_DEVICE of a device */
    bool watches;                  /* updates are watched */
    double speed;                  /* of a core, see pace.h; 0: not paced */
    uint32_t n_noop;               /* no-op steps in a row before the first step here */
    struct hsp_engine_hooks hooks;
};

struct hsp_step_result {
    struct hsp_vote vote;
    uint32_t n_noop;     /* no-op steps in a row, this one included */
    uint32_t sequence;   /* tokens of its sequences: which plan of a pool it was */
    double seconds;      /* of the whole step */
    double compute_s;    /* in instructions of the compute queue, pacing included */
    double wait_s;       /* compute queue waiting for communication; both of a device: from vote to
                            vote, as it measured them itself */
    double comm_s;       /* in instructions of the communication queue, their waiting included */
    uint64_t comm_bytes; /* packed for sending or summing */
};

/* HSP_EINVAL: the data do not fit (corpus), comm of another rank; HSP_ENOMEM says how many bytes;
 * HSP_ECANCELED: hooks.ended. */
enum hsp_status hsp_engine_open(const struct hsp_engine_opts *o, struct hsp_engine **ret,
                                struct hsp_err *err);
/* Halts an engine without a running step, and waits for the device. Then nothing of the engine
 * writes memory, and only close may follow. NULL is fine. */
void hsp_engine_halt(struct hsp_engine *e);
/* Halts where that has not been done, and frees all: takes long where that is much. NULL is
 * fine; returns NULL. */
struct hsp_engine *hsp_engine_close(struct hsp_engine *e);

/* Retires an engine, since no step follows: waits for the device and frees its memory, so that
 * another engine may have the memory and the queues. No more work is given to them. Between steps,
 * on the thread of the steps; abort and close are as before, and may be called while the other
 * engine runs. NULL is fine. */
void hsp_engine_retire(struct hsp_engine *e);

/* Runs step @step: validation when it is due, then training, vote, update, seal.
 * HSP_EPEER, HSP_ECANCELED (aborted), HSP_ESTATE (diverged, or failed before), errors of ops, data
 * and hooks: I2. @ret is written on success only. */
enum hsp_status hsp_engine_step(struct hsp_engine *e, uint64_t step, struct hsp_step_result *ret,
                                struct hsp_err *err);

/* Waits until the device has done all steps that have returned. Between steps. Errors of the
 * device. */
enum hsp_status hsp_engine_finish(struct hsp_engine *e, struct hsp_err *err);

/* Ends the running step and hangs up the hsp_comm; a later step fails with HSP_ECANCELED. A step
 * whose vote has passed fails, too, but of a lone engine the update is done first: I3. */
void hsp_engine_abort(struct hsp_engine *e);
/* Whether behind a vote no step needs another rank (lone_update.h). */
bool hsp_engine_is_lone(const struct hsp_engine *e);

/* Where the running step stands: in the communication queue when an entry of that is under way,
 * else in the compute queue. */
struct hsp_engine_place {
    uint64_t step;
    bool validation;
    uint32_t micro, instruction; /* UINT32_MAX: none, between steps */
    int64_t since_ns;            /* its entry began; 0: none */
    uint64_t given;              /* entries, since the engine was opened */
};
/* Any thread, between open and close. */
void hsp_engine_where(struct hsp_engine *e, struct hsp_engine_place *ret);

/* The program of the running step, or of the last one. */
const struct hsp_program *hsp_engine_program(const struct hsp_engine *e);

/* Finds a tensor for the host to read. On a device it is a copy of the tensor after all work that
 * queue @q was given so far, for which the host waits; valid until the next call for that queue. In
 * hooks of an instruction @q is its queue, those of a vote belong to the comm queue. HSP_ENOMEM,
 * errors of the device. */
enum hsp_status hsp_engine_fetch(struct hsp_engine *e, enum hsp_queue q, uint32_t tensor,
                                 uint32_t micro, struct hsp_cell_view *ret, struct hsp_err *err);

/* Sequences of micro-batch @micro of the running schedule, and the position in the global batch (or
 * validation list) of its first one. */
uint32_t hsp_engine_micro(const struct hsp_engine *e, uint32_t micro, uint32_t *ret_first);

#endif
