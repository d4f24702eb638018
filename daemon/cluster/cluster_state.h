/* Holds the state of the coordinator's machine (cluster.h), so that the shell can show it in status
 * and tests can judge it. Only this room writes it.
 *
 * Purity: pure data.
 */
#ifndef HSP_CLUSTER_STATE_H
#define HSP_CLUSTER_STATE_H
#include "daemon/cluster/cluster.h"
#include "proto/base/map.h"

/*      (no row) --hello--> LIVE <--> SUSPECT --bound--> DEAD --hello, new incarnation--> LIVE
 *      daemon restart: stored and not fenced -> AWAY --hello--> LIVE, --bound--> DEAD
 *      LIVE --BYE and closed--> LEFT --hello--> LIVE
 *      DEAD | LEFT --removed, or long gone--> (no row) */
enum hsp_node_state {
    HSP_NODE_AWAY, /* known from the store, not heard since the start */
    HSP_NODE_LIVE,
    HSP_NODE_SUSPECT, /* a beat is missing or the connection closed */
    HSP_NODE_DEAD,    /* fenced: this incarnation is never believed again */
    HSP_NODE_LEFT     /* went as planned */
};

/* Epochs of a job whose tellers are kept: an agent that was away repeats at most 4096 steps and one
 * checkpoint, and few epochs end meanwhile. */
#define HSP_JOB_PAST 32u

enum hsp_measure { HSP_MEASURE_NONE, HSP_MEASURE_WAITS, HSP_MEASURE_TURN };

enum hsp_device_ask { HSP_ASK_NONE, HSP_ASK_RELEASE, HSP_ASK_STOP };

/* Notes of a device beyond its figures; few devices have one. */
struct hsp_device_note {
    char model[HSP_MODEL_MAX + 1], uuid[HSP_UUID_MAX + 1],
        cpus[HSP_CPUS_MAX + 1]; /* "" not known */
    uint32_t sm;                /* compute capability, 10 major + minor; 0 not known */
    char why[HSP_WHY_MAX + 1];  /* of its health */
    hsp_msec since_ms;          /* when the health became so, as far as it was heard here */
    uint32_t n_told;            /* lines about it (health.c), from told_ms on */
    hsp_msec told_ms;
};

struct hsp_node_device {
    bool present, up;
    bool replica_holder; /* keeps copies and computes nothing: planning never sees it */
    char kind[16], address[HSP_ADDRESS_MAX + 1];
    struct hsp_m_device profile;      /* strings and lists not valid here: use the other fields */
    double gemm_part[HSP_GEMM_PARTS]; /* as in the message, 0: not known */
    enum hsp_health health;           /* from CORDON on it gets no work */
    bool drained_told;                /* the same: told when nothing is left on the device */
    struct hsp_device_note *note;     /* owned; NULL: nothing to say */
    uint32_t job;                     /* lease, 0: free */
    enum hsp_device_ask ask;          /* the order that the lease still has to answer */
    bool asked;                       /* and the device was told, on this connection */
    bool leaves;                      /* not yet: it has to leave the epoch before first */
    hsp_msec let_go_ms;               /* by then it has answered, 0: not asked yet */
    uint32_t ending;                  /* job that was told to end here; 0: none (reconcile.h) */
    bool stops;   /* by STOP: its agent forgets the epoch that it prepares for that job, too */
    double speed; /* observed over profile; the fastest of a job has 1 */
    hsp_msec restart_ms; /* down: when its agent starts it again */
};

struct hsp_node_card {
    char name[HSP_CARD_NAME + 1];
    double gbit_per_s; /* 0: not known */
};

/* Why a node gets no work for a while (node_fault.h). */
struct hsp_node_fault {
    char why[320];
    hsp_msec since_ms, until_ms; /* until_ms 0: there is none */
    uint32_t times;
};

/* A second agent under the name of a node. */
struct hsp_namesake {
    char peer[96];     /* the address of its last call */
    hsp_msec until_ms; /* the second agent counts until then; 0: there was none */
    hsp_msec tell_ms;  /* no event before */
};

/* Incarnations of which each has proven to be the one before it, while another agent has the
 * name. */
struct hsp_node_line {
    struct hsp_digest secret, before; /* of the newest, as below */
    uint64_t since, last;             /* the first, and the newest; 0: there is no line */
    uint64_t gap, gap_end;            /* as below */
};
#define HSP_NODE_LINES 2

