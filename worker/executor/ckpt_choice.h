/* Chooses the checkpoint that all members load when their folders hold several of one version.
 *
 * Role:       each member sends the content of its folder to all members, and all members make the
 *             same choice from these offers.
 *             A folder may hold the version of another history: from before a roll-back, or of an
 *             earlier job of this name with the same data. hspmdd names the checkpoint to load.
 * Purity:     pure.
 * Ownership:  nothing is allocated.
 * Invariants: (I1) the choice depends on the offers and the wish only, so all members make the
 *             same choice.
 *             (I2) where hspmdd names a checkpoint, no other checkpoint is chosen. The content
 *             identifies the checkpoint: terms and epochs may be those of another job of this name,
 *             and the same state written again is as good.
 */
#ifndef HSP_CKPT_CHOICE_H
#define HSP_CKPT_CHOICE_H
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

/* The checkpoint that hspmdd names. */
struct hsp_ckpt_wish {
    uint64_t step;
    /* The term and epoch in which the checkpoint was written. Epoch 0: hspmdd names none, and the
     * latest checkpoint is wished. */
    uint64_t term, epoch;
    uint64_t content; /* hsp_ckpt_content */
};

/* The offer of one member, as it travels between members of one byte order: without padding. */
struct hsp_ckpt_offer {
    /* The term and epoch in which the checkpoint was written; epoch 0: it cannot be opened. */
    uint64_t term, epoch;
    uint64_t content; /* hsp_ckpt_content */
    uint64_t taken;   /* content of the checkpoint that this member's home was filled from */
    uint32_t filled;  /* 1: the home was filled, and `taken` counts */
    int32_t status;   /* HSP_OK: readable, and of this job's data and model */
    char why[240];    /* the reason of another status; "" none */
};

/* Returns true if both can be read and have the same history and the same content. */
bool hsp_ckpt_offer_same(const struct hsp_ckpt_offer *a, const struct hsp_ckpt_offer *b);
/* Returns true if the home of member @o was filled with the state of @chosen. */
bool hsp_ckpt_offer_done(const struct hsp_ckpt_offer *o, const struct hsp_ckpt_offer *chosen);
/* Returns true if member @o requests state from the member that offers @chosen: the home of @o is
 * not filled, and @o does not have the same checkpoint. */
bool hsp_ckpt_offer_asks(const struct hsp_ckpt_offer *o, const struct hsp_ckpt_offer *chosen);
/* For offers without the wished checkpoint: returns true if a member has a damaged checkpoint that
 * is or may be the wished one. */
bool hsp_ckpt_offers_damaged(const struct hsp_ckpt_offer *o, uint32_t n,
                             const struct hsp_ckpt_wish *wish);

/* Finds the first rank whose offer, of the @n offers by rank, is the wished checkpoint. Where none
 * is named, finds the latest: the greatest term, then the greatest epoch. Of two contents from one
 * epoch the greater number counts, so that all members take the same.
 * HSP_ENOMEM: a member lacked memory to read its folder; the caller tries again.
 * Where no member has the checkpoint: HSP_ESTATE if it was found and must not be used, with the
 * reason; else HSP_ENOENT with the cause. A failing disk is named before another history, and
 * another history before an empty folder. */
enum hsp_status hsp_ckpt_offer_choose(const struct hsp_ckpt_offer *o, uint32_t n,
                                      const struct hsp_ckpt_wish *wish, uint32_t *ret,
                                      struct hsp_err *err);

#endif
