/* Allocates memory of the device and pinned memory.
 *
 * cudaFree and the like wait until the device is idle (measured: FIGURES.md), so a release would be
 * held up while other queues are busy. So a block that is released while the device works is
 * retired: it is given out again to a request for as many bytes, and freed when the device is idle
 * or memory runs short.
 *
 * Work of a transport may wait for its peer, which waits for work that this host has yet to give; a
 * call that waits for the device would then wait for ever. So from the first queue that a transport
 * asks for (hsp_backend.native) until the next trim nothing is freed and nothing is
 * unregistered. */
#include "worker/backend/cuda/cuda_memory.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "proto/base/size.h"
#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/cuda_graphs.h"
#include "worker/backend/cuda/cuda_host.h"
#include "worker/backend/cuda/cuda_progress.h"

#define ALIGN ((size_t)256)

struct block {
    uint8_t *p;
    size_t bytes;
    enum hsp_mem mem;
    bool retired;
};

/* Memory of the caller that is pinned. */
struct registered {
    struct registered *next;
    void *p;
    bool leaves; /* unpin was called: trim unregisters the memory */
};

/* The blocks of a device. Unregistering tens of GiB takes seconds, so the thread that does it holds
 * `unpins` and not `lock`. A thread that needs both locks takes `unpins` first. While `peers` is
 * true no thread holds `unpins` for long. */
struct hsp_cuda_memory {
    pthread_mutex_t unpins; /* held to unregister memory, and to set peers */
    pthread_mutex_t lock;
    struct block *block; /* owned */
    size_t n, cap;
    size_t limit;         /* the most bytes of device memory; SIZE_MAX: no limit */
    size_t used, retired; /* bytes of device memory in use, and retired */
    size_t n_retired;     /* retired blocks, of the device and of the host */
    struct registered *registered;
    atomic_bool peers; /* work of this device may wait for another device; set under the lock */
};

#ifdef HSP_TEST_SCRATCH_ALIGN /* tests set it, to see small scratch grow, too */
#define SCRATCH_ALIGN ((size_t)HSP_TEST_SCRATCH_ALIGN)
#else
#define SCRATCH_ALIGN ((size_t)1 << 20) /* scratch grows by multiples of it */
#endif

enum hsp_status hsp_cuda_memory_new(struct hsp_cuda *g, size_t limit_bytes, struct hsp_err *err)
{
    struct hsp_cuda_memory *m = calloc(1, sizeof(*m));
    if (m == NULL) {
        return hsp_err_nomem(err, "a backend");
    }
    (void)pthread_mutex_init(&m->unpins, NULL);
    (void)pthread_mutex_init(&m->lock, NULL);
    m->limit = limit_bytes == 0 ? SIZE_MAX : limit_bytes;
    g->memory = m;
    return HSP_OK;
}

static cudaError_t give_back(const struct block *b)
{
    return b->mem == HSP_MEM_DEVICE ? cudaFree(b->p) : cudaFreeHost(b->p);
}

/* Frees block @i. Errors are ignored: only a lost device gives one, and its memory is gone. */
static void drop(struct hsp_cuda_memory *m, size_t i)
{
    const struct block *b = &m->block[i];
    if (b->mem == HSP_MEM_DEVICE) {
        *(b->retired ? &m->retired : &m->used) -= b->bytes;
    }
    m->n_retired -= b->retired;
    if (give_back(b) != cudaSuccess) {
        (void)cudaGetLastError();
    }
    m->block[i] = m->block[--m->n];
}

static void sweep(struct hsp_cuda_memory *m)
{
    for (size_t i = m->n; i > 0; i--) {
        if (m->block[i - 1].retired) {
            drop(m, i - 1);
        }
    }
}

static void unregister(struct registered *list)
{
    while (list != NULL) {
        struct registered *r = list;
        list = r->next;
        if (cudaHostUnregister(r->p) != cudaSuccess) { /* also of a lost device */
            (void)cudaGetLastError();
        }
        free(r);
    }
}

/* Moves the entry at @at from its list to @list. */
static void take_out(struct registered **at, struct registered **list)
{
    struct registered *r = *at;
    *at = r->next;
    r->next = *list;
    *list = r;
}

static struct registered **find_registered(struct hsp_cuda_memory *m, const void *p)
{
    struct registered **at = &m->registered;
    while (*at != NULL && (*at)->p != p) {
        at = &(*at)->next;
    }
    return at;
}