struct hsp_cluster_node {
    char name[HSP_NAME_MAX + 1], address[HSP_ADDRESS_MAX + 1];
    enum hsp_node_state state;
    uint64_t incarnation;     /* number: for order, and for people */
    struct hsp_digest secret; /* the same on the wire, 0: of a row that has none */
    struct hsp_digest before; /* that its agent showed last: it may not have got the new one */
    uint64_t same_since;   /* the first incarnation in a row that each later one has proven to be */
    uint64_t gap, gap_end; /* between them, of agents that had the name meanwhile; 0: none */
    /* of agents that had the name before, newest first */
    struct hsp_node_line left[HSP_NODE_LINES];
    uint64_t generation; /* of the cluster, when the node last said hello; 0 also where not known */
    uint32_t conn;       /* 0: not connected */
    uint64_t source;     /* as in struct hsp_event, of its last hello; 0: not known */
    struct hsp_namesake namesake;
    uint32_t protocol; /* version that it and hspmdd talk */
    hsp_msec last_ms;  /* heard */
    bool unheard;      /* known from the store, and no hello of it has counted since */
    /* Until then an agent without proof holds back jobs of the node (parked.h); 0: none did. */
    hsp_msec claim_ms;
    bool draining, leaving; /* by an admin; by itself */
    bool holder;            /* an admin allows that it keeps copies */
    uint64_t gone_s;        /* by the wall clock, when it went; 0: it is here, or not known */
    bool bye_sent, drained_told;
    bool stays_told;  /* why its drain waits */
    char reason[160]; /* of the drain, else why it has gone or is leaving; "" while it is here */
    struct hsp_node_fault fault;
    double same_latency_us, same_us_per_byte, cross_latency_us, cross_us_per_byte;
    uint64_t folder_free; /* bytes in its state folder, as it said last; 0: not known */
    uint64_t folder_seen; /* the least of them since jobs were asked anew because of it */
    bool measured;        /* uplink is known */
    struct hsp_m_uplink uplink;
    enum hsp_measure measure;
    bool queued;         /* stands in the queue, whether it still waits or not */
    hsp_msec measure_ms; /* end of its turn */
    /* index.c */
    bool listed, looked;   /* stands among the heard ones; is to be looked at */
    uint32_t older, newer; /* neighbours among the heard ones, HSP_NO_NODE none */
    uint32_t n_cards;      /* 0: not known, as good as one */
    struct hsp_node_card card[HSP_NODE_CARDS];
    struct hsp_node_device dev[HSP_NODE_DEVICES];
    uint32_t n_paths;
    struct hsp_m_path *paths; /* owned: between its devices, as far as it has said */
};

/* An agent that is no member: its state is not this cluster's, or is not on record here
 * (parked.h). */
enum hsp_parked_as {
    HSP_PARKED_FOREIGN, /* the agent keeps state of another cluster */
    /* the agent has proven to be a node of this store, and has gone further than the store */
    HSP_PARKED_AHEAD,
    /* The agent says that it has gone further, and has not proven to be a node of this store on
     * which anything could run. */
    HSP_PARKED_UNPROVEN,
    HSP_PARKED_WAITS /* others are ahead for all: hspmdd does nothing (behind.h) */
};
struct hsp_parked_job {
    char name[HSP_NAME_MAX + 1]; /* "" not known */
    struct hsp_digest cluster;
    uint32_t job;
    uint64_t generation, epoch, plan; /* as in struct hsp_m_kept */
    bool papers_damaged;              /* the same */
};
struct hsp_parked {
    char name[HSP_NAME_MAX + 1], address[HSP_ADDRESS_MAX + 1];
    uint32_t conn;
    struct hsp_digest cluster; /* of its last welcome */
    struct hsp_digest was;     /* the incarnation that it had there */
    uint64_t source;           /* as in struct hsp_event */
    uint64_t since;            /* in the order of arrival */
    hsp_msec since_ms;
    uint32_t protocol; /* version that it and hspmdd talk */
    uint64_t generation, term;
    bool ahead, claims; /* as in struct hsp_park_cause */
    enum hsp_parked_as as;
    char why[320];
    uint32_t n_jobs;
    struct hsp_parked_job *jobs; /* owned */
};

/* A job that was adopted from @cluster. */
struct hsp_adopted_job {
    struct hsp_digest cluster;
    uint32_t job;
};

/* Numbers from (included) to (excluded). */
struct hsp_range {
    uint64_t from, to;
};

/*  PENDING -> STARTING -> RUNNING <-> SWITCHING        (any) -> DONE | FAILED | CANCELLED
 *                 |           |           |             RUNNING <-> FINISHING -> DONE
 *                 v           v           v
 *              SEALING <------+-----------+--- (loss in any of them, FINISHING too)
 *                 |
 *                 v
 *             RECOVERING <-> PAUSED
 *                 |
 *                 +--> RUNNING        (or STARTING, when nothing was ever stable)
 *
 *  PENDING | STARTING | RUNNING | SWITCHING --suspend--> SUSPENDED --resume--> PENDING
 *
 *  FAILED --resume--> SEALING, from the state that is kept, else PENDING; --cancel--> CANCELLED
 *
 *  (any) --a member has gone further with it--> BEHIND --cancel--> CANCELLED
 *                                                  |
 *                                                  +--adopt--> SEALING                     */
