#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/lib/fakecuda/fakeint.h"

#define ROUND   ((size_t)512) /* of sizes and addresses */
#define APART   ((size_t)512) /* between two allocations, at least */
#define GARBAGE 0xff          /* NaNs */

/* Memory of the caller that is pinned for now. */
static struct {
    uint8_t *p;
    size_t bytes;
} registered[64];
#define N_REGISTERED (sizeof(registered) / sizeof(registered[0]))

static size_t reserved; /* bytes at fake.base */

/* Twice as many addresses as memory: a piece freed in the midst of work keeps its own. */
static size_t size_of(int pinned)
{
    return pinned ? FAKE_PINNED_BYTES : 2 * fake.o.memory_bytes;
}

static uint8_t *begin_of(int pinned)
{
    return fake.base + (pinned ? size_of(0) : 0);
}

static void need_memory(void)
{
    if (fake.base != NULL) {
        return;
    }
    size_t bytes = size_of(0) + size_of(1);
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED ||
        mprotect((uint8_t *)p + size_of(0), size_of(1), PROT_READ | PROT_WRITE) != 0) {
        abort();
    }
    fake.base = p;
    reserved = bytes;
    fake_race_reset(bytes);
}

void fake_memory_reset(void)
{
    memset(registered, 0, sizeof(registered));
    for (int pinned = 0; pinned < 2; pinned++) {
        while (fake.memory[pinned] != NULL) {
            struct fake_alloc *a = fake.memory[pinned];
            fake.memory[pinned] = a->next;
            free(a);
        }
    }
    if (fake.base != NULL) {
        fake_race_reset(0);
        (void)munmap(fake.base, reserved);
        fake.base = NULL;
    }
}

void fake_open_memory(void)
{
    need_memory();
    if (fake.opened++ == 0) {
        (void)mprotect(fake.base, size_of(0), PROT_READ | PROT_WRITE);
    }
}

void fake_close_memory(void)
{
    if (--fake.opened == 0) {
        (void)mprotect(fake.base, size_of(0), PROT_NONE);
    }
}

static bool within(const void *p, int pinned)
{
    return fake.base != NULL && (uintptr_t)p - (uintptr_t)begin_of(pinned) < size_of(pinned);
}

bool fake_on_device(const void *p)
{
    return within(p, 0);
}

bool fake_is_pinned(const void *p)
{
    return within(p, 1);
}

static struct fake_alloc *find(const void *p, int pinned)
{
    for (struct fake_alloc *a = fake.memory[pinned]; a != NULL; a = a->next) {
        if (!a->freed && (const uint8_t *)p >= a->p && (const uint8_t *)p < a->p + a->bytes) {
            return a;
        }
    }
    return NULL;
}

bool fake_inside(const void *p, size_t bytes)
{
    const struct fake_alloc *a = find(p, fake_is_pinned(p));
    return a != NULL && bytes <= (size_t)(a->p + a->bytes - (const uint8_t *)p);
}

bool hsp_fake_touch(const void *p, size_t bytes, bool write)
{
    if (bytes == 0 || !(fake_on_device(p) || fake_is_pinned(p))) {
        return true;
    }
    const char *why = fake_race(p, bytes, write);
    if (why != NULL) {
        fake_say("%s (stream %d) %s %zu bytes at %p, %s", fake.running->name, fake.running->lane,
                 write ? "writes" : "reads", bytes, p, why);
        hsp_fake_lose(cudaErrorIllegalAddress);
    }
    return why == NULL;
}

void fake_run_copy(const struct piece *c)
{
    for (size_t row = 0; row < c->height; row++) {
        uint8_t *dst = c->dst + row * c->dst_pitch;
        const uint8_t *src = c->src + row * c->src_pitch;
        bool fine = c->kind == PIECE_SET || hsp_fake_touch(src, c->width, false);
        if (!fine || !hsp_fake_touch(dst, c->width, true)) {
            return;
        }
        if (c->kind == PIECE_SET) {
            memset(dst, c->value, c->width);
        } else {
            memmove(dst, src, c->width);
        }
    }
}

