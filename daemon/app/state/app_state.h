/* Holds the state of a running hspmdd, so that the parts of the shell share one struct.
 *
 * Role:      the base of daemon/app. Each part keeps its own fields here and declares its own types
 *            in its own header; app.c, which uses all parts, opens, steps and closes the whole.
 * Purity:    shell (libuv, clock, log).
 * Threads:   the loop thread; the `run` of a task (tasks.h) touches only the data of its task.
 * Ownership: the app owns all it lists; a task owns itself, its `done` frees it.
 */
#ifndef HSP_APP_STATE_H
#define HSP_APP_STATE_H
#include <uv.h>

#include "daemon/app/http/httpd.h"
#include "daemon/app/http/prometheus.h"
#include "daemon/app/state/daemon_config.h"
#include "daemon/app/state/refusals.h"
#include "daemon/app/store/rebuild.h"
#include "daemon/app/store/state_folder.h"
#include "daemon/app/store/store.h"
#include "daemon/cluster/cluster_state.h"
#include "proto/host/log.h"
#include "proto/host/sd_notify.h"
#include "proto/net/net.h"

struct hsp_app_event;      /* state/event_queue.h */
struct hsp_app_job;        /* state/job_table.h */
struct hsp_app_unreadable; /* state/job_table.h */
struct hsp_caller;         /* state/sessions.h */
struct hsp_feed_row;       /* feed/event_log.c */
struct hsp_follower;       /* feed/subscriptions.c */
struct hsp_waiter;         /* feed/subscriptions.c */
struct hsp_adoption;       /* api/adopt_requests.c */
struct hsp_tracing;        /* feed/trace_collect.c */
struct hsp_pending;        /* api/pending_requests.h */
struct hsp_batch;          /* perform/actions_impl.h */
struct hsp_planning;       /* perform/plan_queue.c */

struct hsp_app {
    uv_loop_t *loop;                     /* borrowed */
    const struct hsp_daemon_config *cfg; /* borrowed */
    struct hsp_logger *log;              /* borrowed */
    struct hsp_state_folder folder;
    bool has_replaced; /* a restore has replaced a store in it; the last is */
    char replaced[HSP_REPLACED_MAX + 1];
    uint32_t replaced_generation; /* number of its generation */
    const char *address;          /* where to reach us: advertised, else as we listen */
    bool insecure;                /* every user of this host may do everything: for tests */
    bool has_worker_user;         /* uid worker_uid may join by the socket */
    uid_t worker_uid;
    struct hsp_store *store;
    bool backing_up;      /* a copy of it is being made or read */
    uint64_t backup;      /* number of the last one */
    int backup_fd;        /* owned; a file without a name; -1 none */
    uint32_t backup_conn; /* its caller; 0: gone */
    struct hsp_cluster *cluster;
    struct hsp_net *net;
    uint32_t places[HSP_NET_POOLS]; /* of net */
    uint32_t n_listeners;           /* of net */
    struct hsp_httpd *http;         /* NULL: off */
    struct hsp_metrics metrics;
    uv_timer_t tick, beat, retry, rest;
    struct hsp_notices notices; /* to the service manager */
    uv_idle_t no_wait;          /* active with after_poll: the loop polls without waiting */
    uv_check_t after_poll;
    hsp_msec tick_at; /* when tick fires, UINT64_MAX: not */
    bool closing, net_closed, http_closed, failed;
    void (*on_closed)(struct hsp_app *a);
    uint32_t n_works, n_handles;
    /* events on their way to the core: event_queue.h */
    struct hsp_app_event *events; /* first_event to n_events wait, oldest first */
    size_t first_event, n_events, cap_events;
    bool settling;                     /* app.c is taking events off the queue */
    void (*settle)(struct hsp_app *a); /* of app.c: hsp_app_settle */
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
    bool store_stalled;
    char stalled_why[HSP_TEXT_MAX];
    hsp_msec stalled_at, stood; /* core time when it began; the length of earlier ones */
    /* planning */
    struct hsp_planning *plannings; /* running and waiting */
    uint32_t n_planning;
    /* feed */
    uint64_t seq, flushed;
    uint64_t feed_added, feed_settled; /* lines since the start: made; on disk, or lost */
    struct hsp_feed_row *feed_head, *feed_tail;
    uint32_t n_feed;
    bool flushing, no_events; /* no_events: the last event file could not be written */
    bool feed_stuck;          /* lines wait for a disk that takes them */
    struct hsp_rebuilt rebuilt;
    char damage[HSP_TEXT_MAX]; /* of the store, which stands until a restart; "": none is known */
    int64_t start_s;           /* Unix time of the start */
    struct hsp_follower *followers;
    /* requests */
    uint64_t next_request;
    struct hsp_pending *pending;
    uint32_t check_number; /* whose key is below */
    uint8_t check_key[HSP_KEY_BYTES];
    struct hsp_adoption *adoptions; /* whose agents are being asked */
    struct hsp_look *looks;         /* questions about checkpoints */
    uint64_t look_number;           /* of the last one */
    struct hsp_waiter *waiters;
    struct hsp_tracing *tracings;
    uint32_t trace_number; /* of the last one; at most 65535 */
    /* lines about strangers */
    hsp_msec complained;
    uint32_t complaints, untold;
    struct hsp_refusals refusals; /* callers with another key */
    struct hsp_refusals denials;  /* callers without the right */
    uint32_t n_clients;
    struct hsp_caller *clients; /* owned, by slot of the connection */
    struct hsp_msg message;     /* one at a time: borrowed by its event until the core has had it */
    struct hsp_arena *decoding; /* owned: the fields of message */
    struct hsp_buf encoding;    /* of one message at a time */
};

hsp_msec hsp_app_now(void); /* monotonic */
int64_t hsp_app_unix_ms(void);
/* Returns the number above which the numbers of events of this generation begin. It is above all
 * numbers that the generation before could have given, so no number comes twice: 2^40 numbers are a
 * million a second for twelve days. */
uint64_t hsp_app_events_begin(const struct hsp_app *a);
/* Fills @ret with @n random bytes of the kernel. Returns false, and logs it, if there are none. */
bool hsp_app_random(struct hsp_app *a, void *ret, size_t n);

/* Returns the time of the core's clock. It is monotonic, and stops while the state cannot be
 * written, since the answer to a request that timed out meanwhile could not be sent. */
hsp_msec hsp_app_core_now(const struct hsp_app *a);
/* Returns the time of the monotonic clock at which the core's clock will show @at; UINT64_MAX if
 * @at is never, or if the core's clock is stopped. */
hsp_msec hsp_app_core_due(const struct hsp_app *a, hsp_msec at);

/* Reports that pages of the store are damaged, as @why says. The log gets one line; status and
 * /healthz show @why until a restart. */
void hsp_app_damaged(struct hsp_app *a, const char *why);
/* Called after an error by which memory and disk may differ: the process ends, and the next start
 * reads the store again. */
void hsp_app_fail(struct hsp_app *a, const char *what, const struct hsp_err *err);

/* Arms the timer `retry`, so that its callback, which app.c has set, tries the disk again in a
 * second. */
void hsp_app_retry_later(struct hsp_app *a);

/* Gives the posted events to the core. Called in each libuv callback in which an event may have
 * been posted; nothing happens while an outer call of it is at work. */
void hsp_app_settle(struct hsp_app *a);

/* Calls a->on_closed when the app is closing and nothing of it is left on the loop. */
void hsp_app_try_end(struct hsp_app *a);

#endif
