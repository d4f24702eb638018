/* Runs one epoch of one job on one device, from PREPARE to its end.
 *
 * Role:      the executor's control thread (executor.c) opens and closes the epoch. The *run
 *            thread* of the epoch builds the program and the meshes, waits for START or for the
 *            hand-over of the running epoch, fetches the state, and trains. The *replication
 *            thread* seals each due version, sends its copies, and writes the checkpoints.
 * Threads:   the three threads share the fields from `lock` on, and signal changes by `cond`. All
 *            other fields belong to the run thread until it has ended. The run thread uses the data
 *            mesh (in the engine). The run thread uses the state mesh and the move mesh until it
 *            starts the replication thread, which uses both from then on. In a transfer the run
 *            thread receives the weights and begins a forward pass, and the replication thread
 *            receives the rest of the state meanwhile. The engine writes no state before the first
 *            vote, and that vote waits for the copies of the first version.
 * Ownership: the epoch owns its arena, meshes, mapped segments, engine and threads.
 * Contract:  worker/agent/EXECUTOR.md.
 * Terms:     *version* t is the state after t updates, and step t makes version t + 1. Before each
 *            update there is a *vote*: each member sends its record to all members, and the step is
 *            committed when all records have arrived (worker/exec/README.md). A *member* is a rank
 *            that computes. A *replica holder* only keeps copies of state, and a *source* only
 *            sends its state at the start. A rank's *home* is the part of the state that the rank
 *            stores and updates. A *segment* is a file in memory (worker/state/segment.h); a home
 *            has two, and so has a copy of a home, so that a new version does not overwrite the
 *            newest stable version. A *row* of a segment is a box of one tensor of the state, and a
 *            row of a table is a box that one rank sends to another. A segment is *sealed* while it
 *            has all of one version, with a hash of each row. A version is *due* if it is to be
 *            sealed and copied to other nodes, and *stable* when all records of a vote confirm that
 *            both are done (due.h). A step is *noted* when its metrics are in a file of the device
 *            (step_log.h).
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

/* Data shared by all epochs of one executor; set up once by the control thread. */
struct hsp_exec_env {
    const char *state_dir, *node;
    uint32_t device;
    double speed;          /* part of a core; 0: not paced */
    uint64_t mem_bytes;    /* memory offered to jobs */
    atomic_uint on_device; /* number of epochs that have memory of the device */
    uint64_t connect_ms;   /* time limit for connecting a mesh */
    const char *audit_dir; /* folder for the samples of committed steps (audit.h); NULL: none */
    const char *kill_dir;  /* folder for orders of tests (kill_point.h); NULL: none */
    const char *bare_file; /* file of tests (unprotected.h); NULL: none */
    atomic_uint writing;   /* number of checkpoints that are being written */
    struct hsp_disk_threads disks;
    uint32_t disk_ms; /* time limit for a file system to answer; 0: HSP_DISK_MS */
    struct hsp_backend *backend;
    struct hsp_nccl *nccl; /* NCCL of a GPU; NULL: none */
    struct hsp_nccl_look nccl_look;
    struct hsp_nccllog *nccl_log; /* log of NCCL; NULL: NCCL has no log here */
    /* The last line that was logged on the use of NCCL between hosts. */
    char nccl_place_told[HSP_IPNETS_TEXT + 64];
    atomic_bool failed;               /* the device failed; logged once, and the process ends */
    struct hsp_segment_pool segments; /* segments of ended epochs */
    pthread_mutex_t greets;           /* held while communicators are made; zeros: open */
    atomic_bool untrimmed; /* an epoch has given memory of the device back since the last trim */
    /* Threads that free the memory of ended epochs (reaper.h): device_reaper frees the memory that
     * the next epoch needs on the device, then reaper frees the rest. NULL: the caller frees the
     * memory itself. */
    struct hsp_reaper *device_reaper, *reaper;
    struct hsp_gift trim;    /* the call that trims the device, for device_reaper */
    size_t pin_piece;        /* bytes of a segment pinned at a time; 0: HSP_ROOM_PIECE */
    atomic_bool unpinned;    /* the log has a line that a segment could not be pinned */
    atomic_uint nccl_failed; /* times in a row that communicators could not be made */
    struct hsp_data_cache *data;
    struct hsp_mesh_listener *listener;
    struct hsp_chan *chan;
    struct hsp_logger *log;
    int wake_fd; /* eventfd that wakes the control thread */
    /* The last job for which it was logged that this device computes in another element type than
     * the job asks for; 0: none. */
    atomic_uint *told;
};

/* Figures of the transfer at the start of an epoch. */
struct hsp_fetched {
    uint64_t bytes;      /* bytes received */
    uint64_t passed_on;  /* bytes received for another rank and forwarded to that rank */
    double weights_ms;   /* time from knowing the version until all weights have arrived */
    double optimizer_ms; /* time for the rest of the state, beside a forward pass */
    double seal_ms;      /* time for the hashes of the new segment */
};