void hsp_fake_range(void **ret_base, size_t *ret_bytes)
{
    fake_relock();
    need_memory();
    *ret_base = fake.base;
    *ret_bytes = reserved;
    (void)fake_leave(cudaSuccess);
}

void hsp_fake_peek(void *dst, const void *device, size_t bytes)
{
    fake_relock();
    fake_open_memory();
    memcpy(dst, device, bytes);
    fake_close_memory();
    (void)fake_leave(cudaSuccess);
}

/* ---- allocation: the first gap that is large enough ---- */

static void forget_freed(int pinned)
{
    struct fake_alloc **at = &fake.memory[pinned];
    while (*at != NULL) {
        struct fake_alloc *a = *at;
        if (a->freed) {
            *at = a->next;
            free(a);
        } else {
            at = &a->next;
        }
    }
}

static struct fake_alloc *allocate(size_t bytes, int pinned)
{
    need_memory();
    if (fake.use.pending == 0) {
        forget_freed(pinned);
    }
    size_t need = (bytes + ROUND - 1) / ROUND * ROUND + APART;
    uint8_t *p = begin_of(pinned), *end = p + size_of(pinned);
    struct fake_alloc **at = &fake.memory[pinned];
    for (; *at != NULL && (size_t)((*at)->p - p) < need; at = &(*at)->next) {
        p = (*at)->p + ((*at)->bytes + ROUND - 1) / ROUND * ROUND + APART;
    }
    struct fake_alloc *a = need <= (size_t)(end - p) ? calloc(1, sizeof(*a)) : NULL;
    if (a != NULL) {
        *a = (struct fake_alloc){.next = *at, .p = p, .bytes = bytes};
        *at = a;
        fake_race_alloc(p, bytes, pinned);
    }
    return a;
}

static void born(const struct fake_alloc *a, int pinned)
{
    if (pinned) {
        fake.use.pinned_bytes += a->bytes;
        fake.use.pinned++;
    } else {
        fake.use.device_bytes += a->bytes;
        fake.use.allocations++;
        if (fake.use.device_bytes > fake.use.device_peak_bytes) {
            fake.use.device_peak_bytes = fake.use.device_bytes;
        }
    }
    fake_open_memory();
    memset(a->p, GARBAGE, a->bytes);
    fake_close_memory();
}

static cudaError_t give_out(void **p, size_t bytes, int pinned)
{
    *p = NULL;
    if (bytes == 0) {
        return cudaSuccess;
    }
    if (fake.use.device_bytes + bytes > fake.o.memory_bytes && !pinned) {
        return cudaErrorMemoryAllocation;
    }
    struct fake_alloc *a = allocate(bytes, pinned);
    if (a == NULL) {
        return cudaErrorMemoryAllocation;
    }
    born(a, pinned);
    *p = a->p;
    return cudaSuccess;
}

static cudaError_t take_back(void *p, int pinned)
{
    if (p == NULL) {
        return cudaSuccess;
    }
    struct fake_alloc *a = find(p, pinned);
    if (a == NULL || a->p != p) {
        fake_say("%p is freed, which nobody allocated", p);
        return cudaErrorInvalidValue;
    }
    fake_race_free(a->p, a->bytes);
    a->freed = true;
    if (pinned) {
        fake.use.pinned_bytes -= a->bytes;
        fake.use.pinned--;
    } else {
        fake.use.device_bytes -= a->bytes;
        fake.use.allocations--;
    }
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    cudaError_t e = fake_enter("cudaMalloc");
    e = e == cudaSuccess ? fake_unsafe() : e;
    return fake_leave(e == cudaSuccess ? give_out(p, bytes, 0) : e);
}

