#include "worker/comm/mesh/mesh_start.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/net/tls_psk.h"
#include "worker/comm/mesh/mesh_beat.h"
#include "worker/comm/mesh/mesh_impl.h"
#include "worker/comm/mesh/mesh_io.h"
#include "worker/comm/mesh/mesh_links.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_ops.h"
#include "worker/comm/mesh/mesh_shm.h"
#include "worker/comm/mesh/mesh_tls.h"

#define SOCKET_BUFFER (4 << 20) /* the kernel's usual maximum; keeps both ends busy */
#define KEEPALIVE_MS  30000     /* of a mesh that does not judge silence */

/* Returns true if a connection stays on this host, since its ends have one address. */
static bool on_this_host(int fd)
{
    struct sockaddr_storage a = {0}, b = {0};
    socklen_t na = sizeof a, nb = sizeof b;
    if (getsockname(fd, (struct sockaddr *)&a, &na) != 0 ||
        getpeername(fd, (struct sockaddr *)&b, &nb) != 0 || a.ss_family != b.ss_family) {
        return false;
    }
    if (a.ss_family == AF_INET) {
        return ((struct sockaddr_in *)&a)->sin_addr.s_addr ==
               ((struct sockaddr_in *)&b)->sin_addr.s_addr;
    }
    return a.ss_family == AF_UNIX ||
           (a.ss_family == AF_INET6 &&
            memcmp(&((struct sockaddr_in6 *)&a)->sin6_addr, &((struct sockaddr_in6 *)&b)->sin6_addr,
                   sizeof(struct in6_addr)) == 0);
}

/* Returns true if more ranks are on this host than processors we may use; false if not known. */
static bool is_crowded(const struct hsp_mesh *m)
{
    cpu_set_t set;
    uint32_t here = 1;
    for (uint32_t i = 0; i < m->base.n_ranks; i++) {
        here += m->link[i].fd >= 0 && on_this_host(m->link[i].fd);
    }
    return sched_getaffinity(0, sizeof set, &set) == 0 && here > (uint32_t)CPU_COUNT(&set);
}

/* Sets options of the socket. The kernel may refuse each: the connection works without. */
static void tune(struct mesh_link *l, uint32_t silent_ms)
{
    static const struct {
        int level, name, value;
    } opt[] = {
        {SOL_SOCKET, SO_SNDBUF, SOCKET_BUFFER},
        {SOL_SOCKET, SO_RCVBUF, SOCKET_BUFFER},
    };
    for (size_t i = 0; i < sizeof opt / sizeof opt[0]; i++) {
        (void)setsockopt(l->fd, opt[i].level, opt[i].name, &opt[i].value, sizeof opt[i].value);
    }
    l->tcp = setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0;
    hsp_mesh_watch(l->fd, silent_ms > 0 ? silent_ms : KEEPALIVE_MS, false);
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
}

static bool init_link(struct hsp_mesh *m, uint32_t i, const struct mesh_wire *w)
{
    struct mesh_link *l = &m->link[i];
    l->fd = w->fd;
    l->tls = w->tls;
    l->shm = w->shm;
    m->n_shm += l->shm != NULL;
    l->out_last = &l->out;
    l->posted_last = &l->posted;
    l->early_last = &l->early;
    if (l->fd < 0) {
        return true;
    }
    tune(l, m->silent_ms);
    m->n_tcp += l->tcp;
    l->heard_ns = hsp_mesh_now_ns();
    l->input = malloc(MESH_INPUT);
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = i};
    return l->input != NULL && epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, l->fd, &ev) == 0;
}

static struct hsp_mesh *alloc_mesh(const struct hsp_mesh_params *p)
{
    pthread_condattr_t attr;
    struct hsp_mesh *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return NULL;
    }
    *m = (struct hsp_mesh){.seg.fd = -1,
                           .base = {.ops = &hsp_mesh_ops,
                                    .rank = p->rank,
                                    .n_ranks = p->n,
                                    .near = hsp_mesh_one_host(p->peers, p->n)},
                           .job = p->job,
                           .epoch = p->epoch,
                           .on_peer_lost = p->on_peer_lost,
                           .ctx = p->ctx,
                           .silent_ms = p->silent_ms,
                           .looked_ns = hsp_mesh_now_ns(),
                           .loss = {.rank = UINT32_MAX}};
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->cond, &attr);
    pthread_cond_init(&m->io_cond, &attr);
    pthread_condattr_destroy(&attr);
    m->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    m->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    m->link = calloc(p->n, sizeof *m->link);
    m->names = calloc(p->n, sizeof *m->names);
    return m;
}

enum hsp_status hsp_mesh_start(const struct hsp_mesh_params *p, const struct mesh_wire *wire,
                               struct hsp_tls_ctx *ctx, struct seg *seg, struct hsp_comm **ret,
                               struct hsp_err *err)
{
    struct hsp_mesh *m = alloc_mesh(p);
    bool ok =
        m != NULL && m->link != NULL && m->names != NULL && m->epoll_fd >= 0 && m->wake_fd >= 0;
    for (uint32_t i = 0; i < p->n; i++) {
        if (m != NULL && m->link != NULL && m->names != NULL) {
            (void)snprintf(m->names[i], sizeof m->names[i], "%s", p->peers[i].name);
            ok = init_link(m, i, &wire[i]) && ok;
        } else if (wire[i].fd >= 0) {
            close(wire[i].fd);
            (void)hsp_mesh_tls_free(wire[i].tls);
            (void)hsp_shm_free(wire[i].shm);
        }
    }
    if (m != NULL) {
        m->tls_ctx = ctx;
        m->seg = *seg;
    } else {
        (void)hsp_tls_ctx_free(ctx); /* its sessions are gone */
        hsp_seg_free(seg);
    }
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    if (ok) {
        m->crowded = is_crowded(m);
    }
    ok = ok && epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, m->wake_fd, &ev) == 0 &&
         pthread_create(&m->thread, NULL, hsp_mesh_io_main, m) == 0;
    if (!ok) {
        if (m != NULL) {
            hsp_mesh_free(m);
        }
        return hsp_err_set(err, HSP_ENOMEM, errno, "cannot start a mesh of %u", p->n);
    }
    *ret = &m->base;
    return HSP_OK;
}
