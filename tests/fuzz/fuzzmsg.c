#include "tests/fuzz/fuzzmsg.h"

#include <math.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/size.h"
#include "proto/wire/msg_table.h"

uint8_t hsp_fuzz_byte(struct hsp_cursor *c)
{
    return hsp_cur_left(c) > 0 ? hsp_cur_u8(c) : 0;
}

/* At most @max, 0: any. */
static uint64_t number(struct hsp_cursor *c, uint64_t max)
{
    uint8_t b = hsp_fuzz_byte(c);
    uint64_t v = b < 224 ? b % 8 : UINT64_MAX >> (b % 32 * 2);
    return max == 0 || v <= max ? v : v % (max + 1);
}

static double real(struct hsp_cursor *c)
{
    static const double v[] = {0, 1, 0.5, -1, 1e-9, 1e9, 1e300, (double)INFINITY, (double)NAN};
    return v[hsp_fuzz_byte(c) % HSP_ARRAY_LEN(v)];
}

static const char *text(struct hsp_cursor *c, uint32_t limit)
{
    static const char *const v[] = {"a", "b", "c", "", "cpu", "keeper", "127.0.0.1:1", "unix:/x"};
    const char *s = v[hsp_fuzz_byte(c) % HSP_ARRAY_LEN(v)];
    return strlen(s) <= limit ? s : "";
}

static void fill(struct hsp_cursor *c, const struct hsp_wire_field *f, uint32_t n, char *base,
                 struct hsp_arena *arena);

static void fill_list(struct hsp_cursor *c, const struct hsp_wire_field *f, char *base,
                      struct hsp_arena *arena)
{
    uint32_t count = (uint32_t)number(c, 3);
    size_t size = f->sub != NULL ? f->sub_size : sizeof(double);
    char *items = hsp_arena_array(arena, count, size);
    HSP_ASSERT(items != NULL);
    for (uint32_t i = 0; i < count; i++) {
        double v = f->sub != NULL ? 0 : real(c);
        if (f->sub != NULL) {
            fill(c, f->sub, f->n_sub, items + i * size, arena);
        } else {
            memcpy(items + i * size, &v, sizeof v);
        }
    }
    memcpy(base + f->offset, &items, sizeof items);
    memcpy(base + f->count_offset, &count, sizeof count);
}

static void fill_one(struct hsp_cursor *c, const struct hsp_wire_field *f, char *at)
{
    uint32_t u = 0;
    uint64_t u64 = 0;
    double d = 0;
    bool b = false;
    const char *s = NULL;
    switch (f->type) {
    case HSP_F_U32:
        u = (uint32_t)number(c, f->limit > 0 ? f->limit : UINT32_MAX);
        memcpy(at, &u, sizeof u);
        break;
    case HSP_F_ENUM:
        u = hsp_fuzz_byte(c) % f->limit;
        memcpy(at, &u, sizeof u);
        break;
    case HSP_F_U64:
        u64 = number(c, 0);
        memcpy(at, &u64, sizeof u64);
        break;
    case HSP_F_F64:
        d = real(c);
        memcpy(at, &d, sizeof d);
        break;
    case HSP_F_BOOL:
        b = hsp_fuzz_byte(c) % 2 != 0;
        memcpy(at, &b, sizeof b);
        break;
    case HSP_F_STR:
        s = text(c, f->limit);
        memcpy(at, &s, sizeof s);
        break;
    case HSP_F_DIGEST: memset(at, hsp_fuzz_byte(c) % 2, sizeof(struct hsp_digest)); break;
    case HSP_F_KEY: memset(at, hsp_fuzz_byte(c), HSP_KEY_BYTES); break;
    case HSP_F_LIST:
    case HSP_F_F64S: break;
    }
}

static void fill(struct hsp_cursor *c, const struct hsp_wire_field *f, uint32_t n, char *base,
                 struct hsp_arena *arena)
{
    for (uint32_t i = 0; i < n; i++) {
        if (f[i].type == HSP_F_LIST || f[i].type == HSP_F_F64S) {
            fill_list(c, &f[i], base, arena);
        } else {
            fill_one(c, &f[i], base + f[i].offset);
        }
    }
}

struct hsp_msg hsp_fuzz_message(struct hsp_cursor *c, uint16_t type, struct hsp_arena *arena)
{
    struct hsp_msg m = {.type = type, .epoch = number(c, 0)};
    const struct hsp_msg_desc *d = hsp_msg_desc_of(type);
    HSP_ASSERT(d != NULL);
    fill(c, d->fields, d->n_fields, (char *)&m.u, arena);
    return m;
}

uint16_t hsp_fuzz_type(struct hsp_cursor *c)
{
    static const uint16_t types[] = {
#define TYPE(n, v, s, w) HSP_MSG_##n,
        HSP_MSG_MAP(TYPE)
#undef TYPE
    };
    uint16_t n = 0;
    while (n < HSP_ARRAY_LEN(types) && types[n] < 100) {
        n++;
    }
    return types[hsp_fuzz_byte(c) % n];
}
