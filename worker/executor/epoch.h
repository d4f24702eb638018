/* Runs one epoch of one job on one device, from PREPARE to its end.
 *
 * Role:      the executor's control thread (executor.c) opens and closes the epoch. The *run
 *            thread* of the epoch builds the program and the meshes, waits for START or a
 *            hand-over, fetches the state, and trains. The *replication thread* seals each due
 *            version, sends its copies, and writes the checkpoints.
 * Threads:   fields under `lock` are shared by the three threads and signalled by `cond`; the run
 *            thread owns all other fields until it has ended. The run thread uses the data mesh
 *            (the engine). The run thread uses the state mesh and the move mesh until it has made
 *            the replication thread, which uses both from then on. In a transfer the run thread
 *            takes the weights and begins a forward, and the replication thread takes the rest
 *            beside the forward. The engine writes no state before the first vote, and that vote
 *            waits for the copies of the first version.
 * Ownership: the epoch owns its arena, meshes, mapped segments, engine and threads.
 * Contract:  worker/agent/EXECUTOR.md.
 */
#ifndef HSP_EPOCH_H
#define HSP_EPOCH_H
#include <pthread.h>
#include <stdatomic.h>
#include "proto/host/log.h"
#include "proto/program/data_cursor.h"
#include "proto/wire/msg.h"
#include "proto/wire/msg_blob.h"
#include "worker/comm/mesh/mesh.h"
#include "worker/data/data_cache.h"
#include "worker/data/data_watch.h"
#include "worker/exec/engine.h"
#include "worker/exec/pace.h"
#include "worker/exec/step_trace.h"
#include "worker/executor/agent_channel.h"
#include "worker/executor/disk_thread.h"
#include "worker/executor/due.h"
#include "worker/executor/due_distance.h"
#include "worker/executor/epoch_device.h"
#include "worker/executor/nccl_log.h"
#include "worker/executor/reaper.h"
#include "worker/executor/segment_pool.h"
#include "worker/executor/version_slots.h"
#include "worker/probe/nccl_place.h"
#include "worker/state/segment.h"

/* Shared by all epochs of one executor; set up once by the control thread. */
struct hsp_exec_env {
    const char *state_dir, *node;
    uint32_t device;
    double speed;          /* part of a core; 0: not paced */
    uint64_t mem_bytes;    /* memory offered to jobs */
    atomic_uint on_device; /* number of epochs that have memory of the device */
    uint64_t connect_ms;   /* time limit for connecting a mesh */
    const char *audit_dir; /* folder for notes of the samples of committed steps; NULL: none */
    const char *kill_dir;  /* folder for orders of tests (kill_point.h); NULL: none */
    const char *bare_file; /* file of tests (unprotected.h); NULL: none */
    atomic_uint writing;   /* number of checkpoints that are being written */
    struct hsp_disk_threads disks;
    uint32_t disk_ms; /* time limit for a file system to answer; 0: HSP_DISK_MS */
    struct hsp_backend *backend;
    struct hsp_nccl *nccl; /* NCCL of a GPU; NULL: none */
    struct hsp_nccl_look nccl_look;
    struct hsp_nccllog *nccl_log; /* log of NCCL; NULL: NCCL has no log here */
    /* The last line of the log on the use of NCCL between hosts. */
    char nccl_place_told[HSP_IPNETS_TEXT + 64];
    atomic_bool failed;               /* the device failed; logged once, and the process ends */
    struct hsp_segment_pool segments; /* segments of ended epochs */
    pthread_mutex_t greets;           /* held while communicators are made; zeros: open */
    atomic_bool untrimmed; /* an epoch has given memory of the device back since the last trim */
    /* Reapers of ended epochs: device_reaper gives back the memory that the device needs again,
     * then reaper the rest. NULL: the caller gives the memory back itself. */
    struct hsp_reaper *device_reaper, *reaper;
    struct hsp_gift trim;    /* the trim of the device, for device_reaper */
    size_t pin_piece;        /* bytes of a segment pinned at a time; 0: HSP_ROOM_PIECE */
    atomic_bool unpinned;    /* the log has said that a segment could not be pinned */
    atomic_uint nccl_failed; /* times in a row that communicators could not be made */
    struct hsp_data_cache *data;
    struct hsp_mesh_listener *listener;
    struct hsp_chan *chan;
    struct hsp_logger *log;
    int wake_fd; /* eventfd that wakes the control thread */
    /* The last job of which the log says that this device computes in another type than the job
     * asks for; 0: none. */
    atomic_uint *told;
};

