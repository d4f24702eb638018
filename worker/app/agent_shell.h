/* Holds the state that the parts of the agent's shell share, and queues the events that follow from
 * actions, so that the machine is never stepped inside one of its own actions.
 *
 * Role:      ground of the shell. A part hands the events of sockets, processes, signals and clocks
 *            to the loop (agent_loop.c), which alone steps the pure machine (worker/agent/agent.h),
 *            performs its actions and keeps its contract W1 to W8.
 * Purity:    shell.
 * Threads:   the loop thread; disk tasks run on libuv's pool, one at a time.
 * Ownership: one struct hsp_agent_shell, owned by hsp_agent_run.
 *
 * Order: hsp_agent_deliver() steps the machine at once, so the event may borrow its data from the
 * callback. hsp_agent_post() copies the event into the queue. The loop drains the queue when all
 * actions of the step are performed, before the callback returns: the end of the connection first,
 * then the ends of executors by number.
 */
#ifndef HSP_AGENT_SHELL_H
#define HSP_AGENT_SHELL_H
#include <uv.h>

#include "proto/host/log.h"
#include "proto/host/sd_notify.h"
#include "proto/host/uv_signal.h"
#include "proto/net/net.h"
#include "worker/agent/agent.h"
#include "worker/app/spawn.h"
#include "worker/app/worker_config.h"
#include "worker/probe/gpu_monitor.h"

struct hsp_agent_shell;
struct hsp_agent_setup; /* agent_setup.h */

#define HSP_AGENT_TEXT 160 /* of an event in the queue, cut */

struct hsp_agent_exec { /* the executor of one device */
    struct hsp_agent_shell *shell;
    uint32_t device;
    pid_t pid;     /* 0: none */
    uint32_t conn; /* of our socket pair; 0: closed, all its messages are read */
    bool ended;    /* waited for; its end is in `text` */
    bool bare;     /* has to do without its device */
    char text[HSP_AGENT_TEXT];
};

struct hsp_agent_posted { /* an event in the queue */
    enum hsp_agent_event_type type;
    uint32_t device;
    char text[HSP_AGENT_TEXT];
};
/* The queue has one place for the end of the connection, and one for the end of each device's
 * executor. The machine asks for a second connection, or a second executor of a device, only after
 * it has got the event of the first one's end. */
#define HSP_AGENT_POSTS (HSP_NODE_DEVICES + 1)

struct hsp_agent_task;  /* of agent_disk.c, waiting or under way */
struct hsp_node_check;  /* of agent_check.c */
struct hsp_agent_ckpts; /* of agent_ckpts.c */

struct hsp_agent_shell {
    uv_loop_t loop;
    const struct hsp_worker_config *cfg;
    struct hsp_agent_setup *setup; /* borrowed: reads the configuration again */
    struct hsp_logger *log;
    struct hsp_agent *agent;
    const char *node, *dir; /* name; folder of its segments */
    uint32_t heartbeat_ms;
    uint32_t n_execs; /* of the devices, then of the replica holders */
    struct hsp_agent_exec exec[HSP_NODE_DEVICES];
    struct hsp_net *net;     /* connections to hspmdd and to the executors */
    struct hsp_arena *arena; /* of the message received last */
    uint32_t daemon;         /* connection to hspmdd, 0: none */
    uint32_t n_posted;
    struct hsp_agent_posted posted[HSP_AGENT_POSTS]; /* in the order in which they are fed */
    /* A function of the loop: steps the machine by @ev, then by all posted events. */
    void (*feed)(struct hsp_agent_shell *s, struct hsp_agent_event *ev);
    struct hsp_agent_task *task, *last_task; /* the first one is under way */
    uint64_t folder_free;                    /* bytes, when last looked at; 0: not known */
    bool measures;                           /* a look at it is under way */
    struct hsp_node_check *check;            /* NULL until the first order */
    struct hsp_agent_ckpts *ckpts;           /* NULL until the first question */
    uint32_t n_rounds;                       /* of REACH, under way */
    struct hsp_gpuwatch *gpus;               /* borrowed; NULL: none is watched */
    uv_timer_t timer, watchdog;
    struct hsp_notices notices; /* to the service manager */
    uv_signal_t sigchld;
    struct hsp_signals signals;
    bool signals_open, leaving, ending;
    bool stepping;    /* the machine, or its actions are being performed */
    int rc;           /* exit status, when ending */
    char status[160]; /* last told to the service manager */
};

/* Steps the machine by an event of a callback, which is borrowed for the call, then by all events
 * of the queue. It must not be called from inside an action. When the shell is ending it does
 * nothing. */
void hsp_agent_deliver(struct hsp_agent_shell *s, struct hsp_agent_event *ev);
/* Queues an event that follows from an action, or that the next hsp_agent_deliver must handle:
 * CONN_DOWN or EXEC_EXIT. The text of the event is copied. */
void hsp_agent_post(struct hsp_agent_shell *s, const struct hsp_agent_event *ev);
/* Takes the first event of the queue. Returns false if there is none. */
bool hsp_agent_take(struct hsp_agent_shell *s, struct hsp_agent_posted *ret);
/* Ends the loop with exit status @rc, unless it is ending already. */
void hsp_agent_stop(struct hsp_agent_shell *s, int rc);
/* Reports a failure that no restart of a part of the shell mends: the loop ends with exit status
 * 1. */
void hsp_agent_fail(struct hsp_agent_shell *s, const struct hsp_err *why);

#endif