void hsp_cuda_memory_free(struct hsp_cuda *g)
{
    struct hsp_cuda_memory *m = g->memory;
    if (m != NULL) {
        unregister(m->registered);
        while (m->n > 0) {
            drop(m, m->n - 1);
        }
        (void)pthread_mutex_destroy(&m->lock);
        (void)pthread_mutex_destroy(&m->unpins);
        free(m->block);
        free(m);
        g->memory = NULL;
    }
}

/* Makes room in the table for one more block. */
static enum hsp_status need_entry(struct hsp_cuda_memory *m, struct hsp_err *err)
{
    if (m->n < m->cap) {
        return HSP_OK;
    }
    size_t cap = m->cap == 0 ? 32 : 2 * m->cap;
    struct block *more = realloc(m->block, cap * sizeof(*more));
    if (more == NULL) {
        return hsp_err_nomem(err, "%zu blocks", cap);
    }
    m->block = more;
    m->cap = cap;
    return HSP_OK;
}

/* Gives out a retired block of @bytes, if there is one. The new owner's work need not wait for an
 * event of the old owner's: no queue uses a released block (backend.h). */
static bool reuse(struct hsp_cuda_memory *m, enum hsp_mem mem, size_t bytes, void **ret)
{
    for (size_t i = 0; i < m->n; i++) {
        struct block *b = &m->block[i];
        if (b->retired && b->mem == mem && b->bytes == bytes) {
            b->retired = false;
            m->n_retired--;
            m->retired -= mem == HSP_MEM_DEVICE ? bytes : 0;
            *ret = b->p;
            return true;
        }
    }
    return false;
}

static cudaError_t take(enum hsp_mem mem, size_t bytes, void **ret)
{
    return mem == HSP_MEM_DEVICE ? cudaMalloc(ret, bytes)
                                 : cudaHostAlloc(ret, bytes, cudaHostAllocPortable);
}

static enum hsp_status refuse(struct hsp_cuda *g, cudaError_t e, enum hsp_mem mem, size_t bytes,
                              const char *what, struct hsp_err *err)
{
    (void)cudaGetLastError();
    if (e != cudaErrorMemoryAllocation) {
        return hsp_cuda_check(g, e, what, err);
    }
    size_t free_bytes = 0, total = 0;
    if (mem == HSP_MEM_HOST) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "GPU %d: %s: %zu bytes of pinned memory", g->device,
                           what, bytes);
    }
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) {
        (void)cudaGetLastError();
    }
    const struct hsp_cuda_memory *m = g->memory;
    return m->retired == 0
               ? hsp_err_set(err, HSP_ENOMEM, 0,
                             "GPU %d: %s: %zu bytes of device memory, of which %zu of %zu are free",
                             g->device, what, bytes, free_bytes, total)
               : hsp_err_set(err, HSP_ENOMEM, 0,
                             "GPU %d: %s: %zu bytes of device memory, of which %zu of %zu are "
                             "free; %zu are used and %zu are kept until the steps end",
                             g->device, what, bytes, free_bytes, total, m->used, m->retired);
}

static enum hsp_status refuse_beyond(const struct hsp_cuda *g, size_t bytes, size_t kept,
                                     const char *what, struct hsp_err *err)
{
    const struct hsp_cuda_memory *m = g->memory;
    return kept == 0
               ? hsp_err_set(err, HSP_ENOMEM, 0,
                             "GPU %d: %s: %zu bytes of device memory, beyond the limit of %zu of "
                             "which %zu are taken",
                             g->device, what, bytes, m->limit, m->used)
               : hsp_err_set(err, HSP_ENOMEM, 0,
                             "GPU %d: %s: %zu bytes of device memory, beyond the limit of %zu of "
                             "which %zu are taken and %zu are kept until the steps end",
                             g->device, what, bytes, m->limit, m->used, kept);
}

static bool fits(const struct hsp_cuda_memory *m, size_t bytes, size_t kept)
{
    size_t taken = m->used + kept;
    return taken <= m->limit && bytes <= m->limit - taken;
}

/* Allocates a new block; before that frees retired blocks if this is needed or the device is
 * idle. */
