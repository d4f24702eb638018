/* Sends and receives messages through lanes of shared memory.
 *
 * A lane carries the same messages as a socket would, in the same order: the 48-byte header in 64
 * bytes, then the data, padded to 64. The socket of the pair stays: its hang-up is the death
 * notice. The socket carries BYE (behind the last byte of the lane), ABORT, and RING, which wakes
 * the I/O thread of a rank whose user thread is away.
 *
 * The happy path: the sender copies into its lane and publishes `head`. The receiver looks at its
 * lanes or sleeps on its bell; it copies the bytes out, or lends them to the caller in place, and
 * publishes `tail`. Possible failure: a peer dies (its socket shows it: the mesh is killed, the
 * abort word of every segment is set and every bell rung); counters or a header that are not valid
 * (the mesh is killed).
 *
 * Invariant (S1): everything here runs under the mesh's lock, by the user thread or the I/O thread.
 * Invariant (S2): a thread that goes to sleep, or away, first says so (`where`, `hungry`) and then
 * looks once more. A thread that changes something first publishes the change and then reads those
 * words. So one of the two sees the other; both orders are sequentially consistent.
 * Invariant (S3): positions are this rank's own; of the peer's counters only the difference is
 * used, and it is checked against the size of the lane. */
#include "worker/comm/mesh/mesh_shm.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/le.h"
#include "worker/comm/mesh/mesh_bell.h"
#include "worker/comm/mesh/mesh_header.h"
#include "worker/comm/mesh/mesh_impl.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_match.h"
#include "worker/comm/mesh/mesh_poll.h"

#define TURN    ((size_t)64 << 10) /* published at once: the reader copies while more is written */
#define SPIN_NS 100000             /* awake for so long: twice the cost of sleeping and waking */
#define NAP_NS  2000000 /* after that, messages without a receive are taken out of full lanes */

static size_t padded(size_t n)
{
    return (n + SEG_ALIGN - 1) / SEG_ALIGN * SEG_ALIGN;
}

/* ---- sending ---- */

static size_t room(const struct mesh_shm *s)
{
    uint64_t used = s->head - atomic_load(&s->out.head->tail);
    return used <= s->out.bytes ? s->out.bytes - (size_t)used
                                : 0; /* else a wrong counter: it waits */
}

static void publish(struct mesh_shm *s)
{
    atomic_store(&s->out.head->head, s->head);
    hsp_bell_ring(s->peer);
}

/* Copies the part of the message that fits. Returns true if the whole message is copied. @yields:
 * as in hsp_shm_put. */
static bool put(const struct hsp_mesh *m, struct mesh_shm *s, struct mesh_out *o, bool yields)
{
    for (;;) {
        uint8_t *to = s->out.data + s->head % s->out.bytes;
        size_t free_bytes = room(s);
        if (free_bytes < SEG_ALIGN) {
            return false;
        }
        if (o->sent == 0) {
            memcpy(to, o->head, MESH_HEADER);
            memset(to + MESH_HEADER, 0, SEG_ALIGN - MESH_HEADER);
            s->head += SEG_ALIGN;
            o->sent = MESH_HEADER;
        } else {
            size_t done = o->sent - MESH_HEADER, k = o->bytes - done;
            k = k < TURN ? k : TURN;
            k = k < free_bytes ? k : free_bytes;
            hsp_runs_gather(&o->data, done, to, k);
            o->sent += k;
            s->head += k;
        }
        if (o->sent == MESH_HEADER + o->bytes) {
            s->head = padded(s->head); /* fits: room ends at a multiple */
            publish(s);
            return true;
        }
        if (o->sent > MESH_HEADER) {
            publish(s);
            if (yields && hsp_mesh_is_called(m)) {
                return false;
            }
        }
    }
}

