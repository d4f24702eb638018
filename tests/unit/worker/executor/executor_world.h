/* Real executor processes over socketpairs, driven as an agent would drive them, with real plans: one small
 * job, its processes, small steps of a story. */
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
#define XW_WAIT_MS 120000 /* only what hangs takes so long, on a loaded machine too */

/* Plans of the job: one device; two data parallel; a pipeline of three, its second stage by tensors. */
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
    const char *kills; /* folder of orders to executors (kill_point.h), NULL: none */
    const char *log;   /* file to which executors write what they log, NULL: warnings, to stderr */
    char log_file[4300]; /* that of xw_log */
    struct xw_process ex[XW_MAX_DEV];
    double
        speed; /* of executors started from now on, 0: 1; so that steps last while epochs are prepared */
    bool device;          /* executors compute on mock devices, not on CPUs */
    bool cpu[XW_MAX_DEV]; /* but for these */
    struct hsp_mockdev_opts mockdev[XW_MAX_DEV]; /* of each; their seeds are drawn */
    double loss[XW_STEPS];
    double val[XW_STEPS];
    uint64_t stable;                 /* newest reported, of the newest epoch */
    uint64_t said_in;                /* that epoch */
    uint64_t sure;                   /* newest version said to be stable */
    uint32_t due_every;              /* as PREPARE says it; 0: each version is due */
    bool live;                       /* PREPARE says that survivors seal what they compute with */
    uint64_t steps;                  /* of the job; 0: XW_STEPS */
    bool older_peers;                /* which do not give each other the notes of steps */
    struct hsp_digest cluster, born; /* whose the job is, and in which it began */
    bool shared; /* checkpoint.path is the same folder everywhere, as executors are told */
    bool final, finished;
    uint32_t n_ckpt;
    uint32_t n_unwritten; /* reports of files that could not be written, where they are expected */
    bool unwritable;
    struct hsp_msg last; /* what xw_await() returned */
    struct hsp_frame frame;
    struct hsp_arena *msgs;
};

struct xw_epoch {
    uint64_t epoch, plan_no, from_no, base;
    uint32_t mode;
    uint64_t step;
    uint64_t void_from; /* least version that was given up, plus 1; 0: none was */
    uint64_t keep; /* version that stays until `step` is stable, plus 1; 0: nothing is said of it */
    const struct hsp_epoch_plan *plan, *from;
    int n_peers;   /* devices 0 .. n_peers - 1 */
    int n_keepers; /* those behind the ranks; the ranks of the plan are on one node then */
    int n_live;    /* live pieces of `from` */
    struct hsp_prepare_source live[8];
    const struct hsp_epoch_net *net; /* NULL: each device is a host */
    const char *path;         /* for checkpoints and the final model; NULL: the world's folder */
    const char *const *paths; /* the same of each device; NULL: @path */
    const struct hsp_m_ckpt
        *ckpt; /* the checkpoint that is meant, of epoch @ckpt_epoch; NULL: not known */
    uint64_t ckpt_epoch;
    const char *init_from; /* weights to begin with; NULL: none */
};
struct xw_layout {
    uint64_t no;
    const struct hsp_epoch_plan *plan;
};

/* For a test: *state is a world, of CPUs; with xw_on_device of mockdevs. */
extern bool xw_on_device;
int xw_setup(void **state);
int xw_setup_device(void **state); /* of mock devices */
int xw_teardown(void **state);
void xw_write_text(struct xw_world *w); /* its data, to w->text */

/* From now on its job computes in @compute (train.compute), and keeps fp32. */
void xw_compute(struct xw_world *w, const char *compute);
void xw_start_executor(struct xw_world *w, int dev); /* returns when it is up */
void xw_end(struct xw_process *p);                   /* kills it, if it runs */
/* Waits until the process of @dev has ended by itself: its exit status, or minus a signal. */
int xw_await_exit(struct xw_world *w, int dev);

/* Executors that start from now on log to a file of the world, whose path is returned. */
const char *xw_log(struct xw_world *w);
uint32_t xw_lines_with(const char *path, const char *what); /* of a log */

/* The next message of device @dev, in w->last; a step is noted. False after @ms. */
bool xw_next_msg(struct xw_world *w, int dev, int ms);
/* The next but for others; what comes before it is noted. They fail the test after XW_WAIT_MS. */
void xw_await(struct xw_world *w, int dev, uint16_t type);
void xw_await_beat(struct xw_world *w, int dev);
void xw_await_step(struct xw_world *w, int dev, uint64_t step);
void xw_await_standstill(struct xw_world *w, int dev); /* no step was reported for half a second */
void xw_await_end(struct xw_world *w, int dev);
void xw_send_ref(struct xw_world *w, int dev, uint16_t type, uint64_t epoch);
void xw_send_start(struct xw_world *w, int dev, uint64_t epoch, uint64_t step);

struct hsp_epoch_plan *xw_make_plan(struct xw_world *w, const char *text);
/* The same; all its ranks are on one node, so that it has room for a replica holder. */
struct hsp_epoch_plan *xw_make_kept_plan(struct xw_world *w, const char *text);
/* The epoch of executors 0, 1 and 2 that goes on from layout @from, whose ranks @n_live of them are;
 * the step of a recovery is left to the caller. */
struct xw_epoch xw_go_on(uint64_t epoch, uint32_t mode, struct xw_layout to, struct xw_layout from,
                         int n_live);
void xw_send_prepare(struct xw_world *w, const struct xw_epoch *d);
void xw_prepare(struct xw_world *w, const struct xw_epoch *d); /* returns when all are ready */

/* Losses of one undisturbed device, whose process and state are gone then; those of two runs are equal. */
void xw_reference(struct xw_world *w, double loss[XW_STEPS], double val[XW_STEPS]);
void xw_assert_same(const double *a, const double *b);

#endif