enum hsp_job_state {
    HSP_JOB_PENDING,  /* no epoch: waits for devices or a plan; reason says which */
    HSP_JOB_STARTING, /* its first epoch (or the first from a checkpoint) is being prepared */
    HSP_JOB_RUNNING,
    HSP_JOB_SWITCHING,  /* runs; the next epoch is being prepared or is armed */
    HSP_JOB_SEALING,    /* a loss: nodes are asked for the pieces that they hold */
    HSP_JOB_RECOVERING, /* version known, plan or epoch in the making */
    HSP_JOB_PAUSED,     /* state kept, cannot go on now; reason says why, also while it is tried */
    HSP_JOB_FINISHING,  /* last version stable, outputs are written; where they cannot be, the next
                           epoch may be prepared or armed, on other nodes */
    HSP_JOB_DONE,
    HSP_JOB_FAILED,
    HSP_JOB_CANCELLED,
    HSP_JOB_SUSPENDED, /* by an admin: its state is in the checkpoint, its devices are free */
    HSP_JOB_BEHIND     /* its agents know more of it than we do: nothing is done with it */
};
/* Gaps in the numbers of a job's epochs that were given here; more become one. */
#define HSP_JOB_GAPS 8u

enum hsp_attempt_phase {
    HSP_ATT_NONE,
    HSP_ATT_WAIT_UP,   /* members restart */
    HSP_ATT_PREPARING, /* PREPARE sent */
    /* Decided by the last READY and stored in that step. ARM or START leaves behind the row. Cannot
     * be taken back. */
    HSP_ATT_GO
};

struct hsp_links {     /* connections between executors */
    uint32_t shm;      /* through shared memory */
    uint32_t local;    /* over Unix sockets */
    uint32_t tls, tcp; /* over TCP, with TLS or as it is */
};
struct hsp_epoch_peer {
    hsp_device_id device;
    uint64_t incarnation; /* of its node */
    bool prepare_sent, ready, go_sent, started;
    bool damaged; /* state that the attempt takes from it, as it said meanwhile */
    uint64_t data_bytes, data_tokens; /* as its READY says; of ranks */
    struct hsp_digest data_digest;
    struct hsp_links links; /* its own, the same */
};
struct hsp_cl_epoch {
    uint64_t epoch; /* 0: none */
    uint64_t plan, from_plan, base_epoch;
    enum hsp_epoch_mode mode;
    enum hsp_attempt_phase phase;
    uint64_t step; /* first step; a switch learns it from STARTED */
    uint32_t n_ranks, n_replica_holders, n_peers;
    struct hsp_epoch_peer *peers; /* owned: ranks of the plan, then replica holders, then sources */
    uint32_t *by_device;          /* owned: [n_peers] indices of peers, their devices ascending */
    uint32_t n_sources;
    struct hsp_prepare_source *sources; /* owned: fixed with the epoch, all PREPAREs must agree */
    uint32_t n_apart;
    struct hsp_prepare_apart *apart;    /* owned: the same */
    bool data_tls;                      /* its executors encrypt their TCP connections */
    char trusted[HSP_NETWORKS_MAX + 1]; /* but for NCCL between hosts of these networks; "" none */
    struct hsp_links links; /* of members and replica holders, from GO on; 0: none, or unknown */
    /* From PREPARING on: abilities that all peers have. An attempt before GO ends with this
     * process, and when an agent is replaced by another, so all its PREPAREs agree. */
    bool share_notes; /* its executors give each other the notes of steps (step_share.h) */
    bool buckets;     /* their packages have the buckets of Reshards. Not stored */
    bool due;         /* executors know that not every version is due. Not stored */
    bool live;        /* at a loss executors seal the version that they compute with */
    bool keeps;       /* version `keep` stays until `step` is stable. Not stored */
    uint64_t keep;
    uint64_t due_steps;   /* between its last two stable versions; 0: not known. Not stored */
    bool old_name;        /* its unfinished checkpoints have the names of protocol 14. Not stored */
    bool settled;         /* its first vote passed: older layouts are not needed */
    hsp_msec deadline_ms; /* of the phase, UINT64_MAX none */
    char cause[160];
    struct hsp_epoch_trace trace;
};

struct hsp_job_plan { /* a layout that may still be needed */
    uint64_t plan;
    bool started;   /* an epoch with it may have written versions */
    uint64_t since; /* incarnations below it were given before the layout was first begun */
    uint64_t *
        holder; /* owned: [ranks and replica holders] incarnations when it was begun last; NULL: not
                         known */
    uint64_t damaged; /* greatest version of a piece found damaged since GO, 0 none. Not stored */
    uint64_t awaited; /* the same of versions that may have been stable: other holders of such a
                         version are waited for. Not stored */
    /* Least version that was given up: no piece of it or of a later one counts until a GO of this
     * layout has deleted them all. UINT64_MAX: none. */
    uint64_t void_from;
    bool other_shape; /* a member has it as another version of hspmdd laid it out: it is not begun
                         again, a new layout is made of it. Not stored */
    uint64_t epoch;   /* begun with it last, 0 none */
    /* The version of another layout from which that epoch made its first one, after a loss. 0: of
     * none, or not known. */
    uint64_t from_plan, from_step;
    struct hsp_plan_info info; /* owned copy */
};

