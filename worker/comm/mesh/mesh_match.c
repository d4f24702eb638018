/* Messages and the receives they belong to: what links by sockets and by shared memory have in common.
 * All of it runs locked.
 *
 * Invariant (M1): a request in state BUSY is touched by who runs its link; after `ended` there is none. */
#include "worker/comm/mesh/mesh_match.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/le.h"
#include "worker/comm/mesh/mesh_impl.h"
#include "worker/comm/mesh/mesh_io.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_shm.h"

/* magic u32, version u8, kind u8, 0 u16, job u64, epoch u64, rank u32, channel u32, sequence u64,
 * length u64 */
void hsp_mesh_header(const struct hsp_mesh *m, enum mesh_kind kind, uint32_t channel, uint64_t seq,
                     uint64_t bytes, uint8_t ret[MESH_HEADER])
{
    hsp_le_put(ret, MESH_MAGIC, 4);
    ret[4] = MESH_VERSION;
    ret[5] = (uint8_t)kind;
    hsp_le_put(ret + 6, 0, 2);
    hsp_le_put(ret + 8, m->job, 8);
    hsp_le_put(ret + 16, m->epoch, 8);
    hsp_le_put(ret + 24, m->base.rank, 4);
    hsp_le_put(ret + 28, channel, 4);
    hsp_le_put(ret + 32, seq, 8);
    hsp_le_put(ret + 40, bytes, 8);
}

void hsp_mesh_kill(struct hsp_mesh *m, enum hsp_status code, uint32_t lost, const char *fmt, ...)
{
    va_list ap;
    if (m->dead.code != HSP_OK) {
        return;
    }
    char text[sizeof m->dead.msg];
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)hsp_err_set(&m->dead, code, 0, "%s", text);
    m->lost = lost;
    hsp_shm_abort_all(m);
    hsp_mesh_notify(m);
    pthread_cond_signal(&m->io_cond);
    hsp_mesh_wake(m->wake_fd);
}

void hsp_mesh_notify(struct hsp_mesh *m)
{
    pthread_cond_broadcast(&m->cond);
    hsp_shm_notify(m);
}

/* Sends to a peer that has closed are not errors of the mesh: who waits for them is told. */
void hsp_mesh_drop_out(struct hsp_mesh *m, struct mesh_link *l)
{
    while (l->out != NULL) {
        struct mesh_out *o = l->out;
        l->out = o->next;
        if (o->req != NULL) {
            o->req->state = HSP_REQ_POSTED;
        }
        free(o);
    }
    l->out_last = &l->out;
    l->out_bytes = 0;
    hsp_mesh_notify(m);
}

void hsp_mesh_out_done(struct hsp_mesh *m, struct mesh_link *l)
{
    struct mesh_out *o = l->out;
    l->out = o->next;
    if (l->out == NULL) {
        l->out_last = &l->out;
    }
    l->out_bytes -= o->bytes;
    if (o->req != NULL) {
        o->req->state = HSP_REQ_DONE;
    }
    if (o->req != NULL || l->out == NULL) {
        hsp_mesh_notify(m);
    }
    free(o);
}

void hsp_mesh_finish(struct hsp_mesh *m, struct mesh_link *l)
{
    struct mesh_in *e = l->dst_msg;
    if (l->dst_req != NULL) {
        l->dst_req->state = HSP_REQ_DONE;
        hsp_mesh_notify(m);
    } else if (e != NULL) {
        e->have = e->bytes;
        if (e->req != NULL) { /* its receive came meanwhile: the message left the list then */
            hsp_runs_scatter(&e->req->data, 0, e->data, e->bytes);
            e->req->state = HSP_REQ_DONE;
            free(e);
            hsp_mesh_notify(m);
        }
    }
    l->dst = NULL;
    l->dst_req = NULL;
    l->dst_msg = NULL;
}

