/* Keeps the figures that /metrics shows (names: the Prometheus rules of the README).
 *
 * Role:      counters and histograms are kept here while the daemon runs; rendering is a function
 *            of a snapshot, which metrics_collect.c takes.
 * Purity:    pure.
 * Ownership: the caller's structs; texts of a snapshot are borrowed.
 * Bounds:    one line per node, device and job that is not over; labels are names and numbers, not
 *            free text.
 */
#ifndef HSP_PROMETHEUS_H
#define HSP_PROMETHEUS_H
#include "daemon/cluster/cluster_state.h"

#define HSP_HIST_BOUNDS 14 /* upper bounds in seconds, from 5 ms to 5 minutes; +Inf is the count */

struct hsp_hist {                            /* of seconds */
    uint64_t count, bucket[HSP_HIST_BOUNDS]; /* not cumulative */
    double sum;
};
/* Negative and not-a-number values are not known times: left out. */
void hsp_hist_add(struct hsp_hist *h, double seconds);

enum hsp_time_class { /* where the time of a job goes; productive over the sum is its goodput */
                      HSP_TIME_PRODUCTIVE,
                      HSP_TIME_STARTUP,
                      HSP_TIME_PLANNING,
                      HSP_TIME_RECOVERING,
                      HSP_TIME_STALLED,
                      HSP_TIME_NONE /* of nobody's: it is over, or suspended as its user wished */
};
#define HSP_TIME_CLASSES 5 /* shown classes: all but NONE */

enum hsp_switch_phase {
    HSP_PHASE_DRAIN, /* the loss is known, nodes tell their holdings */
    HSP_PHASE_PLAN,
    HSP_PHASE_APPLY, /* programs sent, built and ready */
    HSP_PHASE_TRANSFER,
    HSP_PHASE_FIRST_STEP, /* from the start to the first vote */
    HSP_PHASE_TOTAL       /* from the event to the first vote */
};
#define HSP_SWITCH_PHASES 6

struct hsp_job_metrics { /* since the daemon's start */
    struct hsp_hist step_s;
    uint64_t tokens, transfer_bytes, lost_steps, switches, checkpoints;
    double ckpt_unix_s;               /* of the last one; 0 none */
    double time_s[HSP_TIME_NONE + 1]; /* by class; that at rest is not shown */
    uint64_t since_ms;                /* time_s is complete up to here */
    enum hsp_time_class now;
};

enum hsp_change { /* causes of changes of the membership */
                  HSP_CHANGE_JOIN,
                  HSP_CHANGE_ADOPT,
                  HSP_CHANGE_LEAVE,
                  HSP_CHANGE_DEATH,
                  HSP_CHANGE_EXECUTOR_DEATH
};
#define HSP_CHANGES 5

struct hsp_metrics { /* since the daemon's start */
    struct hsp_hist plan_solve_s, phase_s[HSP_SWITCH_PHASES];
    uint64_t changes[HSP_CHANGES];
    uint64_t notices, plans_infeasible, switches_aborted, auth_denied;
    uint64_t suspects[HSP_MAX_NODES]; /* by index of the node in the core */
    bool reload_ok;                   /* the configuration last read is the one in use */
};

/* Counts a fact (an event that the core reports) in the figures of the daemon and of job @j. @j is
 * NULL if the fact belongs to no job. @node is the index of the fact's node; HSP_MAX_NODES: none.
 */
void hsp_metrics_fact(struct hsp_metrics *m, struct hsp_job_metrics *j, uint32_t node,
                      const struct hsp_fact *f, double unix_s);
/* Returns the class of the time that a job in @state spends. @planning: the planner works for the
 * job. */
enum hsp_time_class hsp_metrics_class(enum hsp_job_state state, bool planning);
/* Adds the time since the last call to the class @j was in, then puts it into @next. */
void hsp_metrics_time(struct hsp_job_metrics *j, enum hsp_time_class next, hsp_msec now_ms);

/* ---- a snapshot ---- */

struct hsp_view_node {
    const char *name;
    double beat_age_s; /* negative: not heard */
    uint64_t suspects;
};
struct hsp_view_device {
    const char *node, *kind, *job; /* job "": free */
    uint32_t job_id, index;        /* job_id 0: free */
    bool up, here;                 /* its executor; its node */
    const char *trouble;           /* "cordoned" or "lost": it gets no work; "" none */
    double speed;                  /* observed, relative to its profile */
};
struct hsp_view_job {
    const char *name;
    uint32_t id;
    uint64_t step, steps, epoch;
    bool have_loss;
    double loss, predicted_s; /* 0: not known */
    const struct hsp_job_metrics *m;
};
struct hsp_view_count {
    const char *state;
    size_t n;
};
struct hsp_view_process {
    double cpu_s, start_unix_s, rss_bytes, virtual_bytes;
    uint64_t open_fds, max_fds;
};
struct hsp_metrics_view {
    const char *version;
    uint64_t term;
    double unix_s;
    const struct hsp_metrics *m;
    struct hsp_view_process process;
    uint32_t n_agents, n_admins; /* connections */
    size_t n_nodes, n_devices, n_jobs;
    const struct hsp_view_node *nodes;
    const struct hsp_view_device *devices;
    const struct hsp_view_job *jobs;                       /* ended ones are left out */
    const struct hsp_view_count *node_states, *job_states; /* of all, each ends with NULL */
    size_t n_held;                                         /* jobs */
};

/* Text format 0.0.4. out->failed when it does not fit. */
void hsp_metrics_render(const struct hsp_metrics_view *v, struct hsp_buf *out);

#endif