struct hsp_state_piece { /* holding reported by an agent */
    hsp_device_id device;
    uint64_t plan, version;
    uint32_t rank, owner;
};

/* A fact learnt by an attempt that failed, and how long it counts (learnt.h). */
struct hsp_learnt {
    struct hsp_plan_fact fact;
    hsp_msec since_ms, until_ms;
    char *why; /* owned */
};

/* The notes that a job has of a node. */
struct hsp_job_mark {
    uint32_t node;
    uint8_t seal;           /* 0 no, 1 to be asked, 2 asked, 3 to be asked again */
    hsp_msec seal_by_ms;    /* 2, 3: by then it has answered, also where its connection closed */
    bool blamed;            /* a peer saw this node's connection break */
    char *keep_refused;     /* owned: why it could not keep a copy; NULL: it may try */
    hsp_msec keep_since_ms; /* when that was said */
    bool left_out;          /* the node cannot reach nodes that the job uses (apart.h) */
    bool cut_off;           /* nor can its state be reached from here */
    /* A rank of an epoch past GO was on this node, so the node may have a checkpoint of the job.
     * Stored; stays over cancel and resume, and goes with the node. */
    bool ran;
    bool keeps;    /* its agent vouches for the job (doubt.h); of one that is BEHIND: keeps state */
    char *refused; /* owned: why the node's text keeps it out; NULL: it does not */
    bool hurried;  /* its HELLO has shortened the pause of a refused checkpoint (ckpt_look.h) */
};

/* Names one checkpoint among those that there may be of a version. The step is not enough: a
 * folder may have it of a former job of this name, or of an epoch that was lost unheard. Term
 * and epoch are not enough, since two jobs may share them. PREPARE carries the mark, and members
 * take that content or nothing. Rows before form 9 have none: then the latest is meant, as
 * members see it. */
struct hsp_ckpt_mark {
    uint64_t term, epoch; /* in which it was written; epoch 0: not known */
    uint64_t content;
};

/* The nodes that may still tell of steps and checkpoints of an epoch that is over (may_say.h). */
struct hsp_past_epoch {
    uint64_t epoch;
    uint32_t n; /* rank 0, and its successor if there is one */
    uint32_t node[2];
    uint64_t incarnation[2];
};

struct hsp_ckpt_kept {
    uint64_t step;
    struct hsp_ckpt_mark mark;
};
/* beside the newest: more are kept by the workers, and not known here */
#define HSP_OLDER_CKPTS 31u

/* Where its history was left (ckpt_cuts.h), steps ascending. */
struct hsp_ckpt_cuts {
    uint32_t n;
    struct hsp_m_cut cut[HSP_MSG_CUTS];
};

struct hsp_watch {
    uint32_t above; /* steps above the ratio, less those that forgive them */
    double share;   /* of the compute time, summed over the steps watched */
};

/* Where a rank stands, as it has said (progress.h). */
struct hsp_stand_thread {
    enum hsp_doing doing;
    hsp_device_id peer; /* HSP_NO_DEVICE: none */
    uint64_t since_ms;
};
struct hsp_stand_link { /* of a connection that does not move as it should */
    hsp_device_id peer;
    uint64_t unsent;
    bool held;
};
#define HSP_STAND_LINKS 16u /* the links with the most bytes: mostly there is one */
struct hsp_stand {
    bool said;
    uint64_t step, stable, moved;
    bool validation, checkpoint;
    uint32_t micro, instruction;
    uint32_t n_threads, n_links;
    struct hsp_stand_thread thread[2];
    struct hsp_stand_link link[HSP_STAND_LINKS];
};

#define HSP_STEP_TIMES 15u /* of which the median counts */
struct hsp_progress {
    uint64_t epoch;    /* the epoch that is watched; 0: none */
    uint64_t stable;   /* the newest vote that is known */
    hsp_msec since_ms; /* of it, or of the begin of the epoch */
    hsp_msec due_ms;   /* the period ends */
    uint32_t periods;  /* periods in a row that have ended without a vote */
    uint32_t round;    /* the ranks are asked where they stand, 0: they are not */
    bool looks;        /* for the rates of their links alone */
    hsp_msec look_ms;  /* next time for that */
    hsp_msec answer_ms;
    uint64_t moved;  /* all ranks together, when they were asked last */
    bool moved_once; /* the ranks were asked before */
    uint32_t n_took; /* steps so far, in all epochs */
    double took_s[HSP_STEP_TIMES];
    bool special;     /* the next vote waits for a checkpoint */
    double special_s; /* longest step with a validation or behind a checkpoint; 0: none */
    bool by_link;     /* named last, so many periods running: a link, of these nodes */
    uint32_t link_a, link_b, times;
    char says[400]; /* the link or rank that all wait for; "" while votes pass */
    uint32_t n;
    size_t cap;
    struct hsp_stand *stand; /* owned: [n] of the peers of the epoch, as they have said last */
};

