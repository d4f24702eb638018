/* Declares the events, actions and contract of the coordinator, a pure machine that decides about
 * membership, jobs, leases and epochs (decisions D8-D10). Its functions are in cluster_step.h.
 *
 * Role:      hspmdd's shell feeds the machine events and performs the actions it returns; tests/sim
 *            does the same under virtual time. The machine never sees a socket, a plan's content or
 *            a program.
 * Purity:    pure: time and everything else arrive in events.
 * Threads:   confined to the loop thread.
 * Ownership: an event is borrowed for the call. Actions and all they point to are valid until the
 *            next call of hsp_cluster_step.
 * Bounds:    HSP_MAX_NODES nodes, HSP_MAX_JOBS jobs not yet forgotten, HSP_MSG_RANKS ranks a job.
 *
 * Contract of the shell:
 *  (W1) Actions are performed in order, and nothing behind a STORE, ERASE, KEEP_PLAN or COPY_PLAN
 *       leaves the process before that row is on disk; only answers to heartbeats and the questions
 *       of FIND_CKPTS may always leave.
 *       A write that fails is tried again: until it succeeds, or the process ends and the next
 *       start reloads, the clock of the events stands.
 *  (W2) A plan is computed on the snapshot of START_PLAN; PLAN_DONE names its ticket. Every
 *       ticket is answered once, unless CANCEL_PLAN named it.
 *  (W3) KEEP_PLAN(job, plan, ticket) makes the result of that ticket durable under (job, plan), in
 *       the place of an earlier result, until DROP_PLAN(job, plan) or the end of the job. Results
 *       not kept may be forgotten. COPY_PLAN(job, plan, from) does the same with the result kept
 *       under (job, from).
 *  (W4) SEND on a connection that has closed is dropped silently. CONN_CLOSED follows every
 *       CLOSE.
 *  (W5) The rows last stored are given to hsp_cluster_load before the first event.
 *  (W6) ECHO is answered by the shell, at once, while hsp_cluster_measures says that the node may
 *       ask, HSP_CLUSTER_ECHOES times; then it is fed like every message: the node is heard.
 *  (W7) TICK comes behind the messages that have arrived by then: only TICK finds nodes silent.
 *  (W8) TRACE and TRACED are between the shell and the agents of a running epoch: the core only
 *       hears from which node they come.
 *  (W9) PAPERS is sent with a blob of the rows given and of the shell's own rows of the job and of
 *       its plans that are kept by then. Papers that are too large are not sent.
 *
 * Invariants (hsp_cluster_check):
 *  (I1) epochs of a job only grow and none is used twice.
 *  (I2) a device is leased to at most one job, and every peer of a live epoch is leased to
 *       its job.
 *  (I3) a connection belongs to at most one node.
 *  (I4) only a job in STARTING, SWITCHING or RECOVERING has an attempt.
 *  (I5) no plan result of an old ticket is used.
 *  (I6) terminal, suspended and behind jobs have no epoch and no ticket.
 *  (I7) a connection is of a member or of a parked agent, not of both.
 */
#ifndef HSP_CLUSTER_H
#define HSP_CLUSTER_H

#include "proto/base/err.h"
#include "proto/wire/msg.h"

struct hsp_cluster_node;
struct hsp_job;
struct hsp_papers; /* proto/wire/papers.h */

#define HSP_MAX_NODES       16384u
#define HSP_MAX_JOBS        1024u
#define HSP_CLUSTER_FACTS   64u /* learnt facts of a job that planning sees */
#define HSP_CLUSTER_ROW_MAX (16u << 20)
#define HSP_CLUSTER_ECHOES  16u              /* questions of one measurement */
#define HSP_MAX_FOREIGN     (UINT32_MAX / 2) /* numbers of jobs of other clusters are below */
#define HSP_JOBS_FOLLOWED   (1u << 30)       /* no coordinator has come so far */
#define HSP_MAX_ADOPTED     16u              /* clusters whose jobs were adopted, ever */
#define HSP_ADOPTED_OVER    256u /* of their jobs: those that have ended and are forgotten */
#define HSP_MAX_PARKED      HSP_MAX_NODES /* of them a shell may allow fewer: max_parked */
#define HSP_MAX_PARKED_JOBS 65536u        /* four of each such agent; status lists them in 12 MB */
#define HSP_MAX_FOUND       256u          /* jobs that agents keep and no row tells of (behind.h) */
/* Of nodes that do not reach each other: two halves of 32 nodes. */
#define HSP_MAX_PAIRS    1024u
#define HSP_REACH_NODES  64u /* of one round: a bit each */
#define HSP_REACH_ROUNDS 16u /* at a time: as many jobs that lose a peer at once */

