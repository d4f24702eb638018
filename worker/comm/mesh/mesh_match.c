/* Matches messages with receives, and kills a mesh.
 *
 * Invariant (M1): a request in state BUSY is touched only by the thread that runs its link. After
 * `ended` no request is BUSY. */
#include "worker/comm/mesh/mesh_match.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/le.h"
#include "worker/comm/mesh/mesh_bell.h"
#include "worker/comm/mesh/mesh_impl.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_poll.h"

/* Stores the loss before any thread or peer is told of it. */
__attribute__((format(printf, 4, 0))) static void end(struct hsp_mesh *m, enum hsp_status code,
                                                      const struct hsp_mesh_loss *loss,
                                                      const char *fmt, va_list ap)
{
    if (m->dead.code != HSP_OK) {
        return;
    }
    char text[sizeof m->dead.msg];
    (void)vsnprintf(text, sizeof text, fmt, ap);
    (void)hsp_err_set(&m->dead, code, 0, "%s", text);
    m->loss = *loss;
    hsp_shm_abort_all(m);
    hsp_mesh_notify(m);
    pthread_cond_signal(&m->io_cond);
    hsp_mesh_wake(m->wake_fd);
}

void hsp_mesh_kill(struct hsp_mesh *m, enum hsp_status code, uint32_t lost, const char *fmt, ...)
{
    const struct hsp_mesh_loss loss = {.rank = lost, .by = m->base.rank};
    va_list ap;
    va_start(ap, fmt);
    end(m, code, &loss, fmt, ap);
    va_end(ap);
}

__attribute__((format(printf, 3, 4))) static void lose(struct hsp_mesh *m,
                                                       const struct hsp_mesh_loss *loss,
                                                       const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    end(m, HSP_EPEER, loss, fmt, ap);
    va_end(ap);
}

void hsp_mesh_fell_silent(struct hsp_mesh *m, uint32_t peer, uint32_t ms)
{
    const struct hsp_mesh_loss loss = {.rank = peer, .by = m->base.rank, .silent = true};
    lose(m, &loss, "lost rank %u (%s): nothing came from it for %u ms", peer, m->names[peer], ms);
}

void hsp_mesh_notify(struct hsp_mesh *m)
{
    pthread_cond_broadcast(&m->cond);
    hsp_shm_notify(m);
}

/* Sends to a peer that has closed are no errors of the mesh; the threads that wait for them get the
 * error. */
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

/* Notes the rate of a message. The sender writes it as fast as the link takes it. */
static void note_rate(struct mesh_link *l)
{
    uint64_t ns = l->dst_ns != 0 ? hsp_mesh_now_ns() - l->dst_ns : 0;
    double rate = ns > 0 ? 1e9 * (double)l->dst_bytes / (double)ns : 0;
    l->bytes_per_s = rate > l->bytes_per_s ? rate : l->bytes_per_s;
    l->dst_ns = 0;
}

void hsp_mesh_finish(struct hsp_mesh *m, struct mesh_link *l)
{
    struct mesh_in *e = l->dst_msg;
    note_rate(l);
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
    l->dst_ns = l->tcp && bytes >= MESH_LONG ? hsp_mesh_now_ns() : 0;
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

void hsp_mesh_told(struct hsp_mesh *m, uint32_t teller, enum mesh_end how,
                   const struct hsp_mesh_loss *told)
{
    uint32_t n = m->base.n_ranks;
    struct hsp_mesh_loss loss = {.silent = how == MESH_END_SILENT};
    teller = teller < n ? teller : 0; /* only for the message */
    loss.rank = told->rank < n ? told->rank : teller;
    loss.by = told->by < n ? told->by : teller;
    if (how == MESH_END_CANCELED) {
        hsp_mesh_kill(m, HSP_ECANCELED, UINT32_MAX, "aborted by rank %u (%s)", teller,
                      m->names[teller]);
    } else if (loss.rank == m->base.rank) {
        loss.rank = loss.by;
        loss.by = m->base.rank;
        lose(m, &loss, "rank %u (%s) lost its connection to this rank, %u", loss.rank,
             m->names[loss.rank], m->base.rank);
    } else {
        lose(m, &loss, "lost rank %u (%s), reported by rank %u", loss.rank, m->names[loss.rank],
             loss.by);
    }
}

bool hsp_mesh_on_data(struct hsp_mesh *m, uint32_t peer, const uint8_t h[MESH_HEADER])
{
    m->link[peer].seq_in++;
    return hsp_mesh_begin(m, peer, (uint32_t)hsp_le_get(h + 28, 4), (size_t)hsp_le_get(h + 40, 8));
}