enum hsp_epoch_phase {
    HSP_EPOCH_BUILDING, /* the executor works on its answer to PREPARE */
    HSP_EPOCH_READY,    /* READY is sent; the epoch waits for its begin */
    HSP_EPOCH_MOVING,   /* fetches the state; at a member until the weights have arrived */
    HSP_EPOCH_RUNNING,  /* trains, or takes versions; `moved` may become true later */
    HSP_EPOCH_SERVING,  /* a source has sent its rows, or all steps are done */
    HSP_EPOCH_LEFT,     /* handed over to the next epoch; kept until that epoch has voted once */
    HSP_EPOCH_FAILED    /* building failed, or the epoch broke and is sealed */
};

/* The meshes of an epoch, one for each purpose. So the gradients of a step never queue after a
 * copy, and a source that has sent its state may close its connections without an effect on the
 * connections between members. */
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
    uint64_t *hash; /* hashes of the rows of a segment, as last received */
};

/* Records of the audit about the compute queue (audit.h). */
#define HSP_ACTIVITY_RECORDS 512
struct hsp_activity_record {
    int64_t ns;
    uint32_t epoch, segment;
};
struct hsp_activity {
    uint32_t n;
    struct hsp_activity_record record[HSP_ACTIVITY_RECORDS];
};

/* The trace of an epoch (epoch_trace.c); protected by the lock of the epoch. */
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

/* Number of the newest steps that are reported again when an epoch breaks, each step in one
 * message: rank 0 may have died before it reported them, and hspmdd may have been down for some
 * seconds. */
#define HSP_EPOCH_SAID 64
/* The most steps that rank 0 keeps for replica holders while the replication thread writes a
 * checkpoint and sends nothing: with steps of 10 ms the steps of 44 minutes, which take 19 MB. */
#define HSP_EPOCH_UNTOLD ((size_t)1 << 18)
struct hsp_said {
    uint32_t n; /* steps so far; the newest HSP_EPOCH_SAID are in `step` */
    struct hsp_said_step {
        uint64_t step, tokens; /* as in struct hsp_m_step */
        double loss, val_loss, grad_norm, lr, seconds;
        uint32_t sequence;
    } step[HSP_EPOCH_SAID];
    /* Owned. Where not every version is due: the steps that rank 0 has not sent to its replica
     * holders. */
    struct hsp_said_step *untold;
    size_t n_untold, cap_untold;
};

/* The reason why no member could load the checkpoint that PREPARE names. */
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
/* The present work of an epoch's threads that engine and meshes do not know, for epoch_stand.h. */
struct hsp_epoch_threads {
    bool awaits_copies; /* a vote waits until a version is saved, or its copies are confirmed */
    bool hurries;       /* that vote waits for the copies, so copies do not yield to steps */
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
    bool member; /* has a program; else the device is a replica holder or a source */
    bool keeps;  /* replica holder: takes every due version, computes nothing */
    const struct hsp_held_data *data; /* of a member; in env's cache */
    struct hsp_data_watch *watch;     /* of the data files; communication thread only */
    uint64_t mem_bytes;               /* memory taken */
    struct hsp_comm *mesh[HSP_EPOCH_MESHES];
    struct hsp_comm *direct;          /* the NCCL path beside the data mesh; NULL: none */
    bool direct_starts;               /* hsp_nccl_start is due before the first step */
    struct hsp_mesh_links links;      /* links of the data and the state mesh when they were made */
    struct hsp_state_segment *seg[2]; /* segments of the home, in which versions are sealed */
    struct hsp_slots slots;           /* the segment of each version */
    /* Set at the end of this epoch if no other epoch uses its layout: unless a segment is sealed,
     * all segments become spares. */
    bool alone;
    /* Set when an epoch that has not begun is dropped and no other epoch uses its layout: its
     * unsealed segments become spares. */
    bool dropped;
    struct hsp_epoch_device dev;             /* the state in device memory */
    struct hsp_replica_check *replica_check; /* of a member: compares replicas (replica_check.c) */
    uint32_t n_copies;                       /* number of ranks whose copies this device keeps */
    struct hsp_epoch_copy *copies;
    struct hsp_epoch_check *check;  /* running verification (epoch_verify.c); under `lock` */
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
    /* Time of the last vote, or of the begin of the first step if there was no vote; of the
     * communication thread. */
    int64_t vote_ns;
    struct hsp_due_distance distance; /* at rank 0; used by the communication thread */
    /* The last step could not be noted. Used by the communication thread, at a replica holder by
     * the run thread. */
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
    /* The prepared epoch for which this epoch is armed, or NULL. That epoch is open as long as this
     * field points to it. */
    struct hsp_ex_epoch *next;
    bool go; /* START or the hand-over has come */
    uint64_t go_version;
    uint32_t n_noop;      /* no-op steps in a row before the first step here; set before `go` */
    uint64_t armed;       /* epoch number for vote records; 0: none */
    bool want_checkpoint; /* at rank 0: the next vote record wishes a checkpoint */
    struct hsp_due due;   /* of a member: decides which versions are sealed */
    uint64_t first;       /* version with which the steps of this epoch begin */
    uint64_t passed;      /* newest version known to have passed its vote */
    uint64_t written;     /* newest version that an update has written */
    uint64_t saved;       /* newest due version that is copied from the device */
    uint64_t sealed;      /* newest sealed version */
    bool sealing;         /* a thread is sealing */
    /* The first error of a seal, after which no version is sealed; code HSP_OK: none. */
    struct hsp_err unsealed;
    struct hsp_seal_times seals;
    bool moved; /* all of the first version has arrived: the move mesh is not needed any more */
    uint64_t confirmed;    /* newest version with confirmed copies; HSP_NO_VERSION: none */
    uint64_t stable;       /* newest version known to be stable */
    atomic_bool marked;    /* the folder of the job exists and has its mark */
    int64_t copied_ns;     /* time when the last copies began; of the replication thread; 0: none */
    uint64_t ckpt_written; /* version of the last shared checkpoint, of that thread; 0: none */
    uint64_t checkpoint_at; /* version of the next checkpoint; HSP_NO_VERSION: none */
    bool checkpoint_asked;  /* a vote record asked for that checkpoint; false: it is periodic */
    bool voted;             /* a vote of this epoch is known to have passed */
    struct hsp_epoch_record trace;
    struct hsp_said said; /* at rank 0, its heir (epoch_report.h), informed replica holders */
    struct hsp_epoch_threads at; /* for epoch_stand.h */
    bool no_more_versions;       /* the replication thread may end */
    /* The error that ended the replication thread; code HSP_OK: none. */
    struct hsp_err uncopied;
};

