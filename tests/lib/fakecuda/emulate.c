#include "tests/lib/fakecuda/emulate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/lib/fakecuda/memshadow.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#define STACK_BYTES  ((size_t)128 * 1024)
#define FLOOR_BYTES  4096 /* at the end of a stack, never to be touched */
#define STACKS_BYTES ((HSP_FAKE_MAX_THREADS + 1) * STACK_BYTES)
#define MAX_WARPS    (HSP_FAKE_MAX_THREADS / HSP_FAKE_WARP)

enum fiber_state { FIBER_FRESH, FIBER_READY, FIBER_AT_BARRIER, FIBER_AT_WARP, FIBER_DONE };

/* A call of a warp function for which not all lanes of its mask have arrived, or whose values not
 * all lanes have read. */
struct meeting {
    const char *what; /* NULL: free */
    unsigned mask, arrived, left;
    size_t bytes;
    uint8_t *value; /* lane by lane, as many bytes of each */
};

struct warp {
    struct meeting
        meeting[HSP_FAKE_WARP]; /* masks of meetings are disjoint, or one waits for readers */
    unsigned live;              /* lanes that have not ended */
    unsigned epoch;
};

static struct {
    const struct hsp_fake_kernel *kernel; /* NULL: none runs */
    void *args;
    uint8_t *stacks;
    void *sp[HSP_FAKE_MAX_THREADS], *home; /* stack pointers of the fibers and of the caller */
    int stack[HSP_FAKE_MAX_THREADS];       /* which stack a fiber is on */
    int spare[HSP_FAKE_MAX_THREADS], n_spare, least_spare;
    enum fiber_state state[HSP_FAKE_MAX_THREADS];
    struct warp warp[MAX_WARPS];
    int n, live, at_barrier, now;
    unsigned epoch;
    bool backwards, broken;
    char trouble[400];
} em = {.now = -1};

/* Set in the host thread that runs the kernel. Other threads may run host functions in files of
 * kernels at the same time; the compiler reports their accesses as well, but these do not belong to
 * the kernel. */
static _Thread_local bool runs;

struct hsp_fake_index hsp_fake_thread_index, hsp_fake_block_index, hsp_fake_block_extent,
    hsp_fake_grid_extent;
static uint8_t exchange[MAX_WARPS][HSP_FAKE_WARP][HSP_FAKE_WARP * HSP_FAKE_MAX_EXCHANGE];
static uint8_t dynamic_shared[HSP_FAKE_MAX_SHARED] __attribute__((aligned(1024)));

/* ---- fibers ---- */

#if defined(__x86_64__)
/* Saves the registers that a call preserves, exchanges stacks, and returns on the other one. */
void hsp_fake_switch(void **save, void *load);
__asm__(".text\n"
        ".globl hsp_fake_switch\n"
        ".type hsp_fake_switch,@function\n"
        "hsp_fake_switch:\n"
        "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
        "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
        "ret\n"
        ".size hsp_fake_switch,.-hsp_fake_switch\n"
        ".section .note.GNU-stack,\"\",@progbits\n.text\n");
#else
#error "fibers: only x86-64"
#endif

static void __attribute__((format(printf, 1, 0))) note(const char *fmt, va_list ap)
{
    if (em.broken) {
        return;
    }
    int n =
        snprintf(em.trouble, sizeof(em.trouble), "%s: block %u,%u,%u thread %d: ", em.kernel->name,
                 hsp_fake_block_index.x, hsp_fake_block_index.y, hsp_fake_block_index.z, em.now);
    (void)vsnprintf(em.trouble + n, sizeof(em.trouble) - (size_t)n, fmt, ap);
    em.broken = true;
}

/* Reports a fault that the scheduler finds. */
static void __attribute__((format(printf, 1, 2))) blame(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    note(fmt, ap);
    va_end(ap);
}

static void to_scheduler(void)
{
    hsp_fake_switch(&em.sp[em.now], em.home);
}

void hsp_fake_fault(const char *fmt, ...)
{
    if (hsp_fake_thread() < 0) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    note(fmt, ap);
    va_end(ap);
    to_scheduler(); /* which never comes back */
}

static void set_thread(int t)
{
    unsigned x = em.kernel->block[0], y = em.kernel->block[1], u = (unsigned)t;
    em.now = t;
    hsp_fake_thread_index = (struct hsp_fake_index){u % x, u / x % y, u / x / y};
}

static void release_barrier(void);

static void fiber_ended(int t)
{
    em.state[t] = FIBER_DONE;
    em.warp[t / HSP_FAKE_WARP].live &= ~(1U << t % HSP_FAKE_WARP);
    em.live--;
    if (em.live > 0 && em.at_barrier == em.live) {
        release_barrier();
    }
}

/* Runs one thread, then the next threads that have not begun on the same stack, until one of them
 * waits: only threads that wait need a stack of their own. */
