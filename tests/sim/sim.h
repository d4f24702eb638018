/* Runs the real coordinator and the real agents in one process, under virtual time and network,
 * with a small executor that follows worker/agent/EXECUTOR.md.
 *
 * State is modelled by cells: a plan says which rank holds which cells, and each sealed version of
 * a rank's segment carries a lineage, a hash over the plans that made its steps. So a mix of
 * versions, a step committed twice with different content, or a return below a committed version is
 * seen at once.
 *
 * Connections keep order and lose nothing until they are reset; then messages in flight are lost.
 * Different connections have their own delays. A process that is stopped (SIGSTOP) gets its events
 * when it goes on. */
#ifndef HSP_SIM_H
#define HSP_SIM_H
#include <stdio.h>
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_state.h"
#include "worker/agent/agent.h"
#include "worker/executor/due.h"

#define SIM_NODES         6u
#define SIM_DEVS          3u /* of a node, its replica holder included */
#define SIM_EXECS         (SIM_NODES * SIM_DEVS)
#define SIM_CELLS         8u
#define SIM_JOBS          4u
#define SIM_SEGS          96u
#define SIM_PLANS         256u
#define SIM_CONNS         4096u
#define SIM_STEPS         1024u
#define SIM_ORDERS        64u    /* of a check: nodes, pairs, and 0 */
#define SIM_CONNECT_MS    10000u /* for a mesh to stand, as in worker/executor/executor.c */
#define SIM_CALL_KILL     3u     /* while it writes */
#define SIM_DIRECT        UINT8_MAX
#define SIM_WRONG         64u
#define SIM_CHECK_REQUEST 1000u /* requests from here on are checks */

struct sim_seg {
    uint32_t job, rank, owner;
    uint64_t plan, version, lineage;
    bool damaged; /* the damage is seen when the piece is verified */
};
struct sim_copy {
    uint8_t from, to, cells; /* to >= n_ranks: a replica holder */
};
struct sim_plan {
    bool used, durable;
    uint32_t job;
    uint64_t plan, ticket;
    uint32_t n_ranks, n_nodes;
    hsp_device_id device[SIM_EXECS];
    uint8_t home[SIM_EXECS]; /* cells */
    uint32_t n_spare;        /* replica holders it has room for, ranks n_ranks... */
    uint32_t n_copies;
    struct sim_copy copy[SIM_EXECS * SIM_NODES];
};
struct sim_row {
    uint8_t from, to, cell,
        owner;   /* mesh ranks; owner: rank in from_plan whose piece it is read from */
    uint8_t via; /* the rank that passes it on; SIM_DIRECT: none */
};
struct sim_prep { /* stands for the blob */
    struct sim_plan plan, from;
    uint32_t n_replica_holders, n_peers;
    uint32_t exec[SIM_EXECS], gen[SIM_EXECS], wipes[SIM_EXECS];
    bool voted[SIM_EXECS]; /* the peer has a vote in the epoch before, so it knows the version */
    uint32_t apart[SIM_EXECS]; /* peers to which there is no connection, a bit each */
    uint32_t n_rows;
    struct sim_row row[SIM_EXECS * SIM_CELLS];
    uint64_t lineage; /* fresh, restore */
};

