/* Decides which versions of an epoch are due: sealed and copied (decision D9a).
 *
 * Each rank has the same struct hsp_due, for its content follows from the records of passed votes
 * alone. A vote record says whether the newest due version is sealed on that rank, with its copies
 * confirmed. When all records of a vote say so, that version is stable. Only then can the vote make
 * the next version due: so no rank writes the segment of a stable version before all ranks know of
 * a newer stable version.
 *
 * Purity:     pure.
 * Invariants: (I1) `newest` grows only in a vote whose records all say that it is confirmed.
 *             (I2) The record of a vote that has to make the next version due leaves when `newest`
 *                  is confirmed here. Such votes come before the last version, before a periodic
 *                  checkpoint, and at each multiple of a fixed distance.
 * Example:    rank 0 chose a distance of 4. Version 8 is due. The records of vote 10 all confirm
 *             version 8: 8 is stable. In vote 11 rank 0 wishes, and version 12 is due.
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
    uint64_t ckpt_every; /* steps between periodic checkpoints; 0: none */
    uint64_t steps;
    uint64_t first;  /* first version of the epoch */
    uint64_t newest; /* newest due version */
    uint64_t before; /* due version before `newest`; `first` where `newest` is `first` */
    bool pending;    /* `newest` is not known to be stable */
    uint64_t asked;  /* due version of which rank 0 wants a checkpoint; HSP_DUE_NONE */
};
#define HSP_DUE_NONE UINT64_MAX

/* The news of a passed vote. */
struct hsp_due_news {
    bool stable;         /* the newest due version before the vote is stable since this vote */
    uint64_t checkpoint; /* stable version to write as a checkpoint now; HSP_DUE_NONE */
    bool asked;          /* rank 0 wished that checkpoint; false: it is periodic */
    bool refused;        /* rank 0 has to repeat its wish for a checkpoint */
};

/* Begins an epoch with version @first. `all`, `every`, `ckpt_every` and `steps` of @d are set. */
void hsp_due_begin(struct hsp_due *d, uint64_t first);
/* Returns true if the record of @step waits until the newest due version is confirmed here. */
bool hsp_due_waits(const struct hsp_due *d, uint64_t step);
/* Returns the flags for the record of a rank on which @confirmed is the newest confirmed version.
 * *armed: the epoch for which the rank is armed; set to 0 where this vote could not make the
 * version due with which the rank would leave. */
uint32_t hsp_due_record(const struct hsp_due *d, uint64_t confirmed, uint64_t *armed);
/* Takes the passed vote @step, with the @flags of its @n records. @leaves: all ranks are armed. */
struct hsp_due_news hsp_due_passed(struct hsp_due *d, uint64_t step, const uint32_t *flags,
                                   uint32_t n, bool leaves);
/* Returns true if all of these records confirm the newest due version. Then the records also have
 * the hashes of its replicas. */
bool hsp_due_confirmed(const struct hsp_due *d, const uint32_t *flags, uint32_t n);

#endif