static void fiber_main(void)
{
    for (;;) {
        em.kernel->run(em.args);
        int t = em.now, next = em.backwards ? t - 1 : t + 1;
        fiber_ended(t);
        if (next < 0 || next >= em.n || em.state[next] != FIBER_FRESH) {
            to_scheduler();
        }
        em.stack[next] = em.stack[t];
        set_thread(next);
        em.state[next] = FIBER_READY;
    }
}

/* Returns the memory of the i-th stack. Below the lowest stack is room into which it may
 * overflow. */
static uint8_t *stack_at(int i)
{
    return em.stacks + ((size_t)i + 1) * STACK_BYTES;
}

static bool floors_hold(void)
{
    static const uint8_t zero[FLOOR_BYTES];
    bool hold = true;
    for (int i = em.least_spare; i < em.n; i++) { /* used stacks: taken from the top */
        uint8_t *floor = stack_at(i);
        if (memcmp(floor, zero, FLOOR_BYTES) != 0) {
            memset(floor, 0, FLOOR_BYTES);
            hold = false;
        }
    }
    return hold;
}

static void fiber_start(int t)
{
    em.stack[t] = em.spare[--em.n_spare];
    em.least_spare = em.n_spare < em.least_spare ? em.n_spare : em.least_spare;
    uint8_t *stack = stack_at(em.stack[t]);
    /* fiber_main begins as if a call had pushed an address: 8 below a multiple of 16 */
    void **top = (void **)(void *)(stack + STACK_BYTES - 64);
    memset(top - 6, 0, 8 * sizeof(*top));
    void (*entry)(void) = fiber_main;
    memcpy(&top[0], &entry, sizeof(entry));
    em.sp[t] = top - 6;
}

static void resume(int t)
{
    if (em.state[t] == FIBER_FRESH) {
        fiber_start(t);
    }
    set_thread(t);
    em.state[t] = FIBER_READY;
    hsp_fake_switch(&em.home, em.sp[t]);
    if (em.state[em.now] == FIBER_DONE) {
        em.spare[em.n_spare++] = em.stack[em.now];
    }
}

/* ---- barriers ---- */

static void release_barrier(void)
{
    em.epoch++;
    em.at_barrier = 0;
    for (int t = 0; t < em.n; t++) {
        if (em.state[t] == FIBER_AT_BARRIER) {
            em.state[t] = FIBER_READY;
        }
    }
}

void hsp_fake_barrier(void)
{
    if (++em.at_barrier == em.live) {
        release_barrier();
        return;
    }
    em.state[em.now] = FIBER_AT_BARRIER;
    to_scheduler();
}

/* Returns the pending call of @mask that this lane has yet to join, or a new one. A call of another
 * mask may wait for this lane at the same time. */
static struct meeting *meeting_of(struct warp *w, const char *what, unsigned mask, size_t bytes)
{
    unsigned lane = 1U << em.now % HSP_FAKE_WARP;
    struct meeting *room = NULL;
    for (int i = 0; i < HSP_FAKE_WARP; i++) {
        struct meeting *m = &w->meeting[i];
        if (m->what == NULL) {
            room = room != NULL ? room : m;
        } else if (m->mask == mask && m->arrived != mask && (m->arrived & lane) == 0) {
            if ((m->what != what && strcmp(m->what, what) != 0) || m->bytes != bytes) {
                hsp_fake_fault("%s of lanes %08x while others are at %s", what, mask, m->what);
            }
            return m;
        }
    }
    if (room == NULL) {
        hsp_fake_fault("too many warp functions at a time");
    }
    *room = (struct meeting){.what = what,
                             .mask = mask,
                             .bytes = bytes,
                             .value = exchange[w - em.warp][room - w->meeting]};
    memset(room->value, 0, HSP_FAKE_WARP * bytes);
    return room;
}

void hsp_fake_warp_exchange(const char *what, unsigned mask, const void *mine, size_t bytes,
                            void *all)
{
    struct warp *w = &em.warp[em.now / HSP_FAKE_WARP];
    unsigned lane = (unsigned)em.now % HSP_FAKE_WARP;
    if ((mask >> lane & 1) == 0 || bytes > HSP_FAKE_MAX_EXCHANGE) {
        hsp_fake_fault("%s of lanes %08x by lane %u", what, mask, lane);
    }
    if ((mask & ~w->live) != 0) {
        hsp_fake_fault("%s of lanes %08x, of which %08x have ended", what, mask, mask & ~w->live);
    }
    struct meeting *m = meeting_of(w, what, mask, bytes);
    if (bytes > 0) {
        memcpy(m->value + lane * bytes, mine, bytes);
    }
    m->arrived |= 1U << lane;
    if (m->arrived == m->mask) {
        w->epoch += m->mask == w->live;
        int first = em.now / HSP_FAKE_WARP * HSP_FAKE_WARP;
        for (int i = 0; i < HSP_FAKE_WARP; i++) {
            if ((mask >> i & 1) != 0 && i != (int)lane) {
                em.state[first + i] = FIBER_READY;
            }
        }
    } else {
        em.state[em.now] = FIBER_AT_WARP;
        to_scheduler();
    }
    if (bytes > 0) {
        memcpy(all, m->value, HSP_FAKE_WARP * bytes);
    }
    m->left |= 1U << lane;
    if (m->left == m->mask) {
        m->what = NULL;
    }
}

