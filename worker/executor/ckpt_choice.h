/* Chooses the checkpoint that all members load when they have several of one version.
 *
 * Role:       each member tells the content of its folder, hears that of all others, and decides
 *             alike.
 *             A folder may have the version of another history: from before a roll-back, or of an
 *             earlier job of this name with the same data. hspmdd says which one is meant.
 * Purity:     pure.
 * Ownership:  nothing is allocated.
 * Invariants: (I1) the choice depends on the offers and the wish only, so all members make the
 *             same.
 *             (I2) where it is known which is meant, no other is chosen. Its content tells: terms
 *             and epochs may be those of another job of this name, and the same state written again
 *             is as good.
 */
#ifndef HSP_CKPT_CHOICE_H
#define HSP_CKPT_CHOICE_H
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

/* The one that is meant. */
struct hsp_ckpt_wish {
    uint64_t step;
    uint64_t term, epoch; /* in which it was written; epoch 0: not known, the latest there is */
    uint64_t content;     /* hsp_ckpt_content */
};

/* As it travels between members, of one byte order: without holes. */
struct hsp_ckpt_offer {
    uint64_t term, epoch; /* in which it was written; epoch 0: it could not be opened */
    uint64_t content;     /* hsp_ckpt_content */
    uint64_t taken;  /* content of the checkpoint that this member's home has been filled from */
    uint32_t filled; /* 1: it has; `taken` counts */
    int32_t status;  /* HSP_OK: it can be read, and is of this job's data and model; ... */
    char why[240];   /* ... else the reason. "" none */
};

/* Both can be read, and one is as good as the other: the same history, the same content. */
bool hsp_ckpt_offer_same(const struct hsp_ckpt_offer *a, const struct hsp_ckpt_offer *b);
/* The home of member @o has been filled with the state of @chosen. */
bool hsp_ckpt_offer_done(const struct hsp_ckpt_offer *o, const struct hsp_ckpt_offer *chosen);
/* Member @o asks the member that @chosen is of: its home is not filled, and it has not the same. */
bool hsp_ckpt_offer_asks(const struct hsp_ckpt_offer *o, const struct hsp_ckpt_offer *chosen);
/* Of offers of which none is the wished one: a member has it, or one that it may be, damaged. */
bool hsp_ckpt_offers_damaged(const struct hsp_ckpt_offer *o, uint32_t n,
                             const struct hsp_ckpt_wish *wish);

/* The first rank that has the wished one of the @n offers (by rank). Where that is not known, the
 * latest: that of the greatest term, then the greatest epoch; of two contents from one epoch the
 * greater number, so that all take the same.
 * HSP_ENOMEM: a member wanted memory to look, so its folder is not known: to be tried again.
 * Where no member has it: HSP_ESTATE: it was found and must not be used, with its reason;
 * HSP_ENOENT otherwise, with the cause: a failing disk comes before another history, that before an
 * empty folder. */
enum hsp_status hsp_ckpt_offer_choose(const struct hsp_ckpt_offer *o, uint32_t n,
                                      const struct hsp_ckpt_wish *wish, uint32_t *ret,
                                      struct hsp_err *err);

#endif