/* Checkpoints that a job could not begin with (ckpt_which.h). Not stored. */
/* as many as can be on record, and as many that were not */
#define HSP_CKPT_TRIES (HSP_OLDER_CKPTS + 33u)
struct hsp_ckpt_tries {
    /* a step and 1: missing checkpoints from that step on were waited for; 0: none was */
    uint64_t passed;
    hsp_msec until_ms; /* the origin was refused, and is tried until then; 0: it was not */
    /* With the state nodes that are away were waited for, as long as for checkpoints. Since then no
     * attempt has begun and no node that may have one has said hello. */
    bool waited;
    bool found;        /* one of those below was not on record */
    hsp_msec none_ms;  /* since then none that is left can be tried; 0: some could */
    hsp_msec anew_ms;  /* when those below may be tried again */
    uint32_t n, n_old; /* n_old: the first ones, which may be */
    struct hsp_ckpt_kept refused[HSP_CKPT_TRIES];
};

struct hsp_job {
    uint32_t id;
    char name[HSP_NAME_MAX + 1];
    int32_t priority;
    uint32_t min, max, copies;
    uint64_t steps, checkpoint_every;
    char *data_path, *checkpoint_path; /* owned */
    bool checkpoint_shared;
    uint32_t checkpoint_keep; /* by the workers */
    enum hsp_job_state state;
    char reason[560];  /* why it does not run, or how it ended; "" while it runs */
    char damage[200];  /* of its state, the last that was found since it ran; "" none. Not stored */
    char problem[480]; /* files of it that cannot be written, until they can; "" none. Not stored:
                          executors say it again */
    /* epoch that could not write the final model when it last tried, 0 none. Not stored */
    uint64_t unwritten;
    uint64_t next_epoch, next_plan; /* to be used next, if the generation has no greater ones */
    uint32_t n_gaps;
    struct hsp_range gap[HSP_JOB_GAPS]; /* epochs below next_epoch that were never given here */
    struct hsp_digest from;             /* cluster whose job it was, 0: it was always this one's */
    struct hsp_digest born; /* cluster in which it began, whose its checkpoints are; 0: this one */
    bool unrecorded; /* BEHIND, and not in the store: the words of its agents are all there is */
    bool doubted;    /* the job may have ended since the backup that was put back (doubt.h) */
    bool was_stored; /* its row was read: the store may be older than the job. Not stored */
    /* A layout that was read had begun, and no epoch has gone since: its nodes may have come
     * further than is known here. Not stored. */
    bool unheard;
    /* Nodes without that mark may have run it, too (ckpt_look.h), until a checkpoint is
     * complete. */
    bool ran_unknown;
    /* The job begins at step 0, because an administrator says so or because its first epoch has
     * committed nothing, and no epoch has begun since. Stored. */
    bool anew;
    /* A node that keeps more of the job than is on record, and is no member of it; "" none. */
    char ahead[HSP_NAME_MAX + 1];
    /* 1 and the last generation in which that node was given the state beyond the record; 0: nobody
     * has said it since the start. Not stored, and kept while the node is away, so that status
     * stays the same. */
    uint64_t ahead_in;
    enum hsp_epoch_mode origin; /* FRESH or RESTORE: where to begin when nothing is held */
    uint64_t origin_step;
    struct hsp_ckpt_mark origin_ckpt; /* RESTORE: the one of that version that is meant */
    bool has_ckpt;
    uint64_t ckpt_step;
    struct hsp_ckpt_mark ckpt;
    uint32_t n_older; /* older ones of the same history (ckpt_marks.h), steps ascending */
    struct hsp_ckpt_kept older[HSP_OLDER_CKPTS];
    /* One on record, or a node that cannot look, is waited for until then; 0: none is. Not
     * stored. */
    hsp_msec ckpt_deadline_ms;
    uint64_t ckpt_until_s;       /* the same by the clock on the wall, for people; 0: not known */
    struct hsp_ckpt_tries tries; /* since it last began, or was resumed */
    /* The checkpoints that nodes see on disk (ckpt_look.h). Not stored. */
    uint64_t look_ticket;   /* of the question under way, 0 none */
    hsp_msec look_since_ms; /* of the first question that was asked since the last answer, 0 none */
    bool looked;            /* disk lists all checkpoints that there were; */
    bool looked_whole;      /* and all that matter have answered; */
    enum hsp_ckpt_lack lack; /* else the kind of node that has not */
    uint32_t n_disk;
    size_t cap_disk;
    char disk_damage[200]; /* of a newer one, or why one could not be looked for; "" none */
    char disk_unseen[200]; /* the nodes that could not look; "" none */
    char unseen_told[320]; /* the same, as it was told since the job last began; "" it was not */
    struct hsp_ckpt_kept *disk; /* owned, in no order; of a step there may be several contents */
    /* The cuts that the disks show (ckpt_which.h). Stored while an attempt that is past GO counts
     * with them. */
    struct hsp_ckpt_cuts line;
    /* The cuts of its history; none: all checkpoints count. */
    struct hsp_ckpt_cuts cuts;
    /* The epoch that last began at the origin: checkpoints that lower epochs report come too late.
     * 0: none. */
    uint64_t begun;
    uint64_t reached;       /* greatest version that a node had since it last ran. Not stored */
    uint64_t stable;        /* greatest version known to be stable */
    uint64_t passed;        /* greatest version of the epoch with a vote that is known; no row */
    bool suspending;        /* by a checkpoint of suspend_from or later */
    bool ckpt_asked;        /* such a checkpoint is wanted, and the job goes on */
    uint64_t suspend_from;  /* stable when that was asked */
    uint64_t suspend_epoch; /* whose rank 0 was asked for the checkpoint, 0 none yet */
    bool suspend_unheard;   /* rank 0 was away, or hspmdd began; it has told no step since */
    bool data_known;        /* an epoch began with this text */
    uint64_t data_bytes, data_tokens;
    struct hsp_digest data_digest;
    struct hsp_cl_epoch cur, att; /* runs (or ran last, when sealing); in the making */
    struct hsp_cl_epoch over;     /* the attempt that was dropped last. Not stored */
    bool over_counts;             /* as a failure */
    uint32_t n_past;
    struct hsp_past_epoch past[HSP_JOB_PAST]; /* epochs that are over, ascending */
    uint32_t n_plans;
    size_t cap_plans;
    struct hsp_job_plan *plans; /* ascending */
    uint32_t n_held;
    size_t cap_held;
    struct hsp_state_piece *held; /* as reported; fresh only after SEALED */
    /* sealing */
    uint64_t seal_upto;
    uint64_t lost_from;         /* steps made when it stopped, for lost_steps; stored at rest */
    hsp_msec state_deadline_ms; /* state unreachable: give up waiting; 0 not waiting */
    /* The deadline of a moment, as long as it is that of the wait, and the deadline before the
     * moment. */
    hsp_msec state_moment_ms, state_before_ms;
    uint64_t state_until_s; /* the same by the clock on the wall, for people; 0: not known */
    /* planning */
    uint64_t ticket; /* outstanding, 0 none */
    bool ticket_urgent;
    bool have_result; /* a PLAN_DONE waits to be used */
    uint64_t result_ticket;
    struct hsp_plan_info result; /* owned */
    uint32_t n_asked, n_declined;
    size_t cap_asked;
    hsp_device_id *asked; /* devices of the last question, ascending; then those that were declined
                           * before it, ascending */
    bool asked_valid;     /* the answer to it stands */
    char no_plan[560];    /* why there is none with the devices asked about, as told; "" not told */
    bool retune;          /* ask again although the devices are the same */
    bool tight;           /* with more room in state folders the answer might have been another */
    char cause[160];      /* of the next plan */
    bool cause_open;      /* the loss was told by a peer that did not know its cause. Not stored */
    hsp_msec detect_ms, sealed_ms, planned_ms;
    uint32_t n_facts;
    struct hsp_learnt facts[HSP_CLUSTER_FACTS];
    uint32_t fact_tries; /* how often a fact has ended */
    /* when nodes refused for their text are tried again; 0: there are none */
    hsp_msec data_retry_ms;
    uint32_t data_tries;      /* pauses so far */
    hsp_msec keep_retry_ms;   /* the same for nodes that could not keep; 0: there are none */
    uint32_t keep_tries;      /* pauses so far */
    hsp_msec room_retry_ms;   /* no switch of replica holders alone before: a folder lacks room */
    uint32_t failures;        /* losses and failed attempts since `stable` grew */
    hsp_msec retry_ms;        /* no attempt and no planning before */
    uint32_t vain;            /* switches in a row that came to nothing (attempt_end.h) */
    hsp_msec switch_retry_ms; /* running: no switch before */
    /* running: no planning before; its replica holders are seen to meanwhile */
    hsp_msec plan_retry_ms;
    bool wants_round;    /* its nodes are to call each other (reach_rounds.h) */
    uint32_t round;      /* and do so, 0: no round is open */
    uint64_t round_upto; /* seal_upto when the last round was due: that loss has had one */
    /* index.c */
    hsp_msec claim_ms; /* held back until then by a claim (parked.h); 0: it is not */
    bool look;         /* something of it has changed since it was last looked at */
    uint32_t n_leases;
    size_t cap_leases;
    hsp_device_id *leases; /* ascending: the devices leased to it */
    bool stale_row;        /* its row names more */
    uint32_t n_marks;
    size_t cap_marks;
    struct hsp_job_mark *marks; /* by node, ascending */
    uint32_t n_refused;         /* of them, for their text */
    /* slow devices (slow.c) */
    hsp_msec retuned_ms;       /* asked again because of one; 0: never */
    uint32_t n_watch, watched; /* ranks; steps since a count began */
    size_t cap_watch;
    struct hsp_watch *watch; /* owned, per rank of cur */
    struct hsp_progress progress;
};

