/* Defines the messages of the control plane: one C struct and one field table each (decision D16).
 *
 * Role:      hspmdd <-> agent <-> executor and hspmdctl <-> hspmdd. The tables of msg_table.c drive
 *            encode, decode and dump, so the three cannot disagree; README.md is the normative
 *            list.
 * Purity:    pure. The frame around a message is proto/wire/frame.h.
 * Ownership: a decoded message and everything it points to lives in the arena given; the blob is
 *            borrowed from the caller. An encoder borrows everything.
 * Bounds:    the HSP_MSG_ limits below; each is checked before anything is allocated for it.
 *
 * Numbers:   u64 travel as decimal strings, digests and keys as hex strings, non-finite doubles as
 *            "nan", "inf", "-inf". A message belongs to one epoch of its job: `epoch` stands in the
 *            frame header (0 where a message has none), never in the body.
 */
#ifndef HSP_MSG_H
#define HSP_MSG_H
#include <stdbool.h>
#include <stdint.h>
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"
#include "proto/wire/ckpt_cut.h"
#include "proto/wire/frame.h"
#include "proto/wire/protocol.h"

/* Limits, and why. */
#define HSP_MSG_BODY_MAX    (4u << 20)  /* a HELLO with every holding below: under 2 MiB */
#define HSP_MSG_BLOB_MAX    (64u << 20) /* D16 */
#define HSP_MSG_METRICS_MAX (4u << 20)
#define HSP_MSG_PAPERS_MAX  (16u << 20) /* most have some 10 kB: papers.h */
#define HSP_MSG_TRACE_MAX   (8u << 20)  /* 65536 spans of 27 bytes, names and messages of labels */
#define HSP_NODE_DEVICES    16u   /* devices of one node: more than any server has accelerators */
#define HSP_NODE_CARDS      16u   /* network cards of one node */
#define HSP_CARD_NAME       15u   /* as Linux names interfaces */
#define HSP_NODE_PATHS      120u  /* pairs of devices of one node */
#define HSP_MODEL_MAX       63u   /* "NVIDIA H200" */
#define HSP_UUID_MAX        47u   /* "GPU-" and 36 letters */
#define HSP_CPUS_MAX        127u  /* "0-23,48-71" */
#define HSP_WHY_MAX         119u  /* of the health of a device */
#define HSP_NAME_MAX        63u   /* hsp_name_valid */
#define HSP_GEMM_PARTS      20u   /* four types, five classes */
#define HSP_ADDRESS_MAX     255u  /* host:port or unix:path */
#define HSP_NETWORKS_MAX    415u  /* "10.0.0.0/8, fd00::/8": HSP_IPNETS_TEXT of proto/net */
#define HSP_TEXT_MAX        1023u /* reasons and messages people read */
#define HSP_PATH_MAX        4095u
#define HSP_MSG_HOLDINGS    32768u /* pieces of state one node offers: 1 MiB (agent/keeping.h) */
#define HSP_MSG_RUNS        64u    /* device x job entries of one node */
#define HSP_MSG_KEPT        64u    /* jobs of which one node keeps state */
#define HSP_MSG_RANKS       4096u  /* ranks of a job */
#define HSP_MSG_LINKS       8192u  /* connections of one rank: two meshes, below RANKS each */
#define HSP_MSG_STEPS       64u    /* of a trace */
#define HSP_MSG_FILES       64u    /* annotation files of a job */
#define HSP_MSG_FILE_MAX    (1u << 20)
#define HSP_KEY_BYTES       32
#define HSP_SEEN_CKPTS      256u        /* checkpoints of a job that one node lists: the newest */
#define HSP_CHECK_NODES     64u         /* nodes of one check: 2016 pairs */
#define HSP_REACH_TARGETS   256u        /* listeners that one node calls: 64 nodes, their cards */
#define HSP_STANDS_LINKS    256u        /* links of one rank of which it tells */
#define HSP_ECHO_CHUNK      (32u << 10) /* blob of an echo: a slow link is heard between two */
#define HSP_ECHO_MAX        (1u << 20)  /* bytes that a measurement moves one way in one go */

/* X(NAME, number, struct and union member, name on the wire). Directions: A agent, D hspmdd, E
 * executor, C hspmdctl. Numbers are never reused. */
