#include "proto/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/size.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define ARENA_GUARDED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_GUARDED 1
#endif

/* Under the address sanitizer every allocation has exactly the length asked for and a red zone
     * behind it, and rewound memory may not be touched. */
#ifdef ARENA_GUARDED
#include <sanitizer/asan_interface.h>
enum { ARENA_GUARD = 16 };
#else
enum { ARENA_GUARD = 0 };
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum {
    ARENA_ALIGN = 16,
    CHUNK_MIN = 4096,    /* a request arena is often a few hundred bytes */
    CHUNK_MAX = 1 << 20, /* larger steps would only waste; larger objects get their own */
};

/* Chunks form a list from the newest to the oldest; only the newest is allocated from. */
struct chunk {
    struct chunk *older;
    size_t cap;
    size_t used;
    size_t pad; /* keeps data aligned to 16 on 64-bit */
    unsigned char data[];
};

struct hsp_arena {
    struct chunk *top;
    size_t cap;
    size_t used;
    size_t next_chunk;
};

struct hsp_arena *hsp_arena_new(size_t cap_bytes)
{
    struct hsp_arena *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return NULL;
    }
    a->cap = cap_bytes;
    a->next_chunk = CHUNK_MIN;
    return a;
}

static void drop_until(struct hsp_arena *a, const struct chunk *keep)
{
    while (a->top != keep) {
        HSP_ASSERT(a->top != NULL); /* the mark belongs to this arena */
        struct chunk *older = a->top->older;
        free(a->top);
        a->top = older;
    }
}

struct hsp_arena *hsp_arena_free(struct hsp_arena *a)
{
    if (a != NULL) {
        drop_until(a, NULL);
        free(a);
    }
    return NULL;
}

/* Nothing from @used on may be touched. */
static void close_rest(struct chunk *c, size_t used)
{
    c->used = used;
    ASAN_POISON_MEMORY_REGION(c->data + used, c->cap - used);
}

static struct chunk *push_chunk(struct hsp_arena *a, size_t need)
{
    size_t cap = need > a->next_chunk ? need : a->next_chunk;
    size_t total;
    if (!hsp_add_size(cap, sizeof(struct chunk), &total)) {
        return NULL;
    }
    struct chunk *c = malloc(total);
    if (c == NULL) {
        return NULL;
    }
    c->older = a->top;
    c->cap = cap;
    close_rest(c, 0);
    a->top = c;
    if (a->next_chunk < CHUNK_MAX) {
        a->next_chunk *= 2;
    }
    return c;
}

void *hsp_arena_alloc(struct hsp_arena *a, size_t n)
{
    size_t need;
    if (!hsp_add_size(n == 0 ? 1 : n, ARENA_ALIGN - 1 + ARENA_GUARD, &need)) {
        return NULL;
    }
    need &= ~(size_t)(ARENA_ALIGN - 1); /* with the guard, which does not count */
    if (need - ARENA_GUARD > a->cap - a->used) {
        return NULL;
    }
    struct chunk *c = a->top;
    if (c == NULL || need > c->cap - c->used) {
        c = push_chunk(a, need);
        if (c == NULL) {
            return NULL;
        }
    }
    void *p = c->data + c->used;
    c->used += need;
    a->used += need - ARENA_GUARD;
    ASAN_UNPOISON_MEMORY_REGION(p, n);
    return memset(p, 0, n);
}

void *hsp_arena_array(struct hsp_arena *a, size_t n, size_t elem)
{
    size_t total;
    return hsp_mul_size(n, elem, &total) ? hsp_arena_alloc(a, total) : NULL;
}

void *hsp_arena_memdup(struct hsp_arena *a, const void *p, size_t n)
{
    void *q = hsp_arena_alloc(a, n);
    if (q != NULL && n > 0) {
        memcpy(q, p, n);
    }
    return q;
}

char *hsp_arena_strndup(struct hsp_arena *a, const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *q = len < SIZE_MAX ? hsp_arena_alloc(a, len + 1) : NULL;
    if (q != NULL) {
        memcpy(q, s, len);
    }
    return q;
}

char *hsp_arena_strdup(struct hsp_arena *a, const char *s)
{
    return hsp_arena_memdup(a, s, strlen(s) + 1);
}

char *hsp_arena_printf(struct hsp_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *s = n < 0 ? NULL : hsp_arena_alloc(a, (size_t)n + 1);
    if (s != NULL) {
        va_start(ap, fmt);
        (void)vsnprintf(s, (size_t)n + 1, fmt, ap); /* measured above */
        va_end(ap);
    }
    return s;
}

struct hsp_arena_position hsp_arena_mark(const struct hsp_arena *a)
{
    return (struct hsp_arena_position){
        .chunk = a->top,
        .chunk_used = a->top != NULL ? a->top->used : 0,
        .used = a->used,
    };
}

void hsp_arena_rewind(struct hsp_arena *a, struct hsp_arena_position m)
{
    HSP_ASSERT(m.used <= a->used);
    drop_until(a, m.chunk);
    if (a->top != NULL) {
        HSP_ASSERT(m.chunk_used <= a->top->used);
        close_rest(a->top, m.chunk_used);
    }
    a->used = m.used;
}

void hsp_arena_reset(struct hsp_arena *a)
{
    struct chunk *keep = a->top;
    if (keep != NULL) {
        a->top = keep->older;
        drop_until(a, NULL);
        keep->older = NULL;
        close_rest(keep, 0);
        a->top = keep;
    }
    a->used = 0;
}

size_t hsp_arena_used(const struct hsp_arena *a)
{
    return a->used;
}

size_t hsp_arena_cap(const struct hsp_arena *a)
{
    return a->cap;
}
