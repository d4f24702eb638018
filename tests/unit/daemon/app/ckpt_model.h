/* Models a small world in which a job goes on from checkpoints, and its true history, which decides
 * on the right one (ckpt_truth.c; daemon/cluster/ckpt_choice.md).
 *
 * Nodes a and b run a job that keeps two checkpoints, in a folder that they share or in one each.
 * The deciding code is real: the machine of daemon/cluster with its rows, and the choice of the
 * nodes that hspmdd asks and believes (ckpt_answers.h). Disks, executors, an administrator, and
 * stores that are put back are played (ckpt_play.c). */
#ifndef HSP_CKPT_MODEL_H
#define HSP_CKPT_MODEL_H
#include "tests/unit/daemon/cluster/cluster_world.h"

#define CM_KEEP       2    /* checkpoint.keep */
#define CM_STATE_WAIT 2000 /* ms */
#define CM_MOST       16   /* checkpoints of a sequence */
#define CM_ROWS       32

enum { CM_A, CM_B, CM_NODES };
/* Stores that can be put back: before the job has begun, before its first checkpoint, before its
 * second one; before this event, before the last one. */
enum { CM_NOT_BEGUN, CM_NONE_WRITTEN, CM_ONE_WRITTEN, CM_NOW, CM_LAST, CM_STORES };

struct cm_saved { /* a checkpoint; its content is its number and 1 */
    uint64_t step, epoch;
    int before; /* in its history, -1: none */
};

struct cm_known { /* the possible knowledge of a store; a bit for each checkpoint */
    uint32_t given_up, told;
    bool all;   /* of all that were given up: it was never put back */
    bool begun; /* the job has */
};

struct cm_store {
    struct cw_row row[CM_ROWS]; /* owned */
    uint32_t n;
    struct cm_known known;
};

struct cm_world {
    struct cw_world w;
    bool shared, away[CM_NODES], off[CM_NODES]; /* off: checkpoint.path is not mounted there */
    uint32_t disk[CM_NODES]; /* a bit for each checkpoint; the shared folder is that of a */
    bool mark[CM_NODES];     /* the file of the job's begin is there */
    struct cm_saved all[CM_MOST];
    int n, head; /* head: of which checkpoint the job's state comes, -1: of step 0 */
    struct cm_known known;
    struct hsp_m_seen lie; /* of b, until the job has gone on; step 0: none */
    bool dies;             /* hspmdd, as the job begins */
    struct cm_store store[CM_STORES];
    uint64_t epoch; /* of the last PREPARE, as the following fields */
    uint32_t mode, n_cuts;
    uint64_t step, content;
    struct hsp_m_cut cut[HSP_MSG_CUTS];
    char wrong[400]; /* the fault; "" none so far */
};

/* ---- the truth ---- */

bool cm_has(uint32_t set, int k);
/* Checkpoint @head and those before it; -1: none. */
uint32_t cm_history(const struct cm_world *x, int head);
/* The checkpoint of the greatest step of a set; -1: it has none. */
int cm_newest(const struct cm_world *x, uint32_t set);
/* @node can answer a question for checkpoints. */
bool cm_looks(const struct cm_world *x, int node);
/* Which of x->disk it has. */
int cm_folder(const struct cm_world *x, int node);
/* The checkpoints that there are; @seen: on a node that can look. */
uint32_t cm_on_disk(const struct cm_world *x, bool seen);
/* Says why the job must not go on from @k, -1: step 0, @ms after the resume; NULL: it may. */
const char *cm_wrong_choice(const struct cm_world *x, int k, hsp_msec ms);
/* The same of a job that has not gone on; @ends: it has failed. */
const char *cm_wrong_stay(const struct cm_world *x, bool ends);
/* The checkpoints @was of a folder have become @left. True: one is gone that counts, as far as the
 * store can know, with fewer than CM_KEEP newer ones. */
bool cm_keeps_too_few(const struct cm_world *x, uint32_t was, uint32_t left);

/* ---- events ---- */

/* The job has written two checkpoints, and is cancelled. */
void cm_base(struct cm_world *x, bool shared);
/* @x becomes as @base, which cm_base has made, behind a start of hspmdd. */
void cm_begin_at(struct cm_world *x, const struct cm_world *base);
void cm_end(struct cm_world *x);      /* that cm_begin_at has made */
void cm_base_end(struct cm_world *x); /* that cm_base has made */

/* An administrator resumes the job, it goes on if it does, writes one, and is cancelled. */
void cm_go_on(struct cm_world *x);
/* Mounts all paths and connects all nodes again. */
void cm_mend(struct cm_world *x);
/* False: it cannot happen, or changes nothing. */
bool cm_happens(struct cm_world *x, uint32_t event);
extern const char *const cm_words[]; /* for each event; then NULL */

#endif