#define HSP_MSG_MAP(X)                                     \
    X(HELLO, 1, hello, "hello")        /* A>D */           \
    X(WELCOME, 2, welcome, "welcome")  /* D>A, A>E */      \
    X(FENCED, 3, fenced, "fenced")     /* D>A */           \
    X(HEARTBEAT, 4, beat, "heartbeat") /* A>D>A, E>A */    \
    X(PREPARE, 5, prepare, "prepare")  /* D>A>E */         \
    X(READY, 6, ready, "ready")        /* E>A>D */         \
    X(PREPARE_FAILED, 7, failed, "prepare-failed")         \
    X(ARM, 8, devref, "arm")            /* D>A>E */        \
    X(START, 9, start, "start")         /* D>A>E */        \
    X(STARTED, 10, started, "started")  /* E>A>D */        \
    X(DROP, 11, devref, "drop")         /* D>A>E */        \
    X(SEAL, 12, jobref, "seal")         /* D>A>E */        \
    X(SEALED, 13, sealed, "sealed")     /* E>A, A>D */     \
    X(STEP, 14, step, "step")           /* E>A>D */        \
    X(PEER_LOST, 15, lost, "peer-lost") /* E>A>D */        \
    X(EXECUTOR_DEAD, 16, dead, "executor-dead")            \
    X(EXECUTOR_UP, 17, up, "executor-up")   /* E>A, A>D */ \
    X(STOP, 18, devref, "stop")             /* D>A>E */    \
    X(STOPPED, 19, devref, "stopped")       /* E>A, A>D */ \
    X(RELEASE, 20, release, "release")      /* D>A>E */    \
    X(RELEASED, 21, devref, "released")     /* E>A, A>D */ \
    X(CHECKPOINT, 22, devref, "checkpoint") /* D>A>E */    \
    X(CHECKPOINTED, 23, ckpt, "checkpointed")              \
    X(FINISHED, 24, finished, "finished") /* E>A>D */      \
    X(JOB_FAILED, 25, jobfail, "job-failed")               \
    X(LEAVE, 26, leave, "leave") /* A>D */                 \
    X(DRAIN_NOTICE, 27, text, "drain-notice")              \
    X(BYE, 28, text, "bye")            /* D>A */           \
    X(MEASURE, 29, measure, "measure") /* D>A */           \
    X(ECHO, 30, echo, "echo")          /* A>D>A */         \
    X(UPLINK, 31, uplink, "uplink")    /* A>D */           \
    X(CHECK, 32, check, "check")       /* D>A */           \
    X(CHECKED, 33, checked, "checked") /* A>D */           \
    X(DEVICE_HEALTH, 34, health, "device-health")          \
    X(TRACE, 35, trace, "trace")    /* D>A>E */            \
    X(TRACED, 36, traced, "traced") /* E>A>D */            \
    X(STATE_DAMAGED, 37, damaged, "state-damaged")         \
    X(PARKED, 39, parked, "parked") /* D>A */              \
    X(PAPERS, 41, papers, "papers") /* D>A>D */            \
    X(CKPT_REFUSED, 42, refused, "ckpt-refused")           \
    X(DROPPED, 43, devref, "dropped")  /* E>A */           \
    X(REACH, 44, reach, "reach")       /* D>A */           \
    X(REACHED, 45, reached, "reached") /* A>D */           \
    X(WHERE, 46, where, "where")       /* D>A>E */         \
    X(STANDS, 47, stands, "stands")    /* E>A>D */         \
    X(CKPTS, 48, ckpts, "ckpts")       /* D>A>D */         \
    X(SUBMIT, 100, submit, "submit")   /* C>D ... */       \
    X(PLAN, 101, submit, "plan")                           \
    X(STATUS, 102, query, "status")                        \
    X(CANCEL, 103, query, "cancel")                        \
    X(LOGS, 104, query, "logs")                            \
    X(EVENTS, 105, query, "events")                        \
    X(WAIT, 106, query, "wait")                            \
    X(SCALE, 107, scale, "scale")                          \
    X(DRAIN, 108, drain, "drain")                          \
    X(UNDRAIN, 109, drain, "undrain")                      \
    X(METRICS, 110, query, "metrics")                      \
    X(CKPT, 111, query, "ckpt")                            \
    X(RESUME, 112, query, "resume")                        \
    X(PROGRAM, 113, query, "program")                      \
    X(GRAPH, 114, query, "graph")                          \
    X(NODE_CHECK, 115, nodecheck, "node-check")            \
    X(SUSPEND, 116, query, "suspend")                      \
    X(TRACE_JOB, 117, tracejob, "trace-job")               \
    X(BACKUP, 121, query, "backup")                        \
    X(FORGET, 122, query, "forget")                        \
    X(ADOPT, 124, adopt, "adopt")                          \
    X(NODE_ALLOW, 125, nodeallow, "node-allow")            \
    X(NODE_REMOVE, 126, nodename, "node-remove")           \
    X(REPLY, 200, reply, "reply") /* D>C */

enum hsp_msg_type {
#define HSP_MSG_ENUM(n, v, s, w) HSP_MSG_##n = (v),
    HSP_MSG_MAP(HSP_MSG_ENUM)
#undef HSP_MSG_ENUM
};

/* Tells how an epoch gets its state. */
enum hsp_epoch_mode {
    HSP_MODE_FRESH,   /* version 0 from the seed, or init_from */
    HSP_MODE_SWITCH,  /* planned: from the running epoch, at the version after the armed vote */
    HSP_MODE_RECOVER, /* after a loss: version `step` of layout `from_plan`, from live holders */
    HSP_MODE_RESTORE  /* version `step` from the checkpoint */
};

