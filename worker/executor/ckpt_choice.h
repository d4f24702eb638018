/* Chooses the checkpoint that all members load when their folders have several checkpoints of one
 * version (the state after so many steps).
 *
 * Role:       each member sends the content of its folder to all members, and all members make the
 *             same choice from these offers. A folder may have a checkpoint of this version from
 *             another history: from before a roll-back, or from an earlier job of this name with
 *             the same data. So hspmdd names the checkpoint to load.
 * Purity:     pure.
 * Ownership:  nothing is allocated.
 * Invariants: (I1) the choice depends only on the offers and on the checkpoint that hspmdd names,
 *             so all members make the same choice.
 *             (I2) where hspmdd names a checkpoint, no other checkpoint is chosen. A checkpoint is
 *             identified by its content hash and not by its term and epoch: another job of this
 *             name may have the same term and epoch, and a second checkpoint of the same state may
 *             be loaded as well.
 */
#ifndef HSP_CKPT_CHOICE_H
#define HSP_CKPT_CHOICE_H
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

/* The checkpoint that hspmdd names. */
struct hsp_ckpt_wish {
    uint64_t step;
    /* The term (number of a start of hspmdd) and the epoch in which the checkpoint was written.
     * Epoch 0: hspmdd names no checkpoint, and the latest one is chosen. */
    uint64_t term, epoch;
    uint64_t content; /* hsp_ckpt_content */
};

/* The offer of one member. Members send it as it is in memory, without padding: all members have
 * one byte order. */
struct hsp_ckpt_offer {
    /* The term and epoch in which the checkpoint was written; epoch 0: the checkpoint cannot be
     * opened. */
    uint64_t term, epoch;
    uint64_t content; /* hsp_ckpt_content */
    uint64_t taken;   /* content of the checkpoint that this member's home was filled from */
    uint32_t filled;  /* 1: the member's home (epoch.h) was filled, and `taken` is valid */
    int32_t status;   /* HSP_OK: the checkpoint is readable, and fits this job's data and model */
    char why[240];    /* the reason if `status` is an error; else "" */
};

/* Returns true if both checkpoints can be read and have the same history and the same content. */
bool hsp_ckpt_offer_same(const struct hsp_ckpt_offer *a, const struct hsp_ckpt_offer *b);
/* Returns true if the home of member @o was filled with the state of @chosen. */
bool hsp_ckpt_offer_done(const struct hsp_ckpt_offer *o, const struct hsp_ckpt_offer *chosen);
/* Returns true if member @o requests state from the member that offers @chosen: the home of @o is
 * not filled, and @o does not have the same checkpoint. */
bool hsp_ckpt_offer_asks(const struct hsp_ckpt_offer *o, const struct hsp_ckpt_offer *chosen);
/* Called if no offer has the wished checkpoint: returns true if a member has a damaged checkpoint
 * that is or may be the wished one. */
bool hsp_ckpt_offers_damaged(const struct hsp_ckpt_offer *o, uint32_t n,
                             const struct hsp_ckpt_wish *wish);

/* Finds in *ret the lowest rank that offers the checkpoint named by @wish; @o has the offers of the
 * @n ranks. If @wish names none, finds the latest checkpoint: the greatest term, then the greatest
 * epoch, then the greatest content hash, so that all members choose the same one.
 * Returns HSP_ENOMEM if a member lacked memory to read its folder; the caller tries again. If no
 * member has the checkpoint, returns HSP_ESTATE with the reason if the checkpoint was found and
 * must not be used, else HSP_ENOENT with the cause. Of several causes a failing disk is named
 * first, then a checkpoint of another history, then an empty folder. */
enum hsp_status hsp_ckpt_offer_choose(const struct hsp_ckpt_offer *o, uint32_t n,
                                      const struct hsp_ckpt_wish *wish, uint32_t *ret,
                                      struct hsp_err *err);

#endif
