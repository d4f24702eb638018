/* Watches GPUs through NVML. The happy path is: NVML is there and knows every GPU by its uuid; the
 * thread hears signs, notes them and wakes the loop, which hands them on. Possible failure modes: a
 * GPU that NVML does not know (its caller says so: nothing is known of it and its health is not
 * watched); signs that come faster than the loop runs (a newer count stands for the older; XIDs of
 * a full queue are dropped, after 1024 others). */
#include "worker/probe/gpu_monitor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/str.h"

#define WAIT_MS    200u /* for an event; the end of the agent waits as long */
#define LOOK_EVERY 5u   /* waits: counters and clocks once a second */

struct place { /* of a device */
    bool known;
    unsigned at; /* in NVML */
    struct hsp_gpu gpu;
};
struct heard {
    unsigned at;
    struct hsp_gpu_sign sign;
};

struct hsp_gpuwatch {
    struct hsp_nvml *nvml;
    uint32_t n;
    struct place place[HSP_NODE_DEVICES];
    /* listening */
    bool started;
    uv_async_t async;
    pthread_t thread;
    atomic_bool stop;
    void (*sink)(void *ctx, uint32_t device, const struct hsp_gpu_sign *s);
    void *ctx;
    pthread_mutex_t lock; /* of the fields below */
    uint32_t n_heard;
    struct heard heard[HSP_GPUWATCH_QUEUE];
};

/* ---- the GPUs ---- */