enum hsp_fact_kind { /* why a PREPARE failed; enters the next planning input */
                     /* amount: bytes it has less than it offers. UINT64_MAX, below protocol 16: its
                      * state folder is full. */
                     HSP_FACT_OUT_OF_MEMORY,
                     HSP_FACT_CANNOT_CONNECT, /* peer: rank that cannot be reached */
                     HSP_FACT_NO_DATA,        /* data.path cannot be read */
                     HSP_FACT_DATA_DIFFERS,   /* found by hspmdd when digests of READY differ */
                     HSP_FACT_BAD_PROGRAM,    /* template or binding refused: digest or check */
                     HSP_FACT_NO_STATE,       /* offered state is gone or does not verify */
                     HSP_FACT_TIMEOUT,        /* found by hspmdd: no answer within prepare_ms */
                     HSP_FACT_STATE_FOLDER,   /* nothing can be made in the node's state folder */
                     /* A sealed segment of the layout was laid out by another version of hspmdd.
                      * amount 0: the layout is to get another number; UINT64_MAX: that does not
                      * help, for this hspmdd cuts it otherwise. */
                     HSP_FACT_STATE_SHAPE,
                     HSP_FACT_OTHER /* also want of memory for anything but the plan */
};

/* The health of a device, as its agent judges (worker/agent/gpu_health.h). */
enum hsp_health {
    HSP_HEALTH_FINE,
    HSP_HEALTH_WARN,   /* for people; it works on */
    HSP_HEALTH_CORDON, /* gets no new work; its present work is moved away in order */
    HSP_HEALTH_LOST    /* does not compute any more; it may still serve sealed state */
};

/* How two devices of a node reach each other. */
enum hsp_path_kind {
    HSP_PATH_NVLINK,
    HSP_PATH_NVSWITCH,
    HSP_PATH_PCI_SWITCH,
    HSP_PATH_HOST_BRIDGE,
    HSP_PATH_NUMA,
    HSP_PATH_SYSTEM
};

enum hsp_papers_what {
    HSP_PAPERS_KEEP,   /* D>A, blob: the newest ones, instead of those that are there */
    HSP_PAPERS_ASK,    /* D>A: answered by TOLD or NONE, also by an agent that is no member */
    HSP_PAPERS_TOLD,   /* A>D, blob */
    HSP_PAPERS_NONE,   /* A>D, reason: there are none, or they are damaged */
    HSP_PAPERS_DISCARD /* D>A: an administrator has said that all that is kept of this job goes */
};

enum hsp_check_what {                    /* of an order within a check of nodes */
                      HSP_CHECK_OPEN,    /* listen for LINK until END */
                      HSP_CHECK_COMPUTE, /* the same, and measure the devices */
                      HSP_CHECK_LINK,    /* measure the link to a peer, which has the other rank */
                      HSP_CHECK_STOP,    /* give up the order under way */
                      HSP_CHECK_END      /* and listen no more */
};

/* A device of this kind keeps copies of state for others and computes nothing; its memory is the
 * free room of the node's state folder. */
#define HSP_KIND_REPLICA_HOLDER "keeper"

struct hsp_m_card { /* a network card by which executors reach other hosts */
    const char *name;
    double gbit_per_s; /* of its link, 0: not known */
};
struct hsp_m_device {   /* one device, as probed */
    uint32_t index;     /* in its node, below HSP_NODE_DEVICES */
    uint32_t card;      /* the card to other hosts, among the cards of the hello */
    const char *kind;   /* "cpu", "cuda", HSP_KIND_REPLICA_HOLDER */
    double speed;       /* fraction of a core emulated, 1 otherwise */
    uint64_t mem_bytes; /* offered to jobs */
    double gemm_fp32_flops, gemm_fp64_flops;
    double gemm_tf32_flops, gemm_bf16_flops; /* 0: it computes them in fp32, as fast */
    uint32_t n_gemm_parts;
    double *gemm_parts; /* shares of these rates that products of other shapes reach: of each class
                           (proto/op/gemm_class.h) in fp32, then in fp64, tf32 and bf16; 0 or
                           missing: not known */
    double mem_bytes_per_s;
    double op_us, gemm_us;   /* of an instruction; of a product on top of that */
    double host_bytes_per_s; /* between its memory and its node's; 0: these are one */
    double bf16_part; /* of mem_bytes_per_s, that element-wise work on bf16 reaches; 0: all of it */
    bool up;          /* its executor is running and has said EXECUTOR_UP */
    const char *address; /* data plane address of the executor, "" while it is down */
    /* of a GPU, as far as its driver tells */
    const char *model, *uuid; /* "" not known */
    uint32_t sm;              /* compute capability, 10 major + minor; 0 not known */
    const char *cpus;         /* processors nearest to it, as Linux lists them; "" not known */
    uint32_t health;          /* enum hsp_health */
    const char *why;          /* of its health; "" when FINE */
};

struct hsp_m_path { /* between two devices of a node, a < b */
    uint32_t a, b;
    uint32_t kind;      /* enum hsp_path_kind */
    uint32_t links;     /* of NVLink: between the two, or to switches; else 0 */
    double bytes_per_s; /* one way; 0: not known */
    double latency_us;  /* of a small copy; 0: not known */
};
struct hsp_m_health { /* the health of a device is another now */
    uint32_t device;
    uint32_t health; /* enum hsp_health */
    const char *reason;
};

/* One piece of sealed state: version `version` of the boxes that rank `owner` of layout `plan`
 * keeps at home (owner == rank), or the parts of them promised to the holder as a copy (owner !=
 * rank). `rank` is the holder's own rank in that layout. */
struct hsp_m_holding {
    uint32_t job, device;
    uint64_t plan;
    uint32_t rank, owner;
    uint64_t version;
};

