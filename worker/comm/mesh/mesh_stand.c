#include "worker/comm/mesh/mesh_stand.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "worker/comm/mesh/mesh_poll.h"

#define BEAT_BYTES 96u /* a beat with its TLS record: its confirmation may be on its way */

static struct hsp_mesh *mesh_of(struct hsp_comm *c)
{
    return (struct hsp_mesh *)c;
}

struct hsp_mesh_wait hsp_mesh_waits(struct hsp_comm *c)
{
    struct hsp_mesh *m = mesh_of(c);
    hsp_mesh_lock_soon(m);
    struct hsp_mesh_wait w = m->waits;
    pthread_mutex_unlock(&m->lock);
    return w;
}

/* Bytes not confirmed; 0 where the mesh holds bytes back, since they tell nothing about the
 * link. */
static uint64_t unsent(const struct mesh_link *l)
{
    int kernel = 0;
    if (l->held_back) {
        return 0;
    }
    if (ioctl(l->fd, SIOCOUTQ, &kernel) != 0 || kernel < 0) {
        kernel = 0; /* the socket has been shut down */
    }
    uint64_t n = (uint64_t)l->out_bytes + (uint64_t)kernel;
    return l->out == NULL && n <= BEAT_BYTES ? 0 : n;
}

uint32_t hsp_mesh_link_states(struct hsp_comm *c, struct hsp_mesh_link_state *ret, uint32_t cap)
{
    struct hsp_mesh *m = mesh_of(c);
    uint32_t n = 0;
    hsp_mesh_lock_soon(m);
    for (uint32_t i = 0; i < m->base.n_ranks && n < cap; i++) {
        struct mesh_link *l = &m->link[i];
        if (l->fd < 0 || !l->tcp || l->closed) {
            continue;
        }
        struct hsp_mesh_link_state s = {i, unsent(l), l->held, l->bytes_per_s};
        l->bytes_per_s = 0;
        if (s.unsent > 0 || s.held || s.bytes_per_s > 0) {
            ret[n++] = s;
        }
    }
    pthread_mutex_unlock(&m->lock);
    return n;
}

bool hsp_mesh_lost(struct hsp_comm *c, struct hsp_mesh_loss *ret, struct hsp_err *why)
{
    struct hsp_mesh *m = mesh_of(c);
    hsp_mesh_lock_soon(m);
    bool lost = m->dead.code == HSP_EPEER && m->loss.rank < m->base.n_ranks;
    if (lost) {
        *ret = m->loss;
        *why = m->dead;
    }
    pthread_mutex_unlock(&m->lock);
    return lost;
}

uint64_t hsp_mesh_arrived(struct hsp_comm *c)
{
    struct hsp_mesh *m = mesh_of(c);
    uint64_t n = 0;
    hsp_mesh_lock_soon(m);
    for (uint32_t i = 0; i < m->base.n_ranks; i++) {
        n += m->link[i].seq_in;
        n += atomic_load_explicit(&m->link[i].arrived, memory_order_relaxed);
    }
    pthread_mutex_unlock(&m->lock);
    return n;
}