static enum hsp_status take_new(struct hsp_cuda *g, enum hsp_mem mem, size_t bytes,
                                const char *what, void **ret, struct hsp_err *err)
{
    struct hsp_cuda_memory *m = g->memory;
    bool peers = atomic_load(&m->peers);
    size_t counted = mem == HSP_MEM_DEVICE ? bytes : 0;
    if (!peers && m->n_retired > 0 && (!fits(m, counted, m->retired) || hsp_cuda_idle(g))) {
        sweep(m);
    }
    if (counted > 0 && !fits(m, counted, m->retired)) {
        return refuse_beyond(g, bytes, m->retired, what, err);
    }
    enum hsp_status st = need_entry(m, err);
    if (st != HSP_OK) {
        return st;
    }
    cudaError_t e = take(mem, bytes, ret);
    if (e == cudaErrorMemoryAllocation && !peers && m->n_retired > 0) {
        (void)cudaGetLastError();
        sweep(m);
        e = take(mem, bytes, ret);
    }
    if (e != cudaSuccess) {
        return refuse(g, e, mem, bytes, what, err);
    }
    m->block[m->n++] = (struct block){.p = *ret, .bytes = bytes, .mem = mem};
    m->used += counted;
    return HSP_OK;
}

static enum hsp_status allocate(struct hsp_cuda *g, enum hsp_mem mem, size_t bytes,
                                const char *what, void **ret, struct hsp_err *err)
{
    struct hsp_cuda_memory *m = g->memory;
    size_t counted = mem == HSP_MEM_DEVICE ? bytes : 0;
    if (counted > 0 && !fits(m, counted, 0)) {
        return refuse_beyond(g, bytes, 0, what, err);
    }
    if (!reuse(m, mem, bytes, ret)) {
        return take_new(g, mem, bytes, what, ret, err);
    }
    m->used += counted;
    return HSP_OK;
}

enum hsp_status hsp_cuda_alloc(struct hsp_cuda *g, enum hsp_mem mem, size_t bytes, const char *what,
                               void **ret, struct hsp_err *err)
{
    size_t room;
    void *p = NULL;
    if (!hsp_add_size(bytes, ALIGN - 1, &room)) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "GPU %d: %s: %zu bytes", g->device, what, bytes);
    }
    room -= room % ALIGN;
    enum hsp_status st = HSP_OK;
    if (room > 0) {
        (void)pthread_mutex_lock(&g->memory->lock);
        st = allocate(g, mem, room, what, &p, err);
        (void)pthread_mutex_unlock(&g->memory->lock);
    }
    if (st == HSP_OK) {
        *ret = p;
    }
    return st;
}

void hsp_cuda_release(struct hsp_cuda *g, enum hsp_mem mem, void *p)
{
    struct hsp_cuda_memory *m = g->memory;
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; p != NULL && i < m->n; i++) {
        struct block *b = &m->block[i];
        if (b->p == p && b->mem == mem && !b->retired) {
            hsp_cuda_forget_block(g, p);
            if (!atomic_load(&m->peers) && hsp_cuda_idle(g)) {
                drop(m, i);
            } else {
                b->retired = true;
                m->n_retired++;
                m->used -= mem == HSP_MEM_DEVICE ? b->bytes : 0;
                m->retired += mem == HSP_MEM_DEVICE ? b->bytes : 0;
            }
            break;
        }
    }
    (void)pthread_mutex_unlock(&m->lock);
}

enum hsp_status hsp_cuda_register(struct hsp_cuda *g, void *p, size_t bytes, struct hsp_err *err)
{
    struct hsp_cuda_memory *m = g->memory;
    struct registered *r = malloc(sizeof(*r));
    if (r == NULL) {
        return hsp_err_nomem(err, "the list of pinned memory");
    }
    /* takes long, so the lock is not held */
    cudaError_t e = cudaHostRegister(p, bytes, cudaHostRegisterPortable);
    (void)pthread_mutex_lock(&m->lock);
    if (e == cudaSuccess) {
        *r = (struct registered){.next = m->registered, .p = p};
        m->registered = r;
        r = NULL;
    } else {
        (void)cudaGetLastError();
    }
    (void)pthread_mutex_unlock(&m->lock);
    free(r);
    return e == cudaSuccess
               ? HSP_OK
               : hsp_err_set(err, e == cudaErrorMemoryAllocation ? HSP_ENOMEM : HSP_EUNSUPPORTED, 0,
                             "GPU %d: cannot pin %zu bytes: %s", g->device, bytes,
                             cudaGetErrorString(e));
}

