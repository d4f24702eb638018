/* Holds the state of an engine: the struct that all files of worker/exec share, and no others. */
#ifndef HSP_ENGINE_IMPL_H
#define HSP_ENGINE_IMPL_H
#include <pthread.h>

#include "worker/exec/engine.h"
#include "worker/exec/fuse_epilogue.h"
#include "worker/exec/fuse_launch.h"
#include "worker/exec/pace.h"

/* A buffer that grows on demand; used by one queue. */
struct hsp_staging_buffer {
    enum hsp_mem mem;
    enum hsp_devq q;
    void *data; /* owned; the backend's */
    size_t bytes;
};

/* Statistics of a step, in the order of their instructions: values in memory of the host, each 8
 * bytes from the last, written by the device and read by the vote. */
struct hsp_stat_log {
    uint8_t *value; /* owned; the backend's */
    uint8_t *arg, *dtype;
    uint32_t n, cap;
};

/* Where state tensor @row lies. */
struct hsp_state_place {
    int64_t offset, bytes;
    uint32_t row;
};

/* Samples of the data set on their way to a device: slots of host memory in turn. */
#define HSP_LOAD_SLOTS 8
struct hsp_load_ring {
    uint8_t *data; /* owned; the backend's; NULL: nothing to stage */
    size_t each;
    uint32_t next;
    uint64_t ticket[HSP_LOAD_SLOTS]; /* reached: the slot is free */
};

/* Entries of the compute queue whose time on the device is not known yet. */
#define HSP_MAX_SPANS (HSP_MAX_MARKS / 8) /* an entry has a few marks of its own, mostly 2 */
struct hsp_spans {
    struct {
        uint64_t from, to; /* tickets */
    } ring[HSP_MAX_SPANS];
    uint32_t first, n;
    double seconds; /* of those that are known, since the last vote */
};

/* How the instructions of a program are given to the backend, one element each; owned. NULL: one by
 * one, as they are. */
struct hsp_way {
    struct hsp_epilogue *epilogues;
    struct hsp_route *routes;
    struct hsp_fused_launch *launches;
};

/* A call with room for its operands. */
struct hsp_op_call {
    struct hsp_array in[HSP_MAX_IN], out[HSP_MAX_OUT];
    struct hsp_attrs at;
};

/* Of the pieces of the running schedule's compute queue: one that will run, one that has begun. */
enum { HSP_PIECE_RUNS = 1, HSP_PIECE_RAN = 2 };

/* The part of a step that is rehearsed: its replayed runs; and its moves, too. */
enum hsp_rehearsal { HSP_REHEARSE_NONE, HSP_REHEARSE_RUNS, HSP_REHEARSE_ALL };

enum hsp_run_state { HSP_RUN_IDLE, HSP_RUN_GO, HSP_RUN_QUIT };

struct hsp_engine {
    struct hsp_engine_opts o;
    const struct hsp_program *program; /* the running one of the pool, its parts: */
    const struct hsp_template *t;
    const struct hsp_binding *b;
    const struct hsp_way *way; /* of that program */
    struct hsp_way *ways;      /* owned: of each program of the pool; or NULL */
    struct hsp_corpus corpus;
    uint8_t *memory;         /* of the epoch, the device's; all programs use it, one at a time */
    uint8_t *host;           /* the same of the host's memory: tensors of class HOST */
    struct hsp_arena *arena; /* sheets of the running step */

    /* of the thread of the comm queue */
    struct hsp_staging_buffer send, recv; /* packed cells, where the device has them */
    struct hsp_staging_buffer send_staging,
        recv_staging;        /* the same for transports of the host; a device's */
    uint64_t staging_ticket; /* of the comm queue; reached: nobody reads an staging copy */

    struct hsp_staging_buffer fetched[HSP_N_QUEUES]; /* copies for hooks */
    struct hsp_load_ring load[HSP_N_QUEUES];
    struct hsp_stat_log stat[HSP_N_QUEUES]; /* each filled by its queue's thread */
    struct {
        struct hsp_update_scalars *device, *host; /* owned; the backend's */
    } scalars;