enum sim_phase {
    SIM_IDLE,
    SIM_PREPARING,
    SIM_READY,
    SIM_TRANSFER,
    SIM_COPYING,
    SIM_COMPUTE,
    SIM_VOTING,
    SIM_UPDATE,
    SIM_FINAL,
    SIM_KEEPING,
    SIM_SERVING,
    SIM_BROKEN
};
struct sim_run {
    uint32_t job;
    uint64_t epoch, plan, from_plan, step, steps, ckpt_every, lineage;
    enum hsp_epoch_mode mode;
    enum sim_phase phase;
    uint32_t rank, n_ranks, n_replica_holders;
    uint32_t n_cuts;
    struct hsp_m_cut cut[HSP_MSG_CUTS];
    struct hsp_due due;   /* which versions are sealed */
    uint64_t confirmed;   /* the newest of them with all acks here; UINT64_MAX: none */
    uint64_t due_lineage; /* of the newest of them */
    uint32_t acks;        /* still to come */
    uint32_t broken;      /* a replica holder lost peer broken - 1 while a switch was prepared */
    bool armed, voted_once, decisive;
    bool live, keeps; /* as PREPARE says */
    uint64_t keep;
    bool building;      /* its READY waits for more than connections */
    bool save;          /* CHECKPOINT has come */
    bool unwritten;     /* rank 0: its last try to write the final model failed */
    bool leaves;        /* rank 0 says: write no more, go on in the next epoch */
    bool wrong;         /* the last update went wrong at some rank: the vote will show it */
    uint32_t conn;      /* peers connected */
    uint32_t need, got; /* rows */
    uint64_t got_lineage;
    uint64_t vote_step[2], vote_armed[2][SIM_EXECS];
    uint32_t vote_flags[2][SIM_EXECS];
    uint32_t votes[2];
    struct sim_prep p;
};
enum sim_data_kind {
    SIM_D_CONN,
    SIM_D_BREAK,
    SIM_D_TOLD, /* the version, to a peer without a vote */
    SIM_D_ROW,
    SIM_D_COPY,
    SIM_D_ACK,
    SIM_D_VOTE,
    SIM_D_LEAVE
};
struct sim_data {
    enum sim_data_kind kind;
    uint32_t from, to, to_gen, rank, job;
    uint64_t epoch, step, lineage, armed;
    uint32_t flags; /* VOTE */
    uint32_t onto;  /* ROW: the rank that needs it */
    uint32_t by;    /* BREAK, silent: the rank that has lost @rank */
    bool silent;
    bool local;   /* the data goes over no network */
    bool differs; /* COPY: replicas of the version do, as its ranks' words tell a replica holder */
};
struct sim_wire { /* from one node to another, between executors */
    bool cut;
    /* of a cut one: calls are answered and nobody falls silent, but nothing else comes */
    bool slow;
    uint64_t since, until;
};
struct sim_exec {
    bool alive, paused, up;
    bool bare; /* without its device, which is lost: it only serves */
    uint32_t gen, token;
    uint32_t wipes; /* times its memory was lost */
    struct sim_run cur, next;
    uint64_t prev_epoch; /* mesh kept open after a switch */
    struct sim_prep prev;
    uint64_t closed[SIM_JOBS + 1]; /* epochs up to it are over */
    uint32_t n_early;
    struct sim_data early[256];
    uint32_t n_seg; /* storage of the device: survives the process */
    struct {        /* the last piece that was found damaged, and is gone */
        uint32_t job;
        uint64_t plan, version;
    } found;
    struct sim_seg seg[SIM_SEGS];
    uint64_t last_epoch[SIM_JOBS + 1];
    uint64_t orphan_ms; /* prepared for nobody since, 0 it is not */
};
struct sim_asked { /* an order of check @n of the run */
    uint32_t n, check, seq;
    bool link;
};
struct sim_shell { /* of an agent: the order under way, and the one behind it */
    bool runs, stopped, waits;
    struct sim_asked now, next;
    uint64_t token; /* of its end */
};
struct sim_order { /* of one node, or of both ends of a link */
    bool link, open[2];
    uint32_t node[2];
    uint64_t incarnation[2], sent_ms;
};
struct sim_checks { /* the check under way, as it should be */
    bool open, stopping;
    uint32_t n;        /* checks that have begun */
    uint32_t executed; /* nodes that did before the step, a bit each */
    uint64_t request, until;
    struct sim_order order[SIM_ORDERS]; /* by seq */
    uint64_t n_asked, n_ended, n_measured;
};
struct sim_agent {
    bool alive, paused, cut; /* cut: control network drops everything */
    uint32_t gen, conn;      /* open connection, 0 none */
    struct hsp_agent *core;
    uint64_t timer; /* of the TICK in the queue */
    bool leaving;
    bool dialing;       /* its handshake waits for a coordinator that is stopped */
    bool stranger;      /* was forgotten once: its news of before is not believed */
    uint32_t heard_gen; /* the process that the coordinator has heard */
    /* the incarnation beside the segments, and the one that is being written there */
    struct hsp_digest was, writes;
    uint64_t written_ms;
    struct sim_papers {
        const uint8_t *data; /* NULL none */
        uint32_t len;
    } papers[SIM_JOBS + 1]; /* beside the segments, by job */
    struct sim_shell check;
};