bool hsp_mesh_begin(struct hsp_mesh *m, uint32_t peer, uint32_t channel, size_t bytes)
{
    struct mesh_link *l = &m->link[peer];
    l->dst_have = 0;
    l->dst_bytes = bytes;
    for (struct hsp_comm_req **p = &l->posted; *p != NULL; p = &(*p)->next) {
        struct hsp_comm_req *r = *p;
        if (r->channel != channel) {
            continue;
        }
        if (r->bytes != bytes) {
            hsp_mesh_kill(m, HSP_EPROTO, UINT32_MAX,
                          "rank %u sent %zu bytes on channel %u, rank %u expected %zu", peer, bytes,
                          channel, m->base.rank, r->bytes);
            return false;
        }
        *p = r->next;
        if (r->next == NULL) {
            l->posted_last = p;
        }
        r->state = HSP_REQ_BUSY;
        l->dst_req = r;
        l->dst = &r->data;
        return true;
    }
    if (l->early_bytes + bytes > HSP_MESH_BUFFER && l->early != NULL && l->posted == NULL) {
        l->held = true;
        l->held_channel = channel;
        l->held_bytes = bytes;
        if (l->shm == NULL) {
            hsp_mesh_arm(m, peer, false, l->out_armed);
        }
        return false;
    }
    struct mesh_in *e = malloc(sizeof *e + bytes); /* bytes <= HSP_COMM_MAX_MESSAGE */
    if (e == NULL) {
        hsp_mesh_kill(m, HSP_ENOMEM, UINT32_MAX, "no memory for %zu bytes from rank %u", bytes,
                      peer);
        return false;
    }
    *e = (struct mesh_in){.channel = channel, .bytes = bytes, .place = hsp_run(e->data, bytes)};
    *l->early_last = e;
    l->early_last = &e->next;
    l->early_bytes += bytes;
    l->dst_msg = e;
    l->dst = &e->place;
    return true;
}

bool hsp_mesh_header_ok(const struct hsp_mesh *m, uint32_t peer, const uint8_t h[MESH_HEADER])
{
    return hsp_le_get(h, 4) == MESH_MAGIC && h[4] == MESH_VERSION && h[5] <= MESH_RING &&
           hsp_le_get(h + 6, 2) == 0 && hsp_le_get(h + 8, 8) == m->job &&
           hsp_le_get(h + 16, 8) == m->epoch && hsp_le_get(h + 24, 4) == peer &&
           hsp_le_get(h + 40, 8) <= HSP_COMM_MAX_MESSAGE &&
           (h[5] != MESH_DATA || hsp_le_get(h + 32, 8) == m->link[peer].seq_in);
}

void hsp_mesh_told(struct hsp_mesh *m, uint32_t by, bool canceled, uint32_t lost)
{
    by = by < m->base.n_ranks ? by : 0; /* only for the message */
    lost = lost < m->base.n_ranks ? lost : by;
    if (canceled) {
        hsp_mesh_kill(m, HSP_ECANCELED, UINT32_MAX, "aborted by rank %u (%s)", by, m->names[by]);
    } else if (lost == m->base.rank) {
        hsp_mesh_kill(m, HSP_EPEER, by, "rank %u (%s) lost its connection to this rank, %u", by,
                      m->names[by], lost);
    } else {
        hsp_mesh_kill(m, HSP_EPEER, lost, "lost rank %u (%s), told by rank %u", lost,
                      m->names[lost], by);
    }
}

bool hsp_mesh_on_header(struct hsp_mesh *m, uint32_t peer, const uint8_t h[MESH_HEADER])
{
    struct mesh_link *l = &m->link[peer];
    uint64_t seq = hsp_le_get(h + 32, 8);
    uint32_t channel = (uint32_t)hsp_le_get(h + 28, 4);
    if (!hsp_mesh_header_ok(m, peer, h) || (h[5] == MESH_RING && l->shm == NULL)) {
        hsp_mesh_kill(m, HSP_EPEER, peer, "rank %u (%s) sent what is no message of epoch %llu",
                      peer, m->names[peer], (unsigned long long)m->epoch);
        return false;
    }
    switch ((enum mesh_kind)h[5]) {
    case MESH_BYE:
        hsp_mesh_arm(m, peer, false, false);
        if (l->shm != NULL) {
            hsp_shm_said_bye(m, peer);
        } else {
            l->closed = true;
            hsp_mesh_drop_out(m, l);
        }
        return false;
    case MESH_ABORT:
        hsp_mesh_told(m, peer, channel == 1, seq < m->base.n_ranks ? (uint32_t)seq : peer);
        return false;
    case MESH_RING: return true;
    case MESH_DATA: break;
    }
    l->seq_in++;
    return hsp_mesh_begin(m, peer, channel, (size_t)hsp_le_get(h + 40, 8));
}
