/* Decides which versions of an epoch are *due*: sealed in a segment and copied to other nodes
 * (decision D9a; terms: epoch.h).
 *
 * Each rank has the same struct hsp_due, because its content depends only on the records of passed
 * votes. A vote record says whether the newest due version is sealed on that rank and its copies
 * are confirmed. When all records of a vote say so, that version is *stable*: a recovery can start
 * from it. Only then can a vote make another version due. So no rank overwrites the segment of a
 * stable version before all ranks know of a newer stable version.
 *
 * Purity:     pure.
 * Invariants: (I1) `newest` grows only in a vote, and only if all records of this or an earlier
 * vote confirm the old `newest`.
 *             (I2) If a vote has to make the next version due, a rank sends its record only after
 *                  `newest` is confirmed on that rank. Such votes are the votes before the last
 *                  version, before the version of a periodic checkpoint, and before each version at
 *                  the fixed distance `every`.
 * Example:    rank 0 chose a distance of 4. Version 8 is due. The records of vote 10 all confirm
 *             version 8, so version 8 is stable. In vote 11 the record of rank 0 has HSP_VOTE_WISH,
 *             so version 12 is due.
 */
#ifndef HSP_DUE_H
#define HSP_DUE_H
#include <stdbool.h>
#include <stdint.h>

/* Bits of the flags of a vote record. */
#define HSP_VOTE_CHECKPOINT 1u /* from rank 0: write a checkpoint soon */
#define HSP_VOTE_WISH       2u /* from rank 0: the next version is to be due */
#define HSP_VOTE_CONFIRMED  4u /* this rank has sealed the newest due version; copies confirmed */

struct hsp_due {
    bool all;            /* each version is due; records use only the bit CHECKPOINT */
    uint64_t every;      /* fixed distance of due versions; 0: rank 0 chooses by WISH */
    uint64_t ckpt_every; /* steps between periodic checkpoints; 0: none */
    uint64_t steps;
    uint64_t first;  /* first version of the epoch */
    uint64_t newest; /* newest due version */
    uint64_t before; /* due version before `newest`; `first` where `newest` is `first` */
    bool pending;    /* `newest` is not known to be stable */
    uint64_t asked;  /* due version of which rank 0 wants a checkpoint, or HSP_DUE_NONE */
};
#define HSP_DUE_NONE UINT64_MAX

/* The results of a passed vote. */
struct hsp_due_news {
    bool stable;         /* this vote made the newest due version stable */
    uint64_t checkpoint; /* stable version to write as a checkpoint now, or HSP_DUE_NONE */
    bool asked;          /* rank 0 asked for that checkpoint; false: it is periodic */
    bool refused;        /* rank 0 has to ask for its checkpoint again */
};

/* Begins an epoch with version @first. The caller has set `all`, `every`, `ckpt_every` and `steps`
 * of @d. */
void hsp_due_begin(struct hsp_due *d, uint64_t first);
/* Returns true if this rank must not send its record of vote @step before the newest due version is
 * confirmed on this rank. */
bool hsp_due_waits(const struct hsp_due *d, uint64_t step);
/* Returns the flags for the record of a rank on which @confirmed is the newest confirmed version.
 * *armed: the epoch for which the rank is armed; set to 0 if the newest due version is not
 * confirmed: then this vote could not make due the version with which the rank would hand over. */
uint32_t hsp_due_record(const struct hsp_due *d, uint64_t confirmed, uint64_t *armed);
/* Updates @d after vote @step has passed, with the @flags of its @n records. @leaves: all ranks are
 * armed for the next epoch. */
struct hsp_due_news hsp_due_passed(struct hsp_due *d, uint64_t step, const uint32_t *flags,
                                   uint32_t n, bool leaves);
/* Returns true if all of these records confirm the newest due version. Then the records also have
 * the sums by which replicas of that version are compared (replica_check.h). */
bool hsp_due_confirmed(const struct hsp_due *d, const uint32_t *flags, uint32_t n);

#endif