enum sim_ev_type {
    SIM_E_D_TICK,
    SIM_E_D_MSG,
    SIM_E_D_CLOSED,
    SIM_E_D_OPENED,
    SIM_E_D_STORED,
    SIM_E_D_PLAN,
    SIM_E_D_CKPTS,
    SIM_E_D_SEND,
    SIM_E_D_CLOSE,
    SIM_E_D_START,
    SIM_E_A_TICK,
    SIM_E_A_MSG,
    SIM_E_A_UP,
    SIM_E_A_DOWN,
    SIM_E_A_START,
    SIM_E_A_EXEC,
    SIM_E_A_EXIT,
    SIM_E_A_SCANNED,
    SIM_E_A_CHECKED,
    SIM_E_A_REACHED,
    SIM_E_A_PAPERS,
    SIM_E_X_START,
    SIM_E_X_MSG,
    SIM_E_X_DATA,
    SIM_E_X_TIMER,
    SIM_E_X_CKPT,
    SIM_E_X_LATE,
    SIM_E_X_DEAF,
    SIM_E_X_BUILT,
    SIM_E_X_BEAT,
    SIM_E_RESUME_A,
    SIM_E_RESUME_X,
    SIM_E_RESUME_D,
    SIM_E_HEAL_CUT,
    SIM_E_HEAL_PAIR,
    SIM_E_SILENT,
    SIM_E_FAULT,
    SIM_E_CALL
};
struct sim_ev {
    uint64_t at, seq;
    enum sim_ev_type type;
    uint32_t who, gen, conn;
    uint64_t num;
    const void *ptr;
    struct sim_data data;
};
struct sim_row_kv {
    char key[64];
    uint8_t *value;
    uint32_t len;
};
struct sim_job_truth {
    bool known, done, excess;       /* excess: more was lost than the copies bear */
    uint64_t committed;             /* greatest committed version */
    uint64_t lineage[SIM_STEPS];    /* of committed versions */
    uint64_t last_epoch;            /* of the last commit */
    uint64_t stopped;               /* epochs up to it are given up on purpose: copies may go */
    uint32_t lost;                  /* nodes lost since the last commit, a bit each */
    uint64_t disk[SIM_STEPS];       /* lineages of the checkpoints there are */
    uint64_t disk_epoch[SIM_STEPS]; /* the epochs that wrote them */
    bool given_up[SIM_STEPS]; /* checkpoints behind a step from which the job has gone on since */
    bool spoiled[SIM_STEPS];  /* checkpoints that are damaged */
    uint32_t fallbacks;       /* to an older one */
    uint64_t ckpt_at, ckpt_lineage; /* when the last one is written; of the last one */
    uint64_t told;                  /* the coordinator, since it runs and the job began */
    uint64_t begun, restored;       /* epochs: that began at the origin, that was prepared so */
    uint64_t floor;                 /* version of a wish to suspend */
    uint64_t rest_ms;               /* suspended since, 0 it is not */
    bool wished;                    /* to be suspended; that is on disk */
    uint64_t wish_ms, wish_epoch, wish_commits; /* the wish could be fulfilled, since */
    uint32_t wish_conn;
    bool rested;   /* and it holds nothing */
    uint64_t anew; /* epochs before it commit nothing that counts since the job was resumed */
    uint32_t suspends, resumes;
    uint32_t unwritable; /* its final model: the disk of a node is full, a bit each */
    uint32_t moves;      /* epochs left for it */
    uint32_t tolerance;  /* nodes the current layout can lose */
    uint64_t update_epoch, update_step; /* the update that some rank has done last */
    bool update_wrong;                  /* and all ranks do: see wrong */
    uint64_t ticket;
    uint64_t commits;
    uint64_t calm_ms;   /* nothing changes since, 0 something does */
    uint32_t calm_free; /* replica holders it could have had then */
    bool was_calm;
};