/* The executor or agent that finds a piece of sealed state that differs from its seal sends
 * DAMAGED, and deletes the piece; nobody has been given the piece before. With `given_up_in`, each
 * rank of that epoch sends DAMAGED, because the replicas of the version differ: then no piece of
 * the version, or of a later version of the layout, may be used, on whichever node it is. */
struct hsp_m_damaged {
    uint32_t job, device;
    uint64_t plan;
    uint32_t rank, owner;
    uint64_t version;     /* UINT64_MAX: not known */
    bool live;            /* it went bad while the job ran, in the hands of this device */
    uint64_t given_up_in; /* epoch; 0: this piece alone */
    const char *part; /* tensor, kind and box of the first part that is damaged, or "the head" */
};

struct hsp_m_run { /* the work of a device for a job, as its agent knows */
    uint32_t job, device;
    uint64_t running;  /* epoch it runs, 0 none. A source that serves an epoch runs it */
    uint64_t prepared; /* epoch it has answered READY to and not begun, 0 none */
    uint64_t armed;    /* epoch it is armed for (== prepared), 0 not */
    bool broken;       /* the running epoch broke: sealed by itself, waits for SEAL */
    bool finished;     /* outputs of the job are written */
    uint64_t version;  /* last stable version it knows */
};

/* One job whose state a node keeps, of any cluster. */
struct hsp_m_kept {
    uint32_t job;
    const char *name;          /* "" not known */
    struct hsp_digest cluster; /* whose it is; none: of a program that knew of no clusters */
    uint64_t generation;       /* in which that was told */
    uint64_t epoch;            /* the newest one that was prepared here, 0 not known */
    uint64_t plan;             /* the newest layout, 0 none */
    bool papers_damaged;       /* its papers are here, and cannot be used */
};

struct hsp_m_hello {
    uint32_t protocol, protocol_oldest; /* the newest and the oldest version it speaks */
    const char *node;
    const char *address;           /* of the agent, for people and for same-host tests */
    struct hsp_digest incarnation; /* the one it holds, 0: none (a new agent process, or fenced) */
    struct hsp_digest was;         /* the one it or its state folder had last, 0: none */
    struct hsp_digest cluster; /* of the last welcome, with term and incarnation; none: of none */
    uint64_t generation, term; /* highest obeyed */
    double same_latency_us, same_us_per_byte;   /* links inside the node */
    double cross_latency_us, cross_us_per_byte; /* to others, 0: not measured */
    uint64_t folder_free;                       /* as in struct hsp_m_beat */
    uint32_t n_cards, n_devices, n_paths, n_kept, n_holdings, n_runs;
    struct hsp_m_card *cards; /* none: one, of which nothing is known */
    struct hsp_m_device *devices;
    struct hsp_m_path *paths; /* between GPUs; a pair that is missing is not known */
    struct hsp_m_kept *kept;  /* all jobs of holdings and runs, and of unsealed state */
    struct hsp_m_holding *holdings;
    struct hsp_m_run *runs;
};
struct hsp_m_welcome {
    uint32_t protocol; /* the newest that both speak */
    struct hsp_digest cluster;
    uint64_t generation, term;
    struct hsp_digest incarnation; /* 128 random bits: a process that names them is this one */
    uint32_t heartbeat_ms, dead_ms;
    const char *address; /* another way to this hspmdd, for reconnecting; "" none */
};
/* The agent is no member, and its state stays untouched: hspmdd asks it for nothing. The agent
 * stays connected, and says hello again when it is told to, or connects anew. */
struct hsp_m_parked {
    struct hsp_digest cluster; /* of hspmdd */
    uint64_t generation;
    uint32_t heartbeat_ms, dead_ms;
    const char *reason;
    uint32_t
        again_ms; /* not 0: there is no place for it, the connection ends, and it comes back then */
};
/* Tells an agent of this cluster that its incarnation has ended, and an agent of another cluster
 * only that it is refused. */
struct hsp_m_fenced {
    struct hsp_digest cluster; /* of hspmdd */
    const char *reason;
};
/* The job record (papers.h) that a node keeps beside the state of a job; `epoch` is in the
 * frame. */
struct hsp_m_papers {
    uint32_t job;
    uint32_t what;             /* enum hsp_papers_what */
    struct hsp_digest cluster; /* whose the job is; DISCARD: of which job of this number is meant */
    struct hsp_digest from;    /* KEEP: whose it was, when it has been adopted; else none */
    uint64_t generation;
    const char *reason;
};
struct hsp_m_text {
    const char *reason;
};
struct hsp_m_beat {
    uint64_t seq;         /* hspmdd answers with the same */
    uint64_t clock_us;    /* the sender's monotonic clock when it was sent; of an executor 0 */
    uint64_t folder_free; /* bytes that its state folder had free, of an agent; 0: not known */
};
struct hsp_m_measure {
    uint32_t echoes; /* as many questions may be asked, ECHO with `more` not counted */
};
/* A measurement of the link between agent and hspmdd. The agent sends pieces of at most
 * HSP_ECHO_CHUNK bytes in the blob, all with one seq, `more` on all but the last; hspmdd answers
 * the last one with the same seq and `back` bytes, cut in the same way. */
