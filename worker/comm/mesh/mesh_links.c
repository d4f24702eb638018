#include "worker/comm/mesh/mesh_links.h"

#include <stdlib.h>
#include <unistd.h>

#include "proto/net/tls_psk.h"
#include "worker/comm/mesh/mesh_impl.h"
#include "worker/comm/mesh/mesh_shm.h"
#include "worker/comm/mesh/mesh_tls.h"

static void close_link(struct mesh_link *l)
{
    while (l->out != NULL) {
        struct mesh_out *o = l->out;
        l->out = o->next;
        free(o);
    }
    while (l->early != NULL) {
        struct mesh_in *e = l->early;
        l->early = e->next;
        free(e);
    }
    if (l->fd >= 0) {
        close(l->fd);
    }
    (void)hsp_mesh_tls_free(l->tls);
    (void)hsp_shm_free(l->shm);
    free(l->input);
}

void hsp_mesh_free(struct hsp_mesh *m)
{
    for (uint32_t i = 0; m->link != NULL && i < m->base.n_ranks; i++) {
        close_link(&m->link[i]);
    }
    if (m->epoll_fd >= 0) {
        close(m->epoll_fd);
    }
    if (m->wake_fd >= 0) {
        close(m->wake_fd);
    }
    pthread_cond_destroy(&m->cond);
    pthread_cond_destroy(&m->io_cond);
    pthread_mutex_destroy(&m->lock);
    (void)hsp_tls_ctx_free(m->tls_ctx);
    hsp_seg_free(&m->seg);
    free(m->link);
    free(m->names);
    free(m->base.scratch);
    free(m);
}

struct hsp_mesh_links hsp_mesh_count_links(const struct hsp_comm *c)
{
    const struct hsp_mesh *m = (const struct hsp_mesh *)c;
    struct hsp_mesh_links n = {0};
    for (uint32_t i = 0; i < c->n_ranks; i++) {
        const struct mesh_link *l = &m->link[i];
        if (l->fd >= 0) {
            n.shm += l->shm != NULL;
            n.local += !l->tcp && l->shm == NULL;
            n.tls += l->tls != NULL;
            n.clear += l->tcp && l->tls == NULL;
        }
    }
    return n;
}