bool hsp_cuda_unregister(struct hsp_cuda *g, const void *p)
{
    struct hsp_cuda_memory *m = g->memory;
    struct registered *out = NULL;
    (void)pthread_mutex_lock(&m->unpins);
    (void)pthread_mutex_lock(&m->lock);
    struct registered **at = find_registered(m, p);
    bool gone = *at == NULL || !atomic_load(&m->peers);
    if (*at != NULL && gone) {
        take_out(at, &out);
    } else if (*at != NULL) {
        (*at)->leaves = true;
    }
    (void)pthread_mutex_unlock(&m->lock);
    unregister(out);
    (void)pthread_mutex_unlock(&m->unpins);
    return gone;
}

void hsp_cuda_expect_peers(struct hsp_cuda *g)
{
    struct hsp_cuda_memory *m = g->memory;
    if (!atomic_load(&m->peers)) {
        /* with both locks held nothing is being unregistered or freed */
        (void)pthread_mutex_lock(&m->unpins);
        (void)pthread_mutex_lock(&m->lock);
        atomic_store(&m->peers, true);
        (void)pthread_mutex_unlock(&m->lock);
        (void)pthread_mutex_unlock(&m->unpins);
    }
}

/* Returns whether a queue has work that is not done, also work that a transport gave to it. */
static bool is_busy(const struct hsp_cuda *g)
{
    bool busy = false;
    for (unsigned q = 0; q < HSP_N_DEVQ && !busy; q++) {
        cudaError_t e = g->stream[q] != NULL ? cudaStreamQuery(g->stream[q]) : cudaSuccess;
        busy = e == cudaErrorNotReady;
        if (e != cudaSuccess) {
            (void)cudaGetLastError(); /* a lost device does no work */
        }
    }
    return busy;
}

bool hsp_cuda_trim(struct hsp_cuda *g)
{
    struct hsp_cuda_memory *m = g->memory;
    struct registered *out = NULL;
    (void)pthread_mutex_lock(&m->unpins);
    (void)pthread_mutex_lock(&m->lock);
    bool quiet = !is_busy(g);
    if (quiet) {
        atomic_store(&m->peers, false);
        sweep(m);
        for (struct registered **at = &m->registered; *at != NULL;) {
            if ((*at)->leaves) {
                take_out(at, &out);
            } else {
                at = &(*at)->next;
            }
        }
    }
    (void)pthread_mutex_unlock(&m->lock);
    unregister(out);
    (void)pthread_mutex_unlock(&m->unpins);
    return quiet;
}

const void *hsp_cuda_block(struct hsp_cuda *g, const void *p)
{
    struct hsp_cuda_memory *m = g->memory;
    const void *found = NULL;
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->n && found == NULL; i++) {
        const struct block *b = &m->block[i];
        if ((const uint8_t *)p >= b->p && (const uint8_t *)p < b->p + b->bytes) {
            found = b->p;
        }
    }
    (void)pthread_mutex_unlock(&m->lock);
    return found;
}

/* Grows the scratch of a queue if it is too small. Graphs name the old scratch, so it is kept: all
 * old blocks together are smaller than the last. */
enum hsp_status hsp_cuda_scratch(struct hsp_cuda *g, enum hsp_devq q, size_t bytes, void **ret,
                                 struct hsp_err *err)
{
    struct hsp_cuda_queue *u = &g->queue[q];
    if (bytes > g->scratch_bytes[q]) {
        size_t want = bytes > 2 * g->scratch_bytes[q] ? bytes : 2 * g->scratch_bytes[q];
        void *more;
        if (u->n_old == HSP_CUDA_MAX_OLD || want > SIZE_MAX - SCRATCH_ALIGN) {
            return hsp_err_nomem(err, "%zu bytes of scratch", bytes);
        }
        want = (want + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
        enum hsp_status st = hsp_cuda_alloc(g, HSP_MEM_DEVICE, want, "scratch", &more, err);
        if (st != HSP_OK) {
            return st;
        }
        if (g->scratch[q] != NULL) {
            u->old[u->n_old++] = g->scratch[q];
        }
        g->scratch[q] = more;
        g->scratch_bytes[q] = want;
    }
    *ret = g->scratch[q];
    return u->rehearses && !u->capturing ? HSP_AGAIN : HSP_OK;
}
