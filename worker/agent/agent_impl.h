/* Holds the state of the machine that the files of this room share; no other room includes it. */
#ifndef HSP_AGENT_IMPL_H
#define HSP_AGENT_IMPL_H
#include "worker/agent/agent.h"
#include "worker/agent/peer_clock.h"

/* Jobs that can have a device of this node, or state on one. */
#define HSP_AGENT_SEALS (2 * HSP_NODE_DEVICES)

/* Steps said again after a reconnect: half a minute of the fastest jobs. */
#define HSP_AGENT_STEPS (HSP_AGENT_ACTIONS / 2)
/* Jobs of which an executor is still to drop an epoch: a slow one has two. Of more than these one
 * is forgotten; the next start of the agent deletes its papers. */
#define HSP_AGENT_DROPS 4u

/* Lines at each try: that there is a connection, and two of a refusal, at each of two addresses of
 * hspmdd. */
#define HSP_AGENT_DOWN 6

enum { HSP_UPLINK_OUT, HSP_UPLINK_BACK }; /* to hspmdd, from it */

/* Reports of damaged state that wait for a connection: pieces that a node loses at once are few. */
#define HSP_AGENT_UNTOLD 64u
#define HSP_AGENT_PART   255u /* bytes of the part that is damaged, cut */

struct hsp_agent_uplink { /* uplink.c */
    bool known;           /* the figures below are of this incarnation */
    struct hsp_m_uplink figures;
    bool active;
    uint64_t deadline_ms;
    uint32_t seq, echoes;  /* of the question that waits for its answer; questions left */
    uint32_t pings;        /* answered */
    uint32_t way, bytes;   /* under way, when all pings are; bytes 0: pings */
    uint32_t tries;        /* of this way, begun */
    uint64_t sent_us;      /* when the question was asked */
    uint64_t rtt_us;       /* the shortest */
    double bytes_per_s[2]; /* the best of each way, 0: not yet */
};

struct hsp_agent {
    struct hsp_agent_config cfg;
    char node[HSP_NAME_MAX + 1], address[HSP_ADDRESS_MAX + 1];
    uint64_t now_ms, now_us;
    struct hsp_agent_uplink uplink;
    char other[HSP_ADDRESS_MAX + 1]; /* of hspmdd, as the last WELCOME says, "" none */
    bool try_other;                  /* next time */
    /* Of the last WELCOME; incarnation 0: none, or fenced. */
    struct hsp_digest cluster;
    uint64_t generation, term;
    uint32_t protocol;                  /* version that hspmdd and this agent talk */
    struct hsp_digest incarnation, was; /* the same, 0: none, or fenced; the last one it had */
    uint32_t n_kept;
    struct hsp_agent_kept { /* as in struct hsp_m_kept: keeping.h */
        uint32_t job;
        char name[HSP_NAME_MAX + 1];
        struct hsp_digest cluster;
        uint64_t generation, epoch, plan;
        bool papers_damaged;
    } kept[HSP_MSG_KEPT];
    bool kept_more; /* the last scan found jobs for which kept has no room */
    enum hsp_agent_link link;
    bool closing; /* DISCONNECT asked, CONN_DOWN due */
    struct hsp_agent_down {
        char why[160];
        uint64_t ms;
    } down[HSP_AGENT_DOWN]; /* the last reports of tries: agent_link.h */
    uint32_t heartbeat_ms, dead_ms, pause_ms;
    uint64_t connect_ms, heard_ms, beat_ms, beat;
    uint64_t beat_us;           /* when the last one was sent; 0: it is answered */
    struct hsp_peerclock clock; /* of the connection */
    uint64_t scan;              /* of the last SCAN */
    bool fencing;               /* waits for killed executors */
    struct hsp_m_card card[HSP_NODE_CARDS];
    char card_name[HSP_NODE_CARDS][HSP_CARD_NAME + 1];
    struct hsp_m_path path[HSP_NODE_PATHS];
    struct hsp_agent_device dev[HSP_NODE_DEVICES];
    struct hsp_agent_seal {
        uint32_t job; /* 0 none */
        uint64_t epoch, deadline_ms;
        uint64_t scan;       /* its SCAN, 0 not yet asked */
    } seal[HSP_AGENT_SEALS]; /* SEALs being answered, one per job */
    bool checking;           /* orders of a check have come, and no end */
    bool discarding;         /* jobs, by an administrator's word */
    bool leaving, bye, ending, exited;
    char leave_reason[160];
    uint64_t leave_deadline_ms, leave_scan; /* leave_scan: while alone, 0 not asked */
    struct {                                /* STOP or RELEASE under way, per device: obey.c */
        uint32_t job;                       /* 0 none */
        uint16_t type;                      /* of the answer */
        uint64_t epoch, keep_plan, deadline_ms;
        uint64_t known; /* the newest epoch of the job that the sender knows */
    } stop[HSP_NODE_DEVICES];
    struct hsp_agent_drop {
        uint32_t job; /* 0 none */
        uint64_t epoch, deadline_ms;
    } drop[HSP_NODE_DEVICES][HSP_AGENT_DROPS]; /* the newest DROP of each job, not yet answered */
    struct {
        uint32_t job; /* 0 none */
        uint64_t epoch, step, term, content;
    } ckpt[HSP_NODE_DEVICES]; /* newest complete one: said again at each hello, until STOP */
    /* The last steps reported by executors here, oldest first from next_step; a connection that
     * breaks may have lost some, and those of an absence were never sent. */
    struct hsp_agent_step_report {
        uint64_t epoch;
        struct hsp_m_step step; /* without compute_s */
        bool over;              /* its job was stopped: told_steps.h */
    } * steps;
    uint32_t n_steps, next_step;
    bool any_over;                 /* of the steps */
    uint64_t told_ms;              /* when all of them had been told, or a job was stopped */
    uint32_t n_untold, n_unlisted; /* reports that wait; those for which there was no room */
    struct hsp_agent_damaged {
        struct hsp_m_damaged m;
        char part[HSP_AGENT_PART + 1];
    } untold[HSP_AGENT_UNTOLD],     /* damage.c */
        given_up[HSP_NODE_DEVICES]; /* the last version of each device; given_up_in 0: none */
    struct hsp_arena *arena;
    size_t cap_actions;
    uint32_t n_actions;
    struct hsp_agent_action *actions;
    struct hsp_agent_action spare; /* written when actions cannot grow */
    bool failed;
};

#endif