/* Replica holders of a layout: recovery.copies is at most 8, and one node is a member's. */
#define HSP_MAX_REPLICA_HOLDERS 7u
#define HSP_NO_DEVICE           UINT32_MAX

typedef uint64_t hsp_msec;

/* A device everywhere in this room: node * HSP_NODE_DEVICES + index. */
typedef uint32_t hsp_device_id;
#define HSP_DEVICE(node, index) ((node)*HSP_NODE_DEVICES + (index))
#define HSP_DEVICE_NODE(d)      ((d) / HSP_NODE_DEVICES)
#define HSP_DEVICE_INDEX(d)     ((d) % HSP_NODE_DEVICES)

struct hsp_cluster; /* opaque; read-only views in cluster_state.h */

#define HSP_REPLACED_MAX 120 /* reasons of jobs have room for it */

/* One knob (failure_detection) gives the rest: hsp_cluster_defaults. */
struct hsp_cluster_config {
    uint32_t heartbeat_ms; /* agents beat this often */
    uint32_t suspect_ms;   /* silent this long: suspect, told, nothing else */
    uint32_t dead_ms;      /* silent this long: dead and fenced */
    uint32_t seal_ms;      /* a live agent that does not answer SEAL is dead: it gives its executors
                              a sixth of it at most (worker/agent/obey.h) */
    uint32_t prepare_ms;   /* PREPARE without READY: the attempt fails */
    uint32_t up_ms;        /* how long an attempt waits for a restarting executor */
    /* state unreachable: how long to wait for its nodes before the checkpoint */
    uint32_t state_wait_ms;
    uint32_t retune_ms;    /* least time between re-plans for slow devices */
    uint32_t slow_steps;   /* steps above slow_ratio, see slow.c */
    double slow_ratio;     /* measured compute share over the plan's */
    uint32_t max_failures; /* attempts without progress before the job fails */
    uint32_t backoff_ms;   /* after the second failed attempt, doubled up to 5 s */
    uint32_t measures;     /* nodes that measure their links at a time, 0: none does */
    uint32_t measure_ms;   /* then it is another one's turn */
    bool data_tls;         /* epochs begun from now on encrypt their TCP connections */
    const char *trusted;   /* then NCCL may go between hosts there, "" or NULL nowhere; borrowed */
    uint64_t forget_s;     /* a node that has gone is forgotten after it, 0: never */
    uint32_t max_parked;   /* agents that are no members, at most HSP_MAX_PARKED (parked.h) */
    const char *address;   /* told to agents as another way to here, NULL none; borrowed */
    const char *replaced;  /* path of the store that a restore replaced last, at most
                              HSP_REPLACED_MAX bytes, NULL none; borrowed */
    uint32_t replaced_generation; /* number of its generation */
    /* Random, drawn anew at each start: the cluster's id where the rows have none, and the lower
     * half of the next generation. */
    struct hsp_digest fresh_id;
    uint32_t salt;
};

/* ---- results of planning ---- */

/* Rank `holder` has the part of the state that belongs to rank `owner`: its own home (holder ==
 * owner) or the copy promised to it. Holders from n_ranks on are replica holders. */
struct hsp_piece_holder {
    uint32_t holder, owner;
};
/* The parts of a plan the core needs. A *shard* is a maximal part of the state held by the same
 * pieces; a version is whole when every shard has a live sealed piece. */
