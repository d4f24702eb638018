#include "worker/comm/mesh/mesh_bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/comm/mesh/mesh_header.h"
#include "worker/comm/mesh/mesh_impl.h"

static void futex_wake(_Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void hsp_bell_ring(struct seg_head *h)
{
    uint32_t asleep = SEG_ASLEEP; /* looked at first: an exchange takes the line from its owner */
    if (atomic_load(&h->where) == SEG_ASLEEP &&
        atomic_compare_exchange_strong(&h->where, &asleep, SEG_IN)) {
        atomic_fetch_add(&h->bell, 1);
        futex_wake(&h->bell);
    }
}

void hsp_shm_notify(struct hsp_mesh *m)
{
    if (m->seg.head != NULL) {
        atomic_fetch_add(&m->seg.head->bell, 1); /* a thread about to sleep stays awake */
        hsp_bell_ring(m->seg.head);
    }
}

void hsp_bell_ring_away(struct hsp_mesh *m, struct mesh_link *l)
{
    uint8_t head[MESH_HEADER];
    hsp_mesh_header(m, MESH_RING, 0, 0, 0, head);
    ssize_t n = send(l->fd, head, sizeof head, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)n;
}

void hsp_shm_abort_all(struct hsp_mesh *m)
{
    struct hsp_mesh_loss loss;
    enum mesh_end end = hsp_mesh_end_of(m, &loss);
    uint64_t word = SEG_ABORT_SET | (uint64_t)end << 60 | (uint64_t)loss.rank << 40 |
                    (uint64_t)loss.by << 20 | m->base.rank;
    for (uint32_t i = 0; m->n_shm > 0 && i < m->base.n_ranks; i++) {
        if (m->link[i].shm != NULL) {
            uint64_t none = 0;
            (void)atomic_compare_exchange_strong(&m->link[i].shm->peer->abort, &none, word);
            hsp_bell_ring(m->link[i].shm->peer);
        }
    }
}