void hsp_gpu_uuid(const uint8_t b[16], char ret[HSP_UUID_MAX + 1])
{
    hsp_str_printf(ret, HSP_UUID_MAX + 1,
                   "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                   b[14], b[15]);
}

/* By the uuid; a part of a GPU has one of its own, and then its place tells. */
static bool is_wanted(const struct hsp_gpu *g, const struct hsp_gpu_wanted *w, bool by_place)
{
    return by_place ? w->pci[0] != '\0' && strcmp(g->pci, w->pci) == 0
                    : w->uuid[0] != '\0' && strcmp(g->uuid, w->uuid) == 0;
}

static void find(struct hsp_gpuwatch *g, const struct hsp_gpu_wanted *w, struct place *p)
{
    for (int by_place = 0; by_place < 2 && !p->known; by_place++) {
        for (unsigned i = 0; i < hsp_nvml_count(g->nvml) && !p->known; i++) {
            struct hsp_err err;
            p->known = hsp_nvml_gpu(g->nvml, i, &p->gpu, &err) == HSP_OK &&
                       is_wanted(&p->gpu, w, by_place == 1);
            p->at = i;
        }
    }
}

enum hsp_status hsp_gpuwatch_open(const char *library, const char *sys,
                                  const struct hsp_gpu_wanted *wanted, uint32_t n,
                                  struct hsp_gpuwatch **ret, struct hsp_err *err)
{
    struct hsp_gpuwatch *g = calloc(1, sizeof *g);
    bool any = false;
    if (g == NULL) {
        return hsp_err_nomem(err, "the GPUs of this host");
    }
    enum hsp_status st = hsp_nvml_open(library, sys, &g->nvml, err);
    g->n = n;
    for (uint32_t i = 0; st == HSP_OK && i < n; i++) {
        if (wanted[i].gpu) {
            find(g, &wanted[i], &g->place[i]);
            any = any || g->place[i].known;
        }
    }
    if (st == HSP_OK && !any) {
        st = hsp_err_set(err, HSP_ENODEV, 0, "NVML knows none of the GPUs");
    }
    (void)pthread_mutex_init(&g->lock, NULL);
    if (st != HSP_OK) {
        (void)hsp_gpuwatch_close(g);
        return st;
    }
    *ret = g;
    return HSP_OK;
}

struct hsp_gpuwatch *hsp_gpuwatch_close(struct hsp_gpuwatch *g)
{
    if (g != NULL) {
        g->nvml = hsp_nvml_close(g->nvml);
        (void)pthread_mutex_destroy(&g->lock);
        free(g);
    }
    return NULL;
}

const struct hsp_gpu *hsp_gpuwatch_gpu(const struct hsp_gpuwatch *g, uint32_t device)
{
    return g != NULL && device < g->n && g->place[device].known ? &g->place[device].gpu : NULL;
}

void hsp_gpuwatch_describe(const struct hsp_gpuwatch *g, uint32_t device, struct hsp_m_device *m)
{
    const struct hsp_gpu *u = hsp_gpuwatch_gpu(g, device);
    if (u != NULL) {
        m->model = u->name;
        m->uuid = strlen(u->uuid) <= HSP_UUID_MAX ? u->uuid : "";
        m->sm = (uint32_t)u->sm;
        m->cpus = u->cpus;
    }
}

_Static_assert((int)HSP_PATH_NVSWITCH == (int)HSP_GPU_NVSWITCH &&
                   (int)HSP_PATH_PCI_SWITCH == (int)HSP_GPU_PCI_SWITCH &&
                   (int)HSP_PATH_SYSTEM == (int)HSP_GPU_SYSTEM,
               "a path is sent as it is");

uint32_t hsp_gpuwatch_paths(struct hsp_gpuwatch *g, struct hsp_m_path ret[HSP_NODE_PATHS])
{
    uint32_t n = 0;
    for (uint32_t b = 1; g != NULL && b < g->n; b++) {
        for (uint32_t a = 0; a < b; a++) {
            const struct place *x = &g->place[a], *y = &g->place[b];
            unsigned links = 0;
            if (!x->known || !y->known || x->at == y->at) {
                continue;
            }
            enum hsp_gpu_path p = hsp_nvml_path(g->nvml, x->at, y->at, &links);
            int sm = x->gpu.sm < y->gpu.sm ? x->gpu.sm : y->gpu.sm;
            ret[n++] =
                (struct hsp_m_path){a, b, (uint32_t)p, links, hsp_gpu_path_rate(p, links, sm), 0};
        }
    }
    return n;
}

/* ---- how they are ---- */

/* XIDs are events of their own; of the rest the newest says all. */
static bool replaces(const struct heard *old, unsigned at, const struct hsp_gpu_sign *s)
{
    return old->at == at && old->sign.kind == s->kind &&
           (s->kind != HSP_SIGN_XID || old->sign.value == s->value);
}

static void on_sign(void *ctx, unsigned at, const struct hsp_gpu_sign *s)
{
    struct hsp_gpuwatch *g = ctx;
    uint32_t k = 0;
    (void)pthread_mutex_lock(&g->lock);
    while (k < g->n_heard && !replaces(&g->heard[k], at, s)) {
        k++;
    }
    if (k < HSP_GPUWATCH_QUEUE) {
        g->heard[k] = (struct heard){at, *s};
        g->n_heard += k == g->n_heard;
    }
    (void)pthread_mutex_unlock(&g->lock);
}

static void *keep_watch(void *arg)
{
    struct hsp_gpuwatch *g = arg;
    for (unsigned k = 0; !atomic_load(&g->stop); k++) {
        hsp_nvml_hear(g->nvml, WAIT_MS, on_sign, g);
        if (k % LOOK_EVERY == 0) {
            hsp_nvml_look(g->nvml, on_sign, g);
        }
        (void)uv_async_send(&g->async); /* fails only when it is closed: not before the join */
    }
    return NULL;
}

static bool take(struct hsp_gpuwatch *g, struct heard *ret)
{
    (void)pthread_mutex_lock(&g->lock);
    bool any = g->n_heard > 0;
    if (any) {
        *ret = g->heard[0];
        memmove(g->heard, g->heard + 1, --g->n_heard * sizeof g->heard[0]);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return any;
}

/* Several devices may be one GPU. */
static void on_async(uv_async_t *a)
{
    struct hsp_gpuwatch *g = a->data;
    struct heard h;
    while (!atomic_load(&g->stop) && take(g, &h)) {
        for (uint32_t i = 0; i < g->n; i++) {
            if (g->place[i].known && g->place[i].at == h.at) {
                g->sink(g->ctx, i, &h.sign);
            }
        }
    }
}

enum hsp_status hsp_gpuwatch_start(struct hsp_gpuwatch *g, uv_loop_t *loop,
                                   void (*sink)(void *ctx, uint32_t device,
                                                const struct hsp_gpu_sign *s),
                                   void *ctx, struct hsp_err *err)
{
    g->sink = sink;
    g->ctx = ctx;
    int r = uv_async_init(loop, &g->async, on_async);
    if (r != 0) {
        return hsp_err_set(err, HSP_EIO, -r, "watching GPUs");
    }
    g->async.data = g;
    r = pthread_create(&g->thread, NULL, keep_watch, g);
    if (r != 0) {
        uv_close((uv_handle_t *)&g->async, NULL);
        return hsp_err_set(err, HSP_EIO, r, "watching GPUs");
    }
    g->started = true;
    return HSP_OK;
}

void hsp_gpuwatch_stop(struct hsp_gpuwatch *g)
{
    if (g != NULL && g->started) {
        atomic_store(&g->stop, true);
        (void)pthread_join(g->thread, NULL); /* the thread ends by itself */
        uv_close((uv_handle_t *)&g->async, NULL);
        g->started = false;
    }
}
