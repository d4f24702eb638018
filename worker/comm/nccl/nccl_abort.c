#include "worker/comm/nccl/nccl_abort.h"

#include "worker/comm/nccl/nccl_end.h"

enum hsp_status hsp_nccl_alive(struct hsp_nccl_comm *c, struct hsp_err *err)
{
    (void)pthread_mutex_lock(&c->lock);
    enum hsp_status st = c->dead.code;
    if (st != HSP_OK && err != NULL) {
        *err = c->dead;
    }
    (void)pthread_mutex_unlock(&c->lock);
    return st;
}

/* Returns true if @c is to abort the link: false for a link without work, and for one that another
 * epoch uses. */
static bool is_own(struct hsp_link *l, const struct hsp_nccl_comm *c)
{
    return l != NULL && hsp_link_owner(l) == c && !hsp_link_quiet(l);
}

void hsp_nccl_abort_links(struct hsp_nccl_comm *c, const struct hsp_err *why)
{
    struct hsp_link_crew *w = hsp_crew_open(&c->of->lib);
    for (uint32_t k = 0; k < c->n_groups + c->n_ways; k++) {
        struct hsp_link *l = k < c->n_groups ? c->group[k].link : c->way[k - c->n_groups].link;
        if (is_own(l, c)) {
            hsp_crew_add(w, l, why);
        }
    }
    hsp_crew_abort(w);
}

/* Marks @c dead first, then aborts links: a thread that is giving operations meanwhile looks for
 * the mark when it has a link. */
void hsp_nccl_kill(struct hsp_nccl_comm *c, const struct hsp_err *why)
{
    (void)pthread_mutex_lock(&c->lock);
    c->dead = c->dead.code == HSP_OK ? *why : c->dead;
    (void)pthread_mutex_unlock(&c->lock);
    c->mesh->ops->abort(c->mesh);
    hsp_nccl_abort_links(c, why);
}
