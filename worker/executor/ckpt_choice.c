#include "worker/executor/ckpt_choice.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>

static_assert(sizeof(struct hsp_ckpt_offer) == 280, "it travels as it is: no holes");

bool hsp_ckpt_offer_same(const struct hsp_ckpt_offer *a, const struct hsp_ckpt_offer *b)
{
    return a->status == HSP_OK && b->status == HSP_OK && a->term == b->term &&
           a->epoch == b->epoch && a->content == b->content;
}

bool hsp_ckpt_offer_done(const struct hsp_ckpt_offer *o, const struct hsp_ckpt_offer *chosen)
{
    return o->filled != 0 && o->taken == chosen->content;
}

bool hsp_ckpt_offer_asks(const struct hsp_ckpt_offer *o, const struct hsp_ckpt_offer *chosen)
{
    return !hsp_ckpt_offer_done(o, chosen) && !hsp_ckpt_offer_same(o, chosen);
}

static bool later(const struct hsp_ckpt_offer *a, const struct hsp_ckpt_offer *b)
{
    return a->term != b->term     ? a->term > b->term
           : a->epoch != b->epoch ? a->epoch > b->epoch
                                  : a->content > b->content;
}

static bool better(const struct hsp_ckpt_wish *wish, const struct hsp_ckpt_offer *a,
                   const struct hsp_ckpt_offer *best)
{
    return a->status == HSP_OK && (wish->epoch != 0 ? best == NULL && a->content == wish->content
                                                    : best == NULL || later(a, best));
}

/* Returns true if the checkpoint of @a must not be used, and is or may be the wished one. */
static bool refused(const struct hsp_ckpt_wish *wish, const struct hsp_ckpt_offer *a)
{
    return a->status == HSP_ESTATE &&
           (wish->epoch == 0 || a->epoch == 0 || a->content == wish->content);
}

/* Ranks the offers by how well each explains that the wished checkpoint is not available; the
 * greatest weight is reported. ANOTHER: a usable checkpoint that is not the wished one. UNFIT: an
 * unusable checkpoint that is not the wished one. BROKEN: the wished checkpoint, or an unknown one,
 * which cannot be used. */
enum weight { NOTHING_THERE, ANOTHER, UNFIT, BROKEN };
static enum weight weight(const struct hsp_ckpt_wish *wish, const struct hsp_ckpt_offer *a)
{
    bool another = wish->epoch != 0 && a->epoch != 0 && a->content != wish->content;
    return a->status == HSP_ENOENT ? NOTHING_THERE
           : !another              ? BROKEN
           : a->status == HSP_OK   ? ANOTHER
                                   : UNFIT;
}

static enum hsp_status nobody(const struct hsp_ckpt_offer *o, uint32_t n,
                              const struct hsp_ckpt_wish *wish, struct hsp_err *err)
{
    uint32_t at = 0;
    for (uint32_t r = 1; r < n; r++) {
        at = weight(wish, &o[r]) > weight(wish, &o[at]) ? r : at;
    }
    if (wish->epoch == 0) {
        return hsp_err_set(err, HSP_ENOENT, 0, "no member has the checkpoint: %s", o[at].why);
    }
    enum weight w = weight(wish, &o[at]);
    (void)(w == ANOTHER
               ? hsp_err_set(err, HSP_ENOENT, 0,
                             "it is of another history, of epoch %" PRIu64 " in term %" PRIu64,
                             o[at].epoch, o[at].term)
               : hsp_err_set(err, HSP_ENOENT, 0, "%s", o[at].why));
    if (w == UNFIT) {
        (void)hsp_err_wrap(err, "it is of another history");
    }
    (void)hsp_err_wrap(err,
                       "no member has checkpoint %" PRIu64 " of epoch %" PRIu64 " in term %" PRIu64
                       " (start a node that has it): member %u",
                       wish->step, wish->epoch, wish->term, at);
    return HSP_ENOENT;
}

bool hsp_ckpt_offers_damaged(const struct hsp_ckpt_offer *o, uint32_t n,
                             const struct hsp_ckpt_wish *wish)
{
    bool damaged = false;
    for (uint32_t r = 0; r < n; r++) {
        bool another = wish->epoch != 0 && o[r].epoch != 0 && o[r].content != wish->content;
        damaged = damaged || (o[r].status == HSP_EDIGEST && !another);
    }
    return damaged;
}

enum hsp_status hsp_ckpt_offer_choose(const struct hsp_ckpt_offer *o, uint32_t n,
                                      const struct hsp_ckpt_wish *wish, uint32_t *ret,
                                      struct hsp_err *err)
{
    const struct hsp_ckpt_offer *best = NULL, *no = NULL;
    for (uint32_t r = 0; r < n; r++) {
        if (o[r].status == HSP_ENOMEM) {
            return hsp_err_set(err, HSP_ENOMEM, 0, "member %u cannot look for its checkpoint: %s",
                               r, o[r].why);
        }
        best = better(wish, &o[r], best) ? &o[r] : best;
        no = no == NULL && refused(wish, &o[r]) ? &o[r] : no;
    }
    if (best != NULL) {
        *ret = (uint32_t)(best - o);
        return HSP_OK;
    }
    return no != NULL ? hsp_err_set(err, HSP_ESTATE, 0, "%s", no->why) : nobody(o, n, wish, err);
}
