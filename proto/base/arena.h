/* Gives memory with one lifetime: allocate many, free once, never above a hard cap.
 *
 * Role:      one arena per lifetime (a planning run, an epoch, a request).
 * Purity:    pure (heap only).
 * Threads:   confined to the thread that uses it.
 * Ownership: everything allocated belongs to the arena and dies at rewind, reset or free.
 * Bounds:    the sum of the allocations, each rounded up to 16 bytes, never exceeds the cap;
 *            the heap behind it may be larger by at most one chunk (1 MiB) per live chunk.
 */
#ifndef HSP_ARENA_H
#define HSP_ARENA_H

#include <stddef.h>

struct hsp_arena; /* opaque */

/* A place in an arena to come back to. Valid until the arena is rewound before it or reset. */
struct hsp_arena_position {
    void *chunk;
    size_t chunk_used;
    size_t used;
};

/* Returns NULL when the heap is exhausted. No chunk is allocated before the first use. */
struct hsp_arena *hsp_arena_new(size_t cap_bytes);

/* @a may be NULL. Always returns NULL. */
struct hsp_arena *hsp_arena_free(struct hsp_arena *a);

/* @n zeroed bytes, aligned to 16; a distinct non-NULL pointer also for n = 0.
 * NULL beyond the cap or without heap: the arena is unchanged. */
void *hsp_arena_alloc(struct hsp_arena *a, size_t n);

/* n * elem zeroed bytes; NULL also when the product overflows. */
void *hsp_arena_array(struct hsp_arena *a, size_t n, size_t elem);

/* Copies; NULL when out of memory. */
char *hsp_arena_strdup(struct hsp_arena *a, const char *s);
char *hsp_arena_strndup(struct hsp_arena *a, const char *s, size_t n);
void *hsp_arena_memdup(struct hsp_arena *a, const void *p, size_t n);
char *hsp_arena_printf(struct hsp_arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

struct hsp_arena_position hsp_arena_mark(const struct hsp_arena *a);

/* Frees everything allocated after @m was taken. */
void hsp_arena_rewind(struct hsp_arena *a, struct hsp_arena_position m);

/* Frees everything; keeps one chunk for the next use. */
void hsp_arena_reset(struct hsp_arena *a);

/* Bytes handed out, each allocation rounded up to 16. */
size_t hsp_arena_used(const struct hsp_arena *a);
size_t hsp_arena_cap(const struct hsp_arena *a);

#endif
