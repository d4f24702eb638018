#include "worker/probe/probe_gpu_path.h"

#include <math.h>

#include "worker/probe/probe_device.h"
#include "worker/probe/probe_fill.h"

#define LARGE \
    ((size_t)8 << 20) /* some ten times as long as it takes to begin, over the fastest links */
#define SMALL ((size_t)256)

struct end {
    struct hsp_backend *b;
    void *device, *host;
};

static void close_end(struct end *e)
{
    e->b->release(e->b, HSP_MEM_DEVICE, e->device);
    e->b->release(e->b, HSP_MEM_HOST, e->host);
}

static enum hsp_status open_end(struct end *e, struct hsp_err *err)
{
    uint64_t ticket = 0;
    enum hsp_status st = e->b->alloc(e->b, HSP_MEM_HOST, LARGE, &e->host, err);
    if (st == HSP_OK) {
        hsp_probe_numbers(HSP_F32, 0, e->host, LARGE);
        st = e->b->alloc(e->b, HSP_MEM_DEVICE, LARGE, &e->device, err);
    }
    if (st == HSP_OK) {
        st = e->b->copy(e->b, HSP_DEVQ_COMPUTE, e->device, e->host, LARGE, err);
    }
    if (st == HSP_OK) {
        st = e->b->mark(e->b, HSP_DEVQ_COMPUTE, &ticket, err);
    }
    return st == HSP_OK ? e->b->finish(e->b, HSP_DEVQ_COMPUTE, ticket, err) : st;
}

/* Seconds of one way. The receiver copies. */
static enum hsp_status one_way(const struct end *from, const struct end *to, bool direct,
                               size_t bytes, double *ret_s, struct hsp_err *err)
{
    double out = 0, in = 0;
    enum hsp_status st;
    if (direct) {
        st = hsp_probe_copy(to->b, to->device, from->device, bytes, &in, err);
    } else {
        st = hsp_probe_copy(from->b, from->host, from->device, bytes, &out, err);
        if (st == HSP_OK) {
            st = hsp_probe_copy(to->b, to->device, to->host, bytes, &in, err);
        }
    }
    *ret_s = out + in;
    return st;
}

enum hsp_status hsp_probe_between(struct hsp_backend *a, struct hsp_backend *b, bool direct,
                                  struct hsp_probe_path *ret, struct hsp_err *err)
{
    struct end end[2] = {{.b = a}, {.b = b}};
    double small = 0, large = 0, s = 0;
    enum hsp_status st = open_end(&end[0], err);
    if (st == HSP_OK) {
        st = open_end(&end[1], err);
    }
    for (int k = 0; k < 4 && st == HSP_OK; k++) {
        double *worst = k < 2 ? &small : &large;
        st = one_way(&end[k % 2], &end[1 - k % 2], direct, k < 2 ? SMALL : LARGE, &s, err);
        *worst = fmax(*worst, s);
    }
    close_end(&end[0]);
    close_end(&end[1]);
    if (st == HSP_OK) {
        ret->direct = direct;
        ret->latency_us = 1e6 * small;
        ret->bytes_per_s = (double)LARGE / fmax(large - small, large / 2);
    }
    return st;
}

static const struct hsp_probe_path *between(const struct hsp_probe_path *p, uint32_t n, int64_t x,
                                            int64_t y)
{
    for (uint32_t i = 0; i < n && x >= 0 && y >= 0; i++) {
        if ((p[i].a == x && p[i].b == y) || (p[i].a == y && p[i].b == x)) {
            return &p[i];
        }
    }
    return NULL;
}

uint32_t hsp_probe_paths_into(const struct hsp_probe_path *p, uint32_t n_p,
                              const int64_t gpu[HSP_NODE_DEVICES],
                              struct hsp_m_path path[HSP_NODE_PATHS], uint32_t n)
{
    for (uint32_t b = 1; b < HSP_NODE_DEVICES; b++) {
        for (uint32_t a = 0; a < b; a++) {
            const struct hsp_probe_path *m = between(p, n_p, gpu[a], gpu[b]);
            uint32_t k = 0;
            while (k < n && (path[k].a != a || path[k].b != b)) {
                k++;
            }
            if (m == NULL || k == HSP_NODE_PATHS) {
                continue;
            }
            if (k == n) {
                path[n++] = (struct hsp_m_path){.a = a, .b = b, .kind = HSP_PATH_SYSTEM};
            }
            path[k].bytes_per_s = m->bytes_per_s;
            path[k].latency_us = m->latency_us;
        }
    }
    return n;
}
