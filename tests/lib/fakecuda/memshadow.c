#include "tests/lib/fakecuda/memshadow.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/lib/fakecuda/emulate.h"

#define PAGE        4096 /* bytes of one entry of pages */
#define SHARED_SLOT 18   /* log2 of the entries for shared memory */

enum { READ = 1, WROTE = 2 }; /* bits; READ: before it was written */

/* The threads that touched two bytes of the device last in this kernel. */
struct use {
    uint32_t kernel; /* number of the kernel */
    uint32_t block;  /* linear index, or MANY */
};
#define MANY UINT32_MAX

/* The threads that touched two bytes of shared memory. */
struct slot {
    unsigned block; /* epoch at the block's begin: older entries are free */
    unsigned w_block, w_warp, r_block, r_warp;
    int16_t writer;        /* thread; -1 none */
    int16_t reader, r_who; /* warp of the readers, MANY_WARPS; lane, MANY_LANES */
};
#define MANY_WARPS (-2)
#define MANY_LANES (-2)

/* Where the running thread is. */
struct moment {
    int thread;
    unsigned block, warp; /* epochs */
};

static struct {
    uint8_t *base;
    size_t bytes;
    uint8_t *touched, *pages;    /* one a byte, one a page */
    struct use *writer, *reader; /* one for two bytes */
    const uint8_t *stacks;
    size_t stack_bytes;
    size_t lo_page, hi_page;                          /* pages touched lie in [lo, hi) */
    unsigned block;                                   /* epoch at the block's begin */
    uint32_t kernel;                                  /* counts kernels */
    struct slot dynamic[HSP_FAKE_MAX_SHARED / 2 + 1]; /* by place */
    struct slot slot[1 << SHARED_SLOT];               /* of all other, by address: */
    uintptr_t at[1 << SHARED_SLOT];
} sh;

static void *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) {
        abort();
    }
    return p;
}

void hsp_fake_shadow_init(void *base, size_t bytes)
{
    hsp_fake_shadow_fini();
    sh.base = base;
    sh.bytes = bytes;
    sh.lo_page = SIZE_MAX;
    sh.hi_page = 0;
    sh.touched = reserve(bytes + PAGE);
    sh.pages = reserve(bytes / PAGE + 1);
    sh.writer = reserve((bytes / 2 + 1) * sizeof(*sh.writer));
    sh.reader = reserve((bytes / 2 + 1) * sizeof(*sh.reader));
}

void hsp_fake_shadow_fini(void)
{
    if (sh.base != NULL) {
        (void)munmap(sh.touched, sh.bytes + PAGE);
        (void)munmap(sh.pages, sh.bytes / PAGE + 1);
        (void)munmap(sh.writer, (sh.bytes / 2 + 1) * sizeof(*sh.writer));
        (void)munmap(sh.reader, (sh.bytes / 2 + 1) * sizeof(*sh.reader));
        sh.base = NULL;
        sh.bytes = 0;
    }
}

static bool on_device(const void *p)
{
    return (uintptr_t)p - (uintptr_t)sh.base < sh.bytes;
}

/* ---- kernels ---- */

void hsp_fake_shadow_kernel(const void *stacks, size_t bytes)
{
    sh.stacks = stacks;
    sh.stack_bytes = bytes;
    sh.kernel++;
    for (size_t page = sh.lo_page; page < sh.hi_page; page++) {
        if (sh.pages[page] != 0) {
            memset(sh.touched + page * PAGE, 0, PAGE);
            sh.pages[page] = 0;
        }
    }
    sh.lo_page = SIZE_MAX;
    sh.hi_page = 0;
}

void hsp_fake_shadow_block(void)
{
    sh.block = hsp_fake_block_epoch();
}

/* Runs of one page that have the bit @bit; a run goes on over the end of a page. */
static size_t runs_of_page(size_t page, uint8_t bit, size_t open, hsp_fake_touched_fn fn, void *ctx)
{
    for (size_t i = page * PAGE; i < (page + 1) * PAGE; i++) {
        bool in = (sh.touched[i] & bit) != 0;
        if (in && open == SIZE_MAX) {
            open = i;
        } else if (!in && open != SIZE_MAX) {
            fn(ctx, sh.base + open, i - open, bit == WROTE);
            open = SIZE_MAX;
        }
    }
    return open;
}

void hsp_fake_shadow_touched(hsp_fake_touched_fn fn, void *ctx)
{
    static const uint8_t bits[] = {READ, WROTE};
    for (int b = 0; b < 2; b++) {
        size_t open = SIZE_MAX, page = sh.lo_page;
        for (; page < sh.hi_page; page++) {
            if (sh.pages[page] != 0 || open != SIZE_MAX) {
                open = runs_of_page(page, bits[b], open, fn, ctx);
            }
        }
        if (open != SIZE_MAX) {
            fn(ctx, sh.base + open, page * PAGE - open, bits[b] == WROTE);
        }
    }
}

static uint32_t linear_block(void)
{
    return hsp_fake_block_index.x +
           hsp_fake_grid_extent.x *
               (hsp_fake_block_index.y + hsp_fake_grid_extent.y * hsp_fake_block_index.z);
}

static bool other_block(const struct use *u, uint32_t block)
{
    return u->kernel == sh.kernel && u->block != block;
}

