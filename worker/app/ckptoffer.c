#include "worker/app/ckptoffer.h"

#include <assert.h>
#include <stddef.h>

static_assert(sizeof(struct hsp_ckpt_offer) == 280, "it travels as it is: no holes");

bool hsp_ckpt_offer_same(const struct hsp_ckpt_offer *a, const struct hsp_ckpt_offer *b)
{
    return a->status == HSP_OK && b->status == HSP_OK && a->term == b->term &&
           a->epoch == b->epoch && a->content == b->content;
}

static bool later(const struct hsp_ckpt_offer *a, const struct hsp_ckpt_offer *b)
{
    return a->term != b->term     ? a->term > b->term
           : a->epoch != b->epoch ? a->epoch > b->epoch
                                  : a->content > b->content;
}

enum hsp_status hsp_ckpt_offer_choose(const struct hsp_ckpt_offer *o, uint32_t n, uint32_t me,
                                      uint32_t *ret, struct hsp_err *err)
{
    const struct hsp_ckpt_offer *best = NULL, *refused = NULL;
    for (uint32_t r = 0; r < n; r++) {
        if (o[r].status == HSP_ENOMEM) {
            return hsp_err_set(err, HSP_ENOMEM, 0, "member %u cannot look for its checkpoint: %s",
                               r, o[r].why);
        }
        if (o[r].status == HSP_OK && (best == NULL || later(&o[r], best))) {
            best = &o[r];
        }
        refused = refused == NULL && o[r].status == HSP_ESTATE ? &o[r] : refused;
    }
    if (best != NULL) {
        *ret = (uint32_t)(best - o);
        return HSP_OK;
    }
    return refused != NULL
               ? hsp_err_set(err, HSP_ESTATE, 0, "%s", refused->why)
               : hsp_err_set(err, HSP_ENOENT, 0, "no member has the checkpoint: %s", o[me].why);
}