struct hsp_plan_info {
    uint32_t n_ranks;
    hsp_device_id *device; /* [n_ranks], distinct, all out of the snapshot */
    uint64_t *mem_bytes;   /* [n_ranks] predicted */
    double *compute_s;     /* [n_ranks] predicted compute seconds of a step; 0: unknown */
    /* [n_ranks] bytes of each in the state folder of its node: both slots, its own and copies; NULL
     * or 0: unknown. Not kept in rows, so it is unknown after a start of hspmdd. */
    uint64_t *folder_bytes;
    double *speed; /* [n_ranks] of hsp_plan_request, as asked; the core fills it in */
    double step_s; /* predicted, for people */
    uint32_t n_shards;
    uint32_t *shard_first; /* [n_shards + 1] into pieces */
    struct hsp_piece_holder *pieces;
    const char *why; /* one line */
    /* Different templates, and how many of them no earlier plan of the job had; 0: not known. For
     * people; not kept by the core. */
    uint32_t n_templates, new_templates;
    /* Where the members stand on fewer nodes than the job's copies, each version also goes to
     * *replica holders*: devices of other nodes that compute nothing, as mesh ranks n_ranks...
     * Planning says for how many replica holders there is room (each holds the whole state) and how
     * much one takes; the core chooses them. */
    /* at most HSP_MAX_REPLICA_HOLDERS; pieces name holders below n_ranks + n_spare */
    uint32_t n_spare;
    uint64_t keep_bytes; /* both slots of one replica holder, in the state folder of its node */
    uint32_t n_replica_holders; /* chosen, <= n_spare; 0 in results of planning */
    hsp_device_id replica_holder[HSP_MAX_REPLICA_HOLDERS];
};

/* A fact learnt by an attempt that failed. The fact ends in time (learnt.h), and when the device's
 * node joins anew. */
struct hsp_plan_fact {
    uint32_t kind; /* enum hsp_fact_kind */
    hsp_device_id device, peer;
    uint64_t amount; /* the greatest, where it was learnt again */
    uint32_t again;  /* how often it was learnt after the first time */
};

/* The snapshot of START_PLAN. */
struct hsp_plan_request {
    uint32_t job;
    uint64_t ticket;
    bool urgent; /* after a loss: a feasible plan at once; refined later */
    /* 0: none. The plan that runs or ran last, for comparison and small moves */
    uint64_t current_plan;
    bool current_usable; /* the job could go on: keep is a possible answer */
    const char *cause;
    uint32_t n_devices;
    hsp_device_id *devices; /* ascending: all that the job may use; it need not use all */
    double *speed;          /* [n_devices] observed speed over the profile's, 1 unless re-tuned */
    uint32_t n_facts;
    struct hsp_plan_fact *facts;
};

/* ---- events ---- */

enum hsp_event_type {
    HSP_EV_CONN_OPENED, /* an agent connected: conn */
    HSP_EV_MSG,         /* conn, msg: from an agent */
    HSP_EV_CONN_CLOSED, /* conn */
    HSP_EV_TICK,        /* time passed (W7) */
    HSP_EV_ADMIN,       /* admin */
    HSP_EV_PLAN_DONE,   /* plan */
    HSP_EV_CONFIG,      /* config: other times and limits from now on */
    HSP_EV_UNREADABLE,  /* unreadable: the shell has no files of a job; if it is to run, it fails */
    HSP_EV_CKPTS        /* ckpts: the answer to FIND_CKPTS */
};

enum hsp_admin_verb {
    HSP_ADMIN_SUBMIT,
    HSP_ADMIN_CANCEL,
    HSP_ADMIN_SCALE,      /* min, max */
    HSP_ADMIN_DRAIN,      /* node, reason */
    HSP_ADMIN_UNDRAIN,    /* node */
    HSP_ADMIN_ALLOW,      /* node: it may keep copies of state for others; it need not be known */
    HSP_ADMIN_REMOVE,     /* node: it has gone for good, and is forgotten */
    HSP_ADMIN_DENY,       /* node: it may not; the copies on it move elsewhere, as by a drain */
    HSP_ADMIN_CHECKPOINT, /* one now */
    HSP_ADMIN_RESUME,     /* a failed job from the state that its nodes keep, a suspended or
                             cancelled one from its newest checkpoint; one that is being suspended
                             goes on */
    HSP_ADMIN_FORGET,     /* an ended job: its state and its row are deleted, not its checkpoints */
    HSP_ADMIN_SUSPEND,    /* when a new checkpoint is complete; at once before the start */
    /* papers, force: a job that is BEHIND, or not on record, goes on from the state that its agents
     * keep */
    HSP_ADMIN_ADOPT,
    HSP_ADMIN_CHECK,     /* check: its REPLY comes when all is measured */
    HSP_ADMIN_CHECK_STOP /* the administrator of the check `request` has gone */
};

struct hsp_job_terms { /* the parts of the job file the core decides with */
    const char *name;  /* unique among jobs that are not terminal */
    int32_t priority;  /* higher first */
    uint32_t min, max; /* devices */
    uint32_t copies;   /* nodes that hold each version, where there are that many */
    uint64_t steps;
    uint64_t checkpoint_every;
    const char *data_path, *checkpoint_path;
    bool checkpoint_shared;
    uint32_t checkpoint_keep;
};