/* Figures of the transfer at the start of an epoch. */
struct hsp_fetched {
    uint64_t bytes;      /* bytes received */
    uint64_t passed_on;  /* bytes received for another rank and forwarded to that rank */
    double weights_ms;   /* from knowing the version until all weights are here */
    double optimizer_ms; /* for the rest of the state, beside a forward */
    double seal_ms;      /* for the hashes of the new segment */
};

enum hsp_epoch_phase {
    HSP_EPOCH_BUILDING, /* PREPARE is being answered */
    HSP_EPOCH_READY,    /* READY is sent; the epoch waits for its begin */
    HSP_EPOCH_MOVING,   /* fetches the state; a member: the weights */
    HSP_EPOCH_RUNNING,  /* trains, or takes versions; `moved` may become true later */
    HSP_EPOCH_SERVING,  /* a source has sent its rows, or all steps are done */
    HSP_EPOCH_LEFT,     /* handed over to the next epoch; kept until that epoch has voted once */
    HSP_EPOCH_FAILED    /* building failed, or the epoch broke and is sealed */
};

/* The meshes of an epoch, one for each purpose: a step never waits for a copy in front of its
 * gradients, and a source that has served may leave without breaking the members. */
enum hsp_epoch_mesh {
    HSP_MESH_DATA,  /* of members, for the engine */
    HSP_MESH_STATE, /* of members and replica holders, for copies, checkpoints and restores */
    HSP_MESH_MOVE,  /* of all peers, for the state at the start of the epoch */
    HSP_EPOCH_MESHES
};

/* A copy of another rank's home that this device keeps. */
struct hsp_epoch_copy {
    uint32_t owner;
    struct hsp_state_segment *seg[2];
    size_t pinned[2]; /* pinned bytes at the front of each segment: spares of homes are pinned */
    struct hsp_slots slots;
    uint64_t *hash; /* hashes of the rows of a segment, as they came last */
};

/* Notes of the audit on the compute queue (audit.h). */
#define HSP_ACTIVITY_RECORDS 512
struct hsp_activity_record {
    int64_t ns;
    uint32_t epoch, segment;
};
struct hsp_activity {
    uint32_t n;
    struct hsp_activity_record record[HSP_ACTIVITY_RECORDS];
};

/* A trace of an epoch (epoch_trace.c); under the lock of the epoch. */
#define HSP_STATE_SPANS 256 /* a seal, a copy and a checkpoint of each step, with room */
struct hsp_epoch_record {
    uint32_t flags;  /* flags for rank 0's next vote record; 0: no trace is wanted */
    uint32_t number; /* number of the trace that is being recorded; 0: none */
    uint32_t n_state;
    struct hsp_state_span state[HSP_STATE_SPANS]; /* work of the replication thread */
};

/* Times of the seals of an epoch; used by the thread that seals. */
struct hsp_seal_times {
    uint64_t n;
    int64_t copy_ns, seal_ns; /* total time of copies to segments; total time of their hashes */
};

/* Number of the newest steps that are reported again when an epoch breaks, a message for each step:
 * rank 0 may have died before its report, and hspmdd may have been down for some seconds. */
#define HSP_EPOCH_SAID 64
/* The most steps that rank 0 keeps for replica holders: 44 minutes in which the replication thread
 * writes a checkpoint, where a step takes 10 ms. These steps take 19 MB. */
#define HSP_EPOCH_UNTOLD ((size_t)1 << 18)
struct hsp_said {
    uint32_t n; /* steps so far; the newest HSP_EPOCH_SAID are in `step` */
    struct hsp_said_step {
        uint64_t step, tokens; /* as in struct hsp_m_step */
        double loss, val_loss, grad_norm, lr, seconds;
        uint32_t sequence;
    } step[HSP_EPOCH_SAID];
    /* Owned: at rank 0 the steps that its replica holders have not been told, where not every
     * version is due. */
    struct hsp_said_step *untold;
    size_t n_untold, cap_untold;
};

/* The reason why no member could begin with the checkpoint that PREPARE names. */
enum hsp_ckpt_refusal { HSP_CKPT_TAKEN, HSP_CKPT_GONE, HSP_CKPT_DAMAGED };

/* The work of the replication thread. */
enum hsp_replication_work {
    HSP_KEEPER_NONE, /* there is no replication thread */
    HSP_KEEPER_IDLE,
    HSP_REPLICATION_FETCH,
    HSP_REPLICATION_SEAL,
    HSP_KEEPER_COPY,
    HSP_REPLICATION_TELL,
    HSP_REPLICATION_CHECKPOINT,
    HSP_KEEPER_END
};
/* The work of the threads of an epoch outside engine and meshes. */
struct hsp_epoch_threads {
    bool awaits_copies; /* a vote waits until a version is saved or confirmed */
    bool hurries;       /* the vote waits for the confirmation: copies do not yield */
    int64_t awaits_ns;  /* begin of that wait */
    enum hsp_replication_work work;
    int64_t work_ns;
};

