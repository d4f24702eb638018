/* Runs one epoch of one job on one device, from PREPARE to its end.
 *
 * Role:      made and closed by the executor's control thread (executor.c). Its *run thread* builds
 *            the program and the meshes, waits for START or a hand-over, fetches the state, and
 *            trains. Its *replication thread* seals each new version, makes its promised copies,
 *            and writes the checkpoints.
 * Threads:   fields under `lock` are shared by the three threads and signalled by `cond`; the run
 *            thread owns all other fields until it has ended. The run thread uses the data mesh
 *            (the engine). It uses the state mesh and the mesh of the move until it has made the
 *            replication thread, which uses them from then on. Of a moving state the run thread
 *            takes the weights and begins a forward; the replication thread takes the rest beside
 *            it. The engine writes no state before the first vote, and that vote waits for the
 *            copies of the first version.
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
    double speed;          /* of a core; 0: not paced */
    uint64_t mem_bytes;    /* offered to jobs */
    atomic_uint on_device; /* epochs that have memory of the device */
    uint64_t connect_ms;   /* for a mesh to stand */
    const char *audit_dir; /* where the samples of each committed step are noted, NULL: nowhere */
    const char *kill_dir;  /* orders of tests (kill_point.h); NULL: none */
    const char *bare_file; /* the same (unprotected.h) */
    atomic_uint writing;   /* checkpoints being written */
    struct hsp_disk_threads disks;
    uint32_t disk_ms; /* for a file system to answer; 0: HSP_DISK_MS */
    struct hsp_backend *backend;
    struct hsp_nccl *nccl; /* of a GPU; NULL: none */
    struct hsp_nccl_look nccl_look;
    struct hsp_nccllog *nccl_log; /* its own log; NULL: it has none here */
    /* The last line of the log on the use of NCCL between hosts. */
    char nccl_place_told[HSP_IPNETS_TEXT + 64];
    atomic_bool failed;               /* the device: the log says so once, and the process ends */
    struct hsp_segment_pool segments; /* of ended epochs */
    pthread_mutex_t greets;           /* zeros: open; held while communicators are made */
    atomic_bool untrimmed; /* an epoch has given memory of the device back since the last trim */
    /* Of epochs that have ended: gives back what the device needs again; the rest, behind that.
     * NULL: it is given back at once. */
    struct hsp_reaper *device_reaper, *reaper;
    struct hsp_gift trim;    /* of the device, to its reaper */
    size_t pin_piece;        /* of a segment, at a time; 0: HSP_ROOM_PIECE */
    atomic_bool unpinned;    /* it was told that a segment could not be pinned */
    atomic_uint nccl_failed; /* times in a row that its communicators could not be made */
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
    uint64_t bytes;      /* received */
    uint64_t passed_on;  /* received for another rank and sent on to it */
    double weights_ms;   /* from the version known to all weights here: a forward begins */
    double optimizer_ms; /* the others, beside that */
    double seal_ms;      /* hashes of the new segment */
};

enum hsp_epoch_phase {
    HSP_EPOCH_BUILDING, /* PREPARE is being answered */
    HSP_EPOCH_READY,    /* READY sent; waits for the word to go */
    HSP_EPOCH_MOVING,   /* fetching the state; a member: the weights */
    HSP_EPOCH_RUNNING,  /* a replica holder too: it takes the versions; `moved` may come later */
    HSP_EPOCH_SERVING,  /* a source that has sent its rows; or all steps are done */
    HSP_EPOCH_LEFT,     /* switched to the next one; kept until that has voted once */
    HSP_EPOCH_FAILED    /* building failed, or broken: sealed */
};

/* The meshes of an epoch. A copy never stands between a step and its gradients, and a source that
 * has served may go without breaking the members, so each purpose has its own. */
enum hsp_epoch_mesh {
    HSP_MESH_DATA,  /* members: the engine's */
    HSP_MESH_STATE, /* members and replica holders: copies; of members also checkpoints, restore */
    HSP_MESH_MOVE,  /* all: state at the start of the epoch */
    HSP_EPOCH_MESHES
};

