#include "daemon/spmd/reshard/copy_send.h"

#include "daemon/spmd/reshard/move_list.h"
#include "daemon/spmd/reshard/resolve_impl.h"
#include "proto/layout/box.h"

double hsp_resolver_us(const struct hsp_resolver *r, uint32_t from, uint32_t to)
{
    const struct hsp_rank_links *l = r->t.opts->links;
    return l == NULL || from == to ? 0 : l->between(l->ctx, from, to).us_per_byte;
}

uint8_t hsp_holder_pick(const struct hsp_holder *h)
{
    return h->n_items == 1 ? HSP_MOVE_SUM : h->input;
}

enum hsp_status hsp_resolver_copy(struct hsp_resolver *r, const struct hsp_move_task *t,
                                  uint32_t rank, uint8_t pick, struct hsp_err *err)
{
    struct hsp_draft_key key = {.kind = HSP_MOVE_COPY, .n_ranks = 1, .ranks = &rank};
    key.pick = pick != HSP_MOVE_SUM ? &pick : NULL;
    return hsp_drafts_add(&r->drafts, &key, &t->box, rank, rank, err);
}

enum hsp_status hsp_resolver_send(struct hsp_resolver *r, const struct hsp_move_task *t,
                                  bool of_sums, uint8_t pick, uint32_t from, uint32_t to,
                                  struct hsp_err *err)
{
    struct hsp_draft_key key = {.kind = HSP_MOVE_P2P, .src = pick, .of_sums = of_sums};
    r->load[from] += hsp_box_count(&t->box);
    return hsp_drafts_add(&r->drafts, &key, &t->box, from, to, err);
}