/* ---- a kernel ---- */

static void report_standstill(void)
{
    int barrier = 0, warp = 0, some = -1;
    for (int t = 0; t < em.n; t++) {
        barrier += em.state[t] == FIBER_AT_BARRIER;
        warp += em.state[t] == FIBER_AT_WARP;
        some = em.state[t] == FIBER_AT_WARP ? t : some;
    }
    const char *what = "-";
    for (int i = 0; some >= 0 && i < HSP_FAKE_WARP; i++) {
        const struct meeting *m = &em.warp[some / HSP_FAKE_WARP].meeting[i];
        what = m->what != NULL ? m->what : what;
    }
    em.now = -1;
    blame("divergence: of %d threads %d wait at a barrier, %d at %s", em.live, barrier, warp, what);
}

static void run_block(void)
{
    em.live = em.n;
    em.at_barrier = 0;
    em.epoch++;
    memset(em.warp, 0, (size_t)(em.n + HSP_FAKE_WARP - 1) / HSP_FAKE_WARP * sizeof(em.warp[0]));
    for (int t = 0; t < em.n; t++) {
        em.state[t] = FIBER_FRESH;
        em.warp[t / HSP_FAKE_WARP].live |= 1U << t % HSP_FAKE_WARP;
        em.spare[t] = t;
    }
    em.n_spare = em.least_spare = em.n;
    hsp_fake_shadow_block();
    bool moved = true;
    while (em.live > 0 && moved && !em.broken) {
        moved = false;
        for (int i = 0; i < em.n && !em.broken; i++) {
            int t = em.backwards ? em.n - 1 - i : i;
            if (em.state[t] != FIBER_FRESH && em.state[t] != FIBER_READY) {
                continue;
            }
            moved = true;
            resume(t);
        }
    }
    if (!floors_hold()) {
        em.now = -1;
        blame("a stack overflows");
    }
    if (em.live > 0 && !em.broken) {
        report_standstill();
    }
}

static const char *refuse(const struct hsp_fake_kernel *k, const char *why)
{
    (void)snprintf(em.trouble, sizeof(em.trouble), "%s: %s", k->name, why);
    return em.trouble;
}

const char *hsp_fake_run_kernel(const struct hsp_fake_kernel *k, void *args)
{
    uint64_t threads = (uint64_t)k->block[0] * k->block[1] * k->block[2];
    uint64_t blocks = (uint64_t)k->grid[0] * k->grid[1] * k->grid[2];
    if (threads == 0 || threads > HSP_FAKE_MAX_THREADS || blocks == 0 || k->grid[1] > 65535 ||
        k->grid[2] > 65535 || k->grid[0] > 0x7fffffffU || k->shared_bytes > HSP_FAKE_MAX_SHARED) {
        return refuse(k, "no such grid");
    }
    if (em.stacks == NULL) {
        void *p = mmap(NULL, STACKS_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) {
            return refuse(k, "no memory for stacks");
        }
        em.stacks = p;
    }
    runs = true;
    em.kernel = k;
    em.args = args;
    em.n = (int)threads;
    em.broken = false;
    hsp_fake_block_extent = (struct hsp_fake_index){k->block[0], k->block[1], k->block[2]};
    hsp_fake_grid_extent = (struct hsp_fake_index){k->grid[0], k->grid[1], k->grid[2]};
    hsp_fake_shadow_kernel(em.stacks, STACKS_BYTES);
    for (uint64_t i = 0; i < blocks && !em.broken; i++) {
        uint64_t b = em.backwards ? blocks - 1 - i : i;
        hsp_fake_block_index = (struct hsp_fake_index){(unsigned)(b % k->grid[0]),
                                                       (unsigned)(b / k->grid[0] % k->grid[1]),
                                                       (unsigned)(b / k->grid[0] / k->grid[1])};
        memset(dynamic_shared, 0xff, k->shared_bytes); /* NaNs over the old contents */
        run_block();
    }
    em.kernel = NULL;
    em.now = -1;
    runs = false;
    if (em.broken) { /* fibers are left as they were: their frames are no frames any more */
        ASAN_UNPOISON_MEMORY_REGION(em.stacks, STACKS_BYTES);
    }
    return em.broken ? em.trouble : NULL;
}

bool hsp_fake_can_run(void)
{
#if defined(__SANITIZE_THREAD__)
    return false;
#else
    return getenv("HSPMD_VALGRIND") == NULL;
#endif
}

void hsp_fake_run_backwards(bool yes)
{
    em.backwards = yes;
}

void *hsp_fake_dynamic_shared(void)
{
    return dynamic_shared;
}

int hsp_fake_thread(void)
{
    return runs && em.kernel != NULL ? em.now : -1;
}

unsigned hsp_fake_block_epoch(void)
{
    return em.epoch;
}

unsigned hsp_fake_warp_epoch(void)
{
    return em.now < 0 ? 0 : em.warp[em.now / HSP_FAKE_WARP].epoch;
}