struct hsp_check_terms {
    double threshold;  /* for the shell, which judges */
    bool busy;         /* nodes that execute a job, too */
    uint32_t n_nodes;  /* at most HSP_CHECK_NODES; 0: all that are connected */
    const char **node; /* their names */
};

struct hsp_admin_event {
    enum hsp_admin_verb verb;
    uint64_t request;          /* comes back in REPLY */
    const char *actor;         /* for the events feed */
    struct hsp_job_terms spec; /* submit */
    struct hsp_check_terms check;
    uint32_t job; /* cancel, scale, checkpoint, resume, suspend, forget */
    uint32_t min, max;
    /* adopt: the newest that agents have; `reason` says whose they are, and `node` which of them an
     * administrator has named, NULL or "": none */
    const struct hsp_papers *papers;
    uint32_t n_agents; /* adopt: connections of the agents whose papers these are */
    const uint32_t *agent;
    bool force;    /* adopt: also without nodes that are not here */
    bool has_step; /* resume: from the checkpoint of `step`, not the newest */
    uint64_t step;
    bool diverged; /* resume: no loss from version `diverged_from` on is finite, say the metrics */
    uint64_t diverged_from;
    bool stopping;   /* resume: nobody was asked, as devices of the job did not stop in time */
    bool looked;     /* resume: nodes have been asked which checkpoints they see; */
    uint32_t n_seen; /* these; reason: the part that could not be seen, "" none */
    const struct hsp_m_seen *seen;
    const char *node, *reason;
};
struct hsp_plan_event {
    uint32_t job;
    uint64_t ticket;
    enum hsp_status status; /* HSP_OK; HSP_EINFEASIBLE or another error with reason */
    bool keep;              /* the current plan is as good: nothing to do (planned switch only) */
    bool tight;             /* with more room in state folders the answer might be another one */
    const char *reason;
    const struct hsp_plan_info *info;
};

struct hsp_unreadable_event {
    uint32_t job;
    const char *why;
};

/* The nodes that were asked for checkpoints and could not look (ckpt_look.h): the gravest kind
 * counts. */
enum hsp_ckpt_lack {
    HSP_LACK_LOOK, /* a node that matters */
    HSP_LACK_AWAY, /* one that matters is not connected */
    /* One that may matter has nothing that shows that the job began there: its path is not
     * mounted, or it never ran the job. */
    HSP_LACK_PATH,
    HSP_LACK_OTHERS /* none that matters */
};

struct hsp_ckpts_event {
    uint32_t job;
    uint64_t ticket; /* of FIND_CKPTS */
    uint32_t n;
    const struct hsp_m_seen *seen; /* of all nodes together, in no order */
    uint32_t n_others;             /* behind those: not believed, but new epochs are above theirs */
    const char *why; /* the part that could not be seen; "" all that were asked have answered */
    enum hsp_ckpt_lack lack; /* of whom, where there is a `why` */
    bool begun;              /* a node has a checkpoint of the job, or the file of its begin */
    bool mute; /* a node that matters cannot be asked, and may have the checkpoints on record */
    const char *damaged; /* the fault of a newer one, as a node says; "" none */
};

struct hsp_event {
    hsp_msec now_ms; /* never decreases */
    enum hsp_event_type type;
    uint32_t conn;            /* not 0; never reused by the shell while the daemon lives */
    uint64_t unix_s;          /* by the clock on the wall, which may jump; 0: not known */
    struct hsp_digest random; /* with HELLO: 128 random bits, drawn for this event; not 0 */
    uint64_t source;  /* with HELLO: the same for all that come from one address; 0: not known */
    const char *peer; /* with HELLO: that address, for people; NULL: not known */
    union {
        const struct hsp_msg *msg;
        struct hsp_admin_event admin;
        struct hsp_plan_event plan;
        const struct hsp_cluster_config *config; /* checked by the caller */
        struct hsp_unreadable_event unreadable;
        struct hsp_ckpts_event ckpts;
    } u;
};

/* ---- actions ---- */

