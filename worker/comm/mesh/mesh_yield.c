#include "worker/comm/mesh/mesh_yield.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_poll.h"

#define NS       UINT64_C(1000000)
#define YIELD_NS (250 * NS)       /* for a piece at most */
#define QUIET_NS (5 * NS)         /* after its last byte the other mesh counts as idle */
#define LOOK_NS  (NS / 5)         /* between two looks at the other mesh */
#define REST     ((int)16 << 10)  /* unconfirmed bytes that are no traffic: TCP delays acks */
#define WINDOW   ((int)256 << 10) /* of our own bytes in the kernel, which nobody holds back */

void hsp_mesh_yield(struct hsp_comm *c, const struct hsp_comm *to, uint64_t ns)
{
    struct hsp_mesh *m = (struct hsp_mesh *)c;
    hsp_mesh_lock_soon(m);
    m->yields_to = (const struct hsp_mesh *)to;
    m->yields_until_ns = hsp_mesh_now_ns() + ns;
    pthread_mutex_unlock(&m->lock);
}

bool hsp_mesh_yields(struct hsp_mesh *m, const struct mesh_link *l, size_t bytes)
{
    if (m->yields_to != NULL && hsp_mesh_now_ns() >= m->yields_until_ns) {
        m->yields_to = NULL;
    }
    return m->yields_to != NULL && l->tcp && l->shm == NULL && bytes >= MESH_LONG;
}

/* Bytes in the kernel that the peer has not confirmed. */
static int on_their_way(const struct mesh_link *l)
{
    int n = 0;
    return l->tcp && l->fd >= 0 && ioctl(l->fd, SIOCOUTQ, &n) == 0 ? n : 0;
}

/* Returns true if @to is inside of a collective, whose gaps are too short for a piece of ours. */
static bool is_attending(const struct hsp_mesh *to)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&to->lock;
    bool attends = true;
    if (pthread_mutex_trylock(lock) == 0) {
        attends = to->attending;
        pthread_mutex_unlock(lock);
    }
    return attends;
}

/* Returns true if the other mesh is busy now, or was a moment ago. */
static bool other_is_busy(struct hsp_mesh *m, uint64_t now)
{
    const struct hsp_mesh *to = m->yields_to;
    if (now - m->yields_looked_ns >= LOOK_NS) {
        m->yields_looked_ns = now;
        bool busy = is_attending(to);
        for (uint32_t i = 0; i < to->base.n_ranks && !busy; i++) {
            busy = on_their_way(&to->link[i]) > REST;
        }
        m->yields_busy_ns = busy ? now : m->yields_busy_ns;
    }
    return now - m->yields_busy_ns < QUIET_NS;
}

static uint64_t longest(const struct hsp_mesh *m)
{
    uint64_t quarter = m->silent_ms * NS / 4;
    return m->silent_ms > 0 && quarter < YIELD_NS ? quarter : YIELD_NS;
}

bool hsp_mesh_hold(struct hsp_mesh *m, uint32_t peer, size_t bytes)
{
    struct mesh_link *l = &m->link[peer];
    bool hold = hsp_mesh_yields(m, l, bytes);
    uint64_t now = hold ? hsp_mesh_now_ns() : 0;
    if (hold && on_their_way(l) <= WINDOW) {
        hold = other_is_busy(m, now);
        l->held_since_ns = hold && l->held_since_ns > 0 ? l->held_since_ns : now;
        if (hold && now - l->held_since_ns >= longest(m)) {
            hold = false;
        }
        l->held_since_ns = hold ? l->held_since_ns : 0;
    }
    l->held_back = hold;
    if (hold) {
        m->holds = true;
        m->holds_until_ns = now + MESH_YIELD_MS * NS;
        hsp_mesh_arm(m, peer, !l->in_off, false);
    }
    return hold;
}

void hsp_mesh_go_on(struct hsp_mesh *m)
{
    if (!m->holds || hsp_mesh_now_ns() < m->holds_until_ns) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    m->holds = false;
    for (uint32_t i = 0; i < m->base.n_ranks; i++) {
        struct mesh_link *l = &m->link[i];
        if (l->held_back && l->out != NULL) {
            l->held_back = false;
            hsp_mesh_arm(m, i, !l->in_off, true);
        }
    }
    pthread_mutex_unlock(&m->lock);
}