struct hsp_m_echo {
    uint32_t seq;
    uint32_t back; /* bytes wanted in the answer; 0 in an answer */
    bool more;
};
struct hsp_m_uplink {   /* the measured rates of the node's link to hspmdd */
    double latency_s;   /* one way */
    double bytes_per_s; /* of the slower direction */
};
/* A check of nodes, asked for by an administrator: one order at a time for each node. */
struct hsp_m_check {
    uint32_t check;             /* number of the check */
    uint32_t seq;               /* of the order; grows, the same for both ends of a link */
    uint32_t what;              /* enum hsp_check_what */
    uint32_t rank;              /* LINK: 0 or 1 */
    const char *peer;           /* LINK: name of the other node, else "" */
    const char *peer_address;   /* LINK: where it listens */
    uint32_t within_ms;         /* LINK: for the connection to stand */
    bool tls;                   /* LINK: as epochs do, encrypt traffic by TCP */
    uint8_t key[HSP_KEY_BYTES]; /* LINK: both ends prove that they have it */
};
struct hsp_m_figures { /* of one device, at its configured speed, as in hsp_m_device */
    uint32_t device;
    double gemm_fp32_flops, gemm_fp64_flops;
    double mem_bytes_per_s;
    double op_us;
    double share; /* of the time, that it got its core */
};
/* The answer to every order but STOP and END. */
struct hsp_m_checked {
    uint32_t check, seq;
    const char *fault;     /* "" or why there are no figures */
    const char *address;   /* OPEN, COMPUTE: where it listens; else "" */
    const char *transport; /* LINK: "shm", "unix", "tcp" or "tls"; else "" */
    double latency_s;      /* LINK: one way */
    double bytes_per_s;    /* LINK: from here to the peer */
    uint32_t n_devices;    /* COMPUTE */
    struct hsp_m_figures *devices;
};
#define HSP_DUE_AUTO UINT32_MAX /* rank 0 chooses the distance of due versions */

/* hspmdd sends one PREPARE for each device. The blob (msg_blob.h) holds peers, template, binding,
 * transfer table and copy table. */
struct hsp_m_prepare {
    uint32_t job;
    const char *job_name;
    struct hsp_digest cluster; /* whose state it is to be, in segments and checkpoints */
    uint64_t generation;
    uint32_t device;     /* to which device of the node */
    uint32_t rank;       /* in the epoch's mesh: members, replica holders, sources */
    uint32_t n_ranks;    /* members: ranks of the plan */
    uint32_t n_keepers;  /* take every version and confirm it, compute nothing */
    uint32_t n_peers;    /* with the sources, which only serve state at the start */
    uint32_t mode;       /* enum hsp_epoch_mode */
    uint64_t plan;       /* layout of this epoch; the name of its state segments */
    uint64_t from_plan;  /* layout the state comes from; 0: fresh or restore */
    uint64_t step;       /* version to begin with; switch: unknown, 0 */
    uint64_t void_from;  /* recover: the least version of `plan` that the job gave up; the member
                            deletes it and all later ones before READY; UINT64_MAX: none */
    uint64_t base_epoch; /* switch: the running epoch it follows, else 0 */
    uint64_t steps;      /* the job ends with this version */
    uint64_t checkpoint_every; /* 0: never. Executors do these on their own (also without hspmdd) */
    uint8_t key[HSP_KEY_BYTES]; /* epoch key */
    const char *data_path;      /* "" none */
    const char *checkpoint_path;
    bool checkpoint_shared;
    /* Restore: which checkpoint of version `step` is meant: the term and epoch of its writers, and
     * its content. ckpt_epoch 0: not known, the latest one that there is. */
    uint64_t ckpt_term, ckpt_epoch, ckpt_content;
    /* Whose checkpoints and final model these are: `cluster`, or the cluster in which an adopted
     * job began. */
    struct hsp_digest ckpt_cluster;
    uint32_t n_cuts;
    struct hsp_m_cut *cuts; /* steps given up: no checkpoint to keep, no note to tell */
    /* checkpoint_shared, and a member is of protocol 14: all write into the folder that it
     * knows. */
    bool ckpt_old_name;
    /* TCP between members is encrypted; the same for all members of an epoch. */
    bool data_tls;
    const char *trusted_network; /* where NCCL may be used between hosts all the same; "" nowhere */
    /* A peer on another host counts as lost when it has been silent for so long; the same for all
     * members of an epoch. */
    uint32_t silent_ms;
    /* The peers exchange their notes of steps; the same for all members of an epoch. */
    bool share_notes;
    uint32_t due_every; /* distance of due versions (worker/executor/due.h); 0: each one */
    double due_overhead, due_recompute_s; /* AUTO: at most so much of the time; seconds of steps */
    /* Each part of the state is at home on several nodes, and all of the epoch know the use of
     * that: at a loss a member seals the version that it computes with
     * (worker/executor/epoch_live.h). */
    bool live;
    /* Set if the job recovers in the layout that has version `step`: version `keep` of the layout
     * stays until version `step` is stable, and at START all other versions of the layout are
     * deleted. If false, the message says nothing of older versions. */
    bool keeps;
    uint64_t keep;
};
struct hsp_m_ready {
    uint32_t job, device;
    uint64_t mem_bytes;  /* taken by this epoch */
    uint64_t data_bytes; /* of the files of data.path, 0 none */
    uint64_t data_tokens;
    struct hsp_digest data_digest;
    double connect_ms, build_ms;
    /* Its connections to members and replica holders, which last as long as the epoch
     * (worker/comm). */
    uint32_t links_shm, links_unix, links_tls, links_tcp;
};
struct hsp_m_failed {
    uint32_t job, device;
    uint32_t fact; /* enum hsp_fact_kind */
    uint64_t amount;
    uint32_t peer; /* rank; HSP_MSG_RANKS: unknown, or no peer's fault */
    uint32_t by;   /* rank whose connection to it could not be made, or broke */
    bool silent;   /* peer does not answer; else it refuses, is late, or has ended */
    const char *reason;
};
struct hsp_m_jobref { /* SEAL: every epoch up to `epoch`, on all devices of the node */
    uint32_t job;
    uint32_t more_ms; /* that executors may take longer than to stop: they seal their state */
#define HSP_SEAL_MORE_MS 50000 /* at most: one that waits for the end of an epoch beats a minute */
};
/* The device begins the prepared epoch at version `step`; later versions of its layout are void. */
struct hsp_m_start {
    uint32_t job, device;
    uint64_t step;
};
struct hsp_m_started { /* state is in place and sealed; the first step begins */
    uint32_t job, device;
    uint64_t step; /* first step of the epoch */
    double transfer_ms;
    double weights_ms, optimizer_ms,
        seal_ms; /* parts of transfer_ms: moving the weights, moving the rest, hashing to seal */
    uint64_t transfer_bytes;  /* received */
    uint64_t passed_on_bytes; /* received and sent on to other ranks */
};
/* E>A: this executor runs nothing of the epochs up to `epoch` any more and cannot write their
 * memory. A>D: the same for every device of the node, with the sealed pieces it holds. */