/* A second copy kept here for another rank. */
struct hsp_epoch_copy {
    uint32_t owner;
    struct hsp_state_segment *seg[2];
    size_t pinned[2]; /* of the segments, their first bytes: spares of homes are pinned */
    struct hsp_slots slots;
    uint64_t *hash; /* of the rows of a segment, as they came last */
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

/* A trace of this epoch (epoch_trace.c); under its lock. */
#define HSP_STATE_SPANS 256 /* a seal, a copy and a checkpoint of each step, with room */
struct hsp_epoch_record {
    uint32_t flags;  /* of rank 0's next vote record; 0: none is wanted */
    uint32_t number; /* of the trace that is recorded, 0 none */
    uint32_t n_state;
    struct hsp_state_span state[HSP_STATE_SPANS]; /* of the replication thread */
};

/* Times of the seals of an epoch; of the thread that seals. */
struct hsp_seal_times {
    uint64_t n;
    int64_t copy_ns, seal_ns; /* until new versions were in their segments; to hash them */
};

/* The newest steps that rank 0 has reported, or died before it could: some seconds, in which hspmdd
 * may have been away. Each costs a message when the epoch breaks. */
#define HSP_EPOCH_SAID 64
/* The steps that replica holders are told of later, at most: 44 minutes in which the replication
 * thread writes a checkpoint, where a step takes 10 ms. They take 19 MB. */
#define HSP_EPOCH_UNTOLD ((size_t)1 << 18)
struct hsp_said {
    uint32_t n; /* so far; the newest HSP_EPOCH_SAID are here */
    struct hsp_said_step {
        uint64_t step, tokens; /* as in struct hsp_m_step */
        double loss, val_loss, grad_norm, lr, seconds;
        uint32_t sequence;
    } step[HSP_EPOCH_SAID];
    /* Owned: at rank 0 the steps of which its replica holders have not been told, where not every
     * version is due. */
    struct hsp_said_step *untold;
    size_t n_untold, cap_untold;
};

/* Why no member could begin with the checkpoint that PREPARE names. */
enum hsp_ckpt_refusal { HSP_CKPT_TAKEN, HSP_CKPT_GONE, HSP_CKPT_DAMAGED };

/* The work of the replication thread. */
enum hsp_replication_work {
    HSP_KEEPER_NONE, /* there is no such thread */
    HSP_KEEPER_IDLE,
    HSP_REPLICATION_FETCH,
    HSP_REPLICATION_SEAL,
    HSP_KEEPER_COPY,
    HSP_REPLICATION_TELL,
    HSP_REPLICATION_CHECKPOINT,
    HSP_KEEPER_END
};
/* The work of its threads beside that of engine and meshes. */
struct hsp_epoch_threads {
    bool awaits_copies; /* a vote waits for its version */
    bool hurries;       /* until that is confirmed */
    int64_t awaits_ns;  /* since */
    enum hsp_replication_work work;
    int64_t work_ns;
};

struct hsp_ex_epoch {
    struct hsp_exec_env *env;
    struct hsp_arena *arena;
    struct hsp_msg msg;            /* the PREPARE, cloned */
    const struct hsp_m_prepare *p; /* in it */
    uint64_t number;
    struct hsp_package pkg;
    struct hsp_program prog; /* members; of a pool the one for the longest sequences */
    const struct hsp_program *shorter[HSP_PKG_POOL]; /* the others, pkg.n_shorter */
    bool member; /* has a program; else it keeps copies, or is a source */
    bool keeps;  /* one of the replica holders: takes every version, computes nothing */
    const struct hsp_held_data *data; /* held in env's cache; members */
    struct hsp_data_watch *watch;     /* of its files; the engine's communication thread only */
    uint64_t mem_bytes;               /* taken */
    struct hsp_comm *mesh[HSP_EPOCH_MESHES];
    struct hsp_comm *direct;          /* the NCCL path beside the data mesh; NULL: none */
    bool direct_starts;               /* hsp_nccl_start is due before the first step */
    struct hsp_mesh_links links;      /* of the data and the state mesh, as they were made */
    struct hsp_state_segment *seg[2]; /* own home: where versions are sealed */
    struct hsp_slots slots;           /* which of them has which version */
    bool alone;   /* at its end no other epoch uses its layout: segments go if none is sealed */
    bool dropped; /* the same: those that are not sealed go in any case */
    struct hsp_epoch_device dev; /* the state that it computes with */
    /* its replicas on other ranks (replica_check.c); members */
    struct hsp_replica_check *replica_check;
    uint32_t n_copies; /* ranks that copy to me */
    struct hsp_epoch_copy *copies;
    struct hsp_epoch_check *check;  /* its state is being verified (epoch_verify.c); the lock */
    struct hsp_epoch_sources *from; /* a recovery: verified state of this device; NULL: none */
    struct hsp_epoch_fetch
        *fetch; /* of the run thread until the replication thread begins, then of that */
    struct hsp_fetched fetched;    /* the same */
    double version_ms;             /* when the version was known */
    enum hsp_ckpt_refusal refused; /* the run thread's (epoch_restore.h) */
    struct hsp_engine *engine;
    pthread_t run, replication;
    bool has_run, has_replication, halted;
    struct hsp_gift ended;        /* to the reapers */
    int cancel_fd;                /* eventfd: gives up connecting */
    struct hsp_activity activity; /* the run thread only */
    int64_t
        vote_ns; /* the last vote, before it the begin of the first step; communication thread */
    struct hsp_due_distance distance; /* the same, of rank 0 */
    bool unnoted;    /* the same, of a replica holder its run thread: a step could not be noted */
    bool seals_live; /* the run thread is at it (epoch_live.h) */

