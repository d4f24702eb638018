#include "worker/comm/nccl/nccl_abort.h"

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

void hsp_nccl_abort_links(struct hsp_nccl_comm *c, const struct hsp_err *why)
{
    for (uint32_t k = 0; k < c->n_groups; k++) {
        if (c->group[k].link != NULL) {
            hsp_link_abort_own(c->group[k].link, c, why);
        }
    }
    for (uint32_t k = 0; k < c->n_ways; k++) {
        hsp_link_abort_own(c->way[k].link, c, why);
    }
}

/* Dead first, then the links: who is giving operations meanwhile looks for that when it has a
 * link. */
void hsp_nccl_kill(struct hsp_nccl_comm *c, const struct hsp_err *why)
{
    (void)pthread_mutex_lock(&c->lock);
    c->dead = c->dead.code == HSP_OK ? *why : c->dead;
    (void)pthread_mutex_unlock(&c->lock);
    c->mesh->ops->abort(c->mesh);
    hsp_nccl_abort_links(c, why);
}
