/* Supervises one executor per device and stands between the executors and hspmdd, as a pure
 * machine.
 *
 * Role:      hspmd-worker's shell feeds it events and performs the actions; tests/sim does the
 *            same.
 * Purity:    pure: time and everything else arrive in events.
 * Threads:   confined to the loop thread.
 * Ownership: an event is borrowed for the call; actions live until the next call.
 * Bounds:    HSP_NODE_DEVICES devices, one job at a time on each; one connection to hspmdd.
 *
 * Decisions: when executors are started, restarted (with backoff) and killed (silent, deaf to
 * SEAL, STOP, RELEASE or DROP, or their device is lost: then they are started again without it);
 * which messages pass; the answer to SEAL, also for executors that are dead; when its incarnation
 * is refused, that everything it runs is killed before it says hello anew; when it may go after a
 * planned leave; whether a coordinator knows enough of a job to have its state deleted (keeping.h).
 * While hspmdd is away executors go on, armed switches and checkpoints too; a loss leaves the job
 * sealed.
 *
 * Contract of the shell:
 *  (W1) CONNECT is answered by CONN_UP, later CONN_DOWN, or by CONN_DOWN alone; DISCONNECT by
 *       CONN_DOWN. After CONN_DOWN nothing of that connection arrives any more.
 *  (W2) SPAWN starts an executor whose first message is EXECUTOR_UP; its end is EXEC_EXIT,
 *       always, once, and after every message it sent. Messages to an executor that is gone are
 *       dropped.
 *  (W3) SCAN reads the headers of all state segments of the node and answers SCANNED with its
 *       number. A scan that fails ends the shell: an answer without segments would be believed.
 *  (W4) DISCARD deletes the segments of (job, device) with layouts below keep_plan.
 *  (W5) CHECK carries out an order of a check of nodes and answers it by CHECKED, with a message to
 *       be passed on; the next order waits for the end of the one before. STOP, END and CHECK_STOP
 *       make the one under way fail soon; END and CHECK_STOP also end the listening.
 *  (W6) REMEMBER replaces the kept incarnation; a shell that starts again gives it back as `was`,
 *       to prove that the new process is the same node (daemon/cluster/membership.h).
 *  (W7) REACH is answered by REACHED, with a message to be passed on, or never: hspmdd waits no
 *       longer than the time in it, and a little.
 *  (W8) KEEP_PAPERS writes the blob beside the segments of its job, and DROP_PAPERS deletes it if
 *       no segment of the job is there: both in the order of SCAN and DISCARD. READ_PAPERS is
 *       answered by PAPERS, with the message TOLD or NONE.
 *  (W9) FIND_CKPTS lists the checkpoints of a job and is answered by CKPTS, with a message to be
 *       passed on, or never, when the file system hangs.
 *
 * worker/agent/EXECUTOR.md lists the duties of an executor (worker/executor).
 *
 * Invariants (hsp_agent_check):
 *  (I1) a device without a running executor runs nothing.
 *  (I2) armed implies prepared.
 *  (I3) HELLO is sent at most once per connection, and only after SCANNED.
 *  (I4) while fencing no connection is asked for.
 */
#ifndef HSP_AGENT_H
#define HSP_AGENT_H
#include <stdio.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/wire/msg.h"
#include "worker/agent/gpu_health.h"

struct hsp_agent_config {
    const char *node, *address;
    struct hsp_digest was; /* the incarnation that REMEMBER kept last, 0: none */
    uint32_t n_cards, n_devices, n_paths;
    const struct hsp_m_card *cards;
    /* Profiles; up and address are ignored, index is set by position; health LOST, with why: it
     * cannot be used, from the start. */
    const struct hsp_m_device *devices;
    const struct hsp_m_path *paths; /* between devices */
    uint32_t n_damaged;
    /* damaged state of the devices, which is deleted; borrowed until START */
    const struct hsp_m_damaged *damaged;
    double same_latency_us, same_us_per_byte, cross_latency_us, cross_us_per_byte;
    uint32_t heartbeat_ms, dead_ms; /* until a WELCOME says otherwise */
    uint32_t spawn_ms;              /* an executor that does not come up by then is killed, too */
    uint32_t reconnect_ms;          /* first pause before connecting again, doubled up to 2 s */
};
/* heartbeat 500 ms, dead 3 s, spawn 20 s, reconnect 50 ms. */
void hsp_agent_defaults(struct hsp_agent_config *ret);

enum hsp_agent_event_type {
    HSP_AEV_START,      /* once, first */
    HSP_AEV_CONN_UP,    /* text: to whom, for the log; NULL not known */
    HSP_AEV_CONN_DOWN,  /* text: why */
    HSP_AEV_DAEMON_MSG, /* msg */
    HSP_AEV_EXEC_MSG,   /* device, msg */
    HSP_AEV_EXEC_EXIT,  /* device, text: "exit 1", "signal 9" */
    HSP_AEV_SCANNED,    /* scan, n, holdings, n_kept, kept, kept_more */
    HSP_AEV_LEAVE,      /* SIGTERM or notice: text, deadline_ms from now (0: none) */
    HSP_AEV_CHECKED,    /* msg */
    HSP_AEV_REACHED,    /* msg */
    HSP_AEV_CKPTS,      /* msg */
    HSP_AEV_PAPERS,     /* msg */
    HSP_AEV_PROFILE,    /* n, devices: all devices, speed and memory changed by the administrator */
    HSP_AEV_SIGN,       /* device, sign: its driver's word on its health */
    HSP_AEV_TICK
};
struct hsp_agent_event {
    uint64_t now_ms; /* never decreases */
    uint64_t now_us; /* of the same clock, for measurements; 0: only now_ms is known */
    enum hsp_agent_event_type type;
    uint32_t device;
    const struct hsp_msg *msg;
    const char *text;
    uint32_t deadline_ms;
    uint64_t scan;
    uint32_t n;
    const struct hsp_m_holding *holdings;
    uint32_t n_kept;
    const struct hsp_m_kept *kept; /* jobs of which anything is in the folder, sealed or not */
    bool kept_more;                /* the folder has state of further jobs, too many to list */
    const struct hsp_m_device *devices;
    const struct hsp_gpu_sign *sign;
    /* of any event: bytes that the state folder had free lately; 0: not known */
    uint64_t folder_free;
};