cudaError_t cudaFree(void *p)
{
    cudaError_t e = fake_enter("cudaFree");
    fake_waits_for_all();
    cudaError_t own = take_back(p, 0);
    return fake_leave(e == cudaSuccess ? own : e);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    cudaError_t e = fake_enter("cudaHostAlloc");
    e = e == cudaSuccess ? fake_unsafe() : e;
    return fake_leave(e == cudaSuccess ? give_out(p, bytes, 1) : e);
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    return cudaHostAlloc(p, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *p)
{
    cudaError_t e = fake_enter("cudaFreeHost");
    fake_waits_for_all();
    cudaError_t own = take_back(p, 1);
    return fake_leave(e == cudaSuccess ? own : e);
}

/* The caller's memory in which the whole range lies; with @any: which it touches. N_REGISTERED:
 * none. */
static size_t find_registered(const void *p, size_t bytes, bool any)
{
    const uint8_t *from = p, *to = from + bytes;
    size_t k = 0;
    while (k < N_REGISTERED) {
        const uint8_t *lo = registered[k].p, *hi = lo + registered[k].bytes;
        if (lo != NULL && (any ? from < hi && lo < to : from >= lo && to <= hi)) {
            break;
        }
        k++;
    }
    return k;
}

/* A place in the table that begins at @p; at NULL: that is free. */
static size_t place_of(const void *p)
{
    size_t k = 0;
    while (k < N_REGISTERED && registered[k].p != p) {
        k++;
    }
    return k;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    (void)flags;
    cudaError_t e = fake_enter("cudaHostRegister");
    e = e == cudaSuccess ? fake_unsafe() : e;
    size_t k = place_of(NULL);
    if (e == cudaSuccess && (p == NULL || bytes == 0 || k == N_REGISTERED)) {
        e = cudaErrorInvalidValue;
    }
    if (e == cudaSuccess && find_registered(p, bytes, true) < N_REGISTERED) {
        fake_say("%p is pinned twice", p);
        e = cudaErrorHostMemoryAlreadyRegistered;
    }
    if (e == cudaSuccess) {
        registered[k].p = p;
        registered[k].bytes = bytes;
        fake.use.pinned++;
        fake.use.pinned_bytes += bytes;
    }
    return fake_leave(e);
}

static bool is_copied(size_t k)
{
    for (const struct CUstream_st *s = fake.streams; s != NULL; s = s->next) {
        for (const struct piece *c = s->first; c != NULL; c = c->next) {
            bool copies = c->kind == PIECE_COPY && !c->staged;
            if (copies &&
                (find_registered(c->dst, 1, true) == k || find_registered(c->src, 1, true) == k)) {
                return true;
            }
        }
    }
    return false;
}

cudaError_t cudaHostUnregister(void *p)
{
    cudaError_t e = fake_enter("cudaHostUnregister");
    fake_waits_for_all();
    size_t k = p != NULL ? place_of(p) : N_REGISTERED;
    cudaError_t own = k == N_REGISTERED ? cudaErrorHostMemoryNotRegistered : cudaSuccess;
    if (own == cudaSuccess) {
        if (is_copied(k)) {
            fake_say("%p is pinned no more in the midst of a copy", p);
        }
        fake.use.pinned--;
        fake.use.pinned_bytes -= registered[k].bytes;
        registered[k].p = NULL;
    }
    return fake_leave(e == cudaSuccess ? own : e);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    cudaError_t e = fake_enter("cudaMemGetInfo");
    if (e == cudaSuccess) {
        *free_bytes = fake.o.memory_bytes - fake.use.device_bytes;
        *total_bytes = fake.o.memory_bytes;
    }
    return fake_leave(e);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
    cudaError_t e = fake_enter("cudaPointerGetAttributes");
    if (e == cudaSuccess) {
        int pinned = fake_is_pinned(p);
        bool known = find(p, pinned) != NULL;
        *a = (struct cudaPointerAttributes){.type = !known   ? cudaMemoryTypeUnregistered
                                                    : pinned ? cudaMemoryTypeHost
                                                             : cudaMemoryTypeDevice,
                                            .devicePointer = known ? (void *)(uintptr_t)p : NULL,
                                            .hostPointer =
                                                pinned || !known ? (void *)(uintptr_t)p : NULL};
    }
    return fake_leave(e);
}

/* ---- copies and fills ---- */

/* 0: ordinary memory of the host; 1: known and whole; -1: wrong. */
static int judge(const void *p, size_t pitch, size_t width, size_t height)
{
    if (!fake_on_device(p) && !fake_is_pinned(p)) {
        return find_registered(p, (height - 1) * pitch + width, false) < N_REGISTERED;
    }
    return fake_inside(p, (height - 1) * pitch + width) ? 1 : -1;
}

/* A copy of the rows packed, for a copy from memory that may change after the call. */
static bool stage(struct piece *c)
{
    uint8_t *own = malloc(c->width * c->height);
    for (size_t row = 0; own != NULL && row < c->height; row++) {
        memcpy(own + row * c->width, c->src + row * c->src_pitch, c->width);
    }
    c->src = own;
    c->src_pitch = c->width;
    c->staged = true;
    return own != NULL;
}

static cudaError_t copy(struct piece *c, cudaStream_t s)
{
    if (c->width == 0 || c->height == 0) {
        return cudaSuccess;
    }
    int to = judge(c->dst, c->dst_pitch, c->width, c->height), from = 1;
    if (c->kind == PIECE_COPY) {
        from = judge(c->src, c->src_pitch, c->width, c->height);
    }
    if (to < 0 || from < 0) {
        fake_say("%s: %zu x %zu bytes are not all memory", c->name, c->height, c->width);
        return cudaErrorInvalidValue;
    }
    if (s == NULL) {
        return fake_run_now(c);
    }
    if (s->capture != NULL && (to == 0 || from == 0)) {
        fake_say("%s of ordinary host memory into a graph", c->name);
    }
    if (to == 0) { /* such a copy is done when the call returns */
        cudaError_t e = fake_give(s, c);
        return e == cudaSuccess && s->capture == NULL ? fake_drain(s, 0) : e;
    }
    if (from == 0 && !stage(c)) {
        return cudaErrorMemoryAllocation;
    }
    cudaError_t e = fake_give(s, c);
    if (c->staged) {
        free((void *)(uintptr_t)c->src);
    }
    return e;
}

static cudaError_t on_stream(cudaError_t e, cudaStream_t s, const char *name)
{
    if (e == cudaSuccess && s == NULL) {
        fake_say("%s on the default stream", name);
    }
    return e == cudaSuccess && !fake_stream_ok(s) ? cudaErrorInvalidResourceHandle : e;
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t s)
{
    (void)kind;
    cudaError_t e = on_stream(fake_enter("cudaMemcpy2DAsync"), s, "cudaMemcpy2DAsync");
    struct piece c = {.kind = PIECE_COPY,
                      .name = "copy",
                      .dst = dst,
                      .src = src,
                      .dst_pitch = dst_pitch,
                      .src_pitch = src_pitch,
                      .width = width,
                      .height = height};
    e = e == cudaSuccess && (width > dst_pitch || width > src_pitch) ? cudaErrorInvalidValue : e;
    return fake_leave(e == cudaSuccess ? copy(&c, s) : e);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    (void)kind;
    cudaError_t e = on_stream(fake_enter("cudaMemcpyAsync"), s, "cudaMemcpyAsync");
    struct piece c = {
        .kind = PIECE_COPY, .name = "copy", .dst = dst, .src = src, .width = bytes, .height = 1};
    return fake_leave(e == cudaSuccess ? copy(&c, s) : e);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    cudaError_t e = fake_enter("cudaMemcpy");
    e = e == cudaSuccess ? fake_unsafe() : e;
    struct piece c = {
        .kind = PIECE_COPY, .name = "copy", .dst = dst, .src = src, .width = bytes, .height = 1};
    return fake_leave(e == cudaSuccess ? copy(&c, NULL) : e);
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t s)
{
    cudaError_t e = on_stream(fake_enter("cudaMemsetAsync"), s, "cudaMemsetAsync");
    struct piece c = {
        .kind = PIECE_SET, .name = "fill", .dst = dst, .value = value, .width = bytes, .height = 1};
    return fake_leave(e == cudaSuccess ? copy(&c, s) : e);
}

cudaError_t cudaMemset(void *dst, int value, size_t bytes)
{
    cudaError_t e = fake_enter("cudaMemset");
    e = e == cudaSuccess ? fake_unsafe() : e;
    struct piece c = {
        .kind = PIECE_SET, .name = "fill", .dst = dst, .value = value, .width = bytes, .height = 1};
    return fake_leave(e == cudaSuccess ? copy(&c, NULL) : e);
}
