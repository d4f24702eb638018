/* Grows byte buffers up to a mandatory maximum, and reads untrusted bytes with bounds checks.
 *
 * Role:       text and wire output; wire and file input.
 * Purity:     pure (heap only).
 * Ownership:  the buffer owns data; a cursor borrows its bytes.
 * Bounds:     a buffer never holds more than max bytes; a cursor never reads past its end.
 * Invariants: (I1) failed is sticky: once set nothing more is written or read, every read yields 0.
 *             (I2) in a cursor, a length is compared with the rest before any arithmetic on it.
 * Format:     all numbers are little endian; floating point travels as its IEEE 754 bits.
 */
#ifndef HSP_BUF_H
#define HSP_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

struct hsp_arena;

struct hsp_buf {
    uint8_t *data; /* owned; NULL while empty */
    size_t len;    /* bytes written */
    size_t cap;    /* bytes allocated */
    size_t max;    /* len never exceeds it */
    bool failed;   /* the maximum was hit or memory ran out */
    bool nomem;    /* ... the latter */
};

void hsp_buf_init(struct hsp_buf *b, size_t max);
void hsp_buf_fini(struct hsp_buf *b);

/* Empties the buffer and clears failed and nomem; keeps the memory. */
void hsp_buf_reset(struct hsp_buf *b);

/* HSP_OK; of a buffer that failed: HSP_ENOMEM for want of memory, else HSP_ELIMIT. */
enum hsp_status hsp_buf_status(const struct hsp_buf *b);

/* Appends; on failure the buffer keeps its old content and failed is set. */
void hsp_buf_append(struct hsp_buf *b, const void *p, size_t n);
void hsp_buf_printf(struct hsp_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void hsp_buf_puts(struct hsp_buf *b, const char *s); /* text without its NUL */

/* Room for @n more bytes; false: failed. */
bool hsp_buf_grow(struct hsp_buf *b, size_t n);

/* The n low bytes of v, least significant first. Programs are millions of these: here to be
 * inlined. */
static inline void hsp_buf_le(struct hsp_buf *b, uint64_t v, size_t n)
{
    bool room = !b->failed && n <= b->max - b->len && n < b->cap - b->len;
    if (room || hsp_buf_grow(b, n)) {
        for (size_t i = 0; i < n; i++) {
            b->data[b->len + i] = (uint8_t)(v >> (8 * i));
        }
        b->len += n;
    }
}

static inline void hsp_buf_u8(struct hsp_buf *b, uint8_t v)
{
    hsp_buf_le(b, v, 1);
}

static inline void hsp_buf_u16(struct hsp_buf *b, uint16_t v)
{
    hsp_buf_le(b, v, 2);
}

static inline void hsp_buf_u32(struct hsp_buf *b, uint32_t v)
{
    hsp_buf_le(b, v, 4);
}

static inline void hsp_buf_u64(struct hsp_buf *b, uint64_t v)
{
    hsp_buf_le(b, v, 8);
}

static inline void hsp_buf_i64(struct hsp_buf *b, int64_t v)
{
    hsp_buf_le(b, (uint64_t)v, 8);
}

void hsp_buf_f64(struct hsp_buf *b, double v);

/* u32 length, then the bytes. */
void hsp_buf_str(struct hsp_buf *b, const char *s);
void hsp_buf_blob(struct hsp_buf *b, const void *p, size_t n);

/* The content as a C string (a NUL is kept behind it, not counted in len).
 * "" when empty or failed. Valid until the next append. */
const char *hsp_buf_cstr(struct hsp_buf *b);

struct hsp_cursor {
    const uint8_t *data; /* borrowed */
    size_t len;
    size_t pos;  /* <= len */
    bool failed; /* sticky */
    bool nomem;  /* failed for want of memory: nothing is wrong with the input */
};

void hsp_cur_init(struct hsp_cursor *c, const void *data, size_t len);
size_t hsp_cur_left(const struct hsp_cursor *c);

/* True when everything was read and nothing failed. */
bool hsp_cur_done(const struct hsp_cursor *c);

uint8_t hsp_cur_u8(struct hsp_cursor *c);
uint16_t hsp_cur_u16(struct hsp_cursor *c);
uint32_t hsp_cur_u32(struct hsp_cursor *c);
uint64_t hsp_cur_u64(struct hsp_cursor *c);
int64_t hsp_cur_i64(struct hsp_cursor *c);
double hsp_cur_f64(struct hsp_cursor *c);

/* A count of items that take at least @min_bytes (> 0) each: fails above @max and when the rest
 * of the input cannot hold that many. So an array of that length may be allocated safely. */
uint32_t hsp_cur_count(struct hsp_cursor *c, uint32_t max, size_t min_bytes);

/* @n bytes, borrowed from the input; NULL on failure (also with n = 0 after a failure). */
const uint8_t *hsp_cur_bytes(struct hsp_cursor *c, size_t n);

/* u32 length + bytes, borrowed; fails when longer than @max. */
const uint8_t *hsp_cur_blob(struct hsp_cursor *c, size_t max, size_t *ret_len);

/* u32 length + bytes copied into @arena with a NUL. Fails when longer than @max, when the bytes
 * contain a NUL, or without memory. Never NULL: "" on failure. */
const char *hsp_cur_str(struct hsp_cursor *c, size_t max, struct hsp_arena *arena);

#endif