/* Says BYE by the socket, since all messages before it lie in the lane. */
static bool put_bye(const struct mesh_link *l, const struct mesh_out *o)
{
    ssize_t n = send(l->fd, o->head, MESH_HEADER, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n >= 0 || errno != EAGAIN;
}

bool hsp_shm_put(struct hsp_mesh *m, uint32_t peer, struct mesh_out *o, bool yields)
{
    struct mesh_link *l = &m->link[peer];
    struct mesh_shm *s = l->shm;
    if (o->head[5] == MESH_BYE) {
        return put_bye(l, o);
    }
    uint64_t before = s->head;
    bool whole = put(m, s, o, yields);
    if (!whole && !(yields && s->head != before && hsp_mesh_is_called(m))) {
        atomic_store(&s->out.head->hungry, 1);
        whole = put(m, s, o, yields); /* S2 */
    }
    s->rung = s->rung && s->head == before; /* lane moved: the RING was heard */
    if (whole) {
        return true;
    }
    if (atomic_load(&s->peer->where) == SEG_AWAY && !s->rung) {
        s->rung = true;
        hsp_bell_ring_away(m, l);
    }
    return false;
}

static bool push(struct hsp_mesh *m, uint32_t peer, bool yields)
{
    struct mesh_link *l = &m->link[peer];
    bool moved = false;
    while (l->out != NULL) {
        size_t before = l->out->sent;
        bool whole = hsp_shm_put(m, peer, l->out, yields);
        moved = moved || whole || l->out->sent != before;
        if (!whole) {
            break;
        }
        hsp_mesh_out_done(m, l);
        if (yields && hsp_mesh_is_called(m)) {
            break;
        }
    }
    return moved;
}

/* ---- receiving ---- */

/* Bytes that lie in the lane. */
static size_t lies(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_shm *s = m->link[peer].shm;
    uint64_t n = atomic_load(&s->in.head->head) - s->pos;
    if (n > s->in.bytes) {
        hsp_mesh_kill(m, HSP_EPEER, peer, "rank %u (%s) broke its shared memory", peer,
                      m->names[peer]);
        return 0;
    }
    return (size_t)n;
}

/* Publishes our position, and wakes the writer if it waits for room. */
static void free_room(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    struct mesh_shm *s = l->shm;
    atomic_store(&s->in.head->tail, s->pos / SEG_ALIGN * SEG_ALIGN);
    if (atomic_load(&s->in.head->hungry) != 0) {
        atomic_store(&s->in.head->hungry, 0);
        if (atomic_load(&s->peer->where) == SEG_AWAY) {
            hsp_bell_ring_away(m, l);
        } else {
            hsp_bell_ring(s->peer);
        }
    }
}

/* Copies more of the message under way. Returns true if some bytes came. */
static bool take_data(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    struct mesh_shm *s = l->shm;
    size_t n = lies(m, peer), k = l->dst_bytes - l->dst_have;
    k = k < n ? k : n;
    k = k < TURN ? k : TURN;
    if (m->dead.code != HSP_OK || (k == 0 && l->dst_have < l->dst_bytes)) {
        return false;
    }
    hsp_runs_scatter(l->dst, l->dst_have, s->in.data + s->pos % s->in.bytes, k);
    l->dst_have += k;
    s->pos += k;
    if (l->dst_have == l->dst_bytes) {
        s->pos = padded(s->pos);
        hsp_mesh_finish(m, l);
    }
    free_room(m, peer);
    return true;
}

static bool is_posted(const struct mesh_link *l, uint32_t channel)
{
    for (const struct hsp_comm_req *r = l->posted; r != NULL; r = r->next) {
        if (r->channel == channel) {
            return true;
        }
    }
    return false;
}

/* Lends the message at pos, for which the caller waits. Returns true if it is complete, and
 * lent. */
static bool lend(struct hsp_mesh *m, uint32_t peer, size_t bytes, size_t n)
{
    struct mesh_link *l = &m->link[peer];
    struct mesh_shm *s = l->shm;
    if (bytes != s->lend_bytes) {
        hsp_mesh_kill(m, HSP_EPROTO, UINT32_MAX,
                      "rank %u sent %zu bytes on channel %u, rank %u expected %zu", peer, bytes,
                      s->lend_channel, m->base.rank, s->lend_bytes);
        return false;
    }
    s->lent = n >= SEG_ALIGN + bytes;
    s->lending = !s->lent;
    return s->lent;
}

/* Acts on the header at pos. @spill: a message without a receive goes to a buffer; else it stays.
 * Returns true if the header was taken. */
static bool take_header(struct hsp_mesh *m, uint32_t peer, bool spill)
{
    struct mesh_link *l = &m->link[peer];
    struct mesh_shm *s = l->shm;
    size_t n = lies(m, peer);
    if (n < SEG_ALIGN) {
        return false;
    }
    uint8_t h[MESH_HEADER];
    memcpy(h, s->in.data + s->pos % s->in.bytes, sizeof h); /* read once: the peer may change it */
    uint32_t channel = (uint32_t)hsp_le_get(h + 28, 4);
    if (h[5] != MESH_DATA || !hsp_mesh_header_ok(m, peer, h)) {
        hsp_mesh_kill(m, HSP_EPEER, peer, "rank %u (%s) sent data that is no message of epoch %llu",
                      peer, m->names[peer], (unsigned long long)m->epoch);
        return false;
    }
    bool posted = is_posted(l, channel); /* receives come before lends */
    if (!posted && s->lending && channel == s->lend_channel) {
        return lend(m, peer, (size_t)hsp_le_get(h + 40, 8), n);
    }
    if (!posted && !spill) {
        return false;
    }
    s->pos += SEG_ALIGN;
    (void)hsp_mesh_on_data(m, peer, h); /* the message begins or is held, or the mesh is dead */
    return true;
}

/* Takes messages out of a lane. @yields: may stop between two pieces, after at least one. */
static bool pull(struct hsp_mesh *m, uint32_t peer, bool spill, bool yields)
{
    struct mesh_link *l = &m->link[peer];
    struct mesh_shm *s = l->shm;
    bool moved = false, more = true;
    while (more && m->dead.code == HSP_OK && !s->lent) {
        if (l->held) {
            more = l->posted != NULL;
            if (more) {
                l->held = false;
                (void)hsp_mesh_begin(m, peer, l->held_channel, l->held_bytes);
            }
        } else {
            more = l->dst != NULL ? take_data(m, peer) : take_header(m, peer, spill);
        }
        moved = moved || more;
        more = more && !(yields && hsp_mesh_is_called(m));
    }
    if (s->bye && !l->closed && l->dst == NULL && !l->held && !s->lent && lies(m, peer) == 0) {
        l->closed = true;
        hsp_mesh_drop_out(m, l);
        moved = true;
    }
    return moved;
}

/* Returns true if another rank has ended the mesh. */
static bool told(struct hsp_mesh *m)
{
    uint64_t word = atomic_load(&m->seg.head->abort);
    const struct hsp_mesh_loss loss = {.rank = (uint32_t)(word >> 40) & SEG_ABORT_RANK,
                                       .by = (uint32_t)(word >> 20) & SEG_ABORT_RANK};
    if (word != 0) {
        hsp_mesh_told(m, (uint32_t)word & SEG_ABORT_RANK, (enum mesh_end)(word >> 60 & 3), &loss);
    }
    return word != 0;
}

/* Moves all bytes that can be moved. Messages without a receive stay in the lane, except those of
 * @awaited, or with @spill. Returns true if anything moved. */
static bool progress(struct hsp_mesh *m, uint32_t awaited, bool spill, bool yields)
{
    bool moved = false;
    if (m->dead.code != HSP_OK || told(m)) {
        return true;
    }
    for (uint32_t i = 0; i < m->base.n_ranks && m->dead.code == HSP_OK; i++) {
        if (m->link[i].shm != NULL && !m->link[i].closed) {
            moved = push(m, i, yields) || moved;
            moved = pull(m, i, spill || i == awaited, yields) || moved;
        }
    }
    return moved || m->dead.code != HSP_OK;
}

/* ---- waiting ---- */

void hsp_shm_enter(struct hsp_mesh *m)
{
    atomic_store(&m->seg.head->where, SEG_IN);
}

void hsp_shm_leave(struct hsp_mesh *m)
{
    atomic_store(&m->seg.head->where, SEG_AWAY);
    for (uint32_t i = 0; i < m->base.n_ranks && m->dead.code == HSP_OK; i++) {
        if (m->link[i].shm != NULL && m->link[i].out != NULL) {
            (void)push(m, i, false); /* S2: there may be room since the last look */
        }
    }
}

/* Polls for a while, and yields to ranks that may have something to send. Returns true if something
 * happened. */
static bool spin(struct hsp_mesh *m, uint32_t awaited)
{
    uint64_t until = hsp_mesh_now_ns() + SPIN_NS;
    do {
        hsp_mesh_look_away(m);
        if (progress(m, awaited, false, true)) {
            return true;
        }
    } while (hsp_mesh_now_ns() < until);
    return false;
}

/* Sleeps on the bell for @nap_ns, or (0) until it rings. Returns false if the time is up and the
 * bell has not rung, not even between the kernel's answer and the lock. Locked; dropped. */
static bool nap(struct hsp_mesh *m, uint32_t awaited, long nap_ns)
{
    struct seg_head *h = m->seg.head;
    struct timespec t = {.tv_nsec = nap_ns};
    uint32_t bell = atomic_load(&h->bell);
    atomic_store(&h->where, SEG_ASLEEP);
    bool rang = progress(m, awaited, false, true); /* S2 */
    if (!rang && m->dead.code == HSP_OK) {
        pthread_mutex_unlock(&m->lock);
        (void)syscall(SYS_futex, &h->bell, FUTEX_WAIT, bell, nap_ns > 0 ? &t : NULL, NULL, 0);
        pthread_mutex_lock(&m->lock);
        rang = nap_ns == 0 || atomic_load(&h->bell) != bell;
    }
    atomic_store(&h->where, SEG_IN);
    return rang;
}

void hsp_shm_await(struct hsp_mesh *m, uint32_t awaited)
{
    if (m->dead.code != HSP_OK) {
        pthread_cond_wait(&m->cond, &m->lock); /* for the I/O thread to give the buffers back */
        return;
    }
    if (progress(m, awaited, false, true) || spin(m, awaited) || nap(m, awaited, NAP_NS) ||
        progress(m, awaited, true, true)) {
        return;
    }
    (void)nap(m, awaited, 0);
}

/* ---- lending ---- */

bool hsp_shm_lends(const struct hsp_mesh *m, uint32_t peer, size_t bytes)
{
    const struct mesh_shm *s = m->link[peer].shm;
    return s != NULL && bytes > 0 && SEG_ALIGN + padded(bytes) <= s->in.bytes;
}

void hsp_shm_lend_begin(struct hsp_mesh *m, uint32_t peer, uint32_t channel, size_t bytes)
{
    struct mesh_shm *s = m->link[peer].shm;
    s->lending = true;
    s->lend_channel = channel;
    s->lend_bytes = bytes;
}

const void *hsp_shm_lent(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_shm *s = m->link[peer].shm;
    return s->lent ? s->in.data + (s->pos + SEG_ALIGN) % s->in.bytes : NULL;
}

void hsp_shm_lend_end(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_shm *s = m->link[peer].shm;
    s->lending = false;
    if (s->lent && m->dead.code == HSP_OK) {
        s->lent = false;
        s->pos += SEG_ALIGN + padded(s->lend_bytes);
        m->link[peer].seq_in++;
        free_room(m, peer);
    }
}

/* ---- a link's shared memory ---- */

enum hsp_status hsp_shm_new(const struct seg *own, uint32_t peer, struct mesh_shm **ret,
                            struct hsp_err *err)
{
    struct mesh_shm *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return hsp_err_nomem(err, "a link");
    }
    enum hsp_status st = hsp_seg_lane(own, peer, &s->out, err);
    if (st != HSP_OK) {
        free(s);
        return st;
    }
    *ret = s;
    return HSP_OK;
}

enum hsp_status hsp_shm_attach(struct mesh_shm *s, int fd, uint32_t n, uint32_t me,
                               struct hsp_err *err)
{
    return hsp_seg_attach(fd, n, me, &s->peer, &s->in, err);
}

struct mesh_shm *hsp_shm_free(struct mesh_shm *s)
{
    if (s != NULL) {
        hsp_seg_detach(s->peer);
        hsp_lane_unmap(&s->in);
        hsp_lane_unmap(&s->out);
        free(s);
    }
    return NULL;
}

void hsp_shm_rung(struct hsp_mesh *m)
{
    bool away = atomic_load(&m->seg.head->where) == SEG_AWAY;
    (void)progress(m, UINT32_MAX, away, false);
}

void hsp_shm_said_bye(struct hsp_mesh *m, uint32_t peer)
{
    m->link[peer].shm->bye = true;
    (void)progress(m, UINT32_MAX, false, false);
}

bool hsp_shm_has_said_bye(const struct mesh_shm *s)
{
    return s->bye;
}
