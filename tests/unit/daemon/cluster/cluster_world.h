/* Runs a coordinator under test with its rows, its clock and the actions of the last step, and has
 * functions for the steps of a scenario. Nodes are n0, n1, ...; node k uses connection k + 1. */
#ifndef HSP_CLUSTER_WORLD_H
#define HSP_CLUSTER_WORLD_H
#include "tests/lib/testlib.h"

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_state.h"

#define CW_ROWS  256
#define CW_DISK  40
#define CW_FACTS 16

struct cw_row {
    char key[64];
    void *value;
    uint32_t len;
};
struct cw_world {
    struct hsp_cluster *c;
    hsp_msec now;
    uint64_t unix_s;      /* 0: not known */
    struct hsp_actions a; /* of the last step */
    struct cw_row rows[CW_ROWS];
    uint32_t n_rows;
    uint64_t ticket; /* of the last START_PLAN, as the following fields */
    uint32_t asked_job, n_asked, n_facts;
    hsp_device_id asked[64];
    double speed[64];
    struct hsp_plan_fact facts[HSP_CLUSTER_FACTS];
    uint32_t n_copied; /* COPY_PLANs so far */
    /* The world answers FIND_CKPTS at once, from `disk` or from the record, and keeps the reply and
     * the facts of the step before the answer. */
    bool asks; /* the test answers itself, by cw_ckpts */
    bool has_disk;
    uint32_t n_disk; /* like the next fields: the checkpoints that nodes see */
    struct hsp_m_seen disk[CW_DISK];
    uint32_t n_others;       /* behind those: of nodes that are not believed */
    const char *damaged;     /* a newer one */
    enum hsp_ckpt_lack lack; /* of an answer with a reason; */
    bool begun;              /* a node shows that the job had begun */
    bool mute;               /* a node that could not look is too old for it */
    uint32_t find_job;       /* 0: no FIND_CKPTS is under way */
    uint64_t find;
    struct hsp_action reply; /* type REPLY: of the step before the answer */
    char reply_text[HSP_TEXT_MAX + 1];
    uint32_t n_facts_before;
    struct {
        char type[32], reason[HSP_TEXT_MAX + 1];
        uint64_t step, lost_steps;
    } before[CW_FACTS];
};

/* Called after each step: checks the invariants, and keeps the rows and the last question to the
 * planner. */
void cw_look(struct cw_world *w);
void cw_step(struct cw_world *w, struct hsp_event ev);
void cw_msg(struct cw_world *w, uint32_t conn, struct hsp_msg m);
/* Answers FIND_CKPTS: the nodes see @n checkpoints; with @why "" all nodes have answered. */
void cw_ckpts(struct cw_world *w, const struct hsp_m_seen *seen, uint32_t n, const char *why);
/* Returns the secret that the world draws for an incarnation; 0 for incarnation 0. */
struct hsp_digest cw_secret(uint64_t incarnation);
/* Returns the secret of the last incarnation of a node, with which a new process of the node proves
 * its identity; 0: none. */
struct hsp_digest cw_last(const struct cw_world *w, const char *node);
/* The node @h.node says hello. Values missing in @h are filled in: this protocol, the name as
 * address, one device. */
void cw_say_hello(struct cw_world *w, uint32_t conn, struct hsp_m_hello h);
/* The node says hello; @runs is the epoch of job 1 that its device 0 runs, 0: none. */
void cw_hello_running(struct cw_world *w, uint32_t conn, const char *node, uint64_t incarnation,
                      uint32_t n_dev, uint64_t runs);
void cw_hello(struct cw_world *w, uint32_t conn, const char *node, uint64_t incarnation,
              uint32_t n_dev);
/* The node says hello with one device, which has a piece of the state @k that the node keeps; with
 * @runs the device runs the epoch of @k. */
void cw_hello_keeping(struct cw_world *w, uint32_t conn, const char *node, uint64_t incarnation,
                      const struct hsp_m_kept *k, bool runs);