/* WAITS -> RUNS -> DONE | FAILED; WAITS -> SKIPPED | FAILED */
enum hsp_check_state {
    HSP_CHECK_WAITS,
    HSP_CHECK_RUNS,
    HSP_CHECK_DONE,
    HSP_CHECK_SKIPPED, /* executes a job */
    HSP_CHECK_FAILED
};
struct hsp_check_node {
    uint32_t node;
    uint64_t incarnation; /* the one that was asked */
    enum hsp_check_state state;
    uint32_t seq; /* of the order under way, its own or that of a pair; 0 none */
    char why[160];
    char address[HSP_ADDRESS_MAX + 1]; /* where it listens */
    uint32_t n_devices;
    struct hsp_m_figures devices[HSP_NODE_DEVICES];
};
struct hsp_check_end { /* from one node of a pair to the other */
    bool said;
    double latency_s, bytes_per_s;
};
struct hsp_check_pair {
    uint32_t a, b; /* indices in nodes of the check */
    enum hsp_check_state state;
    uint32_t seq;
    hsp_msec deadline_ms;
    char why[160], transport[16];
    struct hsp_check_end end[2]; /* from a to b, from b to a */
};
/* The check of nodes that is under way, or was the last one: its figures stay until the next. */
struct hsp_check {
    uint32_t number; /* 0: there never was one */
    bool active;
    uint64_t request;
    struct hsp_check_terms terms; /* node: not valid */
    char actor[96];
    uint32_t next_seq, n_nodes, n_pairs, first_pair; /* all pairs before first_pair are over */
    hsp_msec deadline_ms[HSP_CHECK_NODES];           /* of the orders of the nodes themselves */
    struct hsp_check_node *nodes;                    /* owned */
    struct hsp_check_pair *pairs;                    /* owned */
};

