/* The shell of hspmdd: what its parts share. Inside of daemon/app.
 *
 * Role:      feeds the cluster core with events and performs its actions (contract W1-W5 of
 *            cluster.h). hspmdd.c starts and stops it; app.c steps the core; actions.c performs;
 *            plan_queue.c plans; event_log.c writes events and metrics; admin_requests.c, admin_queries.c and subscriptions.c
 *            answer hspmdctl; trace_collect.c collects traces; status_doc.c makes the status document.
 * Purity:    shell (libuv, SQLite, clock).
 * Threads:   everything on the loop thread but the `run` of a work, which touches only its own
 *            data.
 * Ownership: the app owns all it lists. Works own themselves: `done` frees.
 */
#ifndef HSP_APP_H
#define HSP_APP_H
#include <uv.h>

#include "daemon/app/daemon_config.h"
#include "daemon/app/http/httpd.h"
#include "daemon/app/http/prometheus.h"
#include "daemon/app/plans/job_record.h"
#include "daemon/app/plans/plan_request.h"
#include "daemon/app/store/event_line.h"
#include "daemon/app/store/store.h"
#include "daemon/cluster/cluster_state.h"
#include "proto/host/log.h"
#include "proto/host/sd_notify.h"
#include "proto/net/net.h"

#define HSP_APP_EPOCHS 64   /* newest lines of a job's epochs table that status shows */
#define HSP_APP_PLANS  4    /* planning runs at a time; the pool has threads left for the store */
#define HSP_APP_LINES  4096 /* lines of events or metrics in one reply */

struct hsp_app;

/* Something done on a pool thread: run there, then done on the loop. */
struct hsp_app_task {
    uv_work_t req;
    struct hsp_app *app;
    void (*run)(struct hsp_app_task *w);
    void (*done)(struct hsp_app_task *w); /* owns and frees the work */
};

struct hsp_app_plan {
    uint64_t no;
    struct hsp_plan_rec *rec; /* counted */
};

struct hsp_app_job {
    uint32_t id;
    struct hsp_job_rec *rec; /* counted */
    size_t n_plans, cap_plans;
    struct hsp_app_plan *plans;
    uint64_t result_ticket; /* of the answer that may be kept */
    struct hsp_plan_rec *result;
    uint64_t key_epoch; /* whose key is below */
    uint8_t key[HSP_KEY_BYTES];
    size_t n_epochs, cap_epochs;
    struct hsp_epoch_line *epochs; /* oldest first */
    size_t n_measured;
    struct hsp_device_measured *measured; /* owned: by its last steps that were recorded */
    uint64_t traced;                      /* epoch whose steps were recorded for that; 0 none */
    bool have_step;
    struct hsp_m_step step; /* the newest; arrays not valid */
    struct hsp_job_metrics metrics;
};

/* A job whose stored rows cannot be read, by this version at least. The rows stay. */
struct hsp_app_unreadable {
    uint32_t id;
    char why[HSP_TEXT_MAX];
};

enum hsp_caller_kind { HSP_CALLER_NEW, HSP_CALLER_AGENT, HSP_CALLER_ADMIN };
struct hsp_caller {
    uint32_t conn; /* 0: free */
    enum hsp_caller_kind kind;
    bool may_join, may_command;
    uint32_t echoes; /* answered */
    char name[96];
};

struct hsp_feed_row { /* an event or a metric on its way to the disk; heap */
    struct hsp_feed_row *next;
    uint64_t number; /* sequence or step */
    uint64_t epoch;  /* of a metric */
    bool metric;
    struct hsp_buf events; /* TensorBoard records of a metric, may be empty; owned */
    char job[HSP_NAME_MAX + 1];
    char line[]; /* JSON */
};

struct hsp_pending { /* a request that waits for the core's REPLY */
    struct hsp_pending *next;
    uint64_t number;
    uint32_t conn;
    uint64_t request;
    struct hsp_job_rec *rec; /* submit: counted */
    char *plan_json;         /* submit: prediction, NULL none; owned */
    bool check;              /* of nodes: ends with the connection */
};

struct hsp_batch;
struct hsp_follower;
struct hsp_waiter;
struct hsp_planning;
struct hsp_tracing;

