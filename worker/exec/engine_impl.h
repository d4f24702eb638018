/* Holds the state of an engine: the structs that the files of worker/exec share. No file outside of
 * worker/exec includes this header. */
#ifndef HSP_ENGINE_IMPL_H
#define HSP_ENGINE_IMPL_H
#include <pthread.h>

#include "worker/exec/engine.h"
#include "worker/exec/fuse_epilogue.h"
#include "worker/exec/fuse_launch.h"
#include "worker/exec/pace.h"

/* A buffer that grows on demand. One queue uses it. */
struct hsp_staging_buffer {
    enum hsp_mem mem;
    enum hsp_devq q;
    void *data; /* owned; memory of the backend */
    size_t bytes;
};

/* Statistics of a step, in the order of their instructions. The device writes the values to memory
 * of the host, 8 bytes apart, and the vote reads them. */
struct hsp_stat_log {
    uint8_t *value; /* owned; memory of the backend */
    uint8_t *arg, *dtype;
    uint32_t n, cap;
};

/* The place of state tensor @row in the memory of the state. */
struct hsp_state_place {
    int64_t offset, bytes;
    uint32_t row;
};

/* Host memory through which samples of the data set go to a device: slots that take turns. */
#define HSP_LOAD_SLOTS 8
struct hsp_load_ring {
    uint8_t *data; /* owned; memory of the backend; NULL: on a CPU */
    size_t each;
    uint32_t next;
    uint64_t ticket[HSP_LOAD_SLOTS]; /* when it is reached, the slot is free */
};

/* Entries of the compute queue for which the engine has not yet read the device's time. */
#define HSP_MAX_SPANS (HSP_MAX_MARKS / 8) /* an entry has a few marks of its own, mostly 2 */
struct hsp_spans {
    struct {
        uint64_t from, to; /* tickets */
    } ring[HSP_MAX_SPANS];
    uint32_t first, n;
    double seconds; /* of the entries read since the last vote */
};

/* How the engine gives the instructions of a program to the backend. Each array is owned and has
 * one element for each instruction. NULL: no instruction is fused or routed. */
struct hsp_way {
    struct hsp_epilogue *epilogues;
    struct hsp_route *routes;
    struct hsp_fused_launch *launches;
};

/* The operands and attributes of one call of the backend. */
struct hsp_op_call {
    struct hsp_array in[HSP_MAX_IN], out[HSP_MAX_OUT];
    struct hsp_attrs at;
};

/* Bits of a piece of the running schedule's compute queue: it will run; it has begun. */
enum { HSP_PIECE_RUNS = 1, HSP_PIECE_RAN = 2 };

/* The part of a step that is rehearsed: its replayed runs; and its moves, too. */
enum hsp_rehearsal { HSP_REHEARSE_NONE, HSP_REHEARSE_RUNS, HSP_REHEARSE_ALL };

enum hsp_run_state { HSP_RUN_IDLE, HSP_RUN_GO, HSP_RUN_QUIT };

struct hsp_engine {
    struct hsp_engine_opts o;
    const struct hsp_program *program; /* the running program, and its parts: */
    const struct hsp_template *t;
    const struct hsp_binding *b;
    const struct hsp_way *way; /* of the running program */
    struct hsp_way *ways;      /* owned: of each program of the pool; or NULL */
    struct hsp_corpus corpus;
    uint8_t *memory; /* the epoch's memory on the device; all programs use it, one at a time */
    uint8_t *host;   /* the epoch's memory of the host: tensors of class HOST */
    struct hsp_arena *arena; /* step sheets (proto/program/sheet.h) of the running step */

    /* used by the thread of the comm queue only: */
    struct hsp_staging_buffer send, recv; /* packed cells in memory of the device */
    /* Staging copies of packed cells, for transports of the host; used if there is a device. */
    struct hsp_staging_buffer send_staging, recv_staging;
    /* When this ticket of the comm queue is reached, the device no longer reads a staging copy. */
    uint64_t staging_ticket;

    struct hsp_staging_buffer fetched[HSP_N_QUEUES]; /* copies that hsp_engine_fetch makes */
    struct hsp_load_ring load[HSP_N_QUEUES];
    struct hsp_stat_log stat[HSP_N_QUEUES]; /* each queue's thread fills its own */
    struct {
        struct hsp_update_scalars *device, *host; /* owned; memory of the backend */
    } scalars;