/* Returns the segment of the home that has @version, or into which @version would be written
 * (version_slots.h). NULL: @e is no member. */
static inline struct hsp_state_segment *hsp_epoch_home(const struct hsp_ex_epoch *e,
                                                       uint64_t version)
{
    return e->seg[hsp_slot_of(&e->slots, e->seg, version)];
}

/* Assigns @version to a segment of the home, and returns this segment, to which the caller writes
 * @version. */
static inline struct hsp_state_segment *hsp_epoch_home_take(struct hsp_ex_epoch *e,
                                                            uint64_t version)
{
    return e->seg[hsp_slot_take(&e->slots, e->seg, version)];
}

/* Returns true if @epoch, a struct hsp_ex_epoch, is to end because it was cancelled or has lost a
 * peer. */
static inline bool hsp_epoch_is_over(void *epoch)
{
    struct hsp_ex_epoch *e = (struct hsp_ex_epoch *)epoch;
    (void)pthread_mutex_lock(&e->lock);
    bool over = e->cancelled || e->lost;
    (void)pthread_mutex_unlock(&e->lock);
    return over;
}

/* Returns true if the control thread has cancelled @epoch. Unlike hsp_epoch_is_over, a lost peer
 * does not count: PREPARE goes on, since a loss is reported only after READY. */
static inline bool hsp_epoch_is_cancelled(void *epoch)
{
    struct hsp_ex_epoch *e = (struct hsp_ex_epoch *)epoch;
    (void)pthread_mutex_lock(&e->lock);
    bool cancelled = e->cancelled;
    (void)pthread_mutex_unlock(&e->lock);
    return cancelled;
}

/* Returns true if @e was cancelled by anything but SEAL, so its state is not to be sealed. */
static inline bool hsp_epoch_is_stopped(struct hsp_ex_epoch *e)
{
    (void)pthread_mutex_lock(&e->lock);
    bool stopped = e->cancelled && !e->saves;
    (void)pthread_mutex_unlock(&e->lock);
    return stopped;
}

/* Clones @m and starts the run thread, which answers READY or PREPARE_FAILED. Returns HSP_ENOMEM or
 * HSP_EIO if memory, a thread or a descriptor is lacking. */
enum hsp_status hsp_epoch_open(struct hsp_exec_env *env, const struct hsp_msg *m,
                               struct hsp_ex_epoch **ret, struct hsp_err *err);
/* Cancels the epoch, joins all threads, closes the meshes, and gives the segments to the pool
 * (segment_pool.h). After the return no thread of this epoch writes memory. Call this function
 * once; only hsp_epoch_close may follow. */
void hsp_epoch_halt(struct hsp_ex_epoch *e);
/* Halts the epoch if it was not halted yet, and gives its memory to the reapers. @e may be NULL.
 * Returns NULL. */
struct hsp_ex_epoch *hsp_epoch_close(struct hsp_ex_epoch *e);

/* ---- shared by the files of the epoch (epoch*.c) ---- */

/* Describes how one rank gathers the parts of the state that the gather table of PREPARE names
 * (epoch_export.h). */
/* The most bytes of a slab, unless one row is longer. */
#define HSP_GATHER_BYTES   ((size_t)4 << 20)
#define HSP_CHANNEL_GATHER 16 /* the next channels are used by epoch_checkpoint.c */
struct hsp_gather {
    struct hsp_comm *comm;
    uint32_t writer;
    uint64_t version;
    uint8_t n_kinds;
    const uint8_t *kinds;
    /* The hash of each slab is sent after the slab and compared; else @sink has the hash
     * already. */
    bool hashed;
    /* Called at the writer for each slab, which is dense: a part of row @row of the gather table,
     * of kind `kinds[kind]`. */
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