struct hsp_m_sealed {
    uint32_t job;
    uint32_t n_holdings;
    struct hsp_m_holding *holdings;
};
/* Rank 0 sends STEP when it has passed the vote of `step`. Version `step` - `ahead` is stable. */
struct hsp_m_step {
    uint32_t job;
    uint64_t step;         /* the step whose vote passed */
    uint64_t ahead;        /* 0: version `step` is stable */
    double loss, val_loss; /* mean per token; val_loss nan when not validated */
    double grad_norm, lr;
    uint64_t tokens;
    double seconds;    /* of the whole step */
    uint32_t sequence; /* of a pool: tokens of the sequences of the plan that ran it; else 0 */
    bool final;        /* step == steps: nothing was trained, the last version is stable */
    uint32_t n_compute;
    double *compute_s; /* compute seconds of each rank, from the vote records */
};
struct hsp_m_lost {
    uint32_t job, device;
    uint32_t peer;     /* rank in the epoch's mesh that broke; HSP_MSG_RANKS: unknown */
    uint32_t by;       /* rank that saw it break, and told the others */
    bool silent;       /* nothing came from it any more; else its connection has ended */
    bool before_start; /* the epoch was only prepared: a running one goes on */
    const char *reason;
};
struct hsp_m_dead {
    uint32_t device;
    uint32_t restart_ms; /* the agent starts it again after this time */
    const char *reason;  /* "exit 1", "signal 9" */
};
struct hsp_m_up {
    uint32_t device;
    const char *address; /* data plane */
};
/* ARM, DROP: the prepared epoch; DROPPED: this epoch and those before it have freed memory. STOP:
 * the job ends on this device, its state goes; answered by STOPPED.
 * CHECKPOINT: to rank 0, which carries the wish into its next vote record. */
struct hsp_m_devref {
    uint32_t job, device;
};
/* The device may delete layouts with a number below `keep_plan` (the numbers of a job only grow). A
 * source leaves the epoch. */
struct hsp_m_release {
    uint32_t job, device;
    uint64_t keep_plan;
    uint64_t known; /* the newest epoch of the job that hspmdd has given: a node that has seen a
                       newer one deletes nothing */
};
/* Rank 0 sends CHECKPOINTED when the manifest is in place, or when the checkpoint failed. For the
 * version `steps` of the job the message is never complete: it says that the final model could not
 * be written, and that rank 0 tries again. */
struct hsp_m_ckpt {
    uint32_t job;
    uint64_t step;
    uint64_t term; /* of the hspmdd that made the epoch, as the manifest has it */
    bool complete;
    uint64_t content; /* sum of the hashes of all that is in it; 0: not complete */
    uint64_t bytes;
    double seconds;
    const char *reason; /* "" or why not */
};
/* Each member of an epoch of mode restore sends this message when no member has the checkpoint that
 * PREPARE names. */
struct hsp_m_refused {
    uint32_t job, device;
    uint64_t step;
    bool damaged; /* a member has it, or one that it may be, and it is damaged */
    const char *reason;
};
/* D>A: which complete checkpoints of this job are in `path`/`name`? A>D: those, newest first, also
 * beside a reason. A step is listed once for each content. */
