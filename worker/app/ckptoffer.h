/* Which of the checkpoints that members have of one version all of them take.
 *
 * Role:       each member says what its folder has, hears the same of all others, and decides alike.
 *             A folder may have the version of another history: from before a roll-back, or of an
 *             earlier job of this name with the same data.
 * Purity:     pure.
 * Ownership:  nothing is allocated.
 * Invariants: (I1) the choice depends on the offers only, so all members make the same.
 */
#ifndef HSP_CKPTOFFER_H
#define HSP_CKPTOFFER_H
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

/* As it travels between members, of one byte order: without holes. */
struct hsp_ckpt_offer {
    uint64_t term, epoch; /* in which it was written */
    uint64_t content;     /* hsp_ckpt_content */
    int32_t status;       /* HSP_OK: it can be read, and is of this job's data and model; ... */
    char why[252];        /* ... else the reason. "" none */
};

/* Both can be read, and one is as good as the other: the same history, the same content. */
bool hsp_ckpt_offer_same(const struct hsp_ckpt_offer *a, const struct hsp_ckpt_offer *b);

/* The first rank that has the latest of the @n offers (by rank): that of the greatest term, then
 * the greatest epoch; of two contents from one epoch the greater number, so that all take the same.
 * HSP_ENOMEM: a member wanted memory to look, so which is the latest is not known: to be tried again.
 * Where nobody has one: HSP_ESTATE: one was found that must not be used, with its reason;
 * HSP_ENOENT otherwise, with the reason of rank @me. */
enum hsp_status hsp_ckpt_offer_choose(const struct hsp_ckpt_offer *o, uint32_t n, uint32_t me,
                                      uint32_t *ret, struct hsp_err *err);

#endif
