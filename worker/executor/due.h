/* Decides which versions of an epoch are due: sealed and copied (decision D9a).
 *
 * Each rank has the same state, for it follows from the records of passed votes alone. A vote
 * record says whether the newest due version is sealed here, with its copies confirmed. When all
 * records of a vote say so, that version is stable. Only then the vote can make the next one due:
 * so no segment of the stable version is written before all know of a newer stable one.
 *
 * Purity:     pure.
 * Invariants: (I1) `newest` grows only in a vote whose records all say that it is confirmed.
 *             (I2) The record of a vote that has to make the next version due leaves when `newest`
 *                  is confirmed here. Such are the votes before the last version and before a
 *                  checkpoint of the calendar, and those a fixed distance apart.
 * Example:    rank 0 chose a distance of 4. Version 8 is due. The records of vote 10 all confirm
 *             it: 8 is stable. In vote 11 rank 0 wishes, and version 12 is due.
 */
#ifndef HSP_DUE_H
#define HSP_DUE_H
#include <stdbool.h>
#include <stdint.h>

/* Bits of the flags of a vote record. */
#define HSP_VOTE_CHECKPOINT 1u /* of rank 0: write a checkpoint soon */
#define HSP_VOTE_WISH       2u /* of rank 0: the next version is to be due */
#define HSP_VOTE_CONFIRMED  4u /* the newest due version is sealed and copied here */

struct hsp_due {
    bool all;            /* each version is due, and records have no bits but CHECKPOINT */
    uint64_t every;      /* the distance; 0: rank 0 wishes */
    uint64_t ckpt_every; /* 0: no calendar */
    uint64_t steps;
    uint64_t first;  /* of the epoch */
    uint64_t newest; /* that is due */
    uint64_t before; /* the due version before that; `first` itself: `newest` is `first` */
    bool pending;    /* it is not known to be stable */
    uint64_t asked;  /* due version of which rank 0 wants a checkpoint; HSP_DUE_NONE */
};
#define HSP_DUE_NONE UINT64_MAX

/* What a passed vote says beside that. */
struct hsp_due_news {
    bool stable;         /* the version that was the newest due one is stable since this vote */
    uint64_t checkpoint; /* version to be written now, which is stable; HSP_DUE_NONE */
    bool asked;          /* by rank 0, not by the calendar */
    bool refused;        /* rank 0's wish for a checkpoint has to be said again */
};

/* @d has its terms; the epoch begins with version @first. */
void hsp_due_begin(struct hsp_due *d, uint64_t first);
/* Whether the record of @step waits until the newest due version is confirmed here. */
bool hsp_due_waits(const struct hsp_due *d, uint64_t step);
/* The bits of the record of a rank that has @confirmed the newest of all. *armed: the epoch that it
 * is armed for; 0 where a version to leave with could not be due behind this vote. */
uint32_t hsp_due_record(const struct hsp_due *d, uint64_t confirmed, uint64_t *armed);
/* Vote @step has passed. @flags: of the @n records. @leaves: all ranks are armed. */
struct hsp_due_news hsp_due_passed(struct hsp_due *d, uint64_t step, const uint32_t *flags,
                                   uint32_t n, bool leaves);
/* Whether all of these records confirm the newest due version: hashes of its replicas are in them,
 * too. */
bool hsp_due_confirmed(const struct hsp_due *d, const uint32_t *flags, uint32_t n);

#endif
