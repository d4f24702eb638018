/* Runs scenarios in which an executor damages its own state at a chosen moment, and the test, as
 * the coordinator, goes on from the remaining state. The program is linked with the wrapped
 * functions that local.mk lists. */
#ifndef HSP_DAMAGE_WORLD_H
#define HSP_DAMAGE_WORLD_H
#include "daemon/cluster/recover.h"
#include "tests/unit/worker/executor/executor_world.h"
#include "worker/executor/epoch.h"

#define NOBODY 99u /* the device's own home, in a part that no other rank has */
#define TWIN   98u /* the device's own home, in any part */

/* The layouts. DP: two data parallel devices, each with half of the optimizer's state. PP: a
 * pipeline of three devices. TWO, THREE: two or three devices, each with all of the state. CUT: one
 * device with all of the state, and two with a half each. KEPT: two devices on one node, each with
 * all of the state, and device 2 as their replica holder. */
enum dw_layout { NO_LAYOUT, DP, PP, TWO, THREE, CUT, KEPT, N_LAYOUTS };

/* The time at which an executor damages its state: up to AT_READ its device memory, later its
 * segment. */
enum dw_when {
    NEVER,
    AT_LOAD,      /* the version is loaded to device memory, before a step */
    AT_COPIES,    /* the version is sealed, and the step that reads it runs */
    AT_COPIED,    /* as AT_COPIES, but in the segment, before it is copied */
    AT_VOTE,      /* that step has only its vote and its update left */
    AT_SEAL,      /* the version is written and saved, not hashed; in both places */
    AT_UPDATE,    /* as AT_SEAL, with sums and hashes as if computed so */
    AT_LEAVING,   /* as AT_UPDATE, after the last vote of the epoch */
    AT_LAST_READ, /* the last vote has passed, its update has not begun */
    AT_READ,      /* as AT_LAST_READ, after any vote */
    AT_SWITCH,
    AT_RECOVERY,
    AT_CHECKPOINT,
    AT_END
};

/* The rows that may be damaged. ANY: all rows. OWNED: rows that no other rank has. WEIGHTS: the
 * weights among these rows. ALL_WEIGHTS: all weights. LOUD: the matrices among WEIGHTS, by so much
 * that the loss shows the damage. */
enum dw_which { ANY, OWNED, WEIGHTS, ALL_WEIGHTS, LOUD };

/* A complete checkpoint that rank 0 has reported. */
struct dw_ckpt {
    struct hsp_m_ckpt m; /* without its reason */
    uint64_t epoch;
};
#define DW_CKPTS 8

struct dw_scenario {
    struct xw_world *w;
    struct hsp_epoch_plan *plan[N_LAYOUTS];
    uint64_t epoch;        /* newest epoch */
    enum dw_layout layout; /* layout of that epoch */
    enum dw_layout older;  /* during a switch the layout before it; else NO_LAYOUT */
    bool switching;
    bool fresh_processes;                     /* no epoch is to be sealed */
    uint32_t n_told, n_told_live;             /* STATE_DAMAGED */
    struct hsp_m_damaged told;                /* last STATE_DAMAGED */
    char part[256];                           /* part of `told` */
    uint32_t n_given_up;                      /* STATE_DAMAGED that give up a version */
    uint64_t void_from;                       /* lowest version that was given up */
    enum dw_layout void_plan;                 /* layout of that version; NO_LAYOUT: none */
    uint32_t n_refused;                       /* PREPARE_FAILED for lack of state */
    char broke[XW_MAX_DEV][HSP_TEXT_MAX + 1]; /* reason of the last PEER_LOST of each device */
    bool broken;                              /* the epoch broke and was not recovered */
    uint64_t broke_at;                        /* number of steps reported before the break */
    struct dw_ckpt ckpt[DW_CKPTS];            /* oldest first */
    uint32_t n_ckpt;
    char refused[256]; /* reason why the last checkpoint was not taken */
};

int dw_setup(void **state);
/* Sets up executors on mock devices (tests/lib), which need pinned memory. */
int dw_setup_device(void **state);
int dw_teardown(void **state);

