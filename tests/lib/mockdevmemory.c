/* Manages the mockdev's memory: allocated, pinned, and released but not freed yet. */
#include "tests/lib/mockdevmemory.h"

#include <sys/mman.h>

static void free_kept(struct hsp_mockdev *g, struct hsp_mockdev_area **at)
{
    struct hsp_mockdev_area *a = *at;
    *at = a->next;
    g->tally.memory -= a->mem == HSP_MEM_DEVICE ? a->bytes : 0;
    hsp_mockdev_area_free(a);
}

/* The room of a block that was kept may be taken again by one of its size. */
static void free_like(struct hsp_mockdev *g, enum hsp_mem mem, size_t bytes)
{
    struct hsp_mockdev_area **a = &g->kept;
    while (*a != NULL && ((*a)->mem != mem || (*a)->bytes != bytes)) {
        a = &(*a)->next;
    }
    if (*a != NULL) {
        free_kept(g, a);
    }
}

bool hsp_mockdev_trim(struct hsp_backend *b)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    bool busy = false;
    (void)pthread_mutex_lock(&g->lock);
    for (int q = 0; q < HSP_N_DEVQ; q++) {
        busy = busy || g->queue[q].given > g->done.done[q];
    }
    for (struct hsp_mockdev_area **a = &g->areas; !busy && *a != NULL;) {
        struct hsp_mockdev_area *x = *a;
        if (x->leaves) {
            *a = x->next;
            g->tally.pinned--;
            hsp_mockdev_area_free(x);
        } else {
            a = &x->next;
        }
    }
    while (!busy && g->kept != NULL) {
        free_kept(g, &g->kept);
    }
    g->peers = g->peers && busy;
    (void)pthread_mutex_unlock(&g->lock);
    return !busy;
}

enum hsp_status hsp_mockdev_alloc(struct hsp_backend *b, enum hsp_mem mem, size_t bytes, void **ret,
                                  struct hsp_err *err)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    if (bytes == 0) {
        *ret = NULL;
        return HSP_OK;
    }
    (void)pthread_mutex_lock(&g->lock);
    free_like(g, mem, bytes);
    size_t room = g->o.memory > 0 ? g->o.memory - g->tally.memory : SIZE_MAX;
    bool device = mem == HSP_MEM_DEVICE;
    struct hsp_mockdev_area *a = device && bytes > room ? NULL : hsp_mockdev_area_new(mem, bytes);
    enum hsp_status st = hsp_mockdev_failed(g, err);
    if (a == NULL) {
        st = hsp_err_set(err, HSP_ENOMEM, 0, "no memory for %zu bytes", bytes);
    } else {
        a->next = g->areas;
        g->areas = a;
        g->tally.memory += device ? bytes : 0;
        if (g->tally.memory > g->tally.most_memory) {
            g->tally.most_memory = g->tally.memory;
        }
        *ret = a->at;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

void hsp_mockdev_release(struct hsp_backend *b, enum hsp_mem mem, void *p)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    (void)pthread_mutex_lock(&g->lock);
    struct hsp_mockdev_area **a = &g->areas;
    while (p != NULL && *a != NULL && ((*a)->at != p || (*a)->mem != mem)) {
        a = &(*a)->next;
    }
    if (p != NULL && *a == NULL) {
        (void)hsp_mockdev_breach(g, "release of what was not allocated", NULL);
    } else if (p != NULL) {
        struct hsp_mockdev_area *x = *a;
        if (hsp_mockdev_pending(x, x->at, x->bytes, hsp_mockdev_caller(g), true)) {
            (void)hsp_mockdev_breach(g, "release of memory in use", NULL);
        }
        while (hsp_mockdev_pending(x, x->at, x->bytes, &g->done, true)) {
            hsp_mockdev_wait_done(g);
        }
        *a = x->next;
        x->next = g->kept;
        g->kept = x;
        if (!g->peers) {
            free_kept(g, &g->kept);
        }
    }
    (void)pthread_mutex_unlock(&g->lock);
}

static bool touches(const struct hsp_mockdev_area *a, const void *p, size_t bytes)
{
    uintptr_t x = (uintptr_t)p, from = (uintptr_t)a->at;
    return x < from + a->bytes && from < x + bytes;
}

/* Memory of the caller, from now on judged as our own of the host. */
enum hsp_status hsp_mockdev_pin(struct hsp_backend *b, void *p, size_t bytes, struct hsp_err *err)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    struct hsp_mockdev_area *a = NULL;
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = hsp_mockdev_failed(g, err);
    for (struct hsp_mockdev_area *o = g->areas; st == HSP_OK && o != NULL; o = o->next) {
        st = touches(o, p, bytes) ? hsp_mockdev_breach(g, "memory is pinned twice", err) : HSP_OK;
    }
    if (st == HSP_OK && (p == NULL || bytes == 0)) {
        st = hsp_mockdev_breach(g, "pin of nothing", err);
    } else if (st == HSP_OK && g->o.no_pin) {
        st = hsp_err_set(err, HSP_EUNSUPPORTED, 0, "mockdev: cannot pin %zu bytes", bytes);
    }
    if (st == HSP_OK && (a = hsp_mockdev_area_of(p, bytes)) == NULL) {
        st = hsp_err_set(err, HSP_ENOMEM, 0, "no memory to pin %zu bytes", bytes);
    }
    if (st == HSP_OK) {
        a->next = g->areas;
        g->areas = a;
        g->tally.pinned++;
        g->tally.pins++;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

bool hsp_mockdev_unpin(struct hsp_backend *b, void *p)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    void *page = (void *)((uintptr_t)p & ~(uintptr_t)4095);
    unsigned char there;
    (void)pthread_mutex_lock(&g->lock);
    if (mincore(page, 1, &there) != 0) {
        (void)hsp_mockdev_breach(g, "unpin of memory that is mapped no more", NULL);
    }
    struct hsp_mockdev_area *a = g->areas;
    while (a != NULL && (a->at != p || a->mem != HSP_MEM_HOST)) {
        a = a->next;
    }
    bool goes = a != NULL && !g->peers;
    g->tally.pinned -= goes;
    if (a != NULL && g->peers) {
        a->leaves = true;
    }
    (void)pthread_mutex_unlock(&g->lock);
    if (goes) {
        hsp_mockdev_release(b, HSP_MEM_HOST, p);
    }
    return goes || a == NULL; /* a trim may have been faster */
}

void hsp_mockdev_memory_fini(struct hsp_mockdev *g)
{
    while (g->areas != NULL) {
        struct hsp_mockdev_area *a = g->areas;
        g->areas = a->next;
        hsp_mockdev_area_free(a);
    }
    while (g->kept != NULL) {
        free_kept(g, &g->kept);
    }
}