/* Two nodes whose executors could not reach each other (broken_pairs.h). */
struct hsp_broken_pair {
    uint32_t a, b; /* nodes, a < b */
    bool broken;   /* else it is suspected, or was mended */
    bool slow;     /* broken: as too little comes through, though calls are answered */
    bool to_probe; /* its rate is to be measured (link_probe.h) */
    /* not broken: as measured, less than half of the rate of plans; 0: all well */
    double bytes_per_s;
    hsp_msec probed_ms;   /* 0: never */
    hsp_msec borne_until; /* no job can do without it: it counts as broken no more */
    hsp_msec since_ms;
    hsp_msec next_ms;  /* broken: it is measured again; else it is forgotten */
    uint32_t times;    /* times it was found broken */
    uint32_t suspects; /* losses in short order, though calls are answered */
    bool own;          /* of the last one: one of the two has told */
    uint32_t job;      /* of that loss */
    uint64_t epoch;
    hsp_msec suspect_ms, said_ms; /* counted last; heard of last */
    hsp_msec stalled_ms;          /* a job waited for it; 0: none, or it was found broken since */
    char why[160];
};

/* Nodes that call each other (reach_rounds.h); indices are those of the round. */
struct hsp_reach_target {
    uint8_t at; /* node */
    hsp_device_id device;
    uint64_t listener; /* hash of its address */
};
struct hsp_reach_node {
    uint32_t node;
    uint64_t incarnation;
    bool waits, answered;
    uint64_t deaf, refused; /* nodes that it did not reach, a bit each */
    uint32_t n_targets;
    struct hsp_reach_target target[HSP_REACH_TARGETS];
};
struct hsp_reach_round {
    uint32_t number, job; /* job 0: of broken pairs that are measured again */
    bool suspects;        /* there were suspected pairs of the job */
    hsp_msec deadline_ms;
    uint32_t n;
    struct hsp_reach_node node[HSP_REACH_NODES];
};

/* The measurement of a connection that is under way (link_probe.h); side 0 is node[0]. */
struct hsp_link_probe {
    bool active;
    uint32_t number, seq; /* of its orders */
    uint32_t node[2];
    uint64_t incarnation[2];
    bool said[2]; /* to the order of seq */
    char address[2][HSP_ADDRESS_MAX + 1];
    double rate[2];
    hsp_msec deadline_ms;
};

#define HSP_COMPLAINTS 32u /* addresses whose lines are counted */
#define HSP_NO_NODE    UINT32_MAX
#define HSP_NEVER      UINT64_MAX /* a time that does not come */

/* The facts of a node by which devices are chosen, close together: bits are devices. */
struct hsp_node_summary {
    uint16_t offer; /* of a node that is here and stays: present, computes */
    uint16_t keep;  /* the same of those that keep copies */
    uint16_t down;  /* of both, those whose executor is down */
    uint16_t ends;  /* and those that end their work for a job */
};