enum hsp_agent_action_type {
    HSP_AACT_CONNECT, /* text: the address hspmdd told us, NULL: the one of the configuration */
    HSP_AACT_DISCONNECT,
    HSP_AACT_SEND,      /* msg: to hspmdd */
    HSP_AACT_SEND_EXEC, /* device, msg */
    HSP_AACT_SPAWN,     /* device, bare */
    HSP_AACT_KILL,      /* device: SIGKILL */
    HSP_AACT_SCAN,      /* scan */
    HSP_AACT_DISCARD,   /* job, device, keep_plan */
    HSP_AACT_REMEMBER,  /* incarnation: kept beside the segments, as long as they are */
    HSP_AACT_CHECK,     /* msg */
    HSP_AACT_CHECK_STOP,
    HSP_AACT_REACH,       /* msg */
    HSP_AACT_KEEP_PAPERS, /* msg */
    HSP_AACT_DROP_PAPERS, /* job */
    HSP_AACT_READ_PAPERS, /* msg */
    HSP_AACT_FIND_CKPTS,  /* msg */
    HSP_AACT_LOG,         /* severity as syslog: 3 error, 4 warning, 5 notice, 6 info; text */
    HSP_AACT_EXIT         /* text: the process may end, executors are gone */
};
struct hsp_agent_action {
    enum hsp_agent_action_type type;
    uint32_t device, job;
    uint64_t keep_plan, scan;
    struct hsp_digest incarnation;
    bool bare; /* without its device, which is lost: to serve sealed state */
    int severity;
    const struct hsp_msg *msg;
    const char *text;
};
/* Of one step at most: the steps that are told again behind a WELCOME are half of them. */
#define HSP_AGENT_ACTIONS 8192u
struct hsp_agent_actions {
    uint32_t n;
    const struct hsp_agent_action *item;
};

/*   DOWN --SPAWN--> STARTING --EXECUTOR_UP--> UP --EXEC_EXIT--> DOWN (restart after a pause)  */
enum hsp_exec_state { HSP_EXEC_DOWN, HSP_EXEC_STARTING, HSP_EXEC_UP };

struct hsp_agent_device { /* read-only for shells */
    enum hsp_exec_state state;
    char kind[16], address[HSP_ADDRESS_MAX + 1];
    char model[HSP_MODEL_MAX + 1], uuid[HSP_UUID_MAX + 1], cpus[HSP_CPUS_MAX + 1];
    double gemm_part[HSP_GEMM_PARTS];
    struct hsp_m_device profile;
    struct hsp_gpu_health health;
    struct hsp_m_run run;     /* job 0: idle */
    uint64_t preparing;       /* epoch of a PREPARE not yet answered */
    bool source, next_source; /* running / prepared epoch: serves state only */
    uint64_t plan, next_plan; /* layout of the running / prepared epoch */
    bool killed;              /* KILL was asked; EXEC_EXIT is due */
    const char *killed_for;   /* why, until EXEC_EXIT; NULL: not by hsp_ai_kill */
    bool sealing;             /* SEAL sent, answer due */
    uint32_t crashes;         /* in a row */
    /* the pace of beats and the bound of silence that the executor was told */
    uint32_t beat_ms, dead_ms;
    uint64_t spawn_ms, heard_ms, restart_ms;
};
enum hsp_agent_link {
    HSP_LINK_DOWN,
    HSP_LINK_CONNECTING,
    HSP_LINK_SCANNING,
    HSP_LINK_HELLO,
    HSP_LINK_UP,
    HSP_LINK_PARKED /* connected, no member: only heartbeats pass */
};

struct hsp_agent; /* opaque */

/* Copies @cfg. NULL: no memory, or more devices, cards or paths than a node has. */
struct hsp_agent *hsp_agent_new(const struct hsp_agent_config *cfg);
struct hsp_agent *hsp_agent_free(struct hsp_agent *a); /* NULL allowed; returns NULL */

/* HSP_EINVAL: a device that does not exist (state unchanged); HSP_ENOMEM: only to be freed. */
enum hsp_status hsp_agent_step(struct hsp_agent *a, const struct hsp_agent_event *ev,
                               struct hsp_agent_actions *ret, struct hsp_err *err);
uint64_t hsp_agent_deadline(const struct hsp_agent *a); /* UINT64_MAX: none */
void hsp_agent_check(const struct hsp_agent *a);
void hsp_agent_dump(const struct hsp_agent *a, struct hsp_buf *out);

const struct hsp_agent_device *hsp_agent_device_at(const struct hsp_agent *a, uint32_t device);
enum hsp_agent_link hsp_agent_link_state(const struct hsp_agent *a);

#endif
