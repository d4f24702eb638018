/* Stories of executors that damage a segment of their own at a set moment, and of a coordinator that goes on from what
 * is left. Linked with the wraps of local.mk. */
#ifndef HSP_DAMAGE_WORLD_H
#define HSP_DAMAGE_WORLD_H
#include "daemon/cluster/recover.h"
#include "tests/unit/worker/executor/executor_world.h"
#include "worker/executor/epoch.h"

#define NOBODY 99u /* its own home, in a part that it has alone */
#define TWIN   98u /* in any part */

/* Two data parallel, each with half of the optimizer; a pipeline of three; two and three that have
 * all of it; one that has all, and two with halves; two that have all of it on one node, and device 2
 * as their replica holder. */
enum dw_layout { NO_LAYOUT, DP, PP, TWO, THREE, CUT, KEPT, N_LAYOUTS };

/* When an executor damages a segment of its own, or, up to AT_READ, the state that it computes with. */
enum dw_when {
    NEVER,
    AT_LOAD,      /* brought to the memory that it computes with, before a step */
    AT_COPIES,    /* sealed; the step from it goes on */
    AT_COPIED,    /* the same: the segment, before it is copied */
    AT_VOTE,      /* that step is done but for the vote and the update */
    AT_SEAL,      /* just written and saved, before it is hashed: both */
    AT_UPDATE,    /* the same, and it was written so: computed wrongly */
    AT_LEAVING,   /* the same, when the vote before was the last one */
    AT_LAST_READ, /* that vote has passed, the update behind it has not read */
    AT_READ,      /* the same of any vote */
    AT_SWITCH,
    AT_RECOVERY,
    AT_CHECKPOINT,
    AT_END
};

/* Which rows may be damaged: all; those that no other rank has; the weights among these; all
 * weights; matrices among the weights that no other rank has, so much that the loss shows it. */
enum dw_which { ANY, OWNED, WEIGHTS, ALL_WEIGHTS, LOUD };

/* A complete checkpoint, as rank 0 told of it. */
struct dw_ckpt {
    struct hsp_m_ckpt m; /* without its reason */
    uint64_t epoch;
};
#define DW_CKPTS 8

struct dw_scenario {
    struct xw_world *w;
    struct hsp_epoch_plan *plan[N_LAYOUTS];
    uint64_t epoch;        /* the newest */
    enum dw_layout layout; /* that it has */
    enum dw_layout older;  /* while it switches: that it had; else NO_LAYOUT */
    bool switching;
    bool fresh_processes;                     /* nothing is to be sealed */
    uint32_t n_told, n_told_live;             /* STATE_DAMAGED */
    struct hsp_m_damaged told;                /* the last one */
    char part[256];                           /* of it */
    uint32_t n_given_up;                      /* STATE_DAMAGED of a whole version */
    uint64_t void_from;                       /* the least that was given up */
    enum dw_layout void_plan;                 /* of this layout; NO_LAYOUT: none was */
    uint32_t n_refused;                       /* PREPARE_FAILED for want of state */
    char broke[XW_MAX_DEV][HSP_TEXT_MAX + 1]; /* reasons of the last PEER_LOST of each device */
    bool broken;                              /* something has broken and is not mended */
    uint64_t broke_at;                        /* steps that were told of before */
    struct dw_ckpt ckpt[DW_CKPTS];            /* oldest first */
    uint32_t n_ckpt;
    char refused[256]; /* why the last one was not taken */
};

int dw_setup(void **state);
int dw_setup_device(void **state); /* executors compute on mock devices, which want pinned memory */
int dw_teardown(void **state);

/* Executors, and the losses of one undisturbed device: the same for all stories. */
struct dw_scenario dw_play_scenario(struct xw_world *w);
/* The job goes on to its end, with these losses. */
void dw_end_scenario(struct dw_scenario *s);
void dw_free_plans(struct dw_scenario *s);
void dw_assert_undisturbed(const struct dw_scenario *s); /* its losses are those */

/* Device @dev damages, @when, its own home of @version or the next that comes (@owner NOBODY,
 * TWIN), or what it keeps of rank @owner. */
void dw_plan_harm(enum dw_when when, unsigned dev, uint64_t version, unsigned owner);
/* Its own home, in rows of @which. */
void dw_plan_harm_in(enum dw_when when, unsigned dev, uint64_t version, enum dw_which which);
/* The version that was damaged. False: none was yet. */
bool dw_harmed(uint64_t *ret_version);
/* Each number has rows and bits of its own. */
void dw_salt(uint64_t salt);
/* The segment of @dir with @owner's part of layout @plan at @version; NULL: there is none. */
struct hsp_state_segment *dw_open_piece(const char *dir, uint64_t plan, uint32_t owner,
                                        uint64_t version);
/* Damages it; the second time that is undone. */
void dw_flip_piece(const char *dir, uint64_t plan, uint32_t owner, uint64_t version,
                   enum dw_which which);
/* The device that keeps a copy of rank @owner's part, and not its own. */
int dw_buddy_of(const struct dw_scenario *s, uint32_t owner);
int dw_ranks_of(const struct dw_scenario *s);

/* Epoch 11, fresh, until step @step. */
void dw_begin(struct dw_scenario *s, enum dw_layout layout, uint64_t step);
/* Epoch 12 is prepared, to go on in layout @to with all three devices; dw_arm: its two predecessors may leave. */
void dw_prepare_switch(struct dw_scenario *s, enum dw_layout to);
void dw_arm(struct dw_scenario *s);
void dw_kill_all(struct dw_scenario *s);
/* The next message of device @dev, if one comes within @ms: noted. */
bool dw_hear(struct dw_scenario *s, int dev, int ms);
/* Waits for a message of @type from device @dev; its words about damage are counted. */
void dw_await_msg(struct dw_scenario *s, int dev, uint16_t type);
/* The epoch breaks: all are sealed. */
void dw_await_break(struct dw_scenario *s, int n);
bool dw_broke_with(const struct dw_scenario *s, const char *what);
/* The least version of @layout that was given up and may not be deleted yet; UINT64_MAX: none. */
uint64_t dw_void_from(const struct dw_scenario *s, enum dw_layout layout);
/* All are READY, so they have nothing of it any more; from now on none counts as given up. */
void dw_assert_void(struct dw_scenario *s);
/* The pieces of layout @layout on devices 0 to 2, but for those that were given up. */
uint32_t dw_scan(struct dw_scenario *s, enum dw_layout layout, struct hsp_state_piece ret[64]);
uint64_t dw_newest(struct dw_scenario *s, enum dw_layout layout);
/* The same, of which the buddy of rank @owner has a copy: a version that was killed before is taken away. */
uint64_t dw_newest_copied(struct dw_scenario *s, enum dw_layout layout, uint32_t owner);
/* All answers to a PREPARE: true when all are READY. */
bool dw_all_ready(struct dw_scenario *s, int n);
/* Goes on from the newest version that is whole in @layout and was not given up, in the same
 * layout; tries again when one of them lacks what it was to have. Returns the version. */
uint64_t dw_recover(struct dw_scenario *s, enum dw_layout layout);

#endif