    pthread_mutex_t lock;
    pthread_cond_t cond; /* its clock is the monotonic one */
    enum hsp_epoch_phase phase;
    bool cancelled;            /* by the control thread: stop */
    bool saves;                /* because hspmdd has it sealed */
    bool lost;                 /* a peer broke */
    bool told;                 /* PEER_LOST was sent */
    struct hsp_mesh_loss loss; /* of it */
    char lost_why[160];
    struct hsp_ex_epoch
        *next; /* the prepared epoch we are armed for; stays open as long as this one */
    bool go;   /* start or hand-over has come */
    uint64_t go_version;
    uint32_t n_noop;      /* no-op steps in a row before the first step here; set before go */
    uint64_t armed;       /* epoch to put into vote records, 0 none */
    bool want_checkpoint; /* rank 0: in the next vote record */
    struct hsp_due due;   /* members: which versions are sealed */
    uint64_t first;       /* version with which its steps begin */
    uint64_t passed;      /* newest version with a vote that has passed, as far as is known here */
    uint64_t written;     /* newest version with its update done */
    uint64_t saved;       /* newest due version that has left the device */
    uint64_t sealed;      /* newest sealed version */
    bool sealing;         /* a thread is at it */
    /* The first error of a seal, after which nothing is sealed; code HSP_OK: none. */
    struct hsp_err unsealed;
    struct hsp_seal_times seals;
    bool moved;             /* all of the first version is here: the mesh of the move has served */
    uint64_t confirmed;     /* newest version with confirmed copies; HSP_NO_VERSION: none */
    uint64_t stable;        /* newest version known to be stable */
    atomic_bool marked;     /* the folder of the job was made, or found, and has its mark */
    int64_t copied_ns;      /* replication: the begin of its last copies; 0: there were none */
    uint64_t ckpt_written;  /* replication: version of its last shared checkpoint; 0: none */
    uint64_t checkpoint_at; /* version the replication thread is to write, HSP_NO_VERSION none */
    bool checkpoint_asked;  /* by a vote record, not by the calendar */
    bool voted;             /* a vote of this epoch has passed, as far as is known here */
    struct hsp_epoch_record trace;
    /* at rank 0, its successor and replica holders that are told; else empty */
    struct hsp_said said;
    struct hsp_epoch_threads at; /* for epoch_stand.h */
    bool no_more_versions;       /* the replication thread may end */
    /* The error that ended the replication thread; code HSP_OK: none. */
    struct hsp_err uncopied;
};

/* The segment of the home that has @version, or would take it. NULL: it is no member. */
static inline struct hsp_state_segment *hsp_epoch_home(const struct hsp_ex_epoch *e,
                                                       uint64_t version)
{
    return e->seg[hsp_slot_of(&e->slots, e->seg, version)];
}

/* The same; @version is to be written there. */
static inline struct hsp_state_segment *hsp_epoch_home_take(struct hsp_ex_epoch *e,
                                                            uint64_t version)
{
    return e->seg[hsp_slot_take(&e->slots, e->seg, version)];
}

/* Whether @epoch, a struct hsp_ex_epoch, is to end: it was cancelled, or a peer is lost. */
static inline bool hsp_epoch_is_over(void *epoch)
{
    struct hsp_ex_epoch *e = (struct hsp_ex_epoch *)epoch;
    (void)pthread_mutex_lock(&e->lock);
    bool over = e->cancelled || e->lost;
    (void)pthread_mutex_unlock(&e->lock);
    return over;
}

/* Whether the control thread has ended it; before READY nobody is told that a peer is lost. */
static inline bool hsp_epoch_is_cancelled(void *epoch)
{
    struct hsp_ex_epoch *e = (struct hsp_ex_epoch *)epoch;
    (void)pthread_mutex_lock(&e->lock);
    bool cancelled = e->cancelled;
    (void)pthread_mutex_unlock(&e->lock);
    return cancelled;
}

/* Whether it has been ended, and nobody wants what it has. */
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
/* Cancels, joins all threads, closes meshes, deletes the names of segments that are not to stay.
 * When it returns nothing of this epoch can write memory any more. Once; then only close. */
void hsp_epoch_halt(struct hsp_ex_epoch *e);
/* Halts where that has not been done. Its memory is given to the reapers. NULL allowed; returns
 * NULL. */
struct hsp_ex_epoch *hsp_epoch_close(struct hsp_ex_epoch *e);

/* ---- shared by the files of the epoch (epoch*.c) ---- */

/* A gathering at one rank (epoch_export.h) of the parts that the gather table names. */
/* Of a slab, at most; or one row where that is longer. */
#define HSP_GATHER_BYTES   ((size_t)4 << 20)
#define HSP_CHANNEL_GATHER 16 /* the next ones are epoch_checkpoint.c's */
struct hsp_gather {
    struct hsp_comm *comm;
    uint32_t writer;
    uint64_t version;
    uint8_t n_kinds;
    const uint8_t *kinds;
    bool hashed; /* the hash of each slab follows it, and is compared; else @sink knows it */
    /* Takes a slab of row @row of the gather table, kind @kind of kinds, dense, at the writer. */
    enum hsp_status (*sink)(void *ctx, uint32_t row, uint8_t kind, const struct hsp_box *slab,
                            const void *data, struct hsp_err *err);
    void *ctx;
};

/* Size and content of one checkpoint (epoch_checkpoint.h). */
struct hsp_ckpt_sum {
    uint64_t bytes;   /* written here */
    uint64_t content; /* hsp_ckpt_content, at rank 0 */
};

#endif
