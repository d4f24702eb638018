/* Makes members of an epoch in this process that are connected by the loop transport and compute
 * nothing. Each member has version EM_STEP of one parameter, or of a part of this parameter. */
#ifndef HSP_EPOCH_MEMBERS_H
#define HSP_EPOCH_MEMBERS_H
#include <pthread.h>

#include "tests/lib/testlib.h"
#include "worker/executor/epoch.h"

#define EM_RANKS 3
#define EM_STEP  40

extern struct hsp_pkg_param em_params[1];

struct em_member {
    struct hsp_exec_env env;
    struct hsp_backend backend;               /* no device and no calls; or */
    struct hsp_backend *cpu;                  /* backend of the update */
    uint64_t sum[1];                          /* hash of the state in use */
    struct hsp_state_sums sums[1], before[1]; /* of the last update, and of the update before */
    struct hsp_chan chan;                     /* channel to the agent, which nobody reads */
    int agent;                                /* other end of `chan` */
    struct hsp_ex_epoch e;
    struct hsp_m_prepare p;
    struct hsp_held_data data;
    struct hsp_pkg_row copy;
    pthread_t thread; /* thread of em_start */
    void (*work)(struct em_member *m);
    enum hsp_status st, disk; /* the results of the work */
    struct hsp_err err;
};

struct em_world {
    char *dir;
    char folder[4200]; /* folder of checkpoints */
    uint32_t n;
    struct hsp_pkg_peer peers[EM_RANKS];
    struct hsp_pkg_row gather[EM_RANKS];
    struct em_member m[EM_RANKS];
};

/* Makes a world in which each member has a part of the parameter. */
void em_make_world(struct em_world *w, uint32_t n);
/* Makes a world in which each member has all of the parameter. */
void em_make_equal(struct em_world *w, uint32_t n);
void em_end_world(struct em_world *w);

/* Writes version EM_STEP + 1 at member @m, as the update of step EM_STEP does. */
void em_make_next(const struct em_world *w, struct em_member *m);
/* Flips a bit in the segment of @version. */
void em_damage(struct em_member *m, uint64_t version);

/* Starts @work of each member on a thread of its own; em_join waits for all threads, at most a
 * minute. */
void em_start(struct em_world *w, void (*work)(struct em_member *m));
void em_join(struct em_world *w);
/* Work for em_start: runs the replication thread of @m. */
void em_keep(struct em_member *m);

void em_assert_refused(enum hsp_status st, const struct hsp_err *err, enum hsp_status want,
                       const char *why);

#endif
