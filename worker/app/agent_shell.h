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

#endif