    /* state_watch.h. Used by the compute queue's thread; pointers are NULL if updates are not
     * watched. */
    struct {
        struct hsp_hash_call *call;    /* owned: one for each state tensor */
        struct hsp_state_place *place; /* owned: of all state tensors, in ascending order */
        struct hsp_state_sums *sums;   /* owned; on the device: sums of the last update */
        uint64_t *hash;                /* owned; on the device: the last hashes */
        struct {                       /* owned; on the host: of version v at index v mod 2 */
            struct hsp_state_sums *sums;
            uint64_t *hash;
            uint64_t of; /* the version with these sums, plus 1; 0: none */
        } seen[2];
        uint64_t *first;          /* owned; on the host: hashes of the version loaded */
        enum hsp_state_watch how; /* how this step's update is watched */
        bool begun;               /* the first update of this step has begun */
        bool loaded;              /* no update has been done yet */
    } watch;

    struct {                /* the entry that the queue's thread runs */
        bool first;         /* the entry's piece runs for the first time in the step */
        uint32_t stat_base; /* statistics of the queue before the entry */
    } entry[HSP_N_QUEUES];
    /* Both are used by the thread of the compute queue only. */
    uint8_t *piece;            /* owned: HSP_PIECE_ bits of each piece of the running schedule */
    struct hsp_op_call *calls; /* owned: HSP_MANY_CALLS of them */

    /* the running step; these are constant while the queues run: */
    uint64_t step;
    bool eval;
    /* While the backend rehearses, moves use a transport that sends nothing. */
    enum hsp_rehearsal rehearses;
    struct hsp_comm dry;
    uint32_t warm_seqs; /* sequences of a micro-batch while products are warmed up; else 0 */
    const struct hsp_sched *sched;
    struct hsp_sheet sheet;
    struct hsp_vote vote; /* valid after the VOTE instruction */
    bool voted;
    uint32_t n_noop;

    /* owned; records the running step. NULL: the step is not recorded. Constant while the queues
     * run. */
    struct hsp_recorder *rec;

    struct hsp_pace pace;
    _Atomic int64_t compute_ns, wait_ns, comm_ns; /* of the step */
    int64_t voted_ns;                             /* compute_ns at this step's vote */
    int64_t late_ns;      /* compute time of the step before after its vote: of the update */
    int64_t last_vote_ns; /* host's clock; used if the device measures its seconds */
    double compute_s;     /* measured by the device between the last two votes */
    double wait_s;
    uint64_t comm_bytes;

    /* Order on the device: for each queue the tickets of the entries given, in order, and the
     * highest ticket of the other queue that the queue awaits. */
    uint64_t *ticket[HSP_N_QUEUES], awaited[HSP_N_QUEUES];
    uint64_t last[HSP_N_QUEUES]; /* ticket of all work given, once settle() has waited for it */
    bool retired;                /* the engine gives no more work to the device */
    bool halted;                 /* the engine is retired and its thread has ended */

    pthread_t comm_thread;
    pthread_mutex_t lock; /* guards the fields below that are not atomic */
    pthread_cond_t cond;
    enum hsp_run_state state;    /* of the comm thread */
    uint32_t done[HSP_N_QUEUES]; /* entries given in the running schedule */
    struct {                     /* for hsp_engine_where */
        uint64_t step, given;    /* given: entries since the engine was opened */
        bool runs[HSP_N_QUEUES]; /* entry number done[q] is under way */
        int64_t since_ns[HSP_N_QUEUES];
    } at;
    struct hsp_spans spans;
    /* Owned: a recorder that waits for its first step; a recorder that has all its steps. */
    struct hsp_recorder *next_rec, *last_rec;
    struct hsp_err failure;               /* the first failure; code HSP_OK: none */
    _Atomic uint32_t instr[HSP_N_QUEUES]; /* the instruction begun last */
    /* set with failure, or by an abort; also read without the lock */
    atomic_int stop;
    /* The step's vote is under way or has passed, and the rest of the step needs no peer: the step
     * finishes in spite of an abort. Also read without the lock. */
    atomic_int finishes;
    bool lone; /* constant: no step needs a peer after its vote */
};

/* Returns true if the queues must stop before their next instruction. */
static inline bool hsp_engine_stops(const struct hsp_engine *e)
{
    return atomic_load(&e->stop) != 0 && atomic_load(&e->finishes) == 0;
}

static inline enum hsp_devq hsp_devq_of(enum hsp_queue q)
{
    return q == HSP_QUEUE_COMPUTE ? HSP_DEVQ_COMPUTE : HSP_DEVQ_COMM;
}

#endif