struct hsp_ex_epoch {
    struct hsp_exec_env *env;
    struct hsp_arena *arena;
    struct hsp_msg msg;            /* the PREPARE, cloned */
    const struct hsp_m_prepare *p; /* points into `msg` */
    uint64_t number;
    struct hsp_package pkg;
    struct hsp_program prog; /* of a member; in a pool the program for the longest sequences */
    const struct hsp_program *shorter[HSP_PKG_POOL]; /* the other programs, pkg.n_shorter */
    bool member; /* has a program; else the device keeps copies, or is a source */
    bool keeps;  /* replica holder: takes every due version, computes nothing */
    const struct hsp_held_data *data; /* of a member; held in env's cache */
    struct hsp_data_watch *watch;     /* of the data files; communication thread only */
    uint64_t mem_bytes;               /* memory taken */
    struct hsp_comm *mesh[HSP_EPOCH_MESHES];
    struct hsp_comm *direct;          /* the NCCL path beside the data mesh; NULL: none */
    bool direct_starts;               /* hsp_nccl_start is due before the first step */
    struct hsp_mesh_links links;      /* links of the data and the state mesh when they were made */
    struct hsp_state_segment *seg[2]; /* segments of the home, in which versions are sealed */
    struct hsp_slots slots;           /* the segment of each version */
    /* At the end of this epoch no other epoch uses its layout: its segments are deleted if none is
     * sealed. */
    bool alone;
    /* At the end no other epoch uses the layout, and segments that are not sealed are deleted in
     * any case. */
    bool dropped;
    struct hsp_epoch_device dev; /* the state in device memory */
    struct hsp_replica_check
        *replica_check; /* of a member: replicas on other ranks (replica_check.c) */
    uint32_t n_copies;  /* number of ranks whose copies this device keeps */
    struct hsp_epoch_copy *copies;
    struct hsp_epoch_check *check;  /* running verification (epoch_verify.c); under the lock */
    struct hsp_epoch_sources *from; /* in a recovery: verified state of this device; or NULL */
    /* Used by the run thread until the replication thread begins, then by the replication
     * thread. */
    struct hsp_epoch_fetch *fetch;
    struct hsp_fetched fetched;    /* used like `fetch` */
    double version_ms;             /* time at which the version was known */
    enum hsp_ckpt_refusal refused; /* of the run thread (epoch_restore.h) */
    struct hsp_engine *engine;
    pthread_t run, replication;
    bool has_run, has_replication, halted;
    struct hsp_gift ended;        /* this epoch, for the reapers */
    int cancel_fd;                /* eventfd that ends connecting */
    struct hsp_activity activity; /* of the run thread only */
    /* Time of the last vote, before that the begin of the first step; of the communication
     * thread. */
    int64_t vote_ns;
    struct hsp_due_distance distance; /* at rank 0; of the communication thread */
    /* The last step could not be noted; of the communication thread, at a replica holder of the run
     * thread. */
    bool unnoted;
    bool seals_live; /* the run thread seals the live version (epoch_live.h) */

    pthread_mutex_t lock;
    pthread_cond_t cond; /* by the monotonic clock */
    enum hsp_epoch_phase phase;
    bool cancelled;            /* the control thread stops the epoch */
    bool saves;                /* `cancelled` comes from a SEAL of hspmdd */
    bool lost;                 /* a peer broke */
    bool told;                 /* PEER_LOST was sent */
    struct hsp_mesh_loss loss; /* the loss of that peer */
    char lost_why[160];
    /* The prepared epoch for which this epoch is armed; open as long as this epoch. */
    struct hsp_ex_epoch *next;
    bool go; /* START or the hand-over has come */
    uint64_t go_version;
    uint32_t n_noop;      /* no-op steps in a row before the first step here; set before `go` */
    uint64_t armed;       /* epoch number for vote records; 0: none */
    bool want_checkpoint; /* at rank 0: the next vote record wishes a checkpoint */
    struct hsp_due due;   /* of a member: the versions that are sealed */
    uint64_t first;       /* version with which the steps of this epoch begin */
    uint64_t passed;      /* newest version known to have passed its vote */
    uint64_t written;     /* newest version whose update is done */
    uint64_t saved;       /* newest due version that was copied from the device */
    uint64_t sealed;      /* newest sealed version */
    bool sealing;         /* a thread is sealing */
    /* The first error of a seal, after which no version is sealed; code HSP_OK: none. */
    struct hsp_err unsealed;
    struct hsp_seal_times seals;
    bool moved;             /* all of the first version is here: the move mesh has served */
    uint64_t confirmed;     /* newest version with confirmed copies; HSP_NO_VERSION: none */
    uint64_t stable;        /* newest version known to be stable */
    atomic_bool marked;     /* the folder of the job exists and has its mark */
    int64_t copied_ns;      /* begin of the last copies, by the replication thread; 0: none */
    uint64_t ckpt_written;  /* version of the last shared checkpoint, by that thread; 0: none */
    uint64_t checkpoint_at; /* version of the next checkpoint; HSP_NO_VERSION: none */
    bool checkpoint_asked;  /* a vote record wished that checkpoint; false: it is periodic */
    bool voted;             /* a vote of this epoch is known to have passed */
    struct hsp_epoch_record trace;
    struct hsp_said said;        /* at rank 0, its heir and informed replica holders; else empty */
    struct hsp_epoch_threads at; /* for epoch_stand.h */
    bool no_more_versions;       /* the replication thread may end */
    /* The error that ended the replication thread; code HSP_OK: none. */
    struct hsp_err uncopied;
};