struct sim {
    uint64_t seed, rng, now, seq;
    uint64_t events;
    struct hsp_arena *arena;
    struct sim_ev *heap;
    size_t n_heap, cap_heap;
    struct hsp_cluster_config cfg;
    uint32_t n_nodes, n_devs; /* devices that compute */
    uint32_t n_keep;          /* and replica holders of a node: 0 or 1 */
    /* coordinator */
    struct hsp_cluster *d;
    uint32_t d_gen;
    bool d_alive, d_paused;
    uint64_t d_stopped_ms, d_resumed_ms; /* stopped last, and went on; 0 never */
    uint64_t d_timer, store_at;
    struct sim_row_kv rows[1024];
    uint32_t n_rows;
    struct sim_plan plans[SIM_PLANS];
    uint32_t conn_node[SIM_CONNS];
    bool conn_open[SIM_CONNS];
    uint32_t n_conns;
    uint64_t conn_last[SIM_CONNS][2]; /* arrival of the last message: keeps order */
    struct sim_agent agent[SIM_NODES];
    struct sim_exec exec[SIM_EXECS];
    uint64_t data_last[SIM_EXECS][SIM_EXECS];
    struct sim_wire wire[SIM_NODES][SIM_NODES]; /* from, to */
    uint64_t pipe_last[SIM_EXECS][2];
    uint32_t n_inbox; /* of stopped processes */
    size_t cap_inbox;
    struct sim_ev *inbox;
    struct sim_job_truth job[SIM_JOBS + 1];
    uint64_t n_damaged; /* pieces found so */
    uint64_t n_live;    /* versions that were sealed at a loss */
    uint32_t n_wrong;
    struct sim_wrong { /* versions that went wrong */
        uint32_t job;
        uint64_t plan, epoch, version, lineage;
        bool known; /* to the coordinator */
        struct {    /* the last epoch that was begun with it since */
            uint64_t epoch, plan;
            uint32_t n_ranks, exec[SIM_EXECS], wipes[SIM_EXECS];
            uint32_t sealed; /* ranks */
        } heir;
        bool voted; /* all ranks of such an epoch could vote for it */
    } wrong[SIM_WRONG];
    uint64_t n_given_up; /* wrong versions that were known */
    struct sim_checks checks;
    bool two_a_host; /* nodes */
    uint64_t forged, forgotten, drawn, cuts, relayed, inherited;
    bool folder_broken[SIM_NODES]; /* nothing can be made there; files that are there can be read */
    /* chaos */
    bool chaos;
    bool few_due;       /* each job has a distance of due versions; else each version is due */
    uint32_t permille;  /* chance of a fault at each message of a switch */
    uint32_t copies;    /* of jobs submitted, 0: 2 */
    uint32_t ckpt_keep; /* checkpoints that stay on disk */
    uint64_t healed_ms; /* nothing goes wrong since, 0 it does */
    bool plan_all;      /* planner uses all devices, all cells on each rank */
    bool nameless; /* executors that have lost a peer say that they end, and do not name the peer */
    uint64_t wrong_at; /* the next update that makes this version goes wrong, 0: none is to */
    void (*call)(struct sim *s, uint64_t num);
    /* outcome */
    bool failed;
    char why[512];
    FILE *log;
    enum hsp_status reply; /* the last one */
    char reply_text[512];
    struct hsp_buf trace; /* golden stories */
    uint64_t trace_from;
    bool tracing;
    char faults[16384];
};