/* Lines of a kind that agents of one address have caused of late (membership.c). */
struct hsp_complaints {
    uint64_t source; /* as in struct hsp_event */
    hsp_msec since;
    uint32_t n; /* 0: free */
};

struct hsp_cluster {
    struct hsp_cluster_config cfg;
    bool loaded, founded;   /* rows were read; they say which cluster this is */
    bool restored;          /* older rows were put back in the place of newer ones, */
    uint64_t restored_over; /* of this generation */
    struct hsp_digest id;   /* of the cluster (proto/wire/identity.h) */
    uint64_t generation;
    uint32_t n_adopted;
    struct hsp_digest adopted[HSP_MAX_ADOPTED]; /* other clusters, of which jobs were adopted */
    bool behind; /* members have obeyed a newer coordinator: nothing is done. Stored */
    char behind_why[600], behind_by[HSP_NAME_MAX + 1]; /* and which node says so */
    /* The greatest generation that members have obeyed; 0: none after ours. Stored. */
    uint64_t ahead;
    uint64_t term, next_incarnation, next_ticket;
    uint32_t next_job, found_below; /* numbers of found jobs are below (behind.h) */
    uint32_t n_ended;
    size_t cap_ended;
    struct hsp_range *ended; /* ascending: numbers of jobs that are over and forgotten */
    /* The same of adopted jobs: state of them that comes back is deleted. Oldest first. */
    uint32_t n_adopted_ended;
    struct hsp_adopted_job adopted_ended[HSP_ADOPTED_OVER];
    uint32_t n_parked;
    size_t cap_parked;
    struct hsp_parked *parked; /* in no order */
    uint32_t n_parked_jobs;    /* of all of them */
    uint64_t n_ever_parked;
    struct hsp_complaints damaged[HSP_COMPLAINTS]; /* of damaged papers */
    struct hsp_complaints parked_told[HSP_COMPLAINTS];
    struct hsp_map parked_conn; /* their indices */
    uint32_t n_turned_away;     /* agents without a place, so far (crowd.h) */
    hsp_msec crowd_ms;          /* no event says that there is no room before */
    hsp_msec now_ms, grace_ms;  /* grace: AWAY nodes are dead after it */
    hsp_msec looked_ms;         /* when the event before this one came */
    uint32_t n_nodes;
    size_t cap_nodes;
    uint32_t n_vacant;              /* of them: without a name, for the next new node */
    struct hsp_cluster_node *nodes; /* an index is for ever, until the node is forgotten */
    uint64_t unix_s;                /* as the last event said that knew it, 0 none */
    hsp_msec forget_ms;             /* when nodes that have gone are looked at, HSP_NEVER */
    /* The first time by which a node must have answered SEAL, STOP or RELEASE, or before it;
     * HSP_NEVER: none must. */
    hsp_msec answers_ms;
    /* index.c: so that frequent events cost the same with any number of nodes */
    struct hsp_map by_name, by_conn; /* indices of nodes */
    struct hsp_node_summary *briefs; /* [n_nodes] */
    uint32_t *holders;               /* [n_nodes * HSP_NODE_DEVICES]: job of the lease, 0 free */
    size_t cap_briefs, cap_holders;
    uint32_t oldest, newest; /* live and suspect nodes, by when they were heard; HSP_NO_NODE none */
    uint32_t first_live;     /* the first of them that is live */
    uint32_t n_away;
    uint32_t n_faults; /* nodes that are left out for one */
    uint32_t n_look;
    size_t cap_look;
    uint32_t *look; /* nodes that have changed since they were last looked at */
    bool look_jobs; /* all jobs: the devices that they may use have changed */
    bool dirty;     /* anything is to be looked at */
    uint32_t n_down;
    size_t cap_down;
    hsp_device_id *down; /* whose executor is awaited, and some that have come */
    hsp_msec due_ms;     /* of all but the silence of nodes: when to look at everything */
    uint32_t n_queue, queue_at;
    size_t cap_queue;
    uint32_t *queue; /* nodes that wait for their turn to measure; from queue_at on */
    uint32_t n_turns;
    size_t cap_turns;
    uint32_t *turns; /* nodes that measure */
    struct hsp_check check;
    uint32_t n_pairs, n_broken;
    size_t cap_pairs;
    struct hsp_broken_pair *pairs; /* owned; by (a, b), ascending */
    struct hsp_link_probe probe;
    uint32_t n_probes;
    uint32_t next_round;                             /* the number given last */
    struct hsp_reach_round *round[HSP_REACH_ROUNDS]; /* owned; NULL: none */
    uint32_t n_jobs;
    struct hsp_job *jobs[HSP_MAX_JOBS]; /* by id; owned. Terminal ones stay until forgotten */
    /* actions of this step */
    struct hsp_arena *arena;
    size_t cap_actions;
    uint32_t n_actions;
    struct hsp_action *actions;
    struct hsp_action spare; /* written when actions cannot grow */
    struct hsp_job_mark spare_mark;
    bool failed; /* out of memory: only to be freed */
};

#endif