void cw_uplink(struct cw_world *w, uint32_t conn, double latency_s, double bytes_per_s);
void cw_begin(struct cw_world *w, uint32_t n_nodes, uint32_t n_dev);
void cw_end(struct cw_world *w);
/* Gives the rows as they are stored, borrowed until the next step. Returns their number. */
uint32_t cw_rows(const struct cw_world *w, struct hsp_cluster_row ret[CW_ROWS]);
/* hspmdd starts again: a new state machine loads the rows of this one. @cfg NULL: with the same
 * configuration. */
void cw_restart(struct cw_world *w, const struct hsp_cluster_config *cfg);
/* hspmdd starts again as by cw_restart; its nodes n0, ..., each with one device, come back with the
 * state that they had. */
void cw_restart_nodes(struct cw_world *w, uint32_t n_nodes);
/* Removes the @n bytes, which the row of job 1 contains once, and makes it a row of form @form. */
void cw_older_row(struct cw_world *w, const uint8_t *bytes, uint32_t n, uint8_t form);
/* Returns the number of bytes at the end of the row of @j that name the nodes that have run it. */
uint32_t cw_ran_bytes(const struct hsp_job *j);
/* Returns the number of bytes that hold the cuts, which are before those of cw_ran_bytes. */
uint32_t cw_cuts_bytes(const struct hsp_job *j);
/* At the end of the row of a layout: of which version it was made. */
enum { CW_MADE_OF_BYTES = 16 };
/* At the end of the row of a node: the agents that had its name before. */
enum { CW_LINES_BYTES = 144 };
/* The row of job 1 becomes one of form 14. */
void cw_form_14(struct cw_world *w);
/* The row of job 1 becomes one of form 10, which does not end with the nodes that may tell of past
 * epochs. */
void cw_trusting_row(struct cw_world *w);
/* Makes the row of job 1 one of form 9, as by cw_trusting_row and without the trusted network of
 * its epoch, CW_TRUSTED. */
void cw_untrusting_row(struct cw_world *w);
#define CW_TRUSTED "10.0.0.0/8"
/* Writes the text of hsp_cluster_dump to a buffer, which the caller releases. */
void cw_text(const struct cw_world *w, struct hsp_buf *ret);
const struct hsp_action *cw_find(const struct cw_world *w, enum hsp_action_type type);
uint32_t cw_count_sent(const struct cw_world *w, uint16_t type);
/* Asserts that the last step told no agent to prepare, drop, stop, seal or release anything, and
 * fenced none. */
void cw_assert_left_alone(const struct cw_world *w);
const char *cw_fact(const struct cw_world *w, const char *type);
uint64_t cw_fact_step(const struct cw_world *w, const char *type);
enum hsp_status cw_admin(struct cw_world *w, struct hsp_admin_event a);
enum hsp_status cw_order(struct cw_world *w, enum hsp_admin_verb verb, uint32_t job);
enum hsp_status cw_submit(struct cw_world *w, const char *name, int32_t prio, uint32_t min,
                          uint32_t max);
/* Answers the last question with a data parallel plan over all devices that were offered; every
 * rank holds the whole state, so there is one shard. */
void cw_plan(struct cw_world *w, uint32_t job);
/* Answers the last question with a plan of two ranks for job 1, with one shard each and no
 * copies. */
void cw_plan_in_halves(struct cw_world *w);
const struct hsp_job *cw_job(const struct cw_world *w, uint32_t id);
/* Node @node, which has one device, says READY on connection @node + 1. */
void cw_ready(struct cw_world *w, uint32_t id, uint32_t node, uint64_t digest);
void cw_pass(struct cw_world *w, uint32_t id, uint64_t n, const double *compute,
             uint32_t n_compute);
/* Node @node says SEALED for job 1, with its own piece of layout @plan at @version; @plan 0: with
 * no piece. */
void cw_sealed(struct cw_world *w, uint32_t node, uint64_t plan, uint64_t version);
void cw_let_go(struct cw_world *w, uint32_t id, uint32_t n_nodes);
void cw_run_job(struct cw_world *w, uint32_t n_nodes);

extern const double cw_even[8]; /* compute seconds of equal devices */

#endif