enum hsp_action_type {
    HSP_ACT_SEND,    /* conn, msg */
    HSP_ACT_PREPARE, /* conn, msg (PREPARE without key and blob), prepare: the shell adds both */
    HSP_ACT_PAPERS,  /* conn, msg (PAPERS without blob), papers: the shell adds its rows, see W9 */
    HSP_ACT_CHECK,   /* conn, msg (CHECK without key): the shell adds a key, one for each check */
    HSP_ACT_CLOSE,   /* conn, text */
    HSP_ACT_STORE,   /* key, value, len: replaces the row */
    HSP_ACT_ERASE,   /* key */
    HSP_ACT_START_PLAN,  /* plan */
    HSP_ACT_CANCEL_PLAN, /* job, ticket: no PLAN_DONE is needed any more */
    HSP_ACT_KEEP_PLAN,   /* job, plan_no, ticket */
    HSP_ACT_COPY_PLAN,   /* job, plan_no, from_plan */
    HSP_ACT_DROP_PLAN,   /* job, plan_no */
    /* job, ticket: which complete checkpoints of the job do nodes see? CKPTS is the answer. A later
     * question of the same job takes the place of an earlier one, whose answer need not come. The
     * question changes nothing, so it may leave before the rows in front of it (W1). */
    HSP_ACT_FIND_CKPTS,
    HSP_ACT_REPLY, /* request, status, job, text */
    HSP_ACT_FACT,  /* fact: one line of the events feed */
    /* msg: STEP, the record of a step, or FINISHED, in whose blob are those of all steps. The epoch
     * is that of msg. Of a step the first record of the newest epoch stays: a repeated record
     * changes nothing. */
    HSP_ACT_METRIC
};

struct hsp_prepare_peer {
    hsp_device_id device;
    const char *address; /* data plane, as the executor said */
};
/* A live sealed piece that may serve as a source; rank is the holder's mesh rank in the new epoch.
 */
struct hsp_prepare_source {
    uint32_t peer;          /* index in peers */
    uint32_t holder, owner; /* ranks in from_plan */
};
struct hsp_prepare_apart { /* peers that cannot reach each other: no connection is made */
    uint32_t a, b;         /* indices in peers, a < b */
};
struct hsp_prepare_action { /* the same for all devices of one epoch */
    uint32_t n_peers;       /* members of the plan, then replica holders, then sources */
    struct hsp_prepare_peer *peers;
    uint32_t n_sources; /* RECOVER and SWITCH: where the state can be had */
    struct hsp_prepare_source *sources;
    uint32_t n_replica_holders;
    uint32_t n_apart; /* RECOVER: sources and those that get their state over others; ascending */
    struct hsp_prepare_apart *apart;
    bool buckets; /* all members know those of Reshards */
};

enum hsp_severity { HSP_SEV_INFO, HSP_SEV_NOTICE, HSP_SEV_WARN, HSP_SEV_ERROR };

/* When each part of an epoch change happened; 0: did not. */
struct hsp_epoch_trace {
    hsp_msec detect_ms, sealed_ms, planned_ms, prepare_ms, ready_ms, go_ms, started_ms,
        first_step_ms;
    double transfer_ms;      /* slowest device */
    uint64_t transfer_bytes; /* all devices */
    uint64_t passed_on_bytes;
};

struct hsp_fact {     /* words of types: conf/events.schema.json */
    const char *type; /* "node.dead", "switch.end" */
    enum hsp_severity severity;
    uint32_t job;     /* 0 none */
    const char *node; /* "" none */
    uint64_t epoch, incarnation;
    const char *reason;                  /* one line, with its numbers */
    const char *cause, *actor;           /* "" none */
    uint64_t step, lost_steps;           /* switch.end: first step; steps computed again; of a
                                            checkpoint its step, 0 none */
    const struct hsp_epoch_trace *trace; /* switch.end, else NULL */
};

struct hsp_action {
    enum hsp_action_type type;
    uint32_t conn;
    const struct hsp_msg *msg;
    const char *text;
    const char *key;
    const void *value;
    uint32_t len;
    uint32_t job;
    uint64_t ticket, plan_no, from_plan, request;
    enum hsp_status status;
    union {
        const struct hsp_plan_request *plan;
        const struct hsp_prepare_action *prepare;
        const struct hsp_fact *fact;
        const struct hsp_papers *papers; /* one for all actions of a step that have the same */
    } u;
};
struct hsp_actions {
    uint32_t n;
    const struct hsp_action *item;
};

struct hsp_cluster_row { /* borrowed */
    const char *key;
    const void *value;
    uint32_t len;
};

#endif