struct hsp_m_seen {
    uint64_t step, term, epoch, content; /* as in hsp_m_ckpt */
};
struct hsp_m_ckpts {
    uint32_t job;
    uint64_t number;           /* of the question, not 0 */
    struct hsp_digest cluster; /* D>A: whose they are, as PREPARE's ckpt_cluster */
    const char *name, *path;   /* D>A; "" in the answer */
    uint32_t n_seen;
    struct hsp_m_seen *seen; /* D>A: those on record, to be opened by name; A>D */
    bool absent;             /* A>D: nothing in path/name is of that job, also not the file that a
                                member makes before its first step */
    const char *damaged;     /* A>D: the damage of a newer one; "" there is none */
    const char *reason;      /* A>D: why the folder, or a newer one, cannot be read; "" it can */
};
/* Rank 0 sends FINISHED when the outputs are written. The blob holds the lines of metrics.jsonl,
 * because hspmdd may have been away for some steps. If all lines are more than HSP_MSG_METRICS_MAX
 * bytes, the blob holds those of the last steps. */
struct hsp_m_finished {
    uint32_t job;
    uint64_t step;
    const char *damage;  /* lines of notes that were left out: which, of which file; "" none */
    const char *lacking; /* steps of which metrics.jsonl has no line: how many, which; "" none */
};
struct hsp_m_jobfail { /* an error no restart mends, e.g. ten non-finite steps in a row */
    uint32_t job, device;
    const char *reason;
};
/* TRACE goes to rank 0, which puts the request into its next vote record. All members record the
 * `steps` steps after that vote, and answer TRACED. */
struct hsp_m_trace {
    uint32_t job, device;
    uint32_t number; /* of the trace, not 0 */
    uint32_t steps;
};
/* Each member sends TRACED when it has recorded the steps, or when the epoch ends earlier.
 * trace_part.h describes the blob. The agent adds offset_us: executors measure by the agent's
 * clock, and hspmdd's clock is that clock plus offset_us. */
struct hsp_m_traced {
    uint32_t job, device;
    uint32_t rank;
    uint32_t number;
    double offset_us;
    double error_us; /* the offset is right to within it; inf: it is not known */
};
/* hspmdd asks which of these listeners of executors answer a call from this node within the
 * time. */
struct hsp_m_target {
    const char *address;
};
struct hsp_m_reach {
    uint32_t round; /* of hspmdd, not 0 */
    uint32_t within_ms;
    uint32_t n_targets;
    struct hsp_m_target *targets;
};
struct hsp_m_deaf {
    uint32_t target; /* index in targets */
    bool refused;    /* its host answers, but nobody listens there */
};
struct hsp_m_reached { /* the targets that were not reached */
    uint32_t round;
    uint32_t n_deaf;
    struct hsp_m_deaf *deaf;
};
/* hspmdd asks for the present activity of the rank on this device, because no vote of its job has
 * passed for long. */
struct hsp_m_where {
    uint32_t job, device;
    uint32_t round; /* of hspmdd, not 0 */
};
/* The present activity of a thread of a rank. */
enum hsp_doing {
    HSP_DOING_PREPARE,    /* its epoch has not begun */
    HSP_DOING_MOVE,       /* fetches the state it begins with */
    HSP_DOING_COMPUTE,    /* runs an instruction that is none of the following */
    HSP_DOING_RECEIVE,    /* waits for a message of `peer` */
    HSP_DOING_SEND,       /* waits until a message to `peer` has left */
    HSP_DOING_COPY,       /* waits for its other thread: the version is to be sealed and copied */
    HSP_DOING_CHECKPOINT, /* writes one, or sends its part */
    HSP_DOING_FINISH,     /* all steps are done */
    HSP_DOING_NOTHING     /* of the thread that copies: there is nothing to do */
};
struct hsp_m_thread {
    uint32_t doing; /* enum hsp_doing */
    uint32_t peer;  /* mesh rank in the epoch of the header; HSP_MSG_RANKS: none */
    uint64_t since_ms;
};
/* A TCP connection to a peer; the figures are those of both meshes together. */
struct hsp_m_link {
    uint32_t peer;
    uint64_t unsent;    /* bytes for it that have not arrived there */
    bool held;          /* its messages are not read: there is no room, or nobody asks for them */
    double bytes_per_s; /* fastest arrival of a long message since it was asked last; 0: none */
};
struct hsp_m_stands {
    uint32_t job, device;
    uint32_t round;
    uint64_t step;        /* under way, or to be the next */
    uint64_t stable;      /* newest version known to be stable; 0: none */
    uint64_t moved;       /* grows with all that it does and receives */
    bool validation;      /* the step is at its validation */
    bool checkpoint;      /* one is being written, or the final model */
    uint32_t micro;       /* micro-batch */
    uint32_t instruction; /* index in the program; UINT32_MAX: none */
    uint32_t n_threads;
    struct hsp_m_thread
        *threads; /* the one that trains; then, if there is one, that which copies */
    uint32_t n_links;
    struct hsp_m_link *links;
};
struct hsp_m_leave { /* planned leave: SIGTERM or a spot notice */
    const char *reason;
    uint32_t deadline_ms; /* the node is gone after this; 0 unknown */
};