/* Starts a scenario. The first call computes the losses of one undisturbed device, with which all
 * scenarios compare. */
struct dw_scenario dw_play_scenario(struct xw_world *w);
/* Plays the job to its end, and asserts the losses of one undisturbed device. */
void dw_end_scenario(struct dw_scenario *s);
void dw_free_plans(struct dw_scenario *s);
/* Asserts that the losses are those of one undisturbed device. */
void dw_assert_undisturbed(const struct dw_scenario *s);

/* Schedules damage by device @dev at @when: of @version, or of the next version that comes to that
 * point. @owner NOBODY, TWIN: of its home; else of its copy of rank @owner's home. */
void dw_plan_harm(enum dw_when when, unsigned dev, uint64_t version, unsigned owner);
/* Schedules damage of the device's home, in rows of kind @which. */
void dw_plan_harm_in(enum dw_when when, unsigned dev, uint64_t version, enum dw_which which);
/* Returns true if a version was damaged, with the version in *ret_version. */
bool dw_harmed(uint64_t *ret_version);
/* Sets the salt: each salt leads to other rows and bits. */
void dw_salt(uint64_t salt);
/* Opens the segment in @dir that has @owner's home in layout @plan at @version. Returns NULL if
 * there is none. */
struct hsp_state_segment *dw_open_piece(const char *dir, uint64_t plan, uint32_t owner,
                                        uint64_t version);
/* Flips a bit of the segment that dw_open_piece finds; a second call restores the bit. */
void dw_flip_piece(const char *dir, uint64_t plan, uint32_t owner, uint64_t version,
                   enum dw_which which);
/* Returns a device other than @owner's that keeps a copy of rank @owner's home. */
int dw_buddy_of(const struct dw_scenario *s, uint32_t owner);
int dw_ranks_of(const struct dw_scenario *s);

/* Runs epoch 11 of a fresh job until step @step. */
void dw_begin(struct dw_scenario *s, enum dw_layout layout, uint64_t step);
/* Prepares a switch to epoch 12, in layout @to on all three devices. dw_arm lets the two devices of
 * epoch 11 hand over. */
void dw_prepare_switch(struct dw_scenario *s, enum dw_layout to);
void dw_arm(struct dw_scenario *s);
void dw_kill_all(struct dw_scenario *s);
/* Receives and evaluates the next message of device @dev. Returns false if none comes within
 * @ms. */
bool dw_hear(struct dw_scenario *s, int dev, int ms);
/* Waits for a message of @type from device @dev, and counts reports of damage. */
void dw_await_msg(struct dw_scenario *s, int dev, uint16_t type);
/* Waits until the epoch breaks, and has all executors seal it. */
void dw_await_break(struct dw_scenario *s, int n);
bool dw_broke_with(const struct dw_scenario *s, const char *what);
/* Returns the lowest version of @layout that was given up and whose segments may still exist;
 * UINT64_MAX: none. */
uint64_t dw_void_from(const struct dw_scenario *s, enum dw_layout layout);
/* Called when all executors are READY: asserts that no segment has a version that was given up.
 * From now on no version counts as given up. */
void dw_assert_void(struct dw_scenario *s);
/* Lists the segments of @layout on devices 0 to 2, except those of versions that were given up. */
uint32_t dw_scan(struct dw_scenario *s, enum dw_layout layout, struct hsp_state_piece ret[64]);
uint64_t dw_newest(struct dw_scenario *s, enum dw_layout layout);
/* Returns the newest complete version of which another device has a copy of rank @owner's home.
 * Deletes a later version, of which a kill has prevented the copy. */
uint64_t dw_newest_copied(struct dw_scenario *s, enum dw_layout layout, uint32_t owner);
/* Receives the answers of all executors to PREPARE. Returns true if all answers are READY. */
bool dw_all_ready(struct dw_scenario *s, int n);
/* Recovers the job in @layout from its newest complete version that was not given up; tries an
 * older version if a device lacks state. Returns the version. */
uint64_t dw_recover(struct dw_scenario *s, enum dw_layout layout);

#endif
