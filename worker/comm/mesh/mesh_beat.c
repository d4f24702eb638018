#include "worker/comm/mesh/mesh_beat.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "worker/comm/mesh/mesh_header.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_match.h"
#include "worker/comm/mesh/mesh_poll.h"

#define BEAT_MS 1000 /* between two beats, at most */
#define BEATS   3    /* beats due in the time for which a peer may be silent, at least */
#define LOOKS   12   /* looks for bytes of peers in that time */
#define LONG    4    /* looks: a look that is so late shows a stall of this process, not of peers */
#define NS      1000000

static uint64_t look_ns(const struct hsp_mesh *m)
{
    return (uint64_t)m->silent_ms * NS / LOOKS;
}

static bool is_watched(const struct mesh_link *l)
{
    return l->fd >= 0 && l->tcp && !l->closed;
}

int hsp_mesh_beat_wait(const struct hsp_mesh *m)
{
    if (m->silent_ms == 0 || m->n_tcp == 0) {
        return -1;
    }
    uint64_t now = hsp_mesh_now_ns(), due = m->looked_ns + look_ns(m);
    return due > now ? (int)((due - now) / NS) + 1 : 0;
}

/* Returns true if some bytes of the peer are not read yet. */
static bool has_unread(const struct mesh_link *l)
{
    int n = 0;
    return ioctl(l->fd, FIONREAD, &n) == 0 && n > 0;
}

/* Milliseconds since the kernel of the peer has answered, while an answer is due: to data that it
 * has not acknowledged, or to two probes of its full buffer. 0: no answer is due. */
static uint32_t unanswered_ms(const struct mesh_link *l)
{
    struct tcp_info t;
    socklen_t n = sizeof t;
    bool open = getsockopt(l->fd, IPPROTO_TCP, TCP_INFO, &t, &n) == 0 && n == sizeof t &&
                (t.tcpi_unacked > 0 || t.tcpi_probes > 1);
    return open ? t.tcpi_last_ack_recv : 0;
}

static void look_at(struct hsp_mesh *m, uint32_t peer, uint64_t now, bool late)
{
    struct mesh_link *l = &m->link[peer];
    bool heard = atomic_exchange_explicit(&l->heard, false, memory_order_relaxed);
    l->talks = l->talks || heard;
    if (heard || late || l->in_off) {
        l->heard_ns = now;
    } else if (!l->talks) {
        l->heard_ns = now - unanswered_ms(l) * NS;
    }
    if (now - l->heard_ns >= (uint64_t)m->silent_ms * NS) {
        if (has_unread(l)) {
            l->heard_ns = now;
        } else if (m->closing) { /* a peer need not say BYE to a rank that closes, too */
            hsp_mesh_arm(m, peer, false, false);
            l->closed = true;
            hsp_mesh_drop_out(m, l);
        } else {
            hsp_mesh_fell_silent(m, peer, (uint32_t)((now - l->heard_ns) / NS));
        }
    }
}

/* Sends a beat. A link on which a message is under way needs none. */
static void beat(struct hsp_mesh *m, uint32_t peer, uint64_t now)
{
    struct mesh_link *l = &m->link[peer];
    uint64_t every = (uint64_t)m->silent_ms / BEATS;
    every = (every < BEAT_MS ? every : BEAT_MS) * NS;
    if (now - l->said_at_ns < every) {
        return;
    }
    bool needed = !l->said && !l->writing && l->out == NULL;
    l->said = false;
    l->said_at_ns = now;
    struct mesh_out *o = needed ? calloc(1, sizeof *o) : NULL;
    if (o != NULL) { /* without memory the next beat does */
        hsp_mesh_header(m, MESH_BEAT, 0, 0, 0, o->head);
        *l->out_last = o;
        l->out_last = &o->next;
        hsp_mesh_arm(m, peer, !l->in_off, true);
    }
}

void hsp_mesh_beat(struct hsp_mesh *m)
{
    if (hsp_mesh_beat_wait(m) != 0 || m->dead.code != HSP_OK) {
        return;
    }
    uint64_t now = hsp_mesh_now_ns();
    bool late = now - m->looked_ns > LONG * look_ns(m);
    m->looked_ns = now;
    for (uint32_t i = 0; i < m->base.n_ranks && m->dead.code == HSP_OK; i++) {
        if (is_watched(&m->link[i])) {
            look_at(m, i, now, late);
            beat(m, i, now);
        }
    }
}

void hsp_mesh_watch(int fd, uint32_t silent_ms, bool sends)
{
    int count = (int)(silent_ms / 1000), on = 1, ms = sends ? (int)silent_ms : 0;
    const struct {
        int level, name, value;
    } opt[] = {
        {SOL_SOCKET, SO_KEEPALIVE, on},      {IPPROTO_TCP, TCP_KEEPIDLE, 1},
        {IPPROTO_TCP, TCP_KEEPINTVL, 1},     {IPPROTO_TCP, TCP_KEEPCNT, count > 1 ? count : 1},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, ms},
    };
    for (size_t i = 0; i < sizeof opt / sizeof opt[0]; i++) { /* a Unix socket refuses them */
        (void)setsockopt(fd, opt[i].level, opt[i].name, &opt[i].value, sizeof opt[i].value);
    }
}
