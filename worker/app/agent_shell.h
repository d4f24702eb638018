/* The shell of the agent: what its files share (agent_main.c, agent_loop.c, agent_executors.c, agent_links.c,
 * agent_disk.c, agent_check.c).
 *
 * Role:      carries the events of sockets, processes, signals and clocks into the pure machine
 *            (worker/agent/agent.h) and performs its actions, keeping its contract W1 to W4.
 * Purity:    shell.
 * Threads:   the loop thread; disk tasks run on libuv's pool, one at a time.
 * Ownership: one struct hsp_agent_shell, owned by hsp_agent_run.
 *
 * Order: an action may fail or be answered at once. What follows from that is noted (`due`) and fed
 * to the machine after all actions of the step are done, never inside them.
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
struct hsp_agent_setup; /* of agent_main.c */

struct hsp_agent_exec { /* the executor of one device */
    struct hsp_agent_shell *shell;
    uint32_t device;
    pid_t pid;     /* 0: none */
    uint32_t conn; /* of our socket pair; 0: closed, all its messages are read */
    bool ended;    /* waited for; its end is in `text` */
    bool due;      /* EXEC_EXIT is to be fed */
    bool bare;     /* it has to do without its device */
    char text[160];
};

struct hsp_agent_task; /* SCAN or DISCARD, waiting or under way */
struct hsp_node_check; /* of agent_check.c */

struct hsp_agent_shell {
    uv_loop_t loop;
    const struct hsp_worker_config *cfg;
    struct hsp_agent_setup *setup; /* borrowed: reads the configuration again */
    struct hsp_logger *log;
    struct hsp_agent *agent;
    const char *node, *dir; /* name; folder of its segments */
    uint32_t heartbeat_ms;
    uint32_t n_execs; /* of the devices, then of the keepers */
    struct hsp_agent_exec exec[HSP_NODE_DEVICES];
    struct hsp_net *net;     /* connections to hspmdd and to the executors */
    struct hsp_arena *arena; /* of the message received last */
    uint32_t daemon;         /* connection to hspmdd, 0: none */
    bool down_due;           /* CONN_DOWN is to be fed */
    char down_why[160];
    struct hsp_agent_task *task, *last_task; /* the first one is under way */
    struct hsp_node_check *check;            /* NULL until the first order */
    struct hsp_gpuwatch *gpus;               /* borrowed; NULL: none is watched */
    uv_timer_t timer, watchdog;
    struct hsp_notices notices; /* to the service manager */
    uv_signal_t sigchld;
    struct hsp_signals signals;
    bool signals_open, stepping, leaving, ending;
    int rc;           /* exit status, when ending */
    char status[160]; /* last told to the service manager */
};

/* ---- agent_main.c ---- */

/* Reads the configuration again, checks all of it and takes over what may change while the agent
 * runs; *ret_devices (of all devices, borrowed) when their figures are others now, else NULL. The
 * texts list what was taken and what needs a restart. On failure nothing has changed. */
enum hsp_status hsp_agent_reload(struct hsp_agent_setup *u, struct hsp_buf *ret_applied,
                                 struct hsp_buf *ret_restart,
                                 const struct hsp_m_device **ret_devices, struct hsp_err *err);

/* What is known of its GPUs; NULL: nothing. It belongs to @u. */
struct hsp_gpuwatch *hsp_agent_gpus(const struct hsp_agent_setup *u);
/* The environment of the executor of a GPU (nccl_env.h); NULL: the agent's. It belongs to @u. */
char *const *hsp_agent_env(const struct hsp_agent_setup *u, uint32_t device);
/* NCCL may have settings that are not in that environment: what it does is not known. */
bool hsp_agent_nccl_unknown(const struct hsp_agent_setup *u, uint32_t device);

/* ---- agent_loop.c ---- */

/* Runs an agent to its end. @dir as above; @machine has the profiles of the devices, then of the
 * keepers. Returns the exit status. */
int hsp_agent_run(const struct hsp_worker_config *cfg, const struct hsp_agent_config *machine,
                  const struct hsp_net_keys *keys, const char *dir, struct hsp_agent_setup *setup,
                  struct hsp_logger *log);

/* Feeds one event, now, and all that follows from it. Not to be called from inside an action. */
void hsp_agent_feed(struct hsp_agent_shell *s, struct hsp_agent_event *ev);
/* Something no restart of a part mends: the loop ends with exit status 1. */
void hsp_agent_fail(struct hsp_agent_shell *s, const struct hsp_err *why);

/* ---- agent_executors.c: SPAWN, KILL, SEND_EXEC ---- */

/* @bare: without its device, which is lost. */
void hsp_agent_spawn(struct hsp_agent_shell *s, uint32_t device, bool bare);
void hsp_agent_kill(struct hsp_agent_shell *s, uint32_t device);
void hsp_agent_order(struct hsp_agent_shell *s, uint32_t device, const struct hsp_msg *m);
void hsp_agent_reap(struct hsp_agent_shell *s);    /* a child has ended, or may have */
void hsp_agent_end_all(struct hsp_agent_shell *s); /* kills all and waits for them */

/* ---- agent_disk.c: SCAN, DISCARD, in the order asked ---- */

void hsp_agent_scan(struct hsp_agent_shell *s, uint64_t scan);
void hsp_agent_discard(struct hsp_agent_shell *s, uint32_t job, uint32_t device,
                       uint64_t keep_plan);
void hsp_agent_drop_tasks(struct hsp_agent_shell *s); /* all but the one under way */

/* ---- agent_check.c: CHECK, CHECK_STOP ---- */

void hsp_agent_check_order(struct hsp_agent_shell *s, const struct hsp_m_check *m);
void hsp_agent_check_stop(struct hsp_agent_shell *s);
void hsp_agent_check_free(struct hsp_agent_shell *s); /* when the loop has ended */

/* ---- agent_links.c: CONNECT, DISCONNECT, SEND; frames of both sides ---- */

enum hsp_status hsp_agent_net_open(struct hsp_agent_shell *s, const struct hsp_net_keys *keys,
                                   struct hsp_err *err);
/* @address: NULL: as configured. */
void hsp_agent_connect(struct hsp_agent_shell *s, const char *address);
void hsp_agent_disconnect(struct hsp_agent_shell *s);
void hsp_agent_send(struct hsp_agent_shell *s, const struct hsp_msg *m);
/* One message over any connection. HSP_AGAIN: the other side does not read; errors of
 * hsp_msg_encode and hsp_net_send. */
enum hsp_status hsp_agent_put(struct hsp_agent_shell *s, uint32_t conn, const struct hsp_msg *m,
                              struct hsp_err *err);
/* agent_executors.c: what agent_links.c received from an executor. */
void hsp_agent_exec_msg(struct hsp_agent_exec *x, const struct hsp_msg *m);
void hsp_agent_exec_closed(struct hsp_agent_exec *x, const struct hsp_err *why);

#endif