void sim_init(struct sim *s, uint64_t seed, uint32_t n_nodes, uint32_t n_devs);
void sim_fini(struct sim *s);
uint64_t sim_rand(struct sim *s);
uint64_t sim_below(struct sim *s, uint64_t n);
struct hsp_digest sim_digest(struct sim *s); /* for the coordinator; not 0 */
/* Runs until @until or until @pred (may be NULL) holds. Returns false if a check failed. */
bool sim_run(struct sim *s, uint64_t until, bool (*pred)(struct sim *s));
void sim_fail(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sim_log(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sim_push(struct sim *s, uint64_t at, struct sim_ev ev);

void sim_start_node(struct sim *s, uint32_t node);
void sim_submit(struct sim *s, const char *name, int32_t prio, uint32_t min, uint32_t max,
                uint64_t steps, uint64_t ckpt_every);
void sim_admin(struct sim *s, struct hsp_admin_event a);
void sim_kill_exec(struct sim *s, uint32_t exec);
void sim_sign(struct sim *s, uint32_t exec, enum hsp_gpu_sign_kind kind, uint64_t value);
void sim_kill_agent(struct sim *s, uint32_t node, uint64_t restart_ms); /* its executors too */
void sim_crash_node(struct sim *s, uint32_t node, uint64_t restart_ms); /* silent; memory is lost */
/* Damages a piece that executor @exec has sealed, as if its node had lost the piece. Returns false
 * if the executor has no such piece. */
bool sim_damage(struct sim *s, uint32_t exec);
void sim_kill_daemon(struct sim *s, uint64_t restart_ms);
void sim_pause_daemon(struct sim *s, uint64_t ms);
void sim_pause_agent(struct sim *s, uint32_t node, uint64_t ms);
void sim_pause_exec(struct sim *s, uint32_t exec, uint64_t ms);
void sim_reset_control(struct sim *s, uint32_t node);
void sim_reset_data(struct sim *s, uint32_t a, uint32_t b);
void sim_cut(struct sim *s, uint32_t node, uint64_t ms);
void sim_leave(struct sim *s, uint32_t node);
/* Cuts the link from node @a to node @b: executors of @b do not hear those of @a; with @both,
 * neither do those of @a hear @b. */
void sim_cut_pair(struct sim *s, uint32_t a, uint32_t b, bool both, uint64_t ms);
/* Returns whether the final model of @job cannot be written on the node of executor @writer. */
bool sim_unwritable(const struct sim *s, uint32_t job, uint32_t writer);
/* If the executor cannot write the final model, it says so and tries again after a second, by a
 * timer event with the number @timer; the function returns true. Returns false if the executor can
 * write it. */
bool sim_unwritten(struct sim *s, uint32_t exec, uint64_t timer);

/* simworld.c */
const struct hsp_msg *sim_clone(struct sim *s, const struct hsp_msg *m); /* in the arena */
void sim_log_msg(struct sim *s, const char *what, uint32_t who, const struct hsp_msg *m);
/* simnet.c: @m is cloned but where it says that it lives in the arena */
uint64_t sim_latency(struct sim *s);
void sim_connect(struct sim *s, uint32_t node);
void sim_conn_up(struct sim *s, uint32_t conn); /* its handshake is answered */
void sim_conn_close(struct sim *s, uint32_t conn, bool tell_d, bool tell_a);
/* Pushes an event that the node of @conn sees after all that was sent to it on @conn; @m is in the
 * arena, or NULL. */
void sim_to_node(struct sim *s, uint32_t conn, enum sim_ev_type type, const struct hsp_msg *m);
void sim_to_daemon(struct sim *s, uint32_t node, const struct hsp_msg *m);
void sim_to_agent(struct sim *s, uint32_t x, const struct hsp_msg *m);
void sim_pipe_to_exec(struct sim *s, uint32_t x, const struct hsp_msg *m);
void sim_to_exec(struct sim *s, uint32_t x, struct sim_data d);
void sim_exec_gone(struct sim *s, uint32_t x);
/* simdaemon.c */
struct sim_store;
void sim_store_done(struct sim *s, const struct sim_store *p); /* of a row: it is durable */
void sim_d_start(struct sim *s);
void sim_d_step(struct sim *s, const struct hsp_event *ev);
void sim_d_event(struct sim *s, const struct sim_ev *e);
/* simagent.c */
void sim_a_step(struct sim *s, uint32_t node, struct hsp_agent_event ev);
void sim_a_event(struct sim *s, const struct sim_ev *e);
void sim_a_written(struct sim *s, uint32_t node); /* ends the write of REMEMBER */
/* simforge.c: a stranger joins, sends false claims and leaves; it also takes the name of a dead
 * node */
void sim_forge(struct sim *s);
/* simwire.c */
void sim_wire_heal(struct sim *s, const struct sim_ev *e);
void sim_slow_pair(struct sim *s, uint32_t a, uint32_t b, uint64_t ms);
#define SIM_PROBES 0x80000000u /* numbers of measurements of links; those of checks are below */
void sim_probe(struct sim *s, uint32_t node, const struct hsp_m_check *m);
bool sim_wire_slow(const struct sim *s, uint32_t a, uint32_t b);
void sim_x_where(struct sim *s, uint32_t x, const struct hsp_m_where *m); /* answers it */
bool sim_wire_holds(struct sim *s, const struct sim_ev *e);               /* true: it comes later */
void sim_wire_silent(struct sim *s, const struct sim_ev *e);
void sim_x_deaf(struct sim *s, uint32_t x, uint32_t job,
                uint64_t epoch); /* a peer may not answer */
void sim_reach(struct sim *s, uint32_t node, const struct hsp_m_reach *m);
/* simcheck.c: of an agent's shell */
void sim_shell_order(struct sim *s, uint32_t node, const struct hsp_m_check *m);
void sim_shell_stop(struct sim *s, uint32_t node);
void sim_shell_done(struct sim *s, uint32_t node, uint64_t token);
/* Called around each step of the coordinator, and for its actions. */
void sim_check_before(struct sim *s, const struct hsp_event *ev);
void sim_check_after(struct sim *s, const struct hsp_event *ev);
void sim_check_begun(struct sim *s);
void sim_check_sent(struct sim *s, uint32_t conn, struct hsp_m_check *m); /* writes its key */
void sim_check_reply(struct sim *s, const struct hsp_action *a);
void sim_check_watch(struct sim *s); /* at any time */
/* An administrator asks for a check of @n_names nodes, 0: all nodes. */
void sim_check_ask(struct sim *s, bool busy, uint32_t n_names);
void sim_check_stop(struct sim *s); /* the one under way, if any */
/* simcommit.c */
struct sim_seg *sim_seg_find(struct sim_exec *x, uint32_t job, uint64_t plan, uint32_t owner,
                             uint64_t version);          /* NULL: none */
void sim_commit(struct sim *s, const struct sim_run *r); /* a vote of @r has passed */
/* The job was told to stop: the state of its epochs up to @epoch may be deleted. */
void sim_given_up(struct sim *s, uint32_t job, uint64_t epoch);
/* simckpt.c. Executor @x begins to write the checkpoint of @version, whose vote has passed there;
 * sim_ckpt_done is called when the checkpoint is written. */
void sim_ckpt_begin(struct sim *s, uint32_t x, uint64_t version, uint64_t lineage);
void sim_ckpt_done(struct sim *s, uint32_t x, const struct sim_data *d);
/* Answers FIND_CKPTS with all checkpoints on disk, including damaged ones. */
void sim_ckpt_seen(struct sim *s, uint32_t job, uint64_t ticket);
/* The coordinator has got CHECKPOINTED. */
void sim_ckpt_told(struct sim *s, uint32_t conn, const struct hsp_msg *m);
/* The version that @r has just made is wrong: its ranks give it up, and no epoch may go on from it
 * when the coordinator has heard of it. */
void sim_goes_wrong(struct sim *s, const struct sim_run *r);
/* Called after each step of the coordinator: notes which wrong versions the coordinator knows. With
 * @starts, it has just started and knows those in the stored rows. */
void sim_wrong_known(struct sim *s, bool starts);
/* Notes that a rank of @r has sealed its version, and may vote for it. */
void sim_wrong_sealed(struct sim *s, const struct sim_run *r);
/* Returns the lineage of the checkpoint with which an epoch begins; 0: the checkpoint is
 * damaged. */
uint64_t sim_ckpt_restored(struct sim *s, const struct hsp_msg *prepare);
/* A member of @r starts its epoch from @version: checkpoints of later versions, written by earlier
 * epochs, count as given up. */
void sim_ckpt_begun(struct sim *s, const struct sim_run *r, uint64_t version);
/* Damages the newest checkpoint of the job, if there is one. */
void sim_ckpt_spoil(struct sim *s, uint32_t job);
/* Executor @x finds the checkpoint of its epoch damaged, and says so. */
void sim_ckpt_refuse(struct sim *s, uint32_t x);
/* simexec.c */
void sim_x_event(struct sim *s, const struct sim_ev *e);
void sim_x_data(struct sim *s, uint32_t x, const struct sim_data *d);
void sim_x_die(struct sim *s, uint32_t x, bool silent);
void sim_x_discard(struct sim *s, uint32_t x, uint32_t job, uint64_t keep_plan);
enum sim_drop {
    SIM_DROP_SLOT,       /* of @owner: makes room for @version, the older of two goes */
    SIM_DROP_BELOW,      /* versions of @owner below @version */
    SIM_DROP_ABOVE,      /* versions above @version */
    SIM_DROP_BUT,        /* versions other than @version and, in place of @owner, another one */
    SIM_DROP_PLANS_BELOW /* all of plans below @plan */
};
void sim_seg_drop(struct sim_exec *x, enum sim_drop how, uint32_t job, uint64_t plan,
                  uint32_t owner, uint64_t version);
void sim_seg_put(struct sim *s, struct sim_exec *x, struct sim_seg g);
/* Reports and deletes damaged pieces of a job in layout @plan at @version. */
void sim_seg_verify(struct sim *s, uint32_t x, uint32_t job, uint64_t plan, uint64_t version);
void sim_x_data_to(struct sim *s, uint32_t x, const struct sim_prep *p, uint32_t peer,
                   struct sim_data d);
/* Ends the run @r; with @tell its peers see that. */
void sim_x_clear(struct sim *s, uint32_t x, struct sim_run *r, bool tell);
/* Handles the messages for @epoch that came before the epoch was known, and drops those for earlier
 * epochs. */
void sim_x_replay(struct sim *s, uint32_t x, uint64_t epoch, uint32_t job);
void sim_x_lost_peer(struct sim *s, uint32_t x, struct sim_run *r, uint32_t peer, bool before);
/* simepoch.c */
void sim_x_prepare(struct sim *s, uint32_t x, const struct hsp_msg *m);
void sim_x_called(struct sim *s, uint32_t x, uint32_t peer); /* next: @peer has connected */
void sim_x_built(struct sim *s, uint32_t x, uint32_t job, uint64_t epoch);
void sim_x_late(struct sim *s, uint32_t x, uint32_t job,
                uint64_t epoch); /* its mesh should stand */
void sim_x_begin(struct sim *s, uint32_t x, uint64_t epoch, uint64_t step);
void sim_x_arm(struct sim *s, uint32_t x, uint64_t epoch);
void sim_x_switch(struct sim *s, uint32_t x); /* the vote was for next */
void sim_x_told(struct sim *s, uint32_t x, uint64_t version);
void sim_x_row(struct sim *s, uint32_t x, const struct sim_data *d);
/* simstep.c */
void sim_x_step(struct sim *s, uint32_t x);
uint64_t sim_x_lineage(const struct sim_run *r); /* of the version behind its step */
/* Called after the last step: the executor goes on in the next epoch, if rank 0 cannot write the
 * final model and the executor is armed. */
void sim_x_leave(struct sim *s, uint32_t x);
void sim_x_timer(struct sim *s, uint32_t x, uint64_t what);
void sim_x_in_epoch(struct sim *s, uint32_t x, const struct sim_data *d); /* of cur */
/* simplan.c */
void sim_plan_make(struct sim *s, const struct hsp_plan_request *r);
void sim_plan_answer(struct sim *s, uint64_t ticket, uint32_t job);
struct sim_plan *sim_plan_get(struct sim *s, uint32_t job, uint64_t plan);
struct sim_prep *sim_prep_make(struct sim *s, const struct hsp_msg *prepare,
                               const struct hsp_prepare_action *p);
void sim_node_lost(struct sim *s, uint32_t node);
/* Returns the least number of nodes on which a cell is, by the layout. */
uint32_t sim_plan_spread(const struct sim_prep *p);

#endif