    struct { /* state_watch.h; of the compute queue's thread; NULL: not asked for */
        struct hsp_hash_call *call;    /* owned: of each state tensor */
        struct hsp_state_place *place; /* owned: of all of them, ascending */
        struct hsp_state_sums *sums;   /* owned; the device's: of the last update */
        uint64_t *hash;                /* the same: the last hashes */
        struct {                       /* owned; the host's: of versions, by parity */
            struct hsp_state_sums *sums;
            uint64_t *hash;
            uint64_t of; /* the version whose sums these are, plus 1; 0: none */
        } seen[2];
        uint64_t *first;          /* owned; the host's: hashes of the version that was loaded */
        enum hsp_state_watch how; /* of this step */
        bool begun;               /* in this step */
        bool loaded;              /* no update has been done yet */
    } watch;

    struct {                /* the entry that a queue's thread runs */
        bool first;         /* its piece runs for the first time in the step */
        uint32_t stat_base; /* statistics of the queue before it */
    } entry[HSP_N_QUEUES];
    uint8_t *piece; /* owned: of the schedule's compute queue; HSP_PIECE_ bits. Of its thread */
    struct hsp_op_call *calls; /* owned: HSP_MANY_CALLS; of that thread */

    /* the running step; constant while the queues run */
    uint64_t step;
    bool eval;
    enum hsp_rehearsal rehearses; /* the backend rehearses, and moves go by the dry transport */
    struct hsp_comm dry;
    uint32_t warm_seqs; /* of a micro-batch, while products are made ready; else 0 */
    const struct hsp_sched *sched;
    struct hsp_sheet sheet;
    struct hsp_vote vote; /* valid after the VOTE instruction */
    bool voted;
    uint32_t n_noop;

    /* owned; of the running step, NULL: it is not recorded; else constant */
    struct hsp_recorder *rec;

    struct hsp_pace pace;
    _Atomic int64_t compute_ns, wait_ns, comm_ns; /* of the step */
    int64_t voted_ns;                             /* compute_ns when this step voted */
    int64_t late_ns;      /* compute of the step before it, after its vote: the update */
    int64_t last_vote_ns; /* clock; of a device that measures */
    double compute_s;     /* of such a device, between the last two votes */
    double wait_s;
    uint64_t comm_bytes;

    /* order on the device: tickets of the entries given, in order, one array for each queue; the
     * highest one of the other queue that a queue awaits */
    uint64_t *ticket[HSP_N_QUEUES], awaited[HSP_N_QUEUES];
    uint64_t last[HSP_N_QUEUES]; /* of all that was given, once it has been waited for */
    bool retired;                /* gives the device nothing any more */
    bool halted;                 /* and has no thread */

    pthread_t comm_thread;
    pthread_mutex_t lock; /* the following */
    pthread_cond_t cond;
    enum hsp_run_state state;    /* of the comm thread */
    uint32_t done[HSP_N_QUEUES]; /* entries given in the running schedule */
    struct {                     /* for hsp_engine_where */
        uint64_t step, given;    /* given: entries, since it was opened */
        bool runs[HSP_N_QUEUES]; /* the entry behind those done is under way */
        int64_t since_ns[HSP_N_QUEUES];
    } at;
    struct hsp_spans spans;
    struct hsp_recorder *next_rec,
        *last_rec;                        /* owned: that waits for its first step; that is whole */
    struct hsp_err failure;               /* the first one; code HSP_OK: none */
    _Atomic uint32_t instr[HSP_N_QUEUES]; /* begun last */
    atomic_int stop;                      /* set with failure or by abort; read without the lock */
    /* The vote of the step is under way or has passed, and the rest needs no peer: the step is done
     * in spite of an abort. Read without the lock. */
    atomic_int finishes;
    bool lone; /* constant: that is so of each step */
};

/* Whether the queues are to end where they are. */
static inline bool hsp_engine_stops(const struct hsp_engine *e)
{
    return atomic_load(&e->stop) != 0 && atomic_load(&e->finishes) == 0;
}

static inline enum hsp_devq hsp_devq_of(enum hsp_queue q)
{
    return q == HSP_QUEUE_COMPUTE ? HSP_DEVQ_COMPUTE : HSP_DEVQ_COMM;
}

#endif