struct hsp_app {
    uv_loop_t *loop;                     /* borrowed */
    const struct hsp_daemon_config *cfg; /* borrowed */
    struct hsp_logger *log;              /* borrowed */
    int lock_fd;                         /* owned: lock of the state folder, -1 none */
    const char *address;                 /* where to reach us: advertised, else as we listen */
    struct hsp_store *store;
    struct hsp_cluster *cluster;
    struct hsp_net *net;
    struct hsp_httpd *http; /* NULL: off */
    struct hsp_metrics metrics;
    uv_timer_t tick, beat, retry, rest;
    struct hsp_notices notices; /* to the service manager */
    uv_idle_t no_wait;          /* active with after_poll: the loop polls without waiting */
    uv_check_t after_poll;
    hsp_msec tick_at; /* when tick fires, UINT64_MAX: not */
    bool closing, net_closed, http_closed, failed;
    void (*on_closed)(struct hsp_app *a);
    uint32_t n_works, n_handles;
    /* jobs, by no order */
    size_t n_jobs, cap_jobs;
    struct hsp_app_job *jobs;
    size_t n_unreadable, cap_unreadable;
    struct hsp_app_unreadable *unreadable;
    /* actions that wait for the disk, oldest first */
    struct hsp_batch *head, *tail;
    uint32_t n_batches;
    bool writing, performing;
    /* the disk does not take the state: store_stall.c */
    bool stuck;
    char stuck_why[HSP_TEXT_MAX];
    hsp_msec stuck_at, stood; /* core time when it began; what earlier ones took */
    /* planning */
    struct hsp_planning *plannings; /* running and waiting */
    uint32_t n_planning;
    /* feed */
    uint64_t seq, flushed;
    struct hsp_feed_row *feed_head, *feed_tail;
    uint32_t n_feed;
    bool flushing, no_events; /* no_events: the last event file could not be written */
    bool feed_stuck;          /* lines wait for a disk that takes them */
    int64_t start_s;          /* Unix time of the start */
    struct hsp_follower *followers;
    /* requests */
    uint64_t next_request;
    struct hsp_pending *pending;
    uint32_t check_number; /* whose key is below */
    uint8_t check_key[HSP_KEY_BYTES];
    struct hsp_waiter *waiters;
    struct hsp_tracing *tracings;
    uint32_t trace_number; /* of the last one; at most 65535 */
    /* lines about strangers */
    hsp_msec complained;
    uint32_t complaints, untold;
    uint32_t n_clients;
    struct hsp_caller *clients; /* owned, by slot of the connection */
    struct hsp_arena *decoding; /* one message at a time */
    struct hsp_buf encoding;    /* the same */
};

/* ---- app.c ---- */

/* Opens the store, loads the core, listens. @loop runs it. HSP_EIO, HSP_EPERM, HSP_EPARSE, ... with
 * one line. *ret is set, and to be closed and freed, also on failure, unless it is NULL. */
enum hsp_status hsp_app_open(uv_loop_t *loop, const struct hsp_daemon_config *cfg,
                             const struct hsp_net_keys *keys, struct hsp_logger *log,
                             struct hsp_app **ret, struct hsp_err *err);
/* Stops cleanly: what is queued for the disk is written, connections are flushed. Then @on_closed,
 * from the loop; after it hsp_app_free. Training goes on without us. */
void hsp_app_close(struct hsp_app *a, void (*on_closed)(struct hsp_app *a));
struct hsp_app *hsp_app_free(struct hsp_app *a); /* NULL allowed; returns NULL */

/* The configuration behind a->cfg has changed: what that means for the core, the log and the feed. The
 * texts say what changed and what needs a restart, "" nothing. */
void hsp_app_reconfigure(struct hsp_app *a, const char *applied, const char *restart);
/* A new one was refused. */
void hsp_app_reconfigure_failed(struct hsp_app *a, const struct hsp_err *why);
/* Gives the core an event (its time is set here) and performs what follows. */
void hsp_app_step(struct hsp_app *a, struct hsp_event *ev);
/* An error after which memory and disk may differ: the process ends and the next start reloads. */
void hsp_app_fail(struct hsp_app *a, const char *what, const struct hsp_err *err);
hsp_msec hsp_app_now(void); /* monotonic */
int64_t hsp_app_unix_ms(void);
void hsp_app_arm_tick(struct hsp_app *a);
/* False: no memory, nothing was queued. */
bool hsp_app_queue(struct hsp_app *a, struct hsp_app_task *w);
void hsp_app_dump(struct hsp_app *a); /* to the log */

/* ---- metrics_collect.c ---- */
extern const struct hsp_httpd_calls hsp_app_http_calls; /* ctx: struct hsp_app * */

/* ---- sessions.c ---- */
extern const struct hsp_net_calls hsp_app_net_calls; /* ctx: struct hsp_app * */

#endif