/* --- hspmdctl --- */
struct hsp_m_file {
    const char *name, *text;
};
struct hsp_m_submit { /* blob: the job file */
    const char *file; /* its name, for messages */
    bool dry_run;
    uint32_t n_files; /* annotations it names */
    struct hsp_m_file *files;
};
struct hsp_m_query {
    const char *name;    /* job or node, "" all */
    const char *what;    /* verb of ckpt, part of program or graph, condition of wait, "all"; "" */
    uint64_t since;      /* sequence or step */
    uint32_t timeout_ms; /* wait, 0 none */
    bool follow;         /* keep sending REPLY with `more` */
};
struct hsp_m_nodename {
    const char *name;
};
struct hsp_m_nodecheck {
    double threshold; /* less than this part of the recorded rate is too slow */
    bool busy;        /* measure nodes that execute a job, too */
    uint32_t n_nodes; /* 0: all that are connected */
    struct hsp_m_nodename *nodes;
};
struct hsp_m_tracejob { /* the answer's blob is a Chrome trace */
    const char *name;
    uint32_t steps;
};
struct hsp_m_scale {
    const char *name;
    uint32_t min, max;
};
struct hsp_m_drain {
    const char *name, *reason;
};
/* A job that agents keep state of, and that this hspmdd has no rows of, or old ones. */
struct hsp_m_adopt {
    const char *job;  /* name, number or NUMBER@CLUSTER; "": all that node keeps */
    const char *node; /* whose papers are believed, a name or an address; "": not said */
    bool discard;     /* the node's copy of it is deleted instead */
    bool force;       /* also without nodes of its newest layout that are not here */
};
struct hsp_m_nodeallow { /* whether a node, known or not yet, may hold copies of state for others */
    const char *name;
    bool holder;
};
struct hsp_m_reply {     /* blob: the answer, a JSON document or text */
    uint32_t status;     /* 0, or minus the enum hsp_status */
    const char *message; /* one line when status is not 0 */
    bool more;           /* further replies follow under the same request id */
};

struct hsp_msg {
    uint16_t type;       /* enum hsp_msg_type */
    uint8_t version;     /* the newest version its sender speaks; 0: that of this program */
    uint64_t request;    /* pairs a REPLY with its request; 0 elsewhere */
    uint64_t epoch;      /* see the top */
    const uint8_t *blob; /* borrowed */
    uint32_t blob_len;
    union {
        struct hsp_m_hello hello;
        struct hsp_m_welcome welcome;
        struct hsp_m_parked parked;
        struct hsp_m_papers papers;
        struct hsp_m_fenced fenced;
        struct hsp_m_text text;
        struct hsp_m_beat beat;
        struct hsp_m_measure measure;
        struct hsp_m_echo echo;
        struct hsp_m_uplink uplink;
        struct hsp_m_check check;
        struct hsp_m_checked checked;
        struct hsp_m_health health;
        struct hsp_m_prepare prepare;
        struct hsp_m_ready ready;
        struct hsp_m_failed failed;
        struct hsp_m_jobref jobref;
        struct hsp_m_start start;
        struct hsp_m_started started;
        struct hsp_m_sealed sealed;
        struct hsp_m_step step;
        struct hsp_m_lost lost;
        struct hsp_m_dead dead;
        struct hsp_m_up up;
        struct hsp_m_devref devref;
        struct hsp_m_release release;
        struct hsp_m_ckpt ckpt;
        struct hsp_m_ckpts ckpts;
        struct hsp_m_refused refused;
        struct hsp_m_finished finished;
        struct hsp_m_jobfail jobfail;
        struct hsp_m_trace trace;
        struct hsp_m_traced traced;
        struct hsp_m_damaged damaged;
        struct hsp_m_reach reach;
        struct hsp_m_reached reached;
        struct hsp_m_where where;
        struct hsp_m_stands stands;
        struct hsp_m_leave leave;
        struct hsp_m_submit submit;
        struct hsp_m_query query;
        struct hsp_m_nodecheck nodecheck;
        struct hsp_m_tracejob tracejob;
        struct hsp_m_scale scale;
        struct hsp_m_drain drain;
        struct hsp_m_adopt adopt;
        struct hsp_m_nodeallow nodeallow;
        struct hsp_m_nodename nodename;
        struct hsp_m_reply reply;
    } u;
};

/* Returns the name of a message type, such as "hello"; NULL for an unknown type. */
const char *hsp_msg_name(uint16_t type);
/* The name of enum hsp_fact_kind @kind, "out-of-memory"; NULL if unknown. */
const char *hsp_fact_name(uint32_t kind);

/* Decodes a frame. @head gives type, version, request, epoch, blob and blob_len.
 * HSP_EPROTO: unknown type, a blob where none belongs, malformed JSON, bytes behind it, a missing,
 * unknown, duplicate or wrongly typed field, a value over its limit; HSP_EVERSION: an unknown type
 * from a newer sender; HSP_ENOMEM. *ret untouched. A newer sender's unknown fields are passed over;
 * a field that is newer than the sender is 0 or empty. */
enum hsp_status hsp_msg_decode(const struct hsp_msg *head, const void *body, size_t len,
                               struct hsp_arena *arena, struct hsp_msg *ret, struct hsp_err *err);

/* Copies a message with everything it points to, the blob too. HSP_ENOMEM. */
enum hsp_status hsp_msg_clone(const struct hsp_msg *m, struct hsp_arena *arena, struct hsp_msg *ret,
                              struct hsp_err *err);

#endif
