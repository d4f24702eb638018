#include "worker/comm/mesh/mesh_poll.h"

#include <sched.h>
#include <sys/epoll.h>

#include "worker/comm/mesh/mesh_impl.h"

void hsp_mesh_arm(struct hsp_mesh *m, uint32_t peer, bool in, bool out)
{
    struct mesh_link *l = &m->link[peer];
    if (l->in_off == !in && l->out_armed == out) {
        return;
    }
    bool was = !l->in_off || l->out_armed;
    l->in_off = !in;
    l->out_armed = out;
    struct epoll_event ev = {.events = (in ? EPOLLIN : 0u) | (out ? EPOLLOUT : 0u),
                             .data.u32 = peer};
    /* Out of the set when nothing is wanted: EPOLLHUP cannot be masked and would spin. None of the
     * three fails on a descriptor that is ours and (not) in the set. */
    int op = !was ? EPOLL_CTL_ADD : in || out ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    (void)epoll_ctl(m->epoll_fd, op, l->fd, &ev);
}

void hsp_mesh_look_away(const struct hsp_mesh *m)
{
    if (m->crowded) {
        (void)sched_yield(); /* to a rank that may have bytes to send */
    }
}

void hsp_mesh_lock_soon(struct hsp_mesh *m)
{
    (void)atomic_fetch_add(&m->callers, 1);
    pthread_mutex_lock(&m->lock);
    (void)atomic_fetch_sub(&m->callers, 1);
}

bool hsp_mesh_is_called(const struct hsp_mesh *m)
{
    return atomic_load(&m->callers) > 0;
}

void hsp_mesh_give_way(struct hsp_mesh *m)
{
    if (hsp_mesh_is_called(m)) {
        pthread_mutex_unlock(&m->lock);
        while (hsp_mesh_is_called(m)) {
            (void)sched_yield();
        }
        pthread_mutex_lock(&m->lock);
    }
}
