/* Runs scenarios of executors that damage a segment of their own at a set moment, and of a
 * coordinator that goes on from the remaining state. Linked with the wraps of local.mk. */
#ifndef HSP_DAMAGE_WORLD_H
#define HSP_DAMAGE_WORLD_H
#include "daemon/cluster/recover.h"
#include "tests/unit/worker/executor/executor_world.h"
#include "worker/executor/epoch.h"

#define NOBODY 99u /* the own home, in a part without a replica */
#define TWIN   98u /* the own home, in any part */

/* The layouts, in order: two data parallel devices, each with half of the optimizer; a pipeline of
 * three; two devices, and three, each with all of the state; one device with all of the state and
 * two with halves; two devices on one node with all of the state, and device 2 as their replica
 * holder. */
enum dw_layout { NO_LAYOUT, DP, PP, TWO, THREE, CUT, KEPT, N_LAYOUTS };

/* The time at which an executor damages a segment of its own, or, up to AT_READ, its device
 * memory. */
enum dw_when {
    NEVER,
    AT_LOAD,      /* the version is loaded to device memory, before a step */
    AT_COPIES,    /* the version is sealed, and the step that reads it runs */
    AT_COPIED,    /* as AT_COPIES, but the segment is damaged, before its copy */
    AT_VOTE,      /* that step is done except vote and update */
    AT_SEAL,      /* the version is written and saved, not hashed: damages both */
    AT_UPDATE,    /* as AT_SEAL, and written so: computed wrongly */
    AT_LEAVING,   /* as AT_UPDATE, when the vote before was the last vote */
    AT_LAST_READ, /* the last vote has passed, its update has not read */
    AT_READ,      /* as AT_LAST_READ, after any vote */
    AT_SWITCH,
    AT_RECOVERY,
    AT_CHECKPOINT,
    AT_END
};

/* The rows that may be damaged: all rows; rows that no other rank has; the weights among these
 * rows; all weights; matrices among the weights that no other rank has, by so much that the loss
 * shows it. */
enum dw_which { ANY, OWNED, WEIGHTS, ALL_WEIGHTS, LOUD };

/* A complete checkpoint, as rank 0 reported it. */
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
    enum dw_layout older;  /* layout before a running switch; else NO_LAYOUT */
    bool switching;
    bool fresh_processes;                     /* no epoch is to be sealed */
    uint32_t n_told, n_told_live;             /* STATE_DAMAGED */
    struct hsp_m_damaged told;                /* last STATE_DAMAGED */
    char part[256];                           /* part of `told` */
    uint32_t n_given_up;                      /* STATE_DAMAGED that give up a version */
    uint64_t void_from;                       /* least version that was given up */
    enum dw_layout void_plan;                 /* layout of that version; NO_LAYOUT: none */
    uint32_t n_refused;                       /* PREPARE_FAILED for lack of state */
    char broke[XW_MAX_DEV][HSP_TEXT_MAX + 1]; /* reasons of the last PEER_LOST of each device */
    bool broken;                              /* the epoch broke and was not recovered */
    uint64_t broke_at;                        /* steps reported before */
    struct dw_ckpt ckpt[DW_CKPTS];            /* oldest first */
    uint32_t n_ckpt;
    char refused[256]; /* reason why the last checkpoint was not taken */
};

int dw_setup(void **state);
/* Sets up executors on mock devices (tests/lib), which need pinned memory. */
int dw_setup_device(void **state);
int dw_teardown(void **state);

/* Starts a scenario with the losses of one undisturbed device, the same for all scenarios. */
struct dw_scenario dw_play_scenario(struct xw_world *w);
/* Goes on to the end of the job, and asserts these losses. */
void dw_end_scenario(struct dw_scenario *s);
void dw_free_plans(struct dw_scenario *s);
/* Asserts that the losses are those of one undisturbed device. */
void dw_assert_undisturbed(const struct dw_scenario *s);

/* Orders device @dev to damage, at @when, its home of @version or of the next version that comes
 * (@owner NOBODY, TWIN), or its copy of rank @owner. */
void dw_plan_harm(enum dw_when when, unsigned dev, uint64_t version, unsigned owner);
/* Orders damage of the home in rows of @which. */
void dw_plan_harm_in(enum dw_when when, unsigned dev, uint64_t version, enum dw_which which);
/* Returns the damaged version in *ret_version, or false if none was damaged yet. */
bool dw_harmed(uint64_t *ret_version);
/* Sets the salt: each number chooses other rows and bits. */
void dw_salt(uint64_t salt);
/* Opens the segment of @dir with @owner's part of layout @plan at @version; NULL: there is none. */
struct hsp_state_segment *dw_open_piece(const char *dir, uint64_t plan, uint32_t owner,
                                        uint64_t version);
/* Flips a bit of that segment; a second call restores the bit. */
void dw_flip_piece(const char *dir, uint64_t plan, uint32_t owner, uint64_t version,
                   enum dw_which which);
/* Returns another device that keeps a copy of rank @owner's part. */
int dw_buddy_of(const struct dw_scenario *s, uint32_t owner);
int dw_ranks_of(const struct dw_scenario *s);

/* Runs epoch 11, fresh, until step @step. */
void dw_begin(struct dw_scenario *s, enum dw_layout layout, uint64_t step);
/* Prepares epoch 12, to go on in layout @to with all three devices. dw_arm lets the two devices of
 * epoch 11 hand over. */
void dw_prepare_switch(struct dw_scenario *s, enum dw_layout to);
void dw_arm(struct dw_scenario *s);
void dw_kill_all(struct dw_scenario *s);
/* Notes the next message of device @dev, if one comes within @ms. */
bool dw_hear(struct dw_scenario *s, int dev, int ms);
/* Waits for a message of @type from device @dev, and counts reports of damage. */
void dw_await_msg(struct dw_scenario *s, int dev, uint16_t type);
/* Waits until the epoch breaks, and seals all. */
void dw_await_break(struct dw_scenario *s, int n);
bool dw_broke_with(const struct dw_scenario *s, const char *what);
/* Returns the least version of @layout that was given up and may not be deleted yet; UINT64_MAX:
 * none. */
uint64_t dw_void_from(const struct dw_scenario *s, enum dw_layout layout);
/* Asserts that no given up version is left, since all are READY. From now on none counts as given
 * up. */
void dw_assert_void(struct dw_scenario *s);
/* Lists the pieces of @layout on devices 0 to 2, except pieces of given up versions. */
uint32_t dw_scan(struct dw_scenario *s, enum dw_layout layout, struct hsp_state_piece ret[64]);
uint64_t dw_newest(struct dw_scenario *s, enum dw_layout layout);
/* Returns the newest whole version of which another device has a copy of rank @owner's part. A
 * later version, whose copy a kill prevented, is deleted. */
uint64_t dw_newest_copied(struct dw_scenario *s, enum dw_layout layout, uint32_t owner);
/* Receives all answers to a PREPARE. Returns true if all are READY. */
bool dw_all_ready(struct dw_scenario *s, int n);
/* Goes on in @layout from its newest whole version that was not given up; tries again if a device
 * lacks state. Returns the version. */
uint64_t dw_recover(struct dw_scenario *s, enum dw_layout layout);

#endif
