/* What the files of this room share; nobody else includes it. */
#ifndef HSP_AGENT_IMPL_H
#define HSP_AGENT_IMPL_H
#include "worker/agent/agent.h"
#include "worker/agent/peer_clock.h"

/* Jobs that can have a device of this node, or state on one. */
#define HSP_AGENT_SEALS (2 * HSP_NODE_DEVICES)

/* Steps said again after a reconnect: half a minute of the fastest jobs. */
#define HSP_AGENT_STEPS 4096u

enum { HSP_UPLINK_OUT, HSP_UPLINK_BACK }; /* to hspmdd, from it */

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
    uint64_t term, incarnation;      /* of the last WELCOME; incarnation 0: none, or fenced */
    enum hsp_agent_link link;
    bool closing; /* DISCONNECT asked, CONN_DOWN due */
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
    bool leaving, bye, ending, exited;
    char leave_reason[160];
    uint64_t leave_deadline_ms, leave_scan; /* leave_scan: while alone, 0 not asked */
    /* STOP and RELEASE under way, per device */
    struct {
        uint32_t job;  /* 0 none */
        uint16_t type; /* what to answer with */
        uint64_t epoch, keep_plan;
    } stop[HSP_NODE_DEVICES];
    struct {
        uint32_t job; /* 0 none */
        uint64_t epoch, step, term, content;
    } ckpt[HSP_NODE_DEVICES]; /* newest complete checkpoint it reported: said again at each hello */
    /* The last steps reported by executors here, oldest first from next_step; a connection that breaks
     * may have lost some, and those of an absence were never sent. */
    struct hsp_agent_step_report {
        uint64_t epoch;
        struct hsp_m_step step; /* without compute_s */
    } * steps;
    uint32_t n_steps, next_step;
    struct hsp_arena *arena;
    size_t cap_actions;
    uint32_t n_actions;
    struct hsp_agent_action *actions;
    struct hsp_agent_action spare; /* written when actions cannot grow */
    bool failed;
};

struct hsp_agent_action *hsp_ai_emit(struct hsp_agent *a, enum hsp_agent_action_type type,
                                     uint32_t device);
void hsp_ai_log(struct hsp_agent *a, int severity, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void hsp_ai_tell(struct hsp_agent *a, const struct hsp_msg *m); /* hspmdd, if there is a link */
void hsp_ai_order(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m);
void hsp_ai_check(struct hsp_agent *a, const struct hsp_msg *m); /* an order, to the shell */
void hsp_ai_kill(struct hsp_agent *a, uint32_t device, const char *why);
void hsp_ai_kill_quietly(struct hsp_agent *a, uint32_t device);
uint64_t hsp_ai_scan(struct hsp_agent *a); /* emits a SCAN; its number */

/* agent.c: ends the connection; the next one says a new HELLO. @soon: without a pause. */
void hsp_ai_hang_up(struct hsp_agent *a, const char *why, bool soon);

/* devices.c */
void hsp_ai_devices_init(struct hsp_agent *a, const struct hsp_agent_config *cfg);
/* Device @i as HELLO says it. */
struct hsp_m_device hsp_ai_describe(const struct hsp_agent *a, uint32_t i);
void hsp_ai_profile(struct hsp_agent *a, const struct hsp_agent_event *ev);
void hsp_ai_sign(struct hsp_agent *a, uint32_t device, const struct hsp_gpu_sign *s);
void hsp_ai_health_tick(struct hsp_agent *a);

/* leave.c */
void hsp_ai_leave(struct hsp_agent *a, const struct hsp_agent_event *ev);
void hsp_ai_leave_notice(struct hsp_agent *a); /* again after each HELLO */
void hsp_ai_leave_scanned(struct hsp_agent *a, const struct hsp_agent_event *ev);
void hsp_ai_leave_advance(struct hsp_agent *a); /* last in each step */
uint64_t hsp_ai_leave_deadline(const struct hsp_agent *a);

/* uplink.c */
void hsp_ai_uplink_begin(struct hsp_agent *a, const struct hsp_m_measure *m);
void hsp_ai_uplink_answer(struct hsp_agent *a, const struct hsp_m_echo *m);
void hsp_ai_uplink_tick(struct hsp_agent *a);   /* reports what there is when it takes too long */
void hsp_ai_uplink_stop(struct hsp_agent *a);   /* the connection is gone */
void hsp_ai_uplink_forget(struct hsp_agent *a); /* the incarnation is */
uint64_t hsp_ai_uplink_deadline(const struct hsp_agent *a);

/* relay.c */
void hsp_ai_daemon_msg(struct hsp_agent *a, const struct hsp_msg *m);
void hsp_ai_exec_msg(struct hsp_agent *a, uint32_t device, const struct hsp_msg *m);
void hsp_ai_seal_advance(struct hsp_agent *a); /* an executor answered or died */
void hsp_ai_seal_abandon(struct hsp_agent *a); /* nobody waits for the answer any more */
void hsp_ai_seal_answer(struct hsp_agent *a, const struct hsp_agent_event *scanned);
void hsp_ai_seal_tick(struct hsp_agent *a); /* kills those that do not answer */
uint64_t hsp_ai_seal_deadline(const struct hsp_agent *a);
void hsp_ai_stop_answer(struct hsp_agent *a, uint32_t device); /* the executor died meanwhile */
void hsp_ai_steps_again(struct hsp_agent *a);                  /* after a WELCOME */

#endif