/* Returns the segment of the home that has @version, or would take it. NULL: @e is no member. */
static inline struct hsp_state_segment *hsp_epoch_home(const struct hsp_ex_epoch *e,
                                                       uint64_t version)
{
    return e->seg[hsp_slot_of(&e->slots, e->seg, version)];
}

/* Returns the segment of the home that takes @version, which is to be written there. */
static inline struct hsp_state_segment *hsp_epoch_home_take(struct hsp_ex_epoch *e,
                                                            uint64_t version)
{
    return e->seg[hsp_slot_take(&e->slots, e->seg, version)];
}

/* Returns true if @epoch, a struct hsp_ex_epoch, is to end: cancelled, or with a lost peer. */
static inline bool hsp_epoch_is_over(void *epoch)
{
    struct hsp_ex_epoch *e = (struct hsp_ex_epoch *)epoch;
    (void)pthread_mutex_lock(&e->lock);
    bool over = e->cancelled || e->lost;
    (void)pthread_mutex_unlock(&e->lock);
    return over;
}

/* Returns true if the control thread has cancelled @epoch. Before READY a lost peer is not
 * reported. */
static inline bool hsp_epoch_is_cancelled(void *epoch)
{
    struct hsp_ex_epoch *e = (struct hsp_ex_epoch *)epoch;
    (void)pthread_mutex_lock(&e->lock);
    bool cancelled = e->cancelled;
    (void)pthread_mutex_unlock(&e->lock);
    return cancelled;
}

/* Returns true if @e was cancelled and its state is not to be sealed. */
static inline bool hsp_epoch_is_stopped(struct hsp_ex_epoch *e)
{
    (void)pthread_mutex_lock(&e->lock);
    bool stopped = e->cancelled && !e->saves;
    (void)pthread_mutex_unlock(&e->lock);
    return stopped;
}

/* Clones @m and starts the run thread, which answers READY or PREPARE_FAILED. HSP_ENOMEM. */
enum hsp_status hsp_epoch_open(struct hsp_exec_env *env, const struct hsp_msg *m,
                               struct hsp_ex_epoch **ret, struct hsp_err *err);
/* Cancels the epoch, joins all threads, closes the meshes, and deletes the names of segments that
 * are not to stay. After the return no thread of this epoch writes memory. Call it once; then only
 * hsp_epoch_close may follow. */
void hsp_epoch_halt(struct hsp_ex_epoch *e);
/* Halts the epoch unless that was done, and gives its memory to the reapers. @e may be NULL.
 * Returns NULL. */
struct hsp_ex_epoch *hsp_epoch_close(struct hsp_ex_epoch *e);

/* ---- shared by the files of the epoch (epoch*.c) ---- */

/* A gathering at one rank (epoch_export.h) of the parts that the gather table names. */
/* The most bytes of a slab, unless one row is longer. */
#define HSP_GATHER_BYTES   ((size_t)4 << 20)
#define HSP_CHANNEL_GATHER 16 /* the next channels are used by epoch_checkpoint.c */
struct hsp_gather {
    struct hsp_comm *comm;
    uint32_t writer;
    uint64_t version;
    uint8_t n_kinds;
    const uint8_t *kinds;
    /* The hash of each slab follows the slab and is compared; else @sink knows the hash. */
    bool hashed;
    /* Takes a slab of row @row of the gather table, kind @kind of kinds, dense, at the writer. */
    enum hsp_status (*sink)(void *ctx, uint32_t row, uint8_t kind, const struct hsp_box *slab,
                            const void *data, struct hsp_err *err);
    void *ctx;
};

/* Size and content of one checkpoint (epoch_checkpoint.h). */
struct hsp_ckpt_sum {
    uint64_t bytes;   /* bytes written by this rank */
    uint64_t content; /* hsp_ckpt_content, at rank 0 */
};

#endif