/* Blocks run in any order: bytes that one writes no other may touch. */
static void race_of_blocks(size_t at, size_t n, bool write)
{
    uint32_t block = linear_block();
    for (size_t i = at / 2; i <= (at + n - 1) / 2; i++) {
        if (other_block(&sh.writer[i], block) || (write && other_block(&sh.reader[i], block))) {
            hsp_fake_fault("%s %p, which another block %s", write ? "writes" : "reads",
                           (void *)(sh.base + 2 * i),
                           other_block(&sh.writer[i], block) ? "wrote" : "read");
        }
        if (write) {
            sh.writer[i] = (struct use){sh.kernel, block};
        } else {
            sh.reader[i] =
                (struct use){sh.kernel, other_block(&sh.reader[i], block) ? MANY : block};
        }
    }
}

static void device_access(const void *p, size_t n, enum hsp_fake_access how)
{
    size_t at = (size_t)((const uint8_t *)p - sh.base);
    n = n < sh.bytes - at ? n : sh.bytes - at;
    for (size_t i = at; i < at + n; i++) {
        uint8_t was = sh.touched[i];
        was |= how != HSP_FAKE_WRITE && (was & WROTE) == 0 ? READ : 0;
        sh.touched[i] = was | (how != HSP_FAKE_READ ? WROTE : 0);
    }
    size_t first = at / PAGE, last = (at + n - 1) / PAGE;
    memset(sh.pages + first, 1, last - first + 1);
    sh.lo_page = first < sh.lo_page ? first : sh.lo_page;
    sh.hi_page = last >= sh.hi_page ? last + 1 : sh.hi_page;
    if (how != HSP_FAKE_ATOMIC) {
        race_of_blocks(at, n, how == HSP_FAKE_WRITE);
    }
}

static struct slot *fresh(struct slot *s)
{
    if (s->block != sh.block) {
        *s = (struct slot){.block = sh.block, .writer = -1, .reader = -1};
    }
    return s;
}

static struct slot *slot_of(uintptr_t at)
{
    uintptr_t place = at - (uintptr_t)hsp_fake_dynamic_shared();
    if (place < HSP_FAKE_MAX_SHARED) {
        return fresh(&sh.dynamic[place / 2]);
    }
    uint64_t h = (uint64_t)(at / 2) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - SHARED_SLOT);
    for (size_t i = 0; i < 1 << SHARED_SLOT; i++) {
        size_t k = (h + i) & ((1 << SHARED_SLOT) - 1);
        if (sh.slot[k].block != sh.block || sh.at[k] == at) {
            sh.at[k] = at;
            return fresh(&sh.slot[k]);
        }
    }
    return NULL;
}

/* Whether nothing orders this thread after the last writer. */
static bool unordered_write(const struct slot *s, const struct moment *m)
{
    return s->writer >= 0 && s->writer != m->thread && s->w_block == m->block &&
           (s->writer / HSP_FAKE_WARP != m->thread / HSP_FAKE_WARP || s->w_warp == m->warp);
}

/* The same for the readers. */
static bool unordered_read(const struct slot *s, const struct moment *m)
{
    if (s->reader == -1 || s->r_block != m->block) {
        return false;
    }
    return s->reader != m->thread / HSP_FAKE_WARP ||
           (s->r_warp == m->warp && s->r_who != m->thread % HSP_FAKE_WARP);
}

static void note_read(struct slot *s, const struct moment *m)
{
    int16_t warp = (int16_t)(m->thread / HSP_FAKE_WARP);
    int16_t lane = (int16_t)(m->thread % HSP_FAKE_WARP);
    bool first = s->reader == -1 || s->r_block != m->block;
    if (first || (s->reader == warp && s->r_warp != m->warp)) {
        s->reader = warp;
        s->r_who = lane;
    } else if (s->reader != warp) {
        s->reader = MANY_WARPS;
    } else if (s->r_who != lane) {
        s->r_who = MANY_LANES;
    }
    s->r_block = m->block;
    s->r_warp = m->warp;
}

static void race_of_threads(const struct slot *s, const struct moment *m, bool write)
{
    bool wrote = unordered_write(s, m);
    hsp_fake_fault("%s shared memory that thread %d %s, with no barrier between",
                   write ? "writes" : "reads",
                   wrote                             ? s->writer
                   : s->reader >= 0 && s->r_who >= 0 ? s->reader * HSP_FAKE_WARP + s->r_who
                                                     : s->reader,
                   wrote ? "wrote" : "read");
}

static void shared_access(uintptr_t p, size_t n, bool write, int thread)
{
    const struct moment m = {thread, hsp_fake_block_epoch(), hsp_fake_warp_epoch()};
    for (uintptr_t at = p & ~(uintptr_t)1; at < p + n; at += 2) {
        struct slot *s = slot_of(at);
        if (s == NULL) {
            return;
        }
        if (unordered_write(s, &m) || (write && unordered_read(s, &m))) {
            race_of_threads(s, &m, write);
        }
        if (write) {
            s->writer = (int16_t)thread;
            s->w_block = m.block;
            s->w_warp = m.warp;
        } else {
            note_read(s, &m);
        }
    }
}

void hsp_fake_shadow_access(const void *p, size_t n, enum hsp_fake_access how)
{
    int thread = hsp_fake_thread();
    if (thread < 0 || n == 0) {
        return;
    }
    if (on_device(p)) {
        device_access(p, n, how);
    } else if ((uintptr_t)p - (uintptr_t)sh.stacks >= sh.stack_bytes && how != HSP_FAKE_ATOMIC &&
               (uintptr_t)p - (uintptr_t)&hsp_fake_thread_index >= sizeof(hsp_fake_thread_index)) {
        shared_access((uintptr_t)p, n, how == HSP_FAKE_WRITE, thread);
    }
}
