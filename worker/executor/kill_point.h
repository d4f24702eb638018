/* Kills this process at a named point of an epoch, for tests of recoveries. Terms: epoch.h.
 *
 * Role: called at each point where a death leads to another kind of recovery. Does nothing without
 *          the option --kill-points DIR, which no help text names.
 * Purity:  shell (files, signals).
 * Threads: any thread of an epoch.
 * Format:  an order is the file DIR/RANK with one line "POINT FROM WHO MS", for example "seal.in 40
 *          executor 0". RANK is the rank in the epoch, also of a replica holder. FROM: the least
 *          step for points of votes and updates, the least version for other points. `WHO`:
 *          "executor", or "agent" to kill the agent first and then the executor. MS: the time,
 *          10000 at most, for which the thread waits at the point before it kills; the other
 *          threads go on. The thread that obeys an order deletes the file and writes DIR/RANK.hit:
 *          "POINT STEP EPOCH NODE". A file of any other form is left alone, and an epoch that is
 *          over obeys no order.
 */
#ifndef HSP_KILL_POINT_H
#define HSP_KILL_POINT_H
#include <stdint.h>

struct hsp_ex_epoch;
struct hsp_vote_record;

/* X(name, text) */
#define HSP_KILL_MAP(X)                                                            \
    X(VOTE_BEFORE, "vote.before")     /* the record is made and not sent */        \
    X(VOTE_IN, "vote.in")             /* sent to all but the last of the others */ \
    X(VOTE_AFTER, "vote.after")       /* all records are here */                   \
    X(UPDATE_BEFORE, "update.before") /* the vote has passed and is reported */    \
    X(UPDATE_IN, "update.in")         /* a part of the state is written */         \
    X(UPDATE_AFTER, "update.after")   /* the new version is written */             \
    X(SEAL_BEFORE, "seal.before")                                                  \
    X(SEAL_IN, "seal.in") /* the version is in its segment, without a seal */      \
    X(SEAL_AFTER, "seal.after")                                                    \
    X(COPY_BEFORE, "copy.before")                                                  \
    X(COPY_IN, "copy.in") /* copies for others are here, without a seal */         \
    X(COPY_AFTER, "copy.after")                                                    \
    X(FETCH_BEFORE, "fetch.before") /* of a switch or a recovery */                \
    X(FETCH_IN, "fetch.in")         /* the weights are here */                     \
    X(FETCH_AFTER, "fetch.after")   /* all of the state is here, sealed */         \
    X(ARM_BEFORE, "arm.before")     /* vote.before of a record that is armed */    \
    X(ARM_IN, "arm.in")             /* vote.in of such a record */                 \
    X(ARM_AFTER, "arm.after")       /* all records are here, and all are armed */

enum hsp_kill_place {
#define X(name, text) HSP_KILL_##name,
    HSP_KILL_MAP(X)
#undef X
};

/* Kills this process if there is an order for @point with FROM at most @step. */
void hsp_kill_point(struct hsp_ex_epoch *e, enum hsp_kill_place point, uint64_t step);
/* The points before and in a vote; called by the thread that votes. @mine: the record to be
 * sent. */
void hsp_kill_vote(struct hsp_ex_epoch *e, const struct hsp_vote_record *mine);
/* The point in an update; called after instruction @instr of the running program. */
void hsp_kill_instr(struct hsp_ex_epoch *e, uint32_t instr);

#endif
