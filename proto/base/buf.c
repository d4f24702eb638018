#include "proto/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/arena.h"

enum { BUF_MIN = 64 }; /* first allocation; most messages are short */

void hsp_buf_init(struct hsp_buf *b, size_t max)
{
    *b = (struct hsp_buf){.max = max};
}

void hsp_buf_fini(struct hsp_buf *b)
{
    free(b->data);
    *b = (struct hsp_buf){.max = b->max};
}

void hsp_buf_reset(struct hsp_buf *b)
{
    b->len = 0;
    b->failed = false;
    b->nomem = false;
}

enum hsp_status hsp_buf_status(const struct hsp_buf *b)
{
    return !b->failed ? HSP_OK : b->nomem ? HSP_ENOMEM : HSP_ELIMIT;
}

/* Room for n more bytes and one NUL behind them (not counted against max). */
static bool reserve(struct hsp_buf *b, size_t n)
{
    if (b->failed) {
        return false;
    }
    if (n > b->max - b->len || b->len + n == SIZE_MAX) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + n + 1;
    if (need <= b->cap) {
        return true;
    }
    size_t cap = b->cap < BUF_MIN ? BUF_MIN : b->cap;
    while (cap < need) {
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    }
    uint8_t *p = realloc(b->data, cap);
    if (p == NULL) {
        b->failed = true;
        b->nomem = true;
        return false;
    }
    b->data = p;
    b->cap = cap;
    return true;
}

void hsp_buf_append(struct hsp_buf *b, const void *p, size_t n)
{
    if (reserve(b, n) && n > 0) {
        memcpy(b->data + b->len, p, n);
        b->len += n;
    }
}

void hsp_buf_puts(struct hsp_buf *b, const char *s)
{
    hsp_buf_append(b, s, strlen(s));
}

void hsp_buf_printf(struct hsp_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->failed = true;
        return;
    }
    if (reserve(b, (size_t)n)) {
        va_start(ap, fmt);
        (void)vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, ap); /* measured above */
        va_end(ap);
        b->len += (size_t)n;
    }
}

bool hsp_buf_grow(struct hsp_buf *b, size_t n)
{
    return reserve(b, n);
}

void hsp_buf_f64(struct hsp_buf *b, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    hsp_buf_le(b, bits, 8);
}

void hsp_buf_blob(struct hsp_buf *b, const void *p, size_t n)
{
    if (n > UINT32_MAX) {
        b->failed = true;
        return;
    }
    hsp_buf_u32(b, (uint32_t)n);
    hsp_buf_append(b, p, n);
}

void hsp_buf_str(struct hsp_buf *b, const char *s)
{
    hsp_buf_blob(b, s, strlen(s));
}

const char *hsp_buf_cstr(struct hsp_buf *b)
{
    if (b->failed || b->data == NULL) {
        return "";
    }
    b->data[b->len] = '\0'; /* reserve() always leaves room for it */
    return (const char *)b->data;
}

void hsp_cur_init(struct hsp_cursor *c, const void *data, size_t len)
{
    *c = (struct hsp_cursor){.data = data, .len = len};
}

size_t hsp_cur_left(const struct hsp_cursor *c)
{
    return c->failed ? 0 : c->len - c->pos;
}

bool hsp_cur_done(const struct hsp_cursor *c)
{
    return !c->failed && c->pos == c->len;
}

const uint8_t *hsp_cur_bytes(struct hsp_cursor *c, size_t n)
{
    static const uint8_t nothing[1]; /* an empty input may have a NULL data pointer */
    if (c->failed || n > c->len - c->pos) {
        c->failed = true;
        return NULL;
    }
    const uint8_t *p = n == 0 ? nothing : c->data + c->pos;
    c->pos += n;
    return p;
}

static uint64_t get_le(struct hsp_cursor *c, size_t n)
{
    const uint8_t *p = hsp_cur_bytes(c, n);
    uint64_t v = 0;
    for (size_t i = 0; p != NULL && i < n; i++) {
        v |= (uint64_t)p[i] << (8 * i);
    }
    return v;
}

uint8_t hsp_cur_u8(struct hsp_cursor *c)
{
    return (uint8_t)get_le(c, 1);
}

uint16_t hsp_cur_u16(struct hsp_cursor *c)
{
    return (uint16_t)get_le(c, 2);
}

uint32_t hsp_cur_u32(struct hsp_cursor *c)
{
    return (uint32_t)get_le(c, 4);
}

uint64_t hsp_cur_u64(struct hsp_cursor *c)
{
    return get_le(c, 8);
}

int64_t hsp_cur_i64(struct hsp_cursor *c)
{
    return (int64_t)get_le(c, 8);
}

double hsp_cur_f64(struct hsp_cursor *c)
{
    uint64_t bits = get_le(c, 8);
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

uint32_t hsp_cur_count(struct hsp_cursor *c, uint32_t max, size_t min_bytes)
{
    uint32_t n = hsp_cur_u32(c);
    if (n > max || (min_bytes > 0 && n > hsp_cur_left(c) / min_bytes)) {
        c->failed = true;
    }
    return c->failed ? 0 : n;
}

const uint8_t *hsp_cur_blob(struct hsp_cursor *c, size_t max, size_t *ret_len)
{
    uint32_t n = hsp_cur_u32(c);
    if (n > max) {
        c->failed = true;
    }
    const uint8_t *p = hsp_cur_bytes(c, n);
    *ret_len = p != NULL ? n : 0;
    return p;
}

const char *hsp_cur_str(struct hsp_cursor *c, size_t max, struct hsp_arena *arena)
{
    size_t n;
    const uint8_t *p = hsp_cur_blob(c, max, &n);
    if (p == NULL || memchr(p, 0, n) != NULL) {
        c->failed = true;
        return "";
    }
    char *s = hsp_arena_strndup(arena, (const char *)p, n);
    if (s == NULL) {
        c->failed = true;
        c->nomem = true;
        return "";
    }
    return s;
}
