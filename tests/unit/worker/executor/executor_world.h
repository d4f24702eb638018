/* Drives executor processes over socketpairs as their agent does, with plans made by the planner:
 * one small job, its processes, and the actions of a scenario. */
#ifndef HSP_EXECUTOR_WORLD_H
#define HSP_EXECUTOR_WORLD_H
#include <sys/types.h>

#include "daemon/app/plans/epoch_package.h"
#include "daemon/planner/job_file.h"
#include "tests/lib/mockdev.h"
#include "tests/lib/testlib.h"
#include "worker/executor/agent_channel.h"

#define XW_STEPS   60
#define XW_MAX_DEV 4
#define XW_WAIT_MS 120000 /* only a hang takes this time, also on a loaded machine */

/* Plans of the job: one device; two data parallel devices; a pipeline of three devices, whose
 * second stage is cut by tensors. */
extern const char xw_plan_one[], xw_plan_dp[], xw_plan_pp[];

struct xw_process {
    pid_t pid;
    struct hsp_chan chan;
    char address[256];
    char state_dir[4200];
};

struct xw_world {
    char *dir;
    char text[4200];
    struct hsp_arena *arena;
    const struct hsp_job_spec *job;
    struct hsp_graph *graph;
    const char *kills;   /* folder of orders to executors (kill_point.h); NULL: none */
    const char *log;     /* file for the log of executors; NULL: warnings go to stderr */
    char log_file[4300]; /* log file of executors; NULL: warnings go to stderr */
    struct xw_process ex[XW_MAX_DEV];
    double speed;         /* of executors started from now on; 0 means 1; below 1: slower */
    bool device;          /* executors compute on mock devices, not on CPUs */
    bool cpu[XW_MAX_DEV]; /* except these executors */
    struct hsp_mockdev_opts mockdev[XW_MAX_DEV]; /* options of each mock device; seeds are drawn */
    double loss[XW_STEPS];
    double val[XW_STEPS];
    uint64_t stable;                 /* newest reported step, of the newest epoch */
    uint64_t said_in;                /* the newest epoch */
    uint64_t sure;                   /* newest version reported as stable */
    uint32_t due_every;              /* distance of due versions; 0: each version is due */
    bool live;                       /* PREPARE orders survivors to seal their live version */
    uint64_t steps;                  /* steps of the job; 0: XW_STEPS */
    bool older_peers;                /* peers that do not share notes of steps */
    struct hsp_digest cluster, born; /* cluster of the job; cluster in which it began */
    bool shared;                     /* PREPARE says that checkpoint.path is shared */
    bool final, finished;
    uint32_t n_ckpt;
    uint32_t n_unwritten; /* expected reports of files that could not be written */
    bool unwritable;
    struct hsp_msg last; /* last received message */
    struct hsp_frame frame;
    struct hsp_arena *msgs;
};

struct xw_epoch {
    uint64_t epoch, plan_no, from_no, base;
    uint32_t mode;
    uint64_t step;
    uint64_t void_from; /* lowest version that was given up, plus 1; 0: none */
    uint64_t keep;      /* version that stays until `step` is stable, plus 1; 0: none */
    const struct hsp_epoch_plan *plan, *from;
    int n_peers;   /* the epoch has devices 0 to n_peers - 1 */
    int n_keepers; /* replica holders, after the ranks; if any, all ranks are on one node */
    int n_live;    /* segments of `from` that live devices have */
    struct hsp_prepare_source live[8];
    const struct hsp_epoch_net *net; /* NULL: each device is a host */
    const char *path;                /* of checkpoints and model; NULL: the world's folder */
    const char *const *paths;        /* path of each device; NULL: @path */
    const struct hsp_m_ckpt *ckpt;   /* the wished checkpoint, of epoch @ckpt_epoch; NULL: none */
    uint64_t ckpt_epoch;
    const char *init_from; /* weights to begin with; NULL: none */
};
struct xw_layout {
    uint64_t no;
    const struct hsp_epoch_plan *plan;
};

/* Sets up a test: *state becomes a world of CPUs, or of mock devices if xw_on_device is true. */
extern bool xw_on_device;
int xw_setup(void **state);
/* Sets up a test: *state becomes a world of mock devices (tests/lib/mockdev.h). */
int xw_setup_device(void **state);
int xw_teardown(void **state);
/* Writes the data of the job to w->text. */
void xw_write_text(struct xw_world *w);

/* Sets train.compute of the job to @compute from now on; the state stays fp32. */
void xw_compute(struct xw_world *w, const char *compute);
/* Starts an executor, and returns when it is up. */
void xw_start_executor(struct xw_world *w, int dev);
/* Kills the process if it runs. */
void xw_end(struct xw_process *p);
/* Waits until the process of @dev has ended by itself. Returns its exit status, or minus its
 * signal. */
int xw_await_exit(struct xw_world *w, int dev);

/* Makes executors that start from now on log to a file of the world. Returns the path of this
 * file. */
const char *xw_log(struct xw_world *w);

/* Counts the lines of the log at @path that contain @what. */
uint32_t xw_lines_with(const char *path, const char *what);

/* Receives the next message of device @dev in w->last, and records a step. Returns false if none
 * comes within @ms. */
bool xw_next_msg(struct xw_world *w, int dev, int ms);
/* Waits for a message of @type from @dev, and evaluates the messages before it. The test fails if
 * none comes within XW_WAIT_MS. */
void xw_await(struct xw_world *w, int dev, uint16_t type);
void xw_await_beat(struct xw_world *w, int dev);
void xw_await_step(struct xw_world *w, int dev, uint64_t step);
/* Waits until no step was reported for half a second. */
void xw_await_standstill(struct xw_world *w, int dev);
void xw_await_end(struct xw_world *w, int dev);
void xw_send_ref(struct xw_world *w, int dev, uint16_t type, uint64_t epoch);
void xw_send_start(struct xw_world *w, int dev, uint64_t epoch, uint64_t step);

struct hsp_epoch_plan *xw_make_plan(struct xw_world *w, const char *text);
/* Makes a plan from @text with all ranks on one node, so that a replica holder on another node is
 * needed. */
struct hsp_epoch_plan *xw_make_kept_plan(struct xw_world *w, const char *text);
/* Describes epoch @epoch of executors 0, 1 and 2 in layout @to, which goes on from layout @from.
 * The first @n_live executors are ranks of @from. For a recovery the caller sets the step. */
struct xw_epoch xw_go_on(uint64_t epoch, uint32_t mode, struct xw_layout to, struct xw_layout from,
                         int n_live);
void xw_send_prepare(struct xw_world *w, const struct xw_epoch *d);
/* Prepares epoch @d, and returns when all devices are READY. */
void xw_prepare(struct xw_world *w, const struct xw_epoch *d);

/* Returns the losses of a run on one undisturbed device, and deletes its process and state. Two
 * such runs have equal losses. */
void xw_reference(struct xw_world *w, double loss[XW_STEPS], double val[XW_STEPS]);
void xw_assert_same(const double *a, const double *b);

#endif
