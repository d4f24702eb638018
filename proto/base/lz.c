#include "proto/base/lz.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/arena.h"
#include "proto/base/le.h"

#define MIN  8u  /* bytes of a reference: less would save nothing */
#define BITS 16u /* of the table */

static void put_number(struct hsp_buf *out, uint64_t v)
{
    for (; v > 127; v >>= 7) {
        hsp_buf_u8(out, (uint8_t)(v | 128));
    }
    hsp_buf_u8(out, (uint8_t)v);
}

static uint64_t get_number(struct hsp_cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        uint8_t b = hsp_cur_u8(c);
        v |= (uint64_t)(b & 127) << shift;
        if (b < 128) {
            return v;
        }
    }
    c->failed = true;
    return 0;
}

static uint32_t slot(const uint8_t *p)
{
    return (uint32_t)(hsp_le_get(p, MIN) * 0x9e3779b97f4a7c15u >> (64 - BITS));
}

static void put_plain(struct hsp_buf *out, const uint8_t *p, size_t n)
{
    put_number(out, n);
    hsp_buf_append(out, p, n);
}

/* Packs @len bytes. @table maps the hash of 8 bytes to 1 plus the last place with that hash; 0:
 * none. Places inside of a reference are not entered. */
static void pack(const uint8_t *p, size_t len, uint32_t *table, struct hsp_buf *out)
{
    size_t done = 0;
    for (size_t i = 0; i + MIN <= len;) {
        uint32_t *seen = &table[slot(p + i)];
        size_t at = *seen, n = 0;
        *seen = (uint32_t)(i + 1);
        if (at == 0 || memcmp(p + at - 1, p + i, MIN) != 0) {
            i++;
            continue;
        }
        for (at--; i > done && at > 0 && p[i - 1] == p[at - 1]; i--) {
            at--;
        }
        while (i + n < len && p[i + n] == p[at + n]) {
            n++;
        }
        put_plain(out, p + done, i - done);
        put_number(out, n - MIN);
        put_number(out, i - at);
        done = i += n;
    }
    if (done < len) {
        put_plain(out, p + done, len - done);
    }
}

void hsp_lz_pack(const void *data, size_t len, struct hsp_buf *out)
{
    uint32_t *table = len <= HSP_LZ_MAX ? calloc(1u << BITS, sizeof *table) : NULL;
    if (table == NULL) {
        out->nomem = out->nomem || len <= HSP_LZ_MAX;
        out->failed = true;
        return;
    }
    put_number(out, len);
    pack(data, len, table, out);
    free(table);
}

/* Unpacks @c. Returns false if @c is not the packed form of @len bytes. */
static bool unpack(struct hsp_cursor *c, uint8_t *to, size_t len)
{
    size_t done = 0;
    while (done < len) {
        uint64_t n = get_number(c);
        const uint8_t *plain = n <= len - done ? hsp_cur_bytes(c, n) : NULL;
        if (plain == NULL) {
            return false;
        }
        memcpy(to + done, plain, n);
        done += n;
        if (done == len) {
            break;
        }
        n = get_number(c) + MIN;
        uint64_t back = get_number(c);
        if (c->failed || n > len - done || back == 0 || back > done) {
            return false;
        }
        for (uint64_t i = 0; i < n; i++, done++) { /* it may overlap what it makes */
            to[done] = to[done - back];
        }
    }
    return hsp_cur_done(c);
}

void hsp_lz_unpack(const void *data, size_t len, size_t max, struct hsp_arena *arena,
                   struct hsp_cursor *ret)
{
    struct hsp_cursor c;
    hsp_cur_init(&c, data, len);
    uint64_t n = get_number(&c);
    bool good = !c.failed && n <= max;
    uint8_t *to = good ? hsp_arena_alloc(arena, n + 1) : NULL;
    hsp_cur_init(ret, to, to != NULL ? n : 0);
    ret->nomem = good && to == NULL;
    ret->failed = to == NULL || !unpack(&c, to, n);
}
